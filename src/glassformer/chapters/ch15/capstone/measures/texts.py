"""Ids to ask a reader's design about, text to learn from, and what the design writes."""

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers, in_numpy
from glassformer.text import corpus

from ..adapter import GPT, Told, without_batch

PROMPT = 6  # ids
LONG = 512  # ids; a longer context is not filled
HALF = np.log(0.5)
IMMENSE = 1e6  # a temperature at which all ids are equally likely


def some_ids(gpt: GPT, n: int, seed: int = 5) -> np.ndarray:
    """Returns n ids; no two neighbours are the same."""
    steps = np.random.default_rng(seed).integers(1, gpt.vocab_size, size=n)
    return np.cumsum(steps) % gpt.vocab_size


def asked(gpt: GPT, T: int = 12, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Returns random ids, which nothing can predict, and those that follow them."""
    ids = prompt_of(gpt, T + 1, seed)
    return ids[:-1], ids[1:]


def prompt_of(gpt: GPT, n: int = PROMPT, seed: int = 11) -> np.ndarray:
    """Returns n random ids."""
    return np.random.default_rng(seed).integers(gpt.vocab_size, size=n)


def ids_of(gpt: GPT, text: str) -> np.ndarray:
    """Returns the ids that `encode` makes of a text, (T,)."""
    what = f"`encode` of {text[:20]!r}"
    ids = without_batch(as_numbers(in_numpy(gpt.call("encode", text)), what), 1)
    if ids.ndim != 1:
        raise Wrong(f"{what} should have one axis (T); yours has shape {ids.shape}.")
    if ids.dtype.kind not in "iu" and ids.size:
        raise Wrong(f"{what} should be whole numbers; yours are {ids.dtype}.")
    return ids.astype(np.int64)


def windows_of(gpt: GPT, steps: int, T: int, texts: int) -> np.ndarray:
    """Returns windows of Shakespeare, (steps, texts, T + 1), in the reader's own ids, or in ids of the checker's."""
    if "text" not in gpt.notes:
        text = corpus()[:60_000]
        letters = {one: i % gpt.vocab_size for i, one in enumerate(sorted(set(text)))}
        try:
            ids = ids_of(gpt, text) if gpt.has("encode") else np.array([letters[one] for one in text])
        except Wrong as wrong:
            if isinstance(wrong.__cause__, KeyError | ValueError):  # of a dictionary, and of str.index
                raise Told(f"{str(wrong).rstrip('.')}.", "text-unknown") from wrong
            raise
        gpt.notes["text"] = ids
    ids = gpt.notes["text"]
    starts = np.random.default_rng(2).integers(len(ids) - T - 1, size=(steps, texts))
    return ids[starts[..., None] + np.arange(T + 1)]


def learn(gpt: GPT, windows: np.ndarray) -> float:
    """Takes a step on windows (texts, T + 1), or on the first of them if the adapter takes one text at a time."""
    return step_on(gpt, windows[..., :-1], windows[..., 1:])


def step_on(gpt: GPT, ids: np.ndarray, targets: np.ndarray) -> float:
    """Takes a step on ids and targets (texts, T), or on the first text if the adapter takes one at a time."""
    if not gpt.batched:
        ids, targets = ids[0], targets[0]
    return gpt.number("learn", ids, targets, texts=True)


def written(
    gpt: GPT, prompt: np.ndarray, n: int, temperature: float, seed: int, piece: str = "generate"
) -> list[int]:
    """Returns the n new ids, whether the prompt comes back with them or not."""
    what, P = f"`{piece}` of {len(prompt)} ids and {n} more", len(prompt)

    def ids_and(n: int) -> np.ndarray:
        text = gpt.call(piece, prompt, n, temperature, seed)
        text = list(text) if hasattr(text, "__next__") else text
        return without_batch(as_numbers(in_numpy(text), what), 1)

    ids = ids_and(n)
    message = f"{what} should return {P + n} ids, or only the {n} new ones; yours has shape {ids.shape}."
    if ids.ndim != 1:
        raise Wrong(message)
    # As many ids as asked for, but they begin with the prompt: then it may have written fewer.
    if len(ids) == n > P and np.array_equal(ids[:P], prompt) and len(ids_and(n + P)) == n + P:
        raise Told(f"{what} returned the prompt and {n - P} new ids.", "wrong-number")
    if len(ids) not in (n, P + n):
        raise Told(message, "wrong-number")
    if len(ids) > n and not np.array_equal(ids[:P], prompt):
        raise Wrong(f"{what} should begin with the unchanged prompt.")
    new = ids[-n:]
    if new.dtype.kind not in "iu" or new.min() < 0 or new.max() >= gpt.vocab_size:
        raise Wrong(f"{what} should return ids from 0 to V − 1; yours are {new[:6].tolist()}.")
    return [int(one) for one in new]


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Returns ln softmax over the last axis."""
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def half(numbers: np.ndarray) -> float:
    """Returns the temperature at which the likeliest id has a probability of about a half."""
    low, high = 1e-6, 1e4
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if log_softmax(numbers / middle).max() > HALF else (low, middle)
    return low


def is_likeliest(logits: np.ndarray, one: int) -> bool:
    """Returns whether no id is likelier than this one, except by what single precision rounds."""
    return bool(logits[one] >= logits.max() - 1e-5 * max(1.0, abs(logits.max())))


def end_of(gpt: GPT, text: list[int]) -> np.ndarray:
    """Returns the logits after a text of any length: those of its last `context_length` ids."""
    return gpt.logits(np.array(text[-gpt.context_length :]))[-1]
