"""Judges "What a cache costs" (chapter 11): how much memory keys and values take."""

from glassformer.exercises.catalogue import exercise


def cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, length: int, *, bytes_per_number: int = 2, batch: int = 1
) -> int:
    """Returns how much memory keys and values take: 2 · L · G · K · T numbers for each text."""
    return 2 * n_layers * n_kv_heads * d_head * length * batch * bytes_per_number


room = exercise("generating.cache_bytes", cache_bytes)

room.case("one block, one head, one number, one position: a key and a value", 1, 1, 1, 1, want=4)
room.case("the book's model with a full context, in float32", 4, 4, 32, 128, bytes_per_number=4, want=524_288)
room.case("GPT-2 small at 1,024 in float16: 36 MiB", 12, 12, 64, 1024, want=36 * 2**20)
room.case("LLaMA-2 7B at 4,096 in float16: 2 GiB", 32, 32, 128, 4096, want=2 * 2**30)
room.case("LLaMA-2 70B: 8 key–value heads for 64 query heads", 80, 8, 128, 4096, want=1.25 * 2**30)
room.case(
    "thirty texts at the same time", 3, 5, 7, 11, batch=30, bytes_per_number=1, want=2 * 3 * 5 * 7 * 11 * 30
)
