"""Judges "What a longer context costs" (chapter 04).

What a longer context adds to the table, and how much larger a score matrix gets.
"""

from glassformer.exercises.catalogue import exercise


def context_cost(d_model: int, before: int, after: int) -> tuple[int, float]:
    """Returns what a change of context length adds to the table, and the factor by which a score matrix grows."""
    return (after - before) * d_model, (after / before) ** 2


cost = exercise(
    "positions.context_cost", context_cost, parts=("the extra parameters", "the ratio of score cells")
)

cost.case(
    "the parameters: one row of the table for each new position",
    4, 64, 1024, part="the extra parameters", want=3840,
)  # fmt: skip
cost.case("the score matrix: queries times keys", 4, 64, 1024, part="the ratio of score cells", want=256.0)
cost.case("other sizes", 768, 1024, 2048, want=(786_432, 4.0))
cost.also(3, 10, 15, want=(15, 2.25))
cost.also(8, 64, 8, want=(-448, 1 / 64))

cost.mistake("no sign", lambda D, old, new: (max(0, new - old) * D, (new / old) ** 2))
