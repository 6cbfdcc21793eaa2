"""Mamba-2: layers with a state and no feed-forward network, so that each has one sublayer.

What the files call x, B and C are values, keys and queries here; z goes to the gate, and dt to the step. The file
knows no heads of attention: `n_heads`, `n_kv_heads` and `d_head` are those of the state, because no layer has others.
Nor does it limit a text, whose length changes nothing in a state: `context_length` is only far above all of them.
"""

import math
from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    NO_CROSS_ATTENTION,
    NO_WINDOW,
    NOT_CAUSAL,
    ONE_STACK,
    Format,
    Layout,
    PartOf,
    Place,
    linear,
    needed,
)
from glassformer.huggingface.families.llama import ALWAYS_DECODERS, LLAMA
from glassformer.huggingface.keys import Key, Rule, contradiction, each_of
from glassformer.layers import Mamba2

LONG = 1_048_576
"""The longest text, if the file does not say; layers with a state cost the same for any."""

SILU = ("silu", "swish")
NO_LIMITS: Rule = (
    "time_step_limit",
    # Files have infinity as JSON does not know it, or as transformers 5 writes it
    ([0, math.inf], (0, math.inf), [0, {"__float__": "Infinity"}], None),
    "no step of a state is kept within limits here",
)
STEPS = each_of(
    "says how the first weights are drawn, before training",
    "time_step_min time_step_max time_step_floor time_step_rank rescale_prenorm_residual",
)


def layer_names(theirs: str) -> dict[str, Place | str]:
    """Returns the names of the weights of a layer with that name in their files."""
    ours = "decoder.blocks.#.attention"
    into = ("W_gate", "W_v", "W_k", "W_q", "W_decay")
    convolved = ("convolution_v", "convolution_k", "convolution_q")
    return {
        **{f"{ours}.{name}": linear(f"{theirs}.in_proj", part) for part, name in enumerate(into)},
        **{
            f"{ours}.{name}": Place(f"{theirs}.conv1d", part=part, convolution=True)
            for part, name in enumerate(convolved)
        },
        f"{ours}.decay_bias": f"{theirs}.dt_bias",
        f"{ours}.log_rate": f"{theirs}.A_log",
        f"{ours}.skip": f"{theirs}.D",
        f"{ours}.gain": f"{theirs}.norm.weight",
        f"{ours}.W_o": linear(f"{theirs}.out_proj"),
    }


def state_of(given: Mapping[str, Any], sizes: Mapping[str, Key], expand: Key, **more: Any) -> Mamba2:
    """Returns the form of layers whose sizes have these keys, after checking their width, which a file gives twice."""
    keys = (Key("hidden_size"), expand, *sizes.values())
    found = {key.name: needed({key.name: key.default, **given}, key.name) for key in keys}
    heads, value = sizes["n_heads"].name, sizes["d_value"].name
    for name in found:
        if found[name] != "auto" or name != value:
            checks.whole(name, found[name])
    inside = found[expand.name] * found["hidden_size"]
    if found[value] == "auto":
        found[value] = inside // found[heads]
    checks.divisible(heads, found[heads], sizes["n_key_heads"].name, found[sizes["n_key_heads"].name])
    if found[heads] * found[value] != inside:
        raise contradiction(
            f"{expand.name} * hidden_size", inside, f"{heads} * {value}", found[heads] * found[value]
        )
    return Mamba2(**{ours: found[key.name] for ours, key in sizes.items()}, **more)


def read(_: Format, given: Mapping[str, Any], __: Any) -> dict[str, Any]:
    """Checks the width, which the file gives twice."""
    state_of(given, SIZES, Key("expand", 2))
    return {}


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns how much wider a layer is inside than the stream."""
    form: Any = config.layer(0).attention.form
    return {"expand": form.n_heads * form.d_value // config.d_model}


def is_mamba(config: ModelConfig) -> bool:
    """Claims models whose layers are all those of Mamba-2, and nothing else."""
    layers = [layer for layer, _ in config.layers(config.n_layers).values()]
    return all(isinstance(layer.attention.form, Mamba2) and layer.n_sublayers == 1 for layer in layers)


SIZES = {
    "n_heads": Key("num_heads", 128),
    "n_key_heads": Key("n_groups", 8),
    "d_key": Key("state_size", 128),
    "d_value": Key("head_dim", 64),
    "taps": Key("conv_kernel", 4),
}
EPS = Key("layer_norm_epsilon", 1e-5)
MAMBA2 = Format(
    model_type="mamba2",
    architectures=("Mamba2ForCausalLM", "Mamba2Model"),
    fields={
        "vocab_size": Key("vocab_size"),
        "context_length": Key("max_position_embeddings", LONG),
        "d_model": Key("hidden_size"),
        "n_layers": Key("num_hidden_layers"),
        "n_heads": SIZES["n_heads"],
        "n_kv_heads": SIZES["n_key_heads"],
        "d_head": SIZES["d_value"],
        "norm_eps": EPS,
    },
    always={
        "positions": "none",
        "norm": "rmsnorm",
        "attention_bias": "none",
        "feedforward": "none",
        "feedforward_bias": False,
    },
    parts={
        "form": PartOf(
            "Mamba2",
            {
                **SIZES,
                "convolution_bias": Key("use_conv_bias", True, words={True: True, False: False}),
                "output_eps": EPS,
            },
        )
    },
    must_be=(
        *(NOT_CAUSAL, ONE_STACK, NO_CROSS_ATTENTION, *NO_WINDOW[:2], NO_LIMITS),
        ("rms_norm", (True, None), "a norm always comes before the last matrix of these layers"),
        ("use_bias", (False,), "no matrix of these layers has a bias here"),
        ("hidden_act", SILU, "convolutions and gates of these layers have SiLU here"),
        ("layer_types", ("linear_attention", "mamba", None), "every layer of this family has a state"),
    ),
    also=("expand",),
    without_effect={
        **ALWAYS_DECODERS,
        **STEPS,
        "norm_before_gate": "transformers does not read it: the gate always comes first",
        "chunk_size": "says in what pieces a text is computed, with the same result",
        "residual_in_fp32": "says in what the stream is kept; `load` is told what to compute in",
        "intermediate_size": "the width inside of a layer, which `expand` gives; transformers does not read it",
    },
    written={**LLAMA.written, "use_bias": False, "hidden_act": "silu"},
    read=read,
    write=write,
    claims=is_mamba,
    layout=Layout(
        names={
            "token_embedding": "backbone.embeddings",
            "decoder.blocks.#.norm_attention": "backbone.layers.#.norm",
            **layer_names("backbone.layers.#.mixer"),
            "decoder.norm": "backbone.norm_f",
            "unembedding": linear("lm_head"),
        },
        prefix="backbone.",
        copies={"lm_head.weight": "backbone.embeddings.weight"},
    ),
)
