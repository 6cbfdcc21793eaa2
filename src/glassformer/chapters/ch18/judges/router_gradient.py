"""Judges "Back through the router" (chapter 18): from the gradient of the weights to that of the scores.

Axes: N tokens, X experts, A chosen ones.
"""

from functools import partial

import numpy as np

from glassformer.chapters.ch09.judges.slopes import slopes_of, softmax_rows
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.scratch.experts import Router
from glassformer.shapes import Float, Integer


def router_backward(
    grad: Float[np.ndarray, "N A"],
    z: Float[np.ndarray, "N X"],
    chosen: Integer[np.ndarray, "N A"],
    renormalize: bool,
) -> Float[np.ndarray, "N X"]:
    """Maps the gradient of the weights of the chosen experts to that of all scores z."""
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    s = powers / powers.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(s, chosen, axis=-1)
    if renormalize:
        total = picked.sum(axis=-1, keepdims=True)
        along = (grad * picked / total).sum(axis=-1, keepdims=True)
        grad = (grad - along) / total
    grad_s = np.zeros(z.shape)
    np.put_along_axis(grad_s, chosen, grad, axis=-1)
    return s * (grad_s - (grad_s * s).sum(axis=-1, keepdims=True))


back = exercise("experts.router_gradient", router_backward, built_on=(Router.backward,), axes="N X")


def _weights(chosen, renormalize, z):
    """Computes the weights forward, also for complex scores."""
    s = softmax_rows(z)
    picked = s[np.arange(len(s))[:, None], chosen]
    return picked / picked.sum(axis=1, keepdims=True) if renormalize else picked


def _by_slopes(grad, z, chosen, renormalize):
    return slopes_of(partial(_weights, chosen, renormalize), [z], grad)[0]


_one, _own = np.log([[6.0, 1, 2, 1]]), np.array([[0, 2]])
_said = "one token with probabilities of 0.6, 0.1, 0.2, 0.1 and a gradient of [1, 0]"
back.case(
    "not renormalized: through the softmax, every score gets a gradient",
    np.array([[1.0, 0]]), _one, _own, False, want=[[0.24, -0.06, -0.12, -0.06]],
    what=f"{_said}, not renormalized",
)  # fmt: skip
back.case(
    "renormalized to ¾ and ¼: only the chosen scores get a gradient",
    np.array([[1.0, 0]]), _one, _own, True, want=[[0.1875, 0, -0.1875, 0]], what=f"{_said}, renormalized",
)  # fmt: skip
back.case(
    "a single expert, renormalized: its weight is always 1, so nothing can change it",
    np.array([[3.0], [5]]), np.log([[6.0, 1, 2], [1, 3, 9]]), np.array([[0], [2]]), True, want=np.zeros((2, 3)),
    what="two tokens with one expert each, renormalized",
)  # fmt: skip
back.case(
    "`chosen` says to which expert each gradient belongs",
    np.array([[1.0, 0], [0, 1]]), np.log([[1.0, 1, 2, 6], [2, 6, 1, 1]]), np.array([[3, 2], [1, 0]]), True,
    want=[[0, 0, -0.1875, 0.1875], [0.1875, -0.1875, 0, 0]], what="two tokens, renormalized",
)  # fmt: skip
back.case(
    "the chosen experts need not be the best: here, their probabilities are 0.1 and 0.2",
    np.array([[1.0, 0]]), _one, np.array([[1, 2]]), False, want=[[-0.06, 0.09, -0.02, -0.01]],
    what="the same token, with the chosen experts 1 and 2, not renormalized",
)  # fmt: skip
for _title, _N, _X, _A, _renormalize in (
    ("any scores, one nudged after the other: renormalized", 6, 5, 3, True),
    ("and not renormalized", 6, 5, 3, False),
    ("a single token with a single expert", 1, 4, 1, False),
    ("all experts are chosen", 3, 4, 4, True),
    ("", 3, 4, 4, False),
):
    _any = np.argsort(numbers(_N, _X, seed=20), axis=1)[:, :_A]
    back.case(
        _title, numbers(_N, _A, seed=19), numbers(_N, _X, seed=18), _any, _renormalize, want=_by_slopes,
        what=f"N = {_N}, X = {_X}, A = {_A}, {'' if _renormalize else 'not '}renormalized",
    )  # fmt: skip
back.case(
    "large scores", np.array([[1.0, 0]] * 2), np.concatenate([_one + 1000, _one - 1000]), np.repeat(_own, 2, axis=0),
    True, want=[[0.1875, 0, -0.1875, 0]] * 2, what="two tokens with scores near 1000 and −1000",
)  # fmt: skip


@back.check("the gradients of a token sum to 0: the same number added to all of its scores changes nothing")
def _(router_backward):
    z = numbers(8, 6, seed=20)
    got = router_backward(numbers(8, 2, seed=21), z, np.argsort(-z, axis=1)[:, :2], False)
    expect_shape(got, (8, 6), "the gradient for N = 8 and X = 6", axes="N X")
    expect(np.asarray(got).sum(axis=1), np.zeros(8), "the sum of each row of the gradient", axes="N")
