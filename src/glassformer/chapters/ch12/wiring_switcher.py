"""One diagram for three families: which boxes and masks each uses, and what it is trained to predict."""

from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool
from traitlets import Dict, Enum, Int, default

from glassformer import shipped
from glassformer.config import FAMILIES, ModelConfig
from glassformer.scratch import causal_mask
from glassformer.widgets.kit.view import Text, View

LONGEST = 12  # characters of a text
MOST_PADDING = 3
MASKS = ("encoder", "decoder", "cross")
BASE = "shakespeare"  # the model whose other choices all three share


@cache
def configs() -> dict[str, ModelConfig]:
    """Returns the book's decoder, or the same model with another family."""
    base = shipped.configuration(BASE)
    return {family: base.replace(family=family) for family in FAMILIES}


def lines() -> dict[str, list[str]]:
    """The fields in which the three differ, as they are written; what is None is not written."""
    all_of_them = configs().values()
    names = [
        name for name in ModelConfig.__dataclass_fields__ if len({getattr(c, name) for c in all_of_them}) > 1
    ]
    return {
        family: [
            f"{name}={value!r}".replace("'", '"')
            for name in names
            if (value := getattr(config, name)) is not None
        ]
        for family, config in configs().items()
    }


class WiringSwitcher(View, module="wiring_switcher"):
    """One diagram for the three families: unused parts fade, and the masks show which positions may read which.

    An encoder reads a text in both directions, a decoder only what came before, and a decoder that attends to
    an encoder also the whole source. Choose a position in the diagram or a cell of a mask.

    Source: Vaswani et al. 2017, figure 1; Raffel et al. 2020, figures 3 and 4. Used in chapter 12.

    Traits:
        family: "decoder", "encoder" or "encoder-decoder".
        text: what an encoder or a decoder reads, and what an encoder–decoder is to write; 1 to 12 characters.
        source: what the encoder of an encoder–decoder reads; 1 to 12 characters.
        prefix: so many characters of a decoder's text are seen by all positions (a prefix-LM); 0 is causal.
        padding: so many positions are padded, 0 to 3, as beside longer texts in a batch.
        mask: where a cell is chosen: "encoder", "decoder" (self-attention) or "cross". One that the family
            lacks gives way to one that it has.
        query, key: the row and the column of that cell; beyond the mask, the last.

    Raises:
        TraitError: a trait is outside its range.
    """

    family = Enum(FAMILIES, "decoder").tag(sync=True)
    text = Text("A horse!", shortest=1, longest=LONGEST).tag(sync=True)
    source = Text("Ein Pferd!", shortest=1, longest=LONGEST).tag(sync=True)
    prefix = Int(0, min=0, max=LONGEST).tag(sync=True)
    padding = Int(0, min=0, max=MOST_PADDING).tag(sync=True)
    mask = Enum(MASKS, "decoder").tag(sync=True)
    query = Int(3, min=0).tag(sync=True)
    key = Int(5, min=0).tag(sync=True)
    _configs = Dict().tag(sync=True)

    def masks(self) -> dict[str, Bool[np.ndarray, "T S"]]:
        """The masks that the family has, True where a query (a row) may read a key (a column)."""
        n = len(self.text)
        if self.family == "decoder":
            mask = causal_mask(n + self.padding)
            mask[:, : min(self.prefix, n)] = True
            return {"decoder": mask}
        n_read = n if self.family == "encoder" else len(self.source)
        real = np.arange(n_read + self.padding) < n_read
        both_ways = np.broadcast_to(real, (len(real), len(real)))
        if self.family == "encoder":
            return {"encoder": both_ways}
        T = 1 + n + self.padding  # it begins with a start
        return {
            "encoder": both_ways,
            "decoder": causal_mask(T),
            "cross": np.broadcast_to(real, (T, len(real))),
        }

    @default("_configs")
    def _default_configs(self) -> dict[str, Any]:
        written = lines()
        return {
            family: {
                "lines": written[family],
                "parameters": config.parameter_count().total,
                "blocks": config.n_layers,
            }
            for family, config in configs().items()
        }
