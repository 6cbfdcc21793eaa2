"""Judges "All numbers of a run" (chapter 01): how many numbers all arrays of a run hold together."""

from glassformer.exercises.catalogue import exercise

from .traced import traced


def count(T: int, D: int, H: int, F: int, V: int, n_layers: int) -> int:
    """Returns how many numbers all arrays of a run hold together."""
    attention = 3 * T * D + 2 * H * T * T + 2 * T * D  # q, k, v; scores, weights; write, stream
    feedforward = T * F + 2 * T * D  # neurons; write, stream
    return T * D + n_layers * (attention + feedforward) + T * D + T * V


numbers = exercise("machine.numbers", count)

numbers.case(
    "one block, small enough to add up by hand",
    3, 10, 2, 13, 8, 1, want=369, being="84 outside the block and 285 inside",
)  # fmt: skip
numbers.case("three blocks", 3, 10, 2, 13, 8, 3, want=939, being="84 outside the blocks and 3 · 285 inside")
numbers.case(
    "the book's model reads the line",
    41, 128, 4, 344, 65, 4, want=sum(seen.array.size for seen in traced(41, 128, 4, 344, 65, 4)),
)  # fmt: skip
numbers.also(64, 24, 6, 32, 65, 2, want=sum(seen.array.size for seen in traced(64, 24, 6, 32, 65, 2)))
numbers.case("sizes of 1 throughout: it counts the arrays", 1, 1, 1, 1, 1, 1, want=13)
