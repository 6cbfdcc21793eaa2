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


numbers.slip("one block", "n_layers * (", "(")
numbers.mistake("ends repeated", lambda T, D, H, F, V, L: L * count(T, D, H, F, V, 1))
numbers.slip("no ends", "return T * D +", "return", " + T * D + T * V", "")
numbers.slip("no weights", "2 * H * T * T", "H * T * T")
numbers.slip("no neurons", "T * F + ", "")
numbers.slip("no logits", " + T * V", "")
numbers.slip("nothing after", " + T * D + T * V", "")
numbers.slip("one of seven", "3 * T * D", "2 * T * D")
numbers.slip("no streams", "2 * T * D", "T * D")
numbers.slip("one head's pairs", "2 * H * T * T", "2 * T * T")
numbers.slip("each head as wide", "3 * T * D", "3 * H * T * D")
numbers.slip("no norm at the end", " + T * D + T * V", " + T * V")
