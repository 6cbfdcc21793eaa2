"""Judges "How many numbers does it learn?" (chapter 06).

The parameters of a feed-forward network with and without a gate.
"""

from glassformer.exercises.catalogue import exercise


def count(d_model: int, d_ff: int, gated: bool = False, bias: bool = True) -> int:
    """The parameters of a feed-forward network."""
    wide = 2 if gated else 1
    return (wide + 1) * d_model * d_ff + bias * (wide * d_ff + d_model)


size = exercise("feedforward.count", count)

size.case("two of 2 × 3, and biases of 3 and 2", 2, 3, want=17)
size.case("without biases", 2, 3, bias=False, want=12)
size.case("a gate is a third matrix", 4, 5, gated=True, bias=False, want=60)
size.case("a gate has a bias of its own", 4, 5, gated=True, want=74)
size.case("a block of GPT-2 small", 768, 3072, want=4_722_432)
size.also(4096, 11_008, gated=True, bias=False, want=135_266_304)
