"""Measures what a design draws, and which ids of a text it reads.

Fresh weights are small, so the likeliest id hardly depends on the beginning of a text. At loud weights it does: there,
at temperature 0, a text shows which ids were read for each new one.
"""

import math
from contextlib import AbstractContextManager

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told
from .loud import loud_weights
from .texts import IMMENSE, half, is_likeliest, prompt_of, written

PROMPTS = 12
NEW = 4  # ids
LUCK = 14.0  # the logarithm of how rarely right draws are called wrong
FEW = 100  # ids: with more, not every one can be waited for
Choice = tuple[list[int], int]  # a new id at temperature 0, after the text before it


def loud(gpt: GPT, piece: str) -> AbstractContextManager:
    """Makes the weights loud where they can be changed and this piece notices; leaves them as they are elsewhere."""

    def texts() -> np.ndarray:
        prompts = [prompt_of(gpt, seed=seed) for seed in range(3)]
        return np.array([written(gpt, prompt, NEW, 0, 0, piece) for prompt in prompts], dtype=float)

    return loud_weights(gpt, texts, biases=False)


def warm(gpt: GPT) -> float:
    """Returns a temperature at which small differences in the logits of a long text show in what is drawn."""
    return max(1e-3, half(gpt.logits(prompt_of(gpt, gpt.context_length))[-1]))


def choices(gpt: GPT, n: int, prompts: int = PROMPTS) -> list[Choice]:
    """Returns the new ids at temperature 0 after prompts of n ids, with the texts before them."""
    chosen = []
    for seed in range(prompts):
        text = prompt_of(gpt, n, seed).tolist()
        for new in written(gpt, np.array(text), NEW, 0, 0):
            chosen.append((list(text), new))
            text.append(new)
    return chosen


def told_if_misread(gpt: GPT, chosen: list[Choice], message: str) -> None:
    """Raises `Told` if the new ids are not the likeliest after their texts, or after the last `context_length` ids.

    Args:
        gpt: the reader's design, with weights at which this shows.
        chosen: new ids, and the texts before them.
        message: what is told, with the length of the first text that is misread in the place of "{}".
    """
    context = gpt.context_length

    def explains(start: int | None, stop: int | None) -> bool:
        try:
            return all(
                text[start:stop] and is_likeliest(gpt.logits(np.array(text[start:stop]))[-1], new)
                for text, new in chosen
            )
        except (Wrong, IndexError):  # this model cannot read so much
            return False

    misread = [
        text for text, new in chosen if not is_likeliest(gpt.logits(np.array(text[-context:]))[-1], new)
    ]
    if not misread:
        return
    message = message.format(len(misread[0]))
    longest = max(len(text) for text, _ in chosen)
    shortest = min(len(text) for text, _ in chosen)
    if longest <= context:  # later, a text often repeats itself, and such readings explain it by chance
        for mistake, stop in (("first-row", 1), ("first-row", -1), ("new-not-read", shortest)):
            if explains(None, stop):
                raise Told(message, mistake)
    lengths = [n for n in range(1, longest + 1) if n != context and explains(-n, None)]
    if lengths:
        message += f" It seems to read the last {lengths[0]}." if len(lengths) == 1 else ""
        nearest = min(lengths, key=lambda n: abs(n - context))
        raise Told(message, "window-short" if nearest < context else "window-beyond")
    raise Told(message, "context-full" if longest > context and explains(0, context) else "not-greedy")


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


def told_if_cut_off(gpt: GPT, prompt: np.ndarray, message: str = "") -> None:
    """Checks that even the least likely ids can be drawn. Right draws fail this once in a million times.

    Where all V ids are equally likely, one of the m least likely comes in N draws, except once in (1 − m/V)^-N times.
    With few ids it is drawn until each of them has come.
    """
    V, came = gpt.vocab_size, set[int]()
    most = math.ceil(V * (math.log(V) + LUCK)) if V <= FEW else 300
    for n in range(0, most, 50):
        came.update(drawn(gpt, prompt, IMMENSE, range(n, n + 50)).tolist())
        if len(came) == V:
            return
    likeliest_first = np.argsort(-gpt.logits(prompt)[-1], kind="stable").tolist()
    last = max(i for i, one in enumerate(likeliest_first) if one in came)
    if V > FEW and V - 1 - last <= V * LUCK / most:
        return
    missing = [one for one in likeliest_first if one not in came]
    which = f"{len(missing)} ids never came, such as {missing[-1]}"
    if last < len(came):
        which += " (they are those that your model finds least likely)"
    said = f"in {most} draws at a temperature that makes all {V} ids equally likely, {which}."
    raise Told(f"{message} {said[0].upper() + said[1:]}" if message else said, "cut-off")
