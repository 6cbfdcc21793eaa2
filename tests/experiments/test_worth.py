"""What parts are worth alone and together: what chapter 07 says of it holds in the stored runs, and in a short one."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from glassformer.experiments import experiment, stored
from glassformer.experiments.worth import SEEDS, loss_without, measure, the_books
from glassformer.inside import ablated, mean_loss

SUBLAYERS = [f"block {i}: {kind}" for i in range(4) for kind in ("attention", "feed-forward")]


@cache
def found():
    """What each of the four models showed, the book's first."""
    return [run.found for run in stored("worth")]


def interaction(one, first, second):
    return one["sublayers"][f"{first} + {second}"] - one["alone"][first] - one["alone"][second]


def kind(part):
    return part.partition(": ")[2]


def test_all_runs_are_kept():
    assert [run.settings for run in stored("worth")] == list(experiment("worth").runs)
    assert len(found()) == 1 + len(SEEDS) == 4


def test_an_unknown_model_is_refused(as_readers_run_it):
    with pytest.raises(ValueError, match="model='large' is not one of"):
        measure(model="large")


def test_several_parts_are_out_at_once_and_come_back():
    model, _, validation = the_books()
    ids = validation[:129]
    batches = [({"ids": ids[None, :-1]}, ids[None, 1:])]
    whole = mean_loss(model, batches)
    assert loss_without(model, batches, []) == whole
    with ablated(model, 0, "attention", [1, 3]), ablated(model, 2, "feed-forward"):
        wanted = mean_loss(model, batches)
    parts = ["block 0: head 1", "block 2: feed-forward", "block 0: head 3"]
    assert loss_without(model, batches, parts) == wanted != whole
    assert mean_loss(model, batches) == whole


def test_the_books_model_is_the_one_that_inside_measured_on_more_text():
    [run] = stored("inside", part="ablations")
    for part, rise in found()[0]["alone"].items():
        assert rise == pytest.approx(run.found[part] - run.found["nothing"], abs=0.03)


# What it found, and what chapter 07 says of it


def test_of_attentions_the_first_is_missed_most_and_of_feed_forwards_the_last():
    for one in found():
        costs = {part: one["alone"][part] for part in SUBLAYERS}
        assert min(costs.values()) > 0
        assert max(SUBLAYERS[0::2], key=lambda part: costs[part]) == "block 0: attention"
        assert max(SUBLAYERS[1::2], key=lambda part: costs[part]) == "block 3: feed-forward"


def test_two_of_a_kind_are_missed_more_together_than_the_sum_but_for_one_pair():
    pairs = [pair for pair in combinations(SUBLAYERS, 2) if kind(pair[0]) == kind(pair[1])]
    above = [interaction(one, *pair) > 0 for one in found() for pair in pairs]
    assert (sum(above), len(above)) == (47, 48)
    for one in found():
        mean = {
            which: np.mean([interaction(one, *pair) for pair in pairs if kind(pair[0]) == which])
            for which in ("attention", "feed-forward")
        }
        assert mean["attention"] > mean["feed-forward"] > 0.02


def test_in_the_books_model_the_feed_forward_of_block_0_does_harm_without_its_attention():
    book, *others = (
        one["sublayers"]["block 0: attention + block 0: feed-forward"] - one["alone"]["block 0: attention"]
        for one in found()
    )
    assert book < -0.05
    assert min(others) > 0.05


def test_feed_forwards_without_attention_are_worse_than_no_block_at_all():
    for one in found():
        assert one["kind"]["attention"] > one["kind"]["both"] > one["kind"]["feed-forward"]


def test_the_heads_of_a_block_are_missed_more_together_than_the_sum():
    for one in found():
        for i in range(4):
            heads = sum(one["alone"][f"block {i}: head {h}"] for h in range(4))
            assert one["alone"][f"block {i}: attention"] > heads


def test_in_short_too_two_attentions_are_missed_more_together():
    short = experiment("worth").measure_shortly(model="small", seed=5)
    assert interaction(short, "block 0: attention", "block 1: attention") > 0.03
    assert short["kind"]["attention"] > short["kind"]["both"]
    assert len(short["fewer"]) == 9
    assert short["fewer"][0] == short["nothing"]
    assert short["fewer"][-1] - short["nothing"] == pytest.approx(short["kind"]["attention"])
