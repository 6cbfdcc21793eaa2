"""Compares parts of newer models with transformers: kinds of layers, soft caps, norms after a sublayer, factors.

The configurations and the names of weights are written out here, so that only the layers are compared. Their models
compute in float64, and `all_in_double` undoes their casts to float32.
"""

import re

import numpy as np
import pytest
import torch
import transformers
from ledger import largest_difference, record

from glassformer.checkpoints import model_of
from glassformer.config import ModelConfig
from glassformer.huggingface.families.llama import LLAMA
from glassformer.layers import PositionScale, Residual, SoftCap
from glassformer.scratch import Transformer

from .models import CONTEXT, IDS, all_in_double, both_rooms, numpy
from .test_parity import CASTS_UNDONE

DOUBLE = 1e-12  # of the largest number
SIZES = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": CONTEXT,
}
OURS = ModelConfig(
    vocab_size=IDS["vocab_size"],
    context_length=CONTEXT,
    d_model=24,
    n_layers=4,
    n_heads=4,
    n_kv_heads=2,
    d_head=8,
    d_ff=40,
    positions="rope",
    norm="rmsnorm",
    norm_eps=1e-6,
    feedforward="swiglu",
    feedforward_bias=False,
    attention_bias="none",
    head="untied",
)
AFTER = {
    "attention.norm_output": "post_attention_layernorm",
    "feedforward.norm_output": "post_feedforward_layernorm",
}
BEFORE_AND_AFTER = AFTER | {"norm_feedforward": "pre_feedforward_layernorm"}
SANDWICH, OUTPUT = Residual(placement="sandwich"), Residual(placement="output")
GEMMA = {"feedforward": "geglu_tanh", "embedding_scale": 24**0.5, "head": "tied", "attention_scale": 20**-0.5}
THEIR_GEMMA = {"query_pre_attn_scalar": 20, "sliding_window": 7, "tie_word_embeddings": True}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 9, "rope_theta": 50.0}
OUR_YARN = {"rope_scaling": "yarn", "rope_interpolation": 4.0, "rope_original_context": 9, "rope_base": 50.0}

# Their configuration; ours; names of weights that differ from LLaMA's; what is added to their gains
FAMILIES = {
    "Gemma 2": (
        transformers.Gemma2Config(
            **SIZES | THEIR_GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, rope_theta=50.0
        ),
        OURS.replace(
            **GEMMA,
            logit_cap=3.0,
            rope_base=50.0,
            kinds={
                "near": {"sliding_window": 7, "residual": SANDWICH, "scores": SoftCap(2.0)},
                "far": {"residual": SANDWICH, "scores": SoftCap(2.0)},
            },
            order="near far",
        ),
        BEFORE_AND_AFTER,
        1.0,
    ),
    "Gemma 3": (
        transformers.Gemma3TextConfig(
            **SIZES | THEIR_GEMMA,
            layer_types=["sliding_attention"] * 3 + ["full_attention"],
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 3.0},
            },
        ),
        OURS.replace(
            **GEMMA,
            qk_norm=True,
            kinds={
                "near": {"sliding_window": 7, "rope_base": 50.0, "residual": SANDWICH},
                "far": {"rope_base": 900.0, "rope_interpolation": 3.0, "residual": SANDWICH},
            },
            order="near*3 far",
        ),
        BEFORE_AND_AFTER,
        1.0,
    ),
    "OLMo 2": (
        transformers.Olmo2Config(**SIZES, rms_norm_eps=1e-6, rope_theta=50.0),
        OURS.replace(qk_norm="width", rope_base=50.0, kinds={"every": {"residual": OUTPUT}}),
        AFTER,
        0.0,
    ),
    "OLMo 3": (
        transformers.Olmo3Config(
            **SIZES,
            rms_norm_eps=1e-6,
            sliding_window=7,
            layer_types=["sliding_attention"] * 3 + ["full_attention"],
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                "full_attention": YARN,
            },
        ),
        OURS.replace(
            qk_norm="width",
            rope_base=50.0,
            kinds={
                "near": {"sliding_window": 7, "residual": OUTPUT},
                "far": OUR_YARN | {"residual": OUTPUT},
            },
            order="near*3 far",
        ),
        AFTER,
        0.0,
    ),
    "Granite": (
        transformers.GraniteConfig(
            **SIZES,
            embedding_multiplier=3.0,
            residual_multiplier=0.4,
            attention_multiplier=0.3,
            logits_scaling=5.0,
            rope_theta=50.0,
        ),
        OURS.replace(
            rope_base=50.0,
            embedding_scale=3.0,
            attention_scale=0.3,
            head_scale=0.2,
            kinds={"every": {"residual": Residual(scale=0.4)}},
        ),
        {},
        0.0,
    ),
    "SmolLM3": (
        transformers.SmolLM3Config(
            **SIZES, rope_theta=50.0, no_rope_layer_interval=4, use_sliding_window=False
        ),
        OURS.replace(
            rope_base=50.0, kinds={"turned": {}, "free": {"positions": "none"}}, order="turned*3 free"
        ),
        {},
        0.0,
    ),
    "Ministral 3": (
        transformers.Ministral3Config(
            **SIZES,
            rms_norm_eps=1e-6,
            rope_parameters=YARN
            | {
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.3,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
            },
        ),
        OURS.replace(
            **OUR_YARN, rope_attention_factor=1.0, kinds={"every": {"scores": PositionScale(0.3, 9)}}
        ),
        {},
        0.0,
    ),
    "Arcee": (
        transformers.ArceeConfig(**SIZES, rms_norm_eps=1e-6, rope_theta=50.0),
        OURS.replace(rope_base=50.0, feedforward="relu2"),
        {},
        0.0,
    ),
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def pair(family, room):
    """Returns their model with random weights and ours with the same."""
    theirs_config, ours, renamed, added = FAMILIES[family]
    theirs_config.update(IDS | {"_attn_implementation": "eager", "tie_word_embeddings": ours.head == "tied"})
    theirs = transformers.AutoModelForCausalLM.from_config(theirs_config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.normal_(1.0 - added if weight.ndim == 1 else 0.0, 0.2, generator=generator)
    state = theirs.state_dict()
    names = LLAMA.layout.names | {
        f"decoder.blocks.#.{name}": f"model.layers.#.{own}" for name, own in renamed.items()
    }
    weights = {}
    for path in Transformer(ours, generator=None).named_parameters():
        row, _, _ = re.sub(r"blocks\.\d+\.", "blocks.#.", path).rpartition(".")
        place = names[row]
        number = re.search(r"blocks\.(\d+)", path)
        name = getattr(place, "name", place).replace("#", number[1] if number else "")
        values = state[f"{name}.weight"]
        weights[path] = (
            values.T if getattr(place, "transposed", False) else values + added * (values.ndim == 1)
        ).numpy()
    return theirs, model_of(ours, weights, room=room)


def given(padded):
    rng = np.random.default_rng(1)
    ids = rng.integers(0, IDS["vocab_size"], (3, 33))
    if not padded:
        return {"ids": ids}
    short = np.array([0, 5, 11])[:, None]
    real = np.arange(33) >= short if padded == "left" else np.arange(33) < 33 - short
    return {"ids": ids, "mask": real, "position_ids": np.maximum(np.cumsum(real, axis=1) - 1, 0)}


def answers(theirs, given):
    their_names = {"ids": "input_ids", "mask": "attention_mask", "position_ids": "position_ids"}
    asked = {their_names[name]: torch.from_numpy(values).long() for name, values in given.items()}
    return theirs(**asked, use_cache=False).logits


@pytest.fixture
def in_double():
    for config, *_ in FAMILIES.values():
        assert transformers.AutoModelForCausalLM._model_mapping[
            type(config)
        ]  # imported, so that it is known there
    with all_in_double():
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(torch.float32)


@both_rooms
@every_family
@pytest.mark.parametrize("padded", [None, "left", "right"])
@pytest.mark.usefixtures("in_double")
@torch.no_grad()
def test_logits_at_once_and_with_a_cache(family, room, padded):
    theirs, ours = pair(family, room)
    inputs = given(padded)
    expected = numpy(answers(theirs, inputs))
    real = inputs.get("mask", np.ones((3, 33), bool))
    largest = abs(expected[real]).max()
    tensors = {name: torch.from_numpy(v) if room == "nn" else v for name, v in inputs.items()}
    difference = largest_difference(numpy(ours(**tensors))[real], expected[real]) / largest
    component = f"{family}: logits (relative to the largest)"
    record(component, CASTS_UNDONE, "float64", room, difference, DOUBLE, section="Whole models")
    cache, rng, begin, pieces = ours.new_cache(3, 33), np.random.default_rng(2), 0, []
    while begin < 33:
        end = min(33, begin + int(rng.integers(1, 13)))
        piece = {name: v[:, :end] if name == "mask" else v[:, begin:end] for name, v in tensors.items()}
        pieces.append(numpy(ours(**piece, cache=cache)))
        begin = end
    assert largest_difference(np.concatenate(pieces, axis=1)[real], expected[real]) <= DOUBLE * largest


@every_family
@pytest.mark.usefixtures("in_double")
def test_gradients(family):
    theirs, ours = pair(family, "scratch")
    inputs = given(None)
    answers(theirs, inputs).square().sum().backward()
    saved = []
    logits = ours(inputs["ids"], saved=saved)
    ours.backward(2 * logits, saved)
    mine = ours.gradients()
    token = numpy(theirs.get_input_embeddings().weight.grad)
    assert largest_difference(mine["token_embedding.weight"], token) <= DOUBLE * abs(token).max()
    for name, its in (("W_q", "self_attn.q_proj"), ("W_v", "self_attn.v_proj"), ("W_o", "self_attn.o_proj")):
        wanted = numpy(theirs.get_submodule(f"model.layers.0.{its}").weight.grad).T
        assert (
            largest_difference(mine[f"decoder.blocks.0.attention.{name}.weight"], wanted)
            <= DOUBLE * abs(wanted).max()
        )
