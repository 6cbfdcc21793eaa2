"""Watches the steps of a training: which text they follow, whose gradients they keep, whose optimizer takes them."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told
from .texts import prompt_of
from .trained import trained_arrays

SAME = 1e-6  # 1 − cosine: what rounding leaves of two steps that are the same
SIZE = 13  # ids


def fresh_model(gpt: GPT) -> GPT:
    """Returns another model of the reader's, not trained by the other checks."""
    return GPT(gpt.source, gpt.running, gpt.hung)


def told_if_text_is_ignored(gpt: GPT) -> None:
    """Raises `Told` if a step follows another text than the one that it is given, such as the first or the one before.

    Two new models with the same weights take a step on one text, and then each takes one on a text of its own. If these
    second steps are the same, they do not come from their texts. Where the weights cannot be changed, nothing is seen.
    """
    first, *others = (prompt_of(gpt, SIZE, 22 + i) for i in range(3))
    start: dict[str, np.ndarray] = {}
    moves = []
    with contextlib.suppress(Wrong, NotAttempted, ValueError):  # no new model can be made
        for other in others:
            fresh = fresh_model(gpt)
            weights = trained_arrays(fresh)
            start = start or {name: one.copy() for name, one in weights.items()}
            for name, one in weights.items():
                one[...] = start[name]
            fresh.number("learn", first[:-1], first[1:])
            before = {name: one.copy() for name, one in trained_arrays(fresh).items()}
            fresh.number("learn", other[:-1], other[1:])
            now = trained_arrays(fresh)
            moves.append(np.concatenate([(now[name] - before[name]).ravel() for name in start]))
    if len(moves) == 2 and _cosine(*moves) > 1 - SAME:
        message = "two new models took a step on one text, and then each took one on another text."
        raise Told(f"{message} Both of these second steps changed the weights alike.", "other-batch")


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


@contextlib.contextmanager
def optimizer_steps() -> Iterator[list[tuple[Any, bool]]]:
    """Collects PyTorch's optimizers as they take a step, each with whether it remembered an earlier one."""
    steps: list[tuple[Any, bool]] = []
    running: list[Any] = []
    if "torch" not in sys.modules:
        yield steps
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def begins(optimizer: Any, args: Any, kwargs: Any) -> None:
        if optimizer not in running:  # a step may call that of the class from which its own was made
            steps.append((optimizer, bool(optimizer.state)))
        running.append(optimizer)

    def ends(optimizer: Any, args: Any, kwargs: Any) -> None:
        running.remove(optimizer)

    hooks = register_optimizer_step_pre_hook(begins), register_optimizer_step_post_hook(ends)
    try:
        yield steps
    finally:
        for hook in hooks:
            hook.remove()


def keeps_gradients(tensors: list[Any], step: Callable[[], Any]) -> bool:
    """Takes a step, and returns whether its gradients were added to those that the step before had left.

    Right code may clear them before its step or after it, and may add those of several texts. So only the first
    gradient that arrives at a tensor counts, and only if the step then moves that tensor.
    """
    before = {id(one): one.detach().clone() for one in tensors}
    added: dict[int, bool] = {}

    def arrives(tensor: Any) -> Callable[[Any], None]:
        def note(_: Any) -> None:
            added.setdefault(id(tensor), tensor.grad is not None and bool(tensor.grad.any()))

        return note

    hooks = [one.register_hook(arrives(one)) for one in tensors]
    try:
        step()
    finally:
        for hook in hooks:
            hook.remove()
    return any(added.get(id(one)) and not bool((before[id(one)] == one.detach()).all()) for one in tensors)
