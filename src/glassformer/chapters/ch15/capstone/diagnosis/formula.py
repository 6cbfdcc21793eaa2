"""Tells which mistake an attention has, on the queries, keys and values of `measures.formula`.

Most mistakes show in the weights themselves, whatever bias the scores have, such as ALiBi's: in what they sum to, and
along which axis, and in which of them are 0. Others are in a table of what they would return.
"""

from collections.abc import Iterator

import numpy as np

from glassformer.scratch import softmax

from ..adapter import Told
from ..measures.comparing import close
from ..measures.designs import FIT, UNITS, Attend, bias_of, scale_of
from ..measures.formula import AHEAD, KEYS, H, K, Q, T, V, mixed
from .engine import Suspect, tell

SCORES = Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K)
BELOW = AHEAD.T


def of_scores() -> Iterator[Suspect]:
    """Yields what mistakes return that can happen without a mask."""
    weights, e = softmax(SCORES), np.exp(SCORES - SCORES.max(axis=-1, keepdims=True))
    rows = [
        ("keys-ask", softmax(SCORES.swapaxes(-1, -2)) @ V), ("weights-transposed", weights.swapaxes(-1, -2) @ V),
        ("no-softmax", SCORES @ V), ("softmax-unsummed", e @ V), ("softmax-unsummed", np.exp(SCORES) @ V),
        ("sigmoid-weights", 1 / (1 + np.exp(-SCORES)) @ V),
        ("one-for-two", mixed(Q, Q, V)), ("one-for-two", mixed(KEYS, KEYS, V)),
        ("values-missing", weights @ KEYS), ("values-missing", weights @ Q),
    ]  # fmt: skip
    yield from (Suspect(mistake, value) for mistake, value in rows)


def tell_attention(attend: Attend, causal: bool, message: str, width: int) -> None:
    """Raises `Told` if a known mistake explains what an attention returns that is not right.

    Args:
        attend: the reader's.
        causal: whether it is wrong under the mask.
        message: what was found.
        width: D of the reader's model, by whose root some divide.
    """
    tell(attend(Q, KEYS, V, causal), message, () if causal else of_scores())
    # (H, T, T), whether they are weights or not
    free, masked = (np.nan_to_num(attend(Q, KEYS, UNITS, one)[..., :T]) for one in (False, True))
    if causal and (mistake := _of_mask(free, masked)):
        raise Told(f"{message} {mistake[1]}".rstrip(), mistake[0])
    weights = masked if causal else free
    sums = weights.sum(axis=-1)
    times = float(sums.mean())
    if abs(times - 1) > FIT and np.ptp(sums) < FIT * abs(times):
        raise Told(f"{message} All of it is {times:.4g} times what it should be.", "attention-times")
    if not close(sums, 1 + 0 * sums):
        if any(close(total := weights.sum(axis=axis), 1 + 0 * total) for axis in (-2, -3)):
            raise Told(message, "softmax-axis")
        if any(close(total := weights.sum(axis=axes), 1 + 0 * total) for axes in ((-2, -1), (-3, -2, -1))):
            raise Told(message, "softmax-of-all")
    elif not causal and close(free, masked) and (free[:, AHEAD] == 0).all():
        raise Told(message, "always-causal")
    scale = scale_of(attend, bias_of(attend))
    if scale is not None and abs(scale * np.sqrt(K) - 1) > 10 * FIT:
        names = {1.0: "no-scale", (H * K) ** -0.5: "scale-model", width**-0.5: "scale-model"}
        name = next((name for its, name in names.items() if np.isclose(scale, its, FIT)), "other-scale")
        raise Told(f"{message} Your scores are q kᵀ times {scale:.4g}; 1/√K is {K**-0.5:.4g}.", name)


def _of_mask(free: np.ndarray, masked: np.ndarray) -> tuple[str, str] | None:
    """Returns the mistake in a mask, and a sentence about it, from the weights (H, T, T) without and with it."""
    seen = masked > 1e-6
    ahead = seen[:, AHEAD].any(axis=-1)
    itself = np.diagonal(masked, axis1=1, axis2=2)[..., None]
    with np.errstate(all="ignore"):
        instead = (np.log(masked / itself) + np.diagonal(SCORES, axis1=1, axis2=2)[..., None])[:, AHEAD]
        added = np.log(masked / itself * np.diagonal(free, axis1=1, axis2=2)[..., None] / free)[:, AHEAD]
        number = next((x for x in (instead, added) if np.ptp(x) < FIT * max(1.0, np.abs(x).max())), None)
    visible = np.where(AHEAD, np.nan, masked)
    if close(masked, free):
        return "no-mask", ""
    if close(masked, np.where(AHEAD, 0, free)):
        return "mask-after-softmax", ""
    if ahead.any() and not seen[:, BELOW].any():
        return "mask-transposed", ""
    if not np.diagonal(seen[:, 1:, 1:], axis1=1, axis2=2).any():
        return "mask-of-self", ""
    if np.diagonal(seen, 1, axis1=1, axis2=2).all() and not seen[:, np.triu(AHEAD, 2)].any():
        return "mask-one-ahead", ""
    if ahead.any() and not ahead.all():
        heads = ", ".join(map(str, np.flatnonzero(ahead)))
        return "mask-of-some", f"Later positions get weight in head {heads}, and in the others not."
    if ahead.any() and number is not None:
        at = float(number.mean())
        return "mask-of-zeros" if abs(at) < FIT else "mask-finite", f"The number seems to be {at:.4g}."
    if not ahead.any() and (np.nanmax(visible, axis=-1) - np.nanmin(visible, axis=-1) < 1e-6).all():
        return "scores-lost", ""
    return None
