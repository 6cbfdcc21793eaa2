"""Judges "Trained well, writes badly" (chapter 11).

A test that recognises three mistakes of models that train well but write badly.

Axis: T positions.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer


def diagnose(
    read: Callable[[np.ndarray], np.ndarray],
    write: Callable[[np.ndarray], np.ndarray],
    ids: Integer[np.ndarray, " T"],
) -> str:
    """Returns which of three mistakes a model has that trains well and writes badly, or that it has none."""
    ids = np.asarray(ids)
    other = ids.copy()
    other[-1] = ids[0] if ids[-1] != ids[0] else ids[1]
    logits = read(ids)
    if not np.allclose(logits[:-1], read(other)[:-1], rtol=0, atol=1e-3):
        return "leak"
    if not np.allclose(logits, write(ids), rtol=0, atol=1e-3):
        return "cache"
    right = (logits[:-1].argmax(axis=-1) == ids[1:]).mean()
    copied = (logits.argmax(axis=-1) == ids).mean()
    return "targets" if copied > right else "fine"


clinic = exercise("generating.diagnose", diagnose)

_V = 7
_BEFORE = np.random.default_rng(11).normal(size=(_V, _V)) * 0.2
_PLACES = np.random.default_rng(12).normal(size=(40, _V)) * 0.2
_ROUND = np.array([0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3])


def _reads(says: int = 1, ahead: int = 0, place: int = 0) -> Callable[[Any], np.ndarray]:
    """Returns a model that counts in a circle: it predicts the id `says` further on.

    It sees `ahead` positions into the future, and its positions are `place` too high.
    """

    def read(ids: Any) -> np.ndarray:
        ids = np.asarray(ids)
        rows = _BEFORE[ids]
        T = len(ids)
        mean = np.stack([rows[: min(T, t + 1 + ahead)].mean(axis=0) for t in range(T)])
        return 6 * np.eye(_V)[(ids + says) % _V] + mean + _PLACES[np.arange(T) + place]

    return read


def _patient(title: str, read: Any, write: Any, want: str, *, also: bool = False, ids: Any = _ROUND) -> None:
    what = f"diagnose ({title.split(':')[0]})"
    clinic.case("" if also else title, read, write, ids, want=want, what=what)


_title = "nothing is wrong: it predicts the next id, and writing agrees with reading"
_patient(_title, _reads(), _reads(), "fine")
_title = "targets not shifted: it predicts the id that it is reading"
_patient(_title, _reads(says=0), _reads(says=0), "targets")
_patient("a cache: writing gives different logits from reading", _reads(), _reads(place=1), "cache")
_patient(
    "a cache that changes no argmax", _reads(), lambda ids: _reads()(ids) + 0.01 * np.eye(_V)[0], "cache", also=True
)  # fmt: skip
_patient(
    "a cache that is right again at the end", _reads(),
    lambda ids: np.concatenate([_reads(place=1)(ids)[:-1], _reads()(ids)[-1:]]), "cache", also=True,
)  # fmt: skip
_patient("a leak: the last token changes earlier logits", _reads(ahead=1), _reads(), "leak")
_patient("a leak of a whole text", _reads(ahead=50), _reads(), "leak")
_patient("a leak, and it writes something else", _reads(ahead=1), _reads(says=2), "leak", also=True)
_title = "a leak, a text that ends in 0"
_patient(_title, _reads(ahead=1), _reads(), "leak", also=True, ids=(_ROUND + 4) % _V)


_LEAK, _CACHE = re.findall(r"    if not .*\n.*\n", clinic.answer)
clinic.slip("cache first", _LEAK + _CACHE, _CACHE + _LEAK)
