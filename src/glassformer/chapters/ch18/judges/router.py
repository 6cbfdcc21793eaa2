"""Judges "Choose the best experts" (chapter 18): softmax, the choice of A experts, and their weights.

Axes: N tokens, X experts, A chosen ones.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.experts import Router
from glassformer.shapes import Float, Integer


def route(
    z: Float[np.ndarray, "N X"], top_k: int, renormalize: bool
) -> tuple[Integer[np.ndarray, "N A"], Float[np.ndarray, "N A"]]:
    """Returns the experts with the largest probabilities, the best first, and their weights."""
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    s = powers / powers.sum(axis=-1, keepdims=True)
    chosen = np.argsort(-s, axis=-1, kind="stable")[:, :top_k]
    weights = np.take_along_axis(s, chosen, axis=-1)
    if renormalize:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return chosen, weights


router = exercise(
    "experts.router", route,
    built_on=(Router.forward,), parts=("chosen", "weights"), axes=("N A", "N A"),
)  # fmt: skip


def _by_hand(z, top_k, renormalize):
    """Sorts the numbers of each token, and divides powers by a sum over the chosen ones or over all."""
    chosen, weights = [], []
    for row in z.tolist():
        order = sorted(range(len(row)), key=lambda i: -row[i])[:top_k]
        powers = [math.exp(one - max(row)) for one in row]
        total = math.fsum(powers[i] for i in (order if renormalize else range(len(row))))
        chosen.append(order)
        weights.append([powers[i] / total for i in order])
    return np.array(chosen), np.array(weights)


_one = np.log([[1.0, 3, 5, 1]])
router.case(
    "the two best of four; their weights are what softmax gives them",
    _one, 2, False, want=([[2, 1]], [[0.5, 0.3]]),
    what="one token with probabilities of 0.1, 0.3, 0.5 and 0.1, not renormalized",
)  # fmt: skip
router.case(
    "renormalized: 0.5 and 0.3, divided by 0.8",
    _one, 2, True, want=([[2, 1]], [[0.625, 0.375]]),
    what="one token with probabilities of 0.1, 0.3, 0.5 and 0.1, renormalized",
)  # fmt: skip
router.case(
    "of equal scores, the first expert counts as the best",
    np.log([[1.0, 4, 4, 2, 4, 1]]), 2, False, want=([[1, 2]], [[0.25, 0.25]]),
    what="one token whose experts 1, 2 and 4 have the same score",
)  # fmt: skip
router.also(
    np.zeros((2, 3)), 2, True, want=([[0, 1]] * 2, [[0.5, 0.5]] * 2), what="two tokens of equal scores"
)
router.case(
    "large scores", np.array([[1000 + math.log(3), 1000.0, 999.0]]), 2, True, want=([[0, 1]], [[0.75, 0.25]]),
    what="one token with scores near 1000", advice="Subtract each token's largest score before the exponential.",
)  # fmt: skip
router.also(
    np.array([[math.log(3), 0.0, -1], [-1000, -1001, math.log(3) - 1000]]), 2, True,
    want=([[0, 1], [2, 0]], [[0.75, 0.25]] * 2), what="two tokens, one of them with scores near −1000",
    advice="Subtract each token's largest score before the exponential.",
)  # fmt: skip
for _title, _N, _X, _A, _renormalize in (
    ("many tokens, renormalized", 7, 5, 3, True),
    ("many tokens, not renormalized", 7, 5, 3, False),
    ("a single expert for each token: its weight is its probability, or 1", 5, 4, 1, False),
    ("", 5, 4, 1, True),
    ("all experts: the weights sum to 1 either way", 3, 6, 6, True),
    ("", 3, 6, 6, False),
):
    router.case(
        _title, numbers(_N, _X, seed=18), _A, _renormalize, want=_by_hand,
        what=f"N = {_N}, X = {_X}, A = {_A}, {'' if _renormalize else 'not '}renormalized",
    )  # fmt: skip
router.case(
    "many equal scores: the first expert still counts as the best",
    np.round(numbers(8, 32, seed=18)), 6, True, want=_by_hand, what="eight tokens with scores like 0, 1 and −1",
    advice='Use np.argsort with kind="stable". Other sorts and np.argpartition do not keep equal scores in order.',
)  # fmt: skip
