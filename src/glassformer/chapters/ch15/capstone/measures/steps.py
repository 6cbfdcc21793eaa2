"""Finds out what the steps of a training follow, from outside, by taking them again and again from the same weights.

If the weights are put back before each step, the gradient of a text is the same each time, so what changes in the
steps comes from what the training remembers. Whatever the optimizer, an old text is forgotten after many steps on
another, and a step on a new text differs from one on the old. Signs are compared, because Adam, clipping and schedules
change the sizes of steps.
"""

import contextlib
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong, as_numbers

from .adapter import LeaveOut, Missing, NotLookedAt, Own, Told, in_place
from .words import remark

FIRST, SECOND, THIRD = 12, 24, 30  # steps on one text, on another, and on the first again
LONGER = (
    100,
    240,
)  # steps on the other and on the first, if it seems to remember: even an average over 100 forgets
SAME = 1e-6  # 1 − cosine: what rounding leaves of two steps that are the same
FORGETS = 0.06  # the share of the weights in which a step may still follow the other text
CLEAR = 1e-3  # of the largest number in a step; what is smaller is not looked at
ACROSS, MANY = 0.1, 256  # a cosine below this has no direction in common, with so many numbers
SIZE = 12  # ids
STRAIGHT, UNEVEN = (
    0.02,
    0.05,
)  # relative: what a fit may leave; how much what a gradient is divided by must vary
GROWN = 1.5  # times: so much larger than the first is the last of some steps if Adam corrects nothing
WAKING, BURST = 5, 10  # steps; times as large


@dataclass
class _Trainer:
    """Takes steps of a training from the same weights."""

    own: Own
    start: dict[str, np.ndarray]

    def step(self, text: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
        """Returns what a step on a text (T + 1,) adds to each weight, and the loss that it returns."""
        for name, weight in _arrays(self.own).items():
            weight[...] = self.start[name]
        if any(not np.array_equal(one, self.start[name]) for name, one in _arrays(self.own).items()):
            raise NotLookedAt("the arrays that `weights` returns cannot be changed from outside")
        loss = self.own.number("learn", text[:-1], text[1:])
        now = _arrays(self.own)
        if set(now) != set(self.start):
            raise NotLookedAt("`weights` does not always return the same names")
        return {name: now[name].astype(np.float64) - self.start[name] for name in self.start}, loss


def _arrays(own: Own) -> dict[str, np.ndarray]:
    found = {name: in_place(one) for name, one in own.arrays("weights").items()}
    return {name: one for name, one in found.items() if one is not None}


def _flat(step: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([one.ravel() for one in step.values()])


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float((one * other).sum() / lengths) if lengths else 0.0


def _woken(own: Own, start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns weights after a few steps, because the gradients of some are 0 while others are 0."""
    for seed in range(WAKING):
        text = np.random.default_rng(seed).integers(own.vocab_size, size=SIZE + 1)
        own.number("learn", text[:-1], text[1:])
    now = {name: one.copy() for name, one in _arrays(own).items()}
    same = set(now) == set(start) and all(now[name].shape == one.shape for name, one in start.items())
    if not same or any(
        np.abs(now[name]).max() > BURST * (1 + np.abs(one).max()) for name, one in start.items()
    ):
        return start  # far too long steps leave nothing to look at
    return now


def fresh_model(own: Own) -> Own:
    """Returns another model of the reader's, not trained by the other checks."""
    return Own(own.source, own.running, own.hung)


def no_step_is_late(own: Own) -> None:
    """Raises `Told` if a step follows the gradient of the batch before.

    Two new models with the same weights take a step on one text and then one on two different texts. If these second
    steps are the same, they do not come from the texts that they were given; and if the third steps differ, on one
    text again, they come from those before.

    Raises:
        NotLookedAt: nothing can be seen from outside.
    """
    if not own.has("weights"):
        raise NotLookedAt("your adapter has no `weights`")
    first, *others = np.random.default_rng(22).integers(own.vocab_size, size=(3, SIZE + 1))
    start, steps = {name: one.copy() for name, one in _arrays(fresh_model(own)).items()}, []
    if not start:
        raise NotLookedAt("the arrays that `weights` returns cannot be changed from outside")
    for other in others:
        trainer = _Trainer(fresh_model(own), start)
        steps.append([_flat(trainer.step(text)[0]) for text in (first, other, first)])
    same = [_cosine(one, other) > 1 - SAME for one, other in zip(*steps, strict=True)]
    if same[1:] == [True, False]:
        message = "two new models took a step on one text, and then each took one on another text. "
        raise Told(f"{message}Both of these second steps changed the weights alike.", "batch-before")


def steps_follow_their_text(own: Own) -> None:
    """Raises `Told` if the steps follow something else than the gradient of the text that they are given.

    Raises:
        NotLookedAt: nothing can be seen from outside.
    """
    if not own.has("weights"):
        raise NotLookedAt("your adapter has no `weights`")
    try:
        fresh, other = fresh_model(own), fresh_model(own)
        start = {name: one.copy() for name, one in _arrays(fresh).items()}
        if fresh.adapter is not other.adapter:
            no_step_is_late(own)
            start = _woken(other, start)
    except Told:
        raise
    except (Wrong, Missing, NotAttempted, LeaveOut) as why:
        raise NotLookedAt("no fresh model can be made") from why
    if not start:
        raise NotLookedAt("the arrays that `weights` returns cannot be changed from outside")
    trainer = _Trainer(fresh, start)
    V, rng = own.vocab_size, np.random.default_rng(21)
    ids = rng.integers(V, size=SIZE + 1)
    one, other = ids.copy(), rng.integers(V, size=SIZE + 1)
    try:
        _look(trainer, one, other)
    finally:
        for name, weight in _arrays(fresh).items():
            weight[...] = start[name]
    own.found |= {"divided": fresh.found["divided"]} if "divided" in fresh.found else {}
    for one_remark in fresh.remarks:
        own.remark(one_remark)


def _look(trainer: _Trainer, one: np.ndarray, other: np.ndarray) -> None:
    taken = [trainer.step(one) for _ in range(FIRST)]
    losses = [loss for _, loss in taken]
    if not np.isfinite(losses).all() or np.ptp(losses) > 1e-6 * max(1.0, abs(losses[0])):
        raise NotLookedAt(
            "a step on the same text from the same weights does not always return the same loss"
        )
    steady = _flat(taken[-1][0])
    if not np.isfinite(steady).all() or not steady.any():
        return  # the checks that follow tell
    _against_gradients(trainer, one, taken[-1][0])
    _tell_growth(trainer.own, np.array([np.linalg.norm(_flat(step)) for step, _ in taken]))
    after = [_flat(trainer.step(other)[0]) for _ in range(SECOND)]
    if not all(step.any() for step in after):
        return
    if all(_cosine(step, steady) > 1 - SAME for step in after):
        seen = f"from the same weights, {FIRST} some steps were taken on one text, and then more on a second one."
        raise Told(f"{seen} All of them go the same way.", "other-batch")
    sizes = np.abs(after[-1][after[-1] != 0])
    if _cosine(after[0], after[-1]) > 1 - SAME and np.quantile(sizes, 0.1) > 0.9 * np.quantile(sizes, 0.9):
        trainer.own.remark(remark("alike-steps"))
    _forgets(trainer, one, other, steady)


def _tell_growth(own: Own, sizes: np.ndarray) -> None:
    """Remarks on steps that grow as Adam's do if its averages are not corrected for having started from zero.

    The gradient is the same in each step, so what is corrected takes steps of one size.
    """
    t = np.arange(1, len(sizes) + 1)
    for beta1, beta2 in itertools.product((0.8, 0.9, 0.95), (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)):
        grown = (1 - beta1**t) / np.sqrt(1 - beta2**t)
        if grown[-1] > GROWN * grown[0] and np.abs(sizes / sizes[0] - grown / grown[0]).max() < STRAIGHT:
            own.remark(remark("uncorrected", times=sizes[-1] / sizes[0], steps=len(sizes)))
            return


def _forgets(trainer: _Trainer, one: np.ndarray, other: np.ndarray, steady: np.ndarray) -> None:
    """Raises `Told` if a text is never forgotten, as if all gradients were added up.

    Some optimizers, such as Muon, divide a matrix by its singular values. In directions that the second text does not
    have, what little is left of the first one then stays large. So the vectors, such as gains and biases, count, too.
    """
    vectors = np.concatenate([np.full(one.size, one.ndim < 2) for one in trainer.start.values()])
    if not (np.abs(steady[vectors]) > CLEAR * np.abs(steady).max()).any():
        return
    for on_other, on_one in ((0, THIRD), LONGER):
        for _ in range(on_other):
            trainer.step(other)
        for _ in range(on_one - 1):
            trainer.step(one)
        again = _flat(trainer.step(one)[0])
        against = [
            float((again * steady < 0)[where & (np.abs(steady) > CLEAR * np.abs(steady).max())].mean())
            for where in (np.ones(len(steady), bool), vectors)
        ]
        if min(against) < FORGETS:
            return
    if not _in_place(trainer, one, again):
        return  # it has another copy of its weights, which was not put back
    message = (
        f"from the same weights, {LONGER[0]} steps were taken on one text and then {LONGER[1]} on another. "
    )
    message += (
        f"In {against[0]:.0%} of the weights, the last step still moves in the direction of the first text."
    )
    raise Told(message, "gradients-kept")


def _in_place(trainer: _Trainer, text: np.ndarray, step: np.ndarray) -> bool:
    """Returns whether a step begins from the weights as they are: if they are moved, its end moves along."""
    rng, kept = np.random.default_rng(3), trainer.start
    size = 10 * float(np.sqrt((step**2).mean()))
    moved = {name: (one + size * rng.normal(size=one.shape)).astype(one.dtype) for name, one in kept.items()}
    trainer.start = moved
    try:
        found = _flat(trainer.step(text)[0])  # what was added to the moved weights
    finally:
        trainer.start = kept
    away = _flat({name: moved[name].astype(np.float64) - kept[name] for name in kept})
    return bool(found @ away > -0.5 * (away @ away))


def _against_gradients(trainer: _Trainer, text: np.ndarray, step: dict[str, np.ndarray]) -> None:
    """Raises `Told` if a matrix's steps have nothing to do with its gradient, or depend on it in a wrong way.

    A step may also pull a weight towards 0 (decay).
    """
    own = trainer.own
    for name, weight in _arrays(own).items():
        weight[...] = trainer.start[name]
    handed_over = own.has("gradients")
    found = own.arrays("gradients", text[:-1], text[1:]) if handed_over else _by_pytorch(own, text)
    for name, added in step.items():
        gradient = found.get(name)
        gradient = None if gradient is None else np.asarray(as_numbers(gradient, name), dtype=np.float64)
        if gradient is None or gradient.shape != added.shape or added.size < MANY or not added.any():
            continue
        # Where the gradient is 0 or next to it, what rounds decides.
        where = np.abs(gradient) > 1e-6 * np.abs(gradient).max(initial=0.0)
        if where.sum() < MANY or not np.abs(gradient).max() > 1e-8:
            continue
        g, d, w = gradient[where], added[where], trainer.start[name][where].astype(np.float64)
        divided = _divided(name, g, d)
        if divided is not None:
            own.found.setdefault("divided", divided)
        if (d > 0).mean() in (0, 1) and 0.2 < (g > 0).mean() < 0.8:
            way = "down" if d[0] < 0 else "up"
            raise Told(
                f"`{name}`: a step moves all of its numbers {way}, whatever their gradient is.", "sign-lost"
            )
        if handed_over:
            _along(name, g, d, w)


def _along(name: str, g: np.ndarray, d: np.ndarray, w: np.ndarray) -> None:
    """Raises `Told` if a step is not along minus the gradient, whatever decay adds to it."""
    (_, pull), *_ = np.linalg.lstsq(np.stack([g, w], axis=1), d, rcond=None)
    if (d * g < 0).mean() > 1 - FORGETS:
        return  # against the gradient in almost every number, whatever it is divided by
    along = max(_cosine(-g, d), _cosine(-g, d - pull * w))
    if along < -ACROSS:
        raise Told(f"`{name}`: the cosine between a step and minus the gradient is {along:.2f}.", "uphill")
    if along < ACROSS:
        message = f"`{name}`: the step on a text and its gradient have nothing in common "
        message += f"(the cosine between the step and minus the gradient is {_cosine(-g, d):.2f})."
        raise Told(message, "other-gradient")


def _divided(name: str, g: np.ndarray, d: np.ndarray) -> Told | None:
    """Returns a failure if steps on one text are the gradient divided by its square or the root of its size, plus ε.

    Adam divides by its size, and SGD by nothing. But others are no mistakes, such as Padam, which may divide by the
    root: so this is one only if the model does not learn.
    """
    clear = (np.abs(g) > CLEAR * np.abs(g).max()) & (d != 0)
    g, d = g[clear], d[clear]
    if len(g) < MANY or (d * g > 0).mean() > FORGETS:
        return None
    by, size = -g / d, np.abs(g)
    if np.std(by) < UNEVEN * np.abs(by).mean():
        return None
    rest = {}
    for what, its in (("size", size), ("square", size**2), ("root", np.sqrt(size))):
        known = np.stack([its, np.ones_like(its)], axis=1)
        fit, *_ = np.linalg.lstsq(known, by, rcond=None)
        rest[what] = float(np.std(by - known @ fit) / np.std(by))
    for what, said, mistake in (
        ("square", "the square of the gradient", "adam-root"),
        ("root", "the root of the gradient's size", "adam-squares"),
    ):
        if rest[what] < STRAIGHT and rest["size"] > 5 * rest[what]:
            message = (
                f"`{name}`: on the same text again and again, each step is the gradient divided by {said}."
            )
            return Told(message, mistake)
    return None


def _by_pytorch(own: Own, text: np.ndarray) -> dict[str, Any]:
    """Returns the gradients that PyTorch computes from `loss`; none if it cannot."""
    if not own.tensors or not own.has("loss"):
        return {}
    import torch

    with contextlib.suppress(Exception):  # the checks of the loss tell what is wrong with it
        trained = {
            name: one
            for name, one in own.piece("weights")().items()
            if isinstance(one, torch.Tensor) and one.requires_grad
        }
        loss = own.raw("loss", text[:-1], text[1:])
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        return {name: one for name, one in zip(trained, found, strict=True) if one is not None}
    return {}
