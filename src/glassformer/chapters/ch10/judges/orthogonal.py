"""Judges "All directions equally long" (chapter 10).

Muon's matrix: the directions of a gradient, all about equally long.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def orthogonal(G: Float[np.ndarray, "N M"], iterations: int = 4) -> Float[np.ndarray, "N M"]:
    """The directions of G, all about equally long: so many rounds of a polynomial in X and X Xᵀ."""
    a, b, c = 3.4445, -4.7750, 2.0315
    X = G / np.linalg.norm(G)
    for _ in range(iterations):
        Z = X @ X.T
        X = a * X + (b * Z + c * Z @ Z) @ X
    return X


squared = exercise("training.orthogonal", orthogonal, axes="N M")


def _by_singular_values(G: np.ndarray, iterations: int) -> np.ndarray:
    """Each singular value by itself through the polynomial; the directions as they are."""
    U, S, Vt = np.linalg.svd(G, full_matrices=False)
    S = S / math.sqrt(math.fsum(S**2))
    for _ in range(iterations):
        S = 3.4445 * S - 4.7750 * S**3 + 2.0315 * S**5
    return U * S @ Vt


squared.case("one number: 3.4445 − 4.7750 + 2.0315", np.array([[5.0]]), 1, want=[[0.701]])
squared.case(
    "no rounds: divided by the length of the whole matrix", np.array([[3.0, 0.0], [0.0, 4.0]]), 0,
    want=[[0.6, 0.0], [0.0, 0.8]],
)  # fmt: skip
_G = np.array([[3.0, 0.0], [0.0, -4.0]])
squared.case("a diagonal, one round", _G, 1, want=_by_singular_values(_G, 1))
for _title, _shape, _rounds, _seed in (  # where float32 loses less than the seventh digit
    ("a wide matrix, two rounds", (3, 5), 2, 2),
    ("a tall one, four", (6, 2), 4, 19),
    ("a square one, five", (4, 4), 5, 23),
):
    _G = numbers(*_shape, seed=_seed)
    squared.case(_title, _G, _rounds, want=_by_singular_values(_G, _rounds))
_G = numbers(4, 6, seed=9) * 1e3
squared.case("the length of the gradient makes no difference", _G, want=_by_singular_values(_G, 4))
