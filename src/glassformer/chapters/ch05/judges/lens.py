"""Judges "A lens of your own" (chapter 05): what the model would predict after each stage.

Axes: L stages, T positions, D d_model, V vocabulary.
"""

from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, product_by_hand
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
    return product_by_hand(rms_norm_by_hand(streams, weight, eps), W)


HEAD = numbers(4, 5, seed=3)
early.shape("a logit for each stage, position and token", numbers(3, 2, 4), ONES, HEAD, want=(3, 2, 5))
_streams = numbers(3, 2, 4) * [[[1]], [[3]], [[9]]]
early.case("random streams, which grow", _streams, ONES, HEAD, want=logits_by_hand)
early.case("the norm's gain counts", _streams, GAIN, HEAD, want=logits_by_hand)
early.case("streams that are nearly zero: ε matters", _streams / 1000, GAIN, HEAD, want=logits_by_hand)
early.also(_streams, GAIN, HEAD, eps=0.5, want=logits_by_hand)
early.case("one stage, one position", _streams[:1, :1], GAIN, HEAD, want=logits_by_hand)

_NORMED = "rms_norm(streams, weight, eps)"
early.slip("shares", f"{_NORMED} @ W", f"softmax({_NORMED} @ W)", softmax=softmax)
early.slip("layer norm", _NORMED, "layer_norm(streams, weight, 0 * weight, eps)", layer_norm=layer_norm)
