"""Judges "How far can a head see?" (chapter 04).

The distance at which a head with a given slope hardly sees anything.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise


def alibi_window(slope: float) -> int:
    """The first whole distance at which a key gets less than 1 % of an equal, undiscounted key's weight."""
    return int(np.log(100) / slope) + 1


window = exercise("positions.alibi_window", alibi_window)

window.case("slope 1, worked by hand", 1.0, want=5)
window.case("the steepest and the flattest of eight heads", 1 / 2, want=10, what="alibi_window(1/2)")
window.also(1 / 256, want=1179, what="alibi_window(1/256)")
window.case("it is the first distance at which the weight is below 1 %, for any slope", 0.3, want=16)
for _slope in (2.0**-0.5, 2.0**-3.5, 3.0, 5.0):
    window.also(_slope, want=next(d for d in range(1, 1000) if math.exp(-_slope * d) < 0.01))

window.mistake("base 10", lambda slope: math.ceil(2 / slope))
