"""Strategies that turn logits into the distribution of the next id, and draw from it.

Each maps logits (B, V) to logits (B, V), with −inf for excluded ids. The axes: B batch, V vocabulary.
"""

import math
from collections.abc import Sequence

import numpy as np

from glassformer import _checks as checks
from glassformer.generate.inputs import check_finite
from glassformer.scratch import softmax
from glassformer.shapes import Float, Int64, Integer


def apply_temperature(
    logits: Float[np.ndarray, "*B V"], temperature: float | int
) -> Float[np.ndarray, "*B V"]:
    """Divides the logits: a temperature below 1 makes likely ids likelier, one above 1 makes unlikely ids likelier.

    At `temperature` = 0, the limit, only the largest logit is kept (the first, if several are equal). The
    largest logit is shifted to 0, which changes no probability and keeps a tiny temperature from overflowing.

    Source: Ackley et al. 1985, "A Learning Algorithm for Boltzmann Machines". Derived in chapter 11.

    Raises:
        ValueError: `temperature` is negative or not finite.
    """
    checks.number("temperature", temperature, lambda t: 0 <= t < math.inf, "at least 0 and finite")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    if temperature == 0:
        first_largest = logits.argmax(axis=-1, keepdims=True) == np.arange(logits.shape[-1])
        return np.where(first_largest, shifted, -np.inf)
    with np.errstate(over="ignore"):  # −1 / 1e-310 is −inf, as it should be
        return shifted / temperature


def keep_top_k(logits: Float[np.ndarray, "*B V"], top_k: int) -> Float[np.ndarray, "*B V"]:
    """Keeps the `top_k` largest logits, and any that are equal to the smallest of these.

    Source: Fan et al. 2018, "Hierarchical Neural Story Generation", section 5.1. Derived in chapter 11.

    Raises:
        ValueError: `top_k` is below 1. (Above V it excludes nothing.)
    """
    checks.whole("top_k", top_k)
    if top_k >= logits.shape[-1]:
        return logits
    smallest_kept = np.partition(logits, -top_k, axis=-1)[..., -top_k, None]
    return np.where(logits < smallest_kept, -np.inf, logits)


def keep_top_p(logits: Float[np.ndarray, "*B V"], top_p: float | int) -> Float[np.ndarray, "*B V"]:
    """Keeps the nucleus: the fewest ids, from the likeliest down, with a total probability of at least `top_p`.

    Source: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1. Derived in
    chapter 11.

    Raises:
        ValueError: `top_p` is not in (0, 1].
    """
    checks.number("top_p", top_p, lambda p: 0 < p <= 1, "above 0 and at most 1")
    if top_p == 1:  # rounding may push a running sum past 1 before the last id
        return logits
    likeliest_first = np.argsort(-logits, axis=-1, kind="stable")  # stable: equal ids keep their order
    so_far = np.cumsum(np.take_along_axis(softmax(logits), likeliest_first, axis=-1), axis=-1)
    excluded = np.zeros(logits.shape, dtype=bool)
    # An id is left out if the likelier ones already have top_p.
    np.put_along_axis(excluded, likeliest_first[..., 1:], so_far[..., :-1] >= top_p, axis=-1)
    return np.where(excluded, -np.inf, logits)


def keep_min_p(logits: Float[np.ndarray, "*B V"], min_p: float | int) -> Float[np.ndarray, "*B V"]:
    """Keeps every id that is at least `min_p` times as probable as the likeliest.

    Source: Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs",
    section 3. Derived in chapter 11.

    Raises:
        ValueError: `min_p` is not within 0..1.
    """
    checks.number("min_p", min_p, lambda p: 0 <= p <= 1, "within 0..1")
    probabilities = softmax(logits)
    least = min_p * probabilities.max(axis=-1, keepdims=True)
    return np.where(probabilities < least, -np.inf, logits)


def penalize_repetition(
    logits: Float[np.ndarray, "B V"], past: Sequence[Integer[np.ndarray, " _"]], penalty: float | int
) -> Float[np.ndarray, "B V"]:
    """Makes the ids that occur in `past`, one text for each row, less likely (for a `penalty` above 1).

    A positive logit is divided by the penalty and a negative one is multiplied by it; both become smaller.

    Source: Keskar et al. 2019, "CTRL", section 4.1; the negative logits as in transformers. Derived in
    chapter 11.

    Raises:
        ValueError: `penalty` is not between 1e-100 and 1e100 (beyond that, logits overflow), or there is not
            one text for each row.
    """
    checks.number("repetition_penalty", penalty, lambda p: 1e-100 <= p <= 1e100, "between 1e-100 and 1e100")
    checks.equal("len(past)", len(past), "len(logits)", len(logits))
    logits = logits.copy()
    for row, ids in zip(logits, past, strict=True):
        row[ids] = np.where(row[ids] < 0, row[ids] * penalty, row[ids] / penalty)
    return logits


def forbid_repeated_ngrams(
    logits: Float[np.ndarray, "B V"], past: Sequence[Integer[np.ndarray, " _"]], n: int
) -> Float[np.ndarray, "B V"]:
    """Excludes every id that would complete a run of `n` ids that already occurs in `past`, one text for each row.

    Source: Paulus et al. 2017, "A Deep Reinforced Model for Abstractive Summarization", section 2.5. Derived in
    chapter 11.

    Raises:
        ValueError: `n` is below 1, or there is not one text for each row.
    """
    checks.whole("no_repeat_ngram", n)
    checks.equal("len(past)", len(past), "len(logits)", len(logits))
    logits = logits.copy()
    for row, ids in zip(logits, past, strict=True):
        if len(ids) >= n:
            runs = np.lib.stride_tricks.sliding_window_view(ids, n)
            begins_like_the_end = (runs[:, :-1] == ids[len(ids) - n + 1 :]).all(axis=1)
            row[runs[begins_like_the_end, -1]] = -np.inf
    return logits


def distribution(
    logits: Float[np.ndarray, "*B V"],
    *,
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | int | None = None,
    min_p: float | int | None = None,
    repetition_penalty: float | int = 1.0,
    no_repeat_ngram: int | None = None,
    past: Sequence[Integer[np.ndarray, " _"]] | None = None,
) -> Float[np.ndarray, "*B V"]:
    """Returns the probabilities (..., V) of the next id, in float64.

    The strategies apply in this order: `repetition_penalty` and `no_repeat_ngram`, which need the `past`, one
    text for each row of logits (B, V); then `temperature`, `top_k`, `top_p` and `min_p`. Each acts on what
    the ones before it left, and the result is normalized to sum to 1 again. With `temperature` = 0 one id has
    all the probability (greedy decoding).

    Derived in chapter 11.

    Raises:
        ValueError: an option is out of range; a row's largest logit is not finite (usually NaN); no id is
            left; `past` is missing although it is needed.
        TypeError: logits are not floating-point, or an option is not a number.
    """
    checks.floats("logits", logits)
    logits = logits.astype(np.float64)
    check_finite(logits)
    if repetition_penalty != 1 or no_repeat_ngram is not None:
        if past is None:
            raise ValueError("past=None, but repetition_penalty and no_repeat_ngram need the texts so far")
        if repetition_penalty != 1:
            logits = penalize_repetition(logits, past, repetition_penalty)
        if no_repeat_ngram is not None:
            logits = forbid_repeated_ngrams(logits, past, no_repeat_ngram)
    if (logits.max(axis=-1) == -np.inf).any():
        raise ValueError(
            f"nothing is left to draw: repetition_penalty={repetition_penalty}, no_repeat_ngram="
            f"{no_repeat_ngram} exclude every id"
        )
    logits = apply_temperature(logits, temperature)
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    if min_p is not None:
        logits = keep_min_p(logits, min_p)
    return softmax(logits)


def draw(
    probabilities: Float[np.ndarray, "B V"], uniform: Float[np.ndarray, " B"]
) -> Int64[np.ndarray, " B"]:
    """Draws one id for each row according to its probabilities; `uniform` holds random numbers in [0, 1).

    The probabilities are laid end to end on a line; the number falls on the stretch of the id that is drawn.

    Derived in chapter 11.
    """
    ends = np.cumsum(probabilities, axis=-1)
    # side="right" finds the first end *above* the number, so an id of probability 0 is never drawn, not even
    # for 0.
    return np.array(
        [np.searchsorted(row, u * row[-1], side="right") for row, u in zip(ends, uniform, strict=True)],
        dtype=np.int64,
    )
