"""ERNIE 4.5: a LLaMA whose rotated pairs lie side by side."""

from dataclasses import replace

from glassformer.config import ModelConfig
from glassformer.huggingface.families.llama import LLAMA, llama_with
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key


def rotates_pairs(config: ModelConfig) -> bool:
    """Claims models whose pairs lie side by side."""
    return config.rope_layout == "interleaved"


ERNIE4_5 = replace(
    LLAMA,
    model_type="ernie4_5",
    architectures=("Ernie4_5ForCausalLM", "Ernie4_5Model"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 2),
            "d_head": Key("head_dim", 128),
            "norm_eps": Key("rms_norm_eps", 1e-5),
            "attention_bias": Key("use_bias", False, words={True: "all", False: "none"}),
            "feedforward_bias": Key("use_bias", False, words={True: True, False: False}),
        }
    ),
    always={**LLAMA.always, "rope_layout": "interleaved"},
    rope=Rope(base=500_000.0),
    tied=True,
    claims=rotates_pairs,
)
