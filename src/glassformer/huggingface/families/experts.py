"""What families with experts have in common: how files say which layers have them, and the names of their weights."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import (
    EVERYWHERE,
    Place,
    Sparse,
    Where,
    few,
    linear,
    words_of_layers,
)
from glassformer.huggingface.keys import Key, each_of, unsupported

TRAINING = each_of(
    "concerns training only",
    "router_aux_loss_coef output_router_logits router_jitter_noise input_jitter_noise",
)
"""Keys without effect: how evenly experts are chosen is part of a loss, and noise changes what is chosen."""


def either(name: str, default: bool) -> Key:
    """Returns a key that must be true or false."""
    return Key(name, default, words={True: True, False: False})


def mixture(
    n_experts: Key, top_k: Any, width: int | None = None, where: Where = EVERYWHERE, **more: Any
) -> Sparse:
    """Returns a table of experts with the usual keys, of which `top_k` can be another, and `more` of its arguments.

    Numbers are those that a file has if it does not say. Without a `width`, experts are as wide as other layers.
    """
    of_table = {name: more.pop(name) for name in ("n_shared", "by_token") if name in more}
    chosen = top_k if isinstance(top_k, Key) else Key("num_experts_per_tok", top_k)
    d_ff = None if width is None else Key("moe_intermediate_size", width)
    return Sparse(
        experts={"n_experts": n_experts, "top_k": chosen, **more}, d_ff=d_ff, where=where, **of_table
    )


def has_experts(config: ModelConfig) -> bool:
    """Claims models of which a layer has experts."""
    return any(layer.feedforward.experts for layer, _ in config.layers(config.n_layers).values())


# Which layers have experts


def _numbers(given: Mapping[str, Any], name: str) -> list[int]:
    """Returns a list of numbers of layers; null and nothing are an empty one."""
    listed = given.get(name)
    listed = [] if listed is None else listed
    if not isinstance(listed, list) or not all(type(i) is int for i in listed):
        raise unsupported(given, name, "it must be a list of numbers of layers, from 0")
    return listed


def after_first(name: str, default: int) -> Where:
    """Returns how a file counts the layers without experts, which come first."""

    def read(given: Mapping[str, Any], n_layers: int) -> list[bool] | bool:
        n_dense = given.get(name, default)
        checks.whole(name, n_dense, at_least=0)
        return n_dense == 0 or (n_dense < n_layers and [i >= n_dense for i in few(n_layers)])

    return Where((name,), read, lambda each: {name: [*each, True].index(True)})


def listed(default: int = 0, word: str = "sparse", first: str | None = None) -> Where:
    """Returns how a file has a word for each layer; without a list, those after the first `default` have experts.

    The key `first`, if there is one, says how many these first ones are.
    """
    name, words = "mlp_layer_types", ("dense", word)
    counted = None if first is None else after_first(first, default)

    def read(given: Mapping[str, Any], n_layers: int) -> list[bool] | bool:
        if given.get(name) is None and counted is not None:
            return counted.read(given, n_layers)
        if given.get(name) is None and default == 0:
            return True
        found = words_of_layers(given, n_layers, name, words, lambda i: words[i >= default])
        return [entry == word for entry in found]

    def write(each: list[bool]) -> dict[str, Any]:
        found = {name: [words[sparse] for sparse in each]}
        return found if counted is None else found | counted.write(each)

    return Where((name,) if first is None else (name, first), read, write)


def _read_steps(given: Mapping[str, Any], n_layers: int) -> list[bool] | bool:
    step, dense = given.get("decoder_sparse_step", 1), _numbers(given, "mlp_only_layers")
    checks.whole("decoder_sparse_step", step)
    if step == 1 and not dense:
        return True
    return [(i + 1) % step == 0 and i not in dense for i in few(n_layers)]


STEPS = Where(
    ("decoder_sparse_step", "mlp_only_layers"),
    _read_steps,
    lambda each: {"mlp_only_layers": [i for i, sparse in enumerate(each) if not sparse]},
)
"""Every n-th layer has experts, except those of a list."""


# The names of their weights

OURS = "decoder.blocks.#.feedforward"
GATED = {"W_gate": "gate_proj", "W_up": "up_proj", "W_down": "down_proj"}


def named(theirs: str, router: str = "gate", shared: str = "", **names: str) -> dict[str, Place | str]:
    """Returns the names of a router and of experts that are stored one by one; of a `shared` one, if it has a name.

    `theirs` begins all, such as "model.layers.#.mlp". `names` has other ones for W_gate, W_up and W_down of experts.
    """
    return {
        f"{OURS}.router.W": linear(f"{theirs}.{router}"),
        **{
            f"{OURS}.experts.@.{ours}": linear(f"{theirs}.experts.@.{name}")
            for ours, name in (GATED | names).items()
        },
        **{
            f"{OURS}.shared.{ours}": linear(f"{theirs}.{shared}.{name}")
            for ours, name in GATED.items()
            if shared
        },
    }


def packed(
    theirs: str, *, into: str = "gate_up_proj", out_of: str = "down_proj", how: str = "rows"
) -> dict[str, Place | str]:
    """Returns the names of matrices that hold all experts of a layer, and of one for each that has gate and up.

    These are `how`: rows (out, in), gate before up, or alternating "columns" (in, out), which also have biases.
    """
    rows = how == "rows"
    turns = None if rows else lambda _: (1, 1)
    found: dict[str, Place | str] = {}
    for part, ours, name in ((0, "W_gate", into), (1, "W_up", into), (0, "W_down", out_of)):
        place = Place(f"{theirs}.{name}", transposed=rows, part=part, turns=turns if name == into else None)
        found[f"{OURS}.experts.@.{ours}.weight"] = place
        if not rows:
            found[f"{OURS}.experts.@.{ours}.bias"] = replace(place, name=f"{place.name}_bias")
    return found
