"""The table of mistakes that a loss may have."""

import math
from collections.abc import Iterator

import numpy as np

from glassformer.scratch import cross_entropy

from ..measures.texts import log_softmax


def of_losses(
    logits: np.ndarray, ids: np.ndarray, targets: np.ndarray, context: int
) -> Iterator[tuple[str, float]]:
    """Yields mistakes and what they make of the loss of a text, from its logits (T, V), ids (T,) and targets (T,)."""
    log_p, rows, (T, V) = log_softmax(logits), np.arange(len(ids)), logits.shape
    said, p = -log_p[rows, targets], np.exp(log_p)
    with np.errstate(all="ignore"):
        powers, shifted = np.exp(logits), np.exp(logits - logits.max(axis=-1, keepdims=True))
        table = [
            ("summed", said.sum()),
            ("divided-by-context", said.sum() / context),
            ("base-2", said.mean() / math.log(2)),
            # view(B, V, T), and transpose(1, 2).reshape(-1, V)
            ("logits-reshaped", cross_entropy(logits.reshape(V, T).T, targets)),
            ("logits-reshaped", cross_entropy(logits.T.reshape(T, V), targets)),
            ("of-probability", p[rows, targets].mean()),
            ("softmax-twice", cross_entropy(p, targets)),
            ("labels-unshifted", cross_entropy(logits, ids)),
            ("labels-shifted-twice", cross_entropy(logits[:-1], targets[1:])),
            ("labels-shifted-twice", cross_entropy(logits, np.roll(targets, -1))),
            ("labels-shifted-twice", cross_entropy(logits[1:], targets[:-1])),
            ("targets-ignored", cross_entropy(logits[:-1], ids[1:])),
            ("targets-ignored", cross_entropy(logits, np.roll(ids, -1))),
            ("last-target", said[-1]),
            ("target-left-out", said[1:].mean()),
            ("target-left-out", said[:-1].mean()),
            ("target-left-out", said[targets != 0].mean() if targets.any() else 0.0),
            *(
                ("label-smoothing", (1 - part) * said.mean() - part * log_p.mean())
                for part in (0.05, 0.1, 0.2)
            ),
            ("squared-error", ((p - np.eye(V)[targets]) ** 2).mean()),
            ("perplexity", np.exp(said.mean())),
            *(
                ("softmax-over-positions", -np.log(e / e.sum(axis=0))[rows, targets].mean())
                for e in (powers, shifted)
            ),
        ]
    yield from ((mistake, float(value)) for mistake, value in table)
