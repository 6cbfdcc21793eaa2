"""Granite: a LLaMA with four factors, on the embeddings, the scores, what a sublayer adds, and the logits."""

from dataclasses import replace

from glassformer.huggingface.families.format import PartOf
from glassformer.huggingface.families.llama import LLAMA, llama_with
from glassformer.huggingface.keys import Key

GRANITE = replace(
    LLAMA,
    model_type="granite",
    architectures=("GraniteForCausalLM", "GraniteModel"),
    fields=llama_with(
        {
            "d_head": None,
            "embedding_scale": Key("embedding_multiplier", 1.0),
            "attention_scale": Key("attention_multiplier", 1.0),
            "head_scale": Key("logits_scaling", 1.0, power=-1.0),  # it divides the logits
        }
    ),
    parts={"residual": PartOf("Residual", {"scale": Key("residual_multiplier", 1.0)})},
    also=("query_pre_attn_scalar",),
)
