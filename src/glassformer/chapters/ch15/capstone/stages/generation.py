"""The stage *generation*: it writes, reading the whole text again for each id."""

import numpy as np

from glassformer.exercises.expect import Wrong
from glassformer.scratch import softmax

from ..adapter import GPT, Told
from ..measures.comparing import steady
from ..measures.texts import IMMENSE, LONG, PROMPT, half, prompt_of, written
from ..measures.writing import choices, drawn, fits, loud, told_if_cut_off, told_if_misread
from .stage import Stage

generation = Stage("generation")

DRAWS, MORE = 80, 400  # of one id; more if these leave a doubt of so many standard deviations
DOUBT = 2.0
APART = 0.4  # between two distributions that draws can tell apart
FEW = 200  # ids: with more, not every one can be waited for


@generation.check("n more ids follow the prompt")
def _(gpt: GPT) -> None:
    steady(gpt, prompt_of(gpt))
    for n in (1, 5):
        written(gpt, prompt_of(gpt), n, 1.0, 0)


@generation.check("at temperature 0 it always takes the likeliest id")
def _(gpt: GPT) -> None:
    try:
        chosen = choices(gpt, PROMPT)
    except Wrong as wrong:
        if wrong.__cause__ is None:  # it has returned something
            raise
        raise Told(f"{str(wrong).rstrip('.')}.", "divides-by-zero") from wrong
    message = "after {} ids it does not write the likeliest id, according to `logits`."
    told_if_misread(gpt, chosen, message)
    with loud(gpt, "generate"):  # what it reads shows where the likeliest id depends on it
        told_if_misread(gpt, choices(gpt, PROMPT, 4), f"with other weights, {message}")


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
        ids, want = drawn(gpt, prompt, temperature, range(DRAWS)), softmax(logits / temperature)
        if fits(ids, want, DOUBT):
            continue
        ids = np.concatenate([ids, drawn(gpt, prompt, temperature, range(DRAWS, MORE))])
        if not fits(ids, want):
            _tell_how_drawn(gpt, prompt, temperature, ids)


def _tell_how_drawn(gpt: GPT, prompt: np.ndarray, temperature: float, ids: np.ndarray) -> None:
    """Raises `Told` about draws that do not fit: what they are drawn from, as far as that is known."""
    logits = gpt.logits(prompt)[-1]
    want, plain, low = softmax(logits / temperature), softmax(logits), half(logits)
    best = int(want.argmax())
    message = f"at temperature {temperature:.3g} id {best} should come {want[best]:.0%} of the time; in "
    message += f"{len(ids)} draws it came {np.mean(ids == best):.0%}."
    # What is drawn at each temperature, and at another one, where the likeliest id would then come half of the time
    for mistake, other, used in (
        ("drawn-sorted", 2 * low, lambda temperature: np.sort(softmax(logits / temperature))[::-1]),
        ("drawn-sorted", 2 * low, lambda temperature: np.sort(softmax(logits / temperature))),
        ("temperature-times", 1 / low, lambda temperature: softmax(logits * temperature)),
        ("temperature-after", half(plain), lambda temperature: softmax(plain / temperature)),
        ("temperature-ignored", low / 2, lambda temperature: plain),
    ):
        p = used(temperature)
        if np.abs(p - want).sum() < APART or not fits(ids, p):
            continue
        if fits(drawn(gpt, prompt, other, range(MORE)), used(other)):
            raise Told(message, mistake)
    told_if_cut_off(gpt, prompt, message)
    raise Told(message, "drawn-otherwise")


@generation.check("each draw has a random number of its own")
def _(gpt: GPT) -> None:
    # At an immense temperature all ids are equally likely, so each draw shows the random number itself.
    repeats = [len(set(written(gpt, prompt_of(gpt), 8, IMMENSE, seed))) for seed in range(3)]
    if gpt.vocab_size > 20 and max(repeats) <= 2:
        message = "although all ids are equally likely, it writes one of them again and again."
        raise Told(message, "seed-each-step")


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
            f"`generate` works while a text fits into the context of {context} ids, but not later: {wrong}"
        )
        raise Told(message, "context-error") from wrong
    if context <= LONG:
        with loud(gpt, "generate"):
            message = f"after {{}} ids, it does not write what `logits` of the last {context} predicts."
            told_if_misread(gpt, choices(gpt, context - 1), message)
    if gpt.vocab_size <= FEW:  # an id at which it stops comes among many draws of all ids
        written(gpt, prompt_of(gpt), 2 * gpt.vocab_size, IMMENSE, 0)


generation.your_own_code("generate", lambda gpt: written(gpt, prompt_of(gpt), 2, 1.0, 0))
