"""Judges "An encoder, by removing the mask" (chapter 12).

A stack of blocks in which every position sees all others.

Axes: T positions, V vocabulary.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch06.judges.feed_forward import feed_forward
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import merge_heads, scaled_dot_product_attention, softmax, split_heads
from glassformer.shapes import Float, Integer


def encoder(ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T V"]:
    """Computes a GPT without its mask: every position sees all others."""
    table = weights["token_embedding.weight"]
    x = table[ids] + weights["encoder.positions.weight"][: len(ids)]
    n_layers = len({name.split(".")[2] for name in weights if name.startswith("encoder.blocks.")})
    for i in range(n_layers):
        own = f"encoder.blocks.{i}."
        w = {name.removeprefix(own): value for name, value in weights.items() if name.startswith(own)}
        normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
        q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
        shares = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
        x = x + merge_heads(shares @ v) @ w["attention.W_o.weight"]
        normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
        up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
        x = x + feed_forward(normed, *up, w["feedforward.W_down.weight"], w["feedforward.W_down.bias"])
    x = layer_norm(x, weights["encoder.norm.weight"], weights["encoder.norm.bias"])
    return x @ table.T


reading = exercise(
    "families.encoder", encoder, axes="T V",
)  # fmt: skip


@cache
def _model(n_layers: int) -> Any:
    """An encoder of the package, with weights that hide no mistake."""
    from glassformer import scratch
    from glassformer.published import published

    config = published("gpt2").config.replace(
        family="encoder", vocab_size=7, context_length=9, d_model=8, n_layers=n_layers, n_heads=2, d_ff=12,
        attention_bias="none", feedforward="gelu",
    )  # fmt: skip
    model = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64)
    rng = np.random.default_rng(n_layers)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.4
    return model.eval()


def _encoded(T: int, n_layers: int) -> dict[str, Any]:
    ids = np.random.default_rng(T).integers(7, size=T)
    model = _model(n_layers)
    return {"args": (ids, dict(model.named_parameters()), 2), "want": model(ids)}


for _title, _T, _n in (
    ("one block, one token: there is nothing else to see", 1, 1),
    ("one block, five tokens: the first sees the last", 5, 1),
    ("two blocks", 6, 2),
    ("as long as the table of positions", 9, 2),
):
    _given = _encoded(_T, _n)
    reading.case(_title, *_given["args"], want=_given["want"])


@reading.check("the last token changes every row")
def _(learner):
    ids, weights, n_heads = _encoded(6, 2)["args"]
    other = np.append(ids[:-1], (ids[-1] + 1) % 7)
    one, two = (as_numbers(learner(some, weights, n_heads), "encoder(ids, …)") for some in (ids, other))
    still = np.flatnonzero((abs(one - two) < 1e-9).all(axis=-1))
    if len(still):
        raise Wrong(f"another last token leaves row {still[0]} unchanged, so that row does not see the end.")


def _tanh(x, W_up, b_up, W_down, b_down):
    """A feed-forward with GPT-2's GELU."""
    up = x @ W_up + b_up
    return 0.5 * up * (1 + np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3))) @ W_down + b_down


def _encoder(
    mask=lambda T: None, positions=True, last_norm=True, blocks=None, scale=None, norms=True, out=True,
    residual=True, forward=feed_forward, second="norm_feedforward", one_head=False, turned=False,
):  # fmt: skip
    """A wrong answer: one choice changed."""

    def wrong(ids, weights, n_heads):
        table, T = weights["token_embedding.weight"], len(ids)
        x = table[ids] + (weights["encoder.positions.weight"][:T] if positions else 0)
        n_layers = len({name.split(".")[2] for name in weights if name.startswith("encoder.blocks.")})
        for i in range(min(n_layers, blocks or n_layers)):
            own = f"encoder.blocks.{i}."
            w = {name.removeprefix(own): value for name, value in weights.items()}
            normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"]) if norms else x
            heads = 1 if one_head else n_heads
            q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], heads) for name in "qkv")
            q, k = (k, q) if turned else (q, k)
            with np.errstate(all="ignore"):
                mixed, _ = scaled_dot_product_attention(q, k, v, mask=mask(T), scale=scale and scale(q))
            mixed = merge_heads(mixed) @ (w["attention.W_o.weight"] if out else np.eye(x.shape[-1]))
            x = residual * x + mixed
            normed = layer_norm(x, w[f"{second}.weight"], w[f"{second}.bias"]) if norms else x
            up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
            moved = forward(normed, *up, w["feedforward.W_down.weight"], w["feedforward.W_down.bias"])
            x = residual * x + moved
        if last_norm:
            x = layer_norm(x, weights["encoder.norm.weight"], weights["encoder.norm.bias"])
        return x @ table.T

    return wrong


reading.mistake("still causal", _encoder(lambda T: np.tri(T, dtype=bool)))
reading.mistake("looks ahead alone", _encoder(lambda T: np.tri(T, dtype=bool).T))
reading.mistake("not at itself", _encoder(lambda T: ~np.eye(T, dtype=bool) if T > 1 else None))
reading.mistake("no positions", _encoder(positions=False))
reading.mistake("no last norm", _encoder(last_norm=False))
reading.mistake("first block alone", _encoder(blocks=1))
reading.mistake("no root", _encoder(scale=lambda q: 1.0))
reading.mistake("root of D", _encoder(scale=lambda q: (q.shape[-1] * q.shape[-3]) ** -0.5))
reading.mistake("one head", _encoder(one_head=True))
reading.mistake("keys ask", _encoder(turned=True))
reading.mistake("no W_o", _encoder(out=False))
reading.mistake("no residual", _encoder(residual=False))
reading.mistake("first norm twice", _encoder(second="norm_attention"))
reading.mistake("tanh", _encoder(forward=_tanh))
reading.mistake("no norms", _encoder(norms=False))
