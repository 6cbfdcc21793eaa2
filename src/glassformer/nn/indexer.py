"""The lightning indexer in PyTorch."""

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from glassformer import _checks as checks
from glassformer.auxiliary import add_to_loss
from glassformer.nn.attention import split_heads
from glassformer.nn.linear import Linear
from glassformer.nn.norm import LayerNorm
from glassformer.nn.positions import NoPositions


class Indexer(nn.Module):
    """As `scratch.Indexer`, in PyTorch."""

    warm_up = False

    def __init__(
        self,
        d_query: int,
        d_model: int,
        *,
        n_heads: int,
        d_head: int,
        top_k: int,
        position_encoding: NoPositions | None = None,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("top_k", top_k)
        checks.whole("n_heads", n_heads)
        self.d_query, self.d_model = d_query, d_model
        self.n_heads, self.d_head, self.top_k = n_heads, d_head, top_k
        self.position_encoding = (
            NoPositions() if position_encoding is None else position_encoding
        )
        checks.rotates(
            "position_encoding", self.position_encoding, "d_head", d_head
        )

        init_kwargs = {"bias": False, "generator": generator, "dtype": dtype}
        self.W_q = Linear(d_query, n_heads * d_head, **init_kwargs)
        self.W_k = Linear(d_model, d_head, **init_kwargs)
        self.norm_k = LayerNorm(d_head, eps=1e-6, dtype=dtype)
        self.W_w = Linear(d_model, n_heads, **init_kwargs)

    def keys(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B 1 T K"]:
        """Maps x (..., T, D) to one key per position, (..., 1, T, K), which all heads share."""
        with self._learning():
            k = self.norm_k(self.W_k(x.detach()))[..., None, :, :]
            return self.position_encoding.rotate(k, position_ids)

    def forward(
        self,
        query: Float[Tensor, "*B T Q"],
        x: Float[Tensor, "*B T D"],
        k: Float[Tensor, "*B 1 S K"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B 1 T S"]:
        """As `scratch.Indexer.forward`."""
        checks.vectors("query", query, "d_query", self.d_query, "T, Q")
        with self._learning():
            q = split_heads(self.W_q(query.detach()), self.n_heads)
            q = self.position_encoding.rotate(q, position_ids)
            alike = q @ k.transpose(-1, -2) * self.d_head**-0.5  # (..., I, T, S)
            alike = alike.relu()
            w = self.W_w(x.detach()) * self.n_heads**-0.5  # (..., T, I)
            w = w.transpose(-1, -2)[..., None]  # (..., I, T, 1)
            return (w * alike).sum(dim=-3, keepdim=True)

    def choose(
        self,
        scores: Float[Tensor, "*B 1 T S"],
        visible: Bool[Tensor, "..."],
    ) -> Bool[Tensor, "..."]:
        """As `scratch.Indexer.choose`."""
        scores = torch.where(visible, scores.detach(), -torch.inf)
        best = scores.sort(dim=-1, descending=True, stable=True).indices
        chosen = torch.full_like(scores, self.warm_up, dtype=torch.bool)
        chosen.scatter_(-1, best[..., : self.top_k], True)
        return chosen & visible

    def learn(
        self,
        query: Float[Tensor, "*B T Q"],
        x: Float[Tensor, "*B T D"],
        scores: Float[Tensor, "*B 1 T S"],
        weights: Float[Tensor, "*B H T S"],
        seen: Bool[Tensor, "..."],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> None:
        """As `scratch.Indexer.learn`."""
        if add_to_loss():
            weights = weights.detach().mean(dim=-3, keepdim=True)
            add_to_loss(indexer=divergence(weights, scores, seen))

    def _learning(self) -> torch.set_grad_enabled:
        """Keeps what gradients need only if someone collects the term: nothing else leads here."""
        return torch.set_grad_enabled(torch.is_grad_enabled() and add_to_loss())


def divergence(
    weights: Float[Tensor, "*B T S"],
    scores: Float[Tensor, "*B T S"],
    seen: Bool[Tensor, "..."],
) -> Float[Tensor, ""]:
    """As `scratch.indexer.divergence`, in PyTorch."""
    info = torch.finfo(scores.dtype)
    scores = torch.where(_for_any_head(seen), scores, info.min)
    log_q = functional.log_softmax(scores, dim=-1)
    log_p = weights.clamp(min=info.tiny).log()
    return (weights * (log_p - log_q)).sum(dim=-1).mean()


def _for_any_head(seen: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Returns what any head could read."""
    if seen.ndim < 3:
        return seen
    return seen.any(dim=-3, keepdim=True)
