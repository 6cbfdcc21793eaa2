"""Judges "The gradient of the table" (chapter 04).

The gradient of a table of positions, from that of its sum with the tokens.

Axes: B batch, T positions asking, D d_model, N rows of a table.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def table_gradient(dx: Float[np.ndarray, "B T D"], context_length: int) -> Float[np.ndarray, "N D"]:
    """The gradient of the position table, from that of its sum with the token vectors."""
    _, T, D = dx.shape
    gradient = np.zeros((context_length, D), dtype=dx.dtype)
    gradient[:T] = dx.sum(axis=0)
    return gradient


backward = exercise("positions.table_gradient", table_gradient, axes="N D")

backward.shape("the gradient has the table's shape", numbers(2, 3, 4), 6, want=(6, 4))
_dx = numbers(4, 3, 2)
backward.case(
    "each row adds up the gradients from every sequence of the batch",
    _dx, 3, want=_dx[0] + _dx[1] + _dx[2] + _dx[3],
)  # fmt: skip
backward.also(_dx[:1], 3, want=_dx[0], advice="Each call begins with zeros of its own.")
_dx = numbers(2, 3, 2)
backward.case(
    "rows that no sequence reached get exactly zero", _dx, 5, want=[*(_dx[0] + _dx[1]), [0, 0], [0, 0]],
    advice="Begin with np.zeros: np.empty keeps whatever was in memory.",
)  # fmt: skip


@backward.check("it predicts how the loss changes when the table changes")
def _(table_gradient):
    tokens, dx = numbers(3, 4, 5), numbers(3, 4, 5, seed=1)
    before, step = numbers(7, 5), numbers(7, 5, seed=2)

    def loss(rows):  # linear in x, so that its gradient is dx everywhere
        return float((dx * (tokens + rows[:4])).sum())

    got = table_gradient(dx, 7)
    expect_shape(got, (7, 5), "table_gradient(dx, 7)", axes="N D")
    what = "the change in the loss after a step, as your gradient predicts it,"
    expect(float((np.asarray(got) * step).sum()), loss(before + step) - loss(before), what)


backward.mistake("over positions", lambda dx, N: dx.sum(axis=1))
