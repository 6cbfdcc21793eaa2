"""Attention whose keys and values serve twice, in PyTorch."""

from typing import Any

from jaxtyping import Float, Integer
from torch import Tensor

from glassformer.nn.cache import BorrowedCache, KeyValueCache
from glassformer.nn.multi_head import MultiHeadAttention, Shared
from glassformer.nn.norm import RMSNorm


class KeyValueSharing(MultiHeadAttention):
    """As `scratch.KeyValueSharing`, in PyTorch."""

    W_k: Any
    W_v: Any
    norm_k: Any

    def __init__(
        self,
        *inputs: Any,
        kind: str = "all",
        values: str = "own",
        norm_values: bool = False,
        borrows: str | None = None,
        norm_eps: float = 1e-5,
        **options: Any,
    ) -> None:
        super().__init__(*inputs, norm_eps=norm_eps, **options)
        self.kind, self.borrows = kind, borrows
        self.values_are_keys = values == "keys"
        if self.values_are_keys or borrows is not None:
            self.W_v = None
        if borrows is not None:
            self.W_k = self.norm_k = None
        self.norm_v = None
        if norm_values and borrows is None:
            self.norm_v = RMSNorm(self.d_head, eps=norm_eps, gain=False)

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> KeyValueCache:
        """As `scratch.KeyValueSharing.new_cache`."""
        if self.borrows is not None:
            return BorrowedCache()
        return super().new_cache(batch_size, length, rewindable=rewindable)

    def _keys_and_values(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."],
        cache: KeyValueCache | None,
        shared: Shared | None,
    ) -> tuple[Float[Tensor, "*B G S K"], Float[Tensor, "*B G S K"]]:
        if self.borrows is not None:
            return (shared or {})[self.borrows]
        if self.values_are_keys:
            wide = self.W_k(x)
            k, v = self._split(wide, self.norm_k), self._split(wide, None)
        else:
            k = self._heads(x, self.W_k, self.norm_k)
            v = self._heads(x, self.W_v, None)
        if self.norm_v is not None:
            v = self.norm_v(v)
        k = self.position_encoding.rotate(k, position_ids)
        k = self._norm_last(k, self.norm_k)
        if cache is not None:
            k, v = cache.append(k, v)
        if shared is not None:
            shared[self.kind] = k, v
        return k, v
