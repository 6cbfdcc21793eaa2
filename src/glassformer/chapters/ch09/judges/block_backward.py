"""Judges "Back through the block" (chapter 09).

The backward pass of a pre-norm block, with a gradient for each weight.

Axes: T positions, D d_model.
"""

from typing import Any

import numpy as np

from glassformer.chapters.ch03.judges.multi_head import multi_head
from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch07.judges.weights import block_weights
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_parts
from glassformer.exercises.material import Weights
from glassformer.shapes import Float

from .feed_forward_backward import feed_forward_backward
from .forward import complex_block
from .layer_norm_backward import layer_norm_backward
from .multi_head_backward import multi_head_backward
from .slopes import drawn, slopes_of


def block_backward(
    grad: Float[np.ndarray, "T D"], x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int
) -> tuple[Float[np.ndarray, "T D"], dict[str, np.ndarray]]:
    """Maps the gradient of a pre-norm block's output to that of x, and of its weights under their names."""

    def some(*names) -> Any:
        return [weights[name] for name in names]

    first, second = ([f"{norm}.weight", f"{norm}.bias"] for norm in ("norm_attention", "norm_feedforward"))
    matrices = [f"attention.W_{name}.weight" for name in "qkvo"]
    maps = [f"feedforward.W_{name}" for name in ("up.weight", "up.bias", "down.weight", "down.bias")]
    normed = layer_norm(x, *some(*first))
    middle = x + multi_head(normed, *some(*matrices), n_heads=n_heads)

    normed_again = layer_norm(middle, *some(*second))
    back, *of_maps = feed_forward_backward(grad, normed_again, *some(*maps))
    back, *of_second = layer_norm_backward(back, middle, *some(*second))
    grad = grad + back
    back, *of_matrices = multi_head_backward(grad, normed, *some(*matrices), n_heads=n_heads)
    back, *of_first = layer_norm_backward(back, x, *some(*first))
    names = [*first, *matrices, *second, *maps]
    return grad + back, dict(zip(names, [*of_first, *of_matrices, *of_second, *of_maps], strict=True))


block_back = exercise("back.block_backward", block_backward, parts=("grad_x", "gradients"), axes=("T D", ""))


def _slopes(grad, x, weights, n_heads):
    def forward(x, *arrays):
        return complex_block(x, dict(zip(weights, arrays, strict=True)), n_heads)

    grad_x, *own = slopes_of(forward, [x, *weights.values()], grad)
    return grad_x, dict(zip(weights, own, strict=True))


for _title, _T, _D, _F, _n_heads in (
    ("one position, one head", 1, 4, 6, 1),
    ("four positions, two heads", 4, 6, 5, 2),
    ("as many heads as features", 3, 4, 8, 4),
):
    _given = drawn(_T, _D, seed=50), drawn(_T, _D, seed=51), block_weights(_D, _F, seed=50), _n_heads
    block_back.case(_title, *_given, want=_slopes, what="block_backward(…)")


@block_back.check("sublayers whose output is 0: the gradient arrives unchanged")
def _(learner):
    grad, x, weights = drawn(3, 4, seed=50), drawn(3, 4, seed=51), block_weights(4, 8, seed=50)
    silent = {
        name: w * (0 if name.startswith(("attention.W_o", "feedforward.W_down")) else 1)
        for name, w in weights.items()
    }
    got = expect_parts(learner(grad, x, silent, 2), block_back.parts)
    expect(got[0], grad, "grad_x of block_backward(…)", axes="T D")


_ATTENTION = """\
    back, *of_matrices = multi_head_backward(grad, normed, *some(*matrices), n_heads=n_heads)
    back, *of_first = layer_norm_backward(back, x, *some(*first))
"""
block_back.slip(
    "forwards", _ATTENTION, "", "    back, *of_maps", f"{_ATTENTION}    grad = grad + back\n    back, *of_maps",
    "    grad = grad + back\n    names", "    names",
)  # fmt: skip
