"""Judges "Shapes, before you look" (chapter 01).

The shapes of four arrays of a run, from the sizes of the model alone.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_parts

from .traced import traced


def shapes(T: int, D: int, H: int, F: int, V: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of q, scores, neurons and logits."""
    K = D // H
    return (H, T, K), (H, T, T), (T, F), (T, V)


_PARTS = ("q", "scores", "neurons", "logits")
of_arrays = exercise("machine.shapes", shapes, parts=_PARTS)


def _shapes_of_a_run(*sizes: int) -> list[tuple[int, ...]]:
    seen = traced(*sizes)
    return [seen.arrays(name)[0].shape for name in _PARTS]


def _of_sizes(title: str, *sizes: int, want: list[tuple[int, ...]]) -> None:
    """The next check: the four shapes at these sizes. Of a shape that is too long it says so, not its shape's shape."""

    @of_arrays.check(title)
    def step(learner):
        got = expect_parts(learner(*sizes), _PARTS)
        call = f"shapes({', '.join(map(str, sizes))})"
        for part, one, right in zip(_PARTS, got, want, strict=True):
            what = f"{part} of {call}"
            axes = as_numbers(one, what)
            if axes.ndim == 1 and len(axes) != len(right):
                said = f"{what} should have {len(right)} axes; yours has {len(axes)}: {tuple(axes.tolist())}."
                raise Wrong(said, what=what, got=axes)
            expect(one, np.array(right), what)


_of_sizes(
    "the book's model reads the line",
    41, 128, 4, 344, 65, want=[(4, 41, 32), (4, 41, 41), (41, 344), (41, 65)],
)  # fmt: skip
_of_sizes(
    "GPT-2 small reads all it can",
    1024, 768, 12, 3072, 50_257, want=[(12, 1024, 64), (12, 1024, 1024), (1024, 3072), (1024, 50_257)],
)  # fmt: skip
_of_sizes(
    "with one head, the head has all of the width", 5, 8, 1, 32, 11, want=_shapes_of_a_run(5, 8, 1, 32, 11)
)
_of_sizes("a text of one token", 1, 12, 3, 7, 9, want=_shapes_of_a_run(1, 12, 3, 7, 9))
