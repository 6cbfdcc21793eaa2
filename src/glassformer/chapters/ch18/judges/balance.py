"""Judges "The loss that spreads the load" (chapter 18): X · Σ f · P, and its gradient.

Axes: N tokens, X experts, A chosen ones.
"""

from functools import partial

import numpy as np

from glassformer.chapters.ch09.judges.slopes import slopes_of, softmax_rows
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.experts import Router
from glassformer.shapes import Float, Integer


def balance_loss(
    p: Float[np.ndarray, "N X"], chosen: Integer[np.ndarray, "N A"]
) -> tuple[float, Float[np.ndarray, "N X"]]:
    """Returns X · Σ f · P of all experts, and its gradient with respect to p, in which f is a constant."""
    N, X = p.shape
    f = np.bincount(chosen.ravel(), minlength=X) / chosen.size
    P = p.mean(axis=0)
    return X * (f * P).sum(), np.tile(X * f / N, (N, 1))


balance = exercise(
    "experts.balance", balance_loss, built_on=(Router._balance,), parts=("loss", "grad"), axes=("", "N X")
)


def _loss(chosen, p):
    """Adds up what each choice meets: its expert's mean probability. Also for complex numbers."""
    own = chosen.ravel().tolist()
    return p.shape[1] * sum(sum(row[i] for row in p) for i in own) / len(own) / len(p)


def _by_slopes(p, chosen):
    """Nudges each probability, and leaves the choices as they are."""
    return float(_loss(chosen, p)), slopes_of(partial(_loss, chosen), [p])[0]


_even = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.4, 0.3, 0.2], [0.2, 0.1, 0.4, 0.3], [0.3, 0.2, 0.1, 0.4]])
balance.case(
    "all experts are used alike: the loss is 1",
    _even, np.array([[0], [1], [2], [3]]), part="loss", want=1.0, what="four tokens that use all experts alike",
)  # fmt: skip
_two = np.array([[0.7, 0.1, 0.1, 0.1], [0.5, 0.3, 0.1, 0.1]])
_same = np.array([[0], [0]])
_said = "two tokens that both choose expert 0"
balance.case("f = 1 and P = 0.6 for expert 0: 4 · 0.6", _two, _same, part="loss", want=2.4, what=_said)
balance.case(
    "f is constant, so each probability of expert 0 has the gradient 4 · 1 / 2",
    _two, _same, part="grad", want=[[2.0, 0, 0, 0]] * 2, what=_said,
)  # fmt: skip
balance.case(
    "two choices for each token: all of them count",
    _two, np.array([[0, 1], [0, 2]]), want=(1.5, [[1.0, 0.5, 0.5, 0]] * 2),
    what="two tokens that choose the experts 0, 1 and 0, 2",
)  # fmt: skip
for _title, _N, _X, _A in (
    ("any probabilities, one nudged after the other", 7, 5, 2),
    ("a single token", 1, 6, 3),
    ("every token chooses all experts: the loss is 1", 3, 4, 4),
):
    _p = softmax_rows(numbers(_N, _X, seed=18))
    balance.case(
        _title, _p, np.argsort(-_p, axis=1)[:, :_A], want=_by_slopes, what=f"N = {_N}, X = {_X} and A = {_A}"
    )
_p = softmax_rows(numbers(6, 5, seed=19))
balance.case(
    "nobody chooses the last expert, and a bias may have chosen others than the best",
    _p, np.array([[0, 3], [3, 1], [3, 0], [2, 3], [1, 0], [0, 3]]), want=_by_slopes,
    what="six tokens that do not choose expert 4",
)  # fmt: skip
balance.case(
    "each expert's probability is 1 where it is chosen: the loss is X if all tokens agree",
    np.eye(5)[[3, 3, 3]], np.array([[3]] * 3), part="loss", want=5.0, what="three tokens sure of expert 3",
)  # fmt: skip
