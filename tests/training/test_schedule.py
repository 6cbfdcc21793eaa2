"""Tests configurations and what they imply for each step."""

import json
import math
from dataclasses import asdict

import pytest

from glassformer.train import TrainingConfig, ema_share, muon_momentum, rate_share
from glassformer.train.schedule import is_due

from .small import config

ODD = TrainingConfig(
    steps=7,
    batch_size=6,
    accumulation=3,
    optimizer="muon",
    embedding_rate=0.3,
    betas=(0.8, 0.9),
    eps=1e-12,
    ema=0.5,
    zero_init=True,
    device="cpu",
)


def test_files_have_no_tuples():
    assert TrainingConfig.from_fields(json.loads(json.dumps(asdict(ODD)))) == ODD


def test_replace_and_differences():
    other = ODD.replace(steps=8, device="cuda", save_every=1)
    assert ODD.differences(other) == ["steps was 7 and is now 8"]
    assert ODD.differences(ODD) == []


def test_warmup_then_down_in_a_line():
    shares = [rate_share(config(steps=8, warmup=3), step) for step in range(9)]
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1, 0.8, 0.6, 0.4, 0.2, 0])


def test_cosine_to_a_share():
    shares = [
        rate_share(config(steps=4, warmup=0, decay="cosine", final_share=0.2), step) for step in range(5)
    ]
    half = math.sqrt(0.5) / 2
    assert shares == pytest.approx([1, 0.2 + 0.8 * (0.5 + half), 0.6, 0.2 + 0.8 * (0.5 - half), 0.2])


def test_no_decay():
    assert [rate_share(config(steps=3, warmup=1, decay="none"), step) for step in range(4)] == [0.5, 1, 1, 1]


def test_a_warmup_longer_than_the_run():
    assert [rate_share(config(steps=3, warmup=3), step) for step in range(4)] == [0.25, 0.5, 0.75, 1]


def test_muons_momentum():
    given = config(muon_momentum_start=0.8, muon_momentum=0.9, muon_momentum_warmup=4)
    assert [muon_momentum(given, step) for step in range(6)] == pytest.approx(
        [0.8, 0.825, 0.85, 0.875, 0.9, 0.9]
    )
    assert muon_momentum(config(muon_momentum_warmup=0), 0) == 0.95


def test_the_averages_share():
    given = config(ema=0.5)
    assert [ema_share(given, step) for step in (0, 1, 8, 100)] == [1 / 10, 2 / 11, 0.5, 0.5]


def test_what_is_due():
    assert [step for step in range(1, 11) if is_due(4, step, 10)] == [4, 8, 10]
    assert [step for step in range(1, 11) if is_due(0, step, 10)] == [10]


BAD = {
    "steps": ({"steps": 0}, ValueError, "steps=0 must be at least 1"),
    "a fraction": ({"steps": 2.0}, TypeError, "steps=2.0 must be a whole number"),
    "batch_size": ({"batch_size": "4"}, TypeError, "batch_size='4' must be a whole number"),
    "accumulation": ({"accumulation": 3}, ValueError, "batch_size=4 is not divisible by accumulation=3"),
    "optimizer": ({"optimizer": "sgd"}, ValueError, "optimizer='sgd' is not one of 'adamw', 'muon'"),
    "learning_rate": ({"learning_rate": 0}, ValueError, "learning_rate=0 must be positive"),
    "norm_rate": ({"norm_rate": -1.0}, ValueError, "norm_rate=-1.0 must be positive"),
    "betas": ({"betas": (0.9, 1.0)}, ValueError, r"betas\[1\]=1.0 must be at least 0 and below 1"),
    "one beta": ({"betas": 0.9}, TypeError, "betas=0.9 must be a tuple of two numbers"),
    "weight_decay": ({"weight_decay": -0.1}, ValueError, "weight_decay=-0.1 must be zero or more"),
    "embedding_decay": (
        {"embedding_decay": math.nan},
        ValueError,
        "embedding_decay=nan must be zero or more",
    ),
    "momentum": ({"muon_momentum": 1}, ValueError, "muon_momentum=1 must be at least 0 and below 1"),
    "warmup": ({"warmup": -1}, ValueError, "warmup=-1 must be at least 0"),
    "decay": ({"decay": "step"}, ValueError, "decay='step' is not one of 'linear', 'cosine', 'none'"),
    "final_share": ({"final_share": 1.1}, ValueError, "final_share=1.1 must be at most 1"),
    "clip": ({"clip": math.inf}, ValueError, "clip=inf must be zero or more, and finite"),
    "ema": ({"ema": 1.0}, ValueError, "ema=1.0 must be at least 0 and below 1"),
    "zero_init": ({"zero_init": 1}, TypeError, "zero_init=1 must be True or False"),
    "init": ({"init": "xavier"}, ValueError, "init='xavier' is not one of 'ours', 'gpt2'"),
    "dtype": ({"dtype": "float16"}, ValueError, "dtype='float16' is not one of 'float32', 'bfloat16'"),
    "device": ({"device": 0}, TypeError, "device=0 must be a str"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_values(case, as_readers_run_it):
    changes, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 1}, "TrainingConfig needs the field 'batch_size'"),
        (
            {"steps": 1, "batch_size": 1, "warm_up": 3},
            "TrainingConfig has no field 'warm_up'; did you mean 'warmup'?",
        ),
        (
            {"steps": 1, "batch_size": 1, "zzz": 3},
            "TrainingConfig has no field 'zzz'; the fields are steps, batch_size",
        ),
    ],
)
def test_bad_fields(given, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig.from_fields(given)
