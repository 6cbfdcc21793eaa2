"""Measures what a block makes of a stream, and what a model makes of its earlier ids."""

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, LeaveOut, Missing, Told
from .comparing import differs
from .texts import some_ids

HEARD = (
    0.03  # relative: so much earlier rows must matter before their order is judged, which matters far less
)


def stream(gpt: GPT, seed: int = 7, rows: int = 9) -> np.ndarray:
    """Returns a stream of random numbers, (T, D)."""
    return np.random.default_rng(seed).normal(size=(rows, gpt.width))


def through(gpt: GPT, x: np.ndarray) -> np.ndarray:
    """Returns what a block makes of a stream (T, D), if it is made of numbers."""
    found = gpt.array("block", x, axes="T D", what=f"`block` of (T, D) = {x.shape}")
    if found.shape != x.shape:
        raise Wrong(f"`block` of (T, D) = {x.shape} should have the same shape; yours has {found.shape}.")
    lost = np.flatnonzero(~np.isfinite(found).all(axis=-1))
    if len(lost):
        message = f"for a stream of shape (T, D) = {x.shape}, `block` returns {found[~np.isfinite(found)][0]}"
        if lost.tolist() == [0] and len(x) > 1:
            raise Told(f"{message} in row 0, and numbers in all other rows.", "mask-of-self")
        raise Wrong(f"{message} in row {lost[0]}.")
    return found


def deaf(gpt: GPT, message: str, looked: bool) -> Told | LeaveOut:
    """Returns the failure of a design that ignores earlier positions, if other weights were tried, too."""
    if looked or gpt.has("learn"):
        return Told(message, "blind")
    return LeaveOut(
        f"{message} Either attention does not look back, or what it adds starts at 0. To find out, the checker has to "
        "change your weights: write `weights` or `learn` first."
    )


def heard(gpt: GPT) -> list[int]:
    """Returns the positions on which a block's last row depends. It need not look at every other."""

    def hears(at: int, seed: int) -> bool:
        x, other = stream(gpt, seed), stream(gpt, seed)
        other[at] = 3 * stream(gpt, 50 + seed)[0]
        return 8 in differs(through(gpt, other), through(gpt, x))

    return [at for at in range(8) if any(hears(at, seed) for seed in range(4))]


def read(gpt: GPT) -> list[int]:
    """Returns the ids on which the last of twelve rows of logits depends."""

    def reads(at: int, seed: int) -> bool:
        ids, other = some_ids(gpt, 12, seed), some_ids(gpt, 12, seed)
        other[at] = (ids[at] + 1) % gpt.vocab_size
        return 11 in differs(gpt.logits(other), gpt.logits(ids))

    return [at for at in range(11) if any(reads(at, seed) for seed in range(4))]


def alike(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the average cosine between their rows, each less its mean."""
    rows = zip(x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True), strict=True)
    return float(np.mean([a @ b / np.sqrt((a @ a) * (b @ b) + 1e-30) for a, b in rows]))


def audible(gpt: GPT) -> bool:
    """Returns whether other earlier ids, and other rows of a block, change the last row by far more than order."""
    ids, V = some_ids(gpt, 12), gpt.vocab_size
    others = np.concatenate([(ids[:-1] + 1) % V, ids[-1:]])
    pairs = [[gpt.logits(one)[-1] for one in (ids, others)]]
    if gpt.has("block"):
        x = stream(gpt)
        pairs.append([through(gpt, one)[-1] for one in (x, np.concatenate([-x[:-1], x[-1:]]))])
    return all(np.abs(one - other).max() > HEARD * np.abs(one).max() for one, other in pairs)


def without_order(gpt: GPT) -> str:
    """Returns how it shows that the model ignores the order of its ids; "" if it does not ignore it."""
    ids = some_ids(gpt, 12)
    swapped = ids.copy()
    swapped[[1, 4]] = ids[[4, 1]]
    if 11 not in differs(gpt.logits(swapped), gpt.logits(ids)):
        return "two earlier ids were exchanged, and the last row of `logits` did not change."
    # With more than one block, the causal mask alone lets some order through. Then a text of one repeated id shows
    # whether positions come in at the beginning, and a block shows whether they come in through attention.
    same = gpt.logits(np.full(12, ids[0]))
    if len(differs(same, np.broadcast_to(same[:1], same.shape))):
        return ""
    try:
        x = stream(gpt)
        if 8 in differs(through(gpt, np.concatenate([x[[2, 0, 3, 1]], x[4:]])), through(gpt, x)):
            return ""
    except Missing:
        return ""
    return "the order of the earlier rows makes no difference to a block's last row."
