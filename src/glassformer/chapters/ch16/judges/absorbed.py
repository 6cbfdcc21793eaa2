"""Judges "Scores without keys" (chapter 16): queries that can be compared with the latents themselves.

Axes: H heads, T positions asking, S positions answering, N features of a head, R the latent.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers, product_by_hand
from glassformer.shapes import Float


def absorb(q: Float[np.ndarray, "H T N"], W: Float[np.ndarray, "R HN"]) -> Float[np.ndarray, "H T R"]:
    """Multiplies each head's queries by what makes its keys of the latents, transposed."""
    H, _, N = q.shape
    parts = W.reshape(len(W), H, N)
    return q @ parts.transpose(1, 2, 0)  # each head's (T, N) times (N, R)


absorbed = exercise("long.absorbed", absorb, axes="H T R")

absorbed.case(
    "one head: q · (c W) is (q Wᵀ) · c",
    np.array([[[1.0, 10.0]]]), np.array([[1.0, 2.0], [3.0, 4.0]]), want=[[[21.0, 43.0]]],
    what="absorb of a query [1, 10] and W = [[1, 2], [3, 4]]",
)  # fmt: skip
absorbed.case(
    "two heads, each with its own columns",
    np.array([[[1.0, 10.0]], [[10.0, 1.0]]]), np.array([[1.0, 2, 3, 4], [5.0, 6, 7, 8], [0.0, 1, 0, 2]]),
    want=[[[21.0, 65.0, 10.0]], [[34.0, 78.0, 2.0]]], what="absorb for two heads, N = 2 and R = 3",
)  # fmt: skip
for _title, _H, _T, _N, _R in (
    ("compared with latents, they score as queries score the expanded keys", 3, 4, 2, 5),
    ("a head as wide as the latent", 2, 3, 4, 4),
    ("a head wider than the latent", 2, 1, 6, 5),
):

    @absorbed.check(_title)
    def _(absorb, H=_H, T=_T, N=_N, R=_R):
        q, W, c = numbers(H, T, N), numbers(R, H * N, seed=1), numbers(7, R, seed=2)
        what = f"absorb(q, W) for H = {H}, T = {T}, N = {N} and R = {R}"
        got = absorb(q, W)
        expect_shape(got, (H, T, R), what, axes="H T R")
        keys = product_by_hand(c, W)
        scores = [product_by_hand(q[h], keys[:, h * N : (h + 1) * N].T) for h in range(H)]
        expect(np.asarray(got) @ c.T, scores, f"{what}, times cᵀ,", axes="H T S")
