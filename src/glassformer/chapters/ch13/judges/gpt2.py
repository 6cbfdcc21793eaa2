"""Judges "GPT-2 to 1e-5" (chapter 13): GPT-2's logits, from weights under the names of its files.

Axes: T positions, V vocabulary.
"""

import itertools
from functools import cache
from typing import Any

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch05.judges.norms import layer_norm_by_hand
from glassformer.chapters.ch11.judges.small_gpt import small_model
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.scratch.feedforward import gelu, gelu_tanh
from glassformer.shapes import Float, Integer

from .rename import rename


def gpt2(ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T V"]:
    """Returns the logits of a GPT-2 whose weights have the names of its files."""

    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def norm(x, name):
        return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    T, table = len(ids), weights["wte.weight"]
    x = table[ids] + weights["wpe.weight"][:T]
    for i in range(sum(name.endswith("ln_1.weight") for name in weights)):
        at = f"h.{i}"
        q, k, v = np.split(linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3, axis=-1)
        heads = (split_heads(one, n_heads) for one in (q, k, v))
        mixed, _ = scaled_dot_product_attention(*heads, mask=causal_mask(T, T))
        x = x + linear(merge_heads(mixed), f"{at}.attn.c_proj")
        x = x + linear(gelu_tanh(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")), f"{at}.mlp.c_proj")
    return norm(x, "ln_f") @ table.T


whole = exercise("real.gpt2", gpt2, axes="T V")


@cache
def _model_and_weights(V: int, D: int, n_layers: int, n_heads: int) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns a GPT-2 of the package, and its weights in any order, under the names of its files."""
    sizes = {"vocab_size": V, "d_model": D, "n_layers": n_layers, "n_heads": n_heads, "d_ff": 4 * D}
    model = small_model(context_length=12, **sizes)
    ours = model.named_parameters()
    for table in ("token_embedding.weight", "decoder.positions.weight"):
        ours[table] *= 0.2  # so small a stream that ε counts
    parts = ("ln_1", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    parts = ["ln_f", *(f"h.{i}.{part}" for i in range(n_layers) for part in parts)]
    names = ["wte.weight", "wpe.weight", *(f"{part}.{end}" for part in parts for end in ("weight", "bias"))]
    theirs = {name: ours[rename(name)] for name in names}
    for at, end in itertools.product(range(n_layers), ("weight", "bias")):
        three = [ours[f"decoder.blocks.{at}.attention.W_{one}.{end}"] for one in "qkv"]
        theirs[f"h.{at}.attn.c_attn.{end}"] = np.concatenate(three, axis=-1)
    order = np.random.default_rng(V).permutation(sorted(theirs)).tolist()
    return model, {name: theirs[name] for name in order}


@whole.check("no block: two tables, a norm, and the table again")
def _(learner):
    weights = {name: w for name, w in _model_and_weights(11, 6, 1, 2)[1].items() if name[0] != "h"}
    ids = np.array([3, 10, 0, 3, 7])
    x = weights["wte.weight"][ids] + weights["wpe.weight"][:5]
    normed = layer_norm_by_hand(x, weights["ln_f.weight"], weights["ln_f.bias"])
    expect(learner(ids, weights, 2), normed @ weights["wte.weight"].T, "gpt2 without blocks", axes="T V")


def _judged(title: str, V: int, D: int, n_layers: int, n_heads: int, T: int, what: str) -> None:
    """The next check: a model of those sizes."""

    @whole.check(title)
    def _(learner):
        model, weights = _model_and_weights(V, D, n_layers, n_heads)
        ids = np.random.default_rng(T).integers(0, V, T)
        expect(learner(ids, weights, n_heads), model(ids), what, axes="T V")


_judged("one block, one head, one position", 11, 6, 1, 1, 1, "gpt2 of one id")
_judged("one head, five positions", 11, 6, 1, 1, 5, "gpt2 with one head")
_judged("three heads", 13, 12, 1, 3, 7, "gpt2 with three heads")
_judged("twelve blocks: h.10 does not come after h.1", 17, 8, 12, 2, 9, "gpt2 with twelve blocks")

whole.slip("exact GELU", gelu_tanh=gelu)
