"""The position encodings that a configuration names."""

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.layers import Rotation
from glassformer.scratch.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
)
from glassformer.scratch.relative import AlibiPositions, T5Positions
from glassformer.scratch.rotary import RotaryPositions

OF_A_STACK = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "alibi": AlibiPositions,
    "t5": T5Positions,
}


def position_encoding_of(
    config: ModelConfig,
    *,
    causal: bool = True,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = np.float32,
) -> NoPositions:
    """Returns the encoding of a stack: it acts on the input or the scores, once for all its blocks."""
    encoding = OF_A_STACK.get(config.positions, NoPositions)
    init_kwargs = {"generator": generator, "dtype": dtype}
    return encoding(**config.position_arguments(causal, **init_kwargs))


def rotation_of(rotation: Rotation | None) -> NoPositions:
    """Returns the encoding of one block, which rotates queries and keys inside attention, if it has one."""
    return (
        NoPositions() if rotation is None else RotaryPositions(**vars(rotation))
    )
