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


def _wrong_shapes(name, **changed):
    """One of the shapes is another; each is a function of T, D, H, F, V."""

    def answer(T, D, H, F, V):
        right = dict(zip(_PARTS, shapes(T, D, H, F, V), strict=True))
        return tuple((right | {part: shape(T, D, H, F, V) for part, shape in changed.items()}).values())

    of_arrays.mistake(name, answer)


_wrong_shapes("whole width", q=lambda T, D, H, F, V: (H, T, D))
_wrong_shapes("heads inside", q=lambda T, D, H, F, V: (T, H, D // H))
_wrong_shapes("heads swallowed", q=lambda T, D, H, F, V: (T, D))
_wrong_shapes("one for all heads", scores=lambda T, D, H, F, V: (T, T))
_wrong_shapes("token by feature", scores=lambda T, D, H, F, V: (H, T, D // H))
_wrong_shapes(
    "scores and neurons exchanged",
    scores=lambda T, D, H, F, V: (T, F),
    neurons=lambda T, D, H, F, V: (H, T, T),
)
_wrong_shapes("columns for tokens", neurons=lambda T, D, H, F, V: (F, T))
_wrong_shapes("true division", q=lambda T, D, H, F, V: (H, T, D / H))
_wrong_shapes("neurons in heads", neurons=lambda T, D, H, F, V: (H, T, F))
_wrong_shapes("not widened", neurons=lambda T, D, H, F, V: (T, D))
_wrong_shapes("last row alone", logits=lambda T, D, H, F, V: (V,))
_wrong_shapes("not unembedded", logits=lambda T, D, H, F, V: (T, D))
