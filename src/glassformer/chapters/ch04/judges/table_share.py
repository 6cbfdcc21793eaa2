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
    4,
    64,
    4,
    2,
    attention_bias=False,
    part=_TABLE,
    want=256,
)
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


@budget.mistake("each block")
def _(V, N, D, L, *, attention_bias):
    return N * D * L, table_share(V, N, D, L, attention_bias=attention_bias)[1]


@budget.mistake("pair")
def _(*sizes, attention_bias):
    return table_share(*sizes, attention_bias=attention_bias)[::-1]


def _off_by(off):
    """The right table, and a total that is off by so much."""

    def wrong(*sizes, attention_bias):
        table, total = table_share(*sizes, attention_bias=attention_bias)
        return table, total + off(*sizes, attention_bias)

    return wrong


budget.mistake("head", _off_by(lambda V, N, D, L, bias: V * D))
budget.mistake("last norm", _off_by(lambda V, N, D, L, bias: -2 * D))
budget.mistake("matrices", _off_by(lambda V, N, D, L, bias: -2 * D - L * (13 if bias else 9) * D))
budget.mistake("biases always", _off_by(lambda V, N, D, L, bias: 0 if bias else 4 * D * L))
budget.mistake("biases never", _off_by(lambda V, N, D, L, bias: -4 * D * L if bias else 0))
budget.mistake("three biases", _off_by(lambda V, N, D, L, bias: -D * L if bias else 0))
budget.mistake("one block", _off_by(lambda V, N, D, L, bias: -(L - 1) * (12 * D + (13 if bias else 9)) * D))
budget.mistake("wide bias", _off_by(lambda V, N, D, L, bias: 3 * D * L))
budget.mistake("no table", _off_by(lambda V, N, D, L, bias: -N * D))
budget.mistake("no tokens", _off_by(lambda V, N, D, L, bias: -V * D))
budget.mistake("one norm", _off_by(lambda V, N, D, L, bias: -2 * D * L))
budget.mistake("block norms", _off_by(lambda V, N, D, L, bias: -4 * D * L))
budget.mistake("half norms", _off_by(lambda V, N, D, L, bias: -D * (2 * L + 1)))
budget.mistake("no norms", _off_by(lambda V, N, D, L, bias: -D * (4 * L + 2)))
budget.mistake("feed-forward biases", _off_by(lambda V, N, D, L, bias: -5 * D * L))
budget.mistake("narrow bias", _off_by(lambda V, N, D, L, bias: -D * L))
