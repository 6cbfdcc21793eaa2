"""Granite: a LLaMA with four factors, on the embeddings, the scores, what a sublayer adds, and the logits.

There are Granites with experts in every layer, and some with one that all tokens share.
"""

from glassformer.huggingface.families.experts import OURS, TRAINING, has_experts, packed
from glassformer.huggingface.families.format import PartOf, Place, Sparse, linear
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES
from glassformer.huggingface.keys import Key

GRANITE = LLAMA.derive(
    model_type="granite",
    architectures=("GraniteForCausalLM", "GraniteModel"),
    fields={
        "d_head": None,
        "embedding_scale": Key("embedding_multiplier", 1.0),
        "attention_scale": Key("attention_multiplier", 1.0),
        "head_scale": Key("logits_scaling", 1.0, power=-1.0),  # it divides the logits
    },
    parts={"residual": PartOf("Residual", {"scale": Key("residual_multiplier", 1.0)})},
    also=("query_pre_attn_scalar",),
)
EXPERTS = {
    "n_experts": Key("num_local_experts", 8),
    "top_k": Key("num_experts_per_tok", 2),
    "scores": "chosen",
}
SPARSE, SHARED = "model.layers.#.block_sparse_moe", "model.layers.#.shared_mlp"


def shared_as(place: str) -> dict[str, Place | str]:
    """Returns the names of the network that all tokens share, which is at this place of ours."""
    into = {"W_gate": 0, "W_up": 1}
    return {
        **{
            f"decoder.blocks.#.{place}.{ours}": linear(f"{SHARED}.input_linear", i)
            for ours, i in into.items()
        },
        f"decoder.blocks.#.{place}.W_down": linear(f"{SHARED}.output_linear"),
    }


OF_EXPERTS = {
    f"{OURS}.router.W": linear(f"{SPARSE}.router.layer"),
    **packed(SPARSE, into="input_linear.weight", out_of="output_linear.weight"),
    **shared_as("feedforward.shared"),
}
IN_MEMORY = (
    ("experts.gate_up_proj", "input_linear.weight"),
    ("experts.down_proj", "output_linear.weight"),
    ("router.weight", "router.layer.weight"),
)
GRANITE_MOE = GRANITE.derive(
    model_type="granitemoe",
    architectures=("GraniteMoeForCausalLM", "GraniteMoeModel"),
    always={"feedforward_bias": False},
    sparse=Sparse(experts=EXPERTS),
    must_be=(*GRANITE.must_be, NO_FEEDFORWARD_BIASES),
    without_effect=TRAINING,
    claims=has_experts,
    names=OF_EXPERTS,
    others=IN_MEMORY,
)
GRANITE_MOE_SHARED = GRANITE_MOE.derive(
    model_type="granitemoeshared",
    architectures=("GraniteMoeSharedForCausalLM", "GraniteMoeSharedModel"),
    sparse=Sparse(experts={**EXPERTS, "d_shared": Key("shared_intermediate_size", 0)}),
)
