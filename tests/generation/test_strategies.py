"""Tests each strategy by hand and against transformers, their combinations, and the draw itself."""

import numpy as np
import pytest
import torch
from ledger import TRANSFORMERS, largest_difference, record
from scipy import stats
from transformers.generation import logits_process as reference

from glassformer import generate as g

LOG = np.log  # the log of a probability is a logit that gives it back


def rows(seed=0, B=5, V=50):
    return np.random.default_rng(seed).normal(0, 3, (B, V))


def run(processor, logits, past=None):
    return processor(None if past is None else torch.from_numpy(past), torch.from_numpy(logits)).numpy()


def compare(component, actual, expected, bound=0):
    """Compares which entries are left out (−∞), then the largest difference, once for both rooms."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    left_out = np.isneginf(expected)
    np.testing.assert_array_equal(np.isneginf(actual), left_out)
    difference = largest_difference(*(np.where(left_out, 0, x) for x in (actual, expected)))
    record(component, TRANSFORMERS, str(actual.dtype), "scratch", difference, bound, section="Generated text")


# Each by hand


def test_temperature_by_hand():
    logits = np.array([[1.0, 3.0, 2.0]])
    np.testing.assert_array_equal(g.apply_temperature(logits, 0.5), [[-4, 0, -2]])
    np.testing.assert_array_equal(g.apply_temperature(logits, 2.0), [[-1, 0, -0.5]])


def test_temperature_zero_leaves_the_first_of_the_largest():
    logits = np.array([[1.0, 7.0, 7.0], [-np.inf, -5.0, -6.0]])
    np.testing.assert_array_equal(g.distribution(logits, temperature=0), [[0, 1, 0], [0, 1, 0]])


def test_a_tiny_temperature_does_not_overflow():
    logits = np.array([[1e4, 1e4 - 1, -1e4]])
    np.testing.assert_array_equal(g.distribution(logits, temperature=5e-324), [[1, 0, 0]])


def test_top_k_by_hand():
    logits = np.array([[1.0, 3.0, 2.0, 3.0], [0.0, -1.0, -2.0, -3.0]])
    none = -np.inf
    np.testing.assert_array_equal(g.keep_top_k(logits, 2), [[none, 3, none, 3], [0, -1, none, none]])
    np.testing.assert_array_equal(g.keep_top_k(logits, 1), [[none, 3, none, 3], [0, none, none, none]])
    np.testing.assert_array_equal(g.keep_top_k(logits, 9), logits)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (0.4, [1]),
        (0.49, [1]),
        (0.51, [0, 1]),
        (0.79, [0, 1]),
        (0.81, [0, 1, 3]),
        (0.96, [0, 1, 2, 3]),
        (1, [0, 1, 2, 3]),
    ],
)
def test_top_p_by_hand(top_p, kept):
    logits = LOG(np.array([[0.3, 0.5, 0.05, 0.15]]))
    assert np.flatnonzero(np.isfinite(g.keep_top_p(logits, top_p))).tolist() == kept


def test_top_p_keeps_the_first_of_equals():
    probabilities = g.distribution(np.zeros((1, 4)), top_p=0.5)
    np.testing.assert_array_equal(probabilities, [[0.5, 0.5, 0, 0]])


def test_top_p_of_one_keeps_what_is_lost_to_rounding():
    logits = np.array([[0.0] * 9 + [-60.0]])
    assert (g.distribution(logits, top_p=1.0) > 0).all()


def test_min_p_by_hand():
    logits = LOG(np.array([[0.5, 0.3, 0.2, 0.0001]]))
    assert np.flatnonzero(np.isfinite(g.keep_min_p(logits, 0.59))).tolist() == [0, 1]
    assert np.flatnonzero(np.isfinite(g.keep_min_p(logits, 0.61))).tolist() == [0]
    np.testing.assert_array_equal(g.keep_min_p(logits, 0.0), logits)
    assert np.isfinite(g.keep_min_p(logits, 1.0)).sum() == 1


def test_repetition_penalty_by_hand():
    logits = np.array([[2.0, -2.0, 3.0, 0.0]])
    np.testing.assert_array_equal(
        g.penalize_repetition(logits, [np.array([1, 0, 1, 3])], 2.0), [[1.0, -4.0, 3.0, 0.0]]
    )
    np.testing.assert_array_equal(logits, [[2.0, -2.0, 3.0, 0.0]])  # the argument stays as it was


def test_repeated_ngrams_by_hand():
    logits = np.zeros((2, 4))
    past = [np.array([1, 2, 3, 1, 2]), np.array([0])]  # after "1 2" came 3; a text of one id has no pair
    none = -np.inf
    np.testing.assert_array_equal(g.forbid_repeated_ngrams(logits, past, 3), [[0, 0, 0, none], [0, 0, 0, 0]])
    np.testing.assert_array_equal(
        g.forbid_repeated_ngrams(logits, past, 1), [[0, none, none, none], [none, 0, 0, 0]]
    )
    np.testing.assert_array_equal(logits, np.zeros((2, 4)))


# Each against transformers


@pytest.mark.parametrize("temperature", [0.1, 0.7, 1.0, 3.0])
def test_temperature_against_transformers(temperature):
    expected = torch.from_numpy(run(reference.TemperatureLogitsWarper(temperature), rows())).softmax(-1)
    compare("strategy: temperature", g.distribution(rows(), temperature=temperature), expected, 1e-15)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("name", "ours", "theirs", "value"),
    [("top-k", g.keep_top_k, reference.TopKLogitsWarper, k) for k in (1, 2, 10, 49, 50, 80)]
    + [("nucleus", g.keep_top_p, reference.TopPLogitsWarper, p) for p in (1e-9, 0.1, 0.5, 0.9, 0.999, 1.0)]
    + [("min-p", g.keep_min_p, reference.MinPLogitsWarper, p) for p in (0.0, 0.01, 0.1, 0.5, 1.0)],
)
def test_filters_against_transformers(name, ours, theirs, value, seed):
    compare(f"strategy: {name}", ours(rows(seed), value), run(theirs(value), rows(seed)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [1, 3, 40])
@pytest.mark.parametrize(
    ("name", "ours", "theirs", "values"),
    [
        (
            "repetition penalty",
            g.penalize_repetition,
            reference.RepetitionPenaltyLogitsProcessor,
            (0.5, 1.0, 1.3, 5.0),
        ),
        (
            "no repeated n-gram",
            g.forbid_repeated_ngrams,
            reference.NoRepeatNGramLogitsProcessor,
            (1, 2, 3, 5),
        ),
    ],
)
def test_repetition_against_transformers(name, ours, theirs, values, length, seed):
    logits = rows(seed, V=6)  # few ids, so that runs do repeat
    past = np.random.default_rng(seed).integers(0, 6, (5, length))
    for value in values:
        compare(f"strategy: {name}", ours(logits, list(past), value), run(theirs(value), logits, past))


# Together

ALL = {
    "temperature": 0.8,
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.05,
    "repetition_penalty": 1.4,
    "no_repeat_ngram": 2,
}


@pytest.mark.parametrize("left_out", [*ALL, None])
@pytest.mark.parametrize("seed", range(5))
def test_all_together_against_transformers(left_out, seed):
    logits, past = rows(seed), np.random.default_rng(seed).integers(0, 50, (5, 60))
    strategy = {name: value for name, value in ALL.items() if name != left_out}
    processors = {
        "repetition_penalty": reference.RepetitionPenaltyLogitsProcessor,
        "no_repeat_ngram": reference.NoRepeatNGramLogitsProcessor,
        "temperature": reference.TemperatureLogitsWarper,
        "top_k": reference.TopKLogitsWarper,
        "top_p": reference.TopPLogitsWarper,
        "min_p": reference.MinPLogitsWarper,
    }
    expected = logits
    for name, processor in processors.items():
        if name in strategy:
            expected = run(processor(strategy[name]), expected, past)
    expected = torch.from_numpy(expected).softmax(-1).numpy()
    actual = g.distribution(logits, past=list(past), **strategy)
    np.testing.assert_array_equal(actual == 0, expected == 0)
    compare("strategy: all together", actual, expected, 1e-15)


def test_each_strategy_sees_what_those_before_it_left():
    logits = LOG(np.array([[0.4, 0.3, 0.2, 0.1]]))
    # Alone, top-p 0.6 keeps two. Among the two that top-k 2 left, the first has 4/7 < 0.6: still two; at 0.55, one.
    assert (g.distribution(logits, top_p=0.55) > 0).sum() == 2
    assert (g.distribution(logits, top_k=2, top_p=0.55) > 0).sum() == 1
    np.testing.assert_allclose(g.distribution(logits, top_k=2), [[4 / 7, 3 / 7, 0, 0]], rtol=1e-15)


def test_distribution_is_float64_and_takes_one_row():
    probabilities = g.distribution(np.array([0.5, -1.0, 2.0], dtype=np.float32), top_k=2)
    assert probabilities.dtype == np.float64
    assert probabilities.shape == (3,)
    assert abs(probabilities.sum() - 1) < 1e-15


def test_distribution_leaves_its_argument_alone():
    logits = rows()
    g.distribution(logits, past=list(np.zeros((5, 3), int)), **ALL)
    np.testing.assert_array_equal(logits, rows())


# The draw


def test_draw_by_hand():
    p = np.array([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0]])
    below_1 = np.nextafter(1, 0)
    for u, expected in [(0.0, 1), (0.24, 1), (0.25, 3), (0.74, 3), (0.75, 4), (below_1, 4)]:
        assert g.draw(p, np.array([u])).tolist() == [expected]


def test_draw_never_takes_what_has_no_probability():
    """This holds even if rounding leaves the running sum slightly below 1."""
    rng = np.random.default_rng(0)
    p = g.distribution(rng.normal(0, 2, (2000, 31)), top_k=7)
    for u in (0.0, np.nextafter(1, 0)):
        ids = g.draw(p, np.full(2000, u))
        assert (p[np.arange(2000), ids] > 0).all()


def test_draws_are_as_frequent_as_their_probability():
    strategy = {"temperature": 1.5, "top_k": 8}
    logits = rows(seed=1, B=1, V=12)
    p = g.distribution(logits, **strategy)[0]
    n = 100_000
    ids = g.draw(np.broadcast_to(p, (n, 12)), np.random.default_rng(0).random(n))
    counts = np.bincount(ids, minlength=12)
    assert counts[p == 0].sum() == 0
    assert stats.chisquare(counts[p > 0], n * p[p > 0]).pvalue > 0.01
