"""Texts to learn from, and single training steps on them."""

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong
from glassformer.text import corpus

from .adapter import Missing, Own, Told
from .reading import ids_of
from .stage import differs
from .texts import asked

WAKING = 6  # times five steps, at most
# What PyTorch says if a backward pass finds something changed, or gone, and the mistake that it tells of.
TORCH_SAYS = {
    "modified by an inplace operation": "changed-before-backward",
    "through the graph a second time": "graph-kept",
}


def windows_of(own: Own, steps: int, T: int, texts: int) -> np.ndarray:
    """Returns windows of Shakespeare, (steps, texts, T + 1), in the reader's own ids, or in ids of the checker's."""
    if "text" not in own.found:
        text = corpus()[:60_000]
        letters = {one: i % own.vocab_size for i, one in enumerate(sorted(set(text)))}
        try:
            ids = ids_of(own, text) if own.has("encode") else np.array([letters[one] for one in text])
        except Wrong as wrong:
            if isinstance(wrong.__cause__, KeyError | ValueError):  # of a dictionary, and of str.index
                raise Told(f"{str(wrong).rstrip('.')}.", "text-unknown") from wrong
            raise
        own.found["text"] = ids
    ids = own.found["text"]
    starts = np.random.default_rng(2).integers(len(ids) - T - 1, size=(steps, texts))
    return ids[starts[..., None] + np.arange(T + 1)]


def learn(own: Own, windows: np.ndarray) -> float:
    """Takes a step on windows (texts, T + 1), or on the first of them if the adapter takes one text at a time."""
    if not own.batched:
        return _step(own, windows[0])
    own.batched = False  # the axis of texts is there already
    try:
        return _step(own, windows)
    finally:
        own.batched = True


def _step(own: Own, windows: np.ndarray) -> float:
    try:
        return own.number("learn", windows[..., :-1], windows[..., 1:])
    except Wrong as wrong:
        for said, mistake in TORCH_SAYS.items():
            if isinstance(wrong.__cause__, RuntimeError) and said in str(wrong.__cause__):
                raise Told(f"{str(wrong).rstrip('.')}.", mistake) from wrong.__cause__
        raise


def wake(own: Own, piece: str) -> None:
    """Takes a few training steps if weights start at zero, because such a model shows nothing yet, right or wrong.

    `piece` is what will be looked at, "block" or "logits".
    """
    for _ in range(WAKING):
        try:
            if not own.has("learn") or _listens(own, piece):
                return
            for windows in windows_of(own, 5, 12, 2):
                learn(own, windows)
        except (Wrong, Missing, NotAttempted):
            return  # the checks tell


def _listens(own: Own, piece: str) -> bool:
    """Returns whether the first position makes a difference to the last."""
    ids = asked(own)[0]
    if piece == "logits":
        other = ids.copy()
        other[0] = (ids[0] + 1) % own.vocab_size
        ends = [own.logits(one)[-1] for one in (ids, other)]
    else:
        x = np.random.default_rng(7).normal(size=(len(ids), own.width))
        y = np.concatenate([-x[:1], x[1:]])
        ends = [own.array("block", one, axes="T D")[-1] for one in (x, y)]
    return bool(len(differs(ends[0][None], ends[1][None])))
