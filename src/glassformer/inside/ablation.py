"""Ablations: remove a part and see what the model can no longer do.

Every sublayer ends in a matrix, W_o or W_down, and each row of it writes the output of one dimension of a
head, or of one neuron. Without the row, that output is missing. So no layer has to be changed, only its last
matrix, temporarily.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.inside.look import (
    check_heads,
    check_model,
    check_network,
    decoder_of,
    entering,
    look,
    of_either_room,
)
from glassformer.scratch import Transformer
from glassformer.scratch.linear import Linear
from glassformer.scratch.loss import cross_entropy
from glassformer.shapes import Bool, Integer
from glassformer.tasks import NO_TARGET, Batch

SUBLAYERS = ("attention", "feed-forward")


@contextmanager
def ablated(
    model: Transformer,
    block: int,
    sublayer: str,
    which: Sequence[int] | None = None,
    *,
    mean_over: Integer[np.ndarray, "*B T"] | None = None,
) -> Iterator[Transformer]:
    """Removes a sublayer, or `which` of its heads or neurons, inside the `with` block.

    A removed part writes nothing. With `mean_over`, it writes the average of its output over these ids, the
    same at every position: what it contributes on average stays, and only what depends on the position is
    lost. `sublayer` is "attention" or "feed-forward". The model gets its weights back, whatever happens
    inside.

    Derived in chapter 07.

    Raises:
        ValueError: there is no such block, sublayer, head or neuron; the layer has a state; or the model is not a
            decoder.
        TypeError: the model is not a NumPy Transformer, or a number is not whole.
    """
    linear, removed = _removed(model, block, sublayer, which)
    weight, bias = linear.weight, linear.bias
    bias_left = np.zeros(linear.n_out, weight.dtype) if bias is None else bias  # the same at every position
    if mean_over is not None:
        entered = entering(look(model, mean_over), block, sublayer).reshape(-1, linear.n_in)
        bias_left = bias_left + (entered.mean(axis=0) * removed) @ weight
    elif which is None:
        bias_left = np.zeros_like(bias_left)  # the bias belongs to the whole sublayer and goes with it
    try:
        linear.weight, linear.bias = weight * ~removed[:, None], bias_left
        yield model
    finally:
        linear.weight, linear.bias = weight, bias


@contextmanager
def without(
    model: Transformer,
    parts: Iterable[str],
    *,
    mean_over: Integer[np.ndarray, "*B T"] | None = None,
) -> Iterator[Transformer]:
    """Removes several parts at once inside the `with` block, named as in `ablations`.

    "block 0: attention" is a sublayer, "block 1: head 3" a head. With `mean_over` they are removed one after
    another: each writes its average in the model from which the earlier ones have been removed.

    Derived in chapter 07.

    Raises:
        ValueError: there is no such part, or the model is not a decoder.
        TypeError: the model is not a NumPy Transformer.
    """
    with ExitStack() as out:
        for part in parts:
            named = re.fullmatch(r"block (\d+): (attention|feed-forward|head (\d+))", part)
            if not named:
                raise ValueError(f"part={part!r} is not named as in 'block 0: attention', 'block 0: head 1'")
            block, name, head = named.groups()
            where = (name, None) if head is None else ("attention", [int(head)])
            out.enter_context(ablated(model, int(block), *where, mean_over=mean_over))
        yield model


@of_either_room
def ablations(
    model: Transformer,
    batches: Iterable[Batch],
    *,
    mean_over: Integer[np.ndarray, "*B T"] | None = None,
) -> dict[str, float]:
    """Returns the loss without "nothing", each sublayer ("block 0: attention" …) and each head ("block 0: head 0" …).

    Derived in chapter 07.

    Raises:
        ValueError: the model is not a decoder or is in training with dropout; or no target counts.
        TypeError: the model is not a NumPy Transformer.
    """
    check_model(model)
    check_heads(model)
    batches = list(batches)
    losses = {"nothing": mean_loss(model, batches)}
    for i, block in enumerate(decoder_of(model).blocks):
        heads = [f"head {h}" for h in range(block.attention.n_heads)]
        networks = ["feed-forward"] if model.config.layer(i).n_sublayers == 2 else []
        for name in ("attention", *heads, *networks):
            part = f"block {i}: {name}"
            with without(model, [part], mean_over=mean_over):
                losses[part] = mean_loss(model, batches)
    return losses


@of_either_room
def mean_loss(model: Transformer, batches: Iterable[Batch]) -> float:
    """Returns the mean loss, in nats, over every target of `batches`, such as `task.validation()`.

    Raises:
        ValueError: the model is not a decoder or is in training with dropout; or no target counts.
        TypeError: the model is not a NumPy Transformer.
    """
    check_model(model)
    total = count = 0
    for inputs, targets in batches:
        n = np.count_nonzero(targets != NO_TARGET)
        total += n * float(cross_entropy(model(**inputs), targets))
        count += n
    checks.whole("the number of targets in batches", count)
    return total / count


def _removed(
    model: Transformer, block: int, sublayer: str, which: Sequence[int] | None
) -> tuple[Linear, Bool[np.ndarray, " n_in"]]:
    """Returns the last matrix of a sublayer and which of its rows to remove."""
    check_model(model)
    checks.one_of("sublayer", sublayer, SUBLAYERS)
    blocks = decoder_of(model).blocks
    checks.indices("block", np.asarray(block), "n_layers", len(blocks))
    attends = sublayer == "attention"
    attention: Any = blocks[block].attention
    if attends:
        check_heads(model, block)
    else:
        check_network(model, block)
    linear = attention.W_o if attends else blocks[block].feedforward.W_down
    size_name, n_parts = ("n_heads", model.config.n_heads) if attends else ("d_ff", linear.n_in)
    chosen = np.arange(n_parts) if which is None else np.asarray(which)
    checks.one_axis("which", chosen)
    checks.whole("len(which)", len(chosen))
    checks.indices("which", chosen, size_name, n_parts)
    parts = np.zeros(n_parts, bool)
    parts[chosen] = True
    return linear, parts.repeat(linear.n_in // n_parts)  # a head has d_head rows, a neuron one
