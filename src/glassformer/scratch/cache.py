"""The key–value cache: keeps the keys and values of past positions, so that each is computed only once.

Under a causal mask a position never sees what comes after it, so its keys and
values stay the same while the text grows, and only those of the new token have to
be computed.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from glassformer import _checks as checks
from glassformer.shapes import Float, Integer

PAIRS = 2**22
"""Pairs of a new position and one of the whole text, in a piece of a long text."""

LEAST = 128
"""The positions of a piece, at least."""


class KeyValueCache:
    """The keys and values of one attention layer, in arrays allocated once: (B, G, capacity, K) each.

    Values are as wide as keys unless `d_value` says otherwise.

    Derived in chapter 11.

    Raises:
        ValueError: a size is below 1, the appended arrays have another shape or
            do not fit, or it cannot go back to `length`.
    """

    def __init__(
        self,
        batch_size: int,
        n_kv_heads: int,
        capacity: int,
        d_head: int,
        *,
        d_value: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        d_value = d_head if d_value is None else d_value
        for name, size in (
            ("batch_size", batch_size),
            ("n_kv_heads", n_kv_heads),
            ("capacity", capacity),
            ("d_head", d_head),
            ("d_value", d_value),
        ):
            checks.whole(name, size)
        self.capacity = capacity
        rows = (batch_size, n_kv_heads, self._most(capacity))
        self.keys = np.zeros((*rows, d_head), dtype)
        self.values = np.zeros((*rows, d_value), dtype)
        self.reset()

    def reset(self) -> None:
        """Forgets everything, but keeps the arrays."""
        self.length = 0  # positions so far
        self.filled = 0  # those of them whose keys and values are in the arrays

    def _most(self, length: int) -> int:
        """Returns of how many positions it keeps keys and values, if the text has `length`."""
        return length

    def append(
        self, k: Float[np.ndarray, "B G T K"], v: Float[np.ndarray, "B G T U"]
    ) -> tuple[Float[np.ndarray, "B G S K"], Float[np.ndarray, "B G S U"]]:
        """Adds the keys and values of T new positions and returns those of all S so far (views, not copies)."""
        checks.fits_cache(k.shape, self.keys.shape, self.length, self.capacity)
        new = slice(self.length, self.length + k.shape[-2])
        self.keys[:, :, new], self.values[:, :, new] = k, v
        self.length = self.filled = new.stop
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def mark(self) -> None:
        """Does nothing, because what was read stays readable; a state makes a copy."""

    def check_rewind(self, length: int) -> None:
        """Checks that it can go back to where it had `length` positions."""
        checks.going_back(length, self.length)

    def rewind(self, length: int) -> None:
        """Forgets all positions but the first `length`."""
        self.check_rewind(length)
        self.filled -= self.length - length
        self.length = length

    def reorder(self, rows: Integer[np.ndarray, " B"]) -> None:
        """Replaces row i of the batch by the former row rows[i], as when a beam search drops one text for another."""
        filled = slice(0, self.filled)
        self.keys[:, :, filled] = self.keys[rows, :, filled]
        self.values[:, :, filled] = self.values[rows, :, filled]

    @property
    def nbytes(self) -> int:
        """Returns how much memory the arrays take, in bytes."""
        return self.keys.nbytes + self.values.nbytes


class WindowCache(KeyValueCache):
    """The keys and values that a window can still see: those of the last `window` − 1 positions.

    It keeps those of `rewindable` more, so that it can go back by as many. Other
    arguments are those of `KeyValueCache`.

    Source: Jiang et al. 2023, "Mistral 7B", section 2, "Rolling Buffer Cache".
    """

    def __init__(
        self, *sizes: int, window: int, rewindable: int = 0, **options: Any
    ) -> None:
        checks.whole("window", window)
        checks.whole("rewindable", rewindable, at_least=0)
        self.window, self.rewindable = window, rewindable
        super().__init__(*sizes, **options)

    def _most(self, length: int) -> int:
        return min(length, self.window - 1 + self.rewindable)

    def append(
        self, k: Float[np.ndarray, "B G T K"], v: Float[np.ndarray, "B G T U"]
    ) -> tuple[Float[np.ndarray, "B G S K"], Float[np.ndarray, "B G S U"]]:
        """Adds T new positions and returns what one of them can see: at most T + window − 1 keys and values."""
        checks.fits_cache(k.shape, self.keys.shape, self.length, self.capacity)
        seen = min(self.filled, self.window - 1) + k.shape[-2]
        k = np.concatenate([self.keys[:, :, : self.filled], k], axis=2)
        v = np.concatenate([self.values[:, :, : self.filled], v], axis=2)
        n = k.shape[2]
        self.length += n - self.filled
        self.filled = min(n, self.keys.shape[2])
        self.keys[:, :, : self.filled] = k[:, :, n - self.filled :]
        self.values[:, :, : self.filled] = v[:, :, n - self.filled :]
        return k[:, :, n - seen :], v[:, :, n - seen :]

    def check_rewind(self, length: int) -> None:
        """Checks that it goes back by at most `rewindable` positions, counted from the farthest that it has read."""
        gone_back = self._most(self.length) - self.filled
        checks.going_back(length, self.length, self.rewindable - gone_back)


class BorrowedCache(KeyValueCache):
    """What a layer keeps that borrows the keys and values of another: nothing."""

    nbytes = 0

    def __init__(self) -> None:
        pass

    def reset(self) -> None:
        """Does nothing."""

    def check_rewind(self, length: int) -> None:
        """Does nothing, because the lender can refuse it."""

    def rewind(self, length: int) -> None:
        """Does nothing."""

    def reorder(self, rows: Any) -> None:
        """Does nothing."""


class ModelCache:
    """The cache of every block of a decoder, and the positions it holds.

    If the decoder attends to an encoder's output, each block has a second cache
    for the keys and values of that output. It is filled when the output is first
    read, and never changes.

    Derived in chapter 11.
    """

    def __init__(self, blocks: list[KeyValueCache]) -> None:
        self.blocks = blocks
        self.reset()

    def reset(self) -> None:
        """Forgets everything, but keeps the arrays allocated for the decoder's own positions."""
        for block in self.blocks:
            block.reset()
        self.memory: list[KeyValueCache | None] = [None] * len(self.blocks)
        self.position_ids = None  # (S,) or (B, S)

    def mark(self) -> None:
        """Lets layers with a state copy it, so that `rewind` can come back to where it is now.

        Raises:
            ValueError: a state has no room for a copy; `new_cache` was not told
                `rewindable`.
        """
        for block in self.blocks:
            block.mark()

    def rewind(self, length: int) -> None:
        """Goes back to where it had `length` positions, as if the later ones had never been read.

        Layers that keep every position can go back as far as you like, those
        with a window by as many positions as `new_cache` was told, and those with
        a state only to the beginning or to the last `mark`.

        Raises:
            ValueError: it cannot go back so far, or never had so many; then
                nothing is changed.
        """
        for block in self.blocks:
            block.check_rewind(length)
        for block in self.blocks:
            block.rewind(length)
        if self.position_ids is not None:
            kept = self.position_ids[..., :length]
            self.position_ids = kept if length else None

    @property
    def length(self) -> int:
        """Returns how many positions it holds."""
        return self.blocks[0].length

    @property
    def capacity(self) -> int:
        """Returns how many positions there is room for."""
        return self.blocks[0].capacity

    @property
    def batch_size(self) -> int:
        """Returns for how many texts it was made."""
        return len(self.blocks[0].keys)

    @property
    def nbytes(self) -> int:
        """Returns its size in bytes: that of the blocks' arrays, and of those for the encoder's output."""
        return sum(
            cache.nbytes
            for cache in (*self.blocks, *self.memory)
            if cache is not None
        )

    @property
    def next_position(self) -> Integer[np.ndarray, "..."] | int:
        """Returns the next token's default position: one after the last, in every row."""
        return 0 if self.position_ids is None else self.position_ids[..., -1:] + 1

    def pieces(self, n_new: int) -> list[slice]:
        """Cuts so many new positions into pieces that a model reads one after the other.

        A piece has as many positions as keep the scores of one head to `PAIRS`,
        but at least `LEAST`. So what a long text needs beyond its cache hardly
        grows with it.
        """
        piece = max(LEAST, PAIRS // (self.length + n_new))
        starts = range(0, n_new, piece)
        return [slice(start, min(start + piece, n_new)) for start in starts]

    def place(
        self, position_ids: Integer[np.ndarray, "..."]
    ) -> Integer[np.ndarray, "..."]:
        """Adds the positions of T new tokens, (T,) or (B, T), and returns those of all S so far."""
        if self.position_ids is not None:
            # Positions (T,) apply to every row
            rows = np.broadcast_shapes(
                self.position_ids.shape[:-1], position_ids.shape[:-1]
            )
            past, new = (
                np.broadcast_to(p, (*rows, p.shape[-1]))
                for p in (self.position_ids, position_ids)
            )
            position_ids = np.concatenate([past, new], axis=-1)
        self.position_ids = position_ids
        return position_ids

    def of_block(
        self, i: int, block: Any, memory_length: int | None
    ) -> dict[str, KeyValueCache]:
        """Returns the caches of block i: `cache` and, for an encoder's output, `memory_cache`, made at first use."""
        found = {"cache": self.blocks[i]}
        if memory_length is not None:
            memory = self.memory[i]
            if memory is None:
                memory = self.memory[i] = block.cross_attention.new_cache(
                    self.batch_size, memory_length
                )
            found["memory_cache"] = memory
        return found

    def reorder(self, rows: ArrayLike) -> None:
        """Replaces row i of the batch by the former row rows[i], in every block.

        Raises:
            ValueError: an entry of `rows` is not a row of the batch, or `rows`
                does not have one entry per row.
            TypeError: `rows` is not integers.
        """
        rows = np.asarray(rows)
        checks.one_axis("rows", rows, length=self.batch_size)
        checks.indices("rows", rows, "batch_size", self.batch_size)
        for cache in (*self.blocks, *self.memory):
            if cache is not None:
                cache.reorder(rows)
        if self.position_ids is not None and self.position_ids.ndim == 2:
            self.position_ids = self.position_ids[rows]
