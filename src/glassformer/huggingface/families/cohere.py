"""Cohere's Command R and Command A: parallel blocks, norms without biases, pairs side by side, and scaled logits.

In Command A, most layers have a window, and those without one do not rotate.
"""

from glassformer.huggingface.families.format import Kinds, PartOf
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, each_of

COHERE = LLAMA.derive(
    model_type="cohere",
    architectures=("CohereForCausalLM", "CohereModel"),
    fields={"norm_eps": Key("layer_norm_eps", 1e-5), "head_scale": Key("logit_scale", 0.0625)},
    always={"norm": "layernorm_gain", "rope_layout": "interleaved", "feedforward_bias": False},
    rope=Rope(base=500_000.0),
    parts={"residual": PartOf("Residual", {"placement": "parallel"})},
    must_be=(
        *LLAMA.must_be,
        NO_FEEDFORWARD_BIASES,
        ("use_qk_norm", (False, None), "queries and keys have no LayerNorm"),
    ),
    tied=True,
    claims=None,
    names={"decoder.blocks.#.norm_feedforward": None},
)
COHERE2 = COHERE.derive(
    model_type="cohere2",
    architectures=("Cohere2ForCausalLM", "Cohere2Model"),
    fields={"d_head": None},
    rope=Rope(),
    kinds=Kinds(
        key="layer_types",
        words=windows().words,
        own={"windowed": windows().own["windowed"], "full": {"positions": "none"}},
        every=Key("sliding_window_pattern", 4),
    ),
    must_be=(*RULES, *COHERE.must_be[len(LLAMA.must_be) :]),
    without_effect={
        "head_dim": "a head always has hidden_size / num_attention_heads numbers",
        **each_of(
            "says what all models of this family do",
            "layer_switch order_of_interleaved_layers position_embedding_type rotary_pct use_embedding_sharing "
            "use_gated_activation use_parallel_block use_parallel_embedding",
        ),
    },
)
