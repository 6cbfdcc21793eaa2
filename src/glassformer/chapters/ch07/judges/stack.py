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
deep.case("one block", _x, _blocks[:1], 2, want=_streams(_x, _blocks[:1], 2))
deep.case(
    "three blocks, each reading the output of the one before", _x, _blocks, 2, want=_streams(_x, _blocks, 2)
)
deep.also(_x, _blocks[::-1], 3, want=_streams(_x, _blocks[::-1], 3))


def _stacked(step, order=lambda blocks: blocks, first=True):
    """Returns a wrong stack: `step` computes the next stream from all so far, all weights, and the block's index."""

    def wrong(x, blocks, n_heads):
        made = [x]
        for i in range(len(blocks)):
            made.append(step(made, order(blocks), i, n_heads))
        return np.stack(made if first or len(made) == 1 else made[1:])

    return wrong


deep.mistake("same block", _stacked(lambda made, blocks, i, H: block(made[-1], blocks[0], H)))
deep.mistake("start", _stacked(lambda made, blocks, i, H: block(made[-1], blocks[i], H), first=False))
deep.mistake("all read x", _stacked(lambda made, blocks, i, H: block(made[0], blocks[i], H)))
deep.mistake("added twice", _stacked(lambda made, blocks, i, H: made[-1] + block(made[-1], blocks[i], H)))
deep.mistake(
    "backwards",
    _stacked(lambda made, blocks, i, H: block(made[-1], blocks[i], H), lambda blocks: blocks[::-1]),
)
deep.mistake("end", lambda x, blocks, n_heads: stack(x, blocks, n_heads)[: max(len(blocks), 1)])
deep.mistake("last alone", lambda x, blocks, n_heads: stack(x, blocks, n_heads)[-1])
deep.mistake(
    "writes",
    lambda x, blocks, n_heads: np.concatenate([x[None], np.diff(stack(x, blocks, n_heads), axis=0)]),
)
