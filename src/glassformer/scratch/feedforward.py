"""The feed-forward network: widens each position's vector, applies a nonlinearity, and maps it back.

The axes: T positions, D d_model, F d_ff.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import has_gate
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.shapes import Float
from glassformer.trace import enter_sublayer, see

# Activations: one number in, one out; each comes with its slope, which is its
# backward pass


def relu(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns max(x, 0): negative numbers become 0. Derived in chapter 06."""
    return np.maximum(x, 0)


def relu_slope(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns the slope of `relu`: 1 where x > 0, else 0 (also at 0, as in torch). Derived in chapter 09."""
    return (x > 0).astype(x.dtype)


def relu2(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns max(x, 0)². Source: So et al. 2021, "Primer: Searching for Efficient Transformers"."""
    return np.maximum(x, 0) ** 2


def relu2_slope(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns the slope of `relu2`: 2 · max(x, 0)."""
    return 2 * np.maximum(x, 0)


def gelu(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Exact GELU: x · Φ(x), where Φ(x) = (1 + erf(x/√2)) / 2 is the probability that a normal number is below x.

    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units". Derived in
    chapter 06.
    """
    return x * _normal_cdf(x)


def gelu_slope(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns the slope of `gelu`: Φ(x) + x · φ(x), where φ is the normal density. Derived in chapter 09."""
    return _normal_cdf(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _normal_cdf(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    # NumPy has no erf. Imported here because only exact GELU needs it; Python's own is as exact but slow
    try:
        from scipy.special import erf
    except ImportError:
        erf = np.vectorize(math.erf, otypes=[np.result_type(x, np.float32)])

    return (1 + erf(x / math.sqrt(2))) / 2


# math.sqrt, because np.sqrt returns a float64, which would turn float32 arrays
# into float64.
GELU_SCALE, GELU_CUBIC = math.sqrt(8 / math.pi), 0.044715


def gelu_tanh(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """GELU with Φ approximated by a tanh: x · (1 + tanh(√(2/π) · (x + 0.044715x³))) / 2.

    GPT-2 uses this version. Since (1 + tanh(u)) / 2 = σ(2u), it is x times a
    sigmoid.

    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
    Derived in chapter 06.
    """
    return x * sigmoid(_twice_tanh_argument(x))


def gelu_tanh_slope(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns the slope of `gelu_tanh`, by the product rule. Derived in chapter 09."""
    s = sigmoid(_twice_tanh_argument(x))
    # x times the slope of the sigmoid's argument
    slope = _twice_tanh_argument(x, cubic=3 * GELU_CUBIC)
    slope *= 1 - s
    slope += 1
    slope *= s
    return slope


def _twice_tanh_argument(
    x: Float[np.ndarray, "*B"], cubic: float = GELU_CUBIC
) -> Float[np.ndarray, "*B"]:
    """Returns √(8/π) · (x + 0.044715x³), computed in place: allocating a large array takes longer than filling it."""
    doubled = x * x
    doubled *= cubic
    doubled += 1
    doubled *= x
    doubled *= GELU_SCALE
    return doubled


def silu(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns x · σ(x), also called Swish, where σ is the `sigmoid`.

    Source: Elfwing et al. 2017, "Sigmoid-Weighted Linear Units". Derived in
    chapter 06.
    """
    return x * sigmoid(x)


def silu_slope(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns the slope of `silu`: σ(x) · (1 + x · (1 − σ(x))). Derived in chapter 09."""
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def sigmoid(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns 1 / (1 + exp(−x)), between 0 and 1. Derived in chapter 06."""
    s = -x
    # exp of a large number is inf, and 1 / inf is 0, as it should be
    with np.errstate(over="ignore"):
        np.exp(s, out=s)
    s += 1
    return np.divide(1, s, out=s)


# An activation that learns


class XIeLU(Layer):
    """α_p·x² + β·x where x > 0, and α_n·(eˣ − 1 − x) + β·x elsewhere, with β = 1/2, which is its slope at 0.

    α_p is softplus(`alpha_p`) and α_n is β + softplus(`alpha_n`), which are never
    negative; each of these weights is one number, and at first both α are 0.8. As
    in the paper's code, x in eˣ is at most −10⁻⁶.

    Source: Huang and Schlag 2024, "Deriving Activation Functions Using
    Integration"; used in Apertus.
    """

    BETA, EPS = 0.5, -1e-6

    def __init__(self, *, dtype: DTypeLike = np.float32) -> None:
        self.alpha_p = np.full(1, math.log(math.expm1(0.8)), dtype)
        self.alpha_n = np.full(1, math.log(math.expm1(0.8 - self.BETA)), dtype)

    def forward(
        self, x: Float[np.ndarray, "*B F"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B F"]:
        """Maps each number of x."""
        save_for_backward(saved, x)
        right, left = np.logaddexp(0, self.alpha_p) * x * x, self._left(x)
        left *= self.BETA + np.logaddexp(0, self.alpha_n)
        return np.where(x > 0, right, left) + self.BETA * x

    def backward(
        self, grad: Float[np.ndarray, "*B F"], saved: Saved
    ) -> Float[np.ndarray, "*B F"]:
        """Maps the gradient of the output to that of x."""
        (x,) = saved.pop()
        to_right, to_left = grad * (x > 0), grad * (x <= 0)
        self.accumulate(
            alpha_p=np.vdot(to_right, x * x) * sigmoid(self.alpha_p),
            alpha_n=np.vdot(to_left, self._left(x)) * sigmoid(self.alpha_n),
        )
        right = np.logaddexp(0, self.alpha_p) * 2 * x
        left = np.exp(np.minimum(x, 0)) * (x < self.EPS) - 1
        left *= self.BETA + np.logaddexp(0, self.alpha_n)
        return to_right * right + to_left * left + self.BETA * grad

    def _left(self, x: Float[np.ndarray, "*B F"]) -> Float[np.ndarray, "*B F"]:
        return np.expm1(np.minimum(x, self.EPS)) - x


# The activation for each name in a configuration; `has_gate` says which have a
# gate
ACTIVATIONS: dict[str, Any] = {
    "relu": relu,
    "relu2": relu2,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "swiglu": silu,
    "geglu": gelu,
    "geglu_tanh": gelu_tanh,
    "xielu": XIeLU,
}
SLOPES = {
    relu: relu_slope,
    relu2: relu2_slope,
    gelu: gelu_slope,
    gelu_tanh: gelu_tanh_slope,
    silu: silu_slope,
}


def activation_of(
    feedforward: str, dtype: DTypeLike = np.float32
) -> Callable[..., np.ndarray]:
    """Returns the activation that a feed-forward network of that name applies between its linear maps.

    One that learns is a new layer.

    Raises:
        ValueError: no feed-forward network has that name.
    """
    checks.one_of("activation", feedforward, ACTIVATIONS)
    if feedforward == "xielu":
        return XIeLU(dtype=dtype)
    return ACTIVATIONS[feedforward]


def activation_slope(feedforward: str) -> Any:
    """Returns the slope of that activation, or None if it learns; `feedforward` as for `activation_of`."""
    return SLOPES.get(ACTIVATIONS[feedforward])


class FeedForward(Layer):
    """activation(x @ W_up) @ W_down; or gated, (activation(x @ W_gate) * (x @ W_up)) @ W_down.

    `W_up` and `W_gate` map d_model to the wider d_ff, and `W_down` maps back.
    `activation` is "relu", "relu2", "gelu", "gelu_tanh" or "xielu", or a gated
    one: "swiglu", "geglu" or "geglu_tanh". `dropout` is the fraction of the
    output that is dropped in training.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 2; gated:
    Shazeer 2020, "GLU Variants
    Improve Transformer". Derived in chapter 06, its gradient in 09.

    Raises:
        ValueError: a size is below 1, `activation` is none of these, or the last
            axis of x is not `d_model`.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "gelu_tanh",
        bias: bool = True,
        dropout: float = 0.0,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.activate = activation_of(activation, dtype)
        self.slope = activation_slope(activation)
        init_kwargs = {"bias": bias, "generator": generator, "dtype": dtype}
        self.W_up = Linear(d_model, d_ff, **init_kwargs)
        self.W_gate = (
            Linear(d_model, d_ff, **init_kwargs) if has_gate(activation) else None
        )
        self.W_down = Linear(d_ff, d_model, **init_kwargs)
        self.dropout = Dropout(dropout, generator=generator)

    def forward(
        self, x: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        enter_sublayer("feed-forward")
        up = self.W_up(x, saved)  # (..., F)
        if isinstance(self.activate, XIeLU):
            neurons = self.activate(up, saved)
        elif self.W_gate is None:
            save_for_backward(saved, up)
            neurons = self.activate(up)
        else:
            gate = self.W_gate(x, saved)  # (..., F)
            opened = self.activate(gate)
            save_for_backward(saved, up, gate, opened)
            neurons = opened * up
        see(neurons=neurons)
        y = self.dropout(self.W_down(neurons, saved), saved)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Maps the gradient of the output to that of x."""
        grad = self.W_down.backward(self.dropout.backward(grad, saved), saved)
        if isinstance(self.activate, XIeLU):
            return self.W_up.backward(self.activate.backward(grad, saved), saved)
        if self.W_gate is None:
            (up,) = saved.pop()
            return self.W_up.backward(grad * self.slope(up), saved)
        up, gate, opened = saved.pop()
        grad_x = self.W_gate.backward(grad * up * self.slope(gate), saved)
        return grad_x + self.W_up.backward(grad * opened, saved)


class NoFeedForward(Layer):
    """Adds nothing to the stream: the second sublayer of a layer that has only one."""

    def forward(
        self, x: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps x to zeros of its shape."""
        return np.zeros_like(x)

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Maps any gradient to zeros."""
        return np.zeros_like(grad)
