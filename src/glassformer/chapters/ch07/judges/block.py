"""Judges "The block" (chapter 07): a pre-norm block of attention and a feed-forward network.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.chapters.ch03.judges.multi_head import multi_head
from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch06.judges.feed_forward import feed_forward
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import Weights, numbers
from glassformer.scratch.feedforward import relu
from glassformer.shapes import Float

from .by_hand import attention_by_hand, feed_forward_by_hand, norm_by_hand, pre_norm_by_hand
from .parts import as_it_is, normed_after, put_together, replaced, side_by_side, unnormed, writes_normed
from .weights import ATTENTION_WRITES, FEEDFORWARD_WRITES, block_weights, with_zeros


def _first_replaced(p, x):
    x = p.attend(p.norm(x, 0))
    return x + p.feed(p.norm(x, 1))


def _second_replaced(p, x):
    return p.feed(p.norm(x + p.attend(p.norm(x, 0)), 1))


def _normed_stream(first, second):
    """Adds to the norm's output instead of to the stream."""

    def wrong(p, x):
        read = p.norm(x, 0)
        x = (read if first else x) + p.attend(read)
        read = p.norm(x, 1)
        return (read if second else x) + p.feed(read)

    return wrong


def _attention_lost(p, x):
    return x + p.feed(p.norm(x + p.attend(p.norm(x, 0)), 1))


def _feed_first(p, x):
    x = x + p.feed(p.norm(x, 1))
    return x + p.attend(p.norm(x, 0))


def _unmasked(p, x):
    x = x + p.attend_to_all(p.norm(x, 0))
    return x + p.feed(p.norm(x, 1))


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
whole.case("both, one after the other", _x, _w, 2, want=pre_norm_by_hand(_x, _w, 2))
_x, _w = numbers(4, 6, seed=2), block_weights(6, 7, seed=1)
whole.case("other sizes, three heads", _x, _w, 3, want=pre_norm_by_hand(_x, _w, 3))
whole.also(_x[:1], _w, 1, want=pre_norm_by_hand(_x[:1], _w, 1))
_x = 40 * numbers(4, 6, seed=3) + 5
whole.case(
    "a large stream, which each sublayer rescales to a standard size before it reads it",
    _x,
    _w,
    2,
    want=pre_norm_by_hand(_x, _w, 2),
)

whole.mistake("replaced", put_together(replaced))
whole.mistake("first replaced", put_together(_first_replaced))
whole.mistake("second replaced", put_together(_second_replaced))
whole.mistake("post-norm", put_together(normed_after))
whole.mistake("normed stream", put_together(_normed_stream(True, True)))
whole.mistake("normed stream", put_together(_normed_stream(True, False)))
whole.mistake("normed stream", put_together(_normed_stream(False, True)))
whole.mistake("unnormed", put_together(unnormed(False, False)))
whole.mistake("unnormed", put_together(unnormed(False, True)))
whole.mistake("unnormed", put_together(unnormed(True, False)))
whole.mistake("old x", put_together(side_by_side))
whole.mistake("norm of the write", put_together(writes_normed))


@whole.mistake("norm of a norm")
@put_together
def _(p, x):
    read = p.norm(x, 0)
    x = x + p.attend(read)
    return x + p.feed(p.norm(read, 1))


@whole.mistake("written twice")
@put_together
def _(p, x):
    a = p.attend(p.norm(x, 0))
    return x + a + a + p.feed(p.norm(x + a, 1))


whole.mistake("attention lost", put_together(_attention_lost))
whole.mistake("one norm", put_together(as_it_is, norms=("norm_attention", "norm_attention")))
whole.mistake("norms swapped", put_together(as_it_is, norms=("norm_feedforward", "norm_attention")))
whole.mistake("order", put_together(_feed_first))
whole.mistake("no mask", put_together(_unmasked))
whole.mistake("one head", lambda x, weights, n_heads: block(x, weights, 1))
whole.mistake("ReLU", put_together(as_it_is, bend=relu))
whole.mistake(
    "norm without bias",
    lambda x, weights, n_heads: block(
        x, with_zeros(weights, "norm_attention.bias", "norm_feedforward.bias"), n_heads
    ),
)
whole.mistake(
    "no biases",
    lambda x, weights, n_heads: block(
        x, with_zeros(weights, "feedforward.W_up.bias", "feedforward.W_down.bias"), n_heads
    ),
)
whole.mistake(
    "no bias down",
    lambda x, weights, n_heads: block(x, with_zeros(weights, "feedforward.W_down.bias"), n_heads),
)
