"""Tests what chapter 07 says about the value of parts, alone and together, on the stored runs and on a short one."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from glassformer.experiments import experiment, stored

SUBLAYERS = [f"block {i}: {kind}" for i in range(4) for kind in ("attention", "feed-forward")]


@cache
def found():
    """Returns the results of each of the four models, the book's first."""
    return [run.found for run in stored("worth")]


def interaction(one, first, second):
    return one["sublayers"][f"{first} + {second}"] - one["alone"][first] - one["alone"][second]


def kind(part):
    return part.partition(": ")[2]


def test_the_books_model_is_the_one_that_inside_measured_on_more_text():
    [run] = stored("inside", part="ablations")
    for part, rise in found()[0]["alone"].items():
        assert rise == pytest.approx(run.found[part] - run.found["nothing"], abs=0.03)


# What it found, and what chapter 07 says of it


WAYS = ("alone", "mean")  # zeros, and the mean


def most(one, way, which):
    return max(SUBLAYERS[which::2], key=lambda part: one[way][part])


def test_no_sublayer_can_go_and_of_feed_forwards_the_last_is_missed_most_both_ways():
    for one in found():
        for way in WAYS:
            assert min(one[way][part] for part in SUBLAYERS) > 0.02
            assert most(one, way, 1) == "block 3: feed-forward"
        assert all(one["mean"][part] > one["alone"][part] for part in SUBLAYERS[1::2])


def test_of_attentions_the_first_is_missed_most_with_zeros_and_with_means_in_the_books_model_alone():
    book, *small = found()
    first = "block 0: attention"
    assert {most(one, "alone", 0) for one in found()} == {most(book, "mean", 0)} == {first}
    for one in small:
        assert most(one, "mean", 0) != first
        assert one["mean"][first] < one["alone"][first] / 2


def test_a_whole_kind_is_missed_more_at_once_than_the_sum_both_ways():
    for one in found():
        for way, at_once in zip(WAYS, (one["kind"], one["mean"]), strict=True):
            for start, which in enumerate(("attention", "feed-forward")):
                assert at_once[which] > 1.15 * sum(one[way][part] for part in SUBLAYERS[start::2])


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


def test_feed_forwards_without_attention_are_worse_than_no_block_where_attention_writes_zeros():
    for one in found():
        assert one["kind"]["attention"] > one["kind"]["both"] > one["kind"]["feed-forward"]
    book, *helped = (one["mean"]["both"] - one["mean"]["attention"] for one in found())
    assert book < -0.4
    assert 0.15 < min(helped) < max(helped) < 0.25


def test_mixed_pairs_apart_have_one_sign_in_the_books_model_and_another_in_the_small_ones():
    pairs = [
        pair
        for pair in combinations(SUBLAYERS, 2)
        if kind(pair[0]) != kind(pair[1]) and pair[0][:7] != pair[1][:7]
    ]
    book, *others = (np.mean([interaction(one, *pair) for pair in pairs]) for one in found())
    assert book > 0.03
    assert max(others) < -0.01


def test_the_heads_of_a_block_are_missed_more_together_than_the_sum():
    for one in found():
        for i in range(4):
            heads = sum(one["alone"][f"block {i}: head {h}"] for h in range(4))
            assert one["alone"][f"block {i}: attention"] > (2 if i == 0 else 1) * heads


@pytest.mark.weekly
def test_in_short_too_attention_is_missed_and_all_is_measured():
    """So early, parts do not depend on each other yet; the stored runs show that they do later."""
    short = experiment("worth").measure_shortly(model="small", seed=5)
    assert short["kind"]["attention"] > 0.08
    assert interaction(short, "block 0: attention", "block 1: attention") == pytest.approx(
        short["kind"]["attention"] - sum(short["alone"][f"block {i}: attention"] for i in (0, 1))
    )
    assert {name: len(short[name]) for name in ("alone", "sublayers", "heads", "kind", "mean")} == {
        "alone": 8,
        "sublayers": 6,
        "heads": 2,
        "kind": 3,
        "mean": 7,
    }
    assert len(short["fewer"]) == 5
    assert short["fewer"][0] == short["nothing"]
    assert short["fewer"][-1] - short["nothing"] == pytest.approx(short["kind"]["attention"])
