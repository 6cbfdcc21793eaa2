"""Judges "Where the pairs take over" (chapter 08).

The longest text whose pairs take at most half of the operations.
"""

from glassformer.exercises.catalogue import exercise


def longest(D: int, F: int, V: int, n_layers: int) -> int:
    """Returns the length of the longest text whose pairs take at most half of a run's operations, without a gate."""
    return 2 * D + F + V // (2 * n_layers)


pairs = exercise("machine.longest", longest)

pairs.case("one block by hand", 3, 5, 8, 1, want=15, being="the T at which 12·T² is 72·T + 60·T + 48·T")
pairs.case(
    "two blocks share one head", 3, 5, 8, 2, want=13, being="the T at which 24·T² is 144·T + 120·T + 48·T"
)
pairs.case("where no T gives exactly half, it is the largest T below", 3, 5, 7, 1, want=14)
pairs.also(4, 6, 11, 3, want=15)
pairs.case("GPT-2 small", 768, 3072, 50_257, 12, want=6702)
