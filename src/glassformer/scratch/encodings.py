"""The position encoding that a configuration names."""

from collections.abc import Collection

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.scratch.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
)
from glassformer.scratch.relative import AlibiPositions, T5Positions
from glassformer.scratch.rotary import RotaryPositions

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
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = np.float32,
) -> NoPositions:
    """Returns the encoding that a configuration names, if it acts on one of `acting_on`.

    A stack asks for encodings that act on the input or the scores, once for all
    its blocks. Each block asks for one that rotates queries and keys inside
    attention.
    """
    encoding = METHODS[config.positions]
    if encoding.acts_on not in acting_on:
        return NoPositions()
    init_kwargs = {"generator": generator, "dtype": dtype}
    return encoding(**config.position_arguments(causal, **init_kwargs))
