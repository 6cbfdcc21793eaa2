"""Tells which arrays of a design are to be trained, and which can be changed from here.

A mask or a table of sinusoids is not trained, nor is a buffer of PyTorch's. Whoever returns a `state_dict` shows them.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from glassformer.exercises.expect import as_numbers, is_tensor

from ..adapter import GPT, in_place


def to_train(gpt: GPT) -> dict[str, Any]:
    """Returns what `weights` shows, without masks, tables of sinusoids, and what asks PyTorch for no gradient.

    The tensors of a `state_dict` never ask for one. So those count that lie in the memory of one that does.
    """
    if not gpt.has("weights"):
        return {}
    shown = gpt.arrays("weights")
    memory = {tensor.untyped_storage().data_ptr() for tensor in trained_tensors(gpt)}
    tensors = {name: one for name, one in shown.items() if is_tensor(one)}
    asking = {name: one for name, one in tensors.items() if one.untyped_storage().data_ptr() in memory}
    return {name: one for name, one in (asking or shown).items() if not is_fixed(as_numbers(one, "a weight"))}


def trained_arrays(gpt: GPT) -> dict[str, np.ndarray]:
    """Returns the arrays of `weights` that are to be trained and can be changed."""
    arrays = {name: in_place(one) for name, one in to_train(gpt).items()}
    return {name: one for name, one in arrays.items() if one is not None}


def is_fixed(array: np.ndarray) -> bool:
    """Returns whether it is a mask, of two numbers, or a table of sinusoids, whose rows are all of one length."""
    table = np.squeeze(array)
    if table.ndim < 2 or table.size <= 4:
        return False
    lengths = np.square(table, dtype=np.float64).sum(axis=-1)
    return len(np.unique(table)) == 2 or bool(table.any() and np.ptp(lengths) < 1e-5 * lengths.max())


def trained_tensors(gpt: GPT, optimizers: Iterable[Any] = ()) -> list[Any]:
    """Returns the torch tensors that may have a gradient: of `weights`, the adapter and its optimizers."""
    if "torch" not in sys.modules:
        return []
    import torch

    places = [gpt.adapter, *getattr(gpt.adapter, "__dict__", {}).values()]
    if gpt.has("weights"):
        places.append(gpt.piece("weights")())
    places += [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
    tensors: dict[int, Any] = {}
    for place in places:
        inside = place.values() if isinstance(place, Mapping) else place
        if isinstance(place, torch.nn.Module):
            inside = place.parameters()
        elif not isinstance(place, Mapping | list | tuple):
            inside = [place]
        some = (one for one in inside if isinstance(one, torch.Tensor))
        tensors |= {id(one): one for one in some if one.is_leaf and one.requires_grad}
    return list(tensors.values())


def tensors_below(result: Any) -> list[Any]:
    """Returns the tensors that ask for a gradient and from which PyTorch computed a result, such as a loss."""
    if isinstance(result, Mapping):
        result = tuple(result.values())
    results = result if isinstance(result, list | tuple) else [getattr(result, "loss", result)]
    steps: list[Any] = [getattr(one, "grad_fn", None) for one in results]
    seen: set[Any] = {None}
    tensors = []
    while steps:
        step = steps.pop()
        if step in seen:
            continue
        seen.add(step)
        if hasattr(step, "variable"):
            tensors.append(step.variable)
        steps += [before for before, _ in step.next_functions]
    return tensors
