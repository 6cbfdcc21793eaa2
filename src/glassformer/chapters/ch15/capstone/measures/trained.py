"""Tells which of the arrays that `weights` returns are to be trained.

A mask or a table of sinusoids is not, nor is a buffer of PyTorch's. Whoever returns a `state_dict` shows them all.
"""

from typing import Any

import numpy as np

from glassformer.exercises.expect import as_numbers, is_tensor

from ..adapter import GPT, is_mask
from .pytorch import Steps, trained_tensors

SINUSOID = 1e-3  # relative: how far a column may be from one
TURNS = 1.9  # 2 cos ω of a column that is no constant and no straight line
LEAST = 4  # rows: with fewer, anything is a sinusoid


def to_train(gpt: GPT) -> dict[str, Any]:
    """Returns what `weights` shows, without masks, tables of sinusoids, and what asks PyTorch for no gradient.

    The tensors of a `state_dict` never ask for one. So they are looked for in the memory of those that do.
    """
    if not gpt.has("weights"):
        return {}
    shown = gpt.arrays("weights")
    asking = [_memory(one) for one in trained_tensors(gpt, Steps())]
    asked = {name: one for name, one in shown.items() if any(_begins_in(one, memory) for memory in asking)}
    return {name: one for name, one in (asked or shown).items() if not _is_fixed(one)}


def _memory(tensor: Any) -> range:
    """Returns the addresses of a tensor's numbers, or of all of those of which it is a view."""
    storage = tensor.untyped_storage()
    return range(storage.data_ptr(), storage.data_ptr() + storage.nbytes())


def _begins_in(one: Any, memory: range) -> bool:
    if is_tensor(one):
        return one.data_ptr() in memory
    return isinstance(one, np.ndarray) and one.ctypes.data in memory


def _is_fixed(one: Any) -> bool:
    array = as_numbers(one, "a weight")
    return is_mask(array) or is_table_of_sinusoids(array)


def is_table_of_sinusoids(array: np.ndarray) -> bool:
    """Returns whether each column is a sinusoid of the row's number, in whatever order and however fast.

    Then x(t − 1) + x(t + 1) = 2 cos ω · x(t) in each column, with an ω of its own.
    """
    table = np.squeeze(array)
    if table.ndim != 2 or len(table) <= LEAST or table.dtype.kind != "f" or not np.isfinite(table).all():
        return False
    table = table.astype(np.float64)
    middle, around = table[1:-1], table[:-2] + table[2:]
    turns = (middle * around).sum(axis=0) / np.maximum((middle * middle).sum(axis=0), 1e-30)
    sizes = np.abs(table).max(axis=0)
    apart = np.abs(around - turns * middle).max(axis=0)
    fits = apart <= SINUSOID * sizes + 1e-6 * sizes.max()
    turning = (np.abs(turns) < TURNS) & (sizes > 0)
    return bool(fits.all() and (np.abs(turns) <= 2 + SINUSOID).all() and turning.any())
