"""The stage *cache*: one id at a time, with the keys and values of the past kept, wherever they are kept."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from glassformer.exercises.expect import Wrong, in_numpy

from .adapter import Cache, NotLookedAt, Own, Told
from .louder import loud_weights, other_weights
from .origin import your_own_code
from .stage import Stage, changed_by, close, ends_alike, largest, name_it, steady
from .texts import IMMENSE, LONG, PROMPT, likeliest, log_softmax, prompt_of, written
from .window import DRAWN, draws_alike, misread, tipping, warm
from .words import remark

cache = Stage("cache")

FAR_ENOUGH = 40  # steps: to see what is lost along the way
SHORT = 6  # prompts, continued at temperature 0
PROMPTS = 10  # that are longer than the context
TIPPING = 4  # seeds
NEAR = 2e-3  # relative: two temperatures this near are one, as far as rounding goes
# What is told of a piece that reads too few of the ids of a long text, and too many.
LONG_TEXTS = {
    "generate": ("window-short", "window-beyond"),
    "generate_cached": ("cache-short", "cache-too-long"),
}
FAR = 1e-2  # by at least so much other weights must change the logits


def _empty(own: Own) -> Cache:
    """Returns a cache for a new text. It lives as long as the stage, for a design may know it by its identity."""
    own.found.setdefault("caches", []).append(Cache())
    return own.found["caches"][-1]


def _step(own: Own, one: int, kept: Cache) -> np.ndarray:
    found = own.array("step", int(one), kept, axes="V", what="`step`")
    if found.shape != (own.vocab_size,):
        raise Wrong(f"`step` should have shape (V,) = ({own.vocab_size},); yours has shape {found.shape}.")
    return found


@cache.check("no row of `logits` depends on what follows it, so the past can be kept")
def _(own: Own) -> None:
    ids = prompt_of(own, 12, 21)
    steady(own, ids)
    changed_by(own, ids, 7)
    ends_alike(own, ids)


@cache.check("one id goes in, and logits come out")
def _(own: Own) -> None:
    [first] = prompt_of(own, 1)
    kept = _empty(own)
    found, want = _step(own, first, kept), own.logits(np.array([first]))[0]
    if close(found, want):
        return
    message = f"after the first id, according to `logits`, {largest(found, want, 'V')}"
    if _one_for_all(kept):
        raise Told(message, "cache-of-all-blocks")
    log_p = log_softmax(want)
    name_it(found, message, [("step-probabilities", np.exp(log_p)), ("step-probabilities", log_p)])
    raise Told(message, "cache-first")


def _one_for_all(value: Any, deep: int = 4) -> bool:
    """Returns whether a cache has a list or a dictionary in which one and the same container is all entries."""
    if not deep or not isinstance(value, dict | list | tuple):
        return False
    inside = list(value.values()) if isinstance(value, dict) else list(value)
    holders = [
        one
        for one in inside
        if isinstance(one, dict | list) or hasattr(one, "__dict__") or hasattr(one, "add")
    ]
    same = len(holders) > 1 and len(set(map(id, holders))) == 1
    return same or any(_one_for_all(one, deep - 1) for one in inside)


@cache.check("step by step it gives the same logits as all at once")
def _(own: Own) -> None:
    ids = prompt_of(own, min(own.context_length, FAR_ENOUGH), 21)
    with loud_weights(own, lambda: own.logits(ids)) as changed:
        # A design that computes with copies of its weights, such as joined matrices, has not noticed the change.
        if changed and close(_step(own, ids[0], _empty(own)), own.logits(ids[:1])[0]):
            _step_by_step(own, ids)
    _step_by_step(own, ids)


def _step_by_step(own: Own, ids: np.ndarray) -> None:
    """Raises `Told` if what `step` returns after some id is not what `logits` has in its row."""
    whole, kept = own.logits(ids), _empty(own)
    alone = [own.logits(ids[t : t + 1])[0] for t in (0, 1)]
    for t, one in enumerate(ids):
        before = [array.copy() for array in _fractions_in(dict(kept))]
        found = _step(own, one, kept)
        if close(found, whole[t]):
            continue
        message = f"after id {t}, according to `logits`, {largest(found, whole[t], 'V')}"
        if t == 1 and close(found, alone[1]):
            raise Told(message, "cache-forgets")
        coarse = {str(one.dtype) for one in _fractions_in(dict(kept)) if one.dtype.itemsize < 4}
        if coarse:
            raise Told(f"{message} The cache holds numbers in {min(coarse)}.", "cache-rounded")
        grown = set(map(_grown, before, _fractions_in(dict(kept))))
        if "other" in grown:
            raise Told(
                f"{message} In this step, what the cache held of earlier ids was changed.", "cache-changed"
            )
        if {"before", "after"} <= grown:
            raise Told(
                f"{message} Some of the new arrays were put before the old ones, others after.", "cache-order"
            )
        if t > 1:
            raise Told(f"{message} The {t} steps before were right.", "cache-drops")
        raise Told(
            message, "cache-off-by-one" if t else "cache-shared"
        )  # the check before has left something


def _grown(was: np.ndarray, now: np.ndarray) -> str:
    """Returns where one entry has joined an array of a cache: "before" or "after" the old ones.

    It is "other" if the old ones have changed, and "" if nothing is shown: it has not grown so, or all are alike.
    """
    if was.ndim != now.ndim or was.size == 0:
        return ""
    longer = np.subtract(now.shape, was.shape)
    if sorted(longer) != [0] * (now.ndim - 1) + [1]:
        return ""
    axis, n = int(longer.argmax()), now.shape[int(longer.argmax())]
    after, before = (close(np.take(now, places, axis), was) for places in (range(n - 1), range(1, n)))
    if after and before:
        return ""
    return "after" if after else "before" if before else "other"


@cache.check("a new text does not see the one before")
def _(own: Own) -> None:
    texts = [prompt_of(own, 5, seed) for seed in (31, 32)]
    for text in texts:
        kept = _empty(own)
        for t, one in enumerate(text):
            if not close(_step(own, one, kept), own.logits(text[: t + 1])[-1]):
                raise Told(f"after another text, id {t} of a new one.", "cache-shared")
    if not _serves_two(own, texts):
        own.remark(remark("cache-of-model"))


def _serves_two(own: Own, texts: list[np.ndarray]) -> bool:
    """Returns whether two texts can be continued in turn."""
    kept = [_empty(own), _empty(own)]
    try:
        for t in range(5):
            found = [_step(own, text[t], its) for text, its in zip(texts, kept, strict=True)]
    except Wrong:
        return False
    return all(close(one, own.logits(text)[-1]) for text, one in zip(texts, found, strict=True))


@cache.check("keys and values are reused")
def _(own: Own) -> None:
    """Changes the weights halfway. What was kept of the past does not notice; what is computed again does."""
    ids, kept = prompt_of(own, 8, 41), _empty(own)
    for one in ids[:6]:
        _step(own, one, kept)
    was = own.logits(ids[:7])[-1]
    with other_weights(own, ids) as changed:
        if not changed or close(own.logits(ids[:7])[-1], was, FAR):
            if not any(array.size for array in _fractions_in(dict(kept))):
                raise NotLookedAt(
                    "it cannot be seen from outside. With `weights` or `learn` in the adapter, the checker changes "
                    "the weights halfway and looks"
                )
            return
        try:
            found = _step(own, ids[6], kept)
        except Wrong:
            return  # it noticed that its weights had changed: so it had kept something
        if close(found, own.logits(ids[:7])[-1]):
            raise Told(
                "six ids were read, then the weights changed, then a seventh was read.", "cache-of-ids"
            )


def _fractions_in(value: Any, deep: int = 6) -> Iterator[np.ndarray]:
    """Yields all arrays of fractions that a cache holds, wherever they are."""
    found = in_numpy(value) if not isinstance(value, list | tuple | dict) else value
    if isinstance(found, np.ndarray):
        if found.dtype.kind == "f":
            yield found
    elif deep and isinstance(found, dict | list | tuple | set):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _fractions_in(one, deep - 1)
    elif deep and hasattr(found, "__dict__"):
        yield from _fractions_in(vars(found), deep - 1)


@cache.check("with the cache it writes the same text")
def _(own: Own) -> None:
    _can_be_compared(own)
    n = min(9, own.context_length - PROMPT)
    for seed in range(SHORT):  # one prompt alone may be continued alike by chance
        _writes_the_same(own, prompt_of(own, seed=seed), n, ((0, 0),), "cached-reads")
    _writes_the_same(own, prompt_of(own), n, ((warm(own), 5), (1.0, 5)), "cached-differs")


@cache.check("with a text longer than the context, too, it writes the same")
def _(own: Own) -> None:
    """Both texts, and the model's logits, must go beyond the context: a cache that keeps too much shows only there."""
    _can_be_compared(own)
    context = min(own.context_length, LONG)
    if context < own.context_length:
        raise NotLookedAt(f"a context of more than {LONG} ids takes too long")
    drawn = ((warm(own), 7), (0, 0))
    _writes_the_same(own, prompt_of(own, context - 3), 14, drawn, "cache-too-long")
    for seed in range(TIPPING):
        prompt = prompt_of(own, context, seed)
        how = tuple((one, seed) for one in tipping(own, prompt, 4, seed, NEAR))
        _writes_the_same(own, prompt, 4, how, "cache-too-long")
    try:
        written(own, prompt_of(own, context + 5), 1, 0, 0)
    except Wrong:
        return  # `generate` need not take a prompt that is longer than the context
    for seed in range(PROMPTS):  # only the first new id shows a long prompt that was read as a whole
        _writes_the_same(own, prompt_of(own, context + 5, seed), 1, drawn, "cache-too-long")


def _can_be_compared(own: Own) -> None:
    lacks = [piece for piece in ("generate", "generate_cached") if not own.has(piece)]
    if lacks:
        raise NotLookedAt(f"your adapter has no `{lacks[0]}`")


def _writes_the_same(
    own: Own, prompt: np.ndarray, n: int, how: tuple[tuple[float, int], ...], mistake: str
) -> None:
    for temperature, seed in how:
        plain = written(own, prompt, n, temperature, seed)
        long = mistake == "cache-too-long"
        where = f"with {len(prompt)} ids, {n} more and a context of {own.context_length}, " if long else ""
        where += f"at temperature {temperature:.3g} and seed {seed}"
        try:
            cached = written(own, prompt, n, temperature, seed, "generate_cached")
        except Wrong as wrong:
            if long:
                raise Told(f"{where}: {wrong}", mistake) from wrong
            raise
        if plain != cached:
            first = next(i for i in range(n) if plain[i] != cached[i])
            text = [*prompt, *plain[:first]][-own.context_length :]
            if temperature == 0 and all(likeliest(own, text, one[first]) for one in (plain, cached)):
                continue  # ids that are equally likely: either may come, and the texts go on differently
            message = (
                f"{where}, new id {first} is {plain[first]} without the cache and {cached[first]} with it."
            )
            right = [likeliest(own, text, one[first]) for one in (plain, cached)]
            if temperature == 0 and right == [False, True]:
                raise Told(f"{message} According to `logits`, {cached[first]} is right.", "plain-differs")
            raise _why(own, message, mistake)


def _why(own: Own, message: str, mistake: str) -> Told:
    """Returns the failure of two ways of writing that differ: in random numbers, or in the ids that one reads."""
    long = mistake == "cache-too-long"
    prompt = prompt_of(own, own.context_length - 3 if long else PROMPT)
    with contextlib.suppress(Wrong):
        if mistake == "cached-differs" and _always_alike(own, prompt):
            return Told(
                f"{message} With the cache, it writes the same text at this temperature as at an immense one.",
                "cached-temperature",
            )
        if mistake != "cached-reads" and not draws_alike(own, prompt, DRAWN if long else DRAWN - PROMPT):
            return Told(
                f"{message} They differ, too, at a temperature where all ids are equally likely.",
                "cached-draws",
            )
        for piece, wrong in LONG_TEXTS.items() if long else ():
            seen = misread(own, piece)
            if seen is not None:
                return Told(f"{message} {seen.said}", wrong[seen.beyond])
    return Told(message, mistake)


def _always_alike(own: Own, prompt: np.ndarray) -> bool:
    """Returns whether with the cache the text is the same at a low temperature and at an immense one."""
    texts = [
        [written(own, prompt, 9, one, seed, piece) for one in (warm(own), IMMENSE)]
        for seed in range(3)
        for piece in ("generate", "generate_cached")
    ]
    without, cached = texts[::2], texts[1::2]
    return all(one == other for one, other in cached) and any(one != other for one, other in without)


your_own_code(cache, "step", lambda own: _step(own, 0, _empty(own)))
