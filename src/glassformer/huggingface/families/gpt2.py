"""GPT-2: one stack that sees only the past, with learned positions."""

from glassformer.huggingface.families.format import (
    ACTIVATION_WORDS,
    NO_CROSS_ATTENTION,
    NO_WINDOW,
    NOT_CAUSAL,
    ONE_STACK,
    Format,
    Layout,
    Place,
    linear,
)
from glassformer.huggingface.keys import Key, each_of

GPT2 = Format(
    model_type="gpt2",
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    fields={
        "vocab_size": Key("vocab_size"),
        "context_length": Key("n_positions"),
        "d_model": Key("n_embd"),
        "n_layers": Key("n_layer"),
        "n_heads": Key("n_head"),
        "d_ff": Key("n_inner", None),
        "norm_eps": Key("layer_norm_epsilon", 1e-5),
        "dropout": Key("resid_pdrop", 0.1),
        "feedforward": Key("activation_function", "gelu_new", words=ACTIVATION_WORDS),
        "attention_scale": Key("scale_attn_weights", True, words={True: None, False: 1.0}),
    },
    must_be=(
        ("scale_attn_by_inverse_layer_idx", (False,), "a GPT-2 scales the scores of every layer alike here"),
        NO_CROSS_ATTENTION,
        NOT_CAUSAL,
        ("n_special", (0, None), "there are no tokens beyond the vocabulary"),
        *NO_WINDOW,
        ONE_STACK,
    ),
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
    written={"attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None},
    tied=True,
    write=lambda config: {"embd_pdrop": config.dropout},
    layout=Layout(
        names={
            "token_embedding": "transformer.wte",
            "decoder.positions": "transformer.wpe",
            "decoder.blocks.#.norm_attention": "transformer.h.#.ln_1",
            "decoder.blocks.#.attention.W_q": Place("transformer.h.#.attn.c_attn", part=0),
            "decoder.blocks.#.attention.W_k": Place("transformer.h.#.attn.c_attn", part=1),
            "decoder.blocks.#.attention.W_v": Place("transformer.h.#.attn.c_attn", part=2),
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
