"""SmolLM3: a LLaMA of which every fourth layer rotates nothing, so that it sees no positions."""

from glassformer.huggingface.families.format import Kinds
from glassformer.huggingface.families.llama import LLAMA
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

SMOLLM3 = LLAMA.derive(
    model_type="smollm3",
    architectures=("SmolLM3ForCausalLM", "SmolLM3Model"),
    fields={"n_kv_heads": 4, "d_head": None},
    rope=Rope(base=2_000_000.0),
    kinds=Kinds(
        key="no_rope_layers",
        words={1: "rotated", 0: "unrotated"},  # 1 is a layer that rotates, despite the name
        own={"rotated": {}, "unrotated": {"positions": "none"}},
        every=Key("no_rope_layer_interval", 4),
    ),
    tied=True,
    claims=None,
)
