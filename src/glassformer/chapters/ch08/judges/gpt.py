"""Judges "A complete GPT" (chapter 08): a whole GPT of GPT-2's kind, from its ids to its logits.

Axes: T positions, V vocabulary.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch05.judges.norms import layer_norm_by_hand
from glassformer.chapters.ch07.judges.block import block
from glassformer.chapters.ch07.judges.by_hand import pre_norm_by_hand
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import softmax
from glassformer.scratch.feedforward import gelu_tanh
from glassformer.shapes import Float, Integer


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


def gpt_weights(V: int, D: int, n_layers: int, context: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns a GPT's weights under the package's names, none at a value that would hide its absence."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (V, D),
        "decoder.positions.weight": (context, D),
    }
    for i in range(n_layers):
        at = f"decoder.blocks.{i}."
        shapes |= {
            f"{at}{norm}.{end}": (D,) for norm in ("norm_attention", "norm_feedforward") for end in ENDS
        }
        shapes |= {f"{at}attention.W_{name}.weight": (D, D) for name in "qkvo"}
        shapes |= {
            f"{at}feedforward.W_up.weight": (D, 4 * D),
            f"{at}feedforward.W_up.bias": (4 * D,),
            f"{at}feedforward.W_down.weight": (4 * D, D),
            f"{at}feedforward.W_down.bias": (D,),
        }
    shapes |= {f"decoder.norm.{end}": (D,) for end in ENDS}
    drawn = {name: rng.normal(size=shape) * 0.5 for name, shape in shapes.items()}
    drawn = {name: w + 1 if "norm" in name and name.endswith("weight") else w for name, w in drawn.items()}
    return {name: drawn[name] for name in rng.permutation(list(drawn)).tolist()}


ENDS = ("weight", "bias")


def gpt_by_hand(ids: Any, weights: Weights, n_heads: int) -> np.ndarray:
    """Returns the logits of a GPT, a number at a time, with the blocks of chapter 07."""
    table = weights["token_embedding.weight"]
    x = np.array([table[one] + weights["decoder.positions.weight"][t] for t, one in enumerate(ids)])
    i = 0
    while own := weights_of_block(weights, i):
        x, i = pre_norm_by_hand(x, own, n_heads), i + 1
    x = layer_norm_by_hand(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return np.array([[math.fsum(row * one) for one in table] for row in x])


@cache
def _by_hand_on(
    T: int, V: int, D: int, n_layers: int, n_heads: int, seed: int
) -> tuple[Any, Any, np.ndarray]:
    """Returns ids, weights and their logits: computed when the first answer is judged."""
    ids = np.random.default_rng(seed).integers(V, size=T)
    weights = gpt_weights(V, D, n_layers, seed=seed)
    return ids, weights, gpt_by_hand(ids, weights, n_heads)


def many(n: int, thing: str) -> str:
    """Returns a number with its noun: "1 head", "2 heads"."""
    return f"{n} {thing}{'s' * (n != 1)}"


def _whole_case(title: str, T: int, V: int, D: int, n_layers: int, n_heads: int, seed: int = 0) -> None:
    what = f"`gpt` for {T} ids, V = {V}, D = {D}, {many(n_layers, 'block')} and {many(n_heads, 'head')},"

    @whole.check(title)
    def _(gpt):
        ids, weights, want = _by_hand_on(T, V, D, n_layers, n_heads, seed)
        expect(gpt(ids, weights, n_heads), want, what, axes="T V")


def _without_blocks() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns a model without blocks, and ids, worked out by hand."""
    weights = {
        "token_embedding.weight": np.array([[1.0, 1.0], [3.0, -1.0], [0.0, 2.0]]),
        "decoder.positions.weight": np.array([[1.0, -3.0], [1.0, 5.0]]),
        "decoder.norm.weight": np.array([1.0, 2.0]),
        "decoder.norm.bias": np.array([0.0, 0.5]),
    }
    return np.array([0, 1]), weights


@whole.check("no blocks: look up, add the position, apply the norm, compare with every row")
def _(gpt):
    # Sums (2, −2) and (4, 4): their deviations from the mean are (2, −2), of variance 4, and (0, 0)
    ids, weights = _without_blocks()
    up = 2 / math.sqrt(4 + 1e-5)
    first, second = (up, 0.5 - 2 * up), (0.0, 0.5)
    want = [[a + b, 3 * a - b, 2 * b] for a, b in (first, second)]
    expect(gpt(ids, weights, 1), want, "`gpt` for two ids, without a block,", axes="T V")


_whole_case("one block of one head", T=4, V=7, D=6, n_layers=1, n_heads=1)
_whole_case("three blocks of two heads", T=5, V=9, D=4, n_layers=3, n_heads=2, seed=1)
_whole_case("a text as long as the context, and V equal to D", T=8, V=6, D=6, n_layers=2, n_heads=3, seed=2)
_whole_case("eleven blocks, in their order", T=3, V=5, D=2, n_layers=11, n_heads=1, seed=3)


@whole.check("changing a token changes no logit before it")
def _(gpt):
    ids, weights, want = _by_hand_on(5, 9, 4, 3, 2, 1)
    other = ids.copy()
    other[-1] = (other[-1] + 1) % 9
    expect(
        np.asarray(gpt(other, weights, 2))[:4],
        want[:4],
        "the first four rows, after changing the fifth token,",
    )


def weights_of_block(weights: Weights, i: int) -> dict[str, np.ndarray]:
    """Returns the weights of block i under their names within the block."""
    start = f"decoder.blocks.{i}."
    return {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}


def _built(
    into=lambda ids, w: w["token_embedding.weight"][ids] + w["decoder.positions.weight"][: len(ids)],
    order=lambda n: range(n),
    last=lambda x, w: layer_norm(x, w["decoder.norm.weight"], w["decoder.norm.bias"]),
    out=lambda x, w: x @ w["token_embedding.weight"].T,
    step=lambda x, first, own, n_heads: block(x, own, n_heads),
):
    """Returns a wrong answer that changes one of the four steps, or what is done with each block."""

    def wrong(ids, weights, n_heads):
        x = first = into(ids, weights)
        for i in order(sum(name.endswith("W_q.weight") for name in weights)):
            x = step(x, first, weights_of_block(weights, i), n_heads)
        return out(last(x, weights), weights)

    return wrong


def _softmaxed(x, w):
    return softmax(x @ w["token_embedding.weight"].T)


whole.mistake("no final norm", _built(last=lambda x, w: x))
whole.mistake("no positions", _built(into=lambda ids, w: w["token_embedding.weight"][ids]))
whole.mistake(
    "positions by id",
    _built(
        into=lambda ids, w: (
            w["token_embedding.weight"][ids]
            + w["decoder.positions.weight"][ids % len(w["decoder.positions.weight"])]
        )
    ),
)
whole.mistake("wrong way round", _built(out=lambda x, w: x @ w["token_embedding.weight"]))
whole.mistake("softmax", _built(out=_softmaxed))
whole.mistake(
    "reshaped",
    _built(out=lambda x, w: x @ w["token_embedding.weight"].reshape(x.shape[-1], -1)),
)
whole.mistake("added once more", _built(step=lambda x, first, own, n_heads: x + block(x, own, n_heads)))
whole.mistake("first stream again", _built(step=lambda x, first, own, n_heads: block(first, own, n_heads)))
whole.mistake("heads ignored", _built(step=lambda x, first, own, n_heads: block(x, own, 1)))


def _tanh_block(x, own, n_heads):
    """A block with the GELU of GPT-2, whose feed-forward is written out, since `block` has the exact one."""
    silent = own | {f"feedforward.W_down.{end}": 0 * own[f"feedforward.W_down.{end}"] for end in ENDS}
    x = block(x, silent, n_heads)
    normed = layer_norm(x, own["norm_feedforward.weight"], own["norm_feedforward.bias"])
    wide = gelu_tanh(normed @ own["feedforward.W_up.weight"] + own["feedforward.W_up.bias"])
    return x + wide @ own["feedforward.W_down.weight"] + own["feedforward.W_down.bias"]


whole.mistake("tanh", _built(step=lambda x, first, own, n_heads: _tanh_block(x, own, n_heads)))


@whole.mistake("order of the names")
def _(ids, weights, n_heads):
    met = list(dict.fromkeys(name.split(".")[2] for name in weights if name.startswith("decoder.blocks.")))
    return _built(order=lambda n: met)(ids, weights, n_heads)


whole.mistake("one block", _built(order=lambda n: range(min(n, 1))))
whole.mistake("last block missing", _built(order=lambda n: range(n - 1)))
whole.mistake("first block again", _built(order=lambda n: [0] * n))
whole.mistake("backwards", _built(order=lambda n: reversed(range(n))))
whole.mistake("sorted as text", _built(order=lambda n: sorted(range(n), key=str)))
whole.mistake(
    "gain forgotten", _built(last=lambda x, w: layer_norm(x, np.ones(x.shape[-1]), np.zeros(x.shape[-1])))
)
whole.mistake("norm too early", _built(
    into=lambda ids, w: layer_norm(
        w["token_embedding.weight"][ids] + w["decoder.positions.weight"][: len(ids)],
        w["decoder.norm.weight"], w["decoder.norm.bias"],
    ),
    last=lambda x, w: x,
))  # fmt: skip
whole.mistake("last position", lambda ids, weights, n_heads: gpt(ids, weights, n_heads)[-1])
