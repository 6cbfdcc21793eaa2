"""Judges "A LLaMA to the last digit" (chapter 13): the parameters of a LLaMA-like model."""

from glassformer.exercises.catalogue import exercise


def count_llama(
    vocab_size: int,
    d_model: int,
    n_layers: int,
    n_heads: int,
    n_kv_heads: int,
    d_ff: int,
    *,
    tied: bool = False,
) -> int:
    """Returns the number of parameters of a LLaMA-like model without biases, with three feed-forward matrices."""
    D, keys = d_model, n_kv_heads * (d_model // n_heads)
    block = 2 * D * D + 2 * D * keys + 3 * D * d_ff + 2 * D
    return (1 if tied else 2) * vocab_size * D + n_layers * block + D


llama = exercise("real.count_llama", count_llama)

llama.case("a small one: 80 + 128 + 4", 10, 4, 1, 2, 1, 6, want=212)
llama.case("each query head with its own keys", 10, 4, 1, 2, 2, 6, want=228)
llama.case("LLaMA-2 7B", 32_000, 4096, 32, 32, 32, 11_008, want=6_738_415_616)
llama.case(
    "LLaMA-2 70B: 64 query heads, 8 key/value heads", 32_000, 8192, 80, 64, 8, 28_672, want=68_976_648_192
)
llama.also(128_256, 4096, 32, 32, 8, 14_336, want=8_030_261_248)
llama.case("a tied head: SmolLM2 135M", 49_152, 576, 30, 9, 3, 1536, tied=True, want=134_515_008)


def _counted(ffn=3, keys=lambda D, H, G: G * (D // H), norms=2, gain=1, last=1, ends=lambda tied: 2 - tied):
    def wrong(vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, *, tied=False):
        D = d_model
        block = 2 * D * D + 2 * D * keys(D, n_heads, n_kv_heads) + ffn * D * d_ff + norms * gain * D
        return ends(tied) * vocab_size * D + n_layers * block + last * gain * D

    return wrong


llama.mistake("two matrices", _counted(ffn=2))
llama.mistake("keys not shared", _counted(keys=lambda D, H, G: D))
llama.mistake("one head's width", _counted(keys=lambda D, H, G: D // H))
llama.mistake("answers per asking", _counted(keys=lambda D, H, G: D // G))
llama.mistake("biases in the norms", _counted(gain=2))
llama.mistake("biases in the norms", _counted(norms=4))
llama.mistake("last norm", _counted(last=0))
llama.mistake("one norm", _counted(norms=1))
llama.mistake("always tied", _counted(ends=lambda tied: 1))
llama.mistake("never tied", _counted(ends=lambda tied: 2))
llama.mistake("ends swapped", _counted(ends=lambda tied: 1 + tied))
