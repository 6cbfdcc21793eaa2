"""The cache of a layer with a state, which does not grow."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.cache import KeyValueCache
from glassformer.shapes import Float, Integer


class StateCache(KeyValueCache):
    """The state of every head, in `keys` (B, H, K, U), and the last inputs of a convolution, in `values` (B, N, E).

    Both stay as large as they are, however long the text. What has been written
    cannot be taken back, so going back takes a copy: `mark` makes one, if `rewindable`
    is above 0, and `rewind` can go back to where it was made. The copies count in
    `nbytes`.

    Derived in chapter 17.
    """

    def __init__(
        self,
        batch_size: int,
        capacity: int,
        *,
        state: tuple[int, int, int],
        inputs: tuple[int, int],
        rewindable: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("batch_size", batch_size)
        checks.whole("capacity", capacity)
        checks.whole("rewindable", rewindable, at_least=0)
        checks.state_sizes(state, inputs)
        self.capacity = capacity
        self.keys = np.zeros((batch_size, *state), dtype)
        rows: Any = (batch_size, *inputs)
        self.values = np.zeros(rows, dtype)
        self.copies: list[np.ndarray] = []
        if rewindable:
            self.copies = [self.keys.copy(), self.values.copy()]
        self.reset()

    def reset(self) -> None:
        """Forgets everything, but keeps the arrays."""
        self.length, self.marked = 0, None
        self.keys[:], self.values[:] = 0, 0

    def advance(
        self,
        state: Float[np.ndarray, "B H K U"],
        inputs: Float[np.ndarray, "B N E"],
        n_new: int = 1,
    ) -> None:
        """Replaces the state and the inputs by those after `n_new` more positions."""
        for name, new, old in (
            ("state", state, self.keys),
            ("inputs", inputs, self.values),
        ):
            checks.equal(
                f"{name}.shape",
                tuple(new.shape),
                "the cache's",
                tuple(old.shape),
            )
        checks.room_in_cache(n_new, self.length, self.capacity)
        self.keys[:], self.values[:] = state, inputs
        self.length += n_new

    def mark(self) -> None:
        """Copies the state, so that `rewind` can go back to it."""
        checks.markable(self.copies)
        for copy, array in zip(
            self.copies, (self.keys, self.values), strict=True
        ):
            copy[:] = array
        self.marked = self.length

    def check_rewind(self, length: int) -> None:
        """Checks that it can go back to where it had `length` positions: none, or as many as when it was marked."""
        checks.going_back_to_a_mark(length, self.length, self.marked)

    def rewind(self, length: int) -> None:
        """Goes back to the mark, or to the beginning."""
        self.check_rewind(length)
        if length == self.length:
            return
        if length == 0:
            self.reset()
            return
        self.keys[:], self.values[:] = self.copies
        self.length = length

    def reorder(self, rows: Integer[np.ndarray, " B"]) -> None:
        """Replaces row i of the batch by the former row rows[i], also in the copies."""
        for array in (self.keys, self.values, *self.copies):
            array[:] = array[rows]

    @property
    def nbytes(self) -> int:
        """Returns how much memory the arrays and their copies take, in bytes."""
        arrays = (self.keys, self.values, *self.copies)
        return sum(array.nbytes for array in arrays)
