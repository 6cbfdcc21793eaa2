"""LLaMA, Mistral, Qwen2 and Qwen3: one layout with a few different choices."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    GATES,
    NEEDED,
    NO_CROSS_ATTENTION,
    NO_WINDOW,
    NOT_CAUSAL,
    ONE_STACK,
    Format,
    Layout,
    flag,
    linear,
)
from glassformer.huggingface.families.rope import ROPE, read_rope, write_rope
from glassformer.huggingface.files import CONFIG
from glassformer.huggingface.keys import SCALES, Rule, contradiction, unsupported

WINDOW = 4096  # default for a Mistral and a Qwen; "sliding_window": null means none
WHOLE_LAYERS = 28  # default of max_window_layers for a Qwen: layers without a window


def read(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns the positions, the window, the head, and the biases that the family leaves to the file."""
    window = _window(form, given)
    found: dict[str, Any] = {}
    if "attention_bias" in form.also:
        found["attention_bias"] = "all" if flag(given, "attention_bias", False) else "none"
    found |= read_rope(given)
    if "mlp_bias" in form.also:
        found["feedforward_bias"] = flag(given, "mlp_bias", False)
    return found | {"sliding_window": window, "head": form.head(given, tied=False)}


def _window(form: Format, given: Mapping[str, Any]) -> int | None:
    """Returns how many positions a query sees in every layer, or None.

    All layers of a Mistral have a window or none has. Of a Qwen, those from `max_window_layers` on have one, or
    those that `layer_types` lists. If some have one, the window must cover the context, so that it changes nothing.
    """
    context_length = given["max_position_embeddings"]
    checks.whole("max_position_embeddings", context_length)
    n_layers = given["num_hidden_layers"]
    checks.whole("num_hidden_layers", n_layers)
    in_some = "max_window_layers" in form.also
    slides = "sliding_window" in form.also and (not in_some or flag(given, "use_sliding_window", False))
    window = given.get("sliding_window", WINDOW) if slides else None
    n_whole = n_layers if window is None else 0
    if window is not None:
        checks.whole("sliding_window", window)
        if in_some:
            n_whole = given.get("max_window_layers", WHOLE_LAYERS)
            checks.whole("max_window_layers", n_whole, at_least=0)
    types = given.get("layer_types")
    if types is not None:
        if not isinstance(types, list) or any(
            kind_of_layer not in ("full_attention", "sliding_attention") for kind_of_layer in types
        ):
            raise unsupported(given, "layer_types", "known are full_attention and sliding_attention")
        if len(types) != n_layers:
            raise contradiction("num_hidden_layers", n_layers, "the length of layer_types", len(types))
        n_windows = types.count("sliding_attention")
        if (n_windows and window is None) or (not in_some and window is not None and n_windows < n_layers):
            raise contradiction("the number of windows in layer_types", n_windows, "sliding_window", window)
    else:
        n_windows = max(n_layers - n_whole, 0)
    if n_windows == 0 or n_windows == n_layers:
        return window if n_windows else None
    if window < context_length:
        raise unsupported(
            given,
            "sliding_window",
            f"it applies to {n_windows} of the {n_layers} layers, but here all have a window or none has. Setting "
            f"max_position_embeddings to {window} instead of {context_length} in {CONFIG} makes the model correct for "
            "texts up to that length",
        )
    return None


def write(form: Format, config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    window: dict[str, Any] = {}
    if "max_window_layers" not in form.also:
        window = {"sliding_window": config.sliding_window} if "sliding_window" in form.also else {}
    elif config.sliding_window is not None:
        window = {"sliding_window": config.sliding_window, "use_sliding_window": True, "max_window_layers": 0}
    return {
        **write_rope(config),
        "attention_bias": "attention_bias" in form.also and config.attention_bias == "all",
        "mlp_bias": "mlp_bias" in form.also and config.feedforward_bias,
        "tie_word_embeddings": config.head == "tied",
        "bos_token_id": None,
        "eos_token_id": None,
        **window,
    }


def is_like_llama(config: ModelConfig) -> bool:
    """Returns whether a decoder rotates its queries and keys."""
    return config.family == "decoder" and config.positions == "rope"


RULES: tuple[Rule, ...] = (NOT_CAUSAL, ONE_STACK, NO_CROSS_ATTENTION)
NO_BIASES = ("attention_bias", (False, None), "no matrix of attention has biases in this family")
NO_FEEDFORWARD_BIASES = ("mlp_bias", (False, None), "no feed-forward matrix has biases in this family")
ALWAYS_DECODERS = {"is_decoder": "these models are always decoders"}
ALL_READ = ("tie_word_embeddings", *ROPE, *SCALES)
WINDOWS = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")

LLAMA = Format(
    architectures=("LlamaForCausalLM", "LlamaModel"),
    fields={
        "vocab_size": ("vocab_size", NEEDED),
        "context_length": ("max_position_embeddings", NEEDED),
        "d_model": ("hidden_size", NEEDED),
        "n_layers": ("num_hidden_layers", NEEDED),
        "n_heads": ("num_attention_heads", NEEDED),
        "n_kv_heads": ("num_key_value_heads", None),
        "d_head": ("head_dim", None),
        "d_ff": ("intermediate_size", NEEDED),
        "norm_eps": ("rms_norm_eps", 1e-6),
    },
    always={"positions": "rope", "norm": "rmsnorm"},
    activation=("hidden_act", "silu", GATES),
    said={"rope_base": "rope_theta", "feedforward_bias": "mlp_bias"},
    must_be=(*RULES, *NO_WINDOW),
    aliases={"embedding_size": "hidden_size", "emb_size": "hidden_size"},
    also=(*ALL_READ, "attention_bias", "mlp_bias"),
    without_effect={
        **ALWAYS_DECODERS,
        "max_window_layers": "there is no window whose layers it could choose",
    },
    read=read,
    write=write,
    claims=is_like_llama,
    layout=Layout(
        names={
            "token_embedding": "model.embed_tokens",
            "decoder.blocks.#.norm_attention": "model.layers.#.input_layernorm",
            "decoder.blocks.#.attention.W_q": linear("model.layers.#.self_attn.q_proj"),
            "decoder.blocks.#.attention.W_k": linear("model.layers.#.self_attn.k_proj"),
            "decoder.blocks.#.attention.W_v": linear("model.layers.#.self_attn.v_proj"),
            "decoder.blocks.#.attention.W_o": linear("model.layers.#.self_attn.o_proj"),
            "decoder.blocks.#.attention.norm_q": "model.layers.#.self_attn.q_norm",
            "decoder.blocks.#.attention.norm_k": "model.layers.#.self_attn.k_norm",
            "decoder.blocks.#.norm_feedforward": "model.layers.#.post_attention_layernorm",
            "decoder.blocks.#.feedforward.W_gate": linear("model.layers.#.mlp.gate_proj"),
            "decoder.blocks.#.feedforward.W_up": linear("model.layers.#.mlp.up_proj"),
            "decoder.blocks.#.feedforward.W_down": linear("model.layers.#.mlp.down_proj"),
            "decoder.norm": "model.norm",
            "unembedding": linear("lm_head"),
        },
        prefix="model.",
        copies={"lm_head.weight": "model.embed_tokens.weight"},
        ignored=r"\brotary_emb\.inv_freq$",  # older files contain the frequencies of the rotary positions
    ),
)
MISTRAL = replace(
    LLAMA,
    architectures=("MistralForCausalLM", "MistralModel"),
    fields={**LLAMA.fields, "n_kv_heads": ("num_key_value_heads", 8)},
    always={**LLAMA.always, "attention_bias": "none", "feedforward_bias": False},
    must_be=(*RULES, NO_BIASES, NO_FEEDFORWARD_BIASES),
    also=(*ALL_READ, "sliding_window", "layer_types"),
    without_effect=ALWAYS_DECODERS,
    # transformers wants a LLaMA's width to be divisible by its heads
    claims=lambda config: (
        is_like_llama(config) and (config.sliding_window is not None or config.d_model % config.n_heads > 0)
    ),
)
QWEN2 = replace(
    LLAMA,
    architectures=("Qwen2ForCausalLM", "Qwen2Model"),
    fields={**LLAMA.fields, "n_kv_heads": ("num_key_value_heads", 32)},
    always={**LLAMA.always, "attention_bias": "qkv", "feedforward_bias": False},
    must_be=(*RULES, NO_FEEDFORWARD_BIASES),
    also=(*ALL_READ, *WINDOWS),
    without_effect={
        **ALWAYS_DECODERS,
        "attention_bias": "queries, keys and values of a Qwen2 always have biases, and its output never",
    },
    claims=lambda config: is_like_llama(config) and config.attention_bias == "qkv",
)
QWEN3 = replace(
    QWEN2,
    architectures=("Qwen3ForCausalLM", "Qwen3Model"),
    fields={**QWEN2.fields, "d_head": ("head_dim", 128)},
    always={**LLAMA.always, "qk_norm": True, "feedforward_bias": False},
    also=(*QWEN2.also, "attention_bias"),
    without_effect=ALWAYS_DECODERS,
    claims=lambda config: is_like_llama(config) and config.qk_norm is True,
)
