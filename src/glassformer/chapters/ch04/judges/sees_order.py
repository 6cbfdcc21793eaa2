"""Judges "Write the test" (chapter 04): a test that finds out whether a function uses the order of its rows.

Axes: T positions asking, D d_model.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, is_tensor, remark
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import causal_mask, scaled_dot_product_attention
from glassformer.scratch.positions import sinusoidal
from glassformer.shapes import Float

from .one_head import one_head
from .rotary import rotary


def sees_order(attention: Any, x: Float[np.ndarray, "T D"]) -> bool:
    """Returns whether a function (T, D) → (T, D) uses the order of its rows: shuffles before or after, and compares."""
    generator = np.random.default_rng(0)
    orders = [generator.permutation(len(x)) for _ in range(5)]
    return not all(np.allclose(attention(x[order]), attention(x)[order], atol=1e-8) for order in orders)


detector = exercise("positions.sees_order", sees_order)


def _judge(sees_order, attention, want, what, advice):
    """The answer for one function. A mistake is recognised by the inputs that it tries: True says too little."""
    tried = []

    def watched(x):
        given = as_numbers(x, "what you pass to `attention`")
        tried.append(np.array(given))
        outputs = attention(given)
        if is_tensor(x):
            remark("You pass tensors to `attention`. The layers of this notebook take only NumPy arrays.")
            return x.new_tensor(outputs)
        return outputs

    got = sees_order(watched, numbers(24, 8))
    try:
        expect(got, want, f"the answer for {what}", advice=advice)
    except Wrong as wrong:
        if not wrong.advice:  # it answers neither yes nor no
            raise
        tried.sort(key=np.ndarray.tobytes)
        raise Wrong(wrong.message, advice=advice, what=what, got=(wrong.got, *tried)) from None


def _check(title: str, *layers: tuple[Callable[[np.ndarray], np.ndarray], bool, str], advice: str) -> None:
    """Add a check: of each layer, the answer is this; `advice` is for whoever has another."""

    @detector.check(title)
    def _(sees_order):
        for attention, want, what in layers:
            _judge(sees_order, attention, want, what, advice)


def _roped(x):
    q, k = rotary(x @ numbers(8, 8, seed=1)), rotary(x @ numbers(8, 8, seed=2))
    return scaled_dot_product_attention(q, k, x)[0]


def _apart(x):
    places = np.arange(len(x))
    return np.abs(places - places[:, None])


def _two_exchanged(x):
    seats = np.arange(len(x))
    seats[8:10] = seats[8:10][::-1]
    return x[seats]


def _one_column(x):
    return np.concatenate([x[:, :5], np.roll(x[:, 5:6], 1, axis=0), x[:, 6:]], axis=1)


_check(
    "a function that treats each row on its own does not see order",
    (lambda x: np.maximum(x, 0), False, "np.maximum(x, 0)"),
    advice="When the rows of x are shuffled, its outputs move with them: if order does not matter, "
    "attention(x[order]) equals attention(x)[order].",
)
_check(
    "unmasked attention without positions does not see it, nor does a mean",
    (lambda x: one_head(x)[0], False, "unmasked attention without positions"),
    (lambda x: x + x.mean(axis=0), False, "adding the mean of all rows to each"),
    advice="Sums taken in a different order differ in the last digits, so compare with np.allclose.",
)
_check(
    "attention with a causal mask sees it",
    (lambda x: one_head(x, mask=causal_mask(len(x)))[0], True, "attention with a causal mask"),
    advice="The first row may look at only one key, and the last row at all of them: "
    "the mask itself depends on the order.",
)
_check(
    "positions are noticed, however they enter",
    (lambda x: one_head(x + sinusoidal(np.arange(len(x)), 8))[0], True, "attention over x plus sinusoids"),
    (_roped, True, "attention with RoPE"),
    (
        lambda x: one_head(x, score_bias=-0.5 * _apart(x))[0],
        True,
        "attention with ALiBi, in both directions,",
    ),
    advice="When its input rows are shuffled, its output rows do not just change places: their numbers change.",
)
_check(
    "a dependence on order that a careless shuffle misses is noticed as well",
    (lambda x: x + np.roll(x, 1, axis=0), True, "adding the previous row to each row, cyclically,"),
    (_two_exchanged, True, "exchanging rows 8 and 9"),
    (lambda x: x[[*range(len(x) - 1), -2]], True, "replacing the last row by the one before it"),
    advice="Only some shuffles change the numbers in its output, and only in some rows: "
    "try several orders, and compare attention(x[order]) with attention(x)[order] row by row.",
)


@detector.check("a little order is enough, even in a single column or with a tiny effect")
def _(sees_order):
    advice = "Its output depends on the order in one column only: compare all columns."
    _judge(sees_order, _one_column, True, "moving one column down by a row, cyclically,", advice)
    faint = "adding a thousandth of the previous row to each row, cyclically,"
    advice = (
        "A weak effect is still an effect: ignore only rounding errors, which are a billion times smaller."
    )
    _judge(sees_order, lambda x: x + 0.001 * np.roll(x, 1, axis=0), True, faint, advice)
