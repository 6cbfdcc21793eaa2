"""Judges "Four positions become one" (chapter 16): every block of positions becomes a compressed token.

Axes: T positions, C compressed tokens, K features of one head.
"""

import math
from functools import partial

import numpy as np

from glassformer.chapters.ch03.judges.by_hand import softmax_by_hand
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.compressed import Compressor
from glassformer.shapes import Bool, Float


def compress(
    values: Float[np.ndarray, "T K"], logits: Float[np.ndarray, "T K"], rate: int
) -> tuple[Float[np.ndarray, "C K"], Bool[np.ndarray, "T C"]]:
    """Returns a token for each complete block of `rate` positions, and which tokens each position may see."""
    T, K = values.shape
    C = T // rate
    values = values[: C * rate].reshape(C, rate, K)
    logits = logits[: C * rate].reshape(C, rate, K)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights = powers / powers.sum(axis=1, keepdims=True)
    tokens = (weights * values).sum(axis=1)
    last = np.arange(C) * rate + rate - 1
    return tokens, last <= np.arange(T)[:, None]


blocks = exercise(
    "long.compress", compress,
    built_on=(Compressor.forward,), parts=("tokens", "visible"), axes=("C K", "T C"),
)  # fmt: skip


def _by_hand(values, logits, rate):
    """Returns the tokens: of each feature of each block, an average written out."""
    starts = range(0, len(values) - rate + 1, rate)
    return [
        [
            math.fsum(w * x for w, x in zip(softmax_by_hand(gate), column, strict=True))
            for gate, column in zip(logits[i : i + rate].T, values[i : i + rate].T, strict=True)
        ]
        for i in starts
    ]


_three = math.log(3)
_v = np.array([[8.0, 10, 1], [4, 30, 5]])
blocks.case(
    "equal logits: a plain average",
    _v, np.zeros((2, 3)), 2, want=[[6.0, 20, 3]], part="tokens", what="one block",
)  # fmt: skip
blocks.case(
    "each feature has weights of its own",
    _v, np.array([[_three, 0, _three], [0, 0, 0]]), 2, want=[[7.0, 20, 2]], part="tokens",
    what="one block whose first position counts three times in two features",
)  # fmt: skip
for _title, _T, _K, _rate in (
    ("each block by itself", 8, 3, 4),
    ("", 6, 5, 2),
    ("an unfinished block has no token yet", 11, 2, 3),
    ("", 9, 4, 5),
):
    blocks.case(
        _title, numbers(_T, _K), numbers(_T, _K, seed=1), _rate, want=_by_hand, part="tokens",
        what=f"{_T} positions, {_K} features, rate = {_rate}",
    )  # fmt: skip
blocks.case(
    "large logits do not overflow",
    np.array([[8.0, 0], [4, 2], [1, 2], [5, 6]]),
    np.array([[1000 + _three, -1000], [1000, -1000], [0, 9], [0, 9]]),
    2, want=[[7.0, 1], [3, 4]], part="tokens", what="logits of 1000 and −1000",
)  # fmt: skip
_seen = [[0, 0], [0, 0], [1, 0], [1, 0], [1, 0], [1, 1], [1, 1]]
blocks.case(
    "a token is visible from the last position of its block on",
    numbers(7, 2), numbers(7, 2, seed=1), 3, want=np.array(_seen, dtype=bool), part="visible",
    what="7 positions, rate = 3",
)  # fmt: skip
blocks.also(
    numbers(4, 3), numbers(4, 3), 1, want=np.tri(4, dtype=bool), part="visible", what="4 positions, rate = 1"
)


def _padded(values, logits, rate, logit):
    more = ((0, -len(values) % rate), (0, 0))
    tokens, visible = compress(np.pad(values, more), np.pad(logits, more, constant_values=logit), rate)
    return tokens, visible[: len(values)]


for _logit in (0.0, -np.inf):
    blocks.mistake("unfinished block", partial(_padded, logit=_logit))
