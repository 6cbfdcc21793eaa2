"""Judges "Where were we?" (chapter 10): the state of a run is restored from a checkpoint."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect, expect_parts
from glassformer.exercises.material import Shared, numbers

from .small_gpt import Weights


def restore(arrays: Mapping[str, np.ndarray]) -> tuple[Weights, Weights, Weights, int]:
    """The weights, the means m and v, each by the weights' own names, and how many steps are done."""
    weights, m, v = (
        {name.removeprefix(start): a.copy() for name, a in arrays.items() if name.startswith(start)}
        for start in ("weights/", "m/", "v/")
    )
    return weights, m, v, int(arrays["step"])


restored = exercise("training.restore", restore)
_PARTS = ("weights", "m", "v")


def _kept(names: Sequence[str], step: int) -> Weights:
    drawn = {
        f"{part}/{name}": numbers(2, 3, seed=100 * i + k)
        for k, name in enumerate(names)
        for i, part in enumerate(_PARTS)
    }
    return drawn | {"step": np.array(step)}


def _restore_case(title: str, names: Sequence[str], step: int) -> None:
    arrays = _kept(names, step)

    @restored.check(title)
    def _(restore):
        *found, steps = expect_parts(restore(arrays), (*_PARTS, "the number of steps"))
        for part, value in zip(_PARTS, found, strict=True):
            want = {name: arrays[f"{part}/{name}"] for name in names}
            expect(value, want, f"{part} of restore(arrays)")
        expect(steps, step, "the number of steps of restore(arrays)")
        if isinstance(steps, np.ndarray | float):
            kind = type(steps).__name__
            raise Wrong(f"the number of steps should be a whole number, int(…); yours is {kind}.")


_restore_case("one weight", ("W",), 3)
_restore_case("names with dots and slashes of their own", ("decoder.norm.weight", "a/b", "m/W", "mm"), 12)
_restore_case("before the first step", ("W", "weights/W"), 0)


@restored.check("the restored arrays are copies of the file's arrays")
def _(restore):
    arrays = _kept(("W",), 3)
    given = Shared(arrays)
    found = restore(given)
    for part in found[:3]:
        with suppress(TypeError):  # a list has no numbers that others look at
            part["W"][...] = 99.0
    changed = any(bool((arrays[f"{part}/W"] == 99.0).any()) for part in _PARTS)
    expect(changed, False, "whether further training changes the file's arrays")
