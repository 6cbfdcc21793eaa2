"""Judges "Count the cells" (chapter 03): the number of scores in a layer, and how many a causal mask leaves."""

from glassformer.exercises.catalogue import exercise


def score_cells(n_tokens: int, n_heads: int = 1) -> tuple[int, int]:
    """Returns how many scores a layer computes for a text, and how many of them a causal mask leaves."""
    return n_heads * n_tokens**2, n_heads * n_tokens * (n_tokens + 1) // 2


_ALL, _LEFT = "the number of scores", "the number that a causal mask leaves"
cells = exercise("attention.cells", score_cells, parts=(_ALL, _LEFT))

cells.case("ten tokens: every query meets every key", 10, part=_ALL, want=100)
cells.case("ten tokens under a causal mask: 1 + 2 + … + 10", 10, part=_LEFT, want=55)
cells.case("one token sees itself", 1, want=(1, 1))
cells.case("each head has a table of its own", 10, 4, want=(400, 220))
cells.also(1024, 12, want=(12_582_912, 6_297_600))
