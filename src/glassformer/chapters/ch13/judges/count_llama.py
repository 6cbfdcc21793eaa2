"""Judges "A LLaMA to the last digit" (chapter 13): the parameters of a LLaMA-like model."""

from glassformer.exercises.catalogue import exercise


def count_llama(vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, *, tied=False) -> int:
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
