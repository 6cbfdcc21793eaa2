"""Judges "The book's model, from your own parts" (chapter 08).

The model that comes with the book, from its weights.

Axes: T positions, V vocabulary.
"""

import math
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.chapters.ch04.judges.rotary import rotary
from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch05.judges.rms_norm import rms_norm
from glassformer.chapters.ch06.judges.swiglu import swiglu
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.shapes import Float, Integer

from .gpt import many, weights_of_block


def shakespeare(
    ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int, scale: float
) -> Float[np.ndarray, "T V"]:
    """Returns the logits of a GPT like the book's: RMSNorm, also on queries and keys, RoPE, SwiGLU, an untied head."""
    x = rms_norm(weights["token_embedding.weight"][ids], weights["decoder.embedding_norm.weight"])
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)
    for i in range(n_layers):
        start = f"decoder.blocks.{i}."
        w = {name.removeprefix(start): one for name, one in weights.items() if name.startswith(start)}
        normed = rms_norm(x, w["norm_attention.weight"])
        q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
        q = rotary(rms_norm(q, w["attention.norm_q.weight"]))
        k = rotary(rms_norm(k, w["attention.norm_k.weight"]))
        q = q * (scale * np.sqrt(q.shape[-1]))  # attention divides by this root
        mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x), len(x)))
        x = x + merge_heads(mixed) @ w["attention.W_o.weight"]
        normed = rms_norm(x, w["norm_feedforward.weight"])
        gate, up, down = (w[f"feedforward.W_{name}.weight"] for name in ("gate", "up", "down"))
        x = x + swiglu(normed, gate, up, down)
    return rms_norm(x, weights["decoder.norm.weight"]) @ weights["unembedding.weight"]


real = exercise(
    "gpt.shakespeare",
    shakespeare,
    axes="T V",
    loads=("shakespeare",),
)

_SCALE = 0.4243  # the shipped model's


def _modern(V: int, D: int, F: int, n_layers: int, n_heads: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns the weights of a small model of the same kind, with gains that are not 1."""
    K = D // n_heads
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (V, D),
        "decoder.embedding_norm.weight": (D,),
    }
    for i in range(n_layers):
        at = f"decoder.blocks.{i}."
        shapes |= {f"{at}norm_attention.weight": (D,)}
        shapes |= {f"{at}attention.W_{name}.weight": (D, D) for name in "qkvo"}
        shapes |= {f"{at}attention.norm_{name}.weight": (K,) for name in "qk"}
        shapes |= {f"{at}norm_feedforward.weight": (D,), f"{at}feedforward.W_up.weight": (D, F)}
        shapes |= {f"{at}feedforward.W_gate.weight": (D, F), f"{at}feedforward.W_down.weight": (F, D)}
    shapes |= {"decoder.norm.weight": (D,), "unembedding.weight": (D, V)}
    rng = np.random.default_rng(seed)
    drawn = {name: rng.normal(size=shape) * 0.6 for name, shape in shapes.items()}
    return {name: w + 1 if "norm" in name else w for name, w in drawn.items()}


def _by_the_page(ids: Any, weights: Weights, n_heads: int, scale: float) -> np.ndarray:
    """Returns what the one page computes with these weights."""
    from glassformer.onepage import GPT

    page = object.__new__(GPT)
    page.config, page.w = {"n_heads": n_heads, "attention_scale": scale}, {}
    for name, w in weights.items():
        part, _, last = name.removesuffix(".weight").rpartition(".")
        page.w.setdefault(part, {})[last] = w
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)
    return page(ids, [[] for _ in range(n_layers)])


@cache
def _shipped() -> dict[str, np.ndarray]:
    """Returns the weights of the book's model from its file, in double precision."""
    from glassformer.onepage import GPT

    folder = resources.files("glassformer") / "assets" / "models" / "shakespeare"
    parts = GPT(Path(str(folder))).w.items()
    return {
        f"{part}.{name}.weight".removeprefix("."): w.astype(np.float64)
        for part, own in parts
        for name, w in own.items()
    }


@cache
def _page_on(
    T: int, V: int, D: int, F: int, n_layers: int, n_heads: int, scale: float
) -> tuple[Any, Any, Any]:
    ids, weights = np.random.default_rng(D).integers(V, size=T), _modern(V, D, F, n_layers, n_heads, seed=D)
    return ids, weights, _by_the_page(ids, weights, n_heads, scale)


def _real_case(
    title: str, T: int, V: int, D: int, F: int, n_layers: int, *, n_heads: int, scale: float
) -> None:
    sizes = f"D = {D}, {many(n_layers, 'block')}, {many(n_heads, 'head')}, scale {scale}"
    what = f"shakespeare of {many(T, 'id')}, {sizes},"

    @real.check(title)
    def _(shakespeare):
        ids, weights, want = _page_on(T, V, D, F, n_layers, n_heads, scale)
        expect(shakespeare(ids, weights, n_heads, scale), want, what, axes="T V")


_real_case("one token and no block: norm, norm again, head", 1, 5, 4, 6, 0, n_heads=1, scale=0.5)
_real_case("one block, one token: no other position to see", 1, 5, 6, 7, 1, n_heads=1, scale=0.5)
_real_case("one block of two heads, a scale that is not 1/√K", 6, 7, 8, 5, 1, n_heads=2, scale=0.9)
_real_case("three blocks", 5, 6, 12, 9, 3, n_heads=3, scale=0.4243)


@real.check("the shipped model itself, on its first line")
def _(shakespeare):
    weights = _shipped()
    line = np.array([13, 1, 46, 53, 56, 57, 43, 2, 1, 39, 1, 46, 53, 56, 57, 43, 2])  # A horse! a horse!
    want = _by_the_page(line, weights, 4, _SCALE)
    expect(shakespeare(line, weights, 4, _SCALE), want, "the shipped model's logits", axes="T V")


def _varied(
    embedding_norm=True,
    qk=lambda x, gain: rms_norm(x, gain),
    turn=rotary,
    scaled=lambda q, scale: scale * math.sqrt(q.shape[-1]),
    mask=causal_mask,
    turned_first=False,
    feed=swiglu,
    final=True,
    values=lambda v: v,
    out=lambda x, weights: x @ weights["unembedding.weight"],
    norm=rms_norm,
    asks_a_norm=True,
    add=(1, 1),
    swapped=False,
    whole=lambda x: x,
):
    """Returns a wrong answer that changes one choice."""

    def wrong(ids, weights, n_heads, scale):
        x = weights["token_embedding.weight"][ids]
        if embedding_norm:
            x = norm(x, weights["decoder.embedding_norm.weight"])
        for i in range(sum(name.endswith("norm_attention.weight") for name in weights)):
            w = weights_of_block(weights, i)
            normed = norm(x, w["norm_attention.weight"]) if asks_a_norm else x
            q, k, v = (normed @ w[f"attention.W_{name}.weight"] for name in "qkv")
            q, k, v = (split_heads(one, n_heads) for one in (whole(q), whole(k), v))
            gains = [w[f"attention.norm_{name}.weight"] for name in ("kq" if swapped else "qk")]
            q, k = (
                qk(turn(one), g) if turned_first else turn(qk(one, g))
                for one, g in zip((q, k), gains, strict=True)
            )
            seen = None if mask is None else mask(len(x))
            mixed, _ = scaled_dot_product_attention(q * scaled(q, scale), k, values(v), mask=seen)
            x = add[0] * x + merge_heads(mixed) @ w["attention.W_o.weight"]
            normed = norm(x, w["norm_feedforward.weight"])
            gate, up, down = (w[f"feedforward.W_{name}.weight"] for name in ("gate", "up", "down"))
            x = add[1] * x + feed(normed, gate, up, down)
        if final:
            x = norm(x, weights["decoder.norm.weight"])
        return out(x, weights)

    return wrong


real.mistake("no embedding norm", _varied(embedding_norm=False))
real.mistake("no final norm", _varied(final=False))
real.mistake("tied", _varied(out=lambda x, weights: x @ weights["token_embedding.weight"].T))
real.mistake("no QK-norm", _varied(qk=lambda x, gain: x))
real.mistake("QK gains forgotten", _varied(qk=lambda x, gain: rms_norm(x, np.ones(x.shape[-1]))))
real.mistake("turned first", _varied(turned_first=True))
real.mistake("no rotation", _varied(turn=lambda x: x))
real.mistake("values turned", _varied(values=rotary))
real.mistake("scale and root", _varied(scaled=lambda q, scale: scale))
real.mistake("root alone", _varied(scaled=lambda q, scale: 1.0))
real.mistake("scale twice", _varied(scaled=lambda q, scale: scale * scale * math.sqrt(q.shape[-1])))
real.mistake("no mask", _varied(mask=None))
real.mistake("gate and up", _varied(feed=lambda x, gate, up, down: swiglu(x, up, gate, down)))
real.mistake("layer norm", _varied(norm=lambda x, gain: layer_norm(x, gain, np.zeros(len(gain)))))
real.mistake("attention not added", _varied(add=(0, 1)))
real.mistake("feed-forward not added", _varied(add=(1, 0)))
real.mistake("attention reads the stream", _varied(asks_a_norm=False))
real.mistake("gains swapped", _varied(swapped=True))
real.mistake("turned whole", _varied(whole=rotary, turn=lambda x: x))
real.mistake("mask inverted", _varied(mask=lambda T: ~causal_mask(T)))
