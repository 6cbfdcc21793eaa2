"""Judges "What is left of the token?" (chapter 04).

The token's share in the sum of a token vector and a row of sinusoids.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise


def token_left(std: float, factor: float) -> tuple[float, float]:
    """Returns the token's share of the sum's mean square, and the factor at which the two are equally large."""
    token = (factor * std) ** 2
    return token / (token + 0.5), np.sqrt(0.5) / std


_SHARE, _FACTOR = "the share", "the factor"
left = exercise("positions.token_left", token_left, parts=(_SHARE, _FACTOR))

left.case("drawn at 0.5: mean squares of ¼ and ½, so a share of one third", 0.5, 1.0, part=_SHARE, want=1 / 3)
left.case(
    "drawn at 0.5 and multiplied by √2: as large as the sinusoids", 0.5, 1.0, part=_FACTOR, want=math.sqrt(2)
)
left.case("drawn at 0.02, without a factor", 0.02, 1.0, part=_SHARE, want=0.0004 / 0.5004)
left.also(0.02, 1.0, part=_FACTOR, want=25 * math.sqrt(2))
left.case("drawn at 0.02, with a factor of √64", 0.02, 8.0, want=(0.0256 / 0.5256, 25 * math.sqrt(2)))
left.case("at that factor, half of the sum", 0.1, math.sqrt(50.0), want=(0.5, math.sqrt(50.0)))
left.also(0.3, 2.5, want=(0.5625 / 1.0625, math.sqrt(0.5) / 0.3))
