"""Judges "A bias that chooses and does not weigh" (chapter 18): sigmoid scores, and how the bias is moved.

Axes: N tokens, X experts, A chosen ones.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.experts import Router
from glassformer.shapes import Float, Integer


def route_with_bias(
    z: Float[np.ndarray, "N X"], bias: Float[np.ndarray, " X"], top_k: int, rate: float
) -> tuple[Integer[np.ndarray, "N A"], Float[np.ndarray, "N A"], Float[np.ndarray, " X"]]:
    """Returns the experts with the largest s + bias, their weights from s alone, and the next bias."""
    s = 1 / (1 + np.exp(-z))
    chosen = np.argsort(-(s + bias), axis=-1, kind="stable")[:, :top_k]
    weights = np.take_along_axis(s, chosen, axis=-1)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    load = np.bincount(chosen.ravel(), minlength=len(bias))
    return chosen, weights, bias + rate * np.sign(load.mean() - load)


biased = exercise(
    "experts.choice_bias", route_with_bias,
    built_on=(Router.update_choice_bias,), parts=("chosen", "weights", "bias"), axes=("N A", "N A", "X,"),
)  # fmt: skip


def _by_hand(z, bias, top_k, rate):
    """Computes one number at a time, and compares counts that are multiplied by X with their sum."""
    X, chosen, weights = len(bias), [], []
    for row in z.tolist():
        s = [(1 + math.tanh(one / 2)) / 2 for one in row]
        own = sorted(range(X), key=lambda i, s=s: -s[i] - bias[i])[:top_k]
        chosen.append(own)
        weights.append([s[i] / math.fsum(s[j] for j in own) for i in own])
    load = np.array([sum(i in own for own in chosen) for i in range(X)])
    return np.array(chosen), np.array(weights), bias - rate * np.sign(X * load - load.sum())


def _logits(*rows: list[float]) -> np.ndarray:
    """Returns the z whose sigmoids are these scores."""
    s = np.array(rows)
    return np.log(s / (1 - s))


_one, _none = _logits([0.2, 0.6, 0.5, 0.4]), np.zeros(4)
_bias, _said = np.array([0.35, 0, 0, 0]), "a token with the scores 0.2, 0.6, 0.5 and 0.4"
biased.case(
    "a bias of 0: the two best scores",
    _one, _none, 2, 0.25, part="chosen", want=[[1, 2]], what=f"{_said} and a bias of 0",
)  # fmt: skip
biased.case(
    "with a bias of 0.35, expert 0 is second: 0.6, then 0.55",
    _one, _bias, 2, 0.25, part="chosen", want=[[1, 0]], what=f"{_said} and 0.35 for expert 0",
)  # fmt: skip
biased.case(
    "the weights come from the scores alone: 0.6 and 0.2, divided by 0.8",
    _one, _bias, 2, 0.25, part="weights", want=[[0.75, 0.25]], what=f"{_said} and 0.35 for expert 0",
)  # fmt: skip
biased.also(
    _one, np.array([2.0, 0, 0, 0]), 2, 0.25, part="weights", want=[[0.25, 0.75]],
    what=f"{_said} and 2 for expert 0",
)  # fmt: skip
biased.case(
    "the bias of the chosen falls, and that of the others rises",
    _one, _bias, 2, 0.25, part="bias", want=[0.1, -0.25, 0.25, 0.25], what=f"{_said} and a rate of 0.25",
)  # fmt: skip
# Loads of 3, 2, 1 and 2: the mean is 2
_four = _logits([0.9, 0.8, 0.1, 0.2], [0.9, 0.1, 0.2, 0.8], [0.9, 0.8, 0.2, 0.1], [0.1, 0.2, 0.9, 0.8])
biased.case(
    "an expert with the mean load keeps its bias",
    _four, _none, 2, 0.25, part="bias", want=[-0.25, 0, 0.25, 0], what="the loads 3, 2, 1, 2 at a rate of 0.25",
)  # fmt: skip
biased.case(
    "of equal numbers, the first expert counts as the best",
    np.zeros((2, 5)), np.array([0.0, 0.25, 0, 0.25, 0.25]), 2, 0.5,
    want=([[1, 3]] * 2, [[0.5, 0.5]] * 2, [0.5, -0.25, 0.5, -0.25, 0.75]), what="two tokens of equal scores",
)  # fmt: skip
for _title, _N, _X, _A, _seed, _rate in (
    ("many tokens, any bias", 9, 5, 2, 0, 0.125),
    ("", 9, 5, 2, 1, 0.5),
    ("a single token, and a single expert", 1, 6, 1, 2, 0.25),
    ("three of seven experts", 5, 7, 3, 3, 0.25),
    ("all experts: the loads are equal", 3, 4, 4, 4, 0.25),
):
    biased.case(
        _title, numbers(_N, _X, seed=(18, _seed)), numbers(_X, seed=(19, _seed)), _A, _rate, want=_by_hand,
        what=f"N = {_N}, X = {_X}, A = {_A} and a rate of {_rate}",
    )  # fmt: skip
biased.case(
    "many equal numbers: the first expert still counts as the best", np.round(numbers(8, 32, seed=18)),
    np.arange(32) % 2 / 8, 6, 0.25, want=_by_hand, what="eight tokens with numbers like 0, 1 and −1",
    advice='Use np.argsort with kind="stable". Other sorts and np.argpartition do not keep equal numbers in order.',
)  # fmt: skip
