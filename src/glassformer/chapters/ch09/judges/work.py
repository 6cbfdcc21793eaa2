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


def _counted_wrong(back=lambda e: 2 * sum(e) - e[0], nudged=lambda n: 1 + n, forward=sum, weights=None):
    def wrong(T, sizes):
        each = [T * a * b for a, b in sizes]
        n = sum(a * b for a, b in sizes) if weights is None else weights(sizes)
        return forward(each), back(each), nudged(n) * forward(each)

    return wrong


counted.mistake("first input, too", _counted_wrong(back=lambda e: 2 * sum(e)))
counted.mistake("as much as forward", _counted_wrong(back=sum))
counted.mistake("last input left out", _counted_wrong(back=lambda e: 2 * sum(e) - e[-1]))
counted.mistake("no first run", _counted_wrong(nudged=lambda n: n))
counted.mistake("both sides", _counted_wrong(nudged=lambda n: 2 * n))
counted.mistake(
    "operations", _counted_wrong(forward=lambda e: 2 * sum(e), back=lambda e: 4 * sum(e) - 2 * e[0])
)
counted.mistake("one position", lambda T, sizes: work(1, sizes))
counted.mistake("biases", _counted_wrong(weights=lambda sizes: sum((a + 1) * b for a, b in sizes)))
