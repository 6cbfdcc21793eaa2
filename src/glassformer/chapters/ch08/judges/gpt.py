"""Judges "A complete GPT" (chapter 08): a whole GPT of GPT-2's kind, from its ids to its logits.

Axes: T positions, V vocabulary.
"""

import math
from typing import Any

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch05.judges.norms import layer_norm_by_hand
from glassformer.chapters.ch06.judges.feed_forward import wide
from glassformer.chapters.ch07.judges.block import block
from glassformer.chapters.ch07.judges.block import whole as one_block
from glassformer.chapters.ch07.judges.by_hand import pre_norm_by_hand
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import Weights
from glassformer.exercises.slip import Slip
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float, Integer

from .weights import gpt_weights, weights_of_block


def gpt(ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T V"]:
    """Returns the logits of a GPT like GPT-2, whose head is tied to the embedding."""
    table = weights["token_embedding.weight"]
    x = table[ids] + weights["decoder.positions.weight"][: len(ids)]
    n_layers = len({name.split(".")[2] for name in weights if name.startswith("decoder.blocks.")})
    for i in range(n_layers):
        start = f"decoder.blocks.{i}."
        own = {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}
        x = block(x, own, n_heads)
    x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return x @ table.T


whole = exercise("gpt.gpt", gpt, axes="T V")


def gpt_by_hand(ids: Any, weights: Weights, n_heads: int) -> np.ndarray:
    """Returns the logits of a GPT, a number at a time, with the blocks of chapter 07."""
    table = weights["token_embedding.weight"]
    x = np.array([table[one] + weights["decoder.positions.weight"][t] for t, one in enumerate(ids)])
    i = 0
    while own := weights_of_block(weights, i):
        x, i = pre_norm_by_hand(x, own, n_heads), i + 1
    x = layer_norm_by_hand(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return np.array([[math.fsum(row * one) for one in table] for row in x])


def many(n: int, thing: str) -> str:
    """Returns a number with its noun: "1 head", "2 heads"."""
    return f"{n} {thing}{'s' * (n != 1)}"


def _drawn(T: int, V: int, D: int, n_layers: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns ids and the weights of a model."""
    return np.random.default_rng(seed).integers(V, size=T), gpt_weights(V, D, n_layers, seed=seed)


def _case(title: str, T: int, V: int, D: int, n_layers: int, n_heads: int, seed: int = 0) -> None:
    what = f"`gpt` for {T} ids, V = {V}, D = {D}, {many(n_layers, 'block')} and {many(n_heads, 'head')},"
    whole.case(title, *_drawn(T, V, D, n_layers, seed), n_heads, want=gpt_by_hand, what=what)


# Sums (2, −2) and (4, 4): their deviations from the mean are (2, −2), of variance 4, and (0, 0)
_up = 2 / math.sqrt(4 + 1e-5)
_rows = (_up, 0.5 - 2 * _up), (0.0, 0.5)
_without_blocks = {
    "token_embedding.weight": np.array([[1.0, 1.0], [3.0, -1.0], [0.0, 2.0]]),
    "decoder.positions.weight": np.array([[1.0, -3.0], [1.0, 5.0]]),
    "decoder.norm.weight": np.array([1.0, 2.0]),
    "decoder.norm.bias": np.array([0.0, 0.5]),
}
whole.case(
    "no blocks: look up, add the position, apply the norm, compare with every row",
    np.array([0, 1]), _without_blocks, 1, want=[[a + b, 3 * a - b, 2 * b] for a, b in _rows],
    what="`gpt` for two ids, without a block,",
)  # fmt: skip
_case("one block of one head", T=4, V=7, D=6, n_layers=1, n_heads=1)
_case("three blocks of two heads", T=5, V=9, D=4, n_layers=3, n_heads=2, seed=1)
_case("a text as long as the context, and V equal to D", T=8, V=6, D=6, n_layers=2, n_heads=3, seed=2)
_case("eleven blocks, in their order", T=3, V=5, D=2, n_layers=11, n_heads=1, seed=3)


@whole.check("changing a token changes no logit before it")
def _(gpt):
    ids, weights = _drawn(5, 9, 4, 3, seed=1)
    other = ids.copy()
    other[-1] = (other[-1] + 1) % 9
    what = "the first four rows, after changing the fifth token,"
    expect(np.asarray(gpt(other, weights, 2))[:4], gpt_by_hand(ids[:4], weights, 2), what)


_TANH = {"feed_forward": wide.wrong("tanh form")}
_NORM = 'x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])'
_COUNT = 'len({name.split(".")[2] for name in weights if name.startswith("decoder.blocks.")})'
_MET = 'dict.fromkeys(name.split(".")[2] for name in weights if name.startswith("decoder.blocks."))'
whole.slip("softmax", "x @ table.T", "softmax(x @ table.T)", softmax=softmax)
whole.slip("tanh", block=Slip(one_block.answer, "block", block, names=_TANH))
whole.slip("order of the names", _COUNT, _MET, "range(n_layers)", "n_layers")
whole.slip(
    "norm too early", "    n_layers =", f"    {_NORM}\n    n_layers =",
    f"    {_NORM}\n    return", "    return",
)  # fmt: skip
