"""Computes a block head by head, position by position and neuron by neuron: the expected results of chapter 07."""

from typing import Any

import numpy as np

from glassformer.chapters.ch03.judges.multi_head import head_by_head
from glassformer.chapters.ch05.judges.norms import layer_norm_by_hand
from glassformer.chapters.ch06.judges.by_hand import network_by_hand
from glassformer.exercises.material import Weights


def attention_by_hand(x: Any, w: Weights, n_heads: int) -> np.ndarray:
    """Returns what the block's attention makes of x, head by head."""
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    return head_by_head(x, W_q, W_k, W_v, W_o, n_heads)


def feed_forward_by_hand(x: Any, w: Weights) -> np.ndarray:
    """Computes the feed-forward network, each position and each neuron by itself."""
    return network_by_hand(
        x,
        *(w[f"feedforward.{name}"] for name in ("W_up.weight", "W_up.bias", "W_down.weight", "W_down.bias")),
    )


def norm_by_hand(x: Any, w: Weights, name: str) -> np.ndarray:
    """Returns the norm of that name, of each row of x."""
    return layer_norm_by_hand(x, w[f"{name}.weight"], w[f"{name}.bias"])


def pre_norm_by_hand(x: Any, w: Weights, n_heads: int) -> np.ndarray:
    """Returns the block's output, each head, position and neuron by itself."""
    x = x + attention_by_hand(norm_by_hand(x, w, "norm_attention"), w, n_heads)
    return x + feed_forward_by_hand(norm_by_hand(x, w, "norm_feedforward"), w)
