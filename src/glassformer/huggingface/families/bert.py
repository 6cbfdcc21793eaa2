"""BERT: one stack that sees both ways, and a head that predicts masked tokens.

It was also trained to tell whether one sentence follows another, with a head that is left out here.
"""

import re
from collections.abc import Mapping
from typing import Any

from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    ACTIVATION_WORDS,
    NO_CROSS_ATTENTION,
    NO_WINDOW,
    ONE_STACK,
    Format,
    Layout,
    linear,
)
from glassformer.huggingface.keys import Key, each_of


def read(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns which parts follow the encoder: by the names of the weights, or else by the architecture."""
    architecture = form.architecture(given)
    head, pooler = architecture != "BertModel", architecture != "BertForMaskedLM"
    if names:
        head = any(name.startswith("cls.predictions.") for name in names)
        pooler = any(re.match(r"(bert\.)?pooler\.", name) for name in names)
    return {"head": "tied" if head else "none", "head_transform": head, "head_bias": head, "pooler": pooler}


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    headed = "BertForPreTraining" if config.pooler else "BertForMaskedLM"
    return {"architectures": ["BertModel" if config.head == "none" else headed], "tie_word_embeddings": True}


BERT = Format(
    model_type="bert",
    architectures=("BertModel", "BertForMaskedLM", "BertForPreTraining"),
    fields={
        "vocab_size": Key("vocab_size"),
        "context_length": Key("max_position_embeddings"),
        "d_model": Key("hidden_size"),
        "n_layers": Key("num_hidden_layers"),
        "n_heads": Key("num_attention_heads"),
        "d_ff": Key("intermediate_size"),
        "n_segments": Key("type_vocab_size", 2),
        "norm_eps": Key("layer_norm_eps", 1e-12),
        "dropout": Key("hidden_dropout_prob", 0.1),
        "feedforward": Key("hidden_act", "gelu", words=ACTIVATION_WORDS),
    },
    always={"family": "encoder", "embedding_norm": True, "norm_placement": "post"},
    must_be=(
        ("is_decoder", (False, None), "a BERT sees both ways here"),
        ("is_causal", (False, None), "a BERT sees both ways here"),
        NO_CROSS_ATTENTION,
        ("position_embedding_type", ("absolute", None), "a BERT has one learned vector for each position"),
        ("tie_word_embeddings", (True,), "a BERT predicts a token with its own embedding"),
        *NO_WINDOW,
        ONE_STACK,
    ),
    aliases={"embedding_size": "hidden_size", "emb_size": "hidden_size"},
    without_effect=each_of(
        "is left over from the files of TensorFlow",
        "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head "
        "pooler_type",
    ),
    written={"attention_probs_dropout_prob": 0.0, "pad_token_id": None},
    tied=True,
    read=read,
    write=write,
    layout=Layout(
        names={
            "token_embedding": "bert.embeddings.word_embeddings",
            "segment_embedding": "bert.embeddings.token_type_embeddings",
            "encoder.positions": "bert.embeddings.position_embeddings",
            "encoder.embedding_norm": "bert.embeddings.LayerNorm",
            "encoder.blocks.#.attention.W_q": linear("bert.encoder.layer.#.attention.self.query"),
            "encoder.blocks.#.attention.W_k": linear("bert.encoder.layer.#.attention.self.key"),
            "encoder.blocks.#.attention.W_v": linear("bert.encoder.layer.#.attention.self.value"),
            "encoder.blocks.#.attention.W_o": linear("bert.encoder.layer.#.attention.output.dense"),
            "encoder.blocks.#.norm_attention": "bert.encoder.layer.#.attention.output.LayerNorm",
            "encoder.blocks.#.feedforward.W_up": linear("bert.encoder.layer.#.intermediate.dense"),
            "encoder.blocks.#.feedforward.W_down": linear("bert.encoder.layer.#.output.dense"),
            "encoder.blocks.#.norm_feedforward": "bert.encoder.layer.#.output.LayerNorm",
            "pooler.linear": linear("bert.pooler.dense"),
            "unembedding.transform": linear("cls.predictions.transform.dense"),
            "unembedding.norm": "cls.predictions.transform.LayerNorm",
            "unembedding": "cls.predictions",
        },
        prefix="bert.",
        copies={
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        ignored=r"embeddings\.position_ids$|^cls\.seq_relationship\.",
    ),
)
