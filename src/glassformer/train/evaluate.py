"""Measures how good a model is by its loss on data that it was not trained on."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.nn import cross_entropy
from glassformer.progress import A_MOMENT, bar
from glassformer.tasks import NO_TARGET, Batch
from glassformer.train.processes import Processes

ALONE = Processes(0, 1, torch.device("cpu"))


def loss_sum(
    model: nn.Module, inputs: dict[str, np.ndarray], targets: np.ndarray, device: torch.device
) -> Tensor:
    """Returns the sum of −ln p over all targets: `nn.cross_entropy` times their number.

    It is a sum because averaging the means of several pieces would be wrong when they have different numbers
    of targets.
    """
    on_device = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
    logits, expected = model(**on_device), torch.from_numpy(targets).to(device)
    return cross_entropy(logits, expected, ignore_index=NO_TARGET) * int((targets != NO_TARGET).sum())


def validation_loss(
    model: nn.Module, task: Any, processes: Processes = ALONE, *, progress: bool = False
) -> float:
    """Returns the mean loss over the task's validation part."""
    return loss_over(model, task.validation(), processes, progress=progress)


def loss_over(
    model: nn.Module, batches: Iterable[Batch], processes: Processes = ALONE, *, progress: bool = False
) -> float:
    """Returns the mean loss, in nats, over every target of the batches, without dropout.

    Several processes take turns with the batches. The model is left unchanged. With `progress`, a bar appears
    if this takes longer than a moment.

    Derived in chapter 10.
    """
    was_training = model.training
    device = next(model.parameters()).device
    loss = count = 0.0
    model.eval()
    mine = list(islice(batches, processes.rank, None, processes.world))
    if progress:
        mine = bar(mine, desc="evaluation", unit="batch", leave=False, delay=A_MOMENT)
    with torch.no_grad():
        for inputs, targets in mine:
            loss += loss_sum(model, inputs, targets, device).item()
            count += int((targets != NO_TARGET).sum())
    model.train(was_training)
    loss, count = processes.total(loss, count)
    return loss / count
