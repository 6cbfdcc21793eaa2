"""Attention in pieces, in PyTorch, with a backward pass that is in pieces, too."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer import _checks as checks


def attention_in_pieces(
    q: Float[Tensor, "*B T K"],
    k: Float[Tensor, "*B S K"],
    v: Float[Tensor, "*B S U"],
    *,
    piece: int = 256,
    causal: bool = False,
    window: int | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> tuple[Float[Tensor, "*B T U"], Float[Tensor, "*B T"]]:
    """As `scratch.attention_in_pieces`, in PyTorch; half precision is summed in float32, and lse stays in it."""
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
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return _InPieces.apply(q, k, v, sinks, mask, piece, causal, window, scale)


class _InPieces(torch.autograd.Function):
    """What autograd calls, forward and backward; both are those of scratch."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        sinks: Tensor | None,
        mask: Tensor | None,
        piece: int,
        causal: bool,
        window: int | None,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(q.dtype, torch.float32)
        # What each query has seen at first: nothing, or the sink
        lse = q.new_full(q.shape[:-1], -torch.inf, dtype=wide)
        if sinks is not None:
            lse[...] = sinks[:, None]
        mixed = v.new_empty(*q.shape[:-1], v.shape[-1])
        for rows in _cut(0, q.shape[-2], piece):
            queries = q[..., rows, :].to(wide) * scale
            # As in softmax: of −inf, subtract the lowest finite number
            largest = lse[..., rows, None].clamp(min=torch.finfo(wide).min)
            total = torch.exp(lse[..., rows, None] - largest)
            so_far = torch.zeros_like(mixed[..., rows, :], dtype=wide)
            for keys, hidden in _seen(rows, q, k, piece, causal, window, mask):
                scores = queries @ k[..., keys, :].to(wide).transpose(-1, -2)
                scores.masked_fill_(hidden, -torch.inf)
                before = largest
                largest = torch.maximum(before, scores.amax(dim=-1, keepdim=True))
                weights = torch.exp(scores - largest)
                shrink = torch.exp(before - largest)
                total = total * shrink + weights.sum(dim=-1, keepdim=True)
                so_far = so_far * shrink + weights @ v[..., keys, :].to(wide)
            # The largest gave exp(0) = 1, so only a sum over nothing is less: 0
            mixed[..., rows, :] = so_far / total.clamp(min=1)
            lse[..., rows] = (largest + torch.log(total))[..., 0]
        ctx.save_for_backward(q, k, v, sinks, mask, mixed, lse)
        ctx.options = piece, causal, window, scale
        return mixed, lse

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, ...]:
        grad, grad_lse = grad_outputs  # of mixed and of lse
        q, k, v, sinks, mask, mixed, lse = ctx.saved_tensors
        piece, causal, window, scale = ctx.options
        wide = lse.dtype
        common = (grad.to(wide) * mixed).sum(dim=-1) - grad_lse
        lse = lse.clamp(min=torch.finfo(wide).min)
        grad_q, grad_k, grad_v = (
            torch.zeros_like(x, dtype=wide) for x in (q, k, v)
        )
        for rows in _cut(0, q.shape[-2], piece):
            queries = q[..., rows, :].to(wide) * scale
            grad_rows = grad[..., rows, :].to(wide)
            for keys, hidden in _seen(rows, q, k, piece, causal, window, mask):
                k_piece = k[..., keys, :].to(wide)
                v_piece = v[..., keys, :].to(wide)
                scores = queries @ k_piece.transpose(-1, -2)
                scores.masked_fill_(hidden, -torch.inf)
                weights = torch.exp(scores - lse[..., rows, None])
                grad_v[..., keys, :] += weights.transpose(-1, -2) @ grad_rows
                grad_weights = grad_rows @ v_piece.transpose(-1, -2)
                grad_scores = weights * (grad_weights - common[..., rows, None])
                grad_q[..., rows, :] += grad_scores @ k_piece
                grad_k[..., keys, :] += grad_scores.transpose(-1, -2) @ queries
        grad_q *= scale
        gave = [grad_q.to(q.dtype), grad_k.to(k.dtype), grad_v.to(v.dtype)]
        if sinks is not None:
            # The value of a sink is zeros, so its grad_weights are, too
            grad_sinks = -torch.exp(sinks[:, None] - lse) * common  # (..., H, T)
            grad_sinks = grad_sinks.transpose(-1, -2).reshape(-1, len(sinks))
            gave.append(grad_sinks.sum(dim=0).to(sinks.dtype))
        return (*gave, *[None] * (9 - len(gave)))


def _cut(start: int, end: int, piece: int) -> list[slice]:
    """Cuts the positions from `start` to before `end` into pieces."""
    return [slice(at, min(at + piece, end)) for at in range(start, end, piece)]


def _seen(
    rows: slice,
    q: Tensor,
    k: Tensor,
    piece: int,
    causal: bool,
    window: int | None,
    mask: Bool[Tensor, "..."] | None,
) -> Iterator[tuple[slice, Tensor]]:
    """As `scratch.pieces._seen`, in PyTorch."""
    T, S = q.shape[-2], k.shape[-2]
    first, last = rows.start + S - T, rows.stop - 1 + S - T  # positions
    start = 0 if window is None else max(0, first - window + 1)
    places = torch.arange(first, last + 1, device=q.device)[:, None]
    if mask is not None:
        mask = mask.expand(*mask.shape[:-2], T, S)  # a view
    for keys in _cut(start, last + 1 if causal else S, piece):
        hidden = torch.tensor(False, device=q.device)
        others = torch.arange(keys.start, keys.stop, device=q.device)
        if causal:
            hidden = others > places
        if window is not None:
            hidden = hidden | (others <= places - window)
        if mask is not None:
            hidden = hidden | ~mask[..., rows, keys]
        yield keys, hidden


def merge(
    mixed_a: Float[Tensor, "*B T U"],
    lse_a: Float[Tensor, "*B T"],
    mixed_b: Float[Tensor, "*B T U"],
    lse_b: Float[Tensor, "*B T"],
) -> tuple[Float[Tensor, "*B T U"], Float[Tensor, "*B T"]]:
    """As `scratch.merge`, in PyTorch."""
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
    # Where neither saw a key, −inf would have no slope
    least = torch.finfo(lse_a.dtype).min
    lse = torch.logaddexp(lse_a.clamp(min=least), lse_b.clamp(min=least))
    share_a, share_b = torch.exp(lse_a - lse), torch.exp(lse_b - lse)
    mixed = mixed_a * share_a[..., None] + mixed_b * share_b[..., None]
    return mixed, lse.masked_fill(lse == least, -torch.inf)
