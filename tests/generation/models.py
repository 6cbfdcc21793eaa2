"""Provides models to generate with that can be worked out by hand."""

from types import SimpleNamespace

import numpy as np


def config(**changed):
    """The fields of a config that `generate` reads."""
    given = {"family": "decoder", "vocab_size": 10, "context_length": 64, "head": "tied", "dropout": 0.0}
    return SimpleNamespace(**{**given, **changed})


class Arithmetic:
    """A model that predicts Σ (position + 1)·(id + 1), modulo V, with certainty: wrong positions or masks change it.

    Its cache keeps each position's share of the sum. An encoder–decoder adds the sum over the source.
    """

    training = False

    def __init__(self, **changed):
        self.config = config(**changed)
        self.shapes = []  # of the ids, at every call
        self.encoded = 0

    def hidden(self, ids, *, mask=None, position_ids=None, cache=None, memory=None, source_mask=None):
        self.shapes.append(ids.shape)
        past = 0 if cache is None else cache.length
        if position_ids is None:
            position_ids = np.arange(past, past + ids.shape[1])
        shares = (position_ids + 1) * (ids + 1)
        if cache is not None:
            shares = cache.append(shares)
        visible = np.ones(shares.shape, bool) if mask is None else mask
        assert visible.shape == shares.shape
        sums = np.cumsum(np.where(visible, shares, 0), axis=1)[:, past:]
        if memory is not None:
            sums = sums + (memory * source_mask).sum(axis=1, keepdims=True)
        return sums[:, :, None].astype(float)

    def head(self, hidden):
        assert hidden.shape[1] == 1, "only the last position needs logits"
        return np.eye(self.config.vocab_size)[hidden[..., 0].astype(int) % self.config.vocab_size]

    def encode(self, source, *, mask):
        self.encoded += 1
        return np.where(mask, source + 1, 1000)  # what padding gives is large, so that it shows if it counts

    def new_cache(self, batch_size, length):
        return ArithmeticCache(batch_size, length)


class ArithmeticCache:
    def __init__(self, batch_size, capacity):
        self.shares, self.length, self.capacity = np.zeros((batch_size, capacity), int), 0, capacity

    def append(self, new):
        end = self.length + new.shape[1]
        assert end <= self.capacity
        self.shares[:, self.length : end] = new
        self.length = end
        return self.shares[:, :end]


class Fixed:
    """A model that gives the same logits after every text."""

    training = False

    def __init__(self, logits, **changed):
        self.logits = np.asarray(logits, float)
        self.config = config(vocab_size=len(self.logits), **changed)

    def hidden(self, ids, **given):
        return np.zeros((*ids.shape, 1))

    def head(self, hidden):
        return np.broadcast_to(self.logits, (*hidden.shape[:-1], len(self.logits)))

    def new_cache(self, batch_size, length):
        return SimpleNamespace(length=0, reorder=lambda rows: None)


class Chain:
    """A model whose logits depend only on the last id: row i of `logits` (V, V) is for what follows i."""

    training = False

    def __init__(self, logits):
        self.logits = np.asarray(logits, float)
        self.config = config(vocab_size=len(self.logits))

    def hidden(self, ids, **given):
        return ids[:, :, None].astype(float)

    def head(self, hidden):
        return self.logits[hidden[..., 0].astype(int)]

    def new_cache(self, batch_size, length):
        return SimpleNamespace(length=0, reorder=lambda rows: None)
