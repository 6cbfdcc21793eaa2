"""Measures what a design draws, and which ids of a long text it reads.

Fresh weights are small, so the likeliest id hardly depends on the beginning of a text. At loud weights it does: there,
at temperature 0, a text shows which ids were read for each new one.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told
from .loud import loud_weights
from .texts import IMMENSE, end_of, half, is_likeliest, prompt_of, softmax, written

PROMPTS = 12
NEW = 4  # ids
LUCK = 14.0  # the logarithm of how rarely right draws are called wrong


@contextlib.contextmanager
def loud(gpt: GPT, piece: str) -> Iterator[None]:
    """Makes the weights loud where they can be changed and this piece notices; leaves them as they are elsewhere.

    A design that computes with copies of its weights, such as joined matrices, does not notice.
    """

    def texts() -> list[list[int]]:
        return [written(gpt, prompt_of(gpt, seed=seed), NEW, 0, 0, piece) for seed in range(3)]

    before = texts()
    with loud_weights(gpt, lambda: gpt.logits(prompt_of(gpt))) as changed:
        if changed and texts() != before:
            yield
            return
    yield


def warm(gpt: GPT) -> float:
    """Returns a temperature at which small differences in the logits of a long text show in what is drawn."""
    return max(1e-3, half(gpt.logits(prompt_of(gpt, gpt.context_length))[-1]))


@dataclass(frozen=True)
class Choice:
    """A new id at temperature 0, and the text after which it came."""

    text: tuple[int, ...]
    new: int

    def fits(self, gpt: GPT, start: int, stop: int | None = None) -> bool:
        """Returns whether it is the likeliest after a part of the text; none is if the model cannot read that part."""
        part = self.text[slice(start, stop)]
        try:
            return bool(part) and is_likeliest(gpt.logits(np.array(part))[-1], self.new)
        except (Wrong, IndexError):
            return False


def choices(gpt: GPT, n: int, piece: str = "generate", prompts: int = PROMPTS) -> list[Choice]:
    """Returns the new ids at temperature 0 after prompts of n ids, with the texts before them."""
    found = []
    for seed in range(prompts):
        text = prompt_of(gpt, n, seed).tolist()
        for one in written(gpt, np.array(text), NEW, 0, 0, piece):
            found.append(Choice(tuple(text), one))
            text.append(one)
    return found


def told_if_misread(gpt: GPT, mistakes: dict[str, str], piece: str = "generate") -> None:
    """Raises `Told` if a text that is longer than the context is not read from its last `context_length` ids.

    Args:
        gpt: the reader's design, with weights at which this shows.
        mistakes: what to tell if it reads too few, too many ("short", "beyond"), or not the end ("other").
        piece: which writes.
    """
    context = gpt.context_length
    found = choices(gpt, context - 1, piece)
    wrong = [one for one in found if not is_likeliest(end_of(gpt, list(one.text)), one.new)]
    if not wrong:
        return
    at = wrong[0]
    message = f"after a text of {len(at.text)} ids, `{piece}` writes {at.new}, which is not what `logits` of the last "
    message += f"{context} predicts."
    longest = max(len(one.text) for one in found)
    for n in [*range(context - 1, 0, -1), *range(context + 1, longest + 1)]:
        if all(one.fits(gpt, -n) for one in found):
            raise Told(
                f"{message} It seems to read the last {n}.", mistakes["short" if n < context else "beyond"]
            )
    if all(one.fits(gpt, 0, context) for one in found):
        raise Told(f"{message} It seems to read the first {context}.", mistakes["other"])
    raise Told(message, mistakes["other"])


def drawn(gpt: GPT, prompt: np.ndarray, temperature: float, seeds: range) -> np.ndarray:
    """Returns the next id, once for each seed."""
    return np.array([written(gpt, prompt, 1, temperature, seed)[0] for seed in seeds])


def fits(ids: np.ndarray, p: np.ndarray, sigmas: float = 4.0) -> bool:
    """Returns whether ids may come from a distribution: how often they come, how many of them, the mean log p."""
    best, luck = p.argmax(), sigmas / np.sqrt(len(ids))
    log_p = np.log(np.maximum(p, 1e-12))
    mean = p @ log_p
    spread = np.sqrt(max(0.0, p @ log_p**2 - mean**2))
    often = abs(np.mean(ids == best) - p[best]) < luck * np.sqrt(p[best] * (1 - p[best])) + 0.02
    most = np.bincount(ids).argmax()  # an id that is no favorite must not be drawn like one
    often &= np.mean(ids == most) - p[most] < 1.5 * luck * np.sqrt(p[most]) + 0.04
    cumulated = np.cumsum(np.bincount(ids, minlength=len(p)) / len(ids) - p)
    often &= np.abs(cumulated).max() < 0.7 * luck + 0.02
    several = len(set(ids.tolist())) > 0.5 * (1 - (1 - p) ** len(ids)).sum()
    return bool(often and several and abs(log_p[ids].mean() - mean) < luck * spread + 0.02)


def of_mistakes(gpt: GPT, prompt: np.ndarray, temperature: float) -> dict[str, np.ndarray]:
    """Returns from which probabilities the next id is drawn, if a mistake is made; "" is right."""
    logits = gpt.logits(prompt)
    want = softmax(logits[-1] / temperature)
    most = np.maximum.accumulate(np.append(0, want))
    return {
        "": want,
        "first-row": softmax(logits[0] / temperature),
        "reads-only-new": softmax(gpt.logits(prompt[-1:])[-1] / temperature),
        "drawn-next": np.roll(want, 1),
        "drawn-previous": np.roll(want, -1),
        "drawn-sorted": np.sort(want)[::-1],
        "drawn-sorted/rising": np.sort(want),
        "not-cumulated": np.diff(most) + (1 - want.max()) * (np.arange(len(want)) == 0),
    }


def told_if_cut_off(gpt: GPT, prompt: np.ndarray, message: str = "") -> None:
    """Checks that even the least likely ids can be drawn. Right draws fail this once in a million times.

    Where all V ids are equally likely, one of the m least likely comes in N draws, except once in (1 − m/V)^-N times.
    With few ids it is drawn until each of them has come.
    """
    V = gpt.vocab_size
    order = np.argsort(np.argsort(-gpt.logits(prompt)[-1]))  # 0 is the likeliest
    few = V <= 100
    most = math.ceil(V * (math.log(V) + LUCK)) if few else 300
    came: set[int] = set()
    n = 0
    while n < most and len(came) < V:
        step = min(50, most - n)
        came.update(drawn(gpt, prompt, IMMENSE, range(n, n + step)).tolist())
        n += step
        if not few and max(order[list(came)]) >= V * math.exp(-LUCK / n):
            return
    missing = sorted(set(range(V)) - came, key=lambda id: int(order[id]))
    if not missing:
        return
    if not few:
        missing = [id for id in missing if order[id] > max(order[list(came)])]
    which = f"{len(missing)} ids never came, such as {missing[-1]}"
    if all(order[id] >= V - len(missing) for id in missing):
        which += " (they are those that your model finds least likely)"
    said = f"in {n} draws at a temperature that makes all {V} ids equally likely, {which}."
    raise Told(f"{message} {said[0].upper() + said[1:]}" if message else said, "cut-off")
