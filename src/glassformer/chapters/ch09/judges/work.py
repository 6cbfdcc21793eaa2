"""Judges "Count the work" (chapter 09).

The multiply-adds of a forward pass, a backward pass and finite differences.
"""

from collections.abc import Sequence

from glassformer.exercises.catalogue import exercise


def work(T: int, sizes: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """Multiply-adds of maps (n_in, n_out) one after another on T positions: forward, back, and by nudging."""
    each = [T * n_in * n_out for n_in, n_out in sizes]
    n_weights = sum(n_in * n_out for n_in, n_out in sizes)
    return sum(each), 2 * sum(each) - each[0], (1 + n_weights) * sum(each)


counted = exercise("back.work", work, parts=("forward", "back", "nudging"))
counted.case("one map: its input needs no gradient", 5, [(4, 3)], want=(60, 60, 13 * 60))
counted.case("two maps", 5, [(4, 3), (3, 2)], want=(90, 120, 19 * 90))
counted.case("up and down again", 128, [(24, 96), (96, 24)], want=(589_824, 884_736, 4609 * 589_824))
counted.case("one position", 1, [(2, 7), (7, 3), (3, 11)], want=(68, 122, 69 * 68))
