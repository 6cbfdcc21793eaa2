"""LLaMA and the families that change a choice or two of it, with the same names of weights."""

from typing import Any

from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    ACTIVATION_WORDS,
    GATES,
    NO_CROSS_ATTENTION,
    NO_WINDOW,
    NOT_CAUSAL,
    ONE_STACK,
    Format,
    Kinds,
    Layout,
    Place,
    linear,
)
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import SCALES, Key, Rule

RULES: tuple[Rule, ...] = (NOT_CAUSAL, ONE_STACK, NO_CROSS_ATTENTION)
NO_BIASES = ("attention_bias", (False, None), "no matrix of attention has biases in this family")
NO_FEEDFORWARD_BIASES = ("mlp_bias", (False, None), "no feed-forward matrix has biases in this family")
ALWAYS_DECODERS = {"is_decoder": "these models are always decoders"}
ATTENTION_BIAS = Key("attention_bias", False, words={True: "all", False: "none"})
FEEDFORWARD_BIAS = Key("mlp_bias", False, words={True: True, False: False})


def windows(default: int | None = 4096, **how: Any) -> Kinds:
    """Returns how a file says which layers have a window. Without a size, it is `default`; null is none."""
    own = {"windowed": {"sliding_window": Key("sliding_window", default)}, "full": {}}
    words = {"sliding_attention": "windowed", "full_attention": "full"}
    return Kinds(key="layer_types", words=words, own=own, **how)


def wide_as_its_heads(config: ModelConfig) -> bool:
    """Returns whether transformers accepts the width of a LLaMA: a multiple of its heads, whatever their width."""
    return config.d_model % config.n_heads == 0


LLAMA = Format(
    model_type="llama",
    architectures=("LlamaForCausalLM", "LlamaModel"),
    fields={
        "vocab_size": Key("vocab_size"),
        "context_length": Key("max_position_embeddings"),
        "d_model": Key("hidden_size"),
        "n_layers": Key("num_hidden_layers"),
        "n_heads": Key("num_attention_heads"),
        "n_kv_heads": Key("num_key_value_heads", None),
        "d_head": Key("head_dim", None),
        "d_ff": Key("intermediate_size"),
        "norm_eps": Key("rms_norm_eps", 1e-6),
        "feedforward": Key("hidden_act", "silu", words=GATES),
        "attention_bias": ATTENTION_BIAS,
        "feedforward_bias": FEEDFORWARD_BIAS,
    },
    always={"positions": "rope", "norm": "rmsnorm"},
    rope=Rope(),
    said={"rope_base": "rope_theta"},
    must_be=(*RULES, *NO_WINDOW),
    aliases={"embedding_size": "hidden_size", "emb_size": "hidden_size"},
    also=tuple(SCALES),
    without_effect={
        **ALWAYS_DECODERS,
        "max_window_layers": "there is no window whose layers it could choose",
    },
    written={"bos_token_id": None, "eos_token_id": None, "pad_token_id": None},
    claims=wide_as_its_heads,
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


GAINS_WITHOUT_ONE = {
    ours: Place(str(theirs), added=1.0) for ours, theirs in LLAMA.layout.names.items() if "norm" in ours
}
"""The names of gains in families that store them without their 1."""


MISTRAL = LLAMA.derive(
    model_type="mistral",
    architectures=("MistralForCausalLM", "MistralModel"),
    fields={"n_kv_heads": 8},
    always={"attention_bias": "none", "feedforward_bias": False},
    kinds=windows(alike=True),
    must_be=(*RULES, NO_BIASES, NO_FEEDFORWARD_BIASES),
    without_effect={"max_window_layers": None},
    claims=None,
)
QWEN2 = MISTRAL.derive(
    model_type="qwen2",
    architectures=("Qwen2ForCausalLM", "Qwen2Model"),
    fields={"n_kv_heads": 32},
    always={"attention_bias": "qkv"},
    kinds=windows(first=Key("max_window_layers", 28), switch=Key("use_sliding_window", False)),
    must_be=(*RULES, NO_FEEDFORWARD_BIASES),
    without_effect={
        "attention_bias": "queries, keys and values of a Qwen2 always have biases, and its output never"
    },
)
QWEN3 = QWEN2.derive(
    model_type="qwen3",
    architectures=("Qwen3ForCausalLM", "Qwen3Model"),
    fields={"d_head": 128, "attention_bias": ATTENTION_BIAS},
    always={"qk_norm": True},
    without_effect={"attention_bias": None},
)
SEED_OSS = LLAMA.derive(
    model_type="seed_oss",
    architectures=("SeedOssForCausalLM", "SeedOssModel"),
    fields={
        "n_kv_heads": 8,
        "d_head": 128,
        "attention_bias": Key("attention_bias", True, words={True: "qkv", False: "none"}),
    },
    must_be=(
        *LLAMA.must_be,
        ("attention_out_bias", (False,), "the matrix behind attention has no bias in this family"),
    ),
    without_effect={"residual_dropout": "concerns training only"},
    claims=None,
)
ARCEE = LLAMA.derive(
    model_type="arcee",
    architectures=("ArceeForCausalLM", "ArceeModel"),
    fields={"norm_eps": 1e-5, "feedforward": Key("hidden_act", "relu2", words=ACTIVATION_WORDS)},
)
