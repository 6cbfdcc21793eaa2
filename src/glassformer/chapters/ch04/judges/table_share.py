"""Judges "The table's share of the budget" (chapter 04).

The parameters of the position table and of the whole GPT.
"""

from glassformer.exercises.catalogue import exercise


def table_share(
    vocab_size: int, context_length: int, d_model: int, n_layers: int, *, attention_bias: bool
) -> tuple[int, int]:
    """The parameters of the position table and of the whole GPT, its head tied to the token embedding.

    A block has 12·D² weights (four projections, and a feed-forward network 4·D wide) and 9·D other
    parameters: two norms, and the feed-forward network's biases. Biases in its four projections make that
    13·D.
    """
    table = context_length * d_model
    block = 12 * d_model**2 + (13 if attention_bias else 9) * d_model
    return table, vocab_size * d_model + table + n_layers * block + 2 * d_model


_TABLE, _MODEL = "the parameters of the table", "the parameters of the model"
budget = exercise("positions.table_share", table_share, parts=(_TABLE, _MODEL))

budget.case(
    "the table: a row of d_model numbers for each position",
    4, 64, 4, 2, attention_bias=False, part=_TABLE, want=256,
)  # fmt: skip
budget.also(50_257, 1024, 768, 12, attention_bias=True, part=_TABLE, want=786_432)
budget.case(
    "the toy with 64 positions: 736 parameters, more than a third of them positions",
    4, 64, 4, 2, attention_bias=False, part=_MODEL, want=736,
)  # fmt: skip
budget.also(4, 8, 4, 2, attention_bias=False, part=_MODEL, want=512)
budget.case(
    "GPT-2 small: 124,439,808", 50_257, 1024, 768, 12, attention_bias=True, part=_MODEL, want=124_439_808
)
# 24,000 + 1,152 + 3 · (6,912 + 13 · 24) + 48
budget.case("models that the page does not show", 1000, 48, 24, 3, attention_bias=True, want=(1152, 46_872))
budget.also(50_257, 1024, 1600, 48, attention_bias=True, part=_MODEL, want=1_557_611_200)  # GPT-2 XL
# 2,400 + 160 + 5 · (768 + 9 · 8) + 16
budget.also(300, 20, 8, 5, attention_bias=False, want=(160, 6_776))
