"""Changes a reader's weights for a while, because at their first values much of a design does not show.

Fresh weights are small, and some designs let what a block adds begin at 0 (ReZero, LayerScale, a table of positions of
zeros). What attention contributes may then be less than single precision rounds. A design that is right is right with
any weights, so what is not seen at the first ones is looked for at others.
"""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong

from ..adapter import GPT
from .texts import learn, windows_of
from .trained import trained_arrays

STEPS = 20  # of training, where `weights` shows nothing that can be changed
FAR = 1e-2  # relative: by at least so much loud weights change what is computed


@contextlib.contextmanager
def loud_weights(gpt: GPT, run: Callable[[], np.ndarray], biases: bool = True) -> Iterator[bool]:
    """Makes the reader's weights so large that each part of a block counts, and changes them back.

    A matrix gets random numbers that keep a vector's length, a gain or a bias some tenths more or less. Where `weights`
    shows none that can be changed, the model is trained a little instead. A design that computes with copies of its
    weights, such as joined matrices, notices nothing, and keeps those that it has.

    Args:
        gpt: the reader's design.
        run: computes what has to change; if it does not, the arrays are copies.
        biases: whether what is called a bias changes, too: a loud one may prefer the same id after every text.

    Yields:
        whether it has changed, and is made of numbers.
    """

    def put_back() -> None:
        for one, numbers in zip(arrays, kept, strict=True):
            one[...] = numbers

    rng, before = np.random.default_rng(6), run()
    arrays = [one for name, one in trained_arrays(gpt).items() if biases or "bias" not in name]
    kept = [one.copy() for one in arrays]
    try:
        for one in arrays:
            if one.ndim > 1:
                more = rng.normal(size=one.shape) / np.sqrt(sorted(one.shape)[-2])
            else:
                more = rng.choice([-1, 1], size=one.shape) * rng.uniform(0.2, 0.5, size=one.shape)
            one[...] += more.astype(one.dtype)
        if not arrays and gpt.has("learn"):
            with contextlib.suppress(Wrong, NotAttempted):  # the stage of training tells
                for windows in windows_of(gpt, STEPS, 12, 2):
                    learn(gpt, windows)
        changed = _has_changed(run, before)
        if not changed:
            put_back()
        yield changed
    finally:
        put_back()


def also_loud(gpt: GPT, run: Callable[[], np.ndarray], check: Callable[[], None]) -> None:
    """Checks something with the weights as they are and, because what a block adds may start at 0, with loud ones."""
    check()
    with loud_weights(gpt, run) as changed:
        if changed:
            check()


def _has_changed(run: Callable[[], np.ndarray], before: np.ndarray) -> bool:
    try:
        now = run()
    except Wrong:
        return False
    if now.shape != before.shape or not np.isfinite(now).all():
        return False
    return bool(np.abs(now - before).max() > FAR * max(np.abs(now).max(), 1e-30))
