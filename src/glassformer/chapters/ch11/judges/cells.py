"""Judges "Ten tokens, four counts" (chapter 11): how many score cells a text costs with and without a cache."""

from glassformer.exercises.catalogue import exercise


def cells(n: int) -> tuple[int, int, int, int]:
    """Returns the score cells of n tokens in a head: all; under a mask; written without a cache; and with one."""
    return n * n, n * (n + 1) // 2, n * (n + 1) * (2 * n + 1) // 6, n * (n + 1) // 2


count = exercise(
    "generating.cells", cells, parts=("the table", "under the mask", "without a cache", "with a cache")
)

count.case("one token: one cell in every case", 1, want=(1, 1, 1, 1))
count.case("two tokens: 1, then a table of 2 × 2, without a cache", 2, want=(4, 3, 5, 3))
count.case("three tokens", 3, want=(9, 6, 14, 6))
count.case("ten tokens", 10, want=(100, 55, 385, 55))
count.case("GPT-2's full context", 1024, want=(1_048_576, 524_800, 358_438_400, 524_800))
