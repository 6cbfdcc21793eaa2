"""Judges "Eight thirds" (chapter 06): eight thirds of the width, rounded up to a multiple."""

from glassformer.exercises.catalogue import exercise


def hidden_width(d_model: int, multiple: int = 1) -> int:
    """The smallest multiple that is not below 8/3 of d_model."""
    return -(-8 * d_model // (3 * multiple)) * multiple


thirds = exercise("feedforward.hidden_width", hidden_width)

thirds.case("768: 8/3 of it is 2,048, a whole number", 768, want=2048)
thirds.case("128, in multiples of 8: 341.33 becomes 344, as in the book's model", 128, 8, want=344)
thirds.case("4,096 and 5,120, in multiples of 256, as in LLaMA-2", 4096, 256, want=11_008)
thirds.also(5120, 256, want=13_824)
thirds.case("a width that is already a multiple stays", 768, 64, want=2048)
thirds.also(96, 256, want=256)
thirds.case("up, never down, in multiples of 1 as well", 512, 1, want=1366)
thirds.also(512, want=1366)
thirds.also(64, 4, want=172)
