"""Routed experts in PyTorch; `scratch.experts` explains them and the axes."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from glassformer import _checks as checks
from glassformer.auxiliary import add_to_loss
from glassformer.layers import EXPERT_SCORES
from glassformer.nn.feedforward import FeedForward, sigmoid
from glassformer.nn.linear import Linear
from glassformer.nn.norm import RMSNorm
from glassformer.trace import enter_sublayer, see


class Router(nn.Module):
    """As `scratch.Router`, in PyTorch; half precision is scored in float32, whose scores are rarely equal."""

    def __init__(
        self,
        d_model: int,
        n_experts: int,
        top_k: int,
        *,
        scores: str = "softmax",
        choice_bias: bool = False,
        bias_rate: float = 0.0,
        n_groups: int = 1,
        top_groups: int = 1,
        group_best: int = 1,
        renormalize: bool = True,
        sum_eps: float = 0.0,
        scale: float = 1.0,
        expert_scale: bool = False,
        bias: bool = False,
        balance: float = 0.0,
        vocab_size: int | None = None,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.one_of("scores", scores, EXPERT_SCORES)
        checks.chosen_experts(n_experts, top_k, n_groups, top_groups, group_best)
        self.top_k, self.scores = top_k, scores
        self.n_groups, self.top_groups = n_groups, top_groups
        self.group_best = group_best
        self.renormalize, self.sum_eps, self.scale = renormalize, sum_eps, scale
        self.balance, self.bias_rate = balance, bias_rate
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.W = Linear(d_model, n_experts, bias=bias, **init_kwargs)
        self.choice_bias: Any = None
        self.expert_scale: Any = None
        self.table: Any = None
        if expert_scale:
            self.expert_scale = nn.Parameter(torch.ones(n_experts, dtype=dtype))
        if choice_bias:
            zeros = torch.zeros(n_experts, dtype=dtype)
            self.choice_bias = nn.Parameter(zeros, requires_grad=False)
        if vocab_size is not None:
            first = torch.arange(vocab_size)[:, None] + torch.arange(top_k)
            self.table = nn.Parameter(first % n_experts, requires_grad=False)
        self._load = torch.zeros(n_experts, dtype=torch.long)

    def forward(
        self,
        x: Float[Tensor, "N D"],
        ids: Integer[Tensor, " N"] | None = None,
    ) -> tuple[Integer[Tensor, "N A"], Float[Tensor, "N A"]]:
        """Maps tokens x (N, D), and their ids if there is a table, to experts and their weights, both (N, A)."""
        z = self._logits(x)  # (N, X)
        s = self._scores_of(z)
        if self.table is None:
            chosen = self._choose(s.detach())
        else:
            checks.ids_for_table(ids)
            chosen = self.table[ids]
            checks.indices("table", chosen, "n_experts", s.shape[-1])
        weights = s.gather(-1, chosen)
        if self.scores == "chosen":
            weights = torch.softmax(weights, dim=-1)
        if self.renormalize:
            total = weights.sum(dim=-1, keepdim=True) + self.sum_eps
            weights = weights / total
        if self.expert_scale is not None:
            weights = weights * self.expert_scale[chosen]
        if self.training:
            load = torch.bincount(chosen.flatten(), minlength=s.shape[-1])
            self._load = self._load.to(load.device) + load
            if self.balance:
                add_to_loss(balance=self._balance(z, s, load))
        return chosen, (weights * self.scale).to(x.dtype)

    @torch.no_grad()
    def update_choice_bias(self, rate: float) -> None:
        """As `scratch.Router.update_choice_bias`."""
        checks.has_part("choice_bias", self.choice_bias)
        load = self._load.cpu().double()
        above = torch.sign(load.mean() - load).to(self.choice_bias)
        self.choice_bias += rate * above
        self._load = torch.zeros_like(self._load)

    def _logits(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N X"]:
        wide = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            if self.W.weight.dtype == wide:
                return self.W(x.to(wide))
            weights = {n: w.to(wide) for n, w in self.W.named_parameters()}
            return functional_call(self.W, weights, x.to(wide))

    def _choose(self, s: Float[Tensor, "N X"]) -> Integer[Tensor, "N A"]:
        if self.choice_bias is not None:
            s = s + self.choice_bias
        if self.n_groups > 1:
            grouped = s.unflatten(-1, (self.n_groups, -1))
            best = grouped.sort(dim=-1).values[..., -self.group_best :].sum(-1)
            groups = _best(best, self.top_groups)  # (N, top_groups)
            others = torch.ones_like(best, dtype=torch.bool)
            others.scatter_(-1, groups, False)
            s = grouped.masked_fill(others[..., None], -torch.inf).flatten(-2)
        return _best(s, self.top_k)

    def _scores_of(self, z: Float[Tensor, "N X"]) -> Float[Tensor, "N X"]:
        if self.scores == "softmax":
            return torch.softmax(z, dim=-1)
        if self.scores == "sigmoid":
            return sigmoid(z)
        if self.scores == "chosen":
            return z
        softplus = functional.softplus(z, threshold=50)
        return softplus.clamp(min=torch.finfo(z.dtype).tiny).sqrt()

    def _balance(
        self,
        z: Float[Tensor, "N X"],
        s: Float[Tensor, "N X"],
        load: Integer[Tensor, " X"],
    ) -> Float[Tensor, ""]:
        if self.scores == "chosen":
            P = torch.softmax(z, dim=-1)
        else:
            P = s / s.sum(dim=-1, keepdim=True)
        f = load.to(P.dtype) / load.sum()
        return self.balance * len(load) * (f * P.mean(dim=0)).sum()


def _best(s: Float[Tensor, "*B X"], k: int) -> Integer[Tensor, "*B A"]:
    return s.sort(dim=-1, descending=True, stable=True).indices[..., :k]


class Expert(FeedForward):
    """As `scratch.Expert`, in PyTorch."""

    def __init__(
        self,
        *sizes: int,
        limit: float | None = None,
        offset: float = 0.0,
        sharpness: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(*sizes, **options)
        checks.limited_gate(limit, offset, sharpness, self.W_gate)
        self.limit, self.offset, self.sharpness = limit, offset, sharpness

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Maps x (N, D) to (N, D)."""
        up = self.W_up(x)
        if self.W_gate is None:
            return self.W_down(self.activate(up))
        gate = self.W_gate(x)
        if self.limit is not None:
            up = up.clamp(-self.limit, self.limit)
            gate = gate.clamp(max=self.limit)
        opened = self.activate(self.sharpness * gate) / self.sharpness
        return self.W_down(opened * (up + self.offset))


class Experts(nn.Module):
    """As `scratch.Experts`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        n_experts: int,
        top_k: int,
        d_shared: int = 0,
        shared_gate: bool = False,
        weighs: str = "output",
        activation: str = "gelu_tanh",
        bias: bool = False,
        limit: float | None = None,
        offset: float = 0.0,
        sharpness: float = 1.0,
        router_bias: bool = False,
        own_norms: bool = False,
        norm_eps: float = 1e-5,
        dropout: float = 0.0,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
        **routing: Any,
    ) -> None:
        super().__init__()
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.weighs_input = weighs == "input"
        self.router = Router(
            d_model, n_experts, top_k, bias=router_bias, **routing, **init_kwargs
        )

        def expert(width: int) -> Expert:
            return Expert(
                d_model,
                width,
                activation=activation,
                bias=bias,
                limit=limit,
                offset=offset,
                sharpness=sharpness,
                **init_kwargs,
            )

        self.experts = nn.ModuleList(expert(d_ff) for _ in range(n_experts))
        self.shared = expert(d_shared) if d_shared else None
        self.shared_gate = None
        if shared_gate:
            self.shared_gate = Linear(d_model, 1, bias=False, **init_kwargs)
        self.norms = nn.ModuleList(
            RMSNorm(d_model, eps=norm_eps, dtype=dtype)
            for _ in range(5 if own_norms else 0)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        ids: Integer[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D); `ids` (..., T) are those of the tokens, which only a table needs."""
        enter_sublayer("feed-forward")
        rows = x.reshape(-1, x.shape[-1])  # (N, D)
        ids = None if ids is None else ids.reshape(-1)
        to_router = to_experts = to_shared = rows
        if self.norms:
            to_router, to_experts, to_shared = (n(rows) for n in self.norms[:3])
            to_router = to_router / math.sqrt(x.shape[-1])
        chosen, weights = self.router(to_router, ids)
        see(chosen=chosen.reshape(*x.shape[:-1], -1))
        see(shares=weights.reshape(*x.shape[:-1], -1))
        y = torch.zeros_like(rows)
        for expert, tokens, places in self._work(chosen):
            weight = weights[tokens, places, None]
            if self.weighs_input:
                found = expert(weight * to_experts.index_select(0, tokens))
            else:
                found = weight * expert(to_experts.index_select(0, tokens))
            y.index_add_(0, tokens, found.to(y.dtype))
        if self.norms:
            y = self.norms[3](y)
        if self.shared is not None:
            of_shared = self.shared(to_shared)
            if self.shared_gate is not None:
                of_shared = sigmoid(self.shared_gate(to_shared)) * of_shared
            if self.norms:
                of_shared = self.norms[4](of_shared)
            y = y + of_shared
        y = self.dropout(y).reshape(x.shape)
        see(write=y)
        return y

    def _work(self, chosen: Integer[Tensor, "N A"]) -> Iterator[tuple]:
        """As `scratch.Experts._work`."""
        order = torch.argsort(chosen.flatten(), stable=True)
        loads = torch.bincount(chosen.flatten(), minlength=len(self.experts))
        for expert, own in zip(
            self.experts, order.split(loads.tolist()), strict=True
        ):
            # Without gradients, an expert without tokens has nothing to do
            if len(own) or torch.is_grad_enabled():
                tokens = torch.div(own, chosen.shape[-1], rounding_mode="floor")
                yield expert, tokens, own % chosen.shape[-1]
