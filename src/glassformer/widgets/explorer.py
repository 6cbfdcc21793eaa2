"""Where every head of the book's model looks, in a text of the reader's own."""

from typing import Any

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Int, TraitError, default, validate

from glassformer.scratch.attention import scaled_dot_product_attention
from glassformer.trace import trace

from .model import ModelView, packed


class AttentionExplorer(
    ModelView,
    module="explorer",
    room={288: 1342, 328: 1348, 358: 1408, 568: 1370, 618: 1339, 710: 876, 736: 890, 752: 899, 782: 916},
):
    """All heads of the shipped model at a glance and one in detail: where each character looks.

    Without the mask, the queries and keys are still those of the model as it is; only in the attention that is
    drawn may they look ahead as well. The model was never trained so.

    Traits:
        text: what the model reads, as far as its context reaches.
        block, head: which head is shown in detail; both count from 0.
        query: the position that asks.
        masked: whether the causal mask is on.

    Raises:
        TraitError: there is no such block or head, or `query` is below 0.
    """

    block = Int(2).tag(sync=True)
    head = Int(2).tag(sync=True)
    query = Int(36, min=0).tag(sync=True)
    masked = Bool(True).tag(sync=True)

    def weights(self) -> Float[np.ndarray, "L H T T"]:
        """What the view draws, computed with `glassformer.scratch`: of every block and head, who looks where."""
        source, model = self._source, self._source.model
        ids = source.tokenizer.encode(self.text[: source.config.context_length])
        with trace() as seen:
            model(ids[None])
        if self.masked:
            return np.concatenate(seen.arrays("weights", "attention"))
        scale = source.config.attention_scale
        q, k, v = (np.concatenate(seen.arrays(name, "attention")) for name in "qkv")
        return scaled_dot_product_attention(q, k, v, scale=scale)[1]

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        was, self.masked = self.masked, True
        try:
            return {"text": self.text, "weights": packed(self.weights())}
        finally:
            self.masked = was

    @validate("block", "head")
    def _validate_place(self, proposal: dict) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        config = self._source.config
        count = config.n_layers if name == "block" else config.n_heads
        if not 0 <= value < count:
            raise TraitError(f"{name}={value} is not one of 0 … {count - 1}")
        return value
