"""Tests the drawing of norms in four places, and that the models named beside it have their norms there."""

import re

import pytest
import torch
from transformers import Gemma2Config, Gemma3TextConfig, Olmo2Config
from transformers.models.gemma2.modeling_gemma2 import Gemma2DecoderLayer
from transformers.models.gemma3.modeling_gemma3 import Gemma3DecoderLayer
from transformers.models.olmo2.modeling_olmo2 import Olmo2DecoderLayer

from glassformer import figures
from glassformer.figures.placements import WAYS

SIZES = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 11,
}


def boxes(way):
    """Returns the names in the boxes of one drawing, from top to bottom within each sublayer."""
    return re.findall(r"<text[^>]*>([^<]+)</text>", figures.placements(way, title="One").data)


@pytest.mark.parametrize(
    ("way", "attention"),
    [
        ("plain", ["attention"]),
        ("residual", ["attention"]),
        ("pre", ["norm", "attention"]),
        ("post", ["attention", "norm"]),
        ("after", ["attention", "norm"]),
        ("both", ["norm", "attention", "norm"]),
    ],
)
def test_a_drawing_has_the_boxes_of_its_rule(way, attention):
    feed_forward = [name.replace("attention", "feed-forward") for name in attention]
    assert boxes(way) == attention + feed_forward
    assert WAYS[way].rule.count("norm(") == attention.count("norm")


def test_only_post_norm_interrupts_the_stream_with_norms():
    def pieces(way):
        return figures.placements(way, title="One").data.count('class="stream"')

    assert pieces("pre") == pieces("after") == pieces("both") == pieces("residual") == 3  # two plus signs
    assert pieces("post") == 5  # and two norms
    assert pieces("plain") == 0


def test_the_drawing_says_in_words_what_it_shows():
    drawn = figures.placements("pre", "post", title="Two ways").data
    assert "Two ways" in drawn
    labels = re.findall(r'aria-label="([^"]+)"', drawn)
    assert [label.split(":")[0] for label in labels] == ["pre-norm", "post-norm"]
    assert "a norm, then the sublayer" in labels[0]
    assert "The stream itself then passes through a norm." in labels[1]


def test_ways_that_cannot_be_drawn():
    with pytest.raises(ValueError, match="way='around'"):
        figures.placements("around", title="None")
    with pytest.raises(ValueError, match=r"ways=\(\) is empty"):
        figures.placements(title="None")


class Sublayer(torch.nn.Module):
    """Stands in for attention or a feed-forward network: any function of what it reads."""

    def __init__(self, seed, *, attention):
        super().__init__()
        self.W = torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))
        self.attention = attention

    def forward(self, x=None, hidden_states=None, **others):
        read = hidden_states if x is None else x
        written = torch.tanh(read @ self.W) + 1
        return (written, None) if self.attention else written


def randomized(layer):
    """Replaces the sublayers of a layer, and gives its norms gains that make them visible."""
    layer.self_attn, layer.mlp = Sublayer(0, attention=True), Sublayer(1, attention=False)
    for i, (name, weight) in enumerate(layer.named_parameters()):
        if "norm" in name:
            weight.data = torch.randn(8, generator=torch.Generator().manual_seed(10 + i))
    return layer.eval(), lambda x: layer.self_attn(x)[0], layer.mlp


def test_olmo_2_has_its_norms_after_the_sublayers():
    layer, attention, feed_forward = randomized(Olmo2DecoderLayer(Olmo2Config(**SIZES), 0))
    x = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(7))
    y = x + layer.post_attention_layernorm(attention(x))
    y = y + layer.post_feedforward_layernorm(feed_forward(y))
    torch.testing.assert_close(layer(x), y)


@pytest.mark.parametrize(
    ("layer_class", "config_class"),
    [(Gemma2DecoderLayer, Gemma2Config), (Gemma3DecoderLayer, Gemma3TextConfig)],
)
def test_gemma_has_norms_on_both_sides(layer_class, config_class):
    layer, attention, feed_forward = randomized(layer_class(config_class(**SIZES), 0))
    x = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(7))
    y = x + layer.post_attention_layernorm(attention(layer.input_layernorm(x)))
    y = y + layer.post_feedforward_layernorm(feed_forward(layer.pre_feedforward_layernorm(y)))
    found = layer(x)
    torch.testing.assert_close(found[0] if isinstance(found, tuple) else found, y)


@pytest.mark.parametrize("config_class", [Olmo2Config, Gemma3TextConfig])
def test_which_of_them_norm_queries_and_keys(config_class):
    layer_class = Olmo2DecoderLayer if config_class is Olmo2Config else Gemma3DecoderLayer
    attention = layer_class(config_class(**SIZES), 0).self_attn
    assert {"q_norm", "k_norm"} <= {name for name, _ in attention.named_children()}
    other = Gemma2DecoderLayer(Gemma2Config(**SIZES), 0).self_attn
    assert not hasattr(other, "q_norm")
