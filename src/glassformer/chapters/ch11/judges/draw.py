"""Judges "One number, one character" (chapter 11): one uniform number chooses a token.

Axis: V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.shapes import Float


def draw(probabilities: Float[np.ndarray, " V"], uniform: float) -> int:
    """Returns the token on whose stretch the number falls if the probabilities are laid end to end."""
    ends = np.cumsum(probabilities)
    return int(np.searchsorted(ends, uniform * ends[-1], side="right"))


one_of = exercise("generating.draw", draw)

_three = np.array([0.2, 0.5, 0.3])


@one_of.check("the same number gives the same id")
def _(learner):
    found = [as_numbers(learner(np.full(8, 0.125), 0.6), "draw from eight alike").tolist() for _ in range(8)]
    if any(one != found[0] for one in found):
        said = f"with the same number, your function returned {', '.join(map(str, found))}"
        raise Wrong(f"{said}, so it does not use the number.")


one_of.case("a number on the first stretch", _three, 0.1, want=0)
one_of.case("a number on the second stretch, which begins where the first one ends", _three, 0.25, want=1)
one_of.also(_three, 0.69, want=1)
one_of.case("a number on the last stretch", _three, 0.71, want=2)
one_of.also(_three, 0.999, want=2)
_title = "an id without probability is never drawn, not even by the number 0"
one_of.case(_title, np.array([0.0, 0.0, 0.6, 0.4]), 0.0, want=2)
one_of.case("nor is it drawn at the end of the line", np.array([0.6, 0.4, 0.0, 0.0]), 0.9999, want=1)
_title = "because of rounding, the last interval may end slightly below 1: there is no id 10"
_ten, _largest = np.full(10, 0.1), np.nextafter(1, 0)
_what = "draw from ten equally likely ids with the largest number below 1"
one_of.case(_title, _ten, _largest, want=9, what=_what)
_what = "draw from ten equally likely ids and an impossible one, with the largest number below 1"
one_of.also(np.append(_ten, 0.0), _largest, want=9, what=_what)
