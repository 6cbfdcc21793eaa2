"""Judges "To the digit" (chapter 08): the number of parameters of a GPT like GPT-2."""

from glassformer.exercises.catalogue import exercise


def parameters(
    vocab_size: int,
    context_length: int,
    d_model: int,
    n_layers: int,
    *,
    tied: bool = True,
    attention_biases: bool = True,
) -> int:
    """Returns how many numbers a GPT of GPT-2's kind learns; its feed-forward is four times as wide as its stream."""
    V, T, D = vocab_size, context_length, d_model
    block = 12 * D * D + (13 if attention_biases else 9) * D
    return V * D + T * D + n_layers * block + 2 * D + (0 if tied else V * D)


counted = exercise("gpt.parameters", parameters)

# In the first no two slips cost the same: V = 13, T = 7, D = 6, N = 5
counted.case("a small one: 78 + 42 + 5 · 486 + 12", 13, 7, 6, 5, attention_biases=False, want=2562)
counted.case("a very small one: 16 + 256 + 456 + 8", 4, 64, 4, 2, attention_biases=False, want=736)
counted.also(4, 8, 4, 2, attention_biases=False, want=512)
counted.case("twice the width", 4, 64, 8, 2, attention_biases=False, want=2240)
counted.case("twice as many blocks", 4, 64, 4, 4, attention_biases=False, want=1192)
counted.case("GPT-2 small, to the digit", 50_257, 1024, 768, 12, want=124_439_808)
counted.also(50_257, 1024, 1600, 48, want=1_557_611_200)
counted.case("an untied head", 50_257, 1024, 768, 12, tied=False, want=124_439_808 + 38_597_376)
counted.also(4, 64, 4, 2, tied=False, attention_biases=False, want=752)
