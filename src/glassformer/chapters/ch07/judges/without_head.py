"""Judges "Take a head out" (chapter 07): W_o without the rows of one head.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.chapters.ch03.judges.multi_head import head_by_head
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.shapes import Float

from .weights import block_weights


def without_head(W_o: Float[np.ndarray, "D D"], head: int, n_heads: int) -> Float[np.ndarray, "D D"]:
    """Returns W_o with the K rows of this head at zero, so that the head writes nothing."""
    K = len(W_o) // n_heads
    silenced = np.array(W_o)
    silenced[head * K : (head + 1) * K] = 0
    return silenced


silence = exercise("block.without_head", without_head, axes="D D")

_W = np.arange(1.0, 17).reshape(4, 4)
silence.case(
    "head 0 of two: the first two rows are cleared",
    _W, 0, 2, want=[[0.0, 0, 0, 0], [0, 0, 0, 0], [9, 10, 11, 12], [13, 14, 15, 16]],
)  # fmt: skip
silence.case(
    "head 1 of two: the last two rows are cleared",
    _W, 1, 2, want=[[1.0, 2, 3, 4], [5, 6, 7, 8], [0, 0, 0, 0], [0, 0, 0, 0]],
)  # fmt: skip
_W = numbers(6, 6, seed=7)
silence.case("the middle head of three", _W, 1, 3, want=[*_W[:2], *np.zeros((2, 6)), *_W[4:]])
silence.case("a single head: nothing is left", _W, 0, 1, want=np.zeros((6, 6)))


@silence.check("the output of all heads minus the output without this head is what this head writes")
def _(without_head):
    x, w = numbers(4, 6, seed=8), block_weights(6, 8, seed=7)
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    silenced = np.asarray(without_head(W_o, 2, 3), dtype=float)
    expect_shape(silenced, (6, 6), "without_head(W_o, 2, 3)", axes="D D")
    alone = W_o * (np.arange(6) >= 4)[:, None]
    whole, rest, head = (head_by_head(x, W_q, W_k, W_v, W, 3) for W in (W_o, silenced, alone))
    expect(whole - rest, head, "what head 2 of 3 writes", axes="T D")
