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


_BACK = "2 * sum(each) - each[0]"
counted.slip("first input, too", " - each[0]", "")
counted.slip("as much as forward", _BACK, "sum(each)")
counted.slip("last input left out", "each[0]", "each[-1]")
counted.slip("no first run", "1 + n_weights", "n_weights")
counted.slip("both sides", "1 + n_weights", "2 * n_weights")
counted.slip("operations", "T * n_in", "2 * T * n_in")
counted.slip("one position", "each = ", "T = 1\n    each = ")
