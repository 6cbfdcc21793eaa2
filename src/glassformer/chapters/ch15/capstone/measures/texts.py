"""Ids to ask a reader's design about, and what it writes after them."""

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers, in_numpy

from .adapter import Own, Told

PROMPT = 6  # ids
LONG = 512  # ids; a longer context is not filled
IMMENSE = 1e6  # a temperature at which all ids are equally likely


def prompt_of(own: Own, n: int = PROMPT, seed: int = 11) -> np.ndarray:
    """Returns n random ids."""
    return np.random.default_rng(seed).integers(own.vocab_size, size=n)


def written(
    own: Own, prompt: np.ndarray, n: int, temperature: float, seed: int, piece: str = "generate"
) -> list[int]:
    """Returns the n new ids, whether the prompt comes back with them or not."""
    what = f"`{piece}` of {len(prompt)} ids and {n} more"
    ids = _returned(own, piece, prompt, n, temperature, seed)
    if ids.ndim == 1 and len(ids) in (n, len(prompt)) and np.array_equal(ids[: len(prompt)], prompt):
        mistake = _too_short(own, piece, prompt)
        if mistake:
            raise Told(f"{what} returned the prompt and {len(ids) - len(prompt)} new ids.", mistake)
    if ids.ndim != 1 or len(ids) not in (n, len(prompt) + n):
        message = f"{what} should return {len(prompt) + n} ids, or only the {n} new ones; yours has shape {ids.shape}."
        if ids.ndim == 1 and 1 in (abs(len(ids) - n), abs(len(ids) - len(prompt) - n)):
            raise Told(message, "wrong-number")
        if ids.ndim == 1 and not n <= len(ids) < len(prompt) + n and len(ids) < len(prompt) + n - 1:
            raise Told(message, "stops-early")
        raise Wrong(message)
    if len(ids) > n and not np.array_equal(ids[: len(prompt)], prompt):
        raise Wrong(f"{what} should begin with the unchanged prompt.")
    new = ids[-n:]
    if new.dtype.kind not in "iu" or new.min() < 0 or new.max() >= own.vocab_size:
        raise Wrong(f"{what} should return ids from 0 to V − 1; yours are {new[:6].tolist()}.")
    return [int(one) for one in new]


def _returned(own: Own, piece: str, prompt: np.ndarray, n: int, temperature: float, seed: int) -> np.ndarray:
    found = own.call(piece, prompt, n, temperature, seed)
    if not isinstance(found, np.ndarray | list | tuple):
        found = list(found) if hasattr(found, "__next__") else found
    ids = as_numbers(in_numpy(found), f"`{piece}` of {len(prompt)} ids and {n} more")
    while ids.ndim > 1 and ids.shape[0] == 1:
        ids = ids[0]
    return ids


def _too_short(own: Own, piece: str, prompt: np.ndarray) -> str:
    """Returns why a text that begins with its prompt is too short; "" if these are new ids that repeat the prompt."""
    P = len(prompt)
    one, more = (_returned(own, piece, prompt, n, 0, 0) for n in (1, P + 3))
    if np.array_equal(one, prompt) and len(more) == P + 3 and np.array_equal(more[:P], prompt):
        return "n-is-total"
    return "stops-early" if len(one) == P + 1 and np.array_equal(one[:P], prompt) else ""


def softmax(x: np.ndarray) -> np.ndarray:
    """Returns the softmax of (V,)."""
    e = np.exp(x - x.max())
    return e / e.sum()


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Returns ln softmax over the last axis."""
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def asked(own: Own, T: int = 12, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Returns random ids, which nothing can predict, and those that follow them."""
    ids = np.random.default_rng(seed).integers(own.vocab_size, size=T + 1)
    return ids[:-1], ids[1:]


def half(numbers: np.ndarray) -> float:
    """Returns the temperature at which the likeliest id has a probability of about a half."""
    low, high = 1e-6, 1e4
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if softmax(numbers / middle).max() > 0.5 else (low, middle)
    return low


def likeliest(own: Own, ids: list[int], one: int) -> bool:
    """Returns whether no id is likelier after these ids than this one, except by what single precision rounds."""
    logits = own.logits(np.array(ids))[-1]
    return bool(logits[one] >= logits.max() - 1e-5 * max(1.0, abs(logits.max())))
