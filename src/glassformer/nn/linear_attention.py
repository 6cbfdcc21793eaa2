"""Linear attention, DeltaNet and Gated DeltaNet in PyTorch; `scratch.linear_attention` names the axes."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from glassformer import _checks as checks
from glassformer.layers import DECAYS, STATE_GATES
from glassformer.nn.attention import merge_heads, repeat_heads, split_heads
from glassformer.nn.feedforward import silu
from glassformer.nn.linear import Linear
from glassformer.nn.norm import RMSNorm
from glassformer.nn.recurrence import recurrent_chunks, recurrent_steps
from glassformer.nn.short_convolution import ShortConvolution
from glassformer.nn.state_cache import StateCache
from glassformer.trace import enter_sublayer, see

L2_EPS = 1e-6


class LinearAttention(nn.Module):
    """As `scratch.LinearAttention`; the state is in float32 at least, also where weights are not."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_key_heads: int,
        d_key: int,
        d_value: int,
        delta: bool = True,
        decay: str = "head",
        taps: int = 4,
        max_strength: float = 1.0,
        gate: str = "silu",
        rank: int | None = None,
        output_eps: float = 1e-6,
        dropout: float = 0.0,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        sizes = {"d_key": d_key, "d_value": d_value, "rank": rank}
        checks.layer_with_a_state(
            n_heads, n_key_heads, taps, max_strength, **sizes
        )
        checks.flag("delta", delta)
        checks.one_of("decay", decay, DECAYS)
        checks.one_of("gate", gate, STATE_GATES)
        self.d_model, self.n_heads, self.n_key_heads = (
            d_model,
            n_heads,
            n_key_heads,
        )
        self.d_key, self.d_value, self.taps = d_key, d_value, taps
        self.delta, self.decay, self.gate = delta, decay, gate
        self.max_strength = max_strength

        init_kwargs = {"bias": False, "generator": generator, "dtype": dtype}
        keys, values = n_key_heads * d_key, n_heads * d_value
        self.W_q = Linear(d_model, keys, **init_kwargs)
        self.W_k = Linear(d_model, keys, **init_kwargs)
        self.W_v = Linear(d_model, values, **init_kwargs)
        self.convolution_q, self.convolution_k, self.convolution_v = (
            ShortConvolution(size, taps, **init_kwargs)
            for size in (keys, keys, values)
        )
        self.W_write = Linear(d_model, n_heads, **init_kwargs) if delta else None
        self.W_decay: Any = None
        self.W_decay_down: Any = None
        self.log_rate: Any = None
        self.decay_bias: Any = None
        if decay != "none":
            n_decays = n_heads * (d_key if decay == "channel" else 1)
            n_in = d_model
            if decay == "channel" and rank is not None:
                self.W_decay_down = Linear(d_model, rank, **init_kwargs)
                n_in = rank
            self.W_decay = Linear(n_in, n_decays, **init_kwargs)
            self.log_rate, self.decay_bias = first_decays(
                n_heads, n_decays, generator, dtype
            )
        self.W_gate_down = None
        if rank is not None:
            self.W_gate_down = Linear(d_model, rank, **init_kwargs)
        self.W_gate = Linear(rank or d_model, values, **init_kwargs)
        self.norm_heads = RMSNorm(d_value, eps=output_eps, dtype=dtype)
        self.W_o = Linear(values, d_model, **init_kwargs)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        *,
        memory: Float[Tensor, "*B S D"] | None = None,
        position_ids: Integer[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        cache: StateCache | None = None,
        shared: dict[str, Any] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.LinearAttention.forward`."""
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.left_out(memory=memory, score_bias=score_bias)
        T = x.shape[-2]
        n_past = 0 if cache is None else cache.length
        checks.padding_alone(mask, (*x.shape[:-2], n_past + T))
        enter_sublayer("attention")
        real = None
        if mask is not None:  # (..., S), without the axes of heads and queries
            real = mask.reshape(*mask.shape[:-3], mask.shape[-1])
            real = real[..., -T:].expand(x.shape[:-1])

        # Project, convolve, and scale
        state = past = None
        if cache is not None:
            checks.fits_state(cache, self._kept())
            state, past = cache.keys, cache.values
        q, k, v, inputs = self._projected(x, past, real)
        q, k = self._scaled(q, k)
        sharing = self.n_heads // self.n_key_heads
        q, k = repeat_heads(q, sharing), repeat_heads(k, sharing)
        strength, log_decay = self._strength_and_decay(x, real)
        see(q=q, k=k, v=v)

        # Write and read
        wide = torch.promote_types(x.dtype, torch.float32)
        recurrence = recurrent_steps if T == 1 else recurrent_chunks
        read, state = recurrence(
            q.to(wide),
            k.to(wide),
            v.to(wide),
            strength=strength.to(wide),
            log_decay=log_decay.to(wide),
            state=state,
            delta=self.delta,
        )
        if cache is not None:
            cache.advance(state, inputs, T)
        see(read=read, state=state)

        # Merge
        merged = self._output(read.to(x.dtype), v, x)
        y = self.dropout(self.W_o(merged))
        see(write=y)
        return y

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> StateCache:
        """As `scratch.LinearAttention.new_cache`."""
        state, inputs = self._kept()
        weight = self.W_o.weight
        return StateCache(
            batch_size,
            length,
            state=state,
            inputs=inputs,
            rewindable=rewindable,
            dtype=weight.dtype,
            device=weight.device,
        )

    def _kept(self) -> tuple[tuple[int, int, int], tuple[int, int]]:
        """Returns the shapes (H, K, U) of a text's state and (N, E) of the inputs that are convolved next."""
        n_convolved = self.W_q.n_out + self.W_k.n_out + self.W_v.n_out
        state = self.n_heads, self.d_key, self.d_value
        return state, (self.taps - 1, n_convolved)

    # The queries, keys and values

    def _projected(
        self,
        x: Float[Tensor, "*B T D"],
        past: Float[Tensor, "*B N E"] | None,
        real: Bool[Tensor, "*B T"] | None,
    ) -> tuple[Tensor, ...]:
        """Returns queries and keys (..., G, T, K), values (..., H, T, U), and what the convolutions need next."""
        heads, inputs, begin = [], [], 0
        paths = (
            (self.W_q, self.convolution_q, self.n_key_heads),
            (self.W_k, self.convolution_k, self.n_key_heads),
            (self.W_v, self.convolution_v, self.n_heads),
        )
        for W, convolution, n_heads in paths:
            end = begin + W.n_out
            own = None if past is None else past[..., begin:end]
            wide, last = convolution(W(x), past=own, real=real)
            heads.append(split_heads(silu(wide), n_heads))
            inputs.append(last)
            begin = end
        return *heads, torch.cat(inputs, dim=-1)

    # What Mamba-2 does in another way

    def _scaled(
        self, q: Float[Tensor, "*B G T K"], k: Float[Tensor, "*B G T K"]
    ) -> tuple[Tensor, Tensor]:
        """Scales queries and keys to length 1, and queries by 1/√K as well."""
        q, k = (
            a * torch.rsqrt((a * a).sum(dim=-1, keepdim=True) + L2_EPS)
            for a in (q, k)
        )
        return q * self.d_key**-0.5, k

    def _strength_and_decay(
        self, x: Float[Tensor, "*B T D"], real: Bool[Tensor, "*B T"] | None
    ) -> tuple[Float[Tensor, "*B H T 1"], Float[Tensor, "*B H T _"]]:
        """Returns how strongly each position writes, and the logarithm of what it leaves of the state."""
        shape = (*x.shape[:-2], self.n_heads, x.shape[-2], 1)
        strength, log_decay = x.new_ones(shape), x.new_zeros(shape)
        if self.W_write is not None:
            share = torch.sigmoid(self.W_write(x))
            strength = self.max_strength * split_heads(share, self.n_heads)
        if self.W_decay is not None:
            rate = self.log_rate.exp()[:, None, None]
            log_decay = -rate * self._softplus(x)
        if real is not None:
            real = real[..., None, :, None]
            strength, log_decay = strength * real, log_decay * real
        return strength, log_decay

    def _softplus(self, x: Float[Tensor, "*B T D"]) -> Float[Tensor, "*B H T _"]:
        """Returns softplus(a + decay_bias)."""
        low = x if self.W_decay_down is None else self.W_decay_down(x)
        a = self.W_decay(low) + self.decay_bias
        return functional.softplus(split_heads(a, self.n_heads))

    def _output(
        self,
        read: Float[Tensor, "*B H T U"],
        v: Float[Tensor, "*B H T U"],
        x: Float[Tensor, "*B T D"],
    ) -> Float[Tensor, "*B T _"]:
        """Norms what each head has read, and multiplies it by the gate."""
        normed = merge_heads(self.norm_heads(read))
        z = self._gate_input(x)
        return normed * (silu(z) if self.gate == "silu" else torch.sigmoid(z))

    def _gate_input(self, x: Float[Tensor, "*B T D"]) -> Float[Tensor, "*B T _"]:
        low = x if self.W_gate_down is None else self.W_gate_down(x)
        return self.W_gate(low)


def first_decays(
    n_heads: int,
    n_decays: int,
    generator: torch.Generator | None,
    dtype: torch.dtype,
) -> tuple[nn.Parameter, nn.Parameter]:
    """As `scratch.linear_attention.first_decays`, in PyTorch."""
    if generator is None:
        zeros = torch.zeros(n_heads, dtype=dtype)
        return nn.Parameter(zeros), nn.Parameter(
            torch.zeros(n_decays, dtype=dtype)
        )
    rate = 1 + 15 * torch.rand(n_heads, generator=generator)
    powers = 1 + 2 * torch.rand(n_decays, generator=generator)
    step = 10**-powers  # between 0.001 and 0.1
    bias = step + torch.log(-torch.expm1(-step))  # softplus undone
    return nn.Parameter(rate.log().to(dtype)), nn.Parameter(bias.to(dtype))
