"""The losses of tasks, and how good a model is by its loss on data that it was not trained on."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.nn import cross_entropy
from glassformer.progress import A_MOMENT, bar
from glassformer.tasks import NO_TARGET, Batch
from glassformer.train.processes import Processes

Loss = Callable[[nn.Module, dict[str, Tensor], Tensor], Tensor]  # of a model, inputs and targets

ALONE = Processes(0, 1, torch.device("cpu"))


def cross_entropy_loss(model: nn.Module, inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
    """Returns the mean of −ln p over the targets that count: the loss of every task that has none of its own."""
    return cross_entropy(model(**inputs), targets, ignore_index=NO_TARGET)


def loss_of(task: Any) -> Loss:
    """Returns the loss of a task: its own, or the cross-entropy."""
    return getattr(task, "loss", cross_entropy_loss)


def n_targets(targets: np.ndarray) -> int:
    """Returns how many targets count: what a batch's loss is the mean over, and so its weight among others."""
    _check_kind("targets", targets, np.ndarray)
    return int((targets != NO_TARGET).sum())


def _check_kind(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(
            "batch(), validation() and test() of a task must give pairs of inputs, a dictionary of NumPy arrays, and "
            f"targets, a NumPy array, but {name} is of type {type(value).__name__}"
        )


def batch_loss(
    loss: Loss, model: nn.Module, inputs: dict[str, np.ndarray], targets: np.ndarray, device: torch.device
) -> Tensor:
    """Returns the loss of a batch of arrays.

    Raises:
        ValueError: `loss` returns something else than one number.
        TypeError: the inputs are not NumPy arrays in a dictionary.
    """
    _check_kind("inputs", inputs, Mapping)
    for name, array in inputs.items():
        _check_kind(f"inputs[{name!r}]", array, np.ndarray)
    on_device = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
    mean = loss(model, on_device, torch.from_numpy(targets).to(device))
    if not isinstance(mean, Tensor) or mean.ndim:
        found = f"a tensor of shape {tuple(mean.shape)}" if isinstance(mean, Tensor) else repr(mean)
        raise ValueError(
            f"loss returned {found}, but must return a tensor with one number, the mean over the targets"
        )
    return mean


def validation_loss(
    model: nn.Module, task: Any, processes: Processes = ALONE, *, progress: bool = False
) -> float:
    """Returns the mean loss over the task's validation part."""
    checks.in_torch(model)
    return loss_over(model, task.validation(), processes, loss=loss_of(task), progress=progress)


def loss_over(
    model: nn.Module,
    batches: Iterable[Batch],
    processes: Processes = ALONE,
    *,
    loss: Loss = cross_entropy_loss,
    progress: bool = False,
) -> float:
    """Returns the mean loss over every target of the batches, without dropout and auxiliary losses.

    Each batch counts by its number of targets. Several processes take turns with the batches. The model is left
    unchanged. With `progress`, a bar appears if this takes longer than a moment.

    Derived in chapter 10.
    """
    was_training = model.training
    device = next(model.parameters()).device
    total = count = 0.0
    model.eval()
    mine = list(islice(batches, processes.rank, None, processes.world))
    if progress:
        mine = bar(mine, desc="evaluation", unit="batch", leave=False, delay=A_MOMENT)
    with torch.no_grad():
        for inputs, targets in mine:
            n = n_targets(targets)
            total += (batch_loss(loss, model, inputs, targets, device) * n).item()
            count += n
    model.train(was_training)
    total, count = processes.total(total, count)
    return total / count
