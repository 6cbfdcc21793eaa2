"""Shows where every head of the book's model looks, in a text of the reader's own."""

from typing import Any

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Int, default

from glassformer.scratch.attention import scaled_dot_product_attention
from glassformer.trace import trace
from glassformer.widgets.engine.model import LINE, ModelView, packed
from glassformer.widgets.kit.view import UpTo


class AttentionExplorer(ModelView, module="attention_explorer"):
    """All heads of the shipped model at a glance and one in detail: where does each character look?

    Without the mask, the queries and keys are still those of the unchanged model; only the displayed
    attention may also look ahead. The model was never trained that way.

    Traits:
        text: what the model reads, as far as its context reaches.
        block, head: which head is shown in detail; both count from 0.
        query: the position whose weights are highlighted.
        masked: whether the causal mask is on.

    Raises:
        TraitError: there is no such block or head, or `query` is below 0.
    """

    block = UpTo(lambda view: view._source.config.n_layers - 1, first=2).tag(sync=True)
    head = UpTo(lambda view: view._source.config.n_heads - 1, first=2).tag(sync=True)
    query = Int(min=0).tag(sync=True)
    masked = Bool(True).tag(sync=True)

    _families = ("decoder",)

    def weights(self) -> Float[np.ndarray, "L H T T"]:
        """Computes the attention weights of every block and head, which the view draws, with `glassformer.scratch`."""
        return self._weights(self.masked)

    def _weights(self, masked: bool) -> Float[np.ndarray, "L H T T"]:
        source, model = self._source, self._source.model
        ids = source.tokenizer.encode(self.text[: source.config.context_length])
        with trace() as seen:
            model(ids[None])
        if masked:
            return np.concatenate(seen.arrays("weights", "attention"))
        q, k, v = (np.concatenate(seen.arrays(name, "attention")) for name in "qkv")
        return scaled_dot_product_attention(q, k, v, scale=source.config.attention_scale)[1]

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        return {"text": self.text, "weights": packed(self._weights(masked=True))}

    @default("query")
    def _default_query(self) -> int:
        return 36 if self.text == LINE else len(self.text) - 1  # there, this head finds the character before
