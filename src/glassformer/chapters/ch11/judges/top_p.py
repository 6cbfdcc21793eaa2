"""Judges "The nucleus" (chapter 11): only the likeliest tokens that together reach the probability p are kept.

Axis: V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float

from .strategies import FIVE, NO, left_case, logits_of


def top_p(logits: Float[np.ndarray, "*B V"], p: float | int) -> Float[np.ndarray, "*B V"]:
    """Keeps the fewest of the likeliest ids that together reach the probability p; returns −inf for all others."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    shares = np.take_along_axis(softmax(logits), order, axis=-1)
    before = np.cumsum(shares, axis=-1) - shares  # what those likelier than it have together
    out = np.empty(logits.shape, dtype=bool)
    np.put_along_axis(out, order, before >= p, axis=-1)
    return np.where(out, -np.inf, logits)


nucleus = exercise("generating.top_p", top_p)

left_case(
    nucleus, "the id that crosses p stays: 0.4 and 0.3 are less than 0.8", FIVE, 0.8,
    want=np.array([0, 0.4, 0, 0.3, 0.15]) / 0.85, said="top_p(logits, 0.8)",
)  # fmt: skip
left_case(
    nucleus, "the likeliest always stays", FIVE, 0.01, want=[0.0, 1, 0, 0, 0], said="top_p(logits, 0.01)"
)
left_case(
    nucleus, "a certain distribution keeps one id, an uncertain one many",
    np.stack([logits_of(0.9, 0.04, 0.03, 0.02, 0.01), FIVE]), 0.87,
    want=[[1, 0, 0, 0, 0], np.array([0.1, 0.4, 0, 0.3, 0.15]) / 0.95], said="top_p of two rows with p = 0.87",
)  # fmt: skip
left_case(
    nucleus, "logits far from 0 mean the same", FIVE * 1 - 7, 0.6,
    want=[0, 4 / 7, 0, 3 / 7, 0], said="top_p(negative logits, 0.6)",
)  # fmt: skip
left_case(
    nucleus, "at 1 everything stays", FIVE, 1.0,
    want=[0.1, 0.4, 0.05, 0.3, 0.15], said="top_p(logits, 1)",
)  # fmt: skip


@nucleus.check("no more than needed: two of four equally likely ids already add up to one half")
def _(learner):
    logits = as_numbers(learner(np.zeros(4), 0.5), "top_p([0, 0, 0, 0], 0.5)")
    kept = np.array(int((softmax(logits) > 0).sum()))
    expect(kept, np.array(2), "how many top_p([0, 0, 0, 0], 0.5) keeps")


def _nucleus(out, key=lambda x: -x):
    """A wrong answer: `out` says of the sorted shares which are cut."""

    def wrong(logits, p):
        order = np.argsort(key(logits), axis=-1, kind="stable")
        shares = np.take_along_axis(softmax(logits), order, axis=-1)
        cut = np.empty(logits.shape, dtype=bool)
        np.put_along_axis(cut, order, out(shares, p), axis=-1)
        return np.where(cut, -1e9, logits)

    return wrong


def _sums_of_logits(logits):
    best = -np.sort(-logits, axis=-1)
    return np.cumsum(best, axis=-1) - best


def _first_stays(cut):
    cut[..., 0] = False
    return cut


nucleus.mistake(
    "crossing one dropped", _nucleus(lambda s, p: _first_stays(np.cumsum(s, -1) > min(p, 1 - 1e-12) + 1e-12))
)
nucleus.mistake("crossing one dropped", _nucleus(lambda s, p: np.cumsum(s, -1) > p + 1e-12))
nucleus.mistake("threshold", _nucleus(lambda s, p: s < p * s.max(-1, keepdims=True)))
nucleus.mistake("threshold", _nucleus(lambda s, p: s < 1 - p))
nucleus.mistake(
    "sum of logits", lambda logits, p: _nucleus(lambda s, p: _sums_of_logits(logits) >= p)(logits, p)
)
nucleus.mistake("from the unlikeliest", _nucleus(lambda s, p: np.cumsum(s, -1) - s >= p, key=lambda x: x))
nucleus.mistake("unsorted", _nucleus(lambda s, p: np.cumsum(s, -1) - s >= p, key=lambda x: 0 * x))
nucleus.mistake("one too many", _nucleus(lambda s, p: np.cumsum(s, -1) - s > p))
nucleus.mistake("one too many", _nucleus(lambda s, p: np.cumsum(s, -1) - s - np.roll(s, 1, -1) >= p))


@nucleus.mistake("order forgotten")
def _(logits, p):
    shares = -np.sort(-softmax(logits), axis=-1)
    return np.where(np.cumsum(shares, axis=-1) - shares >= p, -1e9, logits)


@nucleus.mistake("left sorted")
def _(logits, p):
    best = -np.sort(-logits, axis=-1)
    shares = softmax(best)
    return np.where(np.cumsum(shares, axis=-1) - shares >= p, -1e9, best)


@nucleus.mistake("probabilities")
def _(logits, p):
    return np.where(np.isneginf(top_p(logits, p)), 0.0, softmax(logits))


nucleus.mistake("probabilities", lambda logits, p: softmax(top_p(logits, p)))


@nucleus.mistake("one row alone")
def _(z, p):
    order = np.argsort(-z)
    shares = softmax(z)[order]
    out = order[np.cumsum(shares) - shares >= p]
    z = z.copy()
    z[out] = NO
    return z
