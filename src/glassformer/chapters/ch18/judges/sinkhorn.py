"""Judges "Rows and columns" (chapter 18): Sinkhorn iterations and their gradient.

Axes: M streams.
"""

import math

import numpy as np

from glassformer.chapters.ch09.judges.slopes import slopes_of
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.hyper_connections import sinkhorn_backward
from glassformer.shapes import Float


def sinkhorn(
    z: Float[np.ndarray, "M M"], steps: int, eps: float, grad: Float[np.ndarray, "M M"]
) -> tuple[Float[np.ndarray, "M M"], Float[np.ndarray, "M M"]]:
    """Returns a matrix whose rows and columns nearly sum to 1, and maps its gradient to that of z."""
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    first = powers / powers.sum(axis=1, keepdims=True)
    mix, done = first + eps, []
    for i in range(2 * steps - 1):
        axis = i % 2
        total = mix.sum(axis=axis, keepdims=True) + eps
        mix = mix / total
        done.append((axis, mix, total))
    for axis, made, total in reversed(done):
        along = (grad * made).sum(axis=axis, keepdims=True)
        grad = (grad - along) / total
    along = (grad * first).sum(axis=1, keepdims=True)
    return mix, first * (grad - along)


doubly = exercise(
    "streams.sinkhorn", sinkhorn,
    built_on=(sinkhorn_backward,), parts=("mix", "grad_z"), axes=("M M", "M M"),
)  # fmt: skip


def _forward(z, steps, eps, grad=None):
    """Divides one row or one column at a time; z may be complex."""
    rows = [[np.exp(x - max(row.real)) for x in row] for row in z]
    rows = [[x / sum(row) + eps for x in row] for row in rows]
    for i in range(2 * steps - 1):
        lines = rows if i % 2 else list(zip(*rows, strict=True))
        lines = [[x / (sum(line) + eps) for x in line] for line in lines]
        rows = lines if i % 2 else list(zip(*lines, strict=True))
    return np.array(rows)


def _by_slopes(z, steps, eps, grad):
    """Nudges each number of z."""
    return slopes_of(lambda z: _forward(z, steps, eps), (z,), grad)[0]


_z, _none = np.log([[3.0, 1], [1, 1]]), np.zeros((2, 2))
doubly.case(
    "a softmax of each row, then each column is divided by its sum",
    _z, 1, 0.0, _none, part="mix", want=[[3 / 5, 1 / 3], [2 / 5, 2 / 3]], what="one step",
)  # fmt: skip
doubly.case(
    "two steps: columns, rows, columns",
    _z, 2, 0.0, _none, part="mix", want=[[12 / 19, 4 / 11], [7 / 19, 7 / 11]], what="two steps",
)  # fmt: skip
_limit = math.sqrt(3) / (1 + math.sqrt(3))  # of [[3, 1], [1, 1]], scaled to [[√3, 1], [1, √3]]
doubly.case(
    "after many steps, all rows and columns sum to 1",
    _z, 40, 0.0, _none, part="mix", want=[[_limit, 1 - _limit], [1 - _limit, _limit]], what="forty steps",
)  # fmt: skip
doubly.case(
    "eps is added to the softmax, and to each sum: 0.75 + 0.25, 0.5 + 0.25, and 1.75 + 0.25",
    _z, 1, 0.25, _none, part="mix", want=[[1 / 2, 1 / 3], [3 / 8, 1 / 2]], what="one step with eps = 0.25",
)  # fmt: skip
doubly.case("any numbers", numbers(4, 4), 3, 0.05, numbers(4, 4, seed=1), part="mix", want=_forward)
doubly.also(2000 * numbers(3, 3), 2, 0.05, numbers(3, 3, seed=1), part="mix", want=_forward, what="large z")
for _title, _M, _steps, _eps in (
    ("the gradient of one step", 3, 1, 0.0),
    ("the gradient of three steps", 4, 3, 0.0),
    ("the gradient with eps", 4, 2, 0.1),
    ("", 5, 3, 0.05),
):
    doubly.case(
        _title, numbers(_M, _M, seed=_steps), _steps, _eps, numbers(_M, _M, seed=9), part="grad_z",
        want=_by_slopes, what=f"M = {_M} and steps = {_steps}",
    )  # fmt: skip
