"""Judges "What is wrong with it?" (chapter 07): a test that recognises five blocks by their outputs.

Axes: T positions, D d_model.
"""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import Weights, numbers
from glassformer.shapes import Float

from .block import block, whole
from .post_block import post_block
from .weights import block_weights

KINDS = {
    "right": block,
    "no residual": whole.wrong("replaced"),
    "post-norm": post_block,
    "no norm": whole.wrong("unnormed"),
    "parallel": whole.wrong("old x"),
}
"""The blocks that `diagnose` may be given, and what it should say of them."""


def diagnose(
    block: Callable[..., np.ndarray], x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int
) -> str:
    """Returns which of five blocks it is, from its output for weights and streams of our choice."""
    D = x.shape[1]
    zeros = {name: np.zeros_like(value) for name, value in weights.items()}
    silent = zeros | {f"{name}.weight": np.ones(D) for name in ("norm_attention", "norm_feedforward")}
    out = block(x, silent, n_heads)
    if not np.allclose(out, x):
        return "no residual" if np.allclose(out, 0) else "post-norm"
    attends = {name: weights[name] for name in weights if name.startswith(("attention", "norm"))}
    written = [block(by * x, silent | attends, n_heads) - by * x for by in (100, 200)]
    if not np.allclose(*written, rtol=1e-3, atol=1e-3):
        return "no norm"
    feeds = {name: weights[name] for name in weights if name.startswith(("feedforward", "norm"))}
    apart = [block(x, silent | some, n_heads) - x for some in (attends, feeds)]
    return "parallel" if np.allclose(block(x, weights, n_heads) - x, sum(apart)) else "right"


clinic = exercise("block.diagnose", diagnose)


for _kind, _block in KINDS.items():
    clinic.case(
        f"a block of kind {_kind!r}",
        _block, numbers(5, 6, seed=6), block_weights(6, 10, seed=9), 2,
        want=_kind, what=f"`diagnose` for a block of kind {_kind!r}",
    )  # fmt: skip
    clinic.also(
        _block, numbers(3, 8, seed=8), block_weights(8, 12, seed=9), 4,
        want=_kind, what=f"`diagnose` for a block of kind {_kind!r}",
    )  # fmt: skip


clinic.mistake("other name", lambda *args: diagnose(*args).replace(" ", "_"))
clinic.mistake("number", lambda *args: list(KINDS).index(diagnose(*args)))
