"""nanochat: norms without weights everywhere, also after the embedding and the rotation, and ReLU² without a gate.

It rotates in the other direction, by −θ. That is ours if the two numbers of each pair change places, in queries and
keys alike: so the halves of each head are read in the other order.
"""

from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import ACTIVATION_WORDS, Place, linear
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES
from glassformer.huggingface.keys import Key


def _half(config: ModelConfig) -> tuple[int, ...]:
    return (config.d_head // 2,)


def _swapped(name: str) -> Place:
    return Place(f"model.layers.#.self_attn.{name}", transposed=True, turns=_half, swapped=True)


NANOCHAT = LLAMA.derive(
    model_type="nanochat",
    architectures=("NanoChatForCausalLM", "NanoChatModel"),
    fields={
        "feedforward": Key("hidden_act", "relu2", words=ACTIVATION_WORDS),
        "logit_cap": Key("final_logit_softcapping", 15.0),
    },
    always={"norm": "rmsnorm_plain", "qk_norm": "plain", "embedding_norm": True, "feedforward_bias": False},
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    claims=None,
    names={
        **{ours: None for ours in LLAMA.layout.names if "norm" in ours},
        "decoder.blocks.#.attention.W_q": _swapped("q_proj"),
        "decoder.blocks.#.attention.W_k": _swapped("k_proj"),
        "decoder.blocks.#.feedforward.W_up": linear("model.layers.#.mlp.fc1"),
        "decoder.blocks.#.feedforward.W_down": linear("model.layers.#.mlp.fc2"),
    },
)
