"""Judges "Worth more together?" (chapter 07).

How much more it costs to remove several parts together than to remove each alone.
"""

from collections.abc import Sequence

from glassformer.exercises.catalogue import exercise


def interaction(whole: float, alone: Sequence[float], together: float) -> float:
    """Returns the cost of removing several parts together, minus the sum of the costs of removing each alone."""
    return (together - whole) - sum(loss - whole for loss in alone)


both = exercise("block.interaction", interaction)

both.case(
    "each part alone costs 0.25 and the two together 1.0, which is half a nat more than the sum",
    1.5, [1.75, 1.75], 2.5, want=0.5,
)  # fmt: skip
both.case("0.5 and 0.25 alone, 0.75 together: an interaction of zero", 2.0, [2.5, 2.25], 2.75, want=0.0)
both.case("less than the sum: a negative interaction", 1.0, [1.5, 2.0], 2.25, want=-0.25)
both.case("four parts", 1.5, [1.75, 1.625, 2.0, 1.5], 3.0, want=0.625)
both.also(1.5, [2.25], 2.25, want=0.0)
