"""Layers whose past is one matrix: linear attention, the delta rule and Mamba-2, as one recurrence.

The axes: B batch, T positions, C the positions of a chunk, H heads, K features of a
key, U those of a value.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.layer import Saved, save_for_backward
from glassformer.shapes import Float

CHUNK = 64
"""The positions of a chunk."""

CHUNK_OF_CHANNELS = 16
"""The same where each feature of a key decays by itself: C · C · K numbers are in memory."""


def recurrent_steps(
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B T K"],
    v: Float[np.ndarray, "*B T U"],
    *,
    log_decay: Float[np.ndarray, "*B T _"],
    strength: Float[np.ndarray, "*B T 1"],
    state: Float[np.ndarray, "*B K U"] | None = None,
    delta: bool = True,
) -> tuple[Float[np.ndarray, "*B T U"], Float[np.ndarray, "*B K U"]]:
    """Reads and writes a state S (..., K, U) position by position; returns what each query read, and the last state.

    At each position, the state decays, then the key and value are written, then
    the query reads:

        S = exp(log_decay) · S
        S = S + k ⊗ strength · (v − Sᵀk)        the delta rule; or
        S = S + k ⊗ strength · v                without `delta`
        read = Sᵀq

    `log_decay`, which is at most 0, has one number for each position, or one for
    each feature of its key. `state` is the one before the first position, zeros by
    default. If neither `log_decay` nor `strength` says more than 0 and 1, the
    second form is linear attention without a denominator.

    Source: linear attention: Katharopoulos et al. 2020, "Transformers are RNNs",
    section 3.4; the delta rule: Schlag et al. 2021, "Linear Transformers Are
    Secretly Fast Weight Programmers", section 4.2; with decay: Yang et al. 2025,
    "Gated Delta Networks", section 3.1; per feature: Kimi Team 2025, "Kimi
    Linear", section 3; Mamba-2: Dao and Gu 2024, "Transformers are SSMs",
    section 2. Derived in chapter 17.

    Raises:
        ValueError: a shape does not fit, or there is no position.
        TypeError: an argument is not floating-point.
    """
    checks.recurrence(q, k, v, log_decay, strength, state)
    state = _first(state, k, v)
    read = np.empty(v.shape, v.dtype)
    for t in range(q.shape[-2]):
        state = np.exp(log_decay[..., t, :, None]) * state
        key = k[..., t, :, None]  # (..., K, 1)
        value = v[..., t, None, :]  # (..., 1, U)
        if delta:
            value = value - key.swapaxes(-1, -2) @ state
        state = state + key @ (strength[..., t, None, :] * value)
        read[..., t, :] = (q[..., t, None, :] @ state)[..., 0, :]
    return read, state


def recurrent_chunks(
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B T K"],
    v: Float[np.ndarray, "*B T U"],
    *,
    log_decay: Float[np.ndarray, "*B T _"],
    strength: Float[np.ndarray, "*B T 1"],
    state: Float[np.ndarray, "*B K U"] | None = None,
    delta: bool = True,
    chunk: int | None = None,
    saved: Saved | None = None,
) -> tuple[Float[np.ndarray, "*B T U"], Float[np.ndarray, "*B K U"]]:
    """Returns what `recurrent_steps` returns, `chunk` positions at a time, by products of matrices.

    Inside a chunk, a query reads what the chunk has written before as attention
    would, with a (C, C) array of scores; of everything earlier, it reads the state
    at the start of the chunk. What the delta rule writes at one position depends
    on what it wrote at those before, so all of a chunk are solved for at once: the
    equations are a triangular system. `chunk` is 64 by default, or 16 if each
    feature decays by itself.

    Source: Yang et al. 2024, "Parallelizing Linear Transformers with the Delta
    Rule over Sequence Length", section 3; with decay: "Gated Delta Networks",
    section 3.3. Derived in chapter 17.

    Raises:
        ValueError: as `recurrent_steps`, or `chunk` is below 1.
        TypeError: an argument is not floating-point.
    """
    checks.recurrence(q, k, v, log_decay, strength, state)
    state = _first(state, k, v)
    read = np.empty(v.shape, v.dtype)
    starts = []
    for rows in _chunks(log_decay, chunk):
        starts.append(state)
        c = _Chunk.of(q, k, log_decay, rows)
        beta = strength[..., rows, :]
        written = beta * v[..., rows, :]
        if delta:
            written = written - (beta * c.k_past) @ state
            written = np.linalg.solve(c.system(beta), written)
        read[..., rows, :] = c.q_past @ state + c.scores() @ written
        state = c.kept * state + c.k_left.swapaxes(-1, -2) @ written
    save_for_backward(saved, q, k, v, log_decay, strength, delta, chunk, starts)
    return read, state


def recurrent_chunks_backward(
    grad: Float[np.ndarray, "*B T U"],
    saved: Saved,
    *,
    grad_state: Float[np.ndarray, "*B K U"] | None = None,
) -> tuple[np.ndarray, ...]:
    """Maps the gradient of what was read, and of the last state if it is used, to those of all inputs.

    Of each chunk, the state at its start was saved, and the rest is computed again.
    The chunks are gone through from the last to the first, as the gradient of a
    state comes from what follows. A decay always stands beside a query or a key, as
    q·exp(G) or k·exp(−G), so within a chunk, its gradient is made of q · grad_q and k · grad_k.

    Derived in chapter 17.

    Returns:
        The gradients of q, k, v, `log_decay`, `strength` and the first state.
    """
    q, k, v, log_decay, strength, delta, chunk, starts = saved.pop()
    grad_q, grad_k, grad_v = np.empty_like(q), np.empty_like(k), np.empty_like(v)
    grad_decay, grad_strength = np.empty_like(log_decay), np.empty_like(strength)
    if grad_state is None:
        grad_state = np.zeros_like(starts[0])
    chunks = list(_chunks(log_decay, chunk))
    for rows, state in zip(reversed(chunks), reversed(starts), strict=True):
        # Forward again
        c = _Chunk.of(q, k, log_decay, rows)
        beta, value, from_read = (a[..., rows, :] for a in (strength, v, grad))
        error = value - c.k_past @ state if delta else value
        system: Any = c.system(beta) if delta else None
        written = beta * error
        if delta:
            written = np.linalg.solve(system, written)

        # The three places where what is written, the state and the keys are used
        scores = c.scores()
        to_written = scores.swapaxes(-1, -2) @ from_read + c.k_left @ grad_state
        to_scores = c.seen(from_read @ written.swapaxes(-1, -2))
        to_q_past = from_read @ state.swapaxes(-1, -2)
        to_k_left = written @ grad_state.swapaxes(-1, -2)
        to_kept = (state * grad_state).sum(axis=-1)[..., None, :]  # (..., 1, K)
        to_state = c.kept * grad_state + c.q_past.swapaxes(-1, -2) @ from_read

        # What is written
        to_k_past: Any = None
        to_pairs: Any = None
        to_beta = 0.0
        if delta:
            to_written = np.linalg.solve(system.swapaxes(-1, -2), to_written)
            to_system = -c.before(to_written @ written.swapaxes(-1, -2))
            pairs = c.pairs(c.k, c.k)
            to_k_past = -(beta * to_written) @ state.swapaxes(-1, -2)
            to_state -= c.k_past.swapaxes(-1, -2) @ (beta * to_written)
            to_pairs = beta * to_system
            to_beta = (to_system * pairs).sum(axis=-1, keepdims=True)
        to_beta = to_beta + (to_written * error).sum(axis=-1, keepdims=True)
        grad_v[..., rows, :] = beta * to_written
        grad_strength[..., rows, :] = to_beta

        # Queries and keys, and the decays beside them
        to_q, to_k = c.pairs_backward(to_scores, c.q, c.k)
        to_total = c.q * to_q - c.k * to_k
        if delta:
            to_later, to_earlier = c.pairs_backward(to_pairs, c.k, c.k)
            to_total += c.k * (to_later - to_earlier)
            to_k = to_k + to_later + to_earlier + np.exp(c.total) * to_k_past
            to_total += c.k_past * to_k_past
        to_total += c.q_past * to_q_past
        grad_q[..., rows, :] = to_q + np.exp(c.total) * to_q_past
        shrink = np.exp(c.total[..., -1:, :] - c.total)
        grad_k[..., rows, :] = to_k + shrink * to_k_left
        left = c.k_left * to_k_left
        to_total -= left
        last = np.exp(c.total[..., -1:, :]) * to_kept
        to_total[..., -1:, :] += left.sum(axis=-2, keepdims=True) + last
        if log_decay.shape[-1] == 1:
            to_total = to_total.sum(axis=-1, keepdims=True)
        # Each total is a sum of the decays up to there
        grad_decay[..., rows, :] = np.cumsum(to_total[..., ::-1, :], axis=-2)[
            ..., ::-1, :
        ]
        grad_state = to_state
    return grad_q, grad_k, grad_v, grad_decay, grad_strength, grad_state


class _Chunk(NamedTuple):
    """The queries and keys of one chunk, and how much decays between any two of its positions."""

    q: np.ndarray  # (..., C, K)
    k: np.ndarray  # (..., C, K)
    total: (
        np.ndarray
    )  # (..., C, 1 or K): the sum of the log decays up to each position
    between: (
        np.ndarray
    )  # (..., C, C, 1 or K): the decay from a position to a later one

    @classmethod
    def of(
        cls, q: np.ndarray, k: np.ndarray, log_decay: np.ndarray, rows: slice
    ) -> "_Chunk":
        total = np.cumsum(log_decay[..., rows, :], axis=-2)
        between = total[..., :, None, :] - total[..., None, :, :]
        later = np.tri(total.shape[-2], k=-1, dtype=bool).T[..., None]
        between = np.exp(np.where(later, -np.inf, between))
        return cls(q[..., rows, :], k[..., rows, :], total, between)

    @property
    def q_past(self) -> np.ndarray:
        """Returns the queries as they meet the state at the start, (..., C, K)."""
        return np.exp(self.total) * self.q

    @property
    def k_past(self) -> np.ndarray:
        """Returns the keys as they meet the state at the start, (..., C, K)."""
        return np.exp(self.total) * self.k

    @property
    def k_left(self) -> np.ndarray:
        """Returns the keys as they are left in the state at the end, (..., C, K)."""
        return np.exp(self.total[..., -1:, :] - self.total) * self.k

    @property
    def kept(self) -> np.ndarray:
        """Returns what is left of the state at the end, (..., 1 or K, 1)."""
        return np.exp(self.total[..., -1, :, None])

    def pairs(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Returns a[t]·b[i], with the decay between them, for all i ≤ t (..., C, C)."""
        if self.between.shape[-1] == 1:
            return (a @ b.swapaxes(-1, -2)) * self.between[..., 0]
        products = a[..., :, None, :] * b[..., None, :, :]
        return np.einsum("...tik,...tik->...ti", products, self.between)

    def pairs_backward(
        self, grad: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Maps the gradient of `pairs` to those of a and b."""
        weighted = grad[..., None] * self.between
        if weighted.shape[-1] == 1:
            weighted = weighted[..., 0]
            return weighted @ b, weighted.swapaxes(-1, -2) @ a
        to_a = np.einsum("...tik,...ik->...tk", weighted, b)
        return to_a, np.einsum("...tik,...tk->...ik", weighted, a)

    def scores(self) -> np.ndarray:
        """Returns what each query reads of what each position has written, (..., C, C)."""
        return self.pairs(self.q, self.k)

    def system(self, beta: np.ndarray) -> np.ndarray:
        """Returns the triangular system whose solution is what the delta rule writes, (..., C, C)."""
        C = self.k.shape[-2]
        return np.eye(C, dtype=self.k.dtype) + self.before(
            beta * self.pairs(self.k, self.k)
        )

    def seen(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the entries [t, i] with i ≤ t, and 0 elsewhere."""
        return np.tril(pairs)

    def before(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the entries [t, i] with i < t, and 0 elsewhere."""
        return np.tril(pairs, -1)


def _first(
    state: np.ndarray | None, k: np.ndarray, v: np.ndarray
) -> Float[np.ndarray, "*B K U"]:
    if state is not None:
        return state
    return np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]), v.dtype)


def _chunks(log_decay: np.ndarray, chunk: int | None) -> Iterator[slice]:
    """Yields the rows of each chunk."""
    n = log_decay.shape[-2]
    if chunk is None:
        chunk = CHUNK if log_decay.shape[-1] == 1 else CHUNK_OF_CHANNELS
    checks.whole("chunk", chunk)
    for start in range(0, n, chunk):
        yield slice(start, min(start + chunk, n))
