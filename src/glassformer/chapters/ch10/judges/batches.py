"""Judges "Batches" (chapter 10): endless batches of windows that begin anywhere in the text.

Axes: B texts of a batch, T positions.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect, expect_parts, expect_shape
from glassformer.shapes import Integer

Batch = tuple[Integer[np.ndarray, "B T"], Integer[np.ndarray, "B T"]]


def batches(
    ids: Integer[np.ndarray, " N"], size: int, length: int, generator: np.random.Generator
) -> Iterator[Batch]:
    """Endless batches: inputs and targets, (size, length) each, of windows that begin anywhere in the text."""
    while True:
        starts = generator.integers(len(ids) - length, size=size)
        windows = ids[starts[:, None] + np.arange(length + 1)]
        yield windows[:, :-1], windows[:, 1:]


batched = exercise("training.batches", batches)


def _drawn(learner: Callable, n: int, *args: Any, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns n batches as arrays, or raises `Wrong`."""
    found = learner(*args, np.random.default_rng(seed))
    if not isinstance(found, Iterable) or isinstance(found, tuple | np.ndarray):
        raise Wrong("batches(…) should be a generator that keeps yielding pairs of inputs and targets.")
    drawn = []
    try:
        for pair in islice(found, n):
            inputs, targets = expect_parts(pair, ("inputs", "targets"))
            drawn.append((np.asarray(inputs), np.asarray(targets)))
    except (IndexError, ValueError) as error:  # ids that are not there, or a window that is shorter
        said = f"batches(…) raised {type(error).__name__}: {error}."
        asked = "Does a window run past the end of the text? It needs length + 1 ids."
        raise Wrong(f"{said} {asked}", what=type(error).__name__, got=0) from error
    if len(drawn) < n:
        said = f"batches(…) ended after {len(drawn)} batches; it should go on for as long as it is asked for more."
        raise Wrong(said, what="how many batches come", got=len(drawn))
    return drawn


_COUNTED = np.arange(200)  # the id of a place is its number


@batched.check("inputs and targets, (size, length) each")
def _(batches):
    for name, one in zip(("inputs", "targets"), _drawn(batches, 1, _COUNTED, 3, 5)[0], strict=True):
        expect_shape(one, (3, 5), f"the {name} of a batch of 3 windows of 5", axes="B T")


@batched.check("a window is a piece of the text with its ids in order")
def _(batches):
    inputs, _ = _drawn(batches, 1, _COUNTED, 4, 6)[0]
    what = "how far apart, in positions, neighbours in a window are"
    expect(np.diff(inputs, axis=1), np.ones((4, 5), int), what)


@batched.check("the target is the next id")
def _(batches):
    inputs, targets = _drawn(batches, 1, _COUNTED, 4, 6)[0]
    what = "how far ahead of the inputs, in positions, the targets are"
    expect(targets - inputs, np.ones((4, 6), int), what)


@batched.check("the generator never ends")
def _(batches):
    _drawn(batches, 12, _COUNTED, 2, 3)


def _starts(batches: Callable) -> list[int]:
    """Returns where 600 windows of 6 begin in a text of 9 ids."""
    return [int(start) for inputs, _ in _drawn(batches, 150, np.arange(9), 4, 6) for start in inputs[:, 0]]


@batched.check("a window can begin at every position, including the first and the last")
def _(batches):
    starts = _starts(batches)
    expect(sorted(set(starts)), [0, 1, 2], "where windows of 6 begin in a text of 9 ids, in 150 batches,")


@batched.check("and at all positions equally often")
def _(batches):
    counts = np.bincount(_starts(batches), minlength=3)
    what = "whether 600 windows of 6 in a text of 9 ids begin about 200 times at each of its three positions"
    expect(bool((abs(counts - 200) < 60).all()), True, what)  # five standard deviations


@batched.check("the windows of a batch begin at different positions")
def _(batches):
    inputs, _ = _drawn(batches, 1, np.arange(5000), 32, 4)[0]
    few = len(set(inputs[:, 0].tolist())) <= 16
    expect(few, False, "whether many of 32 windows begin at the same position")


@batched.check("the generator decides: the same seed gives the same batches, a different seed different ones")
def _(batches):
    text = np.arange(5000)
    one, again, other = (_drawn(batches, 2, text, 4, 3, seed=seed)[1][0][:, 0] for seed in (5, 5, 6))
    expect(bool((one == again).all()), True, "whether the same seed gives the same batches")
    expect(bool((one == other).all()), False, "whether another seed gives the same batches")
    first, second = (inputs[:, 0] for inputs, _ in _drawn(batches, 2, text, 4, 3))
    expect(bool((first == second).all()), False, "whether the second batch is the first again")
