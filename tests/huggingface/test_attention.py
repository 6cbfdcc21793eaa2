"""Compares the attention of single layers with transformers, for families whose attention differs from layer to layer.

A model of transformers runs, with its own rotation, masks and cache, but each attention gets an input of its own in
place of what the model computed. Our layer, which `attention_from_hf` makes of the same weights, must answer alike.
"""

from contextlib import nullcontext
from copy import deepcopy
from functools import cache as once
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import torch
import transformers
from ledger import TRANSFORMERS, record

from glassformer.anatomy import shelf
from glassformer.huggingface import attention_from_hf
from glassformer.huggingface.configs import described

from .models import IDS, all_in_double, both_rooms

B, T, D = 3, 33, 24
SINGLE, DOUBLE, SEEN = 1e-5, 1e-12, 1e-3
STEPS = (0, 1, 6, 7, 8, 19, 20, 24, T)
# Where layers have a state, transformers takes a token that is read alone for a real one
STATE_STEPS = (0, 3, 8, 12, 13, 20, 21, T)
SIZES = {"hidden_size": D, "intermediate_size": 20, "max_position_embeddings": 160, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "head_dim": 8, "attention_bias": True}
WINDOW = {"sliding_window": 5}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24, "rope_theta": 200.0}
YARN |= {"beta_fast": 3.0, "beta_slow": 0.5}


def settings_of(layers, **more):
    return SIZES | {"num_hidden_layers": len(layers), "layer_types": layers} | more


def filled(name, value=0.0):
    """Returns what fills a weight of an attention, if it has it."""
    return lambda layer: (
        name in dict(layer.named_parameters()) and layer.get_parameter(name).data.fill_(value)
    )


def of_other_values(layer):
    """Gives a layer whose keys are its values another matrix for these."""
    if getattr(layer, "v_proj", 0) is None:
        del layer.v_proj
        layer.v_proj = torch.nn.Linear(D, layer.k_proj.out_features, dtype=torch.float64)


BIASES = {f"bias of {name}": filled(f"{name}_proj.bias") for name in "qkvo"}


class Attention(NamedTuple):
    """A model of transformers, the layers that are compared, and what takes a part away: settings, or a function.

    `sides` are those on which a text can be padded, `steps` those in which theirs reads one, and `single` is the bound
    in float32.
    """

    named: str
    architecture: str
    settings: dict
    parts: dict
    layers: tuple = (0, 1, 2, 3)
    sides: tuple = ("left", "right")
    steps: tuple = STEPS
    single: float = SINGLE


WINDOWED, FULL, DELTA = "sliding_attention", "full_attention", "linear_attention"
QWEN = {"partial_rotary_factor": 0.25, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
QWEN |= {
    "linear_key_head_dim": 4,
    "linear_value_head_dim": 6,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
KIMI = {"linear_num_heads": 3, "linear_head_dim": 5, "linear_conv_kernel_dim": 3, "num_key_value_heads": 4}
KIMI |= {
    "kv_lora_rank": 9,
    "q_lora_rank": None,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 6,
    "v_head_dim": 7,
}
KIMI |= {"attention_bias": False, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
NEXT = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
    "shared_expert_intermediate_size": 8,
}
QWEN_PARTS = {
    **BIASES,
    "gate": lambda layer: (
        hasattr(layer, "q_proj") and layer.q_proj.weight.data.view(4, 2, 16, D)[:, 1].zero_()
    ),
    "norm of queries": filled("q_norm.weight"),
    "norm of keys": filled("k_norm.weight"),
    "rotation of a part": {"partial_rotary_factor": 0.5},
    "base": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    "rate of decay": filled("A_log", -1e9),
    "bias of decay": filled("dt_bias"),
    "convolution": filled("conv1d.weight", 1.0),
    "norm behind a state": filled("norm.weight", 1.0),
    "eps of this norm": lambda layer: hasattr(layer, "norm") and setattr(layer.norm, "variance_epsilon", 0.1),
}
KIMI_PARTS = {
    "rate of decay": filled("forget_gate.A_log", -1e9),
    "bias of decay": filled("forget_gate.dt_bias"),
    "decay by channel": filled("forget_gate.f_b_proj.weight"),
    "convolution": filled("conv1d.weight", 1.0),
    "strength": filled("b_proj.weight"),
    "gate": filled("g_b_proj.weight"),
    "norm behind a state": filled("o_norm.weight", 1.0),
    "eps of this norm": {"rms_norm_eps": 0.1},
    "norm of latents": filled("kv_a_layernorm.weight", 1.0),
    "part of a key for all heads": lambda layer: (
        hasattr(layer, "kv_b_proj") and layer.kv_a_proj_with_mqa.weight.data[-6:].zero_()
    ),
}
GEMMA_ROPE = {WINDOWED: {"rope_type": "default", "rope_theta": 50.0}}
GEMMA_ROPE |= {
    FULL: {"rope_type": "proportional", "rope_theta": 200.0, "partial_rotary_factor": 0.25, "factor": 2.0}
}
V4 = {"partial_rotary_factor": 0.5, "q_lora_rank": 10, "sliding_window": 5, "o_groups": 2, "o_lora_rank": 3}
V4 |= {
    "index_n_heads": 16,
    "index_head_dim": 6,
    "index_topk": 2,
    "num_key_value_heads": 1,
    "attention_bias": False,
}
V4 |= {
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
    "rms_norm_eps": 0.01,
}
V4 |= {"rope_parameters": YARN | {"rope_theta": 3.0}, "rope_theta": 50.0, "compress_rope_theta": 200.0}
V4 |= {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
LAGUNA_ROPE = {
    WINDOWED: {"rope_type": "default", "rope_theta": 50.0},
    FULL: YARN | {"partial_rotary_factor": 0.5},
}
LAGUNA_PARTS = {
    "window": {"sliding_window": 6},
    "gate": filled("g_proj.weight"),
    "norm of queries": filled("q_norm.weight", 1.0),
    "norm of keys": filled("k_norm.weight", 1.0),
    "rotation of a part": {"rope_parameters": LAGUNA_ROPE | {FULL: YARN}},
}
CASES = {
    "gpt_oss": Attention(
        "gpt-oss",
        "GptOssModel",
        settings_of([WINDOWED, FULL] * 2, rope_parameters=YARN | {"truncate": False}, num_local_experts=4)
        | WINDOW,
        {
            **BIASES,
            "sinks": filled("sinks", -1e9),
            "window": {"sliding_window": 6},
            "ramp": {"rope_parameters": YARN},
            "stretching": {"rope_parameters": {"rope_type": "default", "rope_theta": 200.0}},
        },
    ),
    "qwen3_5_text": Attention(
        "Qwen3.5",
        "Qwen3_5TextModel",
        settings_of([FULL, DELTA, FULL], head_dim=16, **QWEN),
        QWEN_PARTS,
        layers=(0, 1, 2),
        steps=STATE_STEPS,
    ),
    "qwen3_next": Attention(
        "Qwen3-Next",
        "Qwen3NextModel",
        settings_of([FULL, DELTA, FULL], head_dim=16, **QWEN, **NEXT),
        QWEN_PARTS,
        layers=(0, 1, 2),
        steps=STATE_STEPS,
    ),
    "kimi_linear": Attention(
        "Kimi Linear",
        "KimiLinearModel",
        {key: value for key, value in settings_of([DELTA, FULL] * 2, **KIMI).items() if key != "head_dim"},
        KIMI_PARTS,
        steps=STATE_STEPS,
        single=3e-5,
    ),
    "gemma4_text": Attention(
        "Gemma 4",
        "Gemma4TextModel",
        settings_of(
            [WINDOWED, FULL] * 4, global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True
        )
        | {"num_kv_shared_layers": 4, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 41}
        | {"rope_parameters": GEMMA_ROPE}
        | WINDOW,
        {
            **{f"bias of {name}": filled(f"{name}_proj.bias") for name in "qko"},
            "window": {"sliding_window": 6},
            "norm of queries": filled("q_norm.weight", 1.0),
            "norm of values": lambda layer: setattr(layer, "v_norm", torch.nn.Identity()),
            "sharing": lambda layer: layer.layer_idx in (2, 3) and layer.k_proj.weight.data.neg_(),
            "keys as values": of_other_values,
            "proportional": {
                "rope_parameters": GEMMA_ROPE | {FULL: GEMMA_ROPE[FULL] | {"partial_rotary_factor": 0.5}}
            },
            "factor": {"rope_parameters": GEMMA_ROPE | {FULL: GEMMA_ROPE[FULL] | {"factor": 1.0}}},
            "base": {"rope_parameters": GEMMA_ROPE | {WINDOWED: {"rope_type": "default", "rope_theta": 1e4}}},
        },
        layers=tuple(range(8)),
    ),
    "deepseek_v4": Attention(
        "DeepSeek-V4",
        "DeepseekV4Model",
        settings_of(
            ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"] * 2, **V4
        ),
        {  # and tests/layers/test_compressed.py takes away the others, one by one
            "window": {"sliding_window": 6},
            "base of windows": {"rope_theta": 1e4},
            "base of the others": {"compress_rope_theta": 1e4},
            "stretching": {"rope_parameters": {"rope_type": "default"}},
            "factor of the rotation": {"rope_parameters": YARN | {"attention_factor": 0.1 * np.log(4.0) + 1}},
            "choice": {"index_topk": 33},
            "sinks": filled("sinks", -1e9),
        },
        layers=tuple(range(6)),
        sides=("right",),
    ),
    "laguna": Attention(
        "Laguna",
        "LagunaModel",
        settings_of(
            [WINDOWED, FULL] * 3, rope_parameters=LAGUNA_ROPE, num_attention_heads_per_layer=[4, 6, 8] * 2
        )
        | {"attention_bias": False, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
        | WINDOW,
        LAGUNA_PARTS,
        layers=tuple(range(6)),
    ),
}
CASES["laguna-dense"] = CASES["laguna"]._replace(
    named="Laguna, a gate for each number",
    settings=CASES["laguna"].settings | {"gating": "per-element", "mlp_layer_types": ["dense"] * 6},
)
every_family = pytest.mark.parametrize("family", CASES)
every_seed = pytest.mark.parametrize("seed", range(3))


def model_of(family, seed=0, double=True, **changes):
    """Returns a model of transformers, all of whose weights and buffers are random, as float32 can hold them."""
    kind = getattr(transformers, CASES[family].architecture)
    with all_in_double() if double else nullcontext():
        config = kind.config_class(**deepcopy(IDS | CASES[family].settings | changes))
        config._attn_implementation = config._experts_implementation = "eager"
        model = kind(config).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.state_dict().items():
        if not weight.is_floating_point():  # a table of numbers of experts
            weight.copy_(torch.randint(2, weight.shape, generator=generator))
            continue
        size = weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.5
        gain = "norm" in name and not CASES[family].named.startswith("Qwen")
        weight.copy_(torch.empty(weight.shape).normal_(1.0 if gain else 0.0, size, generator=generator))
    return model


@once
def inputs(seed):
    """Returns what each attention of at most 12 layers reads."""
    return np.random.default_rng(seed).normal(size=(12, B, T, D)).astype(np.float32)


def padding(side):
    """Returns which positions are real, and their numbers."""
    short = np.array([0, 5, 11])[:, None]
    if side == "left":
        return np.arange(T) >= short, np.maximum(np.arange(T) - short, 0)
    return np.arange(T) < T - short * (side == "right"), np.tile(np.arange(T), (B, 1))


def mixer(layer):
    """Returns the attention of a layer of theirs, or what it has in place of attention."""
    return layer.linear_attn if hasattr(layer, "linear_attn") else layer.self_attn


@torch.no_grad()
def ask_theirs(model, x, side="none", steps=(0, T)):
    """Returns what each attention answers, by the number of its layer."""
    found, (real, ids) = {}, padding(side)
    span = slice(0, T)

    def enter(layer, inputs, named):
        given = torch.from_numpy(x[layer.layer_idx][:, span]).to(model.dtype)
        return (), named | {"hidden_states": given}

    def leave(layer, inputs, named, output):
        output = output if torch.is_tensor(output) else output[0]
        around = model.layers[layer.layer_idx]
        if hasattr(
            around, "pre_feedforward_layernorm"
        ):  # then there is one after attention, too, which ours contains
            output = around.post_attention_layernorm(output)
        found.setdefault(layer.layer_idx, []).append(output.numpy())

    layers = [mixer(layer) for layer in model.layers]
    hooks = [layer.register_forward_pre_hook(enter, with_kwargs=True) for layer in layers]
    hooks += [layer.register_forward_hook(leave, with_kwargs=True) for layer in layers]
    cache = None if len(steps) == 2 else transformers.DynamicCache(config=model.config)
    with all_in_double() if model.dtype == torch.float64 else nullcontext():
        for begin, end in pairwise(steps):
            span = slice(begin, end)
            mask = None if side == "none" else torch.from_numpy(real[:, :end]).long()
            given = {"position_ids": torch.from_numpy(ids[:, span]), "past_key_values": cache}
            tokens = torch.zeros((B, end - begin), dtype=torch.long)
            model(tokens, attention_mask=mask, use_cache=cache is not None, **given)
    for hook in hooks:
        hook.remove()
    return {index: np.concatenate(pieces, axis=1) for index, pieces in found.items()}


def layers_of(family, model, room, dtype="float64"):
    given = model.config.to_dict() | {"architectures": [CASES[family].architecture]}
    return {
        i: attention_from_hf(given, model.state_dict(), i, room=room, dtype=dtype)
        for i in CASES[family].layers
    }


@torch.no_grad()
def ask_ours(room, layers, x, side="none", steps=(0, T), dtype="float64"):
    """Returns what each of our layers answers, in their order, as some leave keys and values to later ones."""
    to_room = torch.from_numpy if room == "nn" else np.asarray
    found, (real, ids) = {}, padding(side)
    caches = {i: layer.new_cache(B, T) if len(steps) > 2 else None for i, layer in layers.items()}
    for begin, end in pairwise(steps):
        shared = {}
        for i, layer in layers.items():
            given = {"position_ids": to_room(ids[:, begin:end]), "cache": caches[i], "shared": shared}
            if side != "none":
                given["mask"] = to_room(real[:, None, None, :end])
            answer = layer(to_room(x[i][:, begin:end].astype(dtype)), **given)
            found.setdefault(i, []).append(np.asarray(answer))
    return {index: np.concatenate(pieces, axis=1) for index, pieces in found.items()}


def largest(ours, theirs, side="none"):
    """Returns the largest difference at real positions, relative to the largest number of that layer."""
    real = padding(side)[0]
    return max(np.abs(ours[i] - theirs[i])[real].max() / np.abs(theirs[i][real]).max() for i in ours)


def note(family, room, dtype, difference, bound, what=""):
    component = f"{CASES[family].named}: attention{what} (relative to the largest)"
    record(component, TRANSFORMERS, dtype, room, difference, bound, section="Attention and positions")


@both_rooms
@every_seed
@every_family
def test_float64(family, seed, room):
    model, x = model_of(family, seed), inputs(seed)
    layers = layers_of(family, model, room)
    note(family, room, "float64", largest(ask_ours(room, layers, x), ask_theirs(model, x)), DOUBLE)


@pytest.mark.sampled(3)
@both_rooms
@every_seed
@every_family
def test_float32(family, seed, room):
    """Within 1e-5; where decays add up, theirs in float32 is itself up to 4e-6 from theirs in float64."""
    model, x = model_of(family, seed, double=False), inputs(seed)
    ours = ask_ours(room, layers_of(family, model, room, "float32"), x, dtype="float32")
    note(family, room, "float32", largest(ours, ask_theirs(model, x)), CASES[family].single)


@pytest.mark.sampled(3)
@both_rooms
@pytest.mark.parametrize("side", ["left", "right"])
@every_family
def test_in_steps_with_padding(family, side, room):
    if side not in CASES[family].sides:
        pytest.skip("a text of this family is not padded on this side")
    model, x = model_of(family), inputs(0)
    ours = ask_ours(room, layers_of(family, model, room), x, side, STEPS)
    for steps in ((0, T), CASES[family].steps):
        difference = largest(ours, ask_theirs(model, x, side, steps), side)
        note(family, room, "float64", difference, DOUBLE, f" with a cache, padded on the {side}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("family", "part"), [(name, part) for name in CASES for part in CASES[name].parts])
def test_every_part_of_theirs_counts(family, part):
    """Otherwise, to agree with them would prove nothing about that part."""
    model, x, change = model_of(family), inputs(0), CASES[family].parts[part]
    before = ask_theirs(model, x)
    if isinstance(change, dict):
        other = model_of(family, **change)
        other.load_state_dict(model.state_dict())
        model = other
    else:
        for i in CASES[family].layers:
            change(mixer(model.layers[i]))
    after = ask_theirs(model, x)
    layers = CASES[family].layers[4 if part == "sharing" else 0 :]
    moved = [np.abs(after[i] - before[i]).max() / np.abs(before[i]).max() for i in layers]
    assert max(moved) > SEEN, moved


def in_short(one):
    """Returns the part of a file of the shelf that describes the decoder, without how it is read."""
    given = one.get("text_config", one)
    left_out = ("architectures", "auto_map")
    return {key: value for key, value in given.items() if key not in left_out}


SHORT = {name: IDS | case.settings | {"model_type": name.split("-")[0]} for name, case in CASES.items()}
SHORT |= {one["name"]: given for one in shelf() if (given := in_short(one["config"]))["model_type"] in CASES}


@pytest.mark.parametrize("name", SHORT)
def test_a_file_says_what_the_library_makes_of_it(name):
    """Files that people wrote leave out what is usual, and have older names."""
    given = SHORT[name]
    settings = {key: value for key, value in given.items() if key != "model_type"}
    theirs = transformers.AutoConfig.for_model(given["model_type"], **deepcopy(settings)).to_dict()
    assert described(given) == described({**theirs, "architectures": None})
