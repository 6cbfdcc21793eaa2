"""T5: an encoder and a decoder whose positions are a bias on scores; version 1.1 has a gate and its own head."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    ACTIVATION_WORDS,
    GATES,
    NO_WINDOW,
    NOT_CAUSAL,
    Format,
    Layout,
    Place,
    flag,
    linear,
)
from glassformer.huggingface.keys import Key, contradiction

# Both kinds of activations are in one field, and "gated-gelu" uses the tanh.
WORDS = (
    ACTIVATION_WORDS
    | {f"gated-{name}": gated for name, gated in GATES.items()}
    | {"gated-gelu": "geglu_tanh"}
)


def read(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns the scale of the head's input."""
    checks.whole("d_model", given["d_model"])
    head = form.head(given)
    _check_activation(form, given)
    # The first T5 models tie their head and scale its input; version 1.1 does neither. Older files state the
    # former, newer ones the latter.
    scaled = flag(given, "scale_decoder_outputs", head == "tied")
    return {"head_scale": given["d_model"] ** -0.5 if scaled and head != "none" else 1.0}


def _check_activation(form: Format, given: Mapping[str, Any]) -> None:
    """Checks that the two keys that transformers derives from `feed_forward_proj`, and lets overrule it, agree."""
    name, default, *_ = form.fields["feedforward"]
    word = given.get(name, default)
    usual = "gelu_new" if word == "gated-gelu" else word.removeprefix("gated-")
    for derived, value in (("is_gated_act", word.startswith("gated-")), ("dense_act_fn", usual)):
        if given.get(derived) not in (None, value):
            raise contradiction(name, word, derived, given[derived])


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    return {"scale_decoder_outputs": config.head_scale != 1.0}


def _stack(stack: str, *attentions: str) -> dict[str, Place | str]:
    """Names the weights of a stack, whose blocks have these kinds of attention and then a feed-forward network."""
    ours, theirs = f"{stack}.blocks.#", f"{stack}.block.#.layer"
    found: dict[str, Place | str] = {f"{stack}.norm": f"{stack}.final_layer_norm"}
    found[f"{stack}.positions"] = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"
    for i, (kind, name) in enumerate(zip(("attention", "cross_attention"), attentions, strict=False)):
        found[f"{ours}.norm_{kind}"] = f"{theirs}.{i}.layer_norm"
        found |= {f"{ours}.{kind}.W_{letter}": linear(f"{theirs}.{i}.{name}.{letter}") for letter in "qkvo"}
    last = f"{theirs}.{len(attentions)}"
    found[f"{ours}.norm_feedforward"] = f"{last}.layer_norm"
    for name, inner in (("W_up", "wi"), ("W_down", "wo")):
        found[f"{ours}.feedforward.{name}"] = linear(f"{last}.DenseReluDense.{inner}")
    return found


T5 = Format(
    model_type="t5",
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model"),
    fields={
        "vocab_size": Key("vocab_size"),
        "context_length": Key("n_positions", 512),  # the length it was trained on: there is no longest input
        "d_model": Key("d_model"),
        "n_layers": Key("num_layers"),
        "n_decoder_layers": Key("num_decoder_layers", None),
        "n_heads": Key("num_heads"),
        "d_head": Key("d_kv"),
        "d_ff": Key("d_ff"),
        "t5_n_buckets": Key("relative_attention_num_buckets", 32),
        "t5_max_distance": Key("relative_attention_max_distance", 128),
        "norm_eps": Key("layer_norm_epsilon", 1e-6),
        "dropout": Key("dropout_rate", 0.1),
        "feedforward": Key("feed_forward_proj", "relu", words=WORDS),
    },
    always={
        "family": "encoder-decoder",
        "positions": "t5",
        "norm": "rmsnorm",
        "attention_bias": "none",
        "attention_scale": 1.0,
        "feedforward_bias": False,
    },
    must_be=(("is_encoder_decoder", (True,), "a T5 has both stacks here"), NOT_CAUSAL, *NO_WINDOW),
    also=("scale_decoder_outputs", "dense_act_fn", "is_gated_act"),
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
    # T5's decoder starts with the padding id
    written={
        "is_encoder_decoder": True,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "eos_token_id": None,
    },
    tied=True,
    read=read,
    write=write,
    layout=Layout(
        names={
            "token_embedding": "shared",
            **_stack("encoder", "SelfAttention"),
            **_stack("decoder", "SelfAttention", "EncDecAttention"),
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
