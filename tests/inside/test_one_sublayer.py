"""Tests instruments on a model of which one block has no feed-forward network."""

import numpy as np
import pytest
from close import DOUBLE, assert_close

from glassformer.inside import ablated, ablations, counting, multiply_adds, promoted_logits, writes
from glassformer.inside.look import entering, look

from .models import MODERN, build, some_ids

ALONE = MODERN.replace(
    kinds={"alone": {"feedforward": "none", "d_ff": 99}, "both": {}}, order="alone both", n_layers=4
)
IDS = some_ids(ALONE)


@pytest.fixture(scope="module")
def model():
    return build(ALONE)


def test_the_writes_sum_to_the_stream(model):
    seen, written = look(model, IDS), writes(model, IDS)
    assert [part for part in written if "feed-forward" in part] == [
        "block 1: feed-forward",
        "block 3: feed-forward",
    ]
    assert_close(sum(written.values()), seen.arrays("stream")[-1], DOUBLE)


def test_what_enters_is_that_of_the_block(model):
    seen = look(model, IDS)
    for i, neurons in enumerate(seen.arrays("neurons")):
        np.testing.assert_array_equal(entering(seen, 2 * i + 1, "feed-forward"), neurons)


def test_a_network_that_is_not_there_is_left_out_or_refused(model):
    losses = ablations(model, [({"ids": IDS[:, :-1]}, IDS[:, 1:])], mean_over=IDS)
    networks = [part for part in losses if "feed-forward" in part]
    assert networks == ["block 1: feed-forward", "block 3: feed-forward"]
    assert len({losses[part] for part in ("nothing", *networks)}) == 3
    for instrument in (
        lambda: ablated(model, 2, "feed-forward").__enter__(),
        lambda: promoted_logits(model, 2),
    ):
        with pytest.raises(ValueError, match=r"^layer 2 has no feed-forward network$"):
            instrument()


def test_what_is_counted_is_what_the_formula_says(model):
    with counting(model) as count:
        model(IDS[0])
    assert count.multiply_adds == multiply_adds(ALONE, IDS.shape[1], n_logits=IDS.shape[1])
