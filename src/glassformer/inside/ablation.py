"""Ablations: take a part out, and see what the model can no longer do.

Every sublayer ends in a matrix, W_o or W_down, and each of its rows carries what one dimension of a head, or one
neuron, has to say. Without the row, that is not said. So no layer has to be changed: only its last matrix, for a while.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from glassformer import _checks as checks
from glassformer.inside.look import check_model, decoder_of, entering, look
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
    """The model without a sublayer, or without `which` of its heads or neurons, inside the `with` block.

    What is removed writes nothing, or with `mean_over` the mean of what it writes over these ids, at every position
    the same: what it has learned of the text as a whole stays, and only what it says of this place is gone.
    `sublayer` is "attention" or "feed-forward". The model gets its weights back, whatever happens inside.

    Derived in chapter 07.

    Raises:
        ValueError: there is no such block, sublayer, head or neuron; the model is no decoder.
        TypeError: the model is not a NumPy Transformer, or a number is not whole.
    """
    linear, removed = _removed(model, block, sublayer, which)
    weight, bias = linear.weight, linear.bias
    said = np.zeros(linear.n_out, weight.dtype) if bias is None else bias  # at every position the same
    if mean_over is not None:
        entered = entering(look(model, mean_over), block, sublayer).reshape(-1, linear.n_in)
        said = said + (entered.mean(axis=0) * removed) @ weight
    elif which is None:
        said = np.zeros_like(said)  # the bias is the whole sublayer's, and goes with it
    try:
        linear.weight, linear.bias = weight * ~removed[:, None], said
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
    """The model without several parts at once, named as `ablations` names them, inside the `with` block.

    "block 0: attention" is a sublayer, "block 1: head 3" a head. With `mean_over` they go one after another: each
    writes the mean of what it writes in the model that those before it have left.

    Derived in chapter 07.

    Raises:
        ValueError: there is no such part; the model is no decoder.
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


def ablations(
    model: Transformer,
    batches: Iterable[Batch],
    *,
    mean_over: Integer[np.ndarray, "*B T"] | None = None,
) -> dict[str, float]:
    """The loss without "nothing", without each sublayer, "block 0: attention" …, and each head, "block 0: head 0" ….

    Derived in chapter 07.

    Raises:
        ValueError: the model is no decoder, or in training with dropout; no target counts.
        TypeError: the model is not a NumPy Transformer.
    """
    check_model(model)
    batches = list(batches)
    losses = {"nothing": mean_loss(model, batches)}
    for i, block in enumerate(decoder_of(model).blocks):
        parts = {"attention": ("attention", None)}
        parts |= {f"head {h}": ("attention", [h]) for h in range(block.attention.n_heads)}
        parts |= {"feed-forward": ("feed-forward", None)}
        for name, (sublayer, which) in parts.items():
            with ablated(model, i, sublayer, which, mean_over=mean_over):
                losses[f"block {i}: {name}"] = mean_loss(model, batches)
    return losses


def mean_loss(model: Transformer, batches: Iterable[Batch]) -> float:
    """The mean loss, in nats, over every target of `batches`, such as `task.validation()`.

    Raises:
        ValueError: the model is no decoder, or in training with dropout; no target counts.
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
    """The last matrix of a sublayer, and which of its rows go."""
    check_model(model)
    checks.one_of("sublayer", sublayer, SUBLAYERS)
    blocks = decoder_of(model).blocks
    checks.indices("block", np.asarray(block), "n_layers", len(blocks))
    attends = sublayer == "attention"
    linear = blocks[block].attention.W_o if attends else blocks[block].feedforward.W_down
    size_name, n_parts = ("n_heads", model.config.n_heads) if attends else ("d_ff", linear.n_in)
    chosen = np.arange(n_parts) if which is None else np.asarray(which)
    checks.one_axis("which", chosen)
    checks.whole("len(which)", len(chosen))
    checks.indices("which", chosen, size_name, n_parts)
    parts = np.zeros(n_parts, bool)
    parts[chosen] = True
    return linear, parts.repeat(linear.n_in // n_parts)  # a head has d_head rows, a neuron one
