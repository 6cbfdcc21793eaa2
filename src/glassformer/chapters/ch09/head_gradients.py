"""One head of attention, there and back: every number, and beside it its gradient."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Enum, List, default, validate

from glassformer.scratch.attention import (
    causal_mask,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
)
from glassformer.widgets.kit.tables import cell, table
from glassformer.widgets.kit.view import View

WORDS = ("for", "a", "horse", "!")
T, K = len(WORDS), 3
LARGEST = 3.0  # that a number may be
RAISED = ("all", *(f"{t} {i}" for t in range(T) for i in range(K)))
VALUES = {"q": K, "k": K, "v": K, "scores": T, "weights": T, "outputs": K}
KINDS = VALUES | {f"grad_{kind}": size for kind, size in VALUES.items()}
"""What is on view, and how many columns it has."""

QUERIES = [[1.0, 0.2, -0.4], [-0.5, 1.2, 0.3], [0.4, -0.8, 1.0], [1.6, -0.6, 0.8]]
KEYS = [[1.4, -0.2, 0.6], [-0.6, 1.0, 0.2], [-0.2, 0.8, -1.0], [0.8, 0.4, 1.0]]
ANSWERS = [[1.5, -0.4, 0.2], [-0.8, 0.6, 1.0], [0.2, 1.2, -0.6], [0.9, -1.0, 0.4]]


class Computed(NamedTuple):
    """The numbers that the view draws: the axes are T queries, S keys, K numbers of each."""

    scores: Float[np.ndarray, "T S"]
    weights: Float[np.ndarray, "T S"]
    outputs: Float[np.ndarray, "T K"]
    grad_q: Float[np.ndarray, "T K"]
    grad_k: Float[np.ndarray, "S K"]
    grad_v: Float[np.ndarray, "S K"]
    grad_scores: Float[np.ndarray, "T S"]
    grad_weights: Float[np.ndarray, "T S"]
    grad_outputs: Float[np.ndarray, "T K"]


class HeadGradients(
    View,
    module="head_gradients",
    room={288: 1781, 328: 1760, 358: 1737, 568: 1544, 618: 1544, 710: 969, 736: 969, 752: 969, 782: 947},
):
    """Four words through one head of attention, and from what is to be raised back to queries, keys and values.

    Pointing at a number, or taking the focus there, outlines what it is made of and what is made of it, and writes
    out the sum. Queries, keys and values can be changed.

    Derived in chapter 09.

    Traits:
        q, k, v: queries, keys and values, three numbers from −3 to 3 for each of the four words.
        mask: whether a word sees itself and those before it only.
        raised: what the gradients are of: "all", the sum of all outputs, or one of them by row and column, "3 0".
        cell: the number that is explained: which of `KINDS`, its row, its column.

    Raises:
        TraitError: a table of another size, a number out of range, an unknown output or cell.
    """

    q = List().tag(sync=True)
    k = List().tag(sync=True)
    v = List().tag(sync=True)
    mask = Bool(True).tag(sync=True)
    raised = Enum(RAISED, "3 0").tag(sync=True)
    cell = List(["grad_scores", 3, 1]).tag(sync=True)

    def computed(self) -> Computed:
        """Computes what the view draws, with `glassformer.scratch`; a masked score is −∞."""
        q, k, v = (np.array(rows, dtype=np.float64) for rows in (self.q, self.k, self.v))
        mask = causal_mask(T) if self.mask else np.ones((T, T), dtype=bool)
        outputs, weights = scaled_dot_product_attention(q, k, v, mask=mask)
        grad = np.ones((T, K))
        if self.raised != "all":
            grad[:] = 0
            grad[tuple(int(i) for i in self.raised.split())] = 1
        grad_q, grad_k, grad_v, grad_scores = scaled_dot_product_attention_backward(grad, q, k, v, weights)
        scores = np.where(mask, q @ k.T / math.sqrt(K), -np.inf)
        return Computed(scores, weights, outputs, grad_q, grad_k, grad_v, grad_scores, grad @ v.T, grad)

    @default("q")
    def _default_q(self) -> list[list[float]]:
        return [list(row) for row in QUERIES]

    @default("k")
    def _default_k(self) -> list[list[float]]:
        return [list(row) for row in KEYS]

    @default("v")
    def _default_v(self) -> list[list[float]]:
        return [list(row) for row in ANSWERS]

    @validate("q", "k", "v")
    def _validate_table(self, proposal: dict) -> list:
        return table(proposal["trait"].name, proposal["value"], (T, K), LARGEST)

    @validate("cell")
    def _validate_cell(self, proposal: dict) -> list:
        return cell(proposal["value"], T, KINDS)
