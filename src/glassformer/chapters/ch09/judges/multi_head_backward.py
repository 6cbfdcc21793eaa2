"""Judges "Back through all heads" (chapter 09): the backward pass of causal attention with several heads.

Axes: T positions, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.shapes import Float

from .attention_backward import scaled_dot_product_attention_backward
from .forward import complex_heads
from .linear_backward import linear_backward
from .slopes import drawn, slopes_case, softmax_rows


def multi_head_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    W_q: Float[np.ndarray, "D D"],
    W_k: Float[np.ndarray, "D D"],
    W_v: Float[np.ndarray, "D D"],
    W_o: Float[np.ndarray, "D D"],
    n_heads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of causal multi-head attention to those of x and of the four matrices."""
    mask = causal_mask(len(x), len(x))
    q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
    mixed, _ = scaled_dot_product_attention(q, k, v, mask=mask)
    grad, grad_o = linear_backward(grad, merge_heads(mixed), W_o)
    heads = scaled_dot_product_attention_backward(split_heads(grad, n_heads), q, k, v, mask=mask)
    (from_q, grad_q), (from_k, grad_k), (from_v, grad_v) = (
        linear_backward(merge_heads(head), x, W) for head, W in zip(heads, (W_q, W_k, W_v), strict=True)
    )
    return from_q + from_k + from_v, grad_q, grad_k, grad_v, grad_o


heads_back = exercise(
    "back.multi_head_backward",
    multi_head_backward,
    parts=("grad_x", "grad_W_q", "grad_W_k", "grad_W_v", "grad_W_o"),
    axes=("T D", "D D", "D D", "D D", "D D"),
)


def _heads_case(title: str, T: int, D: int, n_heads: int, seed: int) -> None:
    inputs = drawn(T, D, seed=seed), *(drawn(4, D, D, seed=seed + 1) / math.sqrt(D))
    slopes_case(heads_back, title, complex_heads, *inputs, n_heads, grad=drawn(T, D, seed=seed + 2))


_heads_case("one position, one head", 1, 4, 1, 40)
_heads_case("four positions, one head", 4, 3, 1, 43)
_heads_case("two heads", 5, 6, 2, 46)
_heads_case("as many heads as features", 4, 4, 4, 49)


def _heads_wrong(
    uses=(0, 1, 2), mask=True, through_o=True, merged=None, n=None, order=None, share=1, of_o=None
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, W_q, W_k, W_v, W_o, n_heads):
        T, D = x.shape
        H = n_heads if n is None else n

        def split(x):
            return x.reshape(T, H, D // H).swapaxes(0, 1)

        def merge(x):
            return x.swapaxes(0, 1).reshape(T, D)

        see = np.tri(T, dtype=bool) if mask else np.ones((T, T), dtype=bool)
        q, k, v = (split(x @ W) for W in (W_q, W_k, W_v))
        scores = np.where(see, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), -np.inf)
        grad_o = merge(softmax_rows(scores) @ v).T @ grad
        back = grad @ W_o.T if through_o else grad
        found = scaled_dot_product_attention_backward(split(back), q, k, v, mask=see)
        found = [(merged or merge)(one) for one in found]
        grad_x = sum(found[i] @ (W_q, W_k, W_v)[i].T for i in uses) / share
        grad_o = grad_o if of_o is None else of_o(x, grad, grad_o)
        result = grad_x, *(x.T @ one for one in found), grad_o
        return result if order is None else order(result)

    return wrong


heads_back.mistake("values alone", _heads_wrong(uses=(2,)))
heads_back.mistake("queries alone", _heads_wrong(uses=(0,)))
heads_back.mistake("queries forgotten", _heads_wrong(uses=(1, 2)))
heads_back.mistake("no mask", _heads_wrong(mask=False))
heads_back.mistake("not through W_o", _heads_wrong(through_o=False))
heads_back.mistake("one head", _heads_wrong(n=1))
heads_back.mistake("reshaped", _heads_wrong(merged=lambda one: one.reshape(one.shape[1], -1)))
heads_back.mistake("order", _heads_wrong(order=lambda f: (f[0], f[4], f[1], f[2], f[3])))
heads_back.mistake("mean of three", _heads_wrong(share=3))
heads_back.mistake("W_o from x", _heads_wrong(of_o=lambda x, grad, right: x.T @ grad))
heads_back.mistake("W_o turned", _heads_wrong(of_o=lambda x, grad, right: right.T))
