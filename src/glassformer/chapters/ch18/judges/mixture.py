"""Judges "Each expert, with its own tokens" (chapter 18): the weighted sum of what the chosen experts return.

Axes: N tokens, D features, A chosen experts.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect
from glassformer.exercises.material import numbers
from glassformer.scratch.experts import Experts
from glassformer.shapes import Float, Integer


def mixture(
    x: Float[np.ndarray, "N D"],
    chosen: Integer[np.ndarray, "N A"],
    weights: Float[np.ndarray, "N A"],
    experts: Sequence[Callable],
) -> Float[np.ndarray, "N D"]:
    """Returns the sum of the chosen experts' outputs, times their weights; each expert is called at most once."""
    y = np.zeros(x.shape)
    for i, expert in enumerate(experts):
        tokens, places = np.nonzero(chosen == i)
        if len(tokens):
            weight = weights[tokens, places, None]
            y[tokens] += weight * expert(x[tokens])
    return y


mixed = exercise("experts.mixture", mixture, built_on=(Experts.forward,), axes="N D")


def _drawn(N: int, D: int, X: int, A: int, unused: int = 0) -> tuple:
    """Returns arguments; nobody chooses the last `unused` experts. The last value collects the rows of each call."""
    read: list[int] = []

    def expert(rows, W):
        rows = as_numbers(rows, "what you gave to an expert")
        read.append(rows.size // len(W))
        return np.tanh(rows @ W) + W[0]

    experts = [partial(expert, W=W) for W in numbers(X, D, D, seed=(18, 2))]
    chosen = np.argsort(numbers(N, X - unused, seed=(18, 0)), axis=1)[:, :A]
    return numbers(N, D, seed=(18, 3)), chosen, abs(numbers(N, A, seed=(18, 1))), experts, read


def _token_by_token(x, chosen, weights, experts):
    return np.array([
        sum(w * experts[i](row[None])[0] for i, w in zip(own, shares, strict=True))
        for row, own, shares in zip(x, chosen, weights, strict=True)
    ])  # fmt: skip


_EASY = [lambda rows: 10 * rows, lambda rows: rows + 100, lambda rows: rows**2, lambda rows: -rows]
_x = np.array([[1.0, 2], [3, 4], [5, 6]])
mixed.case(
    "one expert for each token, with a weight of ½",
    _x, np.array([[2], [0], [2]]), np.full((3, 1), 0.5), _EASY, want=[[0.5, 2], [15, 20], [12.5, 18]],
    what="y for three tokens with one expert each",
)  # fmt: skip
mixed.case(
    "two experts for each token: their results add up, each times its weight",
    _x, np.array([[2, 0], [0, 1], [1, 2]]), np.array([[0.75, 0.25], [0.5, 0.25], [0.25, 0.5]]), _EASY,
    want=[[3.25, 8], [40.75, 46], [38.75, 44.5]], what="y for three tokens with two experts each",
)  # fmt: skip
for _title, *_sizes in (
    ("any experts", 9, 3, 5, 2),
    ("a single token", 1, 3, 4, 2),
    ("every token has chosen all experts", 5, 2, 3, 3),
    ("some experts that nobody has chosen", 6, 4, 7, 3, 3),
):
    _call = "y for N = {}, D = {}, X = {} and A = {}".format(*_sizes)
    mixed.case(_title, *_drawn(*_sizes)[:4], want=_token_by_token, what=_call)


@mixed.check("each expert is called once, with its own tokens and no others")
def _(mixture):
    *given, read = _drawn(12, 3, 5, 2, 1)
    want = _token_by_token(*given)
    read.clear()
    expect(mixture(*given), want, "y for N = 12, D = 3, X = 5 and A = 2", axes="N D")
    if sum(read) > 24:
        said = f"your experts worked on {sum(read)} rows. 12 tokens have chosen 2 each, so 24 are enough."
        raise Wrong(said, what="rows", got=True)
    if len(read) > 5:
        said = f"you called 5 experts {len(read)} times. Once each is enough."
        advice = "Collect the tokens of an expert from all A places before you call it."
        raise Wrong(said, advice=advice, what="calls", got=max(read) == 1)


@mixed.mistake("all tokens")
def _(x, chosen, weights, experts):
    return sum((weights * (chosen == i)).sum(axis=1, keepdims=True) * f(x) for i, f in enumerate(experts))


mixed.mistake("one by one", _token_by_token)
