"""The stage *generation*: it writes, reading the whole text again for each id."""

import math
from collections.abc import Callable

import numpy as np

from glassformer.exercises.expect import Wrong

from .adapter import Own, Told
from .origin import your_own_code
from .stage import Stage, steady
from .texts import IMMENSE, LONG, half, likeliest, prompt_of, softmax, written
from .window import misread

generation = Stage("generation")

DRAWS, MORE = 80, 400  # of one id; more if these leave a doubt of so many standard deviations
DOUBT = 2.0
SURE = 0.98  # a probability that leaves nothing to draw
FEW = 200  # ids: with more, not every one can be waited for
POWER = 0.2  # how far a measured power of the temperature may be off
SAME = 1.4  # times: how far apart two measurements of what multiplies it may be
LUCK = 14.0  # the logarithm of how rarely right draws are called wrong


def _telling(own: Own) -> np.ndarray:
    """Returns a prompt after which another id is likeliest than after its last id alone, if there is one."""
    for seed in range(60):
        prompt = prompt_of(own, seed=seed)
        if own.logits(prompt)[-1].argmax() != own.logits(prompt[-1:])[-1].argmax():
            return prompt
    return prompt_of(own)


def _last(own: Own, ids: list[int]) -> np.ndarray:
    return own.logits(np.array(ids[-own.context_length :]))[-1]


@generation.check("n more ids follow the prompt")
def _(own: Own) -> None:
    for n in (1, 5):
        written(own, prompt_of(own), n, 1.0, 0)


@generation.check("at temperature 0 it always takes the likeliest id")
def _(own: Own) -> None:
    prompt = _telling(own)
    try:
        text, new = prompt.tolist(), written(own, prompt, 8, 0, 0)
    except Wrong as wrong:
        if wrong.__cause__ is None:  # it has returned something
            raise
        raise Told(f"{str(wrong).rstrip('.')}.", "divides-by-zero") from wrong
    for i, one in enumerate(new):
        if not likeliest(own, text[-own.context_length :], one):
            best = int(_last(own, text).argmax())
            message = f"new id {i} is {one}; according to `logits`, {best} is the likeliest."
            steady(own, np.array(text))
            _greedy_otherwise(own, prompt.tolist(), new, message)
            raise Told(message, "not-greedy")
        text.append(one)


def _greedy_otherwise(own: Own, prompt: list[int], new: list[int], message: str) -> None:
    """Raises `Told` if each new id is the likeliest after something else than the whole text."""
    texts = [[*prompt, *new[:i]] for i in range(len(new))]

    def fits(read: Callable[[list[int]], list[int]], row: int = -1) -> bool:
        if any(len(read(text)) < abs(row) for text in texts):
            return False
        rows = [own.logits(np.array(read(text)))[row] for text in texts]
        return all(
            bool(its[one] >= its.max() - 1e-5 * max(1.0, abs(its.max())))
            for its, one in zip(rows, new, strict=True)
        )

    for mistake, read, row in (
        ("reads-only-new", lambda text: text[-1:], -1),
        ("first-row", lambda text: text, 0),
        ("first-row", lambda text: text, -2),
        ("new-not-read", lambda text: prompt, -1),
        ("reads-backwards", lambda text: text[::-1], -1),
    ):
        if fits(read, row):
            raise Told(message, mistake)
    for n in range(2, len(texts[-1])):
        if fits(lambda text, n=n: text[-n:]):
            raise Told(f"{message} It seems to read only the last {n} ids.", "window-short")
    if all(one == _likeliest_new(own, text) for text, one in zip(texts, new, strict=True)):
        raise Told(f"{message} All likelier ids occur in the text already.", "repeats-forbidden")


def _likeliest_new(own: Own, text: list[int]) -> int:
    """Returns the likeliest id that does not occur in a text."""
    logits = _last(own, text).copy()
    logits[text] = -np.inf
    return int(logits.argmax())


@generation.check("the same seed writes the same text, and different seeds write different texts")
def _(own: Own) -> None:
    prompt = prompt_of(own)
    # A model may be so sure at temperature 1 that every seed writes the same text, so a higher one is used.
    warm = max(1.0, 4 * half(_last(own, prompt.tolist())))
    same = [written(own, prompt, 12, warm, 3) for _ in range(2)]
    if same[0] != same[1]:
        raise Told("seed 3 was used twice.", "seed-ignored")
    texts = [written(own, prompt, 12, warm, seed) for seed in range(4)]
    if all(one == texts[0] for one in texts):
        greedy = texts[0] == written(own, prompt, 12, 0, 0)
        raise Told("seeds 0 to 3 wrote the same text.", "always-greedy" if greedy else "seed-fixed")


@generation.check("it draws from softmax(logits / temperature)")
def _(own: Own) -> None:
    prompt = prompt_of(own)
    logits = _last(own, prompt.tolist())
    low = half(logits)
    for temperature in (low, 2 * low):
        drawn = _drawn(own, prompt, temperature)
        want = softmax(logits / temperature)
        if _fits(drawn, want, DOUBT):
            continue
        drawn = np.concatenate([drawn, _drawn(own, prompt, temperature, range(DRAWS, MORE))])
        if _fits(drawn, want):
            continue
        best = int(want.argmax())
        message = (
            f"at temperature {temperature:.3g} id {best} should come {want[best]:.0%} of the time; in "
            f"{len(drawn)} draws it came {np.mean(drawn == best):.0%}."
        )
        others = {
            "first-row": softmax(own.logits(prompt)[0] / temperature),
            "reads-only-new": softmax(own.logits(prompt[-1:])[-1] / temperature),
        }
        for by, neighbour in ((1, "next"), (-1, "previous")):
            others[f"drawn-{neighbour}"] = np.roll(want, by)
        most = np.maximum.accumulate(np.append(0, want))
        others["drawn-sorted"], others["drawn-sorted-falling"] = np.sort(want), np.sort(want)[::-1]
        others["not-cumulated"] = np.diff(most) + (1 - want.max()) * (np.arange(len(want)) == 0)
        for mistake, p in others.items():
            if _fits(drawn, p) and np.abs(p - want).sum() > 0.4:
                raise Told(message, mistake.removesuffix("-falling"))
        plain = softmax(logits)
        flat = _drawn(own, prompt, IMMENSE, range(DRAWS))
        # What is drawn where all ids are equally likely shows what is cut off; but not if the temperature is not used.
        if len(set(flat.tolist())) > 1 and not (plain.max() > 3 / own.vocab_size and _fits(flat, plain)):
            _all_come(own, prompt, message)
        _draws_at_another(own, logits, prompt, {temperature: drawn}, message)
        # A wrong use of the temperature shows best where the likeliest id would then come half of the time.
        for mistake, other, p in (
            ("temperature-times", 1 / low, want),
            ("temperature-after", half(plain), softmax(plain / half(plain))),
        ):
            if _fits(_drawn(own, prompt, other, range(MORE)), p):
                raise Told(message, mistake)
        if _fits(drawn, plain):
            raise Told(message, "temperature-ignored")
        raise Told(message, "drawn-otherwise")


def _draws_at_another(
    own: Own, logits: np.ndarray, prompt: np.ndarray, drawn: dict[float, np.ndarray], message: str
) -> None:
    """Raises `Told` if what is drawn fits the softmax at other temperatures than those that are asked for."""
    [asked] = drawn
    drawn |= {times * asked: _drawn(own, prompt, times * asked, range(MORE)) for times in (4, 16)}
    used = {}
    for temperature, ids in drawn.items():
        low, high = 1e-4 * temperature, 1e4 * temperature
        for _ in range(40):
            middle = float(np.sqrt(low * high))
            above = softmax(logits / middle) @ logits > logits[ids].mean()
            low, high = (middle, high) if above else (low, middle)
        p = softmax(logits / low)
        if 1.5 / len(p) < p.max() < SURE and _fits(ids, p):  # else all temperatures around it look alike
            used[temperature] = low
    if len(used) < 2:
        return
    (first, one), *_, (last, other) = used.items()
    power = math.log(other / one) / math.log(last / first)
    for its, said in ((1.0, "a multiple of it"), (2.0, "near its square"), (0.5, "near its root")):
        factors = [now / was**its for was, now in used.items()]
        if abs(power - its) < POWER and max(factors) < SAME * min(factors):
            listed = " and ".join(f"at {was:.3g} as if it were {now:.3g}" for was, now in used.items())
            raise Told(f"{message} It draws {listed}, which is {said}.", "temperature-other")


def _all_come(own: Own, prompt: np.ndarray, message: str = "") -> None:
    """Checks that even the least likely ids can be drawn. Right draws fail this once in a million times.

    Where all V ids are equally likely, one of the m least likely comes in N draws, except once in (1 − m/V)^-N times.
    With few ids it is drawn until each of them has come.
    """
    V = own.vocab_size
    order = np.argsort(np.argsort(-_last(own, prompt.tolist())))  # 0 is the likeliest
    few = V <= 100
    most = math.ceil(V * (math.log(V) + LUCK)) if few else 300
    came: set[int] = set()
    n = 0
    while n < most and len(came) < V:
        step = min(50, most - n)
        came.update(_drawn(own, prompt, IMMENSE, range(n, n + step)).tolist())
        n += step
        if not few and max(order[list(came)]) >= V * math.exp(-LUCK / n):
            return
    missing = sorted(set(range(V)) - came, key=lambda id: int(order[id]))
    if not missing:
        return
    least = all(order[id] >= V - len(missing) for id in missing)
    if not few:
        missing = [id for id in missing if order[id] > max(order[list(came)])]
        least = True
    if least:
        which = "the id that your model finds least likely was never drawn"
        if len(missing) > 1:
            which = f"none of the {len(missing)} ids that your model finds least likely was ever drawn"
    else:
        ids = ", ".join(map(str, sorted(missing)[:5]))
        which = (
            f"id {ids} never came" if len(missing) == 1 else f"{len(missing)} ids never came, such as {ids}"
        )
    said = f"in {n} draws at a temperature that makes all {V} ids equally likely, {which}."
    raise Told(f"{message} {said[0].upper() + said[1:]}" if message else said, "cut-off")


def _drawn(own: Own, prompt: np.ndarray, temperature: float, seeds: range = range(DRAWS)) -> np.ndarray:
    """Returns the next id, once for each seed."""
    return np.array([written(own, prompt, 1, temperature, seed)[0] for seed in seeds])


def _fits(drawn: np.ndarray, p: np.ndarray, sigmas: float = 4.0) -> bool:
    """Returns whether ids may come from a distribution: how often they come, how many of them, the mean log p."""
    best, luck = p.argmax(), sigmas / np.sqrt(len(drawn))
    log_p = np.log(np.maximum(p, 1e-12))
    mean = p @ log_p
    spread = np.sqrt(max(0.0, p @ log_p**2 - mean**2))
    often = abs(np.mean(drawn == best) - p[best]) < luck * np.sqrt(p[best] * (1 - p[best])) + 0.02
    most = np.bincount(drawn).argmax()  # an id that is no favorite must not be drawn like one
    often &= np.mean(drawn == most) - p[most] < 1.5 * luck * np.sqrt(p[most]) + 0.04
    cumulated = np.cumsum(np.bincount(drawn, minlength=len(p)) / len(drawn) - p)
    often &= np.abs(cumulated).max() < 0.7 * luck + 0.02
    several = len(set(drawn.tolist())) > 0.5 * (1 - (1 - p) ** len(drawn)).sum()
    return bool(often and several and abs(log_p[drawn].mean() - mean) < luck * spread + 0.02)


@generation.check("each draw has a random number of its own")
def _(own: Own) -> None:
    # At an immense temperature all ids are equally likely, so each draw shows the random number itself.
    repeats = [len(set(written(own, prompt_of(own), 8, 1e6, seed))) for seed in range(3)]
    if own.vocab_size > 20 and max(repeats) <= 2:
        raise Told(
            "although all ids are equally likely, it writes one of them again and again.", "seed-each-step"
        )


@generation.check("every id can come")
def _(own: Own) -> None:
    _all_come(own, prompt_of(own))


@generation.check("a text may grow longer than the context")
def _(own: Own) -> None:
    context = own.context_length
    prompt = prompt_of(own, context - 1)
    try:
        new = written(own, prompt, 4, 0, 0)
    except Wrong as wrong:
        message = (
            f"`generate` works while the text fits into the context of {context} ids, but not later: {wrong}"
        )
        raise Told(message, "context-error") from wrong
    text = prompt.tolist()
    for one in new:
        # How much of the text is read is looked at below; this is about the end.
        if not any(likeliest(own, text[-n:], one) for n in range(min(len(text), context), 0, -1)):
            raise Told(
                f"id {len(text)} is not what `logits` of the last {context} ids predicts.", "context-full"
            )
        text.append(one)
    _reads_the_end(own)
    _reads_the_context(own)
    if own.vocab_size <= FEW:  # an id at which it stops comes among many draws of all ids
        written(own, prompt_of(own), 2 * own.vocab_size, IMMENSE, 0)


def _reads_the_context(own: Own) -> None:
    """Checks that exactly the last `context_length` ids are read, where `logits` depends on all of them."""
    seen = misread(own, "generate") if own.context_length <= LONG else None
    if seen is not None:
        raise Told(seen.said, "window-beyond" if seen.beyond else "window-short")


def _reads_the_end(own: Own) -> None:
    """Checks texts that are too long, choosing those whose beginning predicts another id than their end."""
    context, first, asked = own.context_length, 0, 0
    for seed in range(20):
        prompt = prompt_of(own, context + 5, seed)
        of_first, of_last = (
            int(own.logits(ids)[-1].argmax()) for ids in (prompt[:context], prompt[-context:])
        )
        if of_first == of_last:
            continue
        try:
            [one] = written(own, prompt, 1, 0, 0)
        except Wrong:
            return  # it need not take a prompt that is longer than the context
        first, asked = first + (one == of_first), asked + 1
        if asked == 3:
            break
    if asked and first == asked:
        message = f"in a text of {context + 5} ids it reads only the first {context}."
        raise Told(message, "context-full")


your_own_code(generation, "generate", lambda own: written(own, prompt_of(own), 2, 1.0, 0))
