"""The position encoding that a configuration names, in PyTorch."""

from collections.abc import Collection

import torch

from glassformer.config import ModelConfig
from glassformer.nn.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
)
from glassformer.nn.relative import AlibiPositions, T5Positions
from glassformer.nn.rotary import RotaryPositions

METHODS = {
    "none": NoPositions,
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "rope": RotaryPositions,
    "alibi": AlibiPositions,
    "t5": T5Positions,
}


def position_encoding_of(
    config: ModelConfig,
    *,
    acting_on: Collection[str],
    causal: bool = True,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> NoPositions:
    """As `scratch.encodings.position_encoding_of`, in PyTorch."""
    encoding = METHODS[config.positions]
    if encoding.acts_on not in acting_on:
        return NoPositions()
    init_kwargs = {"generator": generator, "dtype": dtype}
    return encoding(**config.position_arguments(causal, **init_kwargs))
