"""Judges "Alone, and next to a longer text" (chapter 14): a test that padding does not change a text's logits.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer

from .models import BEFORE, OWN, PLACES, TEXT, Model
from .ward import Bed, put_to_ward


def padding_is_unseen(model: Model, ids: Integer[np.ndarray, " T"], pad: int) -> bool:
    """Returns whether a text gives the same logits alone and with padding after it."""
    T, padded = len(ids), np.concatenate([ids, [pad] * 3])
    beside = model(padded, np.arange(T + 3) < T)
    return bool(np.abs(model(ids, np.ones(T, bool)) - beside[:T]).max() < 1e-4)


padding = exercise("clinic.padding_is_unseen", padding_is_unseen)


def _reads(keys=lambda mask: mask, queries=None, causal=False, weight=1.0, places=0.1, seers=(), blank=False):
    """An encoder: its own character, and the mean of the keys that its mask lets in.

    The seers see all keys. With `blank`, padding has a vector of zeros.
    """

    def model(ids, mask):
        ids, mask = np.asarray(ids), np.asarray(mask)
        if mask.dtype != bool or mask.shape != ids.shape:
            raise ValueError(f"mask should be (T,) = {ids.shape} Boolean, True at real positions")
        T = len(ids)
        may = np.broadcast_to(keys(mask), (T, T)) & (np.tri(T, dtype=bool) if causal else True)
        if queries is not None:
            may = may & queries(mask)[:, None]
        may = may | np.isin(np.arange(T), seers)[:, None]
        share = may / np.maximum(may.sum(axis=1, keepdims=True), 1)
        values = BEFORE[ids] * (mask[:, None] if blank else 1)
        return 6 * OWN[ids] + weight * share @ values + places * PLACES[:T]

    return model


_all = np.ones_like
put_to_ward(padding, {
    "correct models pass": [
        Bed("a right encoder, and padding with an id that is not in the text", (_reads(), TEXT % 4, 4), True),
        Bed("a right encoder, and padding with an id that is also in the text", (_reads(), TEXT, 4), True),
        Bed("the same, and the text begins with that id", (_reads(), TEXT, 0), True),
        Bed("a right encoder without positions", (_reads(places=0), TEXT, 4), True),
    ],
    "a model that sees padding fails": [
        Bed("the mask was never passed on", (_reads(keys=_all), TEXT, 4), False),
        Bed("the mask was never passed on, but it matters little", (_reads(keys=_all, weight=0.01), TEXT, 4), False),
        Bed("the same, and it matters somewhat", (_reads(keys=_all, weight=0.3), TEXT, 4), False),
        Bed("rows 0 and 1 see padding, the others do not", (_reads(seers=(0, 1)), TEXT, 4), False),
        Bed("padding is a vector of zeros, and still takes weight", (_reads(keys=_all, blank=True), TEXT, 4), False),
    ],
    "and so does a model whose mask hides queries, not keys": [
        Bed("the mask hides queries", (_reads(keys=_all, queries=lambda mask: mask), TEXT, 4), False),
    ],
    "a causal model needs no such mask: padding after a text lies in the future": [
        Bed("causal, the mask never passed on", (_reads(keys=_all, causal=True), TEXT, 4), True),
        Bed("causal, with a mask", (_reads(causal=True), TEXT, 4), True),
    ],
})  # fmt: skip
