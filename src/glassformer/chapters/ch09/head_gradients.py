"""One attention head, forward and backward: every number next to its gradient."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Enum, List

from glassformer.scratch.attention import (
    causal_mask,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
)
from glassformer.widgets.kit.tables import HeadTables

WORDS = ("for", "a", "horse", "!")
T, K = len(WORDS), 3
LARGEST = 3.0  # that a number may be
RAISED = ("all", *(f"{t} {i}" for t in range(T) for i in range(K)))
VALUES = {"q": K, "k": K, "v": K, "scores": T, "weights": T, "outputs": K}
KINDS = VALUES | {f"grad_{kind}": size for kind, size in VALUES.items()}
"""What is displayed, and how many columns it has."""

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


class HeadGradients(HeadTables, module="head_gradients"):
    """Four words through one attention head, and the gradients back to queries, keys and values.

    Pointing at a number, or focusing it, outlines the numbers it depends on and those that depend on it, and
    writes out the calculation. Queries, keys and values can be changed.

    Derived in chapter 09.

    Traits:
        q, k, v: queries, keys and values, three numbers from −3 to 3 for each of the four words.
        mask: whether a word sees itself and those before it only.
        raised: what the gradients are of: "all", the sum of all outputs, or one of them by row and column, "3 0".
        cell: the number that is explained: which of `KINDS`, its row, its column.

    Raises:
        TraitError: a table of another size, a number out of range, an unknown output or cell.
    """

    tables: ClassVar = {"q": QUERIES, "k": KEYS, "v": ANSWERS}
    largest = LARGEST
    kinds = KINDS

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
