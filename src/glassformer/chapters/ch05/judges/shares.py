"""Judges "Which part decided?" (chapter 05): what each write contributes to the difference between two logits.

Axes: N writes, D d_model, V vocabulary.
"""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.shapes import Float

from .lens import HEAD, logits_by_hand
from .norms import EPS, GAIN, ONES, mean_by_hand


def shares(
    writes: Float[np.ndarray, "N D"],
    weight: Float[np.ndarray, " D"],
    W: Float[np.ndarray, "D V"],
    token: int,
    against: int,
    eps: float = 1e-5,
) -> Float[np.ndarray, " N"]:
    """Computes what each write adds to `token`'s logit minus that of `against`, with the final RMSNorm's scale held."""
    x = writes.sum(axis=0)
    scale = 1 / np.sqrt((x**2).mean() + eps)
    return writes * scale * weight @ (W[:, token] - W[:, against])


who = exercise("stream.shares", shares, axes="N")


def _shared(writes: Any, weight: Any, W: Any, token: int, against: int, eps: float = EPS) -> list[float]:
    x = [math.fsum(column) for column in writes.T]
    root = math.sqrt(mean_by_hand(a * a for a in x) + eps)
    return [
        math.fsum(a / root * w * b for a, w, b in zip(row, weight, W[:, token] - W[:, against], strict=True))
        for row in writes
    ]  # fmt: skip


_parts = numbers(5, 4)
who.shape("a share for each write", _parts, ONES, HEAD, 2, 0, want=(5,))
who.case(
    "two writes along two features, in a stream whose mean square is 12.5",
    np.array([[3.0, 0], [0, 4.0]]), np.ones(2), np.array([[1.0, 0, 0], [0, 1.0, 0]]), 0, 1,
    want=[3 / math.sqrt(12.5 + EPS), -4 / math.sqrt(12.5 + EPS)], being="3/√12.5 and −4/√12.5",
)  # fmt: skip
who.case("random writes", _parts, ONES, HEAD, 2, 0, want=_shared)
who.case("the norm's gain counts", _parts, GAIN, HEAD, 4, 1, want=_shared)


@who.check("the shares add up to the difference between the two logits")
def _(shares):
    logits = logits_by_hand(_parts.sum(axis=0)[None, None], GAIN, HEAD)[0, 0]
    got = np.asarray(shares(_parts, GAIN, HEAD, 3, 1), dtype=np.float64)
    expect(got.sum(), logits[3] - logits[1], "the sum of the shares")


who.case("writes that are nearly zero: ε matters", _parts / 1000, GAIN, HEAD, 4, 1, want=_shared)
who.also(_parts, GAIN, HEAD, 4, 1, eps=0.5, want=_shared)
