"""Judges "What tying saves" (chapter 08): how many parameters tying saves, and what fraction that is."""

from glassformer.exercises.catalogue import exercise

from .parameters import parameters


def tying_saves(vocab_size: int, context_length: int, d_model: int, n_layers: int) -> tuple[int, float]:
    """Returns how many parameters tying saves in a GPT of GPT-2's kind, and their fraction of the untied model."""
    saved = vocab_size * d_model
    return saved, saved / parameters(vocab_size, context_length, d_model, n_layers, tied=False)


saving = exercise("gpt.tying_saves", tying_saves, parts=("saved", "share"), axes=("", ""))

saving.case("GPT-2 small: a matrix of 50,257 × 768", 50_257, 1024, 768, 12, want=38_597_376, part="saved")
saving.case(
    "as a share of the untied model",
    50_257, 1024, 768, 12, want=38_597_376 / (124_439_808 + 38_597_376), part="share",
)  # fmt: skip
saving.case(
    "the largest GPT-2: the share is smaller",
    50_257, 1024, 1600, 48, want=(80_411_200, 80_411_200 / (1_557_611_200 + 80_411_200)),
)  # fmt: skip
saving.case("a vocabulary of four entries saves 16 of 784 parameters", 4, 64, 4, 2, want=(16, 16 / 784))
