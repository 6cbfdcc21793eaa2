"""GPT-2: one stack that sees only the past, with learned positions."""

from collections.abc import Mapping
from typing import Any

from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    ACTIVATION_WORDS,
    NEEDED,
    NO_CROSS_ATTENTION,
    NO_WINDOW,
    NOT_CAUSAL,
    ONE_STACK,
    Format,
    Layout,
    flag,
    linear,
    third,
)
from glassformer.huggingface.keys import each_of


def read(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns whether scores are divided, and the head."""
    return {
        "attention_scale": None if flag(given, "scale_attn_weights", True) else 1.0,
        "head": form.head(given, tied=True),
    }


def write(form: Format, config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    return {
        "scale_attn_weights": config.attention_scale != 1.0,
        "tie_word_embeddings": config.head != "untied",
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        "bos_token_id": None,
        "eos_token_id": None,
    }


GPT2 = Format(
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    fields={
        "vocab_size": ("vocab_size", NEEDED),
        "context_length": ("n_positions", NEEDED),
        "d_model": ("n_embd", NEEDED),
        "n_layers": ("n_layer", NEEDED),
        "n_heads": ("n_head", NEEDED),
        "d_ff": ("n_inner", None),
        "norm_eps": ("layer_norm_epsilon", 1e-5),
        "dropout": ("resid_pdrop", 0.1),
    },
    activation=("activation_function", "gelu_new", ACTIVATION_WORDS),
    must_be=(
        ("scale_attn_by_inverse_layer_idx", (False,), "every layer scales its scores alike here"),
        NO_CROSS_ATTENTION,
        NOT_CAUSAL,
        ("n_special", (0, None), "there are no tokens beyond the vocabulary"),
        *NO_WINDOW,
        ONE_STACK,
    ),
    also=("scale_attn_weights", "tie_word_embeddings"),
    aliases={
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
        "n_ctx": "n_positions",
        "embedding_size": "n_embd",
        "emb_size": "n_embd",
    },
    without_effect={"is_decoder": "a GPT-2 is always a decoder"}
    | each_of(
        "concerns a head for classes, which these models do not have",
        "summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj",
    ),
    read=read,
    write=write,
    claims=lambda config: config.family == "decoder",
    layout=Layout(
        names={
            "token_embedding": "transformer.wte",
            "decoder.positions": "transformer.wpe",
            "decoder.blocks.#.norm_attention": "transformer.h.#.ln_1",
            "decoder.blocks.#.attention.W_q": third(0, "transformer.h.#.attn.c_attn"),
            "decoder.blocks.#.attention.W_k": third(1, "transformer.h.#.attn.c_attn"),
            "decoder.blocks.#.attention.W_v": third(2, "transformer.h.#.attn.c_attn"),
            "decoder.blocks.#.attention.W_o": "transformer.h.#.attn.c_proj",
            "decoder.blocks.#.norm_feedforward": "transformer.h.#.ln_2",
            "decoder.blocks.#.feedforward.W_up": "transformer.h.#.mlp.c_fc",
            "decoder.blocks.#.feedforward.W_down": "transformer.h.#.mlp.c_proj",
            "decoder.norm": "transformer.ln_f",
            "unembedding": linear("lm_head"),
        },
        prefix="transformer.",
        copies={"lm_head.weight": "transformer.wte.weight"},
        ignored=r"\bh\.\d+\.attn\.(masked_)?bias$",  # older files contain the causal mask among the weights
    ),
)
