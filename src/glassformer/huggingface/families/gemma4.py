"""Gemma 4: full layers with wider heads and keys that are also values; the last layers share earlier keys and values.

Every layer ends with a learned factor, and may have vectors of its own for the tokens, or experts beside its dense
network, which is then the shared one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.huggingface.families.experts import GATED, packed
from glassformer.huggingface.families.experts import OURS as EXPERTS
from glassformer.huggingface.families.format import (
    ACTIVATION_WORDS,
    GATES,
    Format,
    claims_none,
    flag,
    linear,
    needed,
    words_of_layers,
)
from glassformer.huggingface.families.gemma import NORMS, TANH
from glassformer.huggingface.families.llama import ATTENTION_BIAS, LLAMA, NO_FEEDFORWARD_BIASES, RULES
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key, contradiction, unsupported
from glassformer.layers import Experts, KeyValueSharing, LayerEmbeddings, Residual, StreamScale

WINDOWED, FULL = "sliding_attention", "full_attention"
ROPE = Rope(
    kinds={"windowed": OfKind(WINDOWED, None, 1e4, False), "full": OfKind(FULL, None, 1e6, False)},
    scalings=("default", "proportional"),
    default={FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}},
    share=1.0,
)


OF_EXPERTS = {"n_experts": "num_experts", "top_k": "top_k_experts"}


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has: the last is full, and the last few borrow keys and values."""
    words = words_of_layers(
        given, n_layers, "layer_types", (WINDOWED, FULL), lambda i: FULL if (i + 1) % 6 == 0 else WINDOWED
    )
    words[-1] = FULL
    n_shared, same = given.get("num_kv_shared_layers", 0), flag(given, "attention_k_eq_v", False)
    checks.whole("num_kv_shared_layers", n_shared, at_least=0)
    if n_shared and set(words[: max(n_layers - n_shared, 0)]) != set(words):
        raise unsupported(given, "num_kv_shared_layers", "each kind needs a layer that shares")
    rope = ROPE.read(given)
    for found in rope.values():
        if found["rope_share"] != 1 and "rope_proportional" not in found:
            raise unsupported(given, "rope_parameters", "only proportional positions rotate a part of a head")
    window = needed({"sliding_window": 512, **given}, "sliding_window")
    values = {"windowed": "own", "full": "keys" if same else "own"}
    own = {
        "windowed": {"sliding_window": window, **rope["windowed"]},
        "full": _sizes(given, words, same) | rope["full"],
    }
    lend = {name: {"sharing": KeyValueSharing(values=values[name], norm_values=True)} for name in own}
    borrow = {name: {"sharing": KeyValueSharing(borrows=name)} for name in own}
    names = ["windowed" if word == WINDOWED else "full" for word in words]
    ends: dict[str, Any] = {"residual": Residual(placement="sandwich"), "stream_scale": StreamScale()}
    width = needed({"intermediate_size": 9216, **given}, "intermediate_size")
    checks.whole("intermediate_size", width)
    last = ends | {"d_ff": 2 * width if flag(given, "use_double_wide_mlp", False) else width}
    if flag(given, "enable_moe_block", False):
        numbers = {ours: needed(given, theirs) for ours, theirs in OF_EXPERTS.items()}
        experts = Experts(**numbers, d_shared=width, own_norms=True)
        ends |= {"d_ff": needed(given, "moe_intermediate_size"), "experts": experts}
        last = ends | {"experts": replace(experts, d_shared=last["d_ff"])}
    lenders = [(name, own[name] | lend[name] | ends) for name in names[: n_layers - n_shared]]
    return lenders + [
        (f"{name}_again", own[name] | borrow[name] | last) for name in names[n_layers - n_shared :]
    ]


def _sizes(given: Mapping[str, Any], words: list[str], same: bool) -> dict[str, Any]:
    """Returns the width and the number of key heads of full layers, which must be alike."""
    usual = {name: given.get(name, value) for name, value in (("head_dim", 256), ("num_key_value_heads", 4))}
    each = given.get("per_layer_config")
    if each is None:
        of_full = {"head_dim": given.get("global_head_dim", 512)}
        if same and given.get("num_global_key_value_heads") is not None:
            of_full["num_key_value_heads"] = given["num_global_key_value_heads"]
        each = {i: of_full for i, word in enumerate(words) if word == FULL}
    known = isinstance(each, dict) and all(
        str(i).isdecimal() and isinstance(own, dict) and own.keys() <= usual.keys() for i, own in each.items()
    )
    each = {int(i): own for i, own in each.items()} if known else {}  # files have them as "05"
    found = [usual | each.get(i, {}) for i in range(len(words))]
    full = [sizes for sizes, word in zip(found, words, strict=False) if word == FULL]
    if not known or any(sizes != (full[0] if words[i] == FULL else usual) for i, sizes in enumerate(found)):
        raise unsupported(
            given, "per_layer_config", "it can change head_dim and num_key_value_heads of all full layers"
        )
    return {"d_head": full[0]["head_dim"], "n_kv_heads": full[0]["num_key_value_heads"]}


def read(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns the vectors of each layer, for which the table has a row for each token."""
    width = given.get("hidden_size_per_layer_input", 256)
    checks.whole("hidden_size_per_layer_input", width, at_least=0)
    if not width:
        return {}
    if (rows := given.get("vocab_size_per_layer_input", 262_144)) != given.get("vocab_size", 262_144):
        raise contradiction("vocab_size_per_layer_input", rows, "vocab_size", given.get("vocab_size"))
    activation = ACTIVATION_WORDS.get(given.get("hidden_activation", TANH), "")
    return {"layer_embeddings": LayerEmbeddings(d_layer=width, activation=activation)}


OURS, THEIRS = "decoder.blocks.#", "model.layers.#"
NORMS_OF_EXPERTS = (
    *("router", "pre_feedforward_layernorm_2", "pre_feedforward_layernorm"),
    *("post_feedforward_layernorm_2", "post_feedforward_layernorm_1"),
)
GEMMA4 = LLAMA.derive(
    model_type="gemma4_text",
    architectures=("Gemma4ForCausalLM", "Gemma4TextModel"),
    fields={
        "n_kv_heads": 4,
        "d_head": 256,
        "feedforward": Key("hidden_activation", TANH, words=GATES),
        "attention_bias": ATTENTION_BIAS,
        "embedding_scale": Key("hidden_size", power=0.5),
        "logit_cap": Key("final_logit_softcapping", None),
    },
    always={"qk_norm": True, "attention_scale": 1.0, "feedforward_bias": False},
    rope=ROPE,
    layers=layers,
    read=read,
    must_be=(
        *RULES,
        NO_FEEDFORWARD_BIASES,
        ("use_bidirectional_attention", (False, None, "vision"), "a token sees only what comes before it"),
        ("partial_rotary_factor", (None,), "rope_parameters says it for each kind of layer"),
        ("rope_scaling", (None,), "rope_parameters says it for each kind of layer"),
        ("rope_theta", (None,), "rope_parameters says it for each kind of layer"),
    ),
    said={ours: theirs for ours, theirs in OF_EXPERTS.items()},
    also=(
        *("layer_types", "sliding_window", "num_kv_shared_layers", "attention_k_eq_v", "per_layer_config"),
        *("global_head_dim", "num_global_key_value_heads", "use_double_wide_mlp"),
        *("hidden_size_per_layer_input", "vocab_size_per_layer_input"),
        *("enable_moe_block", "moe_intermediate_size", *OF_EXPERTS.values()),
    ),
    aliases={**LLAMA.aliases, "expert_intermediate_size": "moe_intermediate_size"},
    tied=True,
    claims=claims_none,
    names={
        **{f"{OURS}.{ours}": f"{THEIRS}.{theirs}" for ours, theirs in NORMS.items()},
        f"{OURS}.scale": f"{THEIRS}.layer_scalar",
        f"{OURS}.layer_embedding.W_gate": linear(f"{THEIRS}.per_layer_input_gate"),
        f"{OURS}.layer_embedding.W_down": linear(f"{THEIRS}.per_layer_projection"),
        f"{OURS}.layer_embedding.norm_output": f"{THEIRS}.post_per_layer_input_norm",
        **{f"{EXPERTS}.norms.{i}": f"{THEIRS}.{name}" for i, name in enumerate(NORMS_OF_EXPERTS)},
        f"{EXPERTS}.norms.0.weight": f"{THEIRS}.router.scale",
        f"{EXPERTS}.router.W": linear(f"{THEIRS}.router.proj"),
        f"{EXPERTS}.router.expert_scale": f"{THEIRS}.router.per_expert_scale",
        **{f"{EXPERTS}.shared.{ours}": linear(f"{THEIRS}.mlp.{name}") for ours, name in GATED.items()},
        **packed(f"{THEIRS}.experts"),
        "decoder.layer_embeddings.table": "model.embed_tokens_per_layer",
        "decoder.layer_embeddings.W": linear("model.per_layer_model_projection"),
        "decoder.layer_embeddings.norm": "model.per_layer_projection_norm",
    },
)
