"""Judges "The block" (chapter 07): a pre-norm block of attention and a feed-forward network.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.chapters.ch03.judges.multi_head import multi_head, several
from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch06.judges.feed_forward import feed_forward, wide
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import Weights, numbers
from glassformer.shapes import Float

from .by_hand import attention_by_hand, feed_forward_by_hand, norm_by_hand, pre_norm_by_hand
from .weights import ATTENTION_WRITES, FEEDFORWARD_WRITES, block_weights, with_zeros


def block(x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T D"]:
    """Computes a pre-norm block: each sublayer reads a norm of the stream and adds its output to the stream."""
    w = weights
    normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    x = x + multi_head(normed, W_q, W_k, W_v, W_o, n_heads)
    normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
    W_up, b_up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
    W_down, b_down = w["feedforward.W_down.weight"], w["feedforward.W_down.bias"]
    return x + feed_forward(normed, W_up, b_up, W_down, b_down)


whole = exercise("block.block", block, axes="T D")

_x, _w = numbers(5, 6, seed=1), block_weights(6, 10)
whole.shape("the shape of x", _x, _w, 2, want=(5, 6))
whole.case(
    "with W_o, W_down and its bias at zero, nothing is written, and x comes out unchanged",
    _x, with_zeros(_w, *ATTENTION_WRITES, *FEEDFORWARD_WRITES), 2, want=_x,
)  # fmt: skip
_half = with_zeros(_w, *FEEDFORWARD_WRITES)
whole.case(
    "with a feed-forward network that writes nothing: x plus what attention returns for the normed x",
    _x, _half, 2, want=_x + attention_by_hand(norm_by_hand(_x, _w, "norm_attention"), _w, 2),
)  # fmt: skip
_half = with_zeros(_w, *ATTENTION_WRITES)
whole.case(
    "with attention that writes nothing: x plus what the feed-forward network returns for the normed x",
    _x, _half, 2, want=_x + feed_forward_by_hand(norm_by_hand(_x, _w, "norm_feedforward"), _w),
)  # fmt: skip
whole.case("both, one after the other", _x, _w, 2, want=pre_norm_by_hand)
_x, _w = numbers(4, 6, seed=2), block_weights(6, 7, seed=1)
whole.case("other sizes, three heads", _x, _w, 3, want=pre_norm_by_hand)
whole.also(_x[:1], _w, 1, want=pre_norm_by_hand)
whole.case(
    "a large stream, which each sublayer rescales to a standard size before it reads it",
    40 * numbers(4, 6, seed=3) + 5, _w, 2, want=pre_norm_by_hand,
)  # fmt: skip

_ATTEND = "multi_head(normed, W_q, W_k, W_v, W_o, n_heads)"
_FEED = "feed_forward(normed, W_up, b_up, W_down, b_down)"
_NORM_1 = 'layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])'
_NORM_2 = 'layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])'
_UNNORMED = (f"normed = {_NORM_1}", "normed = x", f"normed = {_NORM_2}", "normed = x")
whole.slip(
    "post-norm",
    *_UNNORMED, _ATTEND, f"{_ATTEND}\n    x = {_NORM_1}",
    f"return x + {_FEED}", f"x = x + {_FEED}\n    return {_NORM_2}",
)  # fmt: skip
whole.slip(
    "norm of the write",
    *_UNNORMED, _ATTEND, _NORM_1.replace("(x", f"({_ATTEND}"), _FEED, _NORM_2.replace("(x", f"({_FEED}"),
)  # fmt: skip
whole.slip("norms swapped", _NORM_1, "first", _NORM_2, _NORM_1, "first", _NORM_2)


@whole.mistake("order")
def _(x, weights, n_heads):
    x = block(x, with_zeros(weights, *ATTENTION_WRITES), n_heads)
    return block(x, with_zeros(weights, *FEEDFORWARD_WRITES), n_heads)


whole.slip("no mask", multi_head=several.wrong("no mask"))
whole.slip("ReLU", feed_forward=wide.wrong("relu"))
