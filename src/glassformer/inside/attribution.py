"""Direct logit attribution: a logit is a sum, and every part of the model contributes one term.

The axes: B batch, T positions, D d_model, H heads, K d_head, V vocabulary.
"""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.inside.look import (
    check_stream_is_a_sum,
    decoder_of,
    entering,
    final_norm_of,
    look,
    of_either_room,
)
from glassformer.scratch import Transformer
from glassformer.scratch.attention import split_heads
from glassformer.scratch.norm import LayerNorm, RMSNorm
from glassformer.shapes import Float, Integer


@of_either_room
def writes(model: Transformer, ids: Integer[np.ndarray, "*B T"]) -> dict[str, Float[np.ndarray, "*B T D"]]:
    """Returns what each part adds to the stream (..., T, D): "embedding", "block 0: head 0", "block 0: feed-forward" ….

    A head writes through its own K rows of W_o; a bias of W_o belongs to no head and has its own entry. The
    sum of all entries is the stream before the final norm.

    Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". Derived in chapter 05.

    Raises:
        ValueError: the model is not a pre-norm decoder with a linear head, or it is in training with dropout.
        TypeError: it is not a NumPy Transformer, or the ids are not integers.
    """
    check_stream_is_a_sum(model)
    seen = look(model, ids)
    written = {"embedding": seen.arrays("stream", "")[0]}
    feedforward_writes = iter(seen.arrays("write", "feed-forward"))
    for i, block in enumerate(decoder_of(model).blocks):
        attention: Any = block.attention
        H, W_o = attention.n_heads, attention.W_o
        heads = split_heads(entering(seen, i, "attention"), H)  # (..., H, T, K)
        each = heads @ W_o.weight.reshape(H, -1, W_o.n_out)  # (..., H, T, D)
        written |= {f"block {i}: head {h}": each[..., h, :, :] for h in range(H)}
        if W_o.bias is not None:
            written[f"block {i}: attention bias"] = np.broadcast_to(W_o.bias, written["embedding"].shape)
        if model.config.layer(i).n_sublayers == 2:
            written[f"block {i}: feed-forward"] = next(feedforward_writes)
    return written


@of_either_room
def logit_attribution(
    model: Transformer,
    ids: Integer[np.ndarray, "*B T"],
    tokens: int | np.integer | Integer[np.ndarray, "*B T"],
    *,
    against: int | np.integer | Integer[np.ndarray, "*B T"] | None = None,
) -> dict[str, Float[np.ndarray, "*B T"]]:
    """Returns how much each part adds to the logit of `tokens` at every position: the parts of `writes`, and "biases".

    The sum of all contributions is the logit. `tokens` is one id, or one for each position. With `against`,
    the difference between the two tokens' logits is used, which determines their odds. The final norm is held
    at its actual scale, so that it is linear; "biases" are those of the norm and the head.

    Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". Derived in chapter 05.

    Raises:
        ValueError: the model is not a pre-norm decoder with a linear head, or it is in training with dropout;
            an id is outside the vocabulary, or `tokens` has another shape than `ids`.
        TypeError: the model is not a NumPy Transformer, or an id is not an integer.
    """
    chosen = _chosen("tokens", tokens, ids, model)
    others = None if against is None else _chosen("against", against, ids, model)

    def of_chosen(logits: Float[np.ndarray, "*B T V"]) -> Float[np.ndarray, "*B T"]:
        own = np.take_along_axis(logits, chosen, axis=-1)
        return (own if others is None else own - np.take_along_axis(logits, others, axis=-1))[..., 0]

    written = writes(model, ids)
    stream = reduce(add, written.values())
    norm = final_norm_of(model)
    scaled = frozen(norm, stream)
    zeros = np.zeros_like(stream)
    head_bias = model.head(zeros)  # the head's own contribution: its bias
    shares = {part: of_chosen(model.head(scaled(write)) - head_bias) for part, write in written.items()}
    shares["biases"] = of_chosen(model.head(zeros + getattr(norm, "bias", 0)))
    return shares


def frozen(norm: LayerNorm | RMSNorm, x: Float[np.ndarray, "*B D"]) -> Callable:
    """The norm as a linear map: without its bias, and with the scale it has for x, whatever its input.

    It maps parts that sum to x to parts that sum to norm(x) minus the bias.
    """
    straight = linear_part(norm)
    normed, along = norm(x) - getattr(norm, "bias", 0), straight(x)
    # Each row of one is a multiple of the other's. A projection finds the factor for any kind of norm.
    length = np.maximum(np.vecdot(along, along), np.finfo(x.dtype).tiny)
    scale = np.vecdot(normed, along) / length
    return lambda part: straight(part) * scale[..., None]


def linear_part(norm: LayerNorm | RMSNorm) -> Callable:
    """Applies what a norm does besides scaling and bias: LayerNorm subtracts the mean, and each feature has a gain."""
    centres = isinstance(norm, LayerNorm)
    return lambda x: (x - x.mean(axis=-1, keepdims=True) if centres else x) * norm.weight


def _chosen(
    name: str, tokens: int | np.integer | np.ndarray, ids: Integer[np.ndarray, "*B T"], model: Transformer
) -> Integer[np.ndarray, "*B T 1"]:
    """Returns one id for every position, with an extra axis for picking logits."""
    tokens = np.asarray(tokens)
    checks.instance("model", model, Transformer)
    checks.indices(name, tokens, "vocab_size", model.config.vocab_size)
    if tokens.ndim:
        checks.equal(f"{name}.shape", tokens.shape, "ids.shape", ids.shape)
    return np.broadcast_to(tokens, ids.shape)[..., None]
