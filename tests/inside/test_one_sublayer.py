"""Tests instruments on a model of which one block has no feed-forward network."""

import numpy as np
import pytest
from close import DOUBLE, assert_close

from glassformer.inside import (
    ablated,
    ablations,
    cost,
    counting,
    memories,
    multiply_adds,
    promoted_logits,
    writes,
)
from glassformer.inside.look import entering, look

from .models import EXPERTS, MODERN, build, some_ids

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


# And of which one has experts


def test_what_needs_one_last_matrix_refuses_experts_and_the_rest_reads_them():
    mixed, ids = build(EXPERTS), some_ids(EXPERTS)
    assert_close(sum(writes(mixed, ids).values()), look(mixed, ids).arrays("stream")[-1], DOUBLE)
    assert promoted_logits(mixed, 0).shape == (10, 11)
    for instrument in (
        lambda: ablated(mixed, 1, "feed-forward").__enter__(),
        lambda: promoted_logits(mixed, 1),
        lambda: memories(mixed, np.arange(60) % 11),
        lambda: ablations(mixed, [({"ids": ids[:, :-1]}, ids[:, 1:])]),
    ):
        with pytest.raises(ValueError, match=r"^layer 1 has 4 experts, each with neurons of its own"):
            instrument()
    maps = cost(mixed, ids[0])["feed-forward: maps"].products["forward"]
    dense, sparse = 3 * 10, 3 * (2 * 5 + 3) + 4 + 1  # two experts, a shared one, the router and the gate
    assert maps == 6 * 8 * (dense + sparse)
