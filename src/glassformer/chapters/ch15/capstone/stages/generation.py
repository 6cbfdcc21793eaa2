"""The stage *generation*: it writes, reading the whole text again for each id."""

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told
from ..measures.comparing import steady
from ..measures.texts import IMMENSE, LONG, half, is_likeliest, prompt_of, softmax, written
from ..measures.writing import (
    Choice,
    choices,
    drawn,
    fits,
    loud,
    of_mistakes,
    told_if_cut_off,
    told_if_misread,
)
from .stage import Stage

generation = Stage("generation")

DRAWS, MORE = 80, 400  # of one id; more if these leave a doubt of so many standard deviations
DOUBT = 2.0
FEW = 200  # ids: with more, not every one can be waited for
WINDOWS = {"short": "window-short", "beyond": "window-beyond", "other": "context-full"}


@generation.check("n more ids follow the prompt")
def _(gpt: GPT) -> None:
    steady(gpt, prompt_of(gpt))
    for n in (1, 5):
        written(gpt, prompt_of(gpt), n, 1.0, 0)


@generation.check("at temperature 0 it always takes the likeliest id")
def _(gpt: GPT) -> None:
    try:
        found = choices(gpt, len(prompt_of(gpt)))
    except Wrong as wrong:
        if wrong.__cause__ is None:  # it has returned something
            raise
        raise Told(f"{str(wrong).rstrip('.')}.", "divides-by-zero") from wrong
    for one in found:
        if not one.fits(gpt, 0):
            best = int(gpt.logits(np.array(one.text))[-1].argmax())
            message = f"after {len(one.text)} ids it writes {one.new}; according to `logits`, {best} is the likeliest."
            _greedy_otherwise(gpt, found, message)
    with loud(gpt, "generate"):  # what it reads shows where the likeliest id depends on it
        found = choices(gpt, len(prompt_of(gpt)), prompts=4)
        wrong = [one for one in found if not one.fits(gpt, 0)]
        if wrong:
            message = (
                f"with other weights, after {len(wrong[0].text)} ids, it does not write the likeliest id."
            )
            _greedy_otherwise(gpt, found, message)


def _greedy_otherwise(gpt: GPT, found: list[Choice], message: str) -> None:
    """Raises `Told` about ids that are not the likeliest after the whole text, but perhaps after something else."""

    def row(one: Choice, at: int, ids: tuple[int, ...] | None = None) -> bool:
        return is_likeliest(gpt.logits(np.array(ids or one.text))[at], one.new)

    P = len(prompt_of(gpt))
    for mistake, explains in (
        ("reads-only-new", lambda one: one.fits(gpt, -1)),
        ("first-row", lambda one: row(one, 0)),
        ("first-row", lambda one: row(one, -2)),
        ("new-not-read", lambda one: one.fits(gpt, 0, P)),
        ("reads-backwards", lambda one: row(one, -1, one.text[::-1])),
    ):
        if all(map(explains, found)):
            raise Told(message, mistake)
    for n in range(2, len(found[-1].text)):
        if all(one.fits(gpt, -n) for one in found):
            raise Told(f"{message} It seems to read only the last {n} ids.", "window-short")
    raise Told(message, "not-greedy")


@generation.check("the same seed writes the same text, and different seeds write different texts")
def _(gpt: GPT) -> None:
    prompt = prompt_of(gpt)
    # A model may be so sure at temperature 1 that every seed writes the same text, so a higher one is used.
    warm = max(1.0, 4 * half(gpt.logits(prompt)[-1]))
    same = [written(gpt, prompt, 12, warm, 3) for _ in range(2)]
    if same[0] != same[1]:
        raise Told("seed 3 was used twice.", "seed-ignored")
    texts = [written(gpt, prompt, 12, warm, seed) for seed in range(4)]
    if all(one == texts[0] for one in texts):
        greedy = texts[0] == written(gpt, prompt, 12, 0, 0)
        raise Told("seeds 0 to 3 wrote the same text.", "always-greedy" if greedy else "seed-fixed")


@generation.check("it draws from softmax(logits / temperature)")
def _(gpt: GPT) -> None:
    prompt = prompt_of(gpt)
    logits = gpt.logits(prompt)[-1]
    low = half(logits)
    for temperature in (low, 2 * low):
        ids = drawn(gpt, prompt, temperature, range(DRAWS))
        others = of_mistakes(gpt, prompt, temperature)
        want = others.pop("")
        if fits(ids, want, DOUBT):
            continue
        ids = np.concatenate([ids, drawn(gpt, prompt, temperature, range(DRAWS, MORE))])
        if fits(ids, want):
            continue
        best = int(want.argmax())
        message = f"at temperature {temperature:.3g} id {best} should come {want[best]:.0%} of the time; in "
        message += f"{len(ids)} draws it came {np.mean(ids == best):.0%}."
        for mistake, p in others.items():
            if fits(ids, p) and np.abs(p - want).sum() > 0.4:
                raise Told(message, mistake.partition("/")[0])
        _another_temperature(gpt, prompt, temperature, ids, message)


def _another_temperature(
    gpt: GPT, prompt: np.ndarray, temperature: float, ids: np.ndarray, message: str
) -> None:
    """Raises `Told` about draws that do not fit: some ids never come, or the temperature is used in another way."""
    logits = gpt.logits(prompt)[-1]
    plain, low = softmax(logits), half(logits)
    flat = drawn(gpt, prompt, IMMENSE, range(DRAWS))
    # What is drawn where all ids are equally likely shows what is cut off; but not if the temperature is not used.
    if len(set(flat.tolist())) > 1 and not (plain.max() > 3 / gpt.vocab_size and fits(flat, plain)):
        told_if_cut_off(gpt, prompt, message)
    # A wrong use of the temperature shows best where the likeliest id would then come half of the time.
    for mistake, other, used in (
        ("temperature-times", 1 / low, lambda temperature: softmax(logits * temperature)),
        ("temperature-after", half(plain), lambda temperature: softmax(plain / temperature)),
    ):
        if fits(ids, used(temperature)) and fits(drawn(gpt, prompt, other, range(MORE)), used(other)):
            raise Told(message, mistake)
    raise Told(message, "temperature-ignored" if fits(ids, plain) else "drawn-otherwise")


@generation.check("each draw has a random number of its own")
def _(gpt: GPT) -> None:
    # At an immense temperature all ids are equally likely, so each draw shows the random number itself.
    repeats = [len(set(written(gpt, prompt_of(gpt), 8, IMMENSE, seed))) for seed in range(3)]
    if gpt.vocab_size > 20 and max(repeats) <= 2:
        raise Told(
            "although all ids are equally likely, it writes one of them again and again.", "seed-each-step"
        )


@generation.check("every id can come")
def _(gpt: GPT) -> None:
    told_if_cut_off(gpt, prompt_of(gpt))


@generation.check("a text may grow longer than the context")
def _(gpt: GPT) -> None:
    context = gpt.context_length
    try:
        written(gpt, prompt_of(gpt, context - 1), 4, 0, 0)
    except Wrong as wrong:
        message = (
            f"`generate` works while the text fits into the context of {context} ids, but not later: {wrong}"
        )
        raise Told(message, "context-error") from wrong
    if context <= LONG:
        with loud(gpt, "generate"):
            told_if_misread(gpt, WINDOWS)
    if gpt.vocab_size <= FEW:  # an id at which it stops comes among many draws of all ids
        written(gpt, prompt_of(gpt), 2 * gpt.vocab_size, IMMENSE, 0)


generation.your_own_code("generate", lambda gpt: written(gpt, prompt_of(gpt), 2, 1.0, 0))
