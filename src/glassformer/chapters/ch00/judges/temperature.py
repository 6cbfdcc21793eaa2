"""Judges "Temperature" (chapter 00): logits become probabilities at a temperature.

Axis: V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float


def probabilities(logits: Float[np.ndarray, " V"], temperature: float) -> Float[np.ndarray, " V"]:
    """Returns each token's probability at a temperature."""
    scaled = logits / temperature
    powers = np.exp(scaled - scaled.max())
    return powers / powers.sum()


temperature = exercise("start.temperature", probabilities, built_on=(softmax,), axes="V")

_ln = np.log([1.0, 2.0, 5.0])
temperature.case(
    "at temperature 1, each probability is proportional to e to the power of its logit",
    _ln, 1.0, want=[1 / 8, 2 / 8, 5 / 8], what="the result for logits ln 1, ln 2, ln 5",
)  # fmt: skip
temperature.case(
    "temperature 2 makes the probabilities more equal: it takes their square roots",
    np.log([1.0, 4.0, 9.0]), 2.0, want=[1 / 6, 2 / 6, 3 / 6],
    what="the result for logits ln 1, ln 4, ln 9 at temperature 2",
)  # fmt: skip
temperature.case(
    "temperature 1/2 makes the differences larger: it squares the probabilities",
    np.log([1.0, 2.0, 3.0]), 0.5, want=[1 / 14, 4 / 14, 9 / 14],
    what="the result for logits ln 1, ln 2, ln 3 at temperature 1/2",
)  # fmt: skip
temperature.case(
    "adding the same number to all logits changes nothing, however large the number is",
    1000 + 2 * np.log([1.0, 3.0]), 2.0, want=[1 / 4, 3 / 4],
    what="the result for logits 1000 and 1000 + 2 ln 3 at temperature 2",
)  # fmt: skip
temperature.also(
    -1000 + math.log(3.0) * np.arange(2.0),
    1.0,
    want=[1 / 4, 3 / 4],
    what="the result for logits −1000 and −1000 + ln 3",
)
temperature.case(
    "the logits may be far apart, and the temperature may be low",
    np.array([0.0, 0.0, 2000.0]), 1.0, want=[0, 0, 1.0], what="the result for logits 0, 0 and 2000",
)  # fmt: skip
temperature.also(
    np.array([30.0, 20.0, 30.0]), 0.01, want=[1 / 2, 0, 1 / 2],
    what="the result for logits 30, 20, 30 at temperature 0.01",
)  # fmt: skip


def _wrong(change, finish=lambda e: e / e.sum()):
    """A wrong answer: what enters e to the power of it, and what is made of that."""

    def answer(logits, temperature):
        with np.errstate(all="ignore"):
            return finish(np.exp(change(np.asarray(logits, dtype=float), temperature)))

    return answer


def _stable(z):
    return z - z.max()


temperature.mistake("multiplied", _wrong(lambda z, t: _stable(z * t)))
temperature.mistake("no temperature", _wrong(lambda z, t: _stable(z)))
temperature.mistake("not divided", _wrong(lambda z, t: z / t, lambda e: e))
temperature.mistake("not divided, shifted", _wrong(lambda z, t: _stable(z / t), lambda e: e))
temperature.mistake("divided afterwards", lambda z, t: softmax(np.asarray(z)) / t)
temperature.mistake(
    "no exponential", lambda z, t: np.asarray(z) / t / max(abs((np.asarray(z) / t).sum()), 1e-9)
)
temperature.mistake("largest", _wrong(lambda z, t: _stable(z / t), lambda e: e / e.max() / len(e)))
temperature.mistake("naive", _wrong(lambda z, t: z / t))
temperature.mistake("another subtracted", _wrong(lambda z, t: z / t - (z / t).mean()))


@temperature.mistake("subtracted once")
def _subtracted_once(logits, temperature):
    z = np.asarray(logits, dtype=float) / temperature
    with np.errstate(all="ignore"):
        return np.exp(z - z.max()) / np.exp(z).sum()
