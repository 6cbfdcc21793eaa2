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


def _miscounted(
    biases=13, bare=9, norm=2, positions=1, squares=12, head=0, untied=1, more=lambda V, T, D, N: 0
):
    """Returns a wrong answer in which one number is changed."""

    def wrong(V, T, D, N, *, tied=True, attention_biases=True):
        blocks = N * (squares * D * D + (biases if attention_biases else bare) * D)
        ends = V * D + positions * T * D + norm * D + (head if tied else untied) * V * D
        return ends + blocks + more(V, T, D, N)

    return wrong


counted.mistake("no biases, no norms", _miscounted(0, 0))
counted.mistake("attention biases anyway", _miscounted(13, 13))
counted.mistake("attention biases never", _miscounted(9, 9))
counted.mistake("no final norm", _miscounted(norm=0))
counted.mistake("gain alone", _miscounted(norm=1))
counted.mistake("one norm a block", _miscounted(11, 7))
counted.mistake("norms without biases", _miscounted(11, 7, norm=1))
counted.mistake("no feed-forward biases", _miscounted(8, 4))
counted.mistake("one matrix of the feed-forward", _miscounted(squares=8))
counted.mistake("no W_o", _miscounted(12, 9, squares=11))
counted.mistake("no positions", _miscounted(positions=0))
counted.mistake("head counted twice", _miscounted(head=1))
counted.mistake("untied forgotten", _miscounted(untied=0))
counted.mistake("head bias", _miscounted(more=lambda V, T, D, N: V))
counted.mistake("no vectors", _miscounted(more=lambda V, T, D, N: -V * D))
counted.mistake("last bias forgotten", _miscounted(12, 8))
counted.mistake("inner bias forgotten", _miscounted(9, 5))
counted.mistake("two wide biases", _miscounted(16, 12))
counted.mistake("three biases of attention", _miscounted(12, 9))
counted.mistake("a last norm in each block", _miscounted(15, 11, norm=0))
counted.mistake("one block", lambda V, T, D, N, **options: parameters(V, T, D, 1, **options))
