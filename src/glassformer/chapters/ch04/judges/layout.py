"""Judges "Change a checkpoint's layout" (chapter 04).

The columns of a matrix are reordered from neighbouring pairs to halves.

Axes: T positions asking, S positions answering, D d_model, H heads.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.scratch.rotary import rotate, rotation_angles
from glassformer.shapes import Float


def interleaved_to_half(W: Float[np.ndarray, "D D"], n_heads: int) -> Float[np.ndarray, "D D"]:
    """Reorders the columns of W_q or W_k, head by head: even ones first, then odd ones."""
    heads = W.reshape(len(W), n_heads, -1)  # (D, H, K)
    return np.concatenate([heads[..., 0::2], heads[..., 1::2]], axis=-1).reshape(W.shape)


layout = exercise("positions.layout", interleaved_to_half, axes="D D")


@layout.check("the columns move, but no number changes")
def _(interleaved_to_half):
    W = numbers(6, 6)
    got = interleaved_to_half(W, 1)
    expect_shape(got, (6, 6), "interleaved_to_half(W, 1)", axes="D D")
    expect(np.sort(got, axis=1), np.sort(W, axis=1), "each row of W, sorted,", being="as it was", axes="D D")


def _columns(heads, order, title):
    columns = np.arange(float(len(order))) * np.ones((len(order), 1))
    what = f"interleaved_to_half(W, {heads}), where every entry in column c of W is c,"
    layout.case(title, columns, heads, row=0, want=np.array(order, dtype=float), what=what)


_columns(1, [0, 2, 4, 1, 3, 5], "one head of six dimensions")
_columns(2, [0, 2, 1, 3, 4, 6, 5, 7], "every head keeps its own columns")
_columns(1, [0, 2, 4, 6, 1, 3, 5, 7], "as many columns in fewer heads")


@layout.check("the scores are the same under the other layout")
def _(interleaved_to_half):
    T, K = 5, 6
    for H in (2, 3):
        D = H * K
        x, weights = numbers(T, D), (numbers(D, D, seed=1), numbers(D, D, seed=2))
        new = [interleaved_to_half(W, H) for W in weights]
        for W in new:
            expect_shape(W, (D, D), f"interleaved_to_half(W, {H})", axes="D D")

        def scores(weights, layout, x=x, H=H):
            q, k = ((x @ np.asarray(W)).reshape(T, H, K).swapaxes(0, 1) for W in weights)
            q, k = (rotate(a, rotation_angles(np.arange(T), K), layout=layout) for a in (q, k))
            return q @ k.swapaxes(-1, -2)

        what = f"the scores of {H} heads, with your weights and layout half,"
        expect(scores(new, "half"), scores(weights, "interleaved"), what, axes="H T S")
