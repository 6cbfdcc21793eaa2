"""Routed experts: many feed-forward networks, of which a router chooses a few for each token.

The axes: N tokens of all texts, D d_model, F d_ff, X experts, A chosen ones.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.auxiliary import add_to_loss
from glassformer.layers import EXPERT_SCORES
from glassformer.scratch.attention import softmax, softmax_backward
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.feedforward import FeedForward, sigmoid
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.scratch.norm import RMSNorm
from glassformer.shapes import Float, Integer
from glassformer.trace import enter_sublayer, see


class Router(Layer):
    """Scores X experts for each token, chooses the `top_k` best, and says with which weight each is added.

    `scores` is "softmax" over all experts, "sigmoid" or "sqrt_softplus" of each
    by itself, or "chosen": a softmax over the chosen ones alone. Of equal scores,
    the first expert's counts as the best. With a `choice_bias`, a number for each
    expert is added to its scores when experts are chosen, but not to the weights.
    No gradient reaches it: `update_choice_bias` moves it, and training calls that
    after each step with `bias_rate`, unless that is 0. With `n_groups`, the
    experts lie in as many groups, of which only the `top_groups` best can be
    chosen from: those whose `group_best` best scores have the largest sum.
    `renormalize` divides the weights of a token by their sum plus `sum_eps`, and
    `scale` multiplies them; with `expert_scale`, so does a learned number for
    each expert. With a `vocab_size`, a table has `top_k` experts for
    each id, and the scores only weigh.

    In training, `balance` · X · Σ f·P is added to the loss: f is the share of all
    choices that went to an expert, and P its mean probability. It is `balance` if
    all are used alike. Positions of padding count as any others.

    Source: Shazeer et al. 2017, "Outrageously Large Neural Networks"; the loss:
    Fedus et al. 2021, "Switch Transformers", equations 4 to 6; bias and groups:
    DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 2.1.2; the table:
    Roller et al. 2021, "Hash Layers for Large Sparse Models". Derived in chapter
    18.

    Raises:
        ValueError: a size is below 1, fewer experts can be chosen from than `top_k`,
            a choice is unknown, or there is a table but no ids.
    """

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
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.one_of("scores", scores, EXPERT_SCORES)
        checks.chosen_experts(n_experts, top_k, n_groups, top_groups, group_best)
        self.top_k, self.scores = top_k, scores
        self.n_groups, self.top_groups = n_groups, top_groups
        self.group_best = group_best
        self.renormalize, self.sum_eps, self.scale = renormalize, sum_eps, scale
        self.balance, self.bias_rate = balance, bias_rate
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.W = Linear(d_model, n_experts, bias=bias, **init_kwargs)
        self.choice_bias = np.zeros(n_experts, dtype) if choice_bias else None
        self.expert_scale = np.ones(n_experts, dtype) if expert_scale else None
        self.table = None
        if vocab_size is not None:
            first = np.arange(vocab_size)[:, None] + np.arange(top_k)
            self.table = first % n_experts
        self._load = np.zeros(n_experts, int)  # choices since the last update

    def forward(
        self,
        x: Float[np.ndarray, "N D"],
        ids: Integer[np.ndarray, " N"] | None = None,
        saved: Saved | None = None,
    ) -> tuple[Integer[np.ndarray, "N A"], Float[np.ndarray, "N A"]]:
        """Maps tokens x (N, D), and their ids if there is a table, to experts and their weights, both (N, A)."""
        z = self.W(x, saved)  # (N, X)
        s = self._scores_of(z)
        if self.table is None:
            chosen = self._choose(s)
        else:
            checks.ids_for_table(ids)
            chosen = self.table[ids]
            checks.indices("table", chosen, "n_experts", s.shape[-1])
        weights = np.take_along_axis(s, chosen, axis=-1)
        if self.scores == "chosen":
            weights = softmax(weights)
        total = 1.0
        if self.renormalize:
            total = weights.sum(axis=-1, keepdims=True) + self.sum_eps
        shares = weights / total
        load = np.bincount(chosen.ravel(), minlength=s.shape[-1])
        in_loss = False
        if self.training:
            self._load = self._load + load
            if self.balance:
                in_loss = add_to_loss(balance=self._balance(z, s, load))
        save_for_backward(saved, z, s, chosen, shares, total, load, in_loss)
        if self.expert_scale is not None:
            shares = shares * self.expert_scale[chosen]
        return chosen, shares * self.scale

    def backward(
        self, grad: Float[np.ndarray, "N A"], saved: Saved
    ) -> Float[np.ndarray, "N D"]:
        """Maps the gradient of the weights to that of x; the choice itself has none."""
        z, s, chosen, shares, total, load, in_loss = saved.pop()
        grad = grad * self.scale
        if self.expert_scale is not None:
            along = np.zeros_like(self.expert_scale)
            np.add.at(along, chosen, grad * shares)
            self.accumulate(expert_scale=along)
            grad = grad * self.expert_scale[chosen]
        if self.renormalize:
            grad = grad - (grad * shares).sum(axis=-1, keepdims=True)
        grad = grad / total
        if self.scores == "chosen":
            grad = softmax_backward(grad, shares * total)
        grad_s, tokens = np.zeros_like(s), np.arange(len(s))
        for place in range(self.top_k):  # a table may name an expert twice
            grad_s[tokens, chosen[:, place]] += grad[:, place]
        grad_z = self._scores_backward(grad_s, z, s)
        if in_loss:
            grad_z = grad_z + self._balance_backward(z, s, load)
        return self.W.backward(grad_z, saved)

    def update_choice_bias(self, rate: float) -> None:
        """Raises the bias of each expert that was chosen less than the mean by `rate`, and lowers that of others.

        Its choices in training since the last update are counted.

        Source: Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing Strategy for
        Mixture-of-Experts", algorithm 1.

        Raises:
            ValueError: there is no `choice_bias`.
        """
        checks.has_part("choice_bias", self.choice_bias)
        self.choice_bias += rate * np.sign(self._load.mean() - self._load)
        self._load = np.zeros_like(self._load)

    def _choose(self, s: Float[np.ndarray, "N X"]) -> Integer[np.ndarray, "N A"]:
        if self.choice_bias is not None:
            s = s + self.choice_bias
        if self.n_groups > 1:
            grouped = s.reshape(len(s), self.n_groups, -1)
            best = np.sort(grouped, axis=-1)[..., -self.group_best :].sum(axis=-1)
            groups = _best(best, self.top_groups)  # (N, top_groups)
            hidden = np.full_like(grouped, -np.inf)
            rows = np.arange(len(s))[:, None]
            hidden[rows, groups] = grouped[rows, groups]
            s = hidden.reshape(s.shape)
        return _best(s, self.top_k)

    def _scores_of(self, z: Float[np.ndarray, "N X"]) -> Float[np.ndarray, "N X"]:
        if self.scores == "softmax":
            return softmax(z)
        if self.scores == "sigmoid":
            return sigmoid(z)
        if self.scores == "chosen":
            return z
        # at least the smallest number, so that it can be divided by
        softplus = np.maximum(np.logaddexp(0, z), np.finfo(z.dtype).tiny)
        return np.sqrt(softplus)

    def _scores_backward(
        self,
        grad: Float[np.ndarray, "N X"],
        z: Float[np.ndarray, "N X"],
        s: Float[np.ndarray, "N X"],
    ) -> Float[np.ndarray, "N X"]:
        if self.scores == "softmax":
            return softmax_backward(grad, s)
        if self.scores == "sigmoid":
            return grad * s * (1 - s)
        if self.scores == "chosen":
            return grad
        return grad * sigmoid(z) / (2 * s)

    def _balance(
        self,
        z: Float[np.ndarray, "N X"],
        s: Float[np.ndarray, "N X"],
        load: Integer[np.ndarray, " X"],
    ) -> Any:
        """Returns the term of the loss; probabilities are scores that are divided by their sum."""
        P = self._probabilities(z, s).mean(axis=0)
        f = (load / load.sum()).astype(P.dtype)
        return self.balance * len(load) * (f * P).sum()

    def _balance_backward(
        self,
        z: Float[np.ndarray, "N X"],
        s: Float[np.ndarray, "N X"],
        load: Integer[np.ndarray, " X"],
    ) -> Float[np.ndarray, "N X"]:
        f = (load / load.sum()).astype(s.dtype)
        grad = self.balance * len(load) / len(s) * f  # of each token's p
        p = self._probabilities(z, s)
        if self.scores in ("softmax", "chosen"):
            return softmax_backward(np.broadcast_to(grad, p.shape), p)
        along = grad - (grad * p).sum(axis=-1, keepdims=True)
        grad_s = along / s.sum(axis=-1, keepdims=True)
        return self._scores_backward(grad_s, z, s)

    def _probabilities(
        self, z: Float[np.ndarray, "N X"], s: Float[np.ndarray, "N X"]
    ) -> Float[np.ndarray, "N X"]:
        if self.scores == "chosen":
            return softmax(z)
        return s / s.sum(axis=-1, keepdims=True)


def _best(s: Float[np.ndarray, "*B X"], k: int) -> Integer[np.ndarray, "*B A"]:
    """Returns the places of the k largest numbers, the largest first; of equal ones, the first."""
    return np.argsort(-s, axis=-1, kind="stable")[..., :k]


class Expert(FeedForward):
    """One of several feed-forward networks, whose gate can be limited.

    With a `limit`, no gate is larger than it, and `x @ W_up` stays within
    ±limit. `offset` is added to `x @ W_up`, and `sharpness` multiplies what the
    sigmoid of "swiglu" sees: gate · σ(sharpness · gate) · (up + offset).

    Source: the parts that gpt-oss adds: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b
    Model Card", section 2.2. Derived in chapter 18.
    """

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

    def forward(
        self, x: Float[np.ndarray, "N D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "N D"]:
        """Maps x (N, D) to (N, D)."""
        up = self.W_up(x, saved)
        gate = None if self.W_gate is None else self.W_gate(x, saved)
        save_for_backward(saved, up, gate)
        if gate is None:
            return self.W_down(self.activate(up), saved)
        up, gate = self._limited(up, gate)
        opened = self.activate(self.sharpness * gate) / self.sharpness
        return self.W_down(opened * (up + self.offset), saved)

    def backward(
        self, grad: Float[np.ndarray, "N D"], saved: Saved
    ) -> Float[np.ndarray, "N D"]:
        """Maps the gradient of the output to that of x."""
        grad = self.W_down.backward(grad, saved)
        whole_up, whole_gate = saved.pop()
        if self.W_gate is None:
            return self.W_up.backward(grad * self.slope(whole_up), saved)
        up, gate = self._limited(whole_up, whole_gate)
        sharp = self.sharpness * gate
        grad_gate = grad * (up + self.offset) * self.slope(sharp)
        grad_up = grad * self.activate(sharp) / self.sharpness
        if self.limit is not None:  # beyond it, nothing changes
            grad_gate = grad_gate * (whole_gate <= self.limit)
            grad_up = grad_up * (np.abs(whole_up) <= self.limit)
        grad_x = self.W_gate.backward(grad_gate, saved)
        return grad_x + self.W_up.backward(grad_up, saved)

    def _limited(
        self, up: Float[np.ndarray, "N F"], gate: Float[np.ndarray, "N F"]
    ) -> tuple[Float[np.ndarray, "N F"], Float[np.ndarray, "N F"]]:
        if self.limit is None:
            return up, gate
        return np.clip(up, -self.limit, self.limit), np.minimum(gate, self.limit)


class Experts(Layer):
    """The sum of the experts that a `Router` chooses for each token, times their weights, and of a shared one.

    Every expert is an `Expert`, with the same arguments. One with `d_shared`
    neurons works for every token, times σ(x · W) if it has a `shared_gate`. With
    `weighs="input"`, a weight multiplies what an expert reads, as in Llama 4. With
    `own_norms`, there are five norms, as in Gemma 4: before the router, whose input
    is also divided by √D, before the experts, before the shared one, and after
    both. All other arguments are those of `Router`. An expert that no token has
    chosen has a gradient of zeros.

    Source: Shazeer et al. 2017, "Outrageously Large Neural Networks"; the shared
    expert: Rajbhandari et al. 2022, "DeepSpeed-MoE", section 4.1.2, and Dai et al.
    2024, "DeepSeekMoE", section 3.2. Derived in chapter 18.

    Raises:
        ValueError: a size is below 1, or a choice is unknown.
    """

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
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
        **routing: Any,
    ) -> None:
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

        self.experts = [expert(d_ff) for _ in range(n_experts)]
        self.shared: Any = expert(d_shared) if d_shared else None
        self.shared_gate = None
        if shared_gate:
            self.shared_gate = Linear(d_model, 1, bias=False, **init_kwargs)
        self.norms = [
            RMSNorm(d_model, eps=norm_eps, dtype=dtype)
            for _ in range(5 if own_norms else 0)
        ]
        self.dropout = Dropout(dropout, generator=generator)

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        saved: Saved | None = None,
        ids: Integer[np.ndarray, "*B T"] | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D); `ids` (..., T) are those of the tokens, which only a table needs."""
        enter_sublayer("feed-forward")
        rows = x.reshape(-1, x.shape[-1])  # (N, D)
        ids = None if ids is None else ids.reshape(-1)
        to_router = to_experts = to_shared = rows
        if self.norms:
            normed = (norm(rows, saved) for norm in self.norms[:3])
            to_router, to_experts, to_shared = normed
            to_router = to_router / math.sqrt(x.shape[-1])
        chosen, weights = self.router(to_router, ids, saved)  # both (N, A)
        see(chosen=chosen.reshape(*x.shape[:-1], -1))
        see(shares=weights.reshape(*x.shape[:-1], -1))
        y = np.zeros_like(rows)
        for expert, tokens, places in self._work(chosen):
            weight = weights[tokens, places, None]
            if self.weighs_input:
                found = expert(weight * to_experts[tokens], saved)
                weighted = found
            else:
                found = expert(to_experts[tokens], saved)
                weighted = weight * found
            save_for_backward(saved, found)
            np.add.at(y, tokens, weighted)
        if self.norms:
            y = self.norms[3](y, saved)
        if self.shared is not None:
            of_shared = self._of_shared(to_shared, saved)
            if self.norms:
                of_shared = self.norms[4](of_shared, saved)
            y = y + of_shared
        save_for_backward(saved, to_experts, chosen, weights)
        y = self.dropout(y, saved).reshape(x.shape)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the output to that of x."""
        shape = grad.shape
        grad = self.dropout.backward(grad.reshape(-1, shape[-1]), saved)
        rows, chosen, weights = saved.pop()
        grad_x, grad_weights = np.zeros_like(rows), np.zeros_like(weights)
        from_shared = 0.0
        if self.shared is not None:
            of_shared = grad
            if self.norms:
                of_shared = self.norms[4].backward(grad, saved)
            from_shared = self._of_shared_backward(of_shared, saved)
        if self.norms:
            grad = self.norms[3].backward(grad, saved)
        for expert, tokens, places in reversed([*self._work(chosen)]):
            (found,) = saved.pop()
            weight, to_found = weights[tokens, places, None], grad[tokens]
            if self.weighs_input:
                to_input = expert.backward(to_found, saved)
                along = (to_input * rows[tokens]).sum(axis=-1)
                from_x = weight * to_input
            else:
                along = (to_found * found).sum(axis=-1)
                from_x = expert.backward(weight * to_found, saved)
            grad_weights[tokens, places] = along
            np.add.at(grad_x, tokens, from_x)
        from_router = self.router.backward(grad_weights, saved)
        parts: list[Any] = [from_router, grad_x, from_shared]
        if self.norms:
            parts[0] = from_router / math.sqrt(shape[-1])
            pairs = [*zip(self.norms[:3], parts, strict=True)]
            parts = [n.backward(part, saved) for n, part in reversed(pairs)]
        from_all: Any = sum(parts)
        return from_all.reshape(shape)

    def _work(self, chosen: Integer[np.ndarray, "N A"]) -> Iterator[tuple]:
        """Yields each expert with the tokens that have chosen it, and at which of A places each of them has."""
        order = np.argsort(chosen, axis=None, kind="stable")
        ends = np.cumsum(np.bincount(chosen.ravel(), minlength=len(self.experts)))
        for expert, own in zip(
            self.experts, np.split(order, ends[:-1]), strict=True
        ):
            yield expert, *np.divmod(own, chosen.shape[-1])

    def _of_shared(
        self, rows: Float[np.ndarray, "N D"], saved: Saved | None
    ) -> Float[np.ndarray, "N D"]:
        y = self.shared(rows, saved)
        if self.shared_gate is None:
            return y
        gate = sigmoid(self.shared_gate(rows, saved))  # (N, 1)
        save_for_backward(saved, y, gate)
        return gate * y

    def _of_shared_backward(
        self, grad: Float[np.ndarray, "N D"], saved: Saved
    ) -> Float[np.ndarray, "N D"]:
        if self.shared_gate is None:
            return self.shared.backward(grad, saved)
        y, gate = saved.pop()
        grad_z = (grad * y).sum(axis=-1, keepdims=True) * gate * (1 - gate)
        from_gate = self.shared_gate.backward(grad_z, saved)
        return from_gate + self.shared.backward(grad * gate, saved)
