"""Small models made by hand from a table and a mean, so that what each of them can see is known."""

import itertools
from collections.abc import Callable

import numpy as np

NEAR = 1e-4  # logits that differ by less are the same
Model = Callable[..., np.ndarray]


V = 5
_rng = np.random.default_rng(14)
OWN = _rng.normal(size=(V, V))
BEFORE = _rng.normal(size=(V, V))
PLACES = _rng.normal(size=(40, V))
TEXT = np.array([0, 3, 1, 4, 2, 2, 0, 1])


def causal_model(places=1.0, ahead=0, noise=0.0, own=1.0, rows=None, seers=None) -> Model:
    """Makes a causal model whose logits depend on its own character and on the mean of those it sees, with positions.

    `noise` raises a different character at every call, in `rows`. `ahead` is how many positions the seers see ahead.
    """
    calls = itertools.count()

    def model(ids):
        ids = np.asarray(ids)
        seen = BEFORE[ids] * (1 + places * PLACES[: len(ids), :1])
        sees = np.isin(np.arange(len(ids)), np.arange(len(ids)) if seers is None else seers)
        ends = np.minimum(np.arange(len(ids)) + 1 + ahead * sees, len(ids))
        logits = own * 6 * OWN[ids] + np.stack([seen[:end].mean(axis=0) for end in ends])
        if noise:
            where = np.isin(np.arange(len(ids)), np.arange(len(ids)) if rows is None else rows)
            logits = logits + noise * where[:, None] * np.eye(V)[next(calls) % V]
        return logits

    return model


def differ(a, b, by: float = NEAR) -> bool:
    """Returns whether some number of a differs from its counterpart in b by more than `by`."""
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() > by)
