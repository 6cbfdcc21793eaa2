"""Changes in a right model that make mistakes of it."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer import scratch
from glassformer.config import ModelConfig


def decoder(model: scratch.Transformer) -> Any:
    """Returns a model's decoder."""
    assert model.decoder is not None  # each kind here is a decoder
    return model.decoder


def with_weights(own: dict[str, np.ndarray], config: ModelConfig) -> scratch.Transformer:
    """Returns another configuration's model, with those of the weights that it has; biases that are new are 0."""
    model = scratch.Transformer(config, generator=None, dtype=own["token_embedding.weight"].dtype)
    for name, weight in model.named_parameters().items():
        weight[...] = own[name] if name in own or not name.endswith("bias") else 0.0
    return model


def relu(x: np.ndarray) -> np.ndarray:
    """Computes ReLU."""
    return np.maximum(x, 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Computes the sigmoid."""
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ReLU": relu,
    "SiLU": lambda x: x * sigmoid(x),
    "a sigmoid": sigmoid,
    "tanh": np.tanh,
    "x · sigmoid(1.702 x), an approximation of GELU": lambda x: x * sigmoid(1.702 * x),
    "squared ReLU": lambda x: relu(x) ** 2,
    "leaky ReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "softplus": lambda x: np.logaddexp(0, x),
}


def bfloat16(w: np.ndarray) -> np.ndarray:
    """Rounds to the 8 digits that a bfloat16 has."""
    digits, power = np.frexp(w)
    return np.ldexp(np.round(digits * 256) / 256, power).astype(w.dtype)


def activation(model: scratch.Transformer, function: Callable) -> None:
    """Gives every feed-forward network another activation."""
    for block in decoder(model).blocks:
        block.feedforward.activate = function


def uncentred(model: scratch.Transformer) -> None:
    """Lets each LayerNorm keep the mean, as RMSNorm does, with its gain and its bias."""

    def forward(norm: Any) -> Callable:
        return lambda x, saved=None: (
            x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + norm.eps) * norm.weight + norm.bias
        )

    parts = decoder(model)
    norms = [norm for block in parts.blocks for norm in (block.norm_attention, block.norm_feedforward)]
    for norm in [*norms, parts.norm]:
        norm.forward = forward(norm)


def without_feedforward(model: scratch.Transformer) -> None:
    """Lets every feed-forward network add 0."""
    for name, weight in model.named_parameters().items():
        if "feedforward.W_down" in name:
            weight[...] = 0


def unmasked(model: scratch.Transformer) -> None:
    """Lets every position see all others."""
    for block in decoder(model).blocks:
        block.attention.causal = False


def exchanged(model: scratch.Transformer) -> None:
    """Exchanges gate and up."""
    w = model.named_parameters()
    for name in [name for name in w if "W_gate" in name]:
        gate, up = w[name], w[name.replace("W_gate", "W_up")]
        gate[...], up[...] = up.copy(), gate.copy()


def eps_outside(x: np.ndarray, eps: float) -> np.ndarray:
    """Adds ε to the root of the mean square."""
    return np.sqrt((x * x).mean(axis=-1, keepdims=True)) + eps


def of_sum(x: np.ndarray, eps: float) -> np.ndarray:
    """Takes the root of the sum of squares."""
    return np.sqrt((x * x).sum(axis=-1, keepdims=True) + eps)


def sized(model: scratch.Transformer, size: Callable[[np.ndarray, float], np.ndarray]) -> None:
    """Lets each RMSNorm divide by what this function makes of a vector and ε."""

    def forward(norm: Any) -> Callable:
        return lambda x, saved=None: x / size(x, norm.eps) * norm.weight

    parts = decoder(model)
    norms = [parts.norm, parts.embedding_norm]
    for block in parts.blocks:
        of_heads = [block.attention.norm_q, block.attention.norm_k]
        norms += [block.norm_attention, block.norm_feedforward, *of_heads]
    for norm in norms:
        if norm is not None:
            norm.forward = forward(norm)


def normed_after_rotating(model: scratch.Transformer) -> None:
    """Lets queries and keys be rotated before they are normed."""

    def late(norms: list[Any], right: Callable) -> Callable:
        calls = itertools.count()  # the queries come first, then the keys
        return lambda x, *more: norms[next(calls) % 2](right(x, *more))

    for block in decoder(model).blocks:
        attention = block.attention
        rotation = attention.position_encoding
        rotation.rotate = late([attention.norm_q, attention.norm_k], rotation.rotate)
        attention.norm_q = attention.norm_k = None


def parallel(model: scratch.Transformer) -> None:
    """Lets both sublayers of a block read the same stream."""

    def forward(block: Any) -> Callable:
        return lambda x, **more: (
            x
            + block.attention(block.norm_attention(x), position_ids=more.get("position_ids"))
            + block.feedforward(block.norm_feedforward(x))
        )

    for block in decoder(model).blocks:
        block.forward = forward(block)


def attention_lost(model: scratch.Transformer) -> None:
    """Lets the feed-forward network be added to the block's input, without what attention has added."""

    def forward(block: Any) -> Callable:
        def run(x: Any, **more: Any) -> Any:
            y = x + block.attention(block.norm_attention(x), position_ids=more.get("position_ids"))
            return x + block.feedforward(block.norm_feedforward(y))

        return run

    for block in decoder(model).blocks:
        block.forward = forward(block)


def added_to_norm(model: scratch.Transformer, which: tuple[int, ...]) -> None:
    """Adds the sublayers of these numbers to what their norm returns, and not to the stream."""

    def forward(block: Any) -> Callable:
        def run(x: Any, **more: Any) -> Any:
            sublayers = (
                (block.norm_attention, lambda x: block.attention(x, position_ids=more.get("position_ids"))),
                (block.norm_feedforward, block.feedforward),
            )
            for number, (norm, sublayer) in enumerate(sublayers):
                normed = norm(x)
                x = (normed if number in which else x) + sublayer(normed)
            return x

        return run

    for block in decoder(model).blocks:
        block.forward = forward(block)


def interleaved(model: scratch.Transformer, *, merged: bool = True) -> None:
    """Gives head h the numbers h, h + H, h + 2H, …, and, if `merged`, puts its own back there."""
    c = model.config
    order = np.arange(c.d_model).reshape(c.d_head, c.n_heads).T.ravel()
    for name, weight in model.named_parameters().items():
        if name.endswith(("W_q.weight", "W_k.weight", "W_v.weight")):
            weight[...] = weight[:, order]
        elif merged and name.endswith("W_o.weight"):
            weight[...] = weight[order]


def alone(model: scratch.Transformer, which: str) -> None:
    """Lets one of the two sublayers replace the stream, to which the other one adds."""

    def forward(block: Any) -> Callable:
        def run(x: Any, **more: Any) -> Any:
            attended = block.attention(block.norm_attention(x), position_ids=more.get("position_ids"))
            x = attended if which == "attention" else x + attended
            computed = block.feedforward(block.norm_feedforward(x))
            return computed if which == "feedforward" else x + computed

        return run

    for block in decoder(model).blocks:
        block.forward = forward(block)


def without_norm(model: scratch.Transformer, which: str) -> None:
    """Lets a sublayer read the stream as it is."""
    for block in decoder(model).blocks:
        getattr(block, which).forward = lambda x, saved=None: x


def along(model: scratch.Transformer, axes: tuple[int, ...]) -> None:
    """Lets each norm compute its mean and size along other axes of (T, D)."""

    def forward(norm: Any) -> Callable:
        def run(x: Any, saved: Any = None) -> Any:
            bias = getattr(norm, "bias", None)
            x = x if bias is None else x - x.mean(axis=axes, keepdims=True)
            x = x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + norm.eps) * norm.weight
            return x if bias is None else x + bias

        return run

    parts = decoder(model)
    for norm in [parts.norm, *(one for b in parts.blocks for one in (b.norm_attention, b.norm_feedforward))]:
        norm.forward = forward(norm)


def normed_twice(model: scratch.Transformer) -> None:
    """Applies the last norm twice."""
    norm = decoder(model).norm
    right = norm.forward
    norm.forward = lambda x, saved=None: right(right(x))


def reordered(model: scratch.Transformer, order: tuple[int, ...]) -> None:
    """Runs the blocks in another order."""
    blocks = decoder(model).blocks
    blocks[:] = [blocks[i] for i in order]


def gate_added(model: scratch.Transformer) -> None:
    """Adds the gate to what it should multiply."""

    def forward(network: Any) -> Callable:
        return lambda x, saved=None: network.W_down(network.activate(network.W_gate(x)) + network.W_up(x))

    for block in decoder(model).blocks:
        block.feedforward.forward = forward(block.feedforward)
