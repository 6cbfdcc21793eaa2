"""Draws the weights that the judges of chapter 07 pass to a block, and sets some of them to zero."""

import math

import numpy as np

from glassformer.exercises.material import Weights


def block_weights(D: int, F: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns random weights for one block, with gains around 1."""
    g = np.random.default_rng((seed, D, F))

    def matrix(n_in: int, n_out: int) -> np.ndarray:
        return g.normal(size=(n_in, n_out)) / math.sqrt(n_in)

    return {
        "norm_attention.weight": 1 + 0.3 * g.normal(size=D),
        "norm_attention.bias": 0.3 * g.normal(size=D),
        **{f"attention.{name}.weight": matrix(D, D) for name in ("W_q", "W_k", "W_v", "W_o")},
        "norm_feedforward.weight": 1 + 0.3 * g.normal(size=D),
        "norm_feedforward.bias": 0.3 * g.normal(size=D),
        "feedforward.W_up.weight": matrix(D, F),
        "feedforward.W_up.bias": 0.3 * g.normal(size=F),
        "feedforward.W_down.weight": matrix(F, D),
        "feedforward.W_down.bias": 0.3 * g.normal(size=D),
    }


def with_zeros(w: Weights, *names: str) -> dict[str, np.ndarray]:
    """Returns the same weights with the named ones at zero."""
    return {name: np.zeros_like(value) if name in names else value for name, value in w.items()}


ATTENTION_WRITES = ("attention.W_o.weight",)
FEEDFORWARD_WRITES = ("feedforward.W_down.weight", "feedforward.W_down.bias")
