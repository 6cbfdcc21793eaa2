"""Finds out from what a design draws which ids of a long text it reads, and in what two ways of writing differ.

With one seed, the text changes at certain temperatures, where a draw is at the edge between two ids. Just below and
just above such a temperature, even a tiny change of the logits shows in the text. So if an id is replaced and the
text stays the same at both, that id is not read.
"""

from dataclasses import dataclass

import numpy as np

from glassformer.exercises.expect import Wrong

from .adapter import Own
from .texts import IMMENSE, half, prompt_of, written

NEAR = 1e-5  # relative: two temperatures this near each other
CLEAR = 100 * NEAR  # relative to the temperature: a change of the logits that must show between them
SEEDS, TRIALS, AGREE = (
    16,
    4,
    3,
)  # seeds tried; trials made; trials that must agree, since one alone may be chance
DRAWN = 12  # ids


def warm(own: Own) -> float:
    """Returns a temperature at which small differences in the logits of a long text show in what is drawn."""
    return max(1e-3, half(own.logits(prompt_of(own, own.context_length))[-1]))


def tipping(
    own: Own, prompt: np.ndarray, n: int, seed: int, near: float, piece: str = "generate"
) -> tuple[float, ...]:
    """Returns two temperatures next to each other, with this seed, at which two different texts are written.

    There are none if the text is the same at all temperatures.
    """
    low, high = (warm(own) * times for times in (0.25, 4))
    text = written(own, prompt, n, low, seed, piece)
    if written(own, prompt, n, high, seed, piece) == text:
        return ()
    while high > (1 + near) * low:
        middle = float(np.sqrt(low * high))
        same = written(own, prompt, n, middle, seed, piece) == text
        low, high = (middle, high) if same else (low, middle)
    return low, high


@dataclass(frozen=True)
class _Trial:
    """A text at the two sides of a tipping temperature. Of its new ids, the last is the one that tips."""

    own: Own
    piece: str
    prompt: np.ndarray
    n: int
    seed: int
    temperatures: tuple[float, ...]
    texts: tuple[list[int], ...]

    def replaced(self, at: int) -> np.ndarray:
        """Returns the prompt with another id at a position."""
        other = self.prompt.copy()
        other[at] = (other[at] + 1) % self.own.vocab_size
        return other

    def shows(self, at: int) -> bool | None:
        """Returns whether another id at a position changes the id that tips; None if an id before it changes, too."""
        other = self.replaced(at)
        texts = [
            written(self.own, other, self.n, temperature, self.seed, self.piece)
            for temperature in self.temperatures
        ]
        if any(one[:-1] != was[:-1] for one, was in zip(texts, self.texts, strict=True)):
            return None
        return any(one != was for one, was in zip(texts, self.texts, strict=True))

    def should_show(self, at: int) -> bool:
        """Returns whether `logits` of the last `context_length` ids clearly depends on the id at a position."""
        new, context = self.texts[0][:-1], self.own.context_length
        ends = [
            self.own.logits(np.array([*one, *new][-context:]))[-1] for one in (self.prompt, self.replaced(at))
        ]
        changed = ends[1] - ends[0]
        return bool(np.ptp(changed) > CLEAR * self.temperatures[0])


def _trials(own: Own, piece: str, longer: int, n: int) -> list[_Trial]:
    """Returns texts whose nth new id tips; their prompts are this much longer than the context."""
    found: list[_Trial] = []
    for seed in range(SEEDS):
        prompt = prompt_of(own, own.context_length + longer, 50 + seed)
        temperatures = tipping(own, prompt, n, seed, NEAR, piece)
        if not temperatures:
            continue
        texts = tuple(written(own, prompt, n, one, seed, piece) for one in temperatures)
        if texts[0][:-1] == texts[1][:-1]:
            found.append(_Trial(own, piece, prompt, n, seed, temperatures, texts))
        if len(found) == TRIALS:
            break
    return found


@dataclass(frozen=True)
class Misread:
    """Describes what is wrong with what a piece reads of a text that is longer than the context.

    Attributes:
        beyond: whether it reads ids from before the last `context_length` ids, and not too few.
        said: what was seen.
    """

    beyond: bool
    said: str


@np.errstate(all="ignore")  # the temperatures may be lower than the design was made for
def misread(own: Own, piece: str) -> Misread | None:
    """Returns what is wrong with what a piece reads once the text has outgrown the context, or None if nothing is."""
    context = own.context_length
    for longer in (0, 3):
        n = 1 if longer else 2
        first = longer + n - 1  # of the last `context_length` ids that are read for the new id that tips
        try:
            trials = _trials(own, piece, longer, n)
        except Wrong:  # a prompt need not be longer than the context, nor a temperature so low
            continue
        if sum(bool(trial.shows(first - 1)) for trial in trials) >= 2:
            said = f"`{piece}` writes another text if an id before the last {context} ids is replaced."
            return Misread(beyond=True, said=said)
        reads = _reads(trials, first)
        if reads is not None:
            said = (
                f"In a text that is longer than the context of {context} ids, `{piece}` reads only the last "
            )
            return Misread(beyond=False, said=f"{said}{reads} id{'s' * (reads != 1)}.")
    return None


def _reads(trials: list[_Trial], first: int) -> int | None:
    """Returns how many ids are read if these are too few, by halving: what is not read is at the beginning."""
    context = trials[0].own.context_length if trials else 0

    def is_read(at: int) -> bool | None:
        clear = [trial.shows(at) for trial in trials if trial.should_show(at)]
        seen = [one for one in clear if one is not None]
        if any(seen):
            return True
        return False if len(seen) >= AGREE else None

    if not trials or is_read(first) is not False:
        return None
    low, high = first, len(trials[0].prompt) - 1  # the first is not read
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_read(middle) is False else (low, middle)
    return first + context - high


def draws_alike(own: Own, prompt: np.ndarray, n: int = DRAWN) -> bool:
    """Returns whether both ways of writing use the same random numbers, seen where all ids are equally likely."""
    return all(
        written(own, prompt, n, IMMENSE, seed) == written(own, prompt, n, IMMENSE, seed, "generate_cached")
        for seed in range(3)
    )
