"""Judges "Three side by side" (chapter 13): GPT-2's combined matrix becomes three matrices and their biases.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect, expect_parts, expect_shape
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def split_conv1d(
    weight: Float[np.ndarray, "D 3D"], bias: Float[np.ndarray, " 3D"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns W_q, W_k, W_v and their biases from GPT-2's c_attn."""
    W_q, W_k, W_v = np.split(weight, 3, axis=1)
    b_q, b_k, b_v = np.split(bias, 3)
    return W_q, W_k, W_v, b_q, b_k, b_v


_SIX = ("W_q", "W_k", "W_v", "b_q", "b_k", "b_v")
thirds = exercise("real.split_conv1d", split_conv1d, parts=_SIX, axes=("D D", "D D", "D D", "D", "D", "D"))

thirds.case(
    "each row of c_attn contains a row of each matrix",
    np.array([[0.0, 1, 10, 11, 20, 21], [2, 3, 12, 13, 22, 23]]), np.array([5.0, 6, 15, 16, 25, 26]),
    want=(
        [[0.0, 1], [2, 3]], [[10.0, 11], [12, 13]], [[20.0, 21], [22, 23]], [5.0, 6], [15.0, 16], [25.0, 26],
    ),
    what="c_attn of two numbers",
)  # fmt: skip


@thirds.check("x @ W + b is the right third of what c_attn gives")
def _(learner):
    weight, bias, x = numbers(6, 18), numbers(18, seed=1), numbers(4, 6, seed=2)
    found = expect_parts(learner(weight, bias), _SIX)
    at_once = x @ weight + bias
    for number, one in enumerate("qkv"):
        W, b = (as_numbers(found[number + i], f"{kind}_{one}") for i, kind in ((0, "W"), (3, "b")))
        expect_shape(W, (6, 6), f"W_{one} of a c_attn of (6, 18)")
        expect_shape(b, (6,), f"b_{one} of a c_attn of (6, 18)")
        expect(x @ W + b, at_once[:, 6 * number : 6 * number + 6], f"x @ W_{one} + b_{one}", axes="T D")


_w, _b = numbers(9, 27, seed=3), numbers(27, seed=4)
_cuts = [slice(9 * i, 9 * i + 9) for i in range(3)]
thirds.case("another width", _w, _b, want=(*(_w[:, cut] for cut in _cuts), *(_b[cut] for cut in _cuts)))


for _order in ("kqv", "vkq", "vqk"):
    _W_order, _b_order = (", ".join(f"{one}_{which}" for which in _order) for one in "Wb")
    thirds.slip("order", "W_q, W_k, W_v =", f"{_W_order} =", "b_q, b_k, b_v =", f"{_b_order} =")
