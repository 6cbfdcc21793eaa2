"""Linear attention, DeltaNet and Gated DeltaNet: a layer that keeps one matrix of each head in place of a cache.

The axes: B batch, T positions, D d_model, H heads, G heads of keys, K features of a key,
U those of a value, E those that are convolved, R the rank of a map.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.layers import DECAYS, STATE_GATES
from glassformer.scratch.attention import (
    merge_heads,
    repeat_heads,
    repeat_heads_backward,
    split_heads,
)
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.feedforward import sigmoid, silu, silu_slope
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.scratch.norm import RMSNorm
from glassformer.scratch.recurrence import (
    recurrent_chunks,
    recurrent_chunks_backward,
    recurrent_steps,
)
from glassformer.scratch.short_convolution import ShortConvolution
from glassformer.scratch.state_cache import StateCache
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import enter_sublayer, see

L2_EPS = 1e-6


class LinearAttention(Layer):
    """H heads that each write into a matrix S of K × U numbers, and read from it with their queries.

    `W_q` and `W_k` map D to G·K, `W_v` maps D to H·U; each is followed by a
    `ShortConvolution` of `taps` positions and SiLU. Queries and keys are scaled to
    length 1, queries also by 1/√K. With `delta`, a key first takes back what the
    state returns for it: S += k ⊗ β (v − Sᵀk), where β is `max_strength` · σ of
    what `W_write` (D, H) makes of x. Without it, S += k ⊗ v. What a head has read
    is normed, multiplied by SiLU or σ of what `W_gate` (D, H·U) makes of x, and
    mapped back by `W_o` (H·U, D).

    Before each writing, S decays by exp(g), g = −exp(log_rate) · softplus(a +
    decay_bias), where `W_decay` makes `a` of x: `decay` "head" has one number for each
    head, "channel" one for each feature of its keys, "none" leaves S as it is. With
    `rank`, the maps to the gate and to a decay "channel" go through R numbers,
    `W_gate_down` and `W_decay_down`.

    With `delta` and a decay "head", this is Gated DeltaNet as in Qwen3-Next; with
    "channel", a gate "sigmoid" and a rank, Kimi Delta Attention. The order of the rows is all it knows of
    positions. It can only look back.

    Source: Yang et al. 2025, "Gated Delta Networks", section 3; Kimi Team 2025,
    "Kimi Linear", section 3; max_strength 2: Grazzi et al. 2025, "Unlocking
    State-Tracking in Linear RNNs Through Negative Eigenvalues". Derived in chapter
    17.

    Raises:
        ValueError: a size is below 1, `n_key_heads` does not divide `n_heads`, or
            a choice is none of the above.
    """

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
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
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
        self.dropout = Dropout(dropout, generator=generator)

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        position_ids: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
        score_bias: Float[np.ndarray, "..."] | None = None,
        cache: StateCache | None = None,
        shared: dict[str, Any] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `mask` (..., 1, 1, S) is False at padding, which neither writes nor makes
        anything decay, wherever it stands; what comes out there is 0. With a `cache`, x holds only the new
        positions. `memory` and `score_bias` must be None; `position_ids` and
        `shared` change nothing.

        Raises:
            ValueError: a shape does not fit, `memory` or `score_bias` is not None, or
                `mask` differs from query to query.
            TypeError: x is not floating-point, or `mask` not boolean.
        """
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.no_gradient_through_cache(saved, cache)
        checks.left_out(memory=memory, score_bias=score_bias)
        T = x.shape[-2]
        n_past = 0 if cache is None else cache.length
        checks.padding_alone(mask, (*x.shape[:-2], n_past + T))
        enter_sublayer("attention")
        real = None
        if mask is not None:  # (..., S), without the axes of heads and queries
            real = mask.reshape(*mask.shape[:-3], mask.shape[-1])
            real = np.broadcast_to(real[..., -T:], x.shape[:-1])

        # Project, convolve, and scale
        state = past = None
        if cache is not None:
            checks.fits_state(cache, self._kept())
            state, past = cache.keys, cache.values
        q, k, v, inputs = self._projected(x, past, real, saved)
        q, k = self._scaled(q, k, saved)
        sharing = self.n_heads // self.n_key_heads
        q, k = repeat_heads(q, sharing), repeat_heads(k, sharing)
        strength, log_decay = self._strength_and_decay(x, real, saved)
        see(q=q, k=k, v=v)

        # Write and read
        given = {
            "strength": strength,
            "log_decay": log_decay,
            "delta": self.delta,
        }
        if cache is not None and T == 1:
            read, state = recurrent_steps(q, k, v, state=state, **given)
        else:
            read, state = recurrent_chunks(
                q, k, v, state=state, saved=saved, **given
            )
        if cache is not None:
            cache.advance(state, inputs, T)
        see(read=read, state=state)

        # Merge
        wide = self._output(read, v, x, saved)
        y = self.dropout(self.W_o(wide, saved), saved)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, None, None]:
        """Maps the gradient of the output to that of x; `memory` and `score_bias` have none."""
        grad = self.W_o.backward(self.dropout.backward(grad, saved), saved)
        grad_read, more_v, grad_x = self._output_backward(grad, saved)

        grad_q, grad_k, grad_v, grad_decay, grad_strength, _ = (
            recurrent_chunks_backward(grad_read, saved)
        )
        if more_v is not None:
            grad_v = grad_v + more_v
        grad_x = grad_x + self._strength_and_decay_backward(
            grad_strength, grad_decay, saved
        )

        sharing = self.n_heads // self.n_key_heads
        grad_q = repeat_heads_backward(grad_q, sharing)
        grad_k = repeat_heads_backward(grad_k, sharing)
        grad_q, grad_k = self._scaled_backward(grad_q, grad_k, saved)
        from_qkv = self._projected_backward(grad_q, grad_k, grad_v, saved)
        return grad_x + from_qkv, None, None

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> StateCache:
        """Returns an empty cache for `batch_size` texts; it is as large for any `length`.

        If `rewindable` is above 0, it has room for the copies that `mark` makes.
        """
        state, inputs = self._kept()
        return StateCache(
            batch_size,
            length,
            state=state,
            inputs=inputs,
            rewindable=rewindable,
            dtype=self.W_o.weight.dtype,
        )

    def _kept(self) -> tuple[tuple[int, int, int], tuple[int, int]]:
        """Returns the shapes (H, K, U) of a text's state and (N, E) of the inputs that are convolved next."""
        n_convolved = self.W_q.n_out + self.W_k.n_out + self.W_v.n_out
        state = self.n_heads, self.d_key, self.d_value
        return state, (self.taps - 1, n_convolved)

    # The queries, keys and values

    def _projected(
        self,
        x: Float[np.ndarray, "*B T D"],
        past: Float[np.ndarray, "*B N E"] | None,
        real: Bool[np.ndarray, "*B T"] | None,
        saved: Saved | None,
    ) -> tuple[np.ndarray, ...]:
        """Returns queries and keys (..., G, T, K), values (..., H, T, U), and what the convolutions need next."""
        heads, inputs, begin = [], [], 0
        for W, convolution, n_heads in self._paths():
            wide = W(x, saved)
            end = begin + W.n_out
            own = None if past is None else past[..., begin:end]
            wide, last = convolution(wide, saved, past=own, real=real)
            save_for_backward(saved, wide)
            heads.append(split_heads(silu(wide), n_heads))
            inputs.append(last)
            begin = end
        return *heads, np.concatenate(inputs, axis=-1)

    def _projected_backward(
        self,
        grad_q: Float[np.ndarray, "*B G T K"],
        grad_k: Float[np.ndarray, "*B G T K"],
        grad_v: Float[np.ndarray, "*B H T U"],
        saved: Saved,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradients of queries, keys and values to that of x."""
        grad_x: Any = 0
        grads = (grad_v, grad_k, grad_q)
        for (W, convolution, _), grad in zip(
            reversed(self._paths()), grads, strict=True
        ):
            (wide,) = saved.pop()
            grad = merge_heads(grad) * silu_slope(wide)
            grad_x = grad_x + W.backward(convolution.backward(grad, saved), saved)
        return grad_x

    def _paths(self) -> list[tuple[Linear, ShortConvolution, int]]:
        return [
            (self.W_q, self.convolution_q, self.n_key_heads),
            (self.W_k, self.convolution_k, self.n_key_heads),
            (self.W_v, self.convolution_v, self.n_heads),
        ]

    # What Mamba-2 does in another way

    def _scaled(
        self,
        q: Float[np.ndarray, "*B G T K"],
        k: Float[np.ndarray, "*B G T K"],
        saved: Saved | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scales queries and keys to length 1, and queries by 1/√K as well."""
        inverse_q, inverse_k = (
            1 / np.sqrt((a * a).sum(axis=-1, keepdims=True) + L2_EPS)
            for a in (q, k)
        )
        q, k = q * inverse_q, k * inverse_k
        save_for_backward(saved, q, inverse_q, k, inverse_k)
        return q * self.d_key**-0.5, k

    def _scaled_backward(
        self,
        grad_q: Float[np.ndarray, "*B G T K"],
        grad_k: Float[np.ndarray, "*B G T K"],
        saved: Saved,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Maps the gradients of the scaled queries and keys to those before."""
        q, inverse_q, k, inverse_k = saved.pop()
        grad_q = grad_q * self.d_key**-0.5
        # Moving along itself changes no direction
        along_q = (grad_q * q).sum(axis=-1, keepdims=True)
        along_k = (grad_k * k).sum(axis=-1, keepdims=True)
        return (grad_q - q * along_q) * inverse_q, (
            grad_k - k * along_k
        ) * inverse_k

    def _strength_and_decay(
        self,
        x: Float[np.ndarray, "*B T D"],
        real: Bool[np.ndarray, "*B T"] | None,
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B H T 1"], Float[np.ndarray, "*B H T _"]]:
        """Returns how strongly each position writes, and the logarithm of what it leaves of the state."""
        shape = (*x.shape[:-2], self.n_heads, x.shape[-2], 1)
        strength = np.ones(shape, x.dtype)
        if self.W_write is not None:
            strength = self.max_strength * split_heads(
                sigmoid(self.W_write(x, saved)), self.n_heads
            )
        log_decay = np.zeros(shape, x.dtype)
        slope = None
        if self.W_decay is not None:
            softplus, slope = self._softplus(x, saved)
            log_decay = -np.exp(self.log_rate)[:, None, None] * softplus
        if real is not None:
            real = real[..., None, :, None]
            strength, log_decay = strength * real, log_decay * real
        save_for_backward(saved, strength, log_decay, slope, real)
        return strength, log_decay

    def _strength_and_decay_backward(
        self,
        grad_strength: Float[np.ndarray, "*B H T 1"],
        grad_decay: Float[np.ndarray, "*B H T _"],
        saved: Saved,
    ) -> Any:
        """Maps the gradients of both to that of x."""
        strength, log_decay, slope, real = saved.pop()
        grad_x: Any = 0
        if self.W_decay is not None:
            self.accumulate(log_rate=of_each_head(grad_decay * log_decay))
            to_softplus = -np.exp(self.log_rate)[:, None, None] * grad_decay
            grad_x = self._softplus_backward(to_softplus, slope, real, saved)
        if self.W_write is not None:
            share = strength / self.max_strength
            grad = grad_strength * self.max_strength * share * (1 - share)
            grad_x = grad_x + self.W_write.backward(merge_heads(grad), saved)
        return grad_x

    def _softplus(
        self, x: Float[np.ndarray, "*B T D"], saved: Saved | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns softplus(a + decay_bias), and its slope, σ of the same; both are (..., H, T, 1 or K)."""
        low = x if self.W_decay_down is None else self.W_decay_down(x, saved)
        a = split_heads(self.W_decay(low, saved) + self.decay_bias, self.n_heads)
        return np.logaddexp(0, a), sigmoid(a)

    def _softplus_backward(
        self, grad: np.ndarray, slope: np.ndarray, real: Any, saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of `_softplus` to that of x; padding has none."""
        if real is not None:
            grad = grad * real
        grad = merge_heads(grad * slope)
        self.accumulate(decay_bias=grad.reshape(-1, grad.shape[-1]).sum(axis=0))
        grad = self.W_decay.backward(grad, saved)
        if self.W_decay_down is None:
            return grad
        return self.W_decay_down.backward(grad, saved)

    def _output(
        self,
        read: Float[np.ndarray, "*B H T U"],
        v: Float[np.ndarray, "*B H T U"],
        x: Float[np.ndarray, "*B T D"],
        saved: Saved | None,
    ) -> Float[np.ndarray, "*B T _"]:
        """Norms what each head has read, and multiplies it by the gate."""
        normed = merge_heads(self.norm_heads(read, saved))
        z = self._gate_input(x, saved)
        save_for_backward(saved, normed, z)
        return normed * (silu(z) if self.gate == "silu" else sigmoid(z))

    def _output_backward(
        self, grad: Float[np.ndarray, "*B T _"], saved: Saved
    ) -> tuple[np.ndarray, Any, np.ndarray]:
        """Maps the gradient of `_output` to those of `read`, of v, if that is used, and of x."""
        normed, z = saved.pop()
        if self.gate == "silu":
            gate, slope = silu(z), silu_slope(z)
        else:
            gate = sigmoid(z)
            slope = gate * (1 - gate)
        grad_x = self._gate_input_backward(grad * normed * slope, saved)
        normed = split_heads(grad * gate, self.n_heads)
        return self.norm_heads.backward(normed, saved), None, grad_x

    def _gate_input(
        self, x: Float[np.ndarray, "*B T D"], saved: Saved | None
    ) -> Float[np.ndarray, "*B T _"]:
        low = x if self.W_gate_down is None else self.W_gate_down(x, saved)
        return self.W_gate(low, saved)

    def _gate_input_backward(
        self, grad: Float[np.ndarray, "*B T _"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        grad = self.W_gate.backward(grad, saved)
        if self.W_gate_down is None:
            return grad
        return self.W_gate_down.backward(grad, saved)


def first_decays(
    n_heads: int,
    n_decays: int,
    generator: np.random.Generator | None,
    dtype: DTypeLike,
) -> tuple[Float[np.ndarray, " H"], Float[np.ndarray, " _"]]:
    """Draws `log_rate` (H) and `decay_bias`: rates of 1 to 16, and steps, softplus of the bias, of 0.001 to 0.1.

    So where `W_decay` returns 0, a head keeps between 20% and 99.9% of its state
    from one position to the next. Without a generator, both are zeros.

    Source: the steps: Gu and Dao 2023, "Mamba", section 3.6; the rates: the code of
    Mamba-2.
    """
    if generator is None:
        return np.zeros(n_heads, dtype), np.zeros(n_decays, dtype)
    rate = generator.uniform(1, 16, n_heads)
    step = np.exp(generator.uniform(np.log(0.001), np.log(0.1), n_decays))
    bias = step + np.log(-np.expm1(-step))  # softplus undone
    return np.log(rate).astype(dtype), bias.astype(dtype)


def of_each_head(grad: Float[np.ndarray, "*B H T _"]) -> np.ndarray:
    """(..., H, T, n) -> (H): adds up what belongs to each head."""
    by_head = np.moveaxis(grad, -3, 0)
    return by_head.reshape(len(by_head), -1).sum(axis=1)
