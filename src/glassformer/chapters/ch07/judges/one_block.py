"""Judges "Parameters of one block" (chapter 07): the parameters of one block of the original Transformer."""

from glassformer.exercises.catalogue import exercise

SIZE = ("attention", "feedforward", "norms", "total")


def one_block(attention_bias: bool) -> tuple[int, int, int, int]:
    """Returns the parameters of attention, feed-forward, norms and all for d_model 512, 8 heads and d_ff 2048."""
    D, F = 512, 2048
    attention = 4 * D * D + (4 * D if attention_bias else 0)
    feedforward = D * F + F + F * D + D
    norms = 2 * 2 * D
    return attention, feedforward, norms, attention + feedforward + norms


paper = exercise("block.one_block", one_block, parts=SIZE)

# By hand: 4 · 512² = 1,048,576; 4 · 512 = 2,048; 2 · 512 · 2048 = 2,097,152, and 2048 + 512; 2 · 1024
paper.case(
    "attention, if its matrices have biases", True, want=1_050_624, part="attention",
    being="4 · 512² + 4 · 512",
)  # fmt: skip
paper.case(
    "the feed-forward network", True, want=2_099_712, part="feedforward", being="2 · 512 · 2048 + 2048 + 512"
)
paper.case("two norms", True, want=2_048, part="norms", being="a gain and a bias of 512, twice")
paper.case("the whole block: 12D² + 13D", True, want=3_152_384, part="total")
paper.case("without biases in attention: 12D² + 9D", False, want=(1_048_576, 2_099_712, 2_048, 3_150_336))


def _counted(attention=lambda D, b: 4 * D * D + 4 * D * b, feed=lambda D, F: 2 * D * F + F + D, norms=4):
    """Returns a wrong count of the parameters of this block."""

    def wrong(attention_bias):
        parts = attention(512, int(attention_bias)), feed(512, 2048), norms * 512
        return (*parts, sum(parts))

    return wrong


paper.mistake(
    "sum", lambda attention_bias: (*one_block(attention_bias)[:3], sum(one_block(attention_bias)[:2]))
)
paper.mistake("for each head", _counted(lambda D, b: 8 * 4 * D * D + 4 * D * b))
paper.mistake("no W_o", _counted(lambda D, b: 3 * D * D + 3 * D * b))
paper.mistake("three biases", _counted(lambda D, b: 4 * D * D + 3 * D * b))
paper.mistake("no biases", _counted(lambda D, b: 4 * D * D))
paper.mistake("always biases", _counted(lambda D, b: 4 * D * D + 4 * D))
paper.mistake("one matrix", _counted(feed=lambda D, F: D * F + F + D))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F + F))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F + 2 * F))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F + 2 * D))
paper.mistake("one norm", _counted(norms=2))
paper.mistake("gains alone", _counted(norms=1))
paper.mistake("matrices alone", lambda attention_bias: (*one_block(attention_bias)[:3], 12 * 512**2))
