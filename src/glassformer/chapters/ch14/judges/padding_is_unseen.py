"""Judges "Alone, and next to a longer text" (chapter 14): a test that padding does not change a text's logits.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer

from .models import BEFORE, NEAR, OWN, PLACES, TEXT, Model, V, differ
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


def _padded(n=3, mask=lambda real: real, look=lambda logits, T: logits[:T], by=NEAR, front=False, both=False):
    def wrong(model, ids, pad):
        T, more = len(ids), [pad] * n
        text = np.concatenate([more, ids] if front else [ids, more]).astype(int)
        real = np.arange(T + n) >= n if front else np.arange(T + n) < T
        beside = model(text, mask(real))
        alone = model(ids, mask(np.ones(T, bool)) if both else np.ones(T, bool))
        return not differ(look(alone, T), look(beside[n:] if front else beside, T), by)

    return wrong


padding.mistake("no padding", _padded(n=0))
padding.mistake("no mask", _padded(mask=_all))


@padding.mistake("mask from the ids")
def _not_pad(model, ids, pad):
    T, padded = len(ids), np.concatenate([ids, [pad]])
    return not differ(model(ids, np.ones(T, bool)), model(padded, padded != pad)[:T])


@padding.mistake("two paddings")
def _other_padding(model, ids, pad):
    T = len(ids)
    one, other = (
        model(np.concatenate([ids, [p] * 3]), np.arange(T + 3) < T)[:T] for p in (pad, (pad + 1) % V)
    )
    return not differ(one, other)


padding.mistake("mask turned round", _padded(mask=np.logical_not))
padding.mistake("mask turned round", _padded(mask=np.logical_not, both=True))
padding.mistake("last row", _padded(look=lambda logits, T: logits[-1]))
padding.mistake("last real row", _padded(look=lambda logits, T: logits[T - 1]))
padding.mistake("in front", _padded(front=True))
padding.mistake("argmax", _padded(look=lambda logits, T: logits[:T].argmax(-1), by=0))
padding.mistake("too loose", _padded(by=0.05))
padding.mistake("turned round", lambda model, ids, pad: not padding_is_unseen(model, ids, pad))
