"""OLMo: norms without weights; OLMo 2 and 3: norms only after each sublayer, and over all queries and keys.

In OLMo 3, there are also windows. EXAONE 4 is like it, with norms of each head, and layers without a window do not
rotate. The norm after attention is called post_attention_layernorm, which in a LLaMA is that before the feed-forward.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.huggingface.families.format import Format, Kinds, PartOf
from glassformer.huggingface.families.llama import LLAMA, NO_BIASES, NO_FEEDFORWARD_BIASES, RULES, windows
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key

OLMO = LLAMA.derive(
    model_type="olmo",
    architectures=("OlmoForCausalLM", "OlmoModel"),
    always={"norm": "layernorm_plain", "norm_eps": 1e-5, "feedforward_bias": False},
    must_be=(
        *LLAMA.must_be,
        NO_FEEDFORWARD_BIASES,
        ("clip_qkv", (None,), "queries, keys and values have no limits"),
    ),
    claims=None,
    names={ours: None for ours in LLAMA.layout.names if "norm" in ours},
)
OLMO2 = LLAMA.derive(
    model_type="olmo2",
    architectures=("Olmo2ForCausalLM", "Olmo2Model"),
    fields={"d_head": None, "norm_eps": 1e-5},
    always={"qk_norm": "width", "feedforward_bias": False},
    parts={"residual": PartOf("Residual", {"placement": "output"})},
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    names={
        "decoder.blocks.#.norm_attention": None,
        "decoder.blocks.#.norm_feedforward": None,
        "decoder.blocks.#.attention.norm_output": "model.layers.#.post_attention_layernorm",
        "decoder.blocks.#.feedforward.norm_output": "model.layers.#.post_feedforward_layernorm",
    },
)
OLMO3 = OLMO2.derive(
    model_type="olmo3",
    architectures=("Olmo3ForCausalLM", "Olmo3Model"),
    # Only the full layers are stretched, and only they have the base that stands outside of rope_parameters.
    rope=Rope(
        kinds={
            "windowed": OfKind("sliding_attention", None, 500_000.0, False),
            "full": OfKind("full_attention", "rope_theta", 500_000.0, True),
        }
    ),
    kinds=windows(every=4),
    must_be=(*RULES, NO_FEEDFORWARD_BIASES),
)


def _rotates_without_windows(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns what holds for a file that has no windows: then all layers rotate."""
    without = given.get("sliding_window", 4096) is None
    return {"positions": "rope"} if without else {}


EXAONE4 = OLMO2.derive(
    model_type="exaone4",
    architectures=("Exaone4ForCausalLM", "Exaone4Model"),
    fields={"n_kv_heads": 32, "d_head": Key("head_dim", None)},
    always={"qk_norm": True, "attention_bias": "none"},
    kinds=Kinds(
        key="layer_types",
        words=windows().words,
        own={"windowed": windows().own["windowed"], "full": {"positions": "none"}},
        every=Key("sliding_window_pattern", 4),
    ),
    must_be=(*RULES, NO_BIASES, NO_FEEDFORWARD_BIASES),
    read=_rotates_without_windows,
    claims=None,
)
