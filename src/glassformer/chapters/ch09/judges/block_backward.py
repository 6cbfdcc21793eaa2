"""Judges "Back through the block" (chapter 09).

The backward pass of a pre-norm block, with a gradient for each weight.

Axes: T positions, D d_model.
"""

from functools import cache
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
from .forward import NORMS, complex_block
from .layer_norm_backward import layer_norm_backward
from .multi_head_backward import multi_head_backward
from .slopes import drawn, expect_gradients, slopes_of


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


block_back = exercise(
    "back.block_backward",
    block_backward,
    parts=("grad_x", "gradients"),
)


@cache
def _of_block(T: int, D: int, F: int, n_heads: int, seed: int) -> tuple[Any, ...]:
    """grad, x and weights; and the gradients of x and of the weights."""
    grad, x = drawn(T, D, seed=seed), drawn(T, D, seed=seed + 1)
    weights = block_weights(D, F, seed=seed)

    def forward(x, *arrays):
        return complex_block(x, dict(zip(weights, arrays, strict=True)), n_heads)

    grad_x, *own = slopes_of(forward, [x, *weights.values()], grad)
    return grad, x, weights, grad_x, dict(zip(weights, own, strict=True))


for _title, _sizes in {
    "one position, one head": (1, 4, 6, 1),
    "four positions, two heads": (4, 6, 5, 2),
    "as many heads as features": (3, 4, 8, 4),
}.items():

    @block_back.check(_title)
    def _(learner, sizes=_sizes):
        *_, n_heads = sizes
        grad, x, weights, grad_x, own = _of_block(*sizes, 50)
        got = expect_parts(learner(grad, x, weights, n_heads), block_back.parts)
        expect(got[0], grad_x, "grad_x of block_backward(…)", axes="T D")
        expect_gradients(got[1], own, "gradients of block_backward(…)")


@block_back.check("sublayers whose output is 0: the gradient arrives unchanged")
def _(learner):
    grad, x, weights, *_ = _of_block(3, 4, 8, 4, 50)
    silent = {
        name: w * (0 if name.startswith(("attention.W_o", "feedforward.W_down")) else 1)
        for name, w in weights.items()
    }
    got = expect_parts(learner(grad, x, silent, 2), block_back.parts)
    expect(got[0], grad, "grad_x of block_backward(…)", axes="T D")


def _block_wrong(
    around=(True, True),
    through=(True, True),
    at_x=False,
    swapped=False,
    tail=None,
    backwards=True,
    at_output=False,
    early=False,
    plain=False,
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, weights, n_heads):
        names = NORMS[::-1] if swapped else NORMS
        gains = [[weights[f"{name}.{end}"] for end in ("weight", "bias")] for name in names]
        matrices: Any = [weights[f"attention.W_{name}.weight"] for name in "qkvo"]
        maps = [weights[f"feedforward.W_{n}"] for n in ("up.weight", "up.bias", "down.weight", "down.bias")]
        normed = layer_norm(x, *gains[0])
        middle = x if at_x else x + multi_head(normed, *matrices, n_heads=n_heads)
        own, arrived = {}, grad

        def feed(grad):
            read = middle if plain else layer_norm(middle, *gains[1])
            back, *found = feed_forward_backward(grad, read, *maps)
            for n, g in zip(("up.weight", "up.bias", "down.weight", "down.bias"), found, strict=True):
                own[f"feedforward.W_{n}"] = g
            read = layer_norm(middle, *gains[1]) if at_output else middle
            normal, *of = layer_norm_backward(back, read, *gains[1])
            own.update(zip((f"{names[1]}.weight", f"{names[1]}.bias"), of, strict=True))
            return (normal if through[1] else back) + (grad if around[1] else 0)

        def attend(grad):
            back, *found = multi_head_backward(
                arrived if early else grad, x if plain else normed, *matrices, n_heads=n_heads
            )
            own.update(zip((f"attention.W_{n}.weight" for n in "qkvo"), found, strict=True))
            normal, *of = layer_norm_backward(back, normed if at_output else x, *gains[0])
            own.update(zip((f"{names[0]}.weight", f"{names[0]}.bias"), of, strict=True))
            return (normal if through[0] else back) + (grad if around[0] else 0)

        grad = attend(feed(grad)) if backwards else feed(attend(grad))
        return grad, own if tail is None else tail(own)

    return wrong


block_back.mistake("no way around", _block_wrong(around=(False, False)))
block_back.mistake("one way around", _block_wrong(around=(True, False)))
block_back.mistake("one way around", _block_wrong(around=(False, True)))
block_back.mistake("not through the norms", _block_wrong(through=(False, False)))
block_back.mistake("not through the norms", _block_wrong(through=(True, False)))
block_back.mistake("not through the norms", _block_wrong(through=(False, True)))
block_back.mistake("what the norm gave", _block_wrong(at_output=True))
block_back.mistake("old gradient", _block_wrong(early=True))
block_back.mistake("not normed", _block_wrong(plain=True))
block_back.mistake("norm at the door", _block_wrong(at_x=True))
block_back.mistake("norms swapped", _block_wrong(swapped=True))
block_back.mistake("forwards", _block_wrong(backwards=False))
block_back.mistake(
    "norms forgotten", _block_wrong(tail=lambda own: {n: g for n, g in own.items() if "norm" not in n})
)
block_back.mistake(
    "short names",
    _block_wrong(tail=lambda own: {n.removesuffix(".weight"): g for n, g in own.items()}),
)
block_back.mistake("short names", _block_wrong(tail=lambda own: {f"blocks.0.{n}": g for n, g in own.items()}))
