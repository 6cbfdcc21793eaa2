"""Judges "Which methods extrapolate?" (chapter 04).

The mean loss at each position of many windows.

Axes: N windows, T positions asking, V vocab_size.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float, Integer


def loss_by_position(
    logits: Float[np.ndarray, "N T V"], targets: Integer[np.ndarray, "N T"]
) -> Float[np.ndarray, " T"]:
    """Returns the mean over the windows of −ln p of the target, in nats, at each position."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))  # (N, T, V)
    return -np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0].mean(axis=0)


by_position = exercise("positions.by_position", loss_by_position, axes="T")

_equal, _ids = np.zeros((2, 3, 5)), np.array([[0, 1, 2], [4, 3, 2]])
by_position.shape("one loss for each position", _equal, _ids, want=(3,))
by_position.case("all characters equally likely: ln V", _equal, _ids, want=np.full(3, math.log(5)))
# Odds of 1 to 3 and of 1 to 1 at position 0, of 1 to 1 and of 3 to 1 at position 1
_odds = np.log(np.array([[[1.0, 3.0], [2.0, 2.0]], [[5.0, 5.0], [9.0, 3.0]]]))
_wanted = np.array([math.log(4) + math.log(2), math.log(2) + math.log(4 / 3)]) / 2
by_position.case("two windows, worked out by hand", _odds, np.zeros((2, 2), dtype=int), want=_wanted)
_logits, _targets = numbers(7, 4, 6), np.arange(28).reshape(7, 4) * 5 % 6
_by_hand = [-sum(math.log(softmax(_logits[n, t])[_targets[n, t]]) for n in range(7)) / 7 for t in range(4)]
by_position.case("seven windows of other characters", _logits, _targets, want=_by_hand)
by_position.case("large logits: e¹⁰⁰⁰ is too large for a float", _logits + 1000, _targets, want=_by_hand)
