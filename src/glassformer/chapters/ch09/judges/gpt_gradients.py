"""Judges "The gradient of a GPT" (chapter 09): the loss of a tied GPT, and the gradient of every weight.

Axis: T positions.
"""

from typing import Any

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch07.judges.block import block
from glassformer.chapters.ch08.judges.weights import gpt_weights, weights_of_block
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import Weights
from glassformer.shapes import Integer

from .block_backward import block_backward
from .cross_entropy import cross_entropy
from .cross_entropy_backward import cross_entropy_backward, loss_of
from .forward import complex_block, complex_norm
from .layer_norm_backward import layer_norm_backward
from .linear_backward import linear_backward
from .slopes import slopes_of


def gpt_gradients(
    ids: Integer[np.ndarray, " T"], targets: Integer[np.ndarray, " T"], weights: Weights, n_heads: int
) -> tuple[np.floating, dict[str, np.ndarray]]:
    """The loss of a tied GPT on one text, and the gradient of every weight under its name."""
    table, places = weights["token_embedding.weight"], weights["decoder.positions.weight"]
    last = ["decoder.norm.weight", "decoder.norm.bias"]
    ends: Any = [weights[name] for name in last]
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)

    def of_block(i):
        start = f"decoder.blocks.{i}."
        return {n.removeprefix(start): w for n, w in weights.items() if n.startswith(start)}

    stream = [table[ids] + places[: len(ids)]]
    for i in range(n_layers):
        stream.append(block(stream[-1], of_block(i), n_heads))
    normed = layer_norm(stream[-1], *ends)
    logits = normed @ table.T

    grads = {"decoder.positions.weight": np.zeros_like(places)}
    grad, grad_head = linear_backward(cross_entropy_backward(logits, targets), normed, table.T)
    grad, *of_last = layer_norm_backward(grad, stream[-1], *ends)
    grads |= dict(zip(last, of_last, strict=True))
    for i in reversed(range(n_layers)):
        grad, own = block_backward(grad, stream[i], of_block(i), n_heads)
        grads |= {f"decoder.blocks.{i}.{name}": g for name, g in own.items()}
    grads["decoder.positions.weight"][: len(ids)] = grad
    grads["token_embedding.weight"] = grad_head.T.copy()
    np.add.at(grads["token_embedding.weight"], ids, grad)
    return cross_entropy(logits, targets), grads


whole = exercise("back.gpt_gradients", gpt_gradients, parts=("loss", "gradients"))


def _slopes(ids, targets, weights, n_heads):
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)

    def forward(*arrays):
        w = dict(zip(weights, arrays, strict=True))
        table = w["token_embedding.weight"]
        x = table[ids] + w["decoder.positions.weight"][: len(ids)]
        for i in range(n_layers):
            x = complex_block(x, weights_of_block(w, i), n_heads)
        ends = w["decoder.norm.weight"], w["decoder.norm.bias"]
        return loss_of(targets)(complex_norm(x, *ends) @ table.T)

    found = slopes_of(forward, list(weights.values()))
    loss = forward(*(w.astype(complex) for w in weights.values())).real
    return float(loss), dict(zip(weights, found, strict=True))


for _title, _T, _V, _D, _n_layers, _n_heads in (
    ("no blocks: the two ends and the norm", 4, 7, 6, 0, 1),
    ("one block of one head", 4, 5, 4, 1, 1),
    ("two blocks of two heads, a shorter text than the context", 5, 9, 4, 2, 2),
):
    _ids, _targets = np.random.default_rng((99, 60)).integers(_V, size=(2, _T))
    _ids[-1] = _ids[0]  # a token that is read twice
    _given = _ids, _targets, gpt_weights(_V, _D, _n_layers, seed=60), _n_heads
    whole.case(_title, *_given, want=_slopes, what="gpt_gradients(…)")
