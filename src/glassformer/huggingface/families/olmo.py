"""OLMo: norms without weights; OLMo 2 and 3: norms only after each sublayer, and over all queries and keys.

In OLMo 3, there are also windows. EXAONE 4 is like it, with norms of each head, and layers without a window do not
rotate. The norm after attention is called post_attention_layernorm, which in a LLaMA is that before the feed-forward.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.huggingface.families.format import Format, Kinds, PartOf
from glassformer.huggingface.families.llama import (
    LLAMA,
    NO_BIASES,
    NO_FEEDFORWARD_BIASES,
    RULES,
    llama_with,
    windows,
)
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key

OLMO = replace(
    LLAMA,
    model_type="olmo",
    architectures=("OlmoForCausalLM", "OlmoModel"),
    fields=llama_with({"norm_eps": None, "feedforward_bias": None}),
    always={**LLAMA.always, "norm": "layernorm_plain", "norm_eps": 1e-5, "feedforward_bias": False},
    must_be=(
        *LLAMA.must_be,
        NO_FEEDFORWARD_BIASES,
        ("clip_qkv", (None,), "queries, keys and values have no limits"),
    ),
    claims=None,
    layout=replace(
        LLAMA.layout,
        names={ours: place for ours, place in LLAMA.layout.names.items() if "norm" not in ours},
    ),
)
OLMO2 = replace(
    LLAMA,
    model_type="olmo2",
    architectures=("Olmo2ForCausalLM", "Olmo2Model"),
    fields=llama_with({"d_head": None, "norm_eps": Key("rms_norm_eps", 1e-5), "feedforward_bias": None}),
    always={**LLAMA.always, "qk_norm": "width", "feedforward_bias": False},
    parts={"residual": PartOf("Residual", {"placement": "output"})},
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    layout=replace(
        LLAMA.layout,
        names={
            **{
                ours: place
                for ours, place in LLAMA.layout.names.items()
                if not ours.endswith((".norm_attention", ".norm_feedforward"))
            },
            "decoder.blocks.#.attention.norm_output": "model.layers.#.post_attention_layernorm",
            "decoder.blocks.#.feedforward.norm_output": "model.layers.#.post_feedforward_layernorm",
        },
    ),
)
OLMO3 = replace(
    OLMO2,
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


EXAONE4 = replace(
    OLMO2,
    model_type="exaone4",
    architectures=("Exaone4ForCausalLM", "Exaone4Model"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 32),
            "d_head": Key("head_dim", None),
            "attention_bias": None,
        },
        OLMO2,
    ),
    always={**OLMO2.always, "qk_norm": True, "attention_bias": "none"},
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
