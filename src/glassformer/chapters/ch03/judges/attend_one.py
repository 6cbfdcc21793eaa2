"""Judges "One query" (chapter 03): one query's weights, and the average of the values with them.

Axes: S positions answering, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float

from .by_hand import attended
from .scores import scores


def attend_one(
    query: Float[np.ndarray, " K"], keys: Float[np.ndarray, "S K"], values: Float[np.ndarray, "S N"]
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " N"]]:
    """Computes the weights that one query gives to the keys, and the average of the values with these weights."""
    weights = softmax(scores(query, keys))
    return weights, weights @ values


single = exercise("attention.attend_one", attend_one, parts=("weights", "output"), axes=("S", "N"))

_k, _v = numbers(4, 2), numbers(4, 3, seed=1)
single.case(
    "a query of zeros prefers no key, so the output is the average of all values",
    np.zeros(2), _k, _v, want=([0.25] * 4, [math.fsum(column) / 4 for column in _v.T]), being="",
)  # fmt: skip
_apart = math.log(3)
single.case(
    "a key whose score is higher by ln 3 gets three times the weight",
    np.array([2 * _apart, 0, 0, 0]), np.array([[1.0, 0, 0, 0], [0, 1, 0, 0]]), np.array([[8.0, 0], [0, 4.0]]),
    want=([0.75, 0.25], [6.0, 1.0]),
)  # fmt: skip
_q, _k, _v = numbers(3), numbers(5, 3, seed=1), numbers(5, 3, seed=2)
_o, _w = attended([_q], _k, _v)
single.case("random vectors", _q, _k, _v, want=(_w[0], _o[0]))
_q, _k, _v = numbers(2), numbers(1, 2, seed=1), numbers(1, 4, seed=2)
single.case("a single key gets all the weight", _q, _k, _v, want=([1.0], _v[0]))


single.slip("no exp", softmax=lambda x: x / x.sum())
single.slip("winner", softmax=lambda x: np.eye(len(x))[x.argmax()])
