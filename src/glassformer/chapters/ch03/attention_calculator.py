"""One head of attention with every number in view: five words, from scores to what they fetch."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Enum, List

from glassformer.scratch.attention import causal_mask, scaled_dot_product_attention, softmax
from glassformer.widgets.kit.tables import HeadTables

WORDS = ("my", "kingdom", "for", "a", "horse")
K = 2
LARGEST = 9.0  # that a number may be
MASKS = ("none", "before", "after")
KINDS = {"q": K, "k": K, "v": K, "scores": len(WORDS), "weights": len(WORDS), "outputs": K}
"""What is on view, and how many columns it has."""

# The first number of a query asks for things, the second for function words; keys show which of the two a
# word is. The first number of a value is the size of the thing.
QUERIES = [[2.0, 0.0], [0.0, 1.5], [1.0, -1.0], [1.5, 0.5], [2.0, 0.5]]
KEYS = [[-0.5, 1.0], [2.0, -0.5], [-1.0, 1.0], [-0.5, 1.5], [1.0, 0.0]]
VALUES = [[0.0, 1.0], [5.0, 0.0], [0.0, -1.0], [0.0, 2.0], [1.0, 0.0]]


class Computed(NamedTuple):
    """The numbers that the view draws: the axes are T queries, S keys."""

    scores: Float[np.ndarray, "T S"]
    weights: Float[np.ndarray, "T S"]
    outputs: Float[np.ndarray, "T K"]


class AttentionCalculator(HeadTables, module="attention_calculator"):
    """Change any query, key or value of five words, and watch scores, weights and outputs change.

    Pointing at a number, or focusing it, highlights the numbers it is computed from and shows the
    calculation.

    Traits:
        q, k, v: queries, keys and values, two numbers from −9 to 9 for each of the five words.
        scaled: whether the scores are divided by √d_head.
        mask: "none"; "before", the scores of later words become −∞ before softmax; "after", their weights become 0
            after it, which leaves rows that do not sum to 1.
        cell: the number that is explained: what it is one of, its row, its column.

    Raises:
        TraitError: a table of another size, a number out of range, an unknown mask or cell.
    """

    tables: ClassVar = {"q": QUERIES, "k": KEYS, "v": VALUES}
    largest = LARGEST
    kinds = KINDS

    scaled = Bool(True).tag(sync=True)
    mask = Enum(MASKS, "none").tag(sync=True)
    cell = List(["outputs", 4, 0]).tag(sync=True)

    def computed(self) -> Computed:
        """Computes what the view draws, with `glassformer.scratch`; a score masked before softmax is −∞."""
        q, k, v = (np.array(table, dtype=np.float64) for table in (self.q, self.k, self.v))
        scale = 1 / math.sqrt(K) if self.scaled else 1.0
        past = causal_mask(len(WORDS))
        scores = q @ k.T * scale
        if self.mask == "after":
            weights = softmax(scores) * past
            return Computed(scores, weights, weights @ v)
        mask = past if self.mask == "before" else np.ones_like(past)
        outputs, weights = scaled_dot_product_attention(q, k, v, mask=mask, scale=scale)
        return Computed(np.where(mask, scores, -np.inf), weights, outputs)
