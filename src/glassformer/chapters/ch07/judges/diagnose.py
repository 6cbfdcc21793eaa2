"""Judges "What is wrong with it?" (chapter 07): a test that recognises five blocks by their outputs.

Axes: T positions, D d_model.
"""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import Weights, numbers
from glassformer.shapes import Float

from .parts import as_it_is, normed_after, put_together, replaced, side_by_side, unnormed
from .weights import ATTENTION_WRITES, FEEDFORWARD_WRITES, block_weights, with_zeros

KINDS = {
    "right": as_it_is,
    "no residual": replaced,
    "post-norm": normed_after,
    "no norm": unnormed(False, False),
    "parallel": side_by_side,
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


def _patients(kind: str) -> None:
    """Adds a check: this kind of block is recognised, in two sizes."""

    @clinic.check(f"a block of kind {kind!r}")
    def _(diagnose):
        for T, D, F, n_heads in ((5, 6, 10, 2), (3, 8, 12, 4)):
            said = diagnose(
                put_together(KINDS[kind]), numbers(T, D, seed=D), block_weights(D, F, seed=9), n_heads
            )
            expect(said, kind, f"`diagnose` for a block of kind {kind!r}")


for _kind in KINDS:
    _patients(_kind)


def _first_that(*tests):
    """Returns a wrong diagnosis: the name of the first test that is true, or "right"."""

    def wrong(block, x, weights, n_heads):
        for name, test in tests:
            if test(lambda w, x=x: np.asarray(block(x, w, n_heads)), x, weights):
                return name
        return "right"

    return wrong


def _silent(weights, *, but=()):
    names = [n for n in (*ATTENTION_WRITES, *FEEDFORWARD_WRITES) if n not in but]
    return with_zeros(weights, *names)


def _is_gone(run, x, weights):
    return np.allclose(run(_silent(weights)), 0)


def _is_changed(run, x, weights):
    return not np.allclose(run(_silent(weights)), x)


clinic.mistake("always right", _first_that())
clinic.mistake("nothing written", _first_that(("no residual", _is_gone), ("post-norm", _is_changed)))
clinic.mistake(
    "bias forgotten",
    _first_that(
        (
            "no residual",
            lambda run, x, w: not np.allclose(run(_silent(w, but=("feedforward.W_down.bias",))), x),
        ),
    ),
)
clinic.mistake(
    "bias forgotten",
    _first_that(
        (
            "post-norm",
            lambda run, x, w: not np.allclose(run(_silent(w, but=("feedforward.W_down.bias",))), x),
        ),
    ),
)
clinic.mistake("all not right", lambda *args: diagnose(*args).replace("post-norm", "no residual"))
clinic.mistake(
    "output grows",
    _first_that(
        ("no residual", _is_gone),
        ("post-norm", _is_changed),
        ("no norm", lambda run, x, w: not np.allclose(run(w, 100 * x), run(w, 200 * x))),
    ),
)
clinic.mistake(
    "output grows",
    _first_that(
        ("no residual", _is_gone),
        ("post-norm", _is_changed),
        ("no norm", lambda run, x, w: not np.allclose(run(w, x) - x, run(w, 2 * x) - 2 * x)),
    ),
)
clinic.mistake("other name", lambda *args: diagnose(*args).replace(" ", "_"))
clinic.mistake("never parallel", lambda *args: diagnose(*args).replace("parallel", "right"))
clinic.mistake("number", lambda *args: list(KINDS).index(diagnose(*args)))
