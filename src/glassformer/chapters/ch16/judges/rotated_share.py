"""Judges "Two ways to rotate a part" (chapter 16): the frequencies of a head if only a share rotates."""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.rotary import RotaryPositions
from glassformer.shapes import Float


def frequencies(d_head: int, base: float, share: float, kind: str) -> Float[np.ndarray, " K//2"]:
    """Returns the frequency of each pair of a head's features; it is 0 for those that do not rotate."""
    n_rotated = round(share * d_head)
    width = n_rotated if kind == "partial" else d_head
    i = np.arange(n_rotated // 2)
    w = np.zeros(d_head // 2)
    w[: n_rotated // 2] = base ** (-2 * i / width)
    return w


two_ways = exercise("long.rotated_share", frequencies)


def _read_off(d_head: int, base: float, share: float, kind: str) -> np.ndarray:
    """Lets the package rotate pairs (1, 0) by one position, and returns their angles."""
    proportional = kind == "proportional"
    rotary = RotaryPositions(d_head, base=base, share=share, proportional=proportional)
    n_pairs = (d_head if proportional else round(share * d_head)) // 2
    x = np.zeros((1, 2, d_head))
    x[..., :n_pairs] = 1.0
    row = rotary.rotate(x)[0, 1]
    angles = np.arctan2(row[n_pairs : 2 * n_pairs], row[:n_pairs])
    return np.concatenate([angles, np.zeros(d_head // 2 - n_pairs)])


two_ways.case(
    "partial: six of twelve features, with the frequencies of a head of six",
    12, 1000.0, 0.5, "partial", want=[1.0, 0.1, 0.01, 0.0, 0.0, 0.0],
)  # fmt: skip
two_ways.case(
    "proportional: three of six pairs, with the frequencies of the whole head",
    12, 1e6, 0.5, "proportional", want=[1.0, 0.1, 0.01, 0.0, 0.0, 0.0],
)  # fmt: skip
two_ways.case(
    "if everything rotates, both are the RoPE of chapter 04",
    6, 1000.0, 1.0, "partial", want=[1.0, 0.1, 0.01],
)  # fmt: skip
two_ways.also(6, 1000.0, 1.0, "proportional", want=[1.0, 0.1, 0.01])
two_ways.case("a single pair rotates", 16, 500.0, 0.125, "partial", want=[1.0] + [0.0] * 7)
two_ways.also(16, 500.0, 0.125, "proportional", want=[1.0] + [0.0] * 7)
two_ways.case(
    "0.58 · 100, which is 57.99999999999999 to a computer: 29 pairs rotate",
    100, 10_000.0, 0.58, "partial", want=[10_000.0 ** (-i / 29) for i in range(29)] + [0.0] * 21,
)  # fmt: skip
two_ways.case("half of 128 features, as in GLM-4.5", 128, 1e6, 0.5, "partial", want=_read_off)
two_ways.case("a quarter of 256 features, as in Qwen3-Next", 256, 1e7, 0.25, "partial", want=_read_off)
two_ways.case(
    "a quarter of 512 features, as in Gemma 4's full layers", 512, 1e6, 0.25, "proportional", want=_read_off
)
