"""Judges "Parameters of any block" (chapter 07): the parameters of a block of any sizes and choices."""

from glassformer.exercises.catalogue import exercise


def block_parameters(
    d_model: int,
    d_ff: int,
    attention_bias: bool = True,
    feedforward_bias: bool = True,
    gated: bool = False,
    rms: bool = False,
) -> int:
    """Counts the parameters of a block of these sizes and choices."""
    D, F, n_into = d_model, d_ff, 2 if gated else 1
    attention = 4 * D * D + (4 * D if attention_bias else 0)
    feedforward = (n_into + 1) * D * F + (n_into * F + D if feedforward_bias else 0)
    return attention + feedforward + 2 * (D if rms else 2 * D)


counting = exercise("block.block_parameters", block_parameters)

counting.case("a block of GPT-2 small: 12D² + 13D", 768, 3072, want=7_087_872)
counting.case("width 4, no biases in attention: 228", 4, 16, attention_bias=False, want=228)
counting.case("a d_ff that is not 4D", 6, 10, want=168 + 136 + 24)
counting.also(6, 10, False, False, want=144 + 120 + 24)
counting.case("a gate: a third matrix, with a bias of its own", 6, 10, gated=True, want=168 + 206 + 24)
counting.case("RMSNorm has a gain and no bias", 6, 10, rms=True, want=168 + 136 + 12)
counting.case(
    "a block of LLaMA-2 7B: a gate, RMSNorm, no biases", 4096, 11_008,
    attention_bias=False, feedforward_bias=False, gated=True, rms=True, want=202_383_360,
)  # fmt: skip


def _block_counted(
    attention=lambda D, b: 4 * D * D + 4 * D * b,
    feed=lambda D, F, b, n: (n + 1) * D * F + (n * F + D) * b,
    norms=lambda D, rms: 2 * D if rms else 4 * D,
):
    """Returns a wrong count of the parameters of any block."""

    def wrong(d_model, d_ff, attention_bias=True, feedforward_bias=True, gated=False, rms=False):
        parts = feed(d_model, d_ff, int(feedforward_bias), 2 if gated else 1)
        return attention(d_model, int(attention_bias)) + parts + norms(d_model, rms)

    return wrong


counting.mistake("4D", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * 4 * D + (n * 4 * D + D) * b))
counting.mistake("4D's bias", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + (n * 4 * D + D) * b))
counting.mistake("no gate", _block_counted(feed=lambda D, F, b, n: 2 * D * F + (F + D) * b))
counting.mistake("gate's bias", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + (F + D) * b))
counting.mistake("down's bias", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + n * F * b))
counting.mistake("always biases", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + n * F + D))
counting.mistake("always biases", _block_counted(lambda D, b: 4 * D * D + 4 * D))
counting.mistake("no W_o", _block_counted(lambda D, b: 3 * D * D + 3 * D * b))
counting.mistake("no W_o", _block_counted(lambda D, b: 3 * D * D + 4 * D * b))
counting.mistake("three biases", _block_counted(lambda D, b: 4 * D * D + 3 * D * b))
counting.mistake("no RMSNorm", _block_counted(norms=lambda D, rms: 0 if rms else 4 * D))
counting.mistake("one norm", _block_counted(norms=lambda D, rms: D if rms else 2 * D))
counting.mistake("RMSNorm's bias", _block_counted(norms=lambda D, rms: 4 * D))
counting.mistake("gains alone", _block_counted(norms=lambda D, rms: 2 * D))
