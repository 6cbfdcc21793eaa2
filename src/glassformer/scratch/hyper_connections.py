"""Several residual streams: each sublayer reads a mixture of them, writes to all of them, and lets them mix.

The axes: B batch, T positions, M streams, D d_model.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.scratch.attention import softmax, softmax_backward
from glassformer.scratch.block import Block
from glassformer.scratch.feedforward import sigmoid
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.scratch.norm import RMSNorm
from glassformer.shapes import Float, Integer
from glassformer.trace import enter_sublayer, see

ROWS, COLUMNS = -1, -2  # the axis to sum over


def sinkhorn(
    z: Float[np.ndarray, "*B M M"], steps: int, eps: float = 0.0
) -> Float[np.ndarray, "*B M M"]:
    """Turns any square matrix into one with positive entries, whose rows and columns all nearly sum to 1.

    A softmax makes every row sum to 1. Then all columns are divided by their sums,
    all rows by theirs, and so on, until columns were divided `steps` times. `eps`
    is added to each entry of the softmax, and to each sum. The columns come last, so
    their sums are the most exact. The closer the result is to the identity, the more
    steps it takes until those of the rows are exact, too.

    Source: Sinkhorn and Knopp 1967, "Concerning nonnegative matrices and doubly
    stochastic matrices"; as in DeepSeek-V4. Derived in chapter 18.

    Raises:
        ValueError: the last two axes of z differ, `steps` is below 1, or `eps` is
            negative.
    """
    checks.floats("z", z)
    checks.axes("z", z, "M, M")
    checks.equal("z.shape[-2]", z.shape[-2], "z.shape[-1]", z.shape[-1])
    checks.whole("steps", steps)
    checks.not_negative("eps", eps)
    weights = softmax(z) + eps
    for axis in _order(steps):
        weights = weights / (weights.sum(axis=axis, keepdims=True) + eps)
    return weights


def sinkhorn_backward(
    grad: Float[np.ndarray, "*B M M"],
    z: Float[np.ndarray, "*B M M"],
    steps: int,
    eps: float = 0.0,
) -> Float[np.ndarray, "*B M M"]:
    """Maps the gradient of `sinkhorn(z, steps, eps)` to that of z, back through every division."""
    first = softmax(z)
    weights, done = first + eps, []
    for axis in _order(steps):
        total = weights.sum(axis=axis, keepdims=True) + eps
        weights = weights / total
        done.append((axis, weights, total))
    # A sum contains each of its terms, so a division takes some of it back
    for axis, weights, total in reversed(done):
        along = (grad * weights).sum(axis=axis, keepdims=True)
        grad = (grad - along) / total
    return softmax_backward(grad, first)


def _order(steps: int) -> list[int]:
    return [COLUMNS] + [ROWS, COLUMNS] * (steps - 1)


class StreamNumbers(Layer):
    """Computes numbers from all streams of a position: a · (norm(streams) @ W) + b.

    The norm is one over M·D features, without a gain. `sizes` are those of groups
    of numbers, each of which has its own factor a in `scale`. It starts at 0.01,
    so that at first the numbers are nearly b, which is `bias`.

    Source: Xie et al. 2025, "mHC: Manifold-Constrained Hyper-Connections", section
    4.2. Derived in chapter 18.
    """

    def __init__(
        self,
        d_model: int,
        n_streams: int,
        sizes: tuple[int, ...],
        *,
        norm_eps: float = 1e-5,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("d_model", d_model)
        checks.whole("n_streams", n_streams)
        self.n_streams, self.sizes = n_streams, sizes
        n_in, n_out = n_streams * d_model, sum(sizes)
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.norm = RMSNorm(n_in, eps=norm_eps, gain=False, dtype=dtype)
        self.W = Linear(n_in, n_out, bias=False, **init_kwargs)
        self.scale = np.full(len(sizes), 0.01, dtype)
        self.bias = np.zeros(n_out, dtype)

    def forward(
        self, x: Float[np.ndarray, "*B M D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B n_out"]:
        """Maps streams x (..., M, D) to numbers (..., n_out)."""
        checks.axes("x", x, "M, D")
        checks.equal("x.shape[-2]", x.shape[-2], "n_streams", self.n_streams)
        flat = x.reshape(*x.shape[:-2], -1)  # (..., M·D)
        z = self.W(self.norm(flat, saved), saved)
        save_for_backward(saved, z)
        return z * np.repeat(self.scale, self.sizes) + self.bias

    def backward(
        self, grad: Float[np.ndarray, "*B n_out"], saved: Saved
    ) -> Float[np.ndarray, "*B M D"]:
        """Maps the gradient of the numbers to that of x."""
        (z,) = saved.pop()
        rows = tuple(range(grad.ndim - 1))
        along = (grad * z).sum(axis=rows)
        starts = np.cumsum((0, *self.sizes[:-1]))
        self.accumulate(
            scale=np.add.reduceat(along, starts), bias=grad.sum(axis=rows)
        )
        grad = self.W.backward(grad * np.repeat(self.scale, self.sizes), saved)
        grad = self.norm.backward(grad, saved)
        return grad.reshape(*grad.shape[:-1], self.n_streams, -1)


class HyperConnection(Layer):
    """What takes the place of x + f(x) around a sublayer f, if there are M streams X: mixᵀ X + post ⊗ f(pre · X).

    The streams decide by themselves: `StreamNumbers` makes numbers of them, and
    pre = σ(·) + ε says how much of each stream f reads, post = 2σ(·) how much of
    what f returns is added to each, and mix[m, n] how much of stream m goes on in
    stream n. `mix` is made by `sinkhorn` with that many `steps` and ε = `eps`, so
    the sum of all streams goes on nearly as it is.

    At first, f reads the mean of the streams, each gets all of what f returns, and
    `mix` is nearly the identity. So a model, whose streams begin as copies, begins
    nearly as one with a single stream.

    Source: Zhu et al. 2024, "Hyper-Connections", section 2; in this form Xie et al.
    2025, "mHC: Manifold-Constrained Hyper-Connections", section 4. Derived in
    chapter 18.
    """

    def __init__(
        self,
        d_model: int,
        n_streams: int,
        *,
        steps: int = 20,
        eps: float = 1e-6,
        norm_eps: float = 1e-5,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("steps", steps)
        checks.not_negative("eps", eps)
        self.n_streams, self.steps, self.eps = n_streams, steps, eps
        M = n_streams
        self.numbers = StreamNumbers(
            d_model,
            M,
            (M, M, M * M),
            norm_eps=norm_eps,
            generator=generator,
            dtype=dtype,
        )
        self.numbers.bias[:M] = mean_of(M)
        self.numbers.bias[2 * M :] = -8 * (1 - np.eye(M)).ravel()

    def forward(
        self, x: Float[np.ndarray, "*B M D"], saved: Saved | None = None
    ) -> tuple[
        Float[np.ndarray, "*B D"],
        Float[np.ndarray, "*B M"],
        Float[np.ndarray, "*B M M"],
    ]:
        """Maps streams x (..., M, D) to what the sublayer reads, (..., D), and to post and mix, which `write` needs."""
        M = self.n_streams
        numbers = self.numbers(x, saved)
        opened = sigmoid(numbers[..., :M])
        pre = opened + self.eps
        post = 2 * sigmoid(numbers[..., M : 2 * M])
        z = numbers[..., 2 * M :].reshape(*post.shape, M)
        mix = sinkhorn(z, self.steps, self.eps)
        see(pre=pre, post=post, mix=mix)
        save_for_backward(saved, x, opened, post, z)
        return weighted(pre, x), post, mix

    def backward(
        self, grad: tuple[np.ndarray, ...], saved: Saved
    ) -> Float[np.ndarray, "*B M D"]:
        """Maps the gradients of what the sublayer reads, of post and of mix to that of x."""
        grad_read, grad_post, grad_mix = grad
        x, opened, post, z = saved.pop()
        grad_pre, grad_x = weighted_backward(grad_read, opened + self.eps, x)
        grad_z = sinkhorn_backward(grad_mix, z, self.steps, self.eps)
        grad_numbers = [
            grad_pre * opened * (1 - opened),
            grad_post * post * (1 - post / 2),
            grad_z.reshape(*post.shape[:-1], -1),
        ]
        grad_all = np.concatenate(grad_numbers, axis=-1)
        return grad_x + self.numbers.backward(grad_all, saved)

    def write(
        self,
        x: Float[np.ndarray, "*B M D"],
        y: Float[np.ndarray, "*B D"],
        post: Float[np.ndarray, "*B M"],
        mix: Float[np.ndarray, "*B M M"],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B M D"]:
        """Maps the streams x, and what the sublayer has returned, to the streams after it."""
        save_for_backward(saved, x, y, post, mix)
        return mix.swapaxes(-1, -2) @ x + post[..., None] * y[..., None, :]

    def write_backward(
        self, grad: Float[np.ndarray, "*B M D"], saved: Saved
    ) -> tuple[np.ndarray, ...]:
        """Maps the gradient of the streams after a sublayer to those of x, y, post and mix."""
        x, y, post, mix = saved.pop()
        grad_post = (grad @ y[..., None])[..., 0]
        grad_mix = x @ grad.swapaxes(-1, -2)
        return mix @ grad, weighted(post, grad), grad_post, grad_mix


class Streams(Layer):
    """What comes before the first block and after the last, if there are M streams: M copies, and a weighted sum.

    The weights are σ(·) + ε of what `StreamNumbers` makes of the streams; at first,
    the sum is their mean.

    Source: the copies: Zhu et al. 2024, "Hyper-Connections", section 2; the sum: in
    this form in DeepSeek-V4. Derived in chapter 18.
    """

    def __init__(
        self,
        d_model: int,
        n_streams: int,
        *,
        eps: float = 1e-6,
        norm_eps: float = 1e-5,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.not_negative("eps", eps)
        self.n_streams, self.eps = n_streams, eps
        self.numbers = StreamNumbers(
            d_model,
            n_streams,
            (n_streams,),
            norm_eps=norm_eps,
            generator=generator,
            dtype=dtype,
        )
        self.numbers.bias[:] = mean_of(n_streams)

    def copies(self, x: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, "*B M D"]:
        """Maps vectors x (..., D) to equal streams (..., M, D)."""
        return np.repeat(x[..., None, :], self.n_streams, axis=-2)

    def copies_backward(
        self, grad: Float[np.ndarray, "*B M D"]
    ) -> Float[np.ndarray, "*B D"]:
        """Maps the gradient of the streams to that of x."""
        return grad.sum(axis=-2)

    def forward(
        self, x: Float[np.ndarray, "*B M D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps streams x (..., M, D) to their weighted sum (..., D)."""
        opened = sigmoid(self.numbers(x, saved))
        save_for_backward(saved, x, opened)
        return weighted(opened + self.eps, x)

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B M D"]:
        """Maps the gradient of the sum to that of x."""
        x, opened = saved.pop()
        grad_pre, grad_x = weighted_backward(grad, opened + self.eps, x)
        grad = grad_pre * opened * (1 - opened)
        return grad_x + self.numbers.backward(grad, saved)


def streams_of(
    config: ModelConfig,
    *,
    generator: np.random.Generator | None,
    dtype: DTypeLike = np.float32,
) -> Streams | None:
    """Returns what a configuration needs around its blocks, or None if there is one stream."""
    if (streams := config.streams) is None:
        return None
    return Streams(
        config.d_model,
        streams.n_streams,
        eps=streams.eps,
        norm_eps=config.norm_eps,
        generator=generator,
        dtype=dtype,
    )


class StreamsBlock(Block):
    """A block among M streams: around each of its sublayers is a `HyperConnection`.

    A sublayer reads and returns one vector for each position, as in any block, and
    has the same norms.
    """

    def __init__(
        self,
        config: ModelConfig,
        index: int = 0,
        *,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
        **options: Any,
    ) -> None:
        init_kwargs = {"generator": generator, "dtype": dtype}
        super().__init__(config, index, **options, **init_kwargs)
        layer = config.layer(index)

        def connection() -> HyperConnection:
            return HyperConnection(
                config.d_model,
                **vars(config.streams),
                norm_eps=layer.norm.eps,
                **init_kwargs,
            )

        self.streams_attention = connection()
        self.streams_feedforward = None
        if layer.n_sublayers == 2:
            self.streams_feedforward = connection()

    def forward(
        self,
        x: Float[np.ndarray, "*B T M D"],
        *,
        ids: Integer[np.ndarray, "*B T"] | None = None,
        saved: Saved | None = None,
        **inputs: Any,
    ) -> Float[np.ndarray, "*B T M D"]:
        """Maps streams x (..., T, M, D) to streams; `inputs` are those of `Block.forward`."""
        given = {name: v for name, v in inputs.items() if v is not None}
        enter_sublayer("attention")
        connection = self.streams_attention
        read, post, mix = connection(x, saved)
        y = self.attention(self.norm_attention(read, saved), **given, saved=saved)
        x = connection.write(x, y, post, mix, saved)
        see(stream=x)
        if (connection := self.streams_feedforward) is None:
            return x
        enter_sublayer("feed-forward")
        given_too = {"ids": ids} if self.reads_ids else {}
        read, post, mix = connection(x, saved)
        y = self.feedforward(
            self.norm_feedforward(read, saved), saved, **given_too
        )
        x = connection.write(x, y, post, mix, saved)
        see(stream=x)
        return x

    def backward(
        self, grad: Float[np.ndarray, "*B T M D"], saved: Saved
    ) -> tuple[np.ndarray, None, np.ndarray | None]:
        """As `Block.backward`; there is no `memory`."""
        if (connection := self.streams_feedforward) is not None:
            grad, to_y, *to_weights = connection.write_backward(grad, saved)
            to_x = self.feedforward.backward(to_y, saved)
            to_read = self.norm_feedforward.backward(to_x, saved)
            grad = grad + connection.backward((to_read, *to_weights), saved)
        connection = self.streams_attention
        grad, to_y, *to_weights = connection.write_backward(grad, saved)
        to_x, _, grad_score_bias = self.attention.backward(to_y, saved)
        to_read = self.norm_attention.backward(to_x, saved)
        grad = grad + connection.backward((to_read, *to_weights), saved)
        return grad, None, grad_score_bias


def weighted(
    weights: Float[np.ndarray, "*B M"], x: Float[np.ndarray, "*B M D"]
) -> Float[np.ndarray, "*B D"]:
    """Returns the sum of the streams x (..., M, D), each times its weight."""
    return (weights[..., None, :] @ x)[..., 0, :]


def weighted_backward(
    grad: Float[np.ndarray, "*B D"],
    weights: Float[np.ndarray, "*B M"],
    x: Float[np.ndarray, "*B M D"],
) -> tuple[Float[np.ndarray, "*B M"], Float[np.ndarray, "*B M D"]]:
    """Maps the gradient of `weighted(weights, x)` to those of the weights and of x."""
    grad_weights = (x @ grad[..., None])[..., 0]
    return grad_weights, weights[..., None] * grad[..., None, :]


def mean_of(n_streams: int) -> float:
    """Returns the b with σ(b) = 1/M, so that a sum with such weights is a mean; for one stream, σ(b) is nearly 1."""
    return -math.log(n_streams - 1) if n_streams > 1 else 8.0
