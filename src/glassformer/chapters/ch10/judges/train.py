"""Judges "The loop" (chapter 10): the training loop of a GPT."""

import math
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from glassformer.chapters.ch09.judges.gpt_gradients import gpt_gradients
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect
from glassformer.exercises.material import Shared, quiet

from .adamw import adamw, step_by_hand
from .batches import Batch
from .clip import clip
from .rate_at import rate_at
from .small_gpt import LENGTH, VOCABULARY, Weights, start_weights


def train(
    weights: Weights, n_heads, batches: Iterable[Batch], steps, *, peak=1e-2, warmup=20, max_norm=1.0
) -> Iterator[float]:
    """Trains a GPT, and yields the loss of each step; the dictionary then has the new arrays."""
    memory: dict[str, Any] = {name: (0.0, 0.0) for name in weights}
    for step, (inputs, targets) in zip(range(steps), batches, strict=False):
        found = [gpt_gradients(*text, weights, n_heads) for text in zip(inputs, targets, strict=True)]
        mean = {name: np.mean([g[name] for _, g in found], axis=0) for name in weights}
        mean, _ = clip(mean, max_norm)
        rate = rate_at(step, peak, warmup, steps)
        for name, grad in mean.items():
            decay = 0.1 if grad.ndim == 2 else 0.0
            m, v = memory[name]
            weights[name], m, v = adamw(weights[name], grad, m, v, step + 1, rate, decay=decay)
            memory[name] = m, v
        yield float(np.mean([loss for loss, _ in found]))


looped = exercise("training.train", train)


@cache
def _some_batches(n: int, size: int) -> list[Batch]:
    ids = np.random.default_rng(n).integers(VOCABULARY, size=(n, size, LENGTH + 1))
    return [(one[:, :-1], one[:, 1:]) for one in ids]


@cache
def _trained_by_hand(
    n: int, size: int, n_layers: int, peak: float, warmup: int, max_norm: float, added: float
) -> tuple[list[float], list[Weights]]:
    """Returns the losses, and the weights after each step. The gradients are chapter 09's, which has them checked.

    `added`: to the length, before the gradients are clipped; PyTorch adds 1e-6.
    """
    weights = {name: w.copy() for name, w in start_weights(n_layers).items()}
    memory = {name: [np.zeros_like(w), np.zeros_like(w)] for name, w in weights.items()}
    losses, after = [], []
    for step, (inputs, targets) in enumerate(_some_batches(n, size)):
        texts = [gpt_gradients(*text, weights, HEADS) for text in zip(inputs, targets, strict=True)]
        grads = {name: np.add.reduce([of_text[name] for _, of_text in texts]) / size for name in weights}
        long = math.sqrt(math.fsum(one * one for grad in grads.values() for one in grad.flat))
        short = min(1.0, max_norm / (long + added))
        down = 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (n - warmup)))
        rate = peak * ((step + 1) / (warmup + 1) if step < warmup else down)
        for name, w in weights.items():
            given = (step + 1, rate, (0.9, 0.95), 1e-8, 0.1 * (w.ndim == 2))
            weights[name], *memory[name] = step_by_hand(w, short * grads[name], *memory[name], *given)
        losses.append(math.fsum(loss for loss, _ in texts) / size)
        after.append(dict(weights))
    return losses, after


HEADS, _LOOKED_AT = 2, ("decoder.norm.weight", "token_embedding.weight", "decoder.norm.bias")


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=0, atol=1e-9)


def _train_case(title: str, n: int, n_layers: int, *, warmup: int = 2, max_norm: float = 1.0) -> None:
    size, given = 2, {"peak": 0.05, "warmup": warmup, "max_norm": max_norm}
    said = f"{n} step{'s' * (n > 1)}, 2 texts in a batch, peak 0.05, warm-up {warmup}, max_norm {max_norm:g}"

    @looped.check(title)
    def _(train):
        weights = Shared({name: w.copy() for name, w in start_weights(n_layers).items()})
        more = [*_some_batches(n, size), *_some_batches(3, size)]  # it is not to take them all
        found = train(weights, HEADS, iter(more), n, **given)  # an iterator, as the generator of batches is
        if isinstance(found, np.ndarray) or not isinstance(found, Iterable):
            raise Wrong("train(…) should be a generator: `yield` the loss of each step.")
        losses, seen = [], []
        for loss in islice(found, n + 2):
            losses.append(float(np.asarray(loss)))
            seen.append({name: np.array(weights.get(name)) for name in _LOOKED_AT})
        exactly, as_pytorch = (
            _trained_by_hand(n, size, n_layers, **given, added=added) for added in (0.0, 1e-6)
        )
        is_exact = seen and all(_same(seen[-1][name], exactly[1][-1][name]) for name in _LOOKED_AT)
        want, after = exactly if is_exact else as_pytorch  # both are right
        expect(np.array(losses), want, f"the losses of train ({said})")
        for name in _LOOKED_AT:
            expect(weights.get(name), after[-1][name], f"{name} after train ({said})")
            expect(seen[0][name], after[0][name], f"{name} after the first step of train ({said})")


_train_case("one step: the average loss of the batch, and the new weights in the dictionary", 1, 1, warmup=0)
_train_case("four steps: rate, clipping, m and v", 4, 1)
_train_case("four steps whose average gradients are short enough", 4, 1, max_norm=4.5)
_train_case("two blocks, and gradients that are much too long", 3, 2, max_norm=0.05, warmup=0)

looped.slip("count from 0", "step + 1, rate", "step, rate", adamw=quiet(adamw))
