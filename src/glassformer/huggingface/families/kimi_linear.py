"""Kimi Linear: three layers with the delta rule, which decays by channel, to one of latent attention; no positions.

A part of each key in latent attention is the same for all heads, as in DeepSeek-V3, but it is not rotated.
"""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families import deepseek, delta
from glassformer.huggingface.families.experts import either, listed, named, packed
from glassformer.huggingface.families.format import Place, needed, words_of_layers
from glassformer.huggingface.families.latent import SIZES, latent_of
from glassformer.huggingface.keys import Key, contradiction, each_of, unsupported
from glassformer.layers import LatentAttention, LinearAttention

OF_STATE = {
    "head_dim": ("linear_head_dim", 128),
    "num_heads": ("linear_num_heads", 32),
    "short_conv_kernel_size": ("linear_conv_kernel_dim", 4),
}
"""The sizes of a layer with a state in `linear_attn_config`, outside of it, and if the file does not say."""
LISTS = {"full_attn_layers": delta.FULL, "kda_layers": delta.LINEAR}


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has."""
    inside = given.get("linear_attn_config") or {}
    if not isinstance(inside, dict) or not inside.keys() <= OF_STATE.keys() | LISTS.keys():
        known = ", ".join((*OF_STATE, *LISTS))
        raise unsupported(given, "linear_attn_config", f"it must be an object with {known}")
    listed: list[Any] | None = None
    if all(name in inside for name in LISTS) and given.get("layer_types") is None:
        numbered = [(i, word) for name, word in LISTS.items() for i in inside[name]]
        if sorted(i for i, _ in numbered) != list(range(1, n_layers + 1)):
            raise unsupported(
                given, "linear_attn_config", f"its lists must have each layer from 1 to {n_layers}"
            )
        listed = [word for _, word in sorted(numbered)]
    words = listed or words_of_layers(
        given,
        n_layers,
        "layer_types",
        (delta.LINEAR, delta.FULL),
        lambda i: delta.LINEAR if i % 4 or i == 0 else delta.FULL,
    )
    latent, d_head = latent_of(given, 32)
    own: dict[str, dict[str, Any]] = {delta.FULL: {"form": latent, "d_head": d_head}}
    if delta.LINEAR in words:
        delta.check_silu(given)
        own[delta.LINEAR] = {"form": _state(given, inside), "d_head": d_head}
    return [(delta.WORDS[word], own[word]) for word in words]


def _state(given: Mapping[str, Any], inside: Mapping[str, Any]) -> LinearAttention:
    found = {}
    for name, (outside, usual) in OF_STATE.items():
        if name in inside and given.get(outside) not in (None, inside[name]):
            raise contradiction(f"linear_attn_config.{name}", inside[name], outside, given[outside])
        found[name] = inside[name] if name in inside else needed({outside: usual, **given}, outside)
        checks.whole(outside, found[name])
    width, n_heads, eps = found["head_dim"], found["num_heads"], given.get("rms_norm_eps", 1e-5)
    taps = found["short_conv_kernel_size"]
    sizes = dict.fromkeys(("n_heads", "n_key_heads"), n_heads) | dict.fromkeys(
        ("d_key", "d_value", "rank"), width
    )
    return LinearAttention(**sizes, taps=taps, decay="channel", gate="sigmoid", output_eps=eps)


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    words, _, state = delta.kinds_of(config)
    given: dict[str, Any] = {"layer_types": words}
    latent = next((form for form in delta.forms_of(config) if isinstance(form, LatentAttention)), None)
    if latent is not None:
        given |= {theirs: getattr(latent, ours) for ours, theirs in SIZES.items()}
        given |= {"q_lora_rank": latent.d_query_latent, "qk_nope_head_dim": config.d_head - latent.d_rotated}
    if state is not None:
        sizes = {"head_dim": state.d_key, "num_heads": state.n_heads, "short_conv_kernel_size": state.taps}
        given |= {OF_STATE[name][0]: size for name, size in sizes.items()}
    return given


A, BLOCK = "model.layers.#.self_attn", "model.layers.#.block_sparse_moe"
KIMI_LINEAR = deepseek.V3.derive(
    model_type="kimi_linear",
    architectures=("KimiLinearForCausalLM", "KimiLinearModel"),
    fields={
        "context_length": Key("model_max_length", 1_048_576),
        "n_kv_heads": 32,
        "norm_eps": 1e-5,
        "rope_layout": None,
    },
    always={"positions": "none"},
    rope=None,
    layers=layers,
    sparse=deepseek.routed(
        *(Key("num_experts", 256), Key("num_experts_per_token", 8), 1024, listed(1, first=deepseek.FIRST)),
        n_shared=Key("num_shared_experts", 1),
        n_groups=Key("num_expert_group", 1),
        renormalize=either("moe_renormalize", True),
        scale=2.446,
    ),
    must_be=(
        *deepseek.V3.must_be,
        ("moe_router_activation_func", ("sigmoid", None), "a sigmoid makes the weights of experts"),
        ("mla_use_nope", (True, None), "no layer of this family has positions"),
        ("tie_word_embeddings", (False, None), "the head of this family has weights of its own"),
    ),
    also=(*deepseek.V3.also, "layer_types", "linear_attn_config", *(name for name, _ in OF_STATE.values())),
    aliases={
        "max_position_embeddings": "model_max_length",
        "num_local_experts": "num_experts",
        "num_experts_per_tok": "num_experts_per_token",
        "n_shared_experts": "num_shared_experts",
        "norm_topk_prob": "moe_renormalize",
        "n_group": "num_expert_group",
    },
    without_effect={
        "use_grouped_topk": "experts are chosen from groups if there are several",
        **each_of("nothing is rotated", "rope_parameters rope_scaling rope_theta"),
    },
    read=None,
    write=write,
    claims=lambda config: any(isinstance(form, LinearAttention) for form in delta.forms_of(config)),
    names={
        **named(BLOCK, W_gate="w1", W_up="w3", W_down="w2", shared="shared_experts"),
        deepseek.CHOICE_BIAS: f"{BLOCK}.gate.e_score_correction_bias",
    },
    packed=packed(f"{BLOCK}.experts"),
    states=delta.names_of(
        A,
        {
            **{f"W_{c}": f"{c}_proj" for c in "qkvo"},
            **{"W_gate_down": "g_a_proj", "W_gate": "g_b_proj", "norm_heads": "o_norm"},
            **{"W_decay_down": "f_a_proj", "W_decay": "f_b_proj", "decay_bias": "dt_bias"},
            "W_write": "b_proj",
        },
    )
    | {"decoder.blocks.#.attention.log_rate": Place(f"{A}.A_log", axes=(1, 1, -1, 1))},
    pieces=delta.PIECES,
    # In memory; and transformers saves all feed-forward networks under the name of experts
    others=((".forget_gate.", "."), (".block_sparse_moe.", ".mlp."), (".mlp.", ".block_sparse_moe.")),
)
