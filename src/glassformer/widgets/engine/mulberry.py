"""Random numbers that are the same in Python and JavaScript: mulberry32, short enough for both languages."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

_UINT32 = 0xFFFFFFFF


def mulberry32(seed: int) -> Iterator[float]:
    """Yields uniform numbers in [0, 1) from a 32-bit seed."""
    state = seed
    while True:
        state = (state + 0x6D2B79F5) & _UINT32
        t = ((state ^ (state >> 15)) * (state | 1)) & _UINT32
        t ^= (t + (((t ^ (t >> 7)) * (t | 61)) & _UINT32)) & _UINT32
        yield (t ^ (t >> 14)) / 2**32


def uniform(seed: int, count: int) -> Float[np.ndarray, " count"]:
    """Returns the first `count` numbers of mulberry32, uniform in [0, 1), at once; its state grows in equal steps."""
    state = np.uint32(seed) + np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x6D2B79F5)
    t = (state ^ (state >> 15)) * (state | 1)
    t ^= t + (t ^ (t >> 7)) * (t | 61)
    return (t ^ (t >> 14)) / 2**32
