"""Tests that the instruments that only read take a model of either room, and what the others say."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

from glassformer import inside, nn

from .models import GPT2, build, in_torch, some_ids

BATCHES = [({"ids": np.array([[3, 1, 4, 1]])}, np.array([[1, 4, 1, 5]]))]
REPEATED = np.array([[3, 1, 4, 3, 1, 4]])

READING = {
    "mean_loss": lambda model: inside.mean_loss(model, BATCHES),
    "ablations": lambda model: list(inside.ablations(model, BATCHES).values()),
    "writes": lambda model: list(inside.writes(model, some_ids(GPT2)).values()),
    "logit_attribution": lambda model: list(inside.logit_attribution(model, some_ids(GPT2), 2).values()),
    "logit_lens": lambda model: inside.logit_lens(model, some_ids(GPT2)),
    "previous_token_scores": lambda model: inside.previous_token_scores(model, some_ids(GPT2)),
    "induction_scores": lambda model: inside.induction_scores(model, REPEATED[:, :3]),
    "promoted_logits": lambda model: inside.promoted_logits(model, 1),
}


@pytest.mark.parametrize("name", READING)
def test_a_torch_model_gives_the_same_numbers(name):
    model = build(GPT2)
    twin = in_torch(model)
    assert isinstance(twin, nn.Transformer)
    for ours, its in zip(
        np.atleast_1d(READING[name](model)), np.atleast_1d(READING[name](twin)), strict=True
    ):
        assert_close(its, ours, DOUBLE)


def test_a_model_in_bfloat16_is_read_in_float32():
    twin = in_torch(build(GPT2)).to(torch.bfloat16)
    assert inside.logit_lens(twin, some_ids(GPT2)).dtype == np.float32


def test_a_torch_model_in_training_is_refused_like_any_other():
    twin = nn.Transformer(GPT2.replace(dropout=0.1), generator=torch.Generator()).train()
    with pytest.raises(ValueError, match=r"in training with dropout=0\.1"):
        inside.logit_lens(twin, some_ids(GPT2))


@pytest.mark.parametrize(
    "change",
    [lambda model: inside.ablated(model, 0, "attention"), inside.counting],
    ids=["ablated", "counting"],
)
def test_what_changes_a_model_names_the_way_out(change):
    with (
        pytest.raises(TypeError, match=r"; scratch\.in_numpy\(model\) copies one"),
        change(in_torch(build(GPT2))),
    ):
        pass
