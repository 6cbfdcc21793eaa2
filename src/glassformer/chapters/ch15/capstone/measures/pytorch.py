"""Watches PyTorch while steps are taken: whose gradients are kept, whose optimizer is new, what is trained."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..adapter import GPT


@dataclass
class Steps:
    """The optimizers that took a step, in order, and whether each knew anything of earlier steps."""

    optimizers: list[Any] = field(default_factory=list)
    knew: list[bool] = field(default_factory=list)


@contextlib.contextmanager
def optimizers_watched() -> Iterator[Steps]:
    """Collects the steps of PyTorch's optimizers. Without PyTorch there are none."""
    steps, inside = Steps(), list[Any]()
    if "torch" not in sys.modules:
        yield steps
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def note(optimizer: Any, args: Any, kwargs: Any) -> None:
        if optimizer not in inside:  # a step may call that of the class from which its own was made
            steps.optimizers.append(optimizer)
            steps.knew.append(bool(optimizer.state))
        inside.append(optimizer)

    def leave(optimizer: Any, args: Any, kwargs: Any) -> None:
        inside.remove(optimizer)

    hooks = register_optimizer_step_pre_hook(note), register_optimizer_step_post_hook(leave)
    try:
        yield steps
    finally:
        for hook in hooks:
            hook.remove()


def always_new(steps: list[Steps]) -> bool:
    """Returns whether every call made an optimizer that forgets what it learned from the gradients before."""
    if any(not one.optimizers for one in steps):
        return False
    first, *later = steps
    known = {id(one) for one in first.optimizers}
    # After its step: SGD has nothing to keep.
    remembers = all(one.state for step in steps for one in step.optimizers)
    return remembers and not any(any(step.knew) or known & set(map(id, step.optimizers)) for step in later)


def trained_tensors(gpt: GPT, steps: Steps) -> list[Any]:
    """Returns the reader's torch tensors that may have a gradient: of `weights`, the adapter and its optimizers."""
    if "torch" not in sys.modules:
        return []
    import torch

    found: dict[int, Any] = {}
    places = [gpt.adapter, *getattr(gpt.adapter, "__dict__", {}).values()]
    if gpt.has("weights"):
        places.append(gpt.piece("weights")())
    places += [group["params"] for one in steps.optimizers for group in one.param_groups]
    for place in places:
        if isinstance(place, torch.nn.Module):
            tensors = list(place.parameters())
        elif isinstance(place, Mapping):
            tensors = list(place.values())
        else:
            tensors = list(place) if isinstance(place, list | tuple) else [place]
        for one in tensors:
            if isinstance(one, torch.Tensor) and one.is_leaf and one.requires_grad:
                found[id(one)] = one
    return list(found.values())


def tensors_below(result: Any) -> list[Any]:
    """Returns the tensors that ask for a gradient and from which PyTorch computed a result, such as a loss."""
    if isinstance(result, Mapping):
        result = tuple(result.values())
    results = result if isinstance(result, list | tuple) else [getattr(result, "loss", result)]
    steps: list[Any] = [getattr(one, "grad_fn", None) for one in results]
    seen: set[Any] = {None}
    found = []
    while steps:
        step = steps.pop()
        if step in seen:
            continue
        seen.add(step)
        if hasattr(step, "variable"):
            found.append(step.variable)
        steps += [before for before, _ in step.next_functions]
    return found


def keeps_gradients(tensors: list[Any], step: Callable[[], Any]) -> bool:
    """Takes a step, and returns whether its gradients were added to those that the step before had left.

    Right code may clear them before, or after its step, or compute gradients that it keeps nowhere; and it may add
    those of several texts within a step. So only the first gradient to arrive in a step counts, and only if what it
    is added to is what was there when the step began.
    """
    left = {id(one): one.grad.clone() for one in tensors if one.grad is not None and one.grad.any()}
    if not left:
        return False
    before = {id(one): one.detach().clone() for one in tensors}
    seen: set[int] = set()
    added: set[int] = set()

    def arrives(tensor: Any) -> Callable[[Any], None]:
        def note(_: Any) -> None:
            if id(tensor) in seen:
                return
            seen.add(id(tensor))
            was, now = left.get(id(tensor)), tensor.grad
            if was is not None and now is not None and was.shape == now.shape and bool((was == now).all()):
                added.add(id(tensor))

        return note

    hooks = [one.register_hook(arrives(one)) for one in tensors]
    try:
        step()
    finally:
        for hook in hooks:
            hook.remove()
    moved = any(not (before[id(one)] == one.detach()).all() for one in tensors if id(one) in added)
    return bool(added) and moved
