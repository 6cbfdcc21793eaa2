"""Judges "Two lines moved" (chapter 07): the post-norm block of 2017.

Axes: T positions, D d_model.
"""

from typing import Any

import numpy as np

from glassformer.chapters.ch03.judges.multi_head import multi_head
from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch05.judges.norms import layer_norm_by_hand
from glassformer.chapters.ch06.judges.feed_forward import feed_forward
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import Weights, numbers
from glassformer.shapes import Float

from .block import block, whole
from .by_hand import attention_by_hand, feed_forward_by_hand, norm_by_hand
from .weights import ATTENTION_WRITES, FEEDFORWARD_WRITES, block_weights, with_zeros


def _post(x: Any, w: Weights, n_heads: int) -> np.ndarray:
    x = norm_by_hand(x + attention_by_hand(x, w, n_heads), w, "norm_attention")
    return norm_by_hand(x + feed_forward_by_hand(x, w), w, "norm_feedforward")


def post_block(x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T D"]:
    """Computes the block of 2017, in which each norm comes after the sum."""
    w = weights
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    x = x + multi_head(x, W_q, W_k, W_v, W_o, n_heads)
    x = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
    W_up, b_up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
    W_down, b_down = w["feedforward.W_down.weight"], w["feedforward.W_down.bias"]
    x = x + feed_forward(x, W_up, b_up, W_down, b_down)
    return layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])


after = exercise("block.post_block", post_block, axes="T D")

_x, _w = numbers(5, 6, seed=4), block_weights(6, 10, seed=2)
after.shape("the shape of x", _x, _w, 2, want=(5, 6))
_plain = with_zeros(
    _w, *ATTENTION_WRITES, *FEEDFORWARD_WRITES, "norm_attention.bias", "norm_feedforward.bias"
)
_plain |= {f"{name}.weight": np.ones(6) for name in ("norm_attention", "norm_feedforward")}
_alike = layer_norm_by_hand(layer_norm_by_hand(_x, np.ones(6), np.zeros(6)), np.ones(6), np.zeros(6))
after.case(
    "if nothing is written and the gains are 1, each row comes out with mean 0 and variance 1",
    _x, _plain, 2, want=_alike,
)  # fmt: skip
after.case("the whole block", _x, _w, 2, want=_post)
after.case(
    "other sizes, three heads, a larger stream",
    5 * numbers(4, 6, seed=5), block_weights(6, 7, seed=3), 3, want=_post,
)  # fmt: skip

_NORM_1 = 'layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])'
_NORM_2 = 'layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])'
after.mistake("pre-norm", block)
after.mistake("norm of the write", whole.wrong("norm of the write"))
after.slip("norms swapped", _NORM_1, "first", _NORM_2, _NORM_1, "first", _NORM_2)
