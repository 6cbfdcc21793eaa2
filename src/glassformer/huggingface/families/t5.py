"""T5: an encoder and a decoder whose positions are a bias on scores; version 1.1 has a gate and its own head."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    ACTIVATION_WORDS,
    GATES,
    NEEDED,
    NO_WINDOW,
    NOT_CAUSAL,
    Format,
    Layout,
    Place,
    flag,
    linear,
)
from glassformer.huggingface.keys import contradiction, without

# Both kinds of activations are in one field, and "gated-gelu" uses the tanh.
WORDS = (
    ACTIVATION_WORDS
    | {f"gated-{name}": gated for name, gated in GATES.items()}
    | {"gated-gelu": "geglu_tanh"}
)


def read(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns the head and the scale of its input."""
    checks.whole("d_model", given["d_model"])
    if given.get("tie_word_embeddings") is None:  # null is as if it were absent
        given = without(given, ["tie_word_embeddings"])
    head = form.head(given, tied=True)
    _check_activation(form, given)
    # The first T5 models tie their head and scale its input; version 1.1 does neither. Older files state the
    # former, newer ones the latter.
    scaled = flag(given, "scale_decoder_outputs", flag(given, "tie_word_embeddings", True))
    return {
        "head": head,
        "head_scale": given["d_model"] ** -0.5 if scaled and head != "none" else 1.0,
    }


def _check_activation(form: Format, given: Mapping[str, Any]) -> None:
    """Checks that the two keys that transformers derives from `feed_forward_proj`, and lets overrule it, agree."""
    name, default, _ = form.activation
    word = given.get(name, default)
    usual = "gelu_new" if word == "gated-gelu" else word.removeprefix("gated-")
    for derived, value in (("is_gated_act", word.startswith("gated-")), ("dense_act_fn", usual)):
        if given.get(derived) not in (None, value):
            raise contradiction(name, word, derived, given[derived])


def write(form: Format, config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    return {
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.head != "untied",
        "scale_decoder_outputs": config.head_scale != 1.0,
        "pad_token_id": 0,  # T5's decoder starts with the padding id
        "decoder_start_token_id": 0,
        "eos_token_id": None,
    }


def _attention(ours: str, theirs: str) -> dict[str, Place]:
    """Names the matrices of an attention layer."""
    return {f"{ours}.W_{name}": linear(f"{theirs}.{name}") for name in "qkvo"}


T5 = Format(
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model"),
    fields={
        "vocab_size": ("vocab_size", NEEDED),
        "context_length": ("n_positions", 512),  # the length it was trained on: there is no longest input
        "d_model": ("d_model", NEEDED),
        "n_layers": ("num_layers", NEEDED),
        "n_decoder_layers": ("num_decoder_layers", None),
        "n_heads": ("num_heads", NEEDED),
        "d_head": ("d_kv", NEEDED),
        "d_ff": ("d_ff", NEEDED),
        "t5_n_buckets": ("relative_attention_num_buckets", 32),
        "t5_max_distance": ("relative_attention_max_distance", 128),
        "norm_eps": ("layer_norm_epsilon", 1e-6),
        "dropout": ("dropout_rate", 0.1),
    },
    always={
        "family": "encoder-decoder",
        "positions": "t5",
        "norm": "rmsnorm",
        "attention_bias": "none",
        "attention_scale": 1.0,
        "feedforward_bias": False,
    },
    activation=("feed_forward_proj", "relu", WORDS),
    must_be=(("is_encoder_decoder", (True,), "a T5 has both stacks here"), NOT_CAUSAL, *NO_WINDOW),
    also=("tie_word_embeddings", "scale_decoder_outputs", "dense_act_fn", "is_gated_act"),
    aliases={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
        "embedding_size": "d_model",
        "emb_size": "d_model",
    },
    without_effect={
        "is_decoder": "only one of the two stacks is a decoder, whatever the file says",
        "add_cross_attention": "a T5's decoder always has it",
    },
    read=read,
    write=write,
    claims=lambda config: config.family == "encoder-decoder",
    layout=Layout(
        names={
            "token_embedding": "shared",
            "encoder.positions": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            "encoder.blocks.#.norm_attention": "encoder.block.#.layer.0.layer_norm",
            **_attention("encoder.blocks.#.attention", "encoder.block.#.layer.0.SelfAttention"),
            "encoder.blocks.#.norm_feedforward": "encoder.block.#.layer.1.layer_norm",
            "encoder.blocks.#.feedforward.W_up": linear("encoder.block.#.layer.1.DenseReluDense.wi"),
            "encoder.blocks.#.feedforward.W_down": linear("encoder.block.#.layer.1.DenseReluDense.wo"),
            "encoder.norm": "encoder.final_layer_norm",
            "decoder.positions": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            "decoder.blocks.#.norm_attention": "decoder.block.#.layer.0.layer_norm",
            **_attention("decoder.blocks.#.attention", "decoder.block.#.layer.0.SelfAttention"),
            "decoder.blocks.#.norm_cross_attention": "decoder.block.#.layer.1.layer_norm",
            **_attention("decoder.blocks.#.cross_attention", "decoder.block.#.layer.1.EncDecAttention"),
            "decoder.blocks.#.norm_feedforward": "decoder.block.#.layer.2.layer_norm",
            "decoder.blocks.#.feedforward.W_up": linear("decoder.block.#.layer.2.DenseReluDense.wi"),
            "decoder.blocks.#.feedforward.W_down": linear("decoder.block.#.layer.2.DenseReluDense.wo"),
            "decoder.norm": "decoder.final_layer_norm",
            "unembedding": linear("lm_head"),
        },
        # In version 1.1, wi_0 goes through the activation, and wi_1 multiplies the result.
        gated={
            "encoder.blocks.#.feedforward.W_gate": linear("encoder.block.#.layer.1.DenseReluDense.wi_0"),
            "encoder.blocks.#.feedforward.W_up": linear("encoder.block.#.layer.1.DenseReluDense.wi_1"),
            "decoder.blocks.#.feedforward.W_gate": linear("decoder.block.#.layer.2.DenseReluDense.wi_0"),
            "decoder.blocks.#.feedforward.W_up": linear("decoder.block.#.layer.2.DenseReluDense.wi_1"),
        },
        copies={
            "encoder.embed_tokens.weight": "shared.weight",
            "decoder.embed_tokens.weight": "shared.weight",
            "lm_head.weight": "shared.weight",
        },
        # The first files contain a table of positions in cross-attention that was never used.
        ignored=r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",
    ),
)
