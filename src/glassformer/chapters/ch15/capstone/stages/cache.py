"""The stage *cache*: one id at a time, with the keys and values of the past kept, wherever they are kept."""

import contextlib

import numpy as np

from glassformer.exercises.expect import Wrong
from glassformer.scratch import softmax

from ..adapter import GPT, Cache, NotLookedAt, Told
from ..measures.comparing import close, largest, steady
from ..measures.loud import loud_weights
from ..measures.rows import of_model
from ..measures.texts import LONG, PROMPT, end_of, is_likeliest, log_softmax, prompt_of, written
from ..measures.writing import loud, warm
from ..words import remark
from .stage import Stage

cache = Stage("cache")

FAR_ENOUGH = 40  # steps: to see what is lost along the way
PROMPTS = 6


def _empty(gpt: GPT) -> Cache:
    """Returns a cache for a new text. It lives as long as the stage, for a design may know it by its identity."""
    gpt.notes.setdefault("caches", []).append(Cache())
    return gpt.notes["caches"][-1]


def _step(gpt: GPT, one: int, kept: Cache) -> np.ndarray:
    return gpt.array("step", int(one), kept, axes="V", shape=(gpt.vocab_size,))


@cache.check("no row of `logits` depends on what follows it, so the past can be kept")
def _(gpt: GPT) -> None:
    ids = prompt_of(gpt, 12, 21)
    steady(gpt, ids)
    of_model(gpt).changed(ids, 7)
    of_model(gpt).end_alike(ids)


@cache.check("one id goes in, and logits come out")
def _(gpt: GPT) -> None:
    [first] = prompt_of(gpt, 1)
    found, want = _step(gpt, first, _empty(gpt)), gpt.logits(np.array([first]))[0]
    if close(found, want):
        return
    message = f"after the first id, according to `logits`, {largest(found, want, 'V')}"
    if close(found, softmax(want)) or close(found, log_softmax(want)):
        raise Told(message, "step-probabilities")
    raise Told(message, "cache-first")


@cache.check("step by step it gives the same logits as all at once")
def _(gpt: GPT) -> None:
    ids = prompt_of(gpt, min(gpt.context_length, FAR_ENOUGH), 21)
    with loud_weights(gpt, lambda: gpt.logits(ids)) as changed:
        # A design that computes with copies of its weights, such as joined matrices, has not noticed the change.
        if changed and close(_step(gpt, ids[0], _empty(gpt)), gpt.logits(ids[:1])[0]):
            _step_by_step(gpt, ids)
    _step_by_step(gpt, ids)


def _step_by_step(gpt: GPT, ids: np.ndarray) -> None:
    """Raises `Told` if what `step` returns after some id is not what `logits` has in its row."""
    whole, kept = gpt.logits(ids), _empty(gpt)
    for t, one in enumerate(ids):
        found = _step(gpt, one, kept)
        if close(found, whole[t]):
            continue
        message = f"after id {t}, according to `logits`, {largest(found, whole[t], 'V')}"
        if t > 1:
            raise Told(f"{message} The {t} steps before were right.", "cache-drops")
        # The check before has found that the first id of a new text is right, so it has left something.
        raise Told(message, "cache-off-by-one" if t else "cache-shared")


@cache.check("a new text does not see the one before")
def _(gpt: GPT) -> None:
    texts = [prompt_of(gpt, 5, seed) for seed in (31, 32)]
    for text in texts:
        kept = _empty(gpt)
        for t, one in enumerate(text):
            if not close(_step(gpt, one, kept), gpt.logits(text[: t + 1])[-1]):
                raise Told(f"after another text, id {t} of a new one.", "cache-shared")
    both = [_empty(gpt), _empty(gpt)]
    with contextlib.suppress(Wrong):
        in_turn = [
            [_step(gpt, one, kept) for one, kept in zip(ids, both, strict=True)]
            for ids in zip(*texts, strict=True)
        ]
        if all(close(one, gpt.logits(text)[-1]) for text, one in zip(texts, in_turn[-1], strict=True)):
            return
    gpt.remark(remark("cache-of-model"))


@cache.check("keys and values are reused")
def _(gpt: GPT) -> None:
    """Changes the weights halfway. What was kept of the past does not notice; what is computed again does."""
    ids, kept = prompt_of(gpt, 8, 41), _empty(gpt)
    for one in ids[:6]:
        _step(gpt, one, kept)
    with loud_weights(gpt, lambda: gpt.logits(ids[:7])) as changed:
        if not changed:
            why = "it cannot be seen from outside. With `weights` or `learn` in the adapter, the checker changes "
            raise NotLookedAt(f"{why}the weights halfway and looks")
        try:
            found = _step(gpt, ids[6], kept)
        except Wrong:
            return  # it noticed that its weights had changed: so it had kept something
        if close(found, gpt.logits(ids[:7])[-1]):
            raise Told("six ids were read, then the weights changed, then one more was read.", "cache-of-ids")


@cache.check("with the cache it writes the same text")
def _(gpt: GPT) -> None:
    _can_be_compared(gpt)
    n = min(9, gpt.context_length - PROMPT)
    with loud(gpt, "generate_cached"):  # where the likeliest id depends on the whole prompt, and on its order
        for seed in range(PROMPTS):
            _writes_the_same(gpt, prompt_of(gpt, seed=seed), n, (0, 0), "cached-reads")
    for how in ((warm(gpt), 5), (1.0, 5)):
        _writes_the_same(gpt, prompt_of(gpt), n, how, "cached-differs")


@cache.check("with a text longer than the context, too, it writes the same")
def _(gpt: GPT) -> None:
    """Both texts, and the model's logits, must go beyond the context: a cache that keeps too much shows only there."""
    _can_be_compared(gpt)
    context = gpt.context_length
    if context > LONG:
        raise NotLookedAt(f"a context of more than {LONG} ids takes too long")
    lengths = [context - 3, context, context + 5]
    try:
        written(gpt, prompt_of(gpt, context + 5), 1, 0, 0)
    except Wrong:
        lengths.pop()  # `generate` need not take a prompt that is longer than the context
    with loud(gpt, "generate_cached"):
        for n in lengths:
            for seed in range(PROMPTS):
                _writes_the_same(gpt, prompt_of(gpt, n, seed), 4, (0, 0), "cache-too-long")
    for how in ((warm(gpt), 7), (0, 0)):
        _writes_the_same(gpt, prompt_of(gpt, context - 3), 14, how, "cache-too-long")


def _can_be_compared(gpt: GPT) -> None:
    for piece in ("generate", "generate_cached"):
        if not gpt.has(piece):
            raise NotLookedAt(f"your adapter has no `{piece}`")


def _writes_the_same(gpt: GPT, prompt: np.ndarray, n: int, how: tuple[float, int], mistake: str) -> None:
    """Raises `Told` if with the cache another text is written at this temperature and with this seed."""
    temperature, seed = how
    where = f"with {len(prompt)} ids, {n} more and a context of {gpt.context_length}, "
    where = f"{where if mistake == 'cache-too-long' else ''}at temperature {temperature:.3g} and seed {seed}"
    plain = written(gpt, prompt, n, temperature, seed)
    try:
        cached = written(gpt, prompt, n, temperature, seed, "generate_cached")
    except Wrong as wrong:
        if mistake != "cache-too-long":
            raise
        raise Told(f"{where}: {wrong}", mistake) from wrong
    if plain == cached:
        return
    first = next(i for i in range(n) if plain[i] != cached[i])
    message = f"{where}, new id {first} is {plain[first]} without the cache and {cached[first]} with it."
    if temperature == 0:
        logits = end_of(gpt, [*prompt.tolist(), *plain[:first]])
        right = [is_likeliest(logits, one[first]) for one in (plain, cached)]
        if all(right):
            return  # ids that are equally likely: either may come, and the texts go on differently
        if right == [False, True]:
            raise Told(f"{message} According to `logits`, {cached[first]} is right.", "plain-differs")
        fits = len(prompt) + first <= gpt.context_length  # so no cache has to begin anew yet
        if fits and _alike_after_one(gpt):
            raise Told(f"{message} After a prompt of a single id, the texts agree.", "cached-prompt")
    raise Told(message, mistake)


def _alike_after_one(gpt: GPT) -> bool:
    """Returns whether both ways of writing agree at temperature 0 after prompts of a single id."""
    for seed in range(PROMPTS):
        prompt, n = prompt_of(gpt, 1, seed), PROMPT
        try:
            if written(gpt, prompt, n, 0, 0) != written(gpt, prompt, n, 0, 0, "generate_cached"):
                return False
        except Wrong:
            return False
    return True


cache.your_own_code("step", lambda gpt: _step(gpt, 0, _empty(gpt)))
