"""Judges "Deep is a loop" (chapter 07): the stream before the first block and after each block.

Axes: T positions, D d_model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import Weights, numbers
from glassformer.shapes import Float

from .block import block
from .by_hand import pre_norm_by_hand
from .weights import block_weights


def stack(x: Float[np.ndarray, "T D"], blocks: Sequence[Weights], n_heads: int) -> Float[np.ndarray, "_ T D"]:
    """Returns the stream before the first block and after each block."""
    streams = [x]
    for weights in blocks:
        streams.append(block(streams[-1], weights, n_heads))
    return np.stack(streams)


deep = exercise("block.stack", stack)

_x, _blocks = numbers(4, 6, seed=6), [block_weights(6, 8, seed=seed) for seed in (4, 5, 6)]


def _streams(x: Any, blocks: Sequence[Weights], n_heads: int) -> np.ndarray:
    """Returns the expected streams, each computed from the one before, one number at a time."""
    made = [x]
    for weights in blocks:
        made.append(pre_norm_by_hand(made[-1], weights, n_heads))
    return np.array(made)


deep.shape("one stream more than there are blocks", _x, _blocks, 2, want=(4, 4, 6))
deep.case("no block at all: only the stream that came in", _x, [], 2, want=_x[None])
deep.case("one block", _x, _blocks[:1], 2, want=_streams)
deep.case("three blocks, each reading the output of the one before", _x, _blocks, 2, want=_streams)
deep.also(_x, _blocks[::-1], 3, want=_streams)
