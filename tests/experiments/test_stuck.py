"""Tests what the text says about the gradient and the positions of a model that is stuck."""

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.experiments import experiment, stored
from glassformer.experiments.norm_placement import LOWER, RATES, SEEDS
from glassformer.experiments.stuck import of_a_batch
from glassformer.experiments.training import new_model, text_task

EXPERIMENT = experiment("stuck")
RATE = RATES[0]


def of(placement, rate, what, when="after"):
    """Returns the results of all seeds."""
    runs = stored("stuck", placement=placement, learning_rate=rate)
    assert [run.settings["seed"] for run in runs] == list(SEEDS)
    return np.array([run.found[when][what] for run in runs])


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("rate", [RATE, LOWER])
def test_they_are_the_runs_of_norm_placement(placement, rate):
    same = {"placement": placement, "learning_rate": rate}
    ours = [run.found["validation_loss"] for run in stored("stuck", **same)]
    theirs = stored("norm_placement", n_layers=8, warmup=0, zero_init=None, steps=None, **same)
    np.testing.assert_allclose(ours, [run.found["validation_loss"] for run in theirs], atol=2e-3)


def test_in_the_blocks_the_gradient_has_nearly_vanished():
    """It is far below that of a model that learns, and far below that of its own last block."""
    pre, post = of("pre", RATE, "gradient"), of("post", RATE, "gradient")
    assert (pre[:, 0] / post[:, 0]).min() > 500
    assert (post[:, -1] / post[:, 0]).min() > 100


def test_what_is_left_is_outside_the_blocks():
    whole, outside = of("post", RATE, "whole"), of("post", RATE, "outside")
    assert outside.min() > 0.4
    assert (outside / whole).min() > 0.95


def test_the_positions_have_become_alike_in_training():
    for placement in ("pre", "post"):
        assert of(placement, RATE, "differ", "before").min() > 0.04
    assert of("post", RATE, "differ").max() < 2e-6
    assert of("pre", RATE, "differ").min() > 0.4


def test_not_so_at_the_lower_rate():
    assert of("post", LOWER, "differ").min() > 5e-3
    assert of("post", LOWER, "gradient").min() > 0.02


# The short version, and its parts


@pytest.mark.weekly
def test_a_short_version_says_the_same():
    pre, post = (
        EXPERIMENT.measure_shortly(placement=placement, learning_rate=3 * RATE, seed=0)
        for placement in ("pre", "post")
    )
    assert post["before"]["differ"] > 0.05
    assert post["after"]["differ"] < 1e-3 < 0.05 < pre["after"]["differ"]
    assert post["after"]["gradient"][0] < pre["after"]["gradient"][0] / 10


def test_the_parts_make_up_the_whole_and_the_model_stays_as_it_was():
    task = text_task(0, 5000)
    model = new_model("pre", 2, task, 0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    inputs, targets = task.batch(0)
    ids, targets = torch.from_numpy(inputs["ids"]), torch.from_numpy(targets)
    found = of_a_batch(model, ids, targets)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])
    assert all(weight.grad is None for weight in model.parameters())
    nn.cross_entropy(model(ids), targets).backward()
    blocks = sum(weight.grad.square().sum().item() for weight in model.decoder.blocks.parameters())
    assert found["whole"] ** 2 == pytest.approx(blocks + found["outside"] ** 2, rel=1e-5)
    for i, block in enumerate(model.decoder.blocks):
        two = [block.attention.W_q.weight.grad, block.attention.W_k.weight.grad]
        assert found["queries_keys"][i] == pytest.approx(torch.cat(two).norm().item(), rel=1e-5)
