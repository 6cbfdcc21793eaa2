"""Attention and softmax with one thing changed, for the mistakes of chapter 03."""

import math

import numpy as np

from glassformer.scratch.attention import softmax


def changed_attention(q, k, v, *, mask=None, root=True, shares=softmax, hide=-np.inf, scale=None):
    """Returns outputs and weights of attention with one thing changed."""
    scores = q @ k.swapaxes(-1, -2)
    scores = scores / math.sqrt(q.shape[-1]) if scale is None and root else scores * (scale or 1)
    if mask is not None:
        scores = np.where(mask, scores, hide)
    weights = shares(scores)
    return weights @ v, weights


def softmax_of_columns(scores):
    """Computes softmax over the queries, where a column that is −∞ throughout gives zeros."""
    return softmax(scores, axis=-2)


def shifted_softmax(x, by):
    """Returns softmax, computed with `by` subtracted from every score instead of the largest of its row."""
    powers = np.exp(x - by)
    return powers / powers.sum(axis=-1, keepdims=True)
