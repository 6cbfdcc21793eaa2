"""Ministral 3: a Mistral without a window, whose scores grow with the position of the query."""

from glassformer.huggingface.families.format import PartOf
from glassformer.huggingface.families.llama import MISTRAL, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

MINISTRAL3 = MISTRAL.derive(
    model_type="ministral3",
    architectures=("Ministral3ForCausalLM", "Ministral3Model"),
    fields={"d_head": 128, "norm_eps": 1e-5},
    rope=Rope(
        default={
            "rope_type": "yarn",
            "rope_theta": 1_000_000.0,
            "factor": 16.0,
            "original_max_position_embeddings": 16_384,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1,
        },
        more=("llama_4_scaling_beta", "max_position_embeddings"),
    ),
    kinds=windows(None, alike=True),
    parts={
        "scores": PartOf(
            "PositionScale",
            {
                "beta": Key("rope.llama_4_scaling_beta", None),
                "original_context": Key("rope.original_max_position_embeddings", None),
            },
        )
    },
)
