"""Judges "A norm and a gate" (chapter 17): what a layer with a state does with what its heads have read.

Axes: T positions, H heads, U features of a value.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def gated_norm(
    read: Float[np.ndarray, "T H U"],
    z: Float[np.ndarray, "T H U"],
    gain: Float[np.ndarray, "*H U"],
    eps: float,
    order: str,
) -> Float[np.ndarray, "T H U"]:
    """Returns the norm of each head times the gate silu(z), or the norm of all heads after the gate."""
    gate = z / (1 + np.exp(-z))
    if order == "norm first":
        size = np.sqrt((read**2).mean(axis=-1, keepdims=True) + eps)
        return read / size * gain * gate
    gated = read * gate
    size = np.sqrt((gated**2).mean(axis=(-2, -1), keepdims=True) + eps)
    return gated / size * gain


both_orders = exercise("state.gated_norm", gated_norm, axes="T H U")


def _by_hand(read, z, gain, eps, order):
    """Computes one number at a time."""
    first = order == "norm first"
    y = np.zeros(read.shape)
    for t, h, u in np.ndindex(read.shape):
        a, b = read[t], [[c / (1 + math.exp(-c)) for c in row] for row in z[t]]
        heads = [h] if first else range(len(a))
        of = [x * (1 if first else g) for i in heads for x, g in zip(a[i], b[i], strict=True)]
        size = math.sqrt(math.fsum(x * x for x in of) / len(of) + eps)
        y[t, h, u] = a[h][u] * b[h][u] * np.broadcast_to(gain, a.shape)[h, u] / size
    return y


def _case(title, read, z, gain, eps, order, want, what):
    arrays = (np.array(one, dtype=float) for one in (read, z, gain))
    both_orders.case(title, *arrays, eps, order, want=np.array(want), what=what)


_three = math.log(3)  # σ(log 3) = ¾ and σ(−log 3) = ¼, so silu gives ¾ log 3 and −¼ log 3
_first, _then = "norm first", "gate first"
_case(
    "norm first: [1, 7] has a size of 5; then the gate",
    [[[1, 7]]], [[[_three, -_three]]], [10, 5], 0.0, _first, [[[1.5 * _three, -1.75 * _three]]],
    "one head, norm first",
)  # fmt: skip
_case(
    "eps is added to the mean square: 25 + 11 = 6²",
    [[[1, 7]]], [[[_three, -_three]]], [12, 6], 11.0, _first, [[[1.5 * _three, -1.75 * _three]]],
    "one head and eps = 11, norm first",
)  # fmt: skip
_case(
    "norm first: each head by itself",
    [[[1, 7], [70, -10]]], [[[_three] * 2, [-_three] * 2]], [20, 10], 0.0, _first,
    [[[3 * _three, 10.5 * _three], [-7 * _three, 0.5 * _three]]], "two heads, norm first",
)  # fmt: skip
_case(
    "gate first: [4, −84] becomes 3 log 3 · [1, 7], whose size is 15 log 3",
    [[[4, -84]]], [[[_three, -_three]]], [[10, 5]], 0.0, _then, [[[2.0, 7.0]]], "one head, gate first",
)  # fmt: skip
_case(
    "eps joins the mean square after the gate: 15² + 8² = 17²",
    [[[4, -84]]], [[[_three, -_three]]], [[17, 34]], 64 * _three**2, _then, [[[3.0, 42.0]]],
    "one head and eps = (8 log 3)², gate first",
)  # fmt: skip
_case(
    "gate first: all heads of a position have one size",
    [[[4, 4], [-84, 84]]], [[[_three] * 2, [-_three] * 2]], [[10, 20], [30, 40]], 0.0, _then,
    [[[2.0, 4.0], [42.0, -56.0]]], "two heads, gate first",
)  # fmt: skip
for _title, _T, _H, _U, _order in (
    ("norm first, any numbers", 4, 3, 5, _first),
    ("", 2, 4, 3, _first),
    ("gate first, any numbers", 4, 3, 5, _then),
    ("", 3, 2, 4, _then),
):
    both_orders.case(
        _title, numbers(_T, _H, _U), numbers(_T, _H, _U, seed=1),
        numbers(*(() if _order == _first else (_H,)), _U, seed=2), 0.01, _order, want=_by_hand,
        what=f"T = {_T}, H = {_H} and U = {_U}, {_order}",
    )  # fmt: skip
