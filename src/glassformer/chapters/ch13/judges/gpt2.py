"""Judges "GPT-2 to 1e-5" (chapter 13): GPT-2's logits, from weights under the names of its files.

Axes: T positions, V vocabulary.
"""

import math

import numpy as np

from glassformer.chapters.ch03.judges.by_hand import attended
from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch05.judges.norms import layer_norm_by_hand
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.scratch.feedforward import gelu, gelu_tanh
from glassformer.shapes import Float, Integer


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
        mixed, _ = scaled_dot_product_attention(
            *(split_heads(one, n_heads) for one in (q, k, v)), mask=causal_mask(T, T)
        )
        x = x + linear(merge_heads(mixed), f"{at}.attn.c_proj")
        x = x + linear(gelu_tanh(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")), f"{at}.mlp.c_proj")
    return norm(x, "ln_f") @ table.T


whole = exercise("real.gpt2", gpt2, axes="T V")


def _weights(V: int, D: int, n_layers: int, context: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights under the names of GPT-2's files. The stream is small, so that ε counts."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"wte": (V, D), "wpe": (context, D)}
    for i in range(n_layers):
        shapes |= {
            f"h.{i}.attn.c_attn": (D, 3 * D), f"h.{i}.attn.c_proj": (D, D),
            f"h.{i}.mlp.c_fc": (D, 4 * D), f"h.{i}.mlp.c_proj": (4 * D, D),
        }  # fmt: skip
    made = {f"{name}.weight": rng.normal(size=shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}
    made["wte.weight"] *= 0.03
    made["wpe.weight"] *= 0.02
    for name, shape in list(shapes.items())[2:]:
        made[f"{name}.bias"] = rng.normal(size=shape[1]) * 0.3
    for name in [f"h.{i}.ln_{j}" for i in range(n_layers) for j in (1, 2)] + ["ln_f"]:
        made[f"{name}.weight"] = 1 + 0.2 * rng.normal(size=D)
        made[f"{name}.bias"] = 0.2 * rng.normal(size=D)
    for i in range(n_layers):
        made[f"h.{i}.attn.c_proj.weight"] *= 0.1
        made[f"h.{i}.attn.c_proj.bias"] *= 0.1
        made[f"h.{i}.attn.c_attn.weight"] *= 1.5
    made["wte.weight"] = made["wte.weight"] + rng.normal(size=(V, 1)) * 0.01
    return {name: made[name] for name in rng.permutation(sorted(made)).tolist()}


def _by_hand(ids: np.ndarray, weights: Weights, n_heads: int) -> np.ndarray:
    """Returns GPT-2's logits, head by head and GELU by GELU."""

    def norm(x, name):
        return layer_norm_by_hand(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def conv(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def bent(x):
        return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2

    see = np.tri(len(ids), dtype=bool)
    x = np.array([weights["wte.weight"][one] + weights["wpe.weight"][t] for t, one in enumerate(ids)])
    for i in range(sum(name.endswith("ln_1.weight") for name in weights)):
        at = f"h.{i}"
        q, k, v = (
            np.split(one, n_heads, axis=1)
            for one in np.split(conv(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3, axis=1)
        )
        heads = [attended(*one, see)[0] for one in zip(q, k, v, strict=True)]
        x = x + conv(np.hstack(heads), f"{at}.attn.c_proj")
        inner = np.vectorize(bent, otypes=[float])(conv(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"))
        x = x + conv(inner, f"{at}.mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def _judged(title: str, V: int, D: int, n_layers: int, n_heads: int, T: int, seed: int, what: str) -> None:
    """The next check: a model of those sizes, a number at a time."""

    @whole.check(title)
    def _(learner):
        weights = _weights(V, D, n_layers, seed=seed)
        ids = np.random.default_rng(seed).integers(0, V, T)
        expect(learner(ids, weights, n_heads), _by_hand(ids, weights, n_heads), what, axes="T V")


_judged("no block: two tables, a norm, and the table again", 11, 6, 0, 2, 5, 1, "gpt2 without blocks")
_judged("one block, one head, one position", 11, 6, 1, 1, 1, 2, "gpt2 of one id")
_judged("one head, five positions", 11, 6, 1, 1, 5, 3, "gpt2 with one head")
_judged("three heads", 13, 12, 1, 3, 7, 4, "gpt2 with three heads")
_judged("twelve blocks: h.10 does not come after h.1", 17, 8, 12, 2, 9, 5, "gpt2 with twelve blocks")


def _gpt2(bend=gelu_tanh, order=lambda q, k, v: (q, k, v), eps=1e-5, mask=True, last=True, positions=True,
          cut=split_heads, join=merge_heads, bias=lambda name: True, blocks=lambda n, weights: range(n),
          apart=lambda x: np.split(x, 3, axis=-1), kept=True, norms=("ln_1", "ln_2"), scale=None):  # fmt: skip
    def wrong(ids, weights, n_heads):
        T, table = len(ids), weights["wte.weight"]

        def linear(x, name):
            return x @ weights[f"{name}.weight"] + (weights[f"{name}.bias"] if bias(name) else 0)

        def norm(x, name):
            return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"], eps=eps)

        x = table[ids] + (weights["wpe.weight"][:T] if positions else 0)
        for i in blocks(sum(name.endswith("ln_1.weight") for name in weights), weights):
            normed = norm(x, f"h.{i}.{norms[0]}") if norms[0] else x
            three = order(*apart(linear(normed, f"h.{i}.attn.c_attn")))
            q, k, v = (cut(one, n_heads) for one in three)
            if scale:
                q = q * scale(q.shape[-1])
            mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(T, T) if mask else None)
            x = linear(join(mixed), f"h.{i}.attn.c_proj") + (x if kept else 0)
            normed = norm(x, f"h.{i}.{norms[1]}") if norms[1] else x
            x = x + linear(bend(linear(normed, f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
        return (norm(x, "ln_f") if last else x) @ table.T

    return wrong


def _in_file_order(n, weights):
    return dict.fromkeys(int(name.split(".")[1]) for name in weights if name.startswith("h."))


def _thirds_of_heads(x, n_heads):
    """Heads first, of 3K numbers each, and the thirds of these: x is the whole of c_attn, three times."""
    which, x = x
    return np.split(split_heads(x, n_heads), 3, axis=-1)[which]


def _stacked(x, n_heads):
    return x.reshape(n_heads, len(x), -1)


whole.mistake("exact GELU", _gpt2(bend=gelu))
whole.mistake("ReLU", _gpt2(bend=lambda x: np.maximum(x, 0)))
whole.mistake("sigmoid", _gpt2(bend=lambda x: x / (1 + np.exp(-1.702 * x))))
whole.mistake("queries and keys swapped", _gpt2(order=lambda q, k, v: (k, q, v)))
whole.mistake("values first", _gpt2(order=lambda q, k, v: (v, q, k)))
whole.mistake("every third", _gpt2(apart=lambda x: [x[..., i::3] for i in range(3)]))
whole.mistake("ε", _gpt2(eps=1e-6))
whole.mistake("ε", _gpt2(eps=1e-12))
whole.mistake("no mask", _gpt2(mask=False))
whole.mistake("no final norm", _gpt2(last=False))
whole.mistake("no positions", _gpt2(positions=False))
whole.mistake("heads ignored", _gpt2(cut=lambda x, n_heads: split_heads(x, 1)))
whole.mistake("biases of attention", _gpt2(bias=lambda name: "c_attn" not in name))
whole.mistake("bias of c_proj", _gpt2(bias=lambda name: "attn.c_proj" not in name))
whole.mistake("sorted as text", _gpt2(blocks=lambda n, weights: sorted(range(n), key=str)))
whole.mistake("ten blocks", _gpt2(blocks=lambda n, weights: range(min(n, 10))))
whole.mistake("order of the file", _gpt2(blocks=_in_file_order))
whole.mistake("no biases", _gpt2(bias=lambda name: False))
whole.mistake("nothing kept", _gpt2(kept=False))
whole.mistake("ln_1 twice", _gpt2(norms=("ln_1", "ln_1")))
whole.mistake("no ln_1", _gpt2(norms=(None, "ln_2")))
whole.mistake("no ln_2", _gpt2(norms=("ln_1", None)))
whole.mistake("scaled twice", _gpt2(scale=lambda K: K**-0.5))
whole.mistake("heads before thirds", _gpt2(apart=lambda x: [(i, x) for i in range(3)], cut=_thirds_of_heads))
whole.mistake("heads by reshape", _gpt2(cut=_stacked))
whole.mistake("heads by reshape", _gpt2(cut=_stacked, join=lambda x: x.reshape(x.shape[1], -1)))


@whole.mistake("one matrix turned")
def _(ids, weights, n_heads):
    turned = {name: w.T if name.endswith("attn.c_proj.weight") else w for name, w in weights.items()}
    return gpt2(ids, turned, n_heads)
