"""Expert parallelism: each process holds some experts of every layer, and tokens travel to them and back.

All other weights are copies, and each process reads its own part of the batch, as in data-parallel training. A
program that `torchrun` starts several times needs three calls more than a training loop of one process:

    with processes("cpu") as group:
        distribute_experts(model, group)
        ...
            (share * loss).backward()  # share: of the batch's targets, those that this process has
            combine_gradients(model, group, clip=1.0)
        gather_experts(model, group)  # now it can be saved

The shapes: N tokens of this process, A experts chosen for each, X experts of all processes, M rows that arrive here.
"""

import copy
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn

from glassformer import _checks as checks
from glassformer.nn.experts import Experts, Router
from glassformer.train.processes import Processes


class Exchange(torch.autograd.Function):
    """Sends `there[p]` rows to each process p, in order, and receives `here[p]`; gradients travel back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, there: list[int], here: list[int]) -> Tensor:
        """Maps rows (N, D) to those that arrive, (M, D), the ones of process 0 first."""
        ctx.there, ctx.here = there, here
        arrived = rows.new_empty(sum(here), rows.shape[-1])
        distributed.all_to_all_single(arrived, rows.contiguous(), here, there)
        return arrived

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Returns the gradient of each row to the process that sent the row."""
        return Exchange.apply(*grads, ctx.here, ctx.there), None, None


class ExpertsAcross(Experts):
    """`Experts`, of which this process holds X / n; its tokens travel to the others and back.

    Source: Lepikhin et al. 2020, "GShard", sections 3.2 and 3.3.1. Derived in chapter 18.
    """

    def _work(self, chosen: Tensor) -> Iterator[tuple]:
        """Has one piece of work instead of one for each expert: all choices, sorted by expert, travel together."""
        order = torch.argsort(chosen.flatten(), stable=True)
        loads = torch.bincount(chosen.flatten(), minlength=self.router.W.n_out)
        n_chosen = chosen.shape[-1]
        tokens = torch.div(order, n_chosen, rounding_mode="floor")
        yield partial(self._travel, loads), tokens, order % n_chosen

    def _travel(self, loads: Tensor, rows: Tensor) -> Tensor:
        """Maps rows (N·A, D), of which each expert gets as many as `loads` (X,) says, to what the experts return."""
        n = distributed.get_world_size()
        counts = torch.empty_like(loads)  # from each process, for each expert here
        distributed.all_to_all_single(counts, loads)
        there, here = (c.reshape(n, -1).sum(dim=1).tolist() for c in (loads, counts))
        if torch.is_grad_enabled() and not rows.requires_grad:
            rows = rows.detach().requires_grad_()  # or a process without work would miss the way back
        arrived = y = Exchange.apply(rows, there, here)  # (M, D)
        own = torch.arange(len(self.experts), device=loads.device).repeat(n)
        own = own.repeat_interleave(counts)  # (M,): which of the experts here each row is for
        for expert, which, _ in super()._work(own[:, None]):
            y = y.index_copy(0, which, expert(arrived[which]).to(y.dtype))
        return Exchange.apply(y, here, there)


class RouterAcross(Router):
    """`Router` that counts the choices of all processes, in its balance and when it moves its bias."""

    def update_choice_bias(self, rate: float) -> None:
        """As `scratch.Router.update_choice_bias`; all processes call it."""
        self._load = self._of_all(self._load)
        super().update_choice_bias(rate)

    def _balance(self, z: Tensor, s: Tensor, load: Tensor) -> Tensor:
        return super()._balance(z, s, self._of_all(load))

    def _of_all(self, load: Tensor) -> Tensor:
        total = load.to(self.W.weight.device, copy=True)
        distributed.all_reduce(total)
        return total.to(load.device)


def distribute_experts(model: nn.Module, group: Processes) -> None:
    """Leaves only this process's experts in the model; all other weights become those of the first process.

    Process r of n keeps the experts r · X/n to (r + 1) · X/n − 1 of every layer, under the names that they had. From
    then on, all processes must run the model equally often, since tokens of each may travel to any other. Make the
    optimizer afterwards. A single process keeps everything.

    Raises:
        ValueError: a layer's number of experts is not divisible by the number of processes. Nothing is changed.
    """
    layers = _layers(model, Experts)
    for layer in layers:
        checks.divisible("n_experts", len(layer.experts), "processes", group.world)
    if group.world == 1:
        return
    for weight in model.parameters():
        _broadcast(weight, 0)
    for layer in layers:
        n_own = len(layer.experts) // group.world
        for i in range(len(layer.experts)):
            if i // n_own != group.rank:
                delattr(layer.experts, f"{i}")  # unlike `del`, leaves the others their numbers
        layer.__class__, layer.router.__class__ = ExpertsAcross, RouterAcross


def combine_gradients(model: nn.Module, group: Processes, clip: float = 0.0) -> float:
    """Adds up the gradients of what is copied, clips, and returns the length that the whole gradient had before.

    Each process must have gone backward from its share of the batch's loss: its mean, times its fraction of the
    targets. An expert's gradient is complete already, because all its tokens came to one process. `clip` is the
    maximal length of the gradient of the whole model; 0: no clipping.
    """
    own = {weight for layer in _layers(model, ExpertsAcross) for weight in layer.experts.parameters()}
    grads: list[list[Any]] = [[], []]
    for weight in model.parameters():
        if weight.grad is not None:
            grads[weight in own].append(weight.grad)
    of_copies, of_experts = grads
    if group.world > 1 and of_copies:
        total = torch.cat([grad.reshape(-1) for grad in of_copies])
        distributed.all_reduce(total)
        for grad, summed in zip(of_copies, total.split([grad.numel() for grad in of_copies]), strict=True):
            grad.copy_(summed.view_as(grad))
    [of_all_experts] = group.total(float(nn.utils.get_total_norm(of_experts)) ** 2)
    length = math.sqrt(float(nn.utils.get_total_norm(of_copies)) ** 2 + of_all_experts)
    limit = clip or float("inf")
    nn.utils.clip_grads_with_norm_(model.parameters(), limit, torch.tensor(length, dtype=torch.float64))
    return length


def gather_experts(model: nn.Module, group: Processes) -> None:
    """Gives every process the whole model again, to use or to save; all processes must call it.

    A process keeps its own experts, so the same optimizer can go on after `distribute_experts`.
    """
    for layer in _layers(model, ExpertsAcross):
        own = dict(layer.experts.named_children())
        experts = []
        for i in range(len(own) * group.world):
            expert = own.get(f"{i}") or copy.deepcopy(next(iter(own.values())))
            for weight in expert.parameters():
                _broadcast(weight, i // len(own))
            experts.append(expert)
        layer.experts = nn.ModuleList(experts)
        layer.__class__, layer.router.__class__ = Experts, Router


def _layers(model: nn.Module, kind: type[Experts]) -> list[Any]:
    return [layer for layer in model.modules() if isinstance(layer, kind)]


@torch.no_grad()
def _broadcast(weight: Tensor, rank: int) -> None:
    values = weight.contiguous()  # a tied head's table is stored column by column
    distributed.broadcast(values, rank)
    weight.copy_(values)
