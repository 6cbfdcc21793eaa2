"""How good a model is: the loss over the whole of what it has not learned from."""

from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.nn import cross_entropy
from glassformer.tasks import NO_TARGET
from glassformer.train.processes import Processes

ALONE = Processes(0, 1, torch.device("cpu"))


def loss_sum(model: Any, inputs: dict[str, np.ndarray], targets: np.ndarray, device: torch.device) -> Tensor:
    """−ln p of every target, summed: `nn.cross_entropy`, times how many there are.

    A sum, because a mean of the means of several pieces is another number, where they have not equally many targets.
    """
    on_device = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
    logits, expected = model(**on_device), torch.from_numpy(targets).to(device)
    return cross_entropy(logits, expected, ignore_index=NO_TARGET) * int((targets != NO_TARGET).sum())


def validation_loss(model: nn.Module, task: Any, processes: Processes = ALONE) -> float:
    """The mean loss, in nats, over every target of the task's validation part, without dropout.

    Several processes take turns with the batches. The model is left as it was.

    Derived in chapter 10.
    """
    was_training = model.training
    device = next(model.parameters()).device
    loss = count = 0.0
    model.eval()
    with torch.no_grad():
        for inputs, targets in islice(task.validation(), processes.rank, None, processes.world):
            loss += loss_sum(model, inputs, targets, device).item()
            count += int((targets != NO_TARGET).sum())
    model.train(was_training)
    loss, count = processes.total(loss, count)
    return loss / count
