"""Judges "Two thirds of what?" (chapter 06).

The fraction of a GPT-2's parameters that is in its feed-forward networks.
"""

from glassformer.exercises.catalogue import exercise


def share(d_model: int, n_layers: int, vocab_size: int, context_length: int) -> float:
    """Returns the fraction of all parameters of such a GPT-2 that is in its feed-forward networks."""
    D, L = d_model, n_layers
    feedforward = L * (8 * D * D + 5 * D)
    attention, norms = L * (4 * D * D + 4 * D), L * 4 * D
    return feedforward / (vocab_size * D + context_length * D + attention + feedforward + norms + 2 * D)


part = exercise("feedforward.share", share)

part.case(
    "one block of width 1, with 11 tokens and 7 positions: 13 of 11 + 7 + 8 + 13 + 4 + 2",
    1, 1, 11, 7, want=13 / 45, being="13/45",
)  # fmt: skip
part.case("two blocks of width 2", 2, 2, 19, 9, want=84 / (38 + 18 + 48 + 84 + 16 + 4), being="84/208")
part.case(
    "GPT-2 small: less than half",
    768, 12, 50_257, 1024, want=56_669_184 / 124_439_808, being="56,669,184 of 124,439,808",
)  # fmt: skip
part.case("GPT-2 XL", 1600, 48, 50_257, 1024, want=983_424_000 / 1_557_611_200)
