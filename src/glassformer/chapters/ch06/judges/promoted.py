"""Judges "What does a neuron promote?" (chapter 06): the tokens that a neuron makes likelier.

Axes: D d_model, V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float, Int


def promoted(
    row: Float[np.ndarray, " D"],
    gain: Float[np.ndarray, " D"],
    head: Float[np.ndarray, "D V"],
    n: int,
    sign: int = 1,
) -> Int[np.ndarray, " n"]:
    """The n ids that a neuron with this row of W_down makes likelier, the strongest first."""
    return np.argsort(-sign * ((row * gain) @ head))[:n]


likelier = exercise("feedforward.promoted", promoted, axes="n")

_head = np.array([[1.0, 0, -1.25, 3, 2], [0, 2, 1, -1.5, 0.25]])
likelier.case(
    "a row that points along the first feature: the head's first row, sorted",
    np.array([1.0, 0]), np.ones(2), _head, 3, want=[3, 4, 0],
)  # fmt: skip
likelier.case(
    "the gain of the last norm comes in between and can change the order",
    np.array([1.0, 1.0]), np.array([0.1, 2.0]), _head, 2, want=[1, 2],
)  # fmt: skip
likelier.case(
    "a negative neuron favours what its row suppresses",
    np.array([1.0, 0]), np.ones(2), _head, 2, sign=-1, want=[2, 1],
)  # fmt: skip
_r, _g, _h = numbers(4, seed=1), np.array([0.5, -1.5, 2.0, 1.0]), numbers(4, 40, seed=3)
_logits = [math.fsum(a * b * c for a, b, c in zip(_r, _g, column, strict=True)) for column in _h.T]
likelier.case(
    "random vectors; a gain may be negative",
    _r, _g, _h, 12, want=sorted(range(40), key=lambda i: -_logits[i])[:12],
)  # fmt: skip
likelier.also(_r, _g, _h, 40, want=sorted(range(40), key=lambda i: -_logits[i]))
_r, _h = numbers(3, seed=5), numbers(3, 3, seed=6)
_logits = [math.fsum(a * c for a, c in zip(_r, column, strict=True)) for column in _h.T]
likelier.case(
    "as many tokens as features: the head is (D, V)",
    _r, np.ones(3), _h, 3, want=sorted(range(3), key=lambda i: -_logits[i]),
)  # fmt: skip


def _ranked(logits=lambda row, gain, head: (row * gain) @ head, of=lambda logits, n, sign: None):
    def wrong(row, gain, head, n, sign=1):
        return of(logits(row, gain, head), n, sign)

    return wrong


def _best(logits, n, sign):
    return np.argsort(-sign * logits)[:n]


likelier.mistake("suppressed", _ranked(of=lambda logits, n, sign: np.argsort(sign * logits)[:n]))
likelier.mistake("weakest first", _ranked(of=lambda logits, n, sign: np.argsort(sign * logits)[-n:]))
likelier.mistake("no gain", _ranked(lambda row, gain, head: row @ head, _best))
likelier.mistake("divided by the gain", _ranked(lambda row, gain, head: (row / gain) @ head, _best))
likelier.mistake("no sign", _ranked(of=lambda logits, n, sign: np.argsort(-logits)[:n]))
likelier.mistake("by size", _ranked(of=lambda logits, n, sign: np.argsort(-np.abs(logits))[:n]))
likelier.mistake("gain without sign", _ranked(lambda row, gain, head: (row * abs(gain)) @ head, _best))
likelier.mistake("logits negated", _ranked(of=lambda logits, n, sign: np.sort(-sign * logits)[:n]))
likelier.mistake("logits", _ranked(of=lambda logits, n, sign: np.sort(sign * logits)[::-1][:n]))


@likelier.mistake("head transposed")
def _(row, gain, head, n, sign=1):
    return _best((row * gain) @ (head.T if len(head) == head.shape[1] else head), n, sign)
