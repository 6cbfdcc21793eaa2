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
from .weights import ATTENTION_WRITES, FEEDFORWARD_WRITES, block_weights, with_zeros

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


def _first_that(*tests):
    """Returns a wrong diagnosis: the name of the first test that is true, or "right"."""

    def wrong(block, x, weights, n_heads):
        for name, test in tests:
            if test(lambda w, x=x: np.asarray(block(x, w, n_heads)), x, weights):
                return name
        return "right"

    return wrong


_BUT_ONE = (*ATTENTION_WRITES, "feedforward.W_down.weight")
_ALL = (*ATTENTION_WRITES, *FEEDFORWARD_WRITES)


def _is_gone(run, x, weights):
    return np.allclose(run(with_zeros(weights, *_ALL)), 0)


def _is_changed(run, x, weights, silenced=_ALL):
    return not np.allclose(run(with_zeros(weights, *silenced)), x)


def _is_changed_by_a_bias(run, x, weights):
    return _is_changed(run, x, weights, _BUT_ONE)


def _grows(run, x, weights):
    return not np.allclose(run(weights, 100 * x), run(weights, 200 * x))


def _writes_more(run, x, weights):
    return not np.allclose(run(weights, x) - x, run(weights, 2 * x) - 2 * x)


_SILENT = ("no residual", _is_gone), ("post-norm", _is_changed)
clinic.mistake("always right", _first_that())
clinic.mistake("nothing written", _first_that(*_SILENT))
clinic.mistake("bias forgotten", _first_that(("no residual", _is_changed_by_a_bias)))
clinic.mistake("bias forgotten", _first_that(("post-norm", _is_changed_by_a_bias)))
clinic.mistake("all not right", lambda *args: diagnose(*args).replace("post-norm", "no residual"))
clinic.mistake("output grows", _first_that(*_SILENT, ("no norm", _grows)))
clinic.mistake("output grows", _first_that(*_SILENT, ("no norm", _writes_more)))
clinic.mistake("other name", lambda *args: diagnose(*args).replace(" ", "_"))
clinic.mistake("never parallel", lambda *args: diagnose(*args).replace("parallel", "right"))
clinic.mistake("number", lambda *args: list(KINDS).index(diagnose(*args)))
