"""Judges "Which positions see which" (chapter 12): how many cells a head of each family may use."""

from glassformer.exercises.catalogue import exercise


def cells(T: int, P: int, S: int) -> tuple[int, int, int, int]:
    """Returns how many cells a head may use: both ways, causal, with a prefix of P, and across to a source of S."""
    causal = T * (T + 1) // 2
    return T * T, causal, causal + P * (P - 1) // 2, T * S


counting = exercise("families.cells", cells, parts=("both", "causal", "prefix", "cross"))


def _counted(T: int, P: int, S: int) -> tuple[int, int, int, int]:
    """Counts one cell after another."""
    square = [(t, s) for t in range(T) for s in range(T)]
    causal = sum(s <= t for t, s in square)
    return len(square), causal, sum(s <= t or s < P for t, s in square), len([0] * T * S)


counting.case("three tokens, on paper: 9 cells, 6 of them causal", 3, 2, 5, want=_counted)
counting.case("without a prefix it is causal", 7, 0, 4, want=_counted)
counting.also(7, 1, 4, want=_counted)
counting.case("a prefix that is the whole text: both ways", 6, 6, 9, want=_counted)
counting.case("ten tokens", 10, 4, 13, want=_counted)
counting.case("GPT-2's context", 1024, 100, 300, want=(1_048_576, 524_800, 529_750, 307_200))
