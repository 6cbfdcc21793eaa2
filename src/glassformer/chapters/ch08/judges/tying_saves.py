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
saving.case(
    "a vocabulary of four entries saves 16 of 784 parameters",
    4, 64, 4, 2, want=(16, 16 / 784),
)  # fmt: skip


def _saves(saved=lambda V, D: V * D, share=lambda saved, tied, untied: saved / untied):
    def wrong(V, T, D, N):
        tied = parameters(V, T, D, N)
        some = saved(V, D)
        return some, share(some, tied, tied + V * D)

    return wrong


saving.mistake("of the tied model", _saves(share=lambda saved, tied, untied: saved / tied))
saving.mistake("per cent", _saves(share=lambda saved, tied, untied: 100 * saved / untied))
saving.mistake("what is left", _saves(share=lambda saved, tied, untied: tied / untied))
saving.mistake("both", _saves(saved=lambda V, D: 2 * V * D))
saving.mistake("vocabulary alone", _saves(saved=lambda V, D: V))


@saving.mistake("no biases")
def _(V, T, D, N):
    return V * D, V * D / parameters(V, T, D, N, tied=False, attention_biases=False)
