"""Judges "A cache that forgets" (chapter 16): a ring of slots that keeps the last W positions.

Axes: W slots, T new positions, S kept positions, K features of a head.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect, expect_parts
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def ring_step(
    ring: Float[np.ndarray, "W K"], n_seen: int, new: Float[np.ndarray, "T K"]
) -> tuple[Float[np.ndarray, "W K"], Float[np.ndarray, "S K"]]:
    """Returns the ring after new positions, and those that it keeps, from the oldest to the newest."""
    W, n = len(ring), n_seen + len(new)
    ring = ring.copy()
    for t, row in enumerate(new, start=n_seen):
        ring[t % W] = row
    return ring, ring[[t % W for t in range(max(n - W, 0), n)]]


forgets = exercise("long.ring", ring_step, parts=("ring", "kept"), axes=("W K", "S K"))


def _rows(*positions: int) -> np.ndarray:
    """Returns a row of two numbers for each position, from which one can tell the position."""
    return np.array([[t, 10.0 * t] for t in positions])


forgets.case(
    "three positions in an empty ring of five", np.zeros((5, 2)), 0, _rows(0, 1, 2) + 1,
    want=([[1.0, 1], [2, 11], [3, 21], [0, 0], [0, 0]], [[1.0, 1], [2, 11], [3, 21]]),
    what="three positions in an empty ring of five",
)  # fmt: skip
forgets.case(
    "position 4 takes the slot of position 0", _rows(0, 1, 2, 3), 4, _rows(4),
    want=(_rows(4, 1, 2, 3), _rows(1, 2, 3, 4)), what="position 4 in a ring that holds 0, 1, 2, 3",
)  # fmt: skip
forgets.case(
    "three positions go round the end of the ring", _rows(5, 6, 7, 3, 4), 8, _rows(8, 9, 10),
    want=(_rows(10, 6, 7, 8, 9), _rows(6, 7, 8, 9, 10)), what="positions 8 to 10 in a ring of five",
)  # fmt: skip
forgets.case(
    "more new positions than slots", _rows(6, 4, 5), 7, _rows(*range(7, 15)),
    want=(_rows(12, 13, 14), _rows(12, 13, 14)), what="positions 7 to 14 in a ring of three",
)  # fmt: skip
forgets.also(
    np.zeros((3, 2)), 0, _rows(*range(5)), want=(_rows(3, 4, 2), _rows(2, 3, 4)),
    what="positions 0 to 4 in an empty ring of three",
)  # fmt: skip
forgets.also(
    _rows(0, 1, 0), 2, _rows(*range(2, 10)), want=(_rows(9, 7, 8), _rows(7, 8, 9)),
    what="positions 2 to 9 in a ring of three",
)  # fmt: skip
forgets.case(
    "a new text begins, and what is left of the old one does not count", _rows(8, 9, 6, 7), 0, _rows(0, 1),
    want=(_rows(0, 1, 6, 7), _rows(0, 1)), what="positions 0 and 1 in a ring that an old text has filled",
)  # fmt: skip


@forgets.check("a text in pieces of any length: the ring keeps the last six positions")
def _(ring_step):
    text, ring, n = numbers(24, 3), numbers(6, 3, seed=1), 0
    for length in (1, 4, 2, 9, 1, 7):
        got = expect_parts(ring_step(ring, n, text[n : n + length]), forgets.parts)
        n += length
        expect(got[1], text[max(n - 6, 0) : n], f"what is kept after {n} positions", axes="S K")
        ring = as_numbers(got[0], "the ring")
