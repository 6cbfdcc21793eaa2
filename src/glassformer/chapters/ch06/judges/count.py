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

size.mistake("one matrix", lambda D, F, gated=False, bias=True: count(D, F, gated, bias) - D * F)
size.mistake("biases forgotten", lambda D, F, gated=False, bias=True: count(D, F, gated, False))
size.mistake("biases always", lambda D, F, gated=False, bias=True: count(D, F, gated, True))
size.mistake("no gate", lambda D, F, gated=False, bias=True: count(D, F, False, bias))
size.mistake(
    "gate without bias", lambda D, F, gated=False, bias=True: count(D, F, gated, bias) - bias * gated * F
)
size.mistake(
    "biases alike", lambda D, F, gated=False, bias=True: count(D, F, gated, False) + bias * (2 + gated) * F
)
size.mistake(
    "all biases everywhere",
    lambda D, F, gated=False, bias=True: (2 + gated) * (D * F + bias * (D + F)),
)
size.mistake(
    "a number each", lambda D, F, gated=False, bias=True: count(D, F, gated, False) + bias * (2 + gated)
)
size.mistake("by the width alone", lambda D, F, gated=False, bias=True: (12 if gated else 8) * D * D)
size.mistake("b_down forgotten", lambda D, F, gated=False, bias=True: count(D, F, gated, bias) - bias * D)
size.mistake("four times", lambda D, F, gated=False, bias=True: count(D, 4 * D, gated, bias))
