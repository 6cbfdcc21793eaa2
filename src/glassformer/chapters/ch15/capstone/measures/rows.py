"""Measures which rows depend on which: those of a block's stream, and those of a model's logits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Missing, Told
from .comparing import close, differs
from .loud import loud_weights
from .texts import some_ids

# Relative: so much earlier rows must matter before their order, which matters far less, is judged.
HEARD = 0.03
SEEDS = range(4)


@dataclass(frozen=True)
class Rows:
    """A part of a reader's design that computes a row for each position of a text.

    Attributes:
        gpt: the design.
        what: each position holds, as a reader is told: an "id" or a "position" of a stream.
        run: computes the rows (T, …) of a text (T, …).
        some: makes a text of n positions, from a seed.
        replaced: returns a text with something else at one position.
    """

    gpt: GPT
    what: str
    run: Callable[[np.ndarray], np.ndarray]
    some: Callable[[int, int], np.ndarray]
    replaced: Callable[[np.ndarray, int], np.ndarray]

    def changed(self, text: np.ndarray, at: int) -> np.ndarray:
        """Returns the rows that change if something else is at one position.

        Raises:
            Told: an earlier one is among them.
        """
        rows = differs(self.run(self.replaced(text, at)), self.run(text))
        early = [int(row) for row in rows if row < at]
        if not early:
            return rows
        message = f"{self.what} {at} was replaced, and {'row' if len(early) == 1 else 'rows'} "
        message += f"{', '.join(map(str, early))} of the result changed."
        if early == [0]:
            message += " Only the first position sees everything, as it does if all its scores are hidden."
            raise Told(message, "mask-of-self")
        if early == [at - 1]:
            raise Told(message, "mask-one-ahead")
        if len(early) == at:
            raise Told(message, "leak-all" if rows[-1] > at else "mask-transposed")
        raise Told(message, "leak")

    def see_nothing_later(self, n: int, at: int, lengths: Sequence[int]) -> None:
        """Raises `Told` if a row depends on what comes later, among n positions or in texts of other lengths."""
        self.changed(self.some(n, 7), at)
        for T in lengths:
            try:
                self.changed(self.some(T, 7), T - 1)
            except Told as told:
                seen = str(told).split(". ")[0]
                message = f"with {n} positions none sees a later one; but with {T}, {seen}."
                raise Told(message, "mask-at-times") from told

    def reach_the_last(self, n: int) -> bool:
        """Returns whether the last of n rows depends on any position before it."""
        return any(n - 1 in self.changed(self.some(n, seed), at) for seed in SEEDS for at in range(n - 1))

    def told_if_deaf(self, n: int, message: str) -> None:
        """Raises `Told` if the last row depends on no earlier position, with loud weights, too."""
        if self.reach_the_last(n):
            return
        with loud_weights(self.gpt, lambda: self.run(self.some(n, 7))) as looked:
            if looked and self.reach_the_last(n):
                return
        if looked or self.gpt.has("learn"):
            raise Told(message, "blind")
        raise NotAttempted(
            f"{message} Either attention does not look back, or what it adds starts at 0. To find out, the checker has "
            "to change your weights: write `weights` or `learn` first."
        )

    def end_alike(self, text: np.ndarray) -> None:
        """Raises `Told` if the first rows change when the text ends after them."""
        whole = self.run(text)
        for n in (1, 4):
            if not close(self.run(text[:n]), whole[:n]):
                rows = f"the first {n} rows change" if n > 1 else "the first row changes"
                raise Told(f"{rows} if all later ones are removed.", "over-positions")


def of_block(gpt: GPT) -> Rows:
    """Returns the rows of a block's stream."""

    def replaced(x: np.ndarray, at: int) -> np.ndarray:
        other = x.copy()
        other[at] = 3 * stream(gpt, 1, 50 + at)[0]
        return other

    return Rows(gpt, "position", lambda x: through(gpt, x), lambda n, seed: stream(gpt, n, seed), replaced)


def of_model(gpt: GPT) -> Rows:
    """Returns the rows of a model's logits."""

    def replaced(ids: np.ndarray, at: int) -> np.ndarray:
        other = ids.copy()
        other[at] = (ids[at] + 1) % gpt.vocab_size
        return other

    return Rows(gpt, "id", gpt.logits, lambda n, seed: some_ids(gpt, n, seed), replaced)


def stream(gpt: GPT, n: int = 9, seed: int = 7) -> np.ndarray:
    """Returns a stream of random numbers, (n, D)."""
    return np.random.default_rng(seed).normal(size=(n, gpt.width))


def through(gpt: GPT, x: np.ndarray) -> np.ndarray:
    """Returns what a block makes of a stream (T, D), if it is made of numbers."""
    what = f"`block` of (T, D) = {x.shape}"
    out = gpt.array("block", x, axes="T D", what=what, shape=x.shape)
    lost = np.flatnonzero(~np.isfinite(out).all(axis=-1))
    if lost.tolist() == [0] and len(x) > 1:
        raise Told(f"{what} returns {out[0].sum()} in row 0, and numbers in all other rows.", "mask-of-self")
    if len(lost):
        raise Wrong(f"{what} returns {out[lost[0]].sum()} in row {lost[0]}.")
    return out


def audible(gpt: GPT) -> bool:
    """Returns whether other earlier ids, and other rows of a block, change the last row by far more than order."""
    ids, V = some_ids(gpt, 12), gpt.vocab_size
    pairs = [[gpt.logits(one)[-1] for one in (ids, np.append((ids[:-1] + 1) % V, ids[-1:]))]]
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
