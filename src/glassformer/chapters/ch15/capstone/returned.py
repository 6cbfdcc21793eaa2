"""Looks at what `learn` does with what it is given, and at what it returns.

It should use the targets that it is given, return the loss of its own batch, and take one step.
"""

import numpy as np

from glassformer.exercises.expect import Wrong

from .adapter import Own, Told
from .louder import trained_arrays
from .stage import close
from .texts import asked, log_softmax
from .watch import Steps

EXACT = 1e-9  # relative: two losses this near come from the same numbers
TELLS = 1e-4  # by so much two losses have to differ
FITS = 0.01  # of what is explained: what a fit may leave
FADES = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)  # how much of a running average usually stays


def uses_its_targets(own: Own, other: Own) -> None:
    """Raises `Told` if `learn` makes targets of its own from the ids.

    In a text, the targets are the ids moved by one place, so there nobody sees the difference. These targets have
    nothing to do with the ids. Both models should be fresh, since each takes a step.
    """
    if not own.has("logits"):
        return
    (ids, _), (targets, _) = asked(own), asked(own, seed=9)
    others = (targets + 1) % own.vocab_size
    others[-1] = targets[-1]  # a loss of the last target alone is another mistake
    log_p, rows = log_softmax(own.logits(ids)), np.arange(len(ids))
    if abs(float((log_p[rows, targets] - log_p[rows, others]).mean())) < TELLS:
        return  # a head that starts at 0: all targets cost the same
    found, its = own.number("learn", ids, targets), other.number("learn", ids, others)
    message = f"a step on targets that have nothing to do with the ids returns {found:.5f}."
    if abs(found - its) <= EXACT * abs(found) and round(found, 3) != found:
        raise Told(f"{message} With other targets a fresh model returns the same.", "targets-ignored")
    for made in (-log_p[rows[:-1], ids[1:]], -log_p[rows, np.roll(ids, -1)]):
        if close(found, made.mean(), 1e-5) and not close(found, -log_p[rows, targets].mean(), 1e-5):
            raise Told(
                f"{message} That is the loss of the ids themselves, moved by one place.", "targets-ignored"
            )


def told_if_averaged(found: np.ndarray, right: np.ndarray) -> None:
    """Raises `Told` if the losses that a fresh model's steps returned are averages of the right ones.

    Dropout moves them as well, and where the loss hardly changes, it is near each of its averages. So an average has to
    explain how the difference between the two varies, and not merely be as near as the right losses are.
    """
    message = (
        f"in {len(found)} steps `learn` returned {_listed(found)}; according to `logits`, the losses were "
    )
    message += f"{_listed(right)}."
    may_leave, steps = FITS * np.ptp(found - right), np.arange(len(found))
    averages = [np.array([right[max(0, t - n) : t + 1].mean() for t in steps]) for n in steps[1:]]
    averages.append(np.minimum.accumulate(right))
    for fade in FADES:  # corrected for the first steps, as Adam's averages are
        kept = np.tril(fade ** np.clip(steps[:, None] - steps, 0, None))
        averages.append(kept @ right / kept.sum(axis=1))
    moved, should = np.diff(found), right[1:] - found[:-1]
    share = float(moved @ should / max(should @ should, 1e-30))
    if 1e-3 < share < 0.999:  # of another average, whatever it began with
        averages.append(np.append(found[0], found[:-1] + share * should))
    if any(np.abs(found - one).max() < may_leave for one in averages):
        raise Told(message, "running-average")
    ratio = found.sum() / right.sum()
    if np.abs(found - ratio * right).max() < may_leave:
        raise Told(f"{message} The ratio is always {ratio:.4g}.", "loss-times")


def _listed(losses: np.ndarray) -> str:
    return ", ".join(f"{one:.3f}" for one in losses)


def told_if_stepped_twice(steps: list[Steps]) -> None:
    """Raises `Told` if in each of these calls the same optimizer took several steps."""
    counts = [max((one.optimizers.count(each) for each in one.optimizers), default=0) for one in steps]
    if counts and min(counts) > 1:
        kind = type(steps[-1].optimizers[0]).__name__
        raise Told(f"in one call of `learn`, {kind} takes {min(counts)} steps.", "several-steps")


def told_if_copied(own: Own) -> None:
    """Raises `Told` if `weights` returns copies, so that nothing that is done to them reaches the model."""
    arrays, ids = list(trained_arrays(own).values()), asked(own)[0]
    if not arrays or not own.has("logits"):
        return
    was, kept = own.logits(ids), [one.copy() for one in arrays]
    try:
        for one in arrays:
            one[...] = 1.5 * one + 0.1
        again = list(trained_arrays(own).values())
        anew = len(again) == len(kept) and all(map(np.array_equal, again, kept))
        same = anew and np.array_equal(own.logits(ids), was)
    except Wrong:
        return  # they are not: the model has noticed
    finally:
        for one, its in zip(arrays, kept, strict=True):
            one[...] = its
    if same:
        message = "the arrays that `weights` returned were changed, and `logits` stayed as it was."
        raise Told(message, "weights-copied")


def told_if_some_change_nothing(moved: list[bool]) -> None:
    """Raises `Told` if a step that changes weights is followed by one that does not, and later by one that does."""
    between = moved[moved.index(True) : len(moved) - moved[::-1].index(True)] if True in moved else []
    if not all(between):
        which = ", ".join(str(i) for i, one in enumerate(moved, 1) if not one)
        raise Told(
            f"of {len(moved)} steps on one batch, those with these numbers changed no weight: {which}.",
            "steps-left-out",
        )
