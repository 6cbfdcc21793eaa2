"""The key–value cache in PyTorch; `scratch.cache` says why there is one."""

import torch
from jaxtyping import Float, Integer
from numpy.typing import ArrayLike
from torch import Tensor

from glassformer import _checks as checks


class KeyValueCache:
    """As `scratch.KeyValueCache`, in PyTorch, on any device."""

    def __init__(
        self,
        batch_size: int,
        n_kv_heads: int,
        capacity: int,
        d_head: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        for name, size in (
            ("batch_size", batch_size),
            ("n_kv_heads", n_kv_heads),
            ("capacity", capacity),
            ("d_head", d_head),
        ):
            checks.whole(name, size)
        self.capacity, self.length = capacity, 0
        shape = (batch_size, n_kv_heads, capacity, d_head)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)

    def append(
        self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T K"]
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Adds the keys and values of T new positions and returns those of all S so far (views, not copies)."""
        checks.room_in_cache(k.shape, self.keys.shape, self.length)
        new = slice(self.length, self.length + k.shape[-2])
        self.keys[:, :, new], self.values[:, :, new] = k, v
        self.length = new.stop
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reorder(self, rows: Integer[Tensor, " B"]) -> None:
        """Replaces row i of the batch by the former row rows[i], as when a beam search drops one text for another."""
        filled = slice(0, self.length)
        self.keys[:, :, filled] = self.keys[rows, :, filled]
        self.values[:, :, filled] = self.values[rows, :, filled]

    @property
    def nbytes(self) -> int:
        """Returns how much memory the arrays take, in bytes."""
        return self.keys.nbytes + self.values.nbytes


class ModelCache:
    """As `scratch.ModelCache`, in PyTorch."""

    def __init__(self, blocks: list[KeyValueCache]) -> None:
        self.blocks = blocks
        self.reset()

    def reset(self) -> None:
        """Forgets everything, but keeps the arrays allocated for the decoder's own positions."""
        for block in self.blocks:
            block.length = 0
        self.memory: list[KeyValueCache | None] = [None] * len(self.blocks)
        self.position_ids = None  # (S,) or (B, S)

    @property
    def length(self) -> int:
        """Returns how many positions are cached."""
        return self.blocks[0].length

    @property
    def capacity(self) -> int:
        """Returns how many positions there is room for."""
        return self.blocks[0].capacity

    @property
    def nbytes(self) -> int:
        """Returns its size in bytes: 2 · n_layers · B · G · capacity · K numbers, plus the encoder's output."""
        return sum(
            cache.nbytes
            for cache in (*self.blocks, *self.memory)
            if cache is not None
        )

    @property
    def next_position(self) -> Integer[Tensor, "..."] | int:
        """Returns the next token's default position: one after the last, in every row."""
        return 0 if self.position_ids is None else self.position_ids[..., -1:] + 1

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
        self, block: int, memory_length: int | None
    ) -> dict[str, KeyValueCache]:
        """Returns the caches of one block: `cache` and, for an encoder's output, `memory_cache`."""
        found = {"cache": self.blocks[block]}
        if memory_length is not None:
            found["memory_cache"] = self._of_memory(block, memory_length)
        return found

    def _of_memory(self, block: int, length: int) -> KeyValueCache:
        cache = self.memory[block]
        if cache is None:
            batch_size, n_kv_heads, _, d_head = self.blocks[block].keys.shape
            like = {
                "dtype": self.blocks[block].keys.dtype,
                "device": self.blocks[block].keys.device,
            }
            cache = self.memory[block] = KeyValueCache(
                batch_size, n_kv_heads, length, d_head, **like
            )
        return cache

    def reorder(self, rows: ArrayLike) -> None:
        """As `scratch.ModelCache.reorder`."""
        rows = torch.as_tensor(rows, device=self.blocks[0].keys.device)
        batch_size = len(self.blocks[0].keys)
        checks.one_axis("rows", rows, length=batch_size)
        checks.indices("rows", rows, "batch_size", batch_size)
        for cache in (*self.blocks, *self.memory):
            if cache is not None:
                cache.reorder(rows)
        if self.position_ids is not None and self.position_ids.ndim == 2:
            self.position_ids = self.position_ids[rows]
