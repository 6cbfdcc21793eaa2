"""Helium: a LLaMA that rotates pairs side by side, and whose heads are together as wide as the stream."""

from glassformer.config import ModelConfig
from glassformer.huggingface.families.llama import LLAMA
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key


def as_wide_as_its_heads(config: ModelConfig) -> bool:
    """Returns whether W_o is square, as it always is in this family."""
    return config.d_model == config.n_heads * config.d_head


HELIUM = LLAMA.derive(
    model_type="helium",
    architectures=("HeliumForCausalLM", "HeliumModel"),
    fields={
        "n_kv_heads": 20,
        "d_head": 128,
        "norm_eps": 1e-8,
        "attention_bias": Key("attention_bias", False, words={True: "qkv", False: "none"}),
    },
    always={"rope_layout": "interleaved"},
    rope=Rope(base=100_000.0),
    claims=as_wide_as_its_heads,
)
