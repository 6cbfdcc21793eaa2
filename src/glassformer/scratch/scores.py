"""The layers that change the scores of attention before they are masked, by their descriptions."""

from typing import Any

from glassformer.layers import PositionScale, SoftCap
from glassformer.scratch import position_scale, soft_cap
from glassformer.scratch.layer import Layer

SCORES = {SoftCap: soft_cap.SoftCap, PositionScale: position_scale.PositionScale}


def score_layer_of(description: Any) -> Layer | None:
    """Returns the layer that a description names, or None if the scores stay as they are."""
    if description is None:
        return None
    return SCORES[type(description)](**vars(description))
