"""Attention in pieces: the same numbers, without ever holding the weights of all queries for all keys.

The axes: B batch, T queries, S keys, H heads, K d_head, U the width of a value.
"""

import math
from collections.abc import Iterator

import numpy as np

from glassformer import _checks as checks
from glassformer.shapes import Bool, Float


def attention_in_pieces(
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S U"],
    *,
    piece: int = 256,
    causal: bool = False,
    window: int | None = None,
    mask: Bool[np.ndarray, "..."] | None = None,
    scale: float | None = None,
    sinks: Float[np.ndarray, " H"] | None = None,
) -> tuple[Float[np.ndarray, "*B T U"], Float[np.ndarray, "*B T"]]:
    """Returns softmax(q·kᵀ·scale)·v and the logarithm of each query's sum of exp(score), piece by piece.

    `piece` queries at a time read the keys and values `piece` at a time, and keep
    the largest score so far, and the sums of exp(score − largest) and of the
    values with these weights. When a larger score comes, what has been summed
    shrinks accordingly. So memory grows with T + S, not with T · S. What a causal
    mask or the window hides wholly is not computed.

    As in `causal_mask`, the queries are the last T of the S positions. With
    `causal`, none sees what follows it; with `window`, none sees farther back
    than its own position and the window − 1 before it. `mask` is boolean, True =
    may attend, and broadcasts to the scores (..., T, S). `scale` defaults to 1/√K.
    `sinks` has a logit for each head, on axis −3 of q, that joins the sum of every
    query, as if there were one more key with a value of zeros. A query that sees
    no key gets zeros.

    Source: Dao et al. 2022, "FlashAttention", algorithm 1; the order of the loops
    is that of Dao 2023, "FlashAttention-2", algorithm 1. The running maximum and
    sum: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax",
    algorithm 3. Memory: Rabe and Staats 2021, "Self-attention Does Not Need O(n²)
    Memory". Derived in chapter 16.

    Returns:
        The output (..., T, U), and log Σ exp(score) with the sink (..., T), which
        is −inf where a query sees nothing.

    Raises:
        ValueError: the shapes of q, k and v, or of `mask` or `sinks`, do not fit;
            there is no key, or `piece` or `window` is below 1; there are more
            queries than keys, with `causal` or `window`.
        TypeError: q, k, v or `sinks` is not floating-point, or `mask` not boolean.
    """
    checks.attention(q, k, k, mask, None)
    checks.floats("v", v)
    checks.equal(
        "v.shape[:-1]", tuple(v.shape[:-1]), "k.shape[:-1]", tuple(k.shape[:-1])
    )
    checks.whole("piece", piece)
    if window is not None:
        checks.whole("window", window)
    if causal or window is not None:
        checks.whole("n_keys", k.shape[-2], at_least=q.shape[-2])
    if sinks is not None:
        checks.floats("sinks", sinks)
        checks.equal(
            "sinks.shape", tuple(sinks.shape), "(H,)", tuple(q.shape[-3:-2])
        )
    # What each query has seen at first: nothing, or the sink
    sink = -np.inf if sinks is None else sinks[:, None]
    lse = np.full(q.shape[:-1], sink, q.dtype)
    mixed = np.empty((*q.shape[:-1], v.shape[-1]), v.dtype)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    for rows in _cut(0, q.shape[-2], piece):
        queries = q[..., rows, :] * scale
        # As in softmax: of −inf, subtract the lowest finite number
        largest = np.maximum(lse[..., rows, None], np.finfo(lse.dtype).min)
        total = np.exp(lse[..., rows, None] - largest)
        so_far = np.zeros_like(mixed[..., rows, :])
        for keys, hidden in _seen(rows, q, k, piece, causal, window, mask):
            scores = queries @ k[..., keys, :].swapaxes(-1, -2)
            np.copyto(scores, -np.inf, where=hidden)
            before = largest
            largest = np.maximum(before, scores.max(axis=-1, keepdims=True))
            weights = np.exp(scores - largest)
            shrink = np.exp(before - largest)
            total = total * shrink + weights.sum(axis=-1, keepdims=True)
            so_far = so_far * shrink + weights @ v[..., keys, :]
        # The largest gave exp(0) = 1, so only a sum over nothing is less: 0
        mixed[..., rows, :] = so_far / np.maximum(total, 1)
        with np.errstate(divide="ignore"):  # log 0 is −inf
            lse[..., rows] = (largest + np.log(total))[..., 0]
    return mixed, lse


def attention_in_pieces_backward(
    grad: Float[np.ndarray, "*B T U"],
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S U"],
    mixed: Float[np.ndarray, "*B T U"],
    lse: Float[np.ndarray, "*B T"],
    *,
    piece: int = 256,
    causal: bool = False,
    window: int | None = None,
    mask: Bool[np.ndarray, "..."] | None = None,
    scale: float | None = None,
    sinks: Float[np.ndarray, " H"] | None = None,
    grad_lse: Float[np.ndarray, "*B T"] | None = None,
) -> tuple[np.ndarray, ...]:
    """Maps the gradient of the output, and `grad_lse` if lse is used, to those of q, k and v, and of `sinks` if given.

    exp(score − lse) is each weight again, piece by piece, so no piece has to be
    kept. What `softmax_backward` subtracts, Σ grad·weights over all keys, is grad ·
    mixed.

    Source: Dao et al. 2022, "FlashAttention", algorithm 4. Derived in chapter 16.
    """
    common = np.vecdot(grad, mixed)
    if grad_lse is not None:
        common -= grad_lse
    lse = np.maximum(lse, np.finfo(lse.dtype).min)
    grad_q, grad_k, grad_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    for rows in _cut(0, q.shape[-2], piece):
        queries, grad_rows = q[..., rows, :] * scale, grad[..., rows, :]
        for keys, hidden in _seen(rows, q, k, piece, causal, window, mask):
            scores = queries @ k[..., keys, :].swapaxes(-1, -2)
            np.copyto(scores, -np.inf, where=hidden)
            weights = np.exp(scores - lse[..., rows, None])
            grad_v[..., keys, :] += weights.swapaxes(-1, -2) @ grad_rows
            grad_weights = grad_rows @ v[..., keys, :].swapaxes(-1, -2)
            grad_scores = weights * (grad_weights - common[..., rows, None])
            grad_q[..., rows, :] += grad_scores @ k[..., keys, :]
            grad_k[..., keys, :] += grad_scores.swapaxes(-1, -2) @ queries
    grad_q *= scale
    if sinks is None:
        return grad_q, grad_k, grad_v
    # The value of a sink is zeros, so its grad_weights are, too
    grad_sinks = -np.exp(sinks[:, None] - lse) * common  # (..., H, T)
    grad_sinks = grad_sinks.swapaxes(-1, -2).reshape(-1, len(sinks)).sum(axis=0)
    return grad_q, grad_k, grad_v, grad_sinks


def _cut(start: int, end: int, piece: int) -> list[slice]:
    """Cuts the positions from `start` to before `end` into pieces."""
    return [slice(at, min(at + piece, end)) for at in range(start, end, piece)]


def _seen(
    rows: slice,
    q: np.ndarray,
    k: np.ndarray,
    piece: int,
    causal: bool,
    window: int | None,
    mask: Bool[np.ndarray, "..."] | None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yields the pieces of keys that these queries see, and what is hidden in each (..., queries, keys)."""
    T, S = q.shape[-2], k.shape[-2]
    first, last = rows.start + S - T, rows.stop - 1 + S - T  # positions
    start = 0 if window is None else max(0, first - window + 1)
    places = np.arange(first, last + 1)[:, None]
    if mask is not None:
        mask = np.broadcast_to(mask, (*mask.shape[:-2], T, S))  # a view
    for keys in _cut(start, last + 1 if causal else S, piece):
        hidden = np.array(False)
        others = np.arange(keys.start, keys.stop)
        if causal:
            hidden = others > places
        if window is not None:
            hidden = hidden | (others <= places - window)
        if mask is not None:
            hidden = hidden | ~mask[..., rows, keys]
        yield keys, hidden


def merge(
    mixed_a: Float[np.ndarray, "*B T U"],
    lse_a: Float[np.ndarray, "*B T"],
    mixed_b: Float[np.ndarray, "*B T U"],
    lse_b: Float[np.ndarray, "*B T"],
) -> tuple[Float[np.ndarray, "*B T U"], Float[np.ndarray, "*B T"]]:
    """Returns what attention to the keys of both gives: the average of both outputs, weighted by their sums, and lse.

    The sums are exp(lse_a) and exp(lse_b), as `attention_in_pieces` returns them.
    So the keys can be split among several machines, or the past can be attended
    to apart from what is new. A sink belongs to one of the two only.

    Source: Rabe and Staats 2021, "Self-attention Does Not Need O(n²) Memory".
    Derived in chapter 16.

    Raises:
        ValueError: the shapes do not fit.
        TypeError: one of them is not floating-point.
    """
    checks.floats("mixed_a", mixed_a)
    checks.floats("mixed_b", mixed_b)
    checks.floats("lse_a", lse_a)
    checks.floats("lse_b", lse_b)
    checks.axes("mixed_a", mixed_a, "T, U")
    for name, each, other in (
        ("mixed_b.shape", mixed_b.shape, mixed_a.shape),
        ("lse_a.shape", lse_a.shape, mixed_a.shape[:-1]),
        ("lse_b.shape", lse_b.shape, mixed_a.shape[:-1]),
    ):
        checks.equal(name, tuple(each), "that of mixed_a", tuple(other))
    lse = np.logaddexp(lse_a, lse_b)
    finite = np.maximum(lse, np.finfo(lse.dtype).min)  # where neither saw a key
    share_a, share_b = np.exp(lse_a - finite), np.exp(lse_b - finite)
    return mixed_a * share_a[..., None] + mixed_b * share_b[..., None], lse
