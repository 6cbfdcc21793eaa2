"""Judges "Total and active" (chapter 18): parameters of all feed-forward layers, and those that one token uses."""

from collections.abc import Mapping
from typing import Any

from glassformer.exercises.catalogue import exercise


def active_parameters(config: Mapping[str, Any]) -> tuple[int, int]:
    """Returns how many parameters the feed-forward layers have in all, and how many of them one token uses."""
    D, F = config["hidden_size"], config["moe_intermediate_size"]
    X, A = config["n_routed_experts"], config["num_experts_per_tok"]
    n_shared = config["n_shared_experts"] or 0
    n_dense = min(config["first_k_dense_replace"], config["num_hidden_layers"])
    n_sparse = config["num_hidden_layers"] - n_dense

    dense = 3 * D * config["intermediate_size"]
    expert, router = 3 * D * F, X * D + X
    total = n_dense * dense + n_sparse * (router + (X + n_shared) * expert)
    active = n_dense * dense + n_sparse * (router + (A + n_shared) * expert)
    return total, active


both = exercise("experts.active_parameters", active_parameters, parts=("total", "active"))

_SMALL = {
    "hidden_size": 10, "intermediate_size": 50, "moe_intermediate_size": 7, "n_routed_experts": 8,
    "num_experts_per_tok": 3, "n_shared_experts": 2, "first_k_dense_replace": 1, "num_hidden_layers": 5,
}  # fmt: skip
_DEEPSEEK_V3 = {
    "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
}  # fmt: skip

# By hand: a dense network has 3 · 10 · 50 = 1500 numbers, an expert 3 · 10 · 7 = 210, a router 8 · 10 + 8 = 88. The
# numbers of DeepSeek-V3 are those of the chapter's table, `parameter_count` of the published file
both.case(
    "dense layers alone: a token uses all of 1500 parameters in each of them",
    _SMALL | {"first_k_dense_replace": 5}, want=(7500, 7500), what="five dense layers",
)  # fmt: skip
both.also(
    _SMALL | {"first_k_dense_replace": 9, "num_hidden_layers": 2}, want=(3000, 3000), what="two dense layers"
)
both.case(
    "a layer with experts and none that are shared: 88 for the router, 8 or 3 times 210",
    _SMALL | {"n_shared_experts": 0, "first_k_dense_replace": 0, "num_hidden_layers": 1},
    want=(1768, 718), what="one layer without a shared expert",
)  # fmt: skip
both.also(
    _SMALL | {"n_shared_experts": None, "first_k_dense_replace": 0, "num_hidden_layers": 4},
    want=(7072, 2872), what="four layers, with n_shared_experts = None",
)  # fmt: skip
both.case(
    "every token uses the two shared experts, too",
    _SMALL | {"first_k_dense_replace": 0, "num_hidden_layers": 1}, want=(2188, 1138), what="one layer",
)  # fmt: skip
both.also(
    _SMALL | {"first_k_dense_replace": 0, "num_hidden_layers": 1, "num_experts_per_tok": 8},
    want=(2188, 2188), what="one layer in which a token chooses all eight experts",
)  # fmt: skip
both.case("one dense layer and four with experts", _SMALL, want=(10_252, 6052), what="five layers")
both.also(_SMALL | {"hidden_size": 11}, want=(11_274, 6654), what="five wider layers")
both.case("DeepSeek-V3", _DEEPSEEK_V3, want=(657_758_632_448, 24_284_510_720), what="DeepSeek-V3's file")
