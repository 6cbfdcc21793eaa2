"""The key–value cache in PyTorch; `scratch.cache` says why there is one."""

from typing import Any

import torch
from jaxtyping import Float, Integer
from numpy.typing import ArrayLike
from torch import Tensor

from glassformer import _checks as checks

PAIRS = 2**22
"""Pairs of a new position and one of the whole text, in a piece of a long text."""

LEAST = 128
"""The positions of a piece, at least."""


class KeyValueCache:
    """As `scratch.KeyValueCache`, in PyTorch, on any device."""

    def __init__(
        self,
        batch_size: int,
        n_kv_heads: int,
        capacity: int,
        d_head: int,
        *,
        d_value: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
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
        like = {"dtype": dtype, "device": device}
        self.keys = torch.zeros((*rows, d_head), **like)
        self.values = torch.zeros((*rows, d_value), **like)
        self.reset()

    def reset(self) -> None:
        """Forgets everything, but keeps the arrays."""
        self.length = 0  # positions so far
        self.filled = 0  # those of them whose keys and values are in the arrays

    def _most(self, length: int) -> int:
        """Returns of how many positions it keeps keys and values, if the text has `length`."""
        return length

    def append(
        self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T U"]
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S U"]]:
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

    def reorder(self, rows: Integer[Tensor, " B"]) -> None:
        """Replaces row i of the batch by the former row rows[i], as when a beam search drops one text for another."""
        filled = slice(0, self.filled)
        self.keys[:, :, filled] = self.keys[rows, :, filled]
        self.values[:, :, filled] = self.values[rows, :, filled]

    @property
    def nbytes(self) -> int:
        """Returns how much memory the arrays take, in bytes."""
        return self.keys.nbytes + self.values.nbytes


class WindowCache(KeyValueCache):
    """As `scratch.WindowCache`, in PyTorch."""

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
        self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T U"]
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S U"]]:
        """Adds T new positions and returns what one of them can see: at most T + window − 1 keys and values."""
        checks.fits_cache(k.shape, self.keys.shape, self.length, self.capacity)
        seen = min(self.filled, self.window - 1) + k.shape[-2]
        k = torch.cat([self.keys[:, :, : self.filled], k], dim=2)
        v = torch.cat([self.values[:, :, : self.filled], v], dim=2)
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
    """As `scratch.ModelCache`, in PyTorch."""

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
        """As `scratch.ModelCache.mark`."""
        for block in self.blocks:
            block.mark()

    def rewind(self, length: int) -> None:
        """As `scratch.ModelCache.rewind`."""
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
    def next_position(self) -> Integer[Tensor, "..."] | int:
        """Returns the next token's default position: one after the last, in every row."""
        return 0 if self.position_ids is None else self.position_ids[..., -1:] + 1

    def pieces(self, n_new: int) -> list[slice]:
        """As `scratch.ModelCache.pieces`."""
        piece = max(LEAST, PAIRS // (self.length + n_new))
        starts = range(0, n_new, piece)
        return [slice(start, min(start + piece, n_new)) for start in starts]

    def place(
        self, position_ids: Integer[Tensor, "..."]
    ) -> Integer[Tensor, "..."]:
        """Adds the positions of T new tokens, (T,) or (B, T), and returns those of all S so far."""
        if self.position_ids is not None:
            # Positions (T,) apply to every row
            rows = torch.broadcast_shapes(
                self.position_ids.shape[:-1], position_ids.shape[:-1]
            )
            past, new = (
                p.expand(*rows, p.shape[-1])
                for p in (self.position_ids, position_ids)
            )
            position_ids = torch.cat([past, new], dim=-1)
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
        """As `scratch.ModelCache.reorder`."""
        rows = torch.as_tensor(rows, device=self.blocks[0].keys.device)
        checks.one_axis("rows", rows, length=self.batch_size)
        checks.indices("rows", rows, "batch_size", self.batch_size)
        for cache in (*self.blocks, *self.memory):
            if cache is not None:
                cache.reorder(rows)
        if self.position_ids is not None and self.position_ids.ndim == 2:
            self.position_ids = self.position_ids[rows]
