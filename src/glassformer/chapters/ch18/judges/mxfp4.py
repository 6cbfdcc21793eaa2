"""Judges "Four bits a number" (chapter 18): decodes blocks of MXFP4.

Axes: R rows of a matrix, G blocks of 32 numbers in a row, C = 32·G columns.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float, Integer


def decode_mxfp4(
    stored: Integer[np.ndarray, "R G 16"], scales: Integer[np.ndarray, "R G"]
) -> Float[np.ndarray, "R C"]:
    """Returns a matrix (R, C) of the numbers that bytes and scales mean."""
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    table = np.concatenate([sizes, -sizes])
    R, G = scales.shape
    pairs = np.stack([table[stored & 15], table[stored >> 4]], axis=-1)
    factors = 2.0 ** (scales.astype(int) - 127)
    return (pairs.reshape(R, G, 32) * factors[:, :, None]).reshape(R, 32 * G)


four_bits = exercise("experts.mxfp4", decode_mxfp4, axes="R C")


def _bit_by_bit(stored, scales):
    """Reads a sign, two bits of exponent and one of fraction, from the text of each byte."""
    rows = []
    for row, exponents in zip(stored, scales, strict=True):
        found = []
        for block, exponent in zip(row, exponents, strict=True):
            for byte in block:
                bits = f"{int(byte):08b}"
                for sign, high, low, half in (bits[4:], bits[:4]):
                    e, f = 2 * int(high) + int(low), int(half) / 2
                    size = (1 + f) * 2.0 ** (e - 1) if e else f
                    found.append((-1) ** int(sign) * size * 2.0 ** (int(exponent) - 127))
        rows.append(found)
    return np.array(rows)


def _bytes(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((18, seed)).integers(256, size=shape, dtype=np.uint8)


def _block(*first):
    """Returns a block that begins with these bytes and ends with zeros."""
    return np.array([[[*first, *[0] * (16 - len(first))]]], np.uint8)


def _row(*first):
    return [[*first, *[0.0] * (32 - len(first))]]


_one = np.array([[127]], np.uint8)
four_bits.case(
    "one byte holds two numbers, and the lower four bits come first: 0x52 is 1, then 3",
    _block(0x52), _one, want=_row(1.0, 3.0), what="a block of 0x52 with a scale of 127",
)  # fmt: skip
four_bits.case(
    "all eight sizes", _block(0x10, 0x32, 0x54, 0x76), _one,
    want=_row(0, 0.5, 1, 1.5, 2, 3, 4, 6), what="a block of 0x10, 0x32, 0x54, 0x76",
)  # fmt: skip
four_bits.case(
    "the highest of four bits is the sign", _block(0x9F, 0x3D), _one,
    want=_row(-6, -0.5, -3, 1.5), what="a block of 0x9f, 0x3d",
)  # fmt: skip
four_bits.case(
    "a scale of 130 multiplies by 2³", _block(0x52), np.array([[130]], np.uint8),
    want=_row(8.0, 24.0), what="a block of 0x52 with a scale of 130",
)  # fmt: skip
four_bits.case(
    "and one of 125 by 2⁻²", _block(0x52), np.array([[125]], np.uint8),
    want=_row(0.25, 0.75), what="a block of 0x52 with a scale of 125",
)  # fmt: skip
for _title, _R, _G, _seed in (
    ("three rows of two blocks, each with its own scale", 3, 2, 0),
    ("", 3, 2, 1),
    ("two rows of three blocks", 2, 3, 2),
    ("", 1, 1, 3),
):
    four_bits.case(
        _title, _bytes(_R, _G, 16, seed=_seed), 123 + _bytes(_R, _G, seed=_seed + 9) % 8,
        want=_bit_by_bit, what=f"R = {_R} and G = {_G}",
    )  # fmt: skip
