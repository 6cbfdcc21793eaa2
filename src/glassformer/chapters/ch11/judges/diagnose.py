"""Judges "Trained well, writes badly" (chapter 11).

A test that recognises three mistakes of models that train well but write badly.

Axis: T positions.
"""

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


def _patient(title: str, read: Any, write: Any, want: str, also: bool = False) -> None:
    add = clinic.also if also else lambda *args, **case: clinic.case(title, *args, **case)
    add(read, write, _ROUND, want=want, what=f"diagnose ({title.split(':')[0]})")


_patient(
    "nothing is wrong: it predicts the next id, and writing agrees with reading", _reads(), _reads(), "fine"
)
_patient(
    "targets not shifted: it predicts the id that it is reading", _reads(says=0), _reads(says=0), "targets"
)
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
clinic.also(
    _reads(ahead=1),
    _reads(says=2),
    _ROUND,
    want="leak",
    what="diagnose (a leak, and it writes something else)",
)
clinic.also(
    _reads(ahead=1), _reads(), (_ROUND + 4) % _V, want="leak", what="diagnose (a leak, a text that ends in 0)"
)


def _answers(
    leak=True, cache_=True, targets=True, order="lc",
    differs=lambda a, b: abs(a - b).max() > 1e-6, another=lambda token: (token + 1) % _V,
):  # fmt: skip
    def wrong(read, write, ids):
        found = []
        other = np.array(ids)
        other[-1] = another(ids[-1])
        logits = read(ids)
        if leak and abs(logits[:-1] - read(other)[:-1]).max() > 1e-6:
            found.append("leak")
        if cache_ and differs(logits, write(ids)):
            found.append("cache")
        if order == "cl":
            found.sort()
        if targets and (logits.argmax(axis=-1) == ids).mean() > 0.5:
            found.append("targets")
        return found[0] if found else "fine"

    return wrong


clinic.mistake("cache first", _answers(order="cl"))
clinic.mistake("no cache", _answers(cache_=False))
clinic.mistake("no targets", _answers(targets=False))
clinic.mistake("no cache", _answers(differs=lambda a, b: (a.argmax(-1) != b.argmax(-1)).any()))
clinic.mistake("one row alone", _answers(differs=lambda a, b: abs(a[-1] - b[-1]).max() > 1e-6))
clinic.mistake("the same token", _answers(another=lambda token: 0))
clinic.mistake("fine", lambda read, write, ids: "fine")


@clinic.mistake("last row too")
def _(read, write, ids):
    other = np.array(ids)
    other[-1] = (ids[-1] + 1) % _V
    return "leak" if abs(read(ids) - read(other)).max() > 1e-6 else _answers()(read, write, ids)


@clinic.mistake("shifted too far")
def _(read, write, ids):
    found = _answers(targets=False)(read, write, ids)
    return "targets" if found == "fine" and (read(ids).argmax(axis=-1) != ids).mean() > 0.5 else found
