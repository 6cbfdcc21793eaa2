"""Judges "Bits per byte" (chapter 02): a loss that does not depend on how a text is cut into tokens."""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise


def bits_per_byte(nats_per_token: float, n_tokens: int, n_bytes: int) -> float:
    """Returns the loss in bits per byte, which does not depend on how a text is cut into tokens."""
    return nats_per_token * n_tokens / np.log(2) / n_bytes


bits = exercise("tokens.bits_per_byte", bits_per_byte)

bits.case(
    "an even guess among 256 bytes costs 8 bits",
    math.log(256), 10, 10, want=8.0, what="bits_per_byte(ln 256, 10, 10)",
)  # fmt: skip
bits.case(
    "half as many tokens as bytes", math.log(16), 50, 100, want=2.0, what="bits_per_byte(ln 16, 50, 100)"
)
bits.case("a token of three bytes, at 3 nats", 3.0, 7, 21, want=1.4426950408889634)
bits.case("characters of two bytes each", math.log(2), 5, 10, want=0.5, what="bits_per_byte(ln 2, 5, 10)")
