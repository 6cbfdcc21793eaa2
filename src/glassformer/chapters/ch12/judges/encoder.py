"""Judges "An encoder, by removing the mask" (chapter 12).

A stack of blocks in which every position sees all others.

Axes: T positions, V vocabulary.
"""

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch06.judges.feed_forward import feed_forward
from glassformer.chapters.ch11.judges.small_gpt import small_model
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import merge_heads, softmax, split_heads
from glassformer.scratch.feedforward import gelu_tanh
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


reading = exercise("families.encoder", encoder, axes="T V")


def _encoded(T: int, n_layers: int) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Returns ids, the weights of an encoder of the package, and its logits."""
    ids = np.random.default_rng(T).integers(7, size=T)
    model = small_model(
        family="encoder", vocab_size=7, context_length=9, d_model=8, n_layers=n_layers, n_heads=2, d_ff=12,
        attention_bias="none", feedforward="gelu",
    )  # fmt: skip
    return ids, dict(model.named_parameters()), model(ids)


for _title, _T, _n in (
    ("one block, one token: there is nothing else to see", 1, 1),
    ("one block, five tokens: the first sees the last", 5, 1),
    ("two blocks", 6, 2),
    ("as long as the table of positions", 9, 2),
):
    _ids, _weights, _logits = _encoded(_T, _n)
    reading.case(_title, _ids, _weights, 2, want=_logits)


@reading.check("the last token changes every row")
def _(learner):
    ids, weights, _ = _encoded(6, 2)
    other = np.append(ids[:-1], (ids[-1] + 1) % 7)
    one, two = (as_numbers(learner(some, weights, 2), "encoder(ids, …)") for some in (ids, other))
    still = np.flatnonzero((abs(one - two) < 1e-9).all(axis=-1))
    if len(still):
        raise Wrong(f"another last token leaves row {still[0]} unchanged, so that row does not see the end.")


def _tanh(x, W_up, b_up, W_down, b_down):
    """A feed-forward with GPT-2's GELU."""
    return gelu_tanh(x @ W_up + b_up) @ W_down + b_down


reading.slip("tanh", feed_forward=_tanh)
