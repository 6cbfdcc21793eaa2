"""Judges "A slope for every head" (chapter 04): ALiBi's slope for each head, for any number of heads.

Axis: H heads.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.relative import alibi_slopes


def _slopes(heads: int) -> list[float]:
    """ALiBi's slopes as its authors describe them: a recursion on powers of two."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8 * i / heads) for i in range(1, heads + 1)]
    n = 1 << (heads.bit_length() - 1)
    return _slopes(n) + _slopes(2 * n)[0::2][: heads - n]


def _short(n_heads):
    n = 2 ** int(np.log2(n_heads))
    first = np.arange(1, n + 1) / n
    between = (np.arange(1, n_heads - n + 1) - 0.5) / n
    return 2.0 ** (-8 * np.concatenate([first, between]))


slopes = exercise("positions.alibi_slopes", alibi_slopes, short=_short, axes="H")

slopes.case(
    "eight heads: 1/2, 1/4, … 1/256", 8, want=[1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
)
slopes.case("other powers of two end at 1/256 as well", 4, want=[1 / 4, 1 / 16, 1 / 64, 1 / 256])
slopes.also(1, want=[1 / 256])
slopes.case("three heads: two, and one in between", 3, want=[1 / 16, 1 / 256, 1 / 4])
slopes.case("any number of heads", 12, want=2.0 ** -np.array([1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]))
for _heads in (2, 5, 7, 16, 25, 71):
    slopes.also(_heads, want=_slopes(_heads))
