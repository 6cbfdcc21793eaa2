"""Judges "The book's model, from your own parts" (chapter 08).

The model that comes with the book, from its weights.

Axes: T positions, V vocabulary.
"""

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

from .gpt import many
from .weights import modern_weights


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


real = exercise("gpt.shakespeare", shakespeare, axes="T V", loads=("shakespeare",))

_SCALE = 0.4243  # the shipped model's


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


def _case(title: str, T: int, V: int, D: int, F: int, n_layers: int, *, n_heads: int, scale: float) -> None:
    sizes = f"D = {D}, {many(n_layers, 'block')}, {many(n_heads, 'head')}, scale {scale}"
    ids, weights = (
        np.random.default_rng(D).integers(V, size=T),
        modern_weights(V, D, F, n_layers, n_heads, seed=D),
    )
    what = f"shakespeare of {many(T, 'id')}, {sizes},"
    real.case(title, ids, weights, n_heads, scale, want=_by_the_page, what=what)


_case("one token and no block: norm, norm again, head", 1, 5, 4, 6, 0, n_heads=1, scale=0.5)
_case("one block, one token: no other position to see", 1, 5, 6, 7, 1, n_heads=1, scale=0.5)
_case("one block of two heads, a scale that is not 1/√K", 6, 7, 8, 5, 1, n_heads=2, scale=0.9)
_case("three blocks", 5, 6, 12, 9, 3, n_heads=3, scale=_SCALE)


@real.check("the shipped model itself, on its first line")
def _(shakespeare):
    weights = _shipped()
    line = np.array([13, 1, 46, 53, 56, 57, 43, 2, 1, 39, 1, 46, 53, 56, 57, 43, 2])  # A horse! a horse!
    want = _by_the_page(line, weights, 4, _SCALE)
    expect(shakespeare(line, weights, 4, _SCALE), want, "the shipped model's logits", axes="T V")


def _turned_whole(x, n_heads, name):
    """Splits into heads after the rotation of queries and keys, instead of before it."""
    return split_heads(x if name == "v" else rotary(x), n_heads)


_Q, _K = 'rms_norm(q, w["attention.norm_q.weight"])', 'rms_norm(k, w["attention.norm_k.weight"])'
real.slip(
    "turned first", f"rotary({_Q})", _Q.replace("(q", "(rotary(q)"),
    f"rotary({_K})", _K.replace("(k", "(rotary(k)"),
)  # fmt: skip
real.slip("layer norm", rms_norm=lambda x, gain: layer_norm(x, gain, np.zeros(len(gain))))
real.slip("turned whole", "rotary(", "(", "n_heads) for", "n_heads, name) for", split_heads=_turned_whole)
