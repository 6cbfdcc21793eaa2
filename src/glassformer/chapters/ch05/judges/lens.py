"""Judges "A lens of your own" (chapter 05): what the model would predict after each stage.

Axes: L stages, T positions, D d_model, V vocabulary.
"""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float

from .layer_norm import layer_norm
from .norms import EPS, GAIN, ONES, rms_norm_by_hand
from .rms_norm import rms_norm


def lens(
    streams: Float[np.ndarray, "L T D"],
    weight: Float[np.ndarray, " D"],
    W: Float[np.ndarray, "D V"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "L T V"]:
    """Computes what the model would predict at each stage: the final RMSNorm, then the head, on every stream."""
    return rms_norm(streams, weight, eps) @ W


early = exercise("stream.lens", lens, axes="L T V")


def logits_by_hand(streams: Any, weight: Any, W: Any, eps: float = EPS) -> np.ndarray:
    """The logits, each a sum written out."""
    normed = rms_norm_by_hand(streams, weight, eps)
    return np.array([
        [[math.fsum(a * b for a, b in zip(row, column, strict=True)) for column in W.T] for row in one]
        for one in normed
    ])  # fmt: skip


HEAD = numbers(4, 5, seed=3)
early.shape("a logit for each stage, position and token", numbers(3, 2, 4), ONES, HEAD, want=(3, 2, 5))
_streams = numbers(3, 2, 4) * [[[1]], [[3]], [[9]]]
early.case("random streams, which grow", _streams, ONES, HEAD, want=logits_by_hand(_streams, ONES, HEAD))
early.case("the norm's gain counts", _streams, GAIN, HEAD, want=logits_by_hand(_streams, GAIN, HEAD))
_small = _streams / 1000
early.case(
    "streams that are nearly zero: ε matters", _small, GAIN, HEAD, want=logits_by_hand(_small, GAIN, HEAD)
)
early.also(_streams, GAIN, HEAD, eps=0.5, want=logits_by_hand(_streams, GAIN, HEAD, 0.5))
early.case(
    "one stage, one position", _streams[:1, :1], GAIN, HEAD, want=logits_by_hand(_streams[:1, :1], GAIN, HEAD)
)

early.mistake("no norm", lambda streams, weight, W, eps=EPS: streams @ W)
early.mistake("gain alone", lambda streams, weight, W, eps=EPS: (streams * weight) @ W)
early.mistake("shares", lambda streams, weight, W, eps=EPS: softmax(lens(streams, weight, W, eps)))
early.mistake("no gain", lambda streams, weight, W, eps=EPS: lens(streams, np.ones_like(weight), W, eps))
early.mistake(
    "layer norm", lambda streams, weight, W, eps=EPS: layer_norm(streams, weight, 0 * weight, eps) @ W
)
early.mistake("last stage", lambda streams, weight, W, eps=EPS: lens(streams[-1:], weight, W, eps))
early.mistake("own eps", lambda streams, weight, W, eps=EPS: lens(streams, weight, W))


@early.mistake("one scale")
def _(streams, weight, W, eps=EPS):
    scale = np.sqrt((streams[-1:] ** 2).mean(axis=-1, keepdims=True) + eps)
    return streams / scale * weight @ W


@early.mistake("whole stream")
def _(streams, weight, W, eps=EPS):
    return streams / np.sqrt((streams**2).mean(axis=(-1, -2), keepdims=True) + eps) * weight @ W
