"""Attention whose keys and values serve twice: keys as values, and both in later layers."""

from typing import Any

import numpy as np

from glassformer.scratch.cache import BorrowedCache, KeyValueCache
from glassformer.scratch.layer import Saved, plus, save_for_backward
from glassformer.scratch.multi_head import MultiHeadAttention, Shared
from glassformer.scratch.norm import RMSNorm
from glassformer.shapes import Float, Integer


class _Lent:
    """Keys and values (..., G, S, K) that a layer lends, and the gradients that its borrowers return."""

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        self.keys, self.values = keys, values
        self.grad_keys: Any = None
        self.grad_values: Any = None

    def give_back(self, grad_keys: np.ndarray, grad_values: np.ndarray) -> None:
        """Adds the gradients of a borrower."""
        self.grad_keys = plus(self.grad_keys, grad_keys)
        self.grad_values = plus(self.grad_values, grad_values)


class KeyValueSharing(MultiHeadAttention):
    """Attention that lends its keys and values as those of its `kind` of layer, or borrows those of another kind.

    With `values="keys"`, the values are the keys before norm and rotation, so
    there is no `W_v`; with `norm_values`, each value is brought to a mean square of
    1. A layer that `borrows` has neither `W_k` nor `W_v`: it uses what the last
    layer of that kind has left in `shared`, and adds its gradients to theirs.
    Other arguments are those of `MultiHeadAttention`.

    Source: Sun et al. 2024, "You Only Cache Once"; Brandon et al. 2024, "Reducing
    Transformer Key-Value Cache Size with Cross-Layer Attention"; in this form in
    Gemma 3n and 4. Derived in chapter 16.
    """

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
        """Returns an empty cache, as `MultiHeadAttention.new_cache` does.

        Whoever borrows keeps nothing.
        """
        if self.borrows is not None:
            return BorrowedCache()
        return super().new_cache(batch_size, length, rewindable=rewindable)

    def _keys_and_values(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."],
        cache: KeyValueCache | None,
        shared: Shared | None,
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B G S K"], Float[np.ndarray, "*B G S K"]]:
        if self.borrows is not None:
            lent = (shared or {})[self.borrows]
            save_for_backward(saved, lent)
            return lent.keys, lent.values
        if self.values_are_keys:
            wide = self.W_k(x, saved)
            k = self._split(wide, self.norm_k, saved)
            v = self._split(wide, None, saved)
        else:
            k = self._heads(x, self.W_k, self.norm_k, saved)
            v = self._heads(x, self.W_v, None, saved)
        if self.norm_v is not None:
            v = self.norm_v(v, saved)
        k = self.position_encoding.rotate(k, position_ids, saved)
        k = self._norm_last(k, self.norm_k, saved)
        if cache is not None:
            k, v = cache.append(k, v)
        lent = _Lent(k, v)
        save_for_backward(saved, lent)
        if shared is not None:
            shared[self.kind] = lent
        return k, v

    def _keys_and_values_backward(
        self,
        grad_k: Float[np.ndarray, "*B G S K"],
        grad_v: Float[np.ndarray, "*B G S K"],
        saved: Saved,
    ) -> tuple[Float[np.ndarray, "*B T D"], ...]:
        (lent,) = saved.pop()
        if self.borrows is not None:
            lent.give_back(grad_k, grad_v)
            return ()
        if lent.grad_keys is not None:
            grad_k, grad_v = grad_k + lent.grad_keys, grad_v + lent.grad_values
        grad_k = self._norm_last_backward(grad_k, self.norm_k, saved)
        grad_k = self.position_encoding.rotate_backward(grad_k, saved)
        if self.norm_v is not None:
            grad_v = self.norm_v.backward(grad_v, saved)
        if not self.values_are_keys:
            from_v = self._heads_backward(grad_v, self.W_v, None, saved)
            from_k = self._heads_backward(grad_k, self.W_k, self.norm_k, saved)
            return from_k, from_v
        grad_wide = self._split_backward(grad_v, None, saved)
        grad_wide = grad_wide + self._split_backward(grad_k, self.norm_k, saved)
        return (self.W_k.backward(grad_wide, saved),)
