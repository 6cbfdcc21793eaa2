"""Judges "A limited number of seats" (chapter 18): which choices are dropped if each expert has a capacity.

Axes: N tokens, A choices of each.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Bool, Integer


def dropped_choices(
    chosen: Integer[np.ndarray, "N A"], n_experts: int, factor: float
) -> Bool[np.ndarray, "N A"]:
    """Returns True for each choice that finds its expert full."""
    N, A = chosen.shape
    room = np.ceil(factor * N * A / n_experts)
    taken = np.zeros(n_experts, int)
    dropped = np.zeros((N, A), bool)
    for n in range(N):
        for a in range(A):
            expert = chosen[n, a]
            dropped[n, a] = taken[expert] >= room
            taken[expert] += 1
    return dropped


seats = exercise("experts.capacity", dropped_choices, axes="N A")


def _queues(chosen, n_experts, factor):
    """Lets the choices of each expert stand in a queue, and cuts it off."""
    room = math.ceil(factor * chosen.size / n_experts)
    queues: list[list[tuple[int, int]]] = [[] for _ in range(n_experts)]
    for token, row in enumerate(chosen.tolist()):
        for place, expert in enumerate(row):
            queues[expert].append((token, place))
    full = {pair for queue in queues for pair in queue[room:]}
    return np.array([[(n, a) in full for a in range(chosen.shape[1])] for n in range(len(chosen))])


def _drawn(N: int, X: int, A: int, seed: int = 0) -> np.ndarray:
    """Returns the A best of X scores, of which those of the first experts tend to be larger."""
    scores = numbers(N, X, seed=(18, seed)) - np.linspace(0, 2, X)
    return np.argsort(-scores, axis=1)[:, :A]


seats.case(
    "one choice each: six tokens, two experts, so three seats",
    np.array([[0], [1], [0], [0], [0], [1]]), 2, 1.0,
    want=[[False], [False], [False], [False], [True], [False]], what="six tokens with a factor of 1",
)  # fmt: skip
seats.case(
    "a fraction is rounded up: 1.25 · 5 · 1 / 3 = 2.08, so three seats",
    np.array([[2], [2], [2], [2], [0]]), 3, 1.25,
    want=[[False], [False], [False], [True], [False]], what="five tokens with a factor of 1.25",
)  # fmt: skip
seats.case(
    "only the result is rounded: 1.5 · 5 · 1 / 2 = 3.75, so four seats",
    np.array([[0]] * 5), 2, 1.5, want=[[False]] * 4 + [[True]], what="five tokens with a factor of 1.5",
)  # fmt: skip
seats.case(
    "two choices each: both need a seat, and tokens come in order",
    np.array([[0, 1], [1, 0], [2, 0], [0, 2]]), 4, 1.0,
    want=[[False, False], [False, False], [False, True], [True, False]],
    what="four tokens with two choices each",
)  # fmt: skip
seats.case(
    "room for all: nothing is dropped",
    np.array([[0, 1], [0, 2], [0, 1]]), 3, 2.0, want=[[False, False]] * 3,
    what="three tokens with a factor of 2",
)  # fmt: skip
for _title, _N, _X, _A, _factor in (
    ("many tokens", 40, 7, 2, 1.0),
    ("", 40, 7, 2, 1.5),
    ("", 40, 7, 2, 0.25),
    ("", 1, 9, 4, 0.5),
    ("every token chooses all experts, and half of them fit", 10, 4, 4, 0.5),
):
    seats.case(
        _title, _drawn(_N, _X, _A), _X, _factor, want=_queues,
        what=f"N = {_N}, X = {_X}, A = {_A} and a factor of {_factor}",
    )  # fmt: skip
seats.also(_drawn(40, 7, 2, seed=1), 7, 1.0, want=_queues, what="forty other tokens")
