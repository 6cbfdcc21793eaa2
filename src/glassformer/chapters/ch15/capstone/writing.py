"""The stages that write: with the whole text read each time, and with a cache."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers, in_numpy

from .adapter import Cache, Own, Told
from .stage import Stage, close, largest, steady

generation = Stage("generation")
cache = Stage("cache")

DRAWS, MORE = 80, 400  # of one id; more where these leave a doubt, of so many standard deviations
DOUBT = 2.0
IMMENSE = 1e6  # a temperature at which all ids are alike
PROMPT = 6


def _prompt(own: Own, n: int = PROMPT, seed: int = 11) -> np.ndarray:
    return np.random.default_rng(seed).integers(own.vocab_size, size=n)


def written(
    own: Own, prompt: np.ndarray, n: int, temperature: float, seed: int, piece: str = "generate"
) -> list[int]:
    """The n new ids, whether the prompt comes back with them or not."""
    what = f"`{piece}` of {len(prompt)} ids and {n} more"
    found = own.call(piece, prompt, n, temperature, seed)
    if not isinstance(found, np.ndarray | list | tuple):
        found = list(found) if hasattr(found, "__next__") else found
    ids = as_numbers(in_numpy(found), what)
    while ids.ndim > 1 and ids.shape[0] == 1:
        ids = ids[0]
    if ids.ndim != 1 or len(ids) not in (n, len(prompt) + n):
        raise Wrong(
            f"{what} should give {len(prompt) + n} ids (or the {n} new ones); yours has shape {ids.shape}."
        )
    if len(ids) > n and not np.array_equal(ids[: len(prompt)], prompt):
        raise Wrong(f"{what} should begin with the prompt, as it was.")
    new = ids[-n:]
    if new.dtype.kind not in "iu" or new.min() < 0 or new.max() >= own.vocab_size:
        raise Wrong(f"{what} should give ids from 0 to V − 1; yours are {new[:6].tolist()}.")
    return [int(one) for one in new]


def _telling(own: Own) -> np.ndarray:
    """A prompt after which another id is the likeliest than after its last id alone, if there is one."""
    for seed in range(60):
        prompt = _prompt(own, seed=seed)
        if own.logits(prompt)[-1].argmax() != own.logits(prompt[-1:])[-1].argmax():
            return prompt
    return _prompt(own)


def _last(own: Own, ids: list[int]) -> np.ndarray:
    return own.logits(np.array(ids[-own.context_length :]))[-1]


@generation.check("so many more, after what was there")
def _(own: Own) -> None:
    for n in (1, 5):
        written(own, _prompt(own), n, 1.0, 0)


@generation.check("at temperature 0 the likeliest, each time")
def _(own: Own) -> None:
    prompt = _telling(own)
    text = prompt.tolist()
    for i, one in enumerate(written(own, prompt, 8, 0, 0)):
        logits = _last(own, text)
        best = int(logits.argmax())
        if logits[one] < logits[best] - 1e-5 * max(1.0, abs(logits[best])):
            message = f"new id {i} is {one}, and the likeliest by `logits` is {best}."
            steady(own, np.array(text))
            known = {
                "first-row": own.logits(np.array(text))[0].argmax(),
                "reads-only-new": own.logits(np.array(text[-1:]))[-1].argmax(),
            }
            for mistake, its in known.items():
                if its == one:
                    raise Told(message, mistake)
            raise Told(message, "not-greedy")
        text.append(one)


@generation.check("a seed is a text")
def _(own: Own) -> None:
    prompt = _prompt(own)
    # A model may be so sure at temperature 1 that every seed writes the same: then a higher one asks.
    warm = max(1.0, 4 * _half(_last(own, prompt.tolist())))
    same = [written(own, prompt, 12, warm, 3) for _ in range(2)]
    if same[0] != same[1]:
        raise Told("seed 3, twice.", "seed-ignored")
    texts = [written(own, prompt, 12, warm, seed) for seed in range(4)]
    if all(one == texts[0] for one in texts):
        greedy = texts[0] == written(own, prompt, 12, 0, 0)
        raise Told("seeds 0 to 3 wrote the same.", "always-greedy" if greedy else "seed-fixed")


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


@generation.check("it draws from softmax(logits / temperature)")
def _(own: Own) -> None:
    prompt = _prompt(own)
    logits = _last(own, prompt.tolist())
    low = _half(logits)
    for temperature in (low, 2 * low):
        drawn = _drawn(own, prompt, temperature)
        want = _softmax(logits / temperature)
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
            "first-row": _softmax(own.logits(prompt)[0] / temperature),
            "reads-only-new": _softmax(own.logits(prompt[-1:])[-1] / temperature),
        }
        for mistake, p in others.items():
            if _fits(drawn, p) and np.abs(p - want).sum() > 0.4:
                raise Told(message, mistake)
        # What a wrong use of it does is seen best where that would have the likeliest come half of the time.
        plain = _softmax(logits)
        for mistake, other, p in (
            ("temperature-times", 1 / low, want),
            ("temperature-after", _half(plain), _softmax(plain / _half(plain))),
        ):
            if _fits(_drawn(own, prompt, other), p):
                raise Told(message, mistake)
        if _fits(drawn, plain):
            raise Told(message, "temperature-ignored")
        at_any = _drawn(own, prompt, IMMENSE)
        if len(set(at_any.tolist())) > 1:  # else it is no matter of what is cut off
            _all_come(own, prompt, message)
        raise Wrong(message)


def _all_come(own: Own, prompt: np.ndarray, message: str = "") -> None:
    """Checks that even the least likely ids come when all are alike. Right draws fail once in a million times."""
    V, n = own.vocab_size, 300
    drawn = _drawn(own, prompt, IMMENSE, range(n))
    order = np.argsort(np.argsort(-_last(own, prompt.tolist())))  # 0 is the likeliest
    worst = int(order[drawn].max())
    if V >= 20 and worst < 0.95 * V - 1:
        message = (
            message
            or f"at a temperature at which all {V} ids are alike, none came of the least likely {V - 1 - worst}."
        )
        raise Told(message, "cut-off")
    if V > 100:
        return
    for id in (0, V - 1):
        if id not in drawn and id not in _drawn(own, prompt, IMMENSE, range(n, 20 * V)):
            raise Told(f"id {id} never came, at a temperature at which all {V} ids are alike.", "cut-off")


def _drawn(own: Own, prompt: np.ndarray, temperature: float, seeds: range = range(DRAWS)) -> np.ndarray:
    """The next id, once for each seed."""
    return np.array([written(own, prompt, 1, temperature, seed)[0] for seed in seeds])


def _fits(drawn: np.ndarray, p: np.ndarray, sigmas: float = 4.0) -> bool:
    """Returns whether these ids may come from this distribution: the likeliest one's frequency, the mean log p."""
    best, luck = p.argmax(), sigmas / np.sqrt(len(drawn))
    log_p = np.log(np.maximum(p, 1e-12))
    mean = p @ log_p
    spread = np.sqrt(max(0.0, p @ log_p**2 - mean**2))
    often = abs(np.mean(drawn == best) - p[best]) < luck * np.sqrt(p[best] * (1 - p[best])) + 0.02
    return bool(often and abs(log_p[drawn].mean() - mean) < luck * spread + 0.02)


def _half(numbers: np.ndarray) -> float:
    """The temperature at which the likeliest has about half, however much or little the numbers differ."""
    low, high = 1e-6, 1e4
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if _softmax(numbers / middle).max() > 0.5 else (low, middle)
    return low


@generation.check("each draw has a random number of its own")
def _(own: Own) -> None:
    # At an immense temperature all ids are alike, so each draw is the random number itself.
    repeats = [len(set(written(own, _prompt(own), 8, 1e6, seed))) for seed in range(3)]
    if own.vocab_size > 20 and max(repeats) <= 2:
        raise Told(
            "where all ids are equally likely, it writes one of them again and again.", "seed-each-step"
        )


@generation.check("every id may come")
def _(own: Own) -> None:
    _all_come(own, _prompt(own))


@generation.check("a text may grow longer than the context")
def _(own: Own) -> None:
    context = own.context_length
    prompt = _prompt(own, context - 1)
    try:
        new = written(own, prompt, 4, 0, 0)
    except Wrong as wrong:
        raise Told(f"{context + 3} ids, with a context of {context}: {wrong}", "context-full") from wrong
    text = prompt.tolist()
    for one in new:
        # A design may read all that fits, or less of the end; but it is the end that is read.
        if not any(_likeliest(own, text[-n:], one) for n in range(min(len(text), context), 0, -1)):
            raise Told(f"id {len(text)} is not what `logits` of the last {context} ids says.", "context-full")
        text.append(one)
    _reads_the_end(own)


def _reads_the_end(own: Own) -> None:
    """Checks texts that are too long, choosing those whose beginning would give another id than their end."""
    context, first, asked = own.context_length, 0, 0
    for seed in range(20):
        prompt = _prompt(own, context + 5, seed)
        of_first, of_last = (
            int(own.logits(ids)[-1].argmax()) for ids in (prompt[:context], prompt[-context:])
        )
        if of_first == of_last:
            continue
        try:
            [one] = written(own, prompt, 1, 0, 0)
        except Wrong:
            return  # a prompt that is longer than the context: it need not take one
        first, asked = first + (one == of_first), asked + 1
        if asked == 3:
            break
    if asked and first == asked:
        message = f"of {context + 5} ids it reads the first {context}."
        raise Told(message, "context-full")


def _likeliest(own: Own, ids: list[int], one: int) -> bool:
    logits = own.logits(np.array(ids))[-1]
    return bool(logits[one] >= logits.max() - 1e-5 * max(1.0, abs(logits.max())))


def _numbers_in(value: Any, deep: int = 6) -> Iterator[np.ndarray]:
    """All arrays of fractions that a cache holds, wherever."""
    if deep == 0:
        return
    found = in_numpy(value) if not isinstance(value, list | tuple | dict) else value
    if isinstance(found, np.ndarray):
        if found.dtype.kind == "f":
            yield found
    elif isinstance(found, dict):
        for one in found.values():
            yield from _numbers_in(one, deep - 1)
    elif isinstance(found, list | tuple | set):
        for one in found:
            yield from _numbers_in(one, deep - 1)
    elif hasattr(found, "__dict__"):
        yield from _numbers_in(vars(found), deep - 1)


def _step(own: Own, one: int, kept: Cache) -> np.ndarray:
    found = own.array("step", int(one), kept, axes="V", what="`step`")
    if found.shape != (own.vocab_size,):
        raise Wrong(f"`step` should have shape (V,) = ({own.vocab_size},); yours has shape {found.shape}.")
    return found


@cache.check("one id goes in, and logits come out")
def _(own: Own) -> None:
    [first] = _prompt(own, 1)
    kept = Cache()
    found, want = _step(own, first, kept), own.logits(np.array([first]))[0]
    if not close(found, want):
        raise Wrong(f"after the first id, by `logits`, {largest(found, want, 'V')}")
    if not kept:
        raise Told("`step` has read an id.", "cache-empty")


@cache.check("keys and values are kept")
def _(own: Own) -> None:
    kept = Cache()
    for one in _prompt(own, 4):
        _step(own, one, kept)
    if not any(array.size for array in _numbers_in(dict(kept))):
        raise Told("after four ids there is no number with a fraction in the cache.", "cache-of-ids")


@cache.check("step by step the same logits as all at once")
def _(own: Own) -> None:
    ids = _prompt(own, 12, 21)
    whole, kept = own.logits(ids), Cache()
    alone = [own.logits(ids[t : t + 1])[0] for t in (0, 1)]
    for t, one in enumerate(ids):
        found = _step(own, one, kept)
        if close(found, whole[t]):
            continue
        steady(own, ids[: t + 1])
        message = f"after id {t}, by `logits`, {largest(found, whole[t], 'V')}"
        if t == 1 and close(found, alone[1]):
            raise Told(message, "cache-forgets")
        raise Told(message, "cache-off-by-one") if t else Wrong(message)


@cache.check("two texts do not get into each other's way")
def _(own: Own) -> None:
    texts = [_prompt(own, 5, seed) for seed in (31, 32)]
    kept = [Cache(), Cache()]
    for t in range(5):
        found = [_step(own, text[t], its) for text, its in zip(texts, kept, strict=True)]
    for text, one in zip(texts, found, strict=True):
        if not close(one, own.logits(text)[-1]):
            raise Told("two texts, an id of each in turn.", "cache-shared")


@cache.check("what is kept stays")
def _(own: Own) -> None:
    kept, held = Cache(), []
    ids = _prompt(own, 8, 41)
    for t, one in enumerate(ids):
        _step(own, one, kept)
        if t in (3, 7):
            found = [array.ravel() for array in _numbers_in(dict(kept))]
            held.append(set(np.concatenate(found).tolist()) - {0.0})
    if len(held[0] & held[1]) < 0.1 * len(held[0]):
        raise Told(
            "after eight ids, none of the numbers that were kept after four is there.", "cache-replaced"
        )


@cache.check("it writes what it wrote before")
def _(own: Own) -> None:
    if not own.has("generate", "generate_cached"):
        return
    prompt, n = _prompt(own), min(9, own.context_length - PROMPT)
    for temperature, seed in ((0, 0), (1.0, 5)):
        plain = written(own, prompt, n, temperature, seed)
        cached = written(own, prompt, n, temperature, seed, "generate_cached")
        if plain != cached:
            first = next(i for i in range(n) if plain[i] != cached[i])
            message = (
                f"at temperature {temperature}, seed {seed}, new id {first} is {plain[first]} without "
                f"and {cached[first]} with it."
            )
            raise Told(message, "cached-differs")
