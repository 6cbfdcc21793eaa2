"""Tests the measured cost of a run: products as in the layers' formulas, and a model that is left unchanged."""

import numpy as np
import pytest

from glassformer import scratch
from glassformer.inside.cost import PARTS, cost
from glassformer.published import published

T, V, D, F, H, N = 5, 11, 12, 20, 3, 2


@pytest.fixture(scope="module")
def model():
    config = published("gpt2").config.replace(
        vocab_size=V, context_length=8, d_model=D, d_ff=F, n_heads=H, n_layers=N, attention_bias="none"
    )
    return scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64)


@pytest.fixture(scope="module")
def found(model):
    return cost(model, np.arange(T + 1) % V)


@pytest.mark.parametrize(
    ("part", "forward"),
    {
        "embedding": 0,
        "attention: maps": N * T * 4 * D * D,
        "attention: scores and mix": N * T * T * 2 * D,
        "feed-forward: maps": N * T * 2 * D * F,
        "feed-forward: activation": 0,
        "head": T * D * V,
    }.items(),
)
def test_products_are_those_of_the_formulas_and_back_there_are_two_of_each(found, part, forward):
    softmax = N * H * T * T if "scores" in part else 0  # its mean, on the way back
    assert found[part].products["forward"] == forward
    assert found[part].products["back"] == 2 * forward + softmax


def test_what_is_kept_is_counted_once_though_three_maps_share_it(found):
    size = 8 * T  # bytes of one feature
    assert found["norms"].saved == (2 * N + 1) * size * (D + 1)  # the standard vectors, and one number a row
    assert found["attention: maps"].saved == N * size * 2 * D  # what q, k and v read, and what W_o reads
    assert found["feed-forward: maps"].saved == N * size * (D + F)
    assert set(found) == set(PARTS)


def test_the_model_is_left_as_it_was(model, found):
    assert not model.gradients()
    assert all(type(weight) is np.ndarray for weight in model.named_parameters().values())
    assert not any({"forward", "backward"} & set(vars(layer)) for _, layer in model.layers())
