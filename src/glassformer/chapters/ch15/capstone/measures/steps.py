"""Finds out what the steps of a training follow, from outside, by taking them again and again from the same weights.

If the weights are put back before each step, the gradient of a text is the same each time, so what changes in the
steps comes from what the training remembers. Whatever the optimizer, an old text is forgotten after many steps on
another, and a step on a new text differs from one on the old. Signs are compared, because Adam, clipping and schedules
change the sizes of steps.
"""

from dataclasses import dataclass

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong

from ..adapter import GPT, LeaveOut, Missing, NotLookedAt, Told, in_place
from .loud import put_back, trained_arrays
from .texts import asked, prompt_of

FIRST, SECOND, THIRD = 12, 24, 30  # steps on one text, on another, and on the first again
LONGER = (
    100,
    240,
)  # steps on the other and on the first, if it seems to remember: even an average over 100 forgets
SAME = 1e-6  # 1 − cosine: what rounding leaves of two steps that are the same
FORGETS = 0.06  # the share of the weights in which a step may still follow the other text
CLEAR = 1e-3  # of the largest number in a step; what is smaller is not looked at
SIZE = 13  # ids
WAKING, BURST = 5, 10  # steps; times as large
UNCHANGEABLE = "the arrays that `weights` returns cannot be changed from outside"


@dataclass
class _Trainer:
    """Takes steps of a training from the same weights."""

    gpt: GPT
    start: dict[str, np.ndarray]

    def step(self, text: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
        """Returns what a step on a text (T + 1,) adds to each weight, and the loss that it returns."""
        for name, weight in _arrays(self.gpt).items():
            weight[...] = self.start[name]
        if any(not np.array_equal(one, self.start[name]) for name, one in _arrays(self.gpt).items()):
            raise NotLookedAt(UNCHANGEABLE)
        loss = self.gpt.number("learn", text[:-1], text[1:])
        now = _arrays(self.gpt)
        if set(now) != set(self.start):
            raise NotLookedAt("`weights` does not always return the same names")
        return {name: now[name].astype(np.float64) - self.start[name] for name in self.start}, loss


def _arrays(gpt: GPT) -> dict[str, np.ndarray]:
    found = {name: in_place(one) for name, one in gpt.arrays("weights").items()}
    return {name: one for name, one in found.items() if one is not None}


def _copies(gpt: GPT) -> dict[str, np.ndarray]:
    return {name: one.copy() for name, one in _arrays(gpt).items()}


def _flat(step: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([one.ravel() for one in step.values()])


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float((one * other).sum() / lengths) if lengths else 0.0


def fresh_model(gpt: GPT) -> GPT:
    """Returns another model of the reader's, not trained by the other checks."""
    return GPT(gpt.source, gpt.running, gpt.hung)


def no_step_is_late(gpt: GPT) -> None:
    """Raises `Told` if a step follows the gradient of the batch before.

    Two new models with the same weights take a step on one text and then one on two different texts. If these second
    steps are the same, they do not come from the texts that they were given; and if the third steps differ, on one
    text again, they come from those before.
    """
    first, *others = (prompt_of(gpt, SIZE, 22 + i) for i in range(3))
    start, steps = _copies(fresh_model(gpt)), []
    for other in others if start else ():
        trainer = _Trainer(fresh_model(gpt), start)
        steps.append([_flat(trainer.step(text)[0]) for text in (first, other, first)])
    same = [_cosine(one, other) > 1 - SAME for one, other in zip(*steps, strict=True)] if steps else []
    if same[1:] == [True, False]:
        message = "two new models took a step on one text, and then each took one on another text. "
        raise Told(f"{message}Both of these second steps changed the weights alike.", "batch-before")


def steps_follow_their_text(gpt: GPT) -> None:
    """Raises `Told` if the steps follow something else than the gradient of the text that they are given.

    Raises:
        NotLookedAt: nothing can be seen from outside.
    """
    if not gpt.has("weights"):
        raise NotLookedAt("your adapter has no `weights`")
    try:
        fresh, other = fresh_model(gpt), fresh_model(gpt)
        start = _copies(fresh)
        if fresh.adapter is not other.adapter:
            no_step_is_late(gpt)
            start = _woken(other, start)
    except Told:
        raise
    except (Wrong, Missing, NotAttempted, LeaveOut) as why:
        raise NotLookedAt("no fresh model can be made") from why
    if not start:
        raise NotLookedAt(UNCHANGEABLE)
    with put_back(list(_arrays(fresh).values())):
        _look(_Trainer(fresh, start), prompt_of(gpt, SIZE, 21), prompt_of(gpt, SIZE, 20))


def _woken(gpt: GPT, start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns weights after a few steps, because the gradients of some are 0 while others are 0."""
    for seed in range(WAKING):
        gpt.number("learn", *asked(gpt, SIZE - 1, seed))
    now = _copies(gpt)
    if {name: one.shape for name, one in now.items()} != {name: one.shape for name, one in start.items()}:
        return start
    burst = any(np.abs(now[name]).max() > BURST * (1 + np.abs(one).max()) for name, one in start.items())
    return start if burst else now  # far too long steps leave nothing to look at


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
    after = [_flat(trainer.step(other)[0]) for _ in range(SECOND)]
    if not all(step.any() for step in after):
        return
    if all(_cosine(step, steady) > 1 - SAME for step in after):
        seen = f"from the same weights, {FIRST} some steps were taken on one text, and then more on a second one."
        raise Told(f"{seen} All of them go the same way.", "other-batch")
    _forgets(trainer, one, other, steady)


def _forgets(trainer: _Trainer, one: np.ndarray, other: np.ndarray, steady: np.ndarray) -> None:
    """Raises `Told` if a text is never forgotten, as if all gradients were added up.

    Some optimizers, such as Muon, divide a matrix by its singular values. In directions that the second text does not
    have, what little is left of the first one then stays large. So the vectors, such as gains and biases, count, too.
    """
    clear = np.abs(steady) > CLEAR * np.abs(steady).max()
    vectors = np.concatenate([np.full(one.size, one.ndim < 2) for one in trainer.start.values()])
    if not (clear & vectors).any():
        return
    for on_other, on_one in ((0, THIRD), LONGER):
        for text in [other] * on_other + [one] * (on_one - 1):
            trainer.step(text)
        again = _flat(trainer.step(one)[0])
        against = [float((again * steady < 0)[where].mean()) for where in (clear, clear & vectors)]
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


def told_if_copied(gpt: GPT) -> None:
    """Raises `Told` if `weights` returns copies, so that nothing that is done to them reaches the model."""
    arrays, ids = list(trained_arrays(gpt).values()), asked(gpt)[0]
    if not arrays or not gpt.has("logits"):
        return
    was, kept = gpt.logits(ids), [one.copy() for one in arrays]
    with put_back(arrays):
        for one in arrays:
            one[...] = 1.5 * one + 0.1
        again = list(trained_arrays(gpt).values())
        try:
            anew = len(again) == len(kept) and all(map(np.array_equal, again, kept))
            same = anew and np.array_equal(gpt.logits(ids), was)
        except Wrong:
            same = False  # the model has noticed
    if same:
        message = "the arrays that `weights` returned were changed, and `logits` stayed as it was."
        raise Told(message, "weights-copied")
