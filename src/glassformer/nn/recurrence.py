"""Layers whose past is one matrix, in PyTorch; `scratch.recurrence` says how, and names the axes."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer import _checks as checks

CHUNK = 64
"""The positions of a chunk."""

CHUNK_OF_CHANNELS = 16
"""The same where each feature of a key decays by itself: C · C · K numbers are in memory."""


def recurrent_steps(
    q: Float[Tensor, "*B T K"],
    k: Float[Tensor, "*B T K"],
    v: Float[Tensor, "*B T U"],
    *,
    log_decay: Float[Tensor, "*B T _"],
    strength: Float[Tensor, "*B T 1"],
    state: Float[Tensor, "*B K U"] | None = None,
    delta: bool = True,
) -> tuple[Float[Tensor, "*B T U"], Float[Tensor, "*B K U"]]:
    """As `scratch.recurrent_steps`, in PyTorch."""
    checks.recurrence(q, k, v, log_decay, strength, state)
    state = _first(state, k, v)
    read = []
    for t in range(q.shape[-2]):
        state = log_decay[..., t, :, None].exp() * state
        key = k[..., t, :, None]  # (..., K, 1)
        value = v[..., t, None, :]  # (..., 1, U)
        if delta:
            value = value - key.transpose(-1, -2) @ state
        state = state + key @ (strength[..., t, None, :] * value)
        read.append(q[..., t, None, :] @ state)
    return torch.cat(read, dim=-2), state


def recurrent_chunks(
    q: Float[Tensor, "*B T K"],
    k: Float[Tensor, "*B T K"],
    v: Float[Tensor, "*B T U"],
    *,
    log_decay: Float[Tensor, "*B T _"],
    strength: Float[Tensor, "*B T 1"],
    state: Float[Tensor, "*B K U"] | None = None,
    delta: bool = True,
    chunk: int | None = None,
) -> tuple[Float[Tensor, "*B T U"], Float[Tensor, "*B K U"]]:
    """As `scratch.recurrent_chunks`, in PyTorch; autograd finds the gradient."""
    checks.recurrence(q, k, v, log_decay, strength, state)
    state = _first(state, k, v)
    read = []
    for rows in _chunks(log_decay, chunk):
        queries, keys, beta = (
            q[..., rows, :],
            k[..., rows, :],
            strength[..., rows, :],
        )
        total = log_decay[..., rows, :].cumsum(dim=-2)
        between = _between(total)
        written = beta * v[..., rows, :]
        if delta:
            written = written - (beta * total.exp() * keys) @ state
            system = beta * _pairs(keys, keys, between)
            # Only what is below the diagonal is looked at
            written = torch.linalg.solve_triangular(
                system, written, upper=False, unitriangular=True
            )
        scores = _pairs(queries, keys, between)
        read.append((total.exp() * queries) @ state + scores @ written)
        left = (total[..., -1:, :] - total).exp() * keys
        kept = total[..., -1, :, None].exp()
        state = kept * state + left.transpose(-1, -2) @ written
    return torch.cat(read, dim=-2), state


def _between(total: Float[Tensor, "*B C _"]) -> Float[Tensor, "*B C C _"]:
    """Returns the decay from each position to each later one, and 0 to the earlier ones."""
    between = total[..., :, None, :] - total[..., None, :, :]
    C = total.shape[-2]
    later = torch.ones(C, C, dtype=torch.bool, device=total.device).triu(1)
    return between.masked_fill(later[..., None], -torch.inf).exp()


def _pairs(
    a: Float[Tensor, "*B C K"],
    b: Float[Tensor, "*B C K"],
    between: Float[Tensor, "*B C C _"],
) -> Float[Tensor, "*B C C"]:
    """Returns a[t]·b[i], with the decay between them."""
    if between.shape[-1] == 1:
        return (a @ b.transpose(-1, -2)) * between[..., 0]
    return (a[..., :, None, :] * b[..., None, :, :] * between).sum(dim=-1)


def _first(state: Tensor | None, k: Tensor, v: Tensor) -> Float[Tensor, "*B K U"]:
    if state is not None:
        return state
    return v.new_zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))


def _chunks(log_decay: Tensor, chunk: int | None) -> Iterator[slice]:
    """Yields the rows of each chunk."""
    n = log_decay.shape[-2]
    if chunk is None:
        chunk = CHUNK if log_decay.shape[-1] == 1 else CHUNK_OF_CHANNELS
    checks.whole("chunk", chunk)
    for start in range(0, n, chunk):
        yield slice(start, min(start + chunk, n))
