"""The table of mistakes that a loaded model may have, for `engine` to try.

A change of code names a function of `scratch`, an expression or a statement in it, and what stands there by mistake, as
in the gallery of mistakes (`bugs`), which has those that chapter 14 collects. A change to what a model does not have
changes nothing, so every row is tried on every model.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from glassformer.config import ModelConfig
from glassformer.scratch import softmax

from ..measures.formula import BASES
from ..measures.texts import log_softmax
from .engine import Change, of_the_gallery

GALLERY = (
    "no-scale", "mask-one-ahead", "mask-transposed", "mask-after-softmax", "softmax-axis", "heads-not-swapped",
    "positions-late", "rope-layout", "rope-on-values", "residual-dropped", "post-norm", "tied-reshaped",
)  # fmt: skip
EPSILONS = (1e-6, 1e-8, 1e-12, 1e-3, 1e-30)

BLOCK, STACK = "scratch.block.Block.forward", "scratch.model.Stack.forward"
HEADS = "scratch.multi_head.MultiHeadAttention.forward"
KEYS = "scratch.multi_head.MultiHeadAttention._keys_and_values"
SCORES = "scratch.attention.scaled_dot_product_attention"
SPLIT = "scratch.attention.split_heads"
NETWORK, ROTATE = "scratch.feedforward.FeedForward.forward", "scratch.rotary.rotate"
LAYERNORM, RMSNORM = "scratch.norm.LayerNorm.forward", "scratch.norm.RMSNorm.forward"
MEAN, PRODUCT = "scratch.norm._mean", "scratch.norm._mean_product"
ROPE = "scratch.rotary.RotaryPositions"

# What stands there. Of a line that is replaced by several, the lines are separated as Python separates statements.
ATTENDS, FEEDS = "x = x + self.attention(...)", "x = x + self.feedforward(...)"
NORM_1, NORM_2 = "self.norm_attention(x, saved)", "self.norm_feedforward(x, saved)"
HIDES = "np.copyto(scores, -np.inf, where=~causal_mask(*scores.shape[-2:]))"
TURN_Q, TURN_K = "q = self.position_encoding.rotate(...)", "k = self.position_encoding.rotate(...)"
FIRST, SECOND = "turned[..., first] = a * cos - b * sin", "turned[..., second] = a * sin + b * cos"
FIRST_PLUS, SECOND_MINUS = "turned[..., first] = a * cos + b * sin", "turned[..., second] = b * cos - a * sin"
TURN_FIRST = f"cos, sin = c[..., first], s[..., first]; {FIRST}"
TURN_SECOND = f"cos, sin = c[..., second], s[..., second]; {SECOND}"
INVERSE, ALONG = "1 / np.sqrt(_mean_square(...) + self.eps)", "x.sum(axis=-1, keepdims=True) / x.shape[-1]"
PRODUCTS, EMBEDS = "np.vecdot(a, b)[..., None] / a.shape[-1]", "self.positions.embed(x, position_ids, saved)"
UNBIASED = "self.d_model / (self.d_model - 1)"

NORMS = (  # (the mistake, what is instead of the inverse of the root)
    ("eps-outside", "1 / (np.sqrt(_mean_square(...)) + self.eps)"),
    ("sigma-unbiased", f"1 / np.sqrt(_mean_square(...) * {UNBIASED} + self.eps)"),
    ("sigma-unbiased", f"1 / (np.sqrt(_mean_square(...) * {UNBIASED}) + self.eps)"),  # as torch.std() + ε
    ("norm-of-sum", "1 / np.sqrt(_mean_square(...) * self.d_model + self.eps)"),
    ("norm-root", "np.sqrt(_mean_square(...) + self.eps)"),
    ("norm-root", "1 / (_mean_square(...) + self.eps) ** 2"),
    ("norm-root", "1 / (_mean_square(...) + self.eps)"),
)
ACTIVATIONS = {
    "ReLU": "np.maximum(x, 0)", "SiLU": "x * sigmoid(x)", "GELU": "gelu(x)",
    "GELU's approximation by tanh": "gelu_tanh(x)", "a sigmoid": "sigmoid(x)", "tanh": "np.tanh(x)",
    "x · sigmoid(1.702 x)": "x * sigmoid(1.702 * x)",
}  # fmt: skip
CODE = (  # (the mistake, which of its forms, what each function has, what it has instead)
    ("no-activation", "", (NETWORK, "self.activate(...)", "+(...)")),
    # How a block adds to the stream
    ("residual-from-x", "", (BLOCK, ATTENDS, f"first = x; {ATTENDS}"),
     (BLOCK, FEEDS, FEEDS.replace("x + ", "first + "))),
    ("residual-of-norm", "", (BLOCK, ATTENDS, f"x = {NORM_1}; x = x + self.attention(x, **given, saved=saved)"),
     (BLOCK, FEEDS, f"x = {NORM_2}; x = x + self.feedforward(x, saved)")),
    ("residual-dropped", "Only attention replaces it.", (BLOCK, ATTENDS, ATTENDS.replace("x + ", ""))),
    ("residual-dropped", "Only the feed-forward network replaces it.", (BLOCK, FEEDS, FEEDS.replace("x + ", ""))),
    ("norm-skipped", "It is attention.", (BLOCK, NORM_1, "x")),
    ("norm-skipped", "It is the feed-forward network.", (BLOCK, NORM_2, "x")),
    ("no-last-norm", "", (STACK, "x = self.norm(x, saved)", "x = +x")),
    # Positions
    ("rotation-backwards", "", (ROTATE, FIRST, FIRST_PLUS), (ROTATE, SECOND, SECOND_MINUS)),
    ("rotation-backwards", "The minus sign seems to be missing.", (ROTATE, FIRST, FIRST_PLUS)),
    ("rotation-backwards", "Both halves seem to have a minus sign.", (ROTATE, SECOND, SECOND_MINUS)),
    ("rotation-mixed", "Your angles are those of neighbours, and what is rotated are halves.",
     (ROTATE, FIRST, f"c, s = np.repeat(cos, 2, -1), np.repeat(sin, 2, -1); {TURN_FIRST}"),
     (ROTATE, SECOND, TURN_SECOND)),
    ("rotation-mixed", "Your angles are those of halves, and what is rotated are neighbours.",
     (f"{ROPE}._turned", "self.layout", "'interleaved'"),
     (ROTATE, FIRST, f"c, s = np.tile(cos, 2), np.tile(sin, 2); {TURN_FIRST}"), (ROTATE, SECOND, TURN_SECOND)),
    ("other-base", "Your angles seem to be position · base^(−2(i − 1)/K).",
     (f"{ROPE}._angles", "stretch(...)", "self.base ** (2 / self.d_head) * stretch(...)")),
    ("rotation-of-one", "In yours, only the queries seem to be rotated.", (KEYS, TURN_K, "k = +k")),
    ("rotation-of-one", "In yours, only the keys seem to be rotated.", (HEADS, TURN_Q, "q = +q")),
    ("positions-fixed", "", (STACK, EMBEDS, EMBEDS.replace("position_ids", "0 * position_ids"))),
    # Attention
    ("unmasked", "", (HEADS, "self.causal", "False")),
    ("mask-of-zeros", "", (SCORES, HIDES, HIDES.replace("-np.inf", "0"))),
    ("scores-lost", "", (SCORES, "softmax(scores)", "softmax(np.where(np.isinf(scores), scores, 0.0))")),
    ("heads-split", "", (SPLIT, "x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)",
     "x.reshape(*B, n_heads, T, D // n_heads)")),
)  # fmt: skip


def suspects(c: ModelConfig, T: int, names: Mapping[str, np.ndarray]) -> Iterator[Change]:
    """Yields the mistakes that may be in a model of this configuration, for a text of T ids; the likeliest first."""
    yield from _settings(c, T)
    yield from map(of_the_gallery, GALLERY)
    in_norms = []
    for name, axes in (("norm-of-all", (-2, -1)), ("norm-of-all", -2), ("norm-of-batch", ())):
        mean = f"mean(axis={axes}, keepdims=True)"
        in_norms.append((name, ((MEAN, ALONG, f"x.{mean}"), (PRODUCT, PRODUCTS, f"(a * b).{mean}"))))
    in_norms += [(name, ((LAYERNORM, INVERSE, wrong), (RMSNORM, INVERSE, wrong))) for name, wrong in NORMS]
    for name, edits in in_norms:
        yield Change(name, edits=edits)
        yield Change(name, "This happens in the norms of the blocks.", edits, in_blocks=True)
    for name, formula in ACTIVATIONS.items():
        mistake = "other-gelu" if (c.feedforward, formula) == ("gelu", "gelu_tanh(x)") else "other-activation"
        activates = (NETWORK, "self.activate(...)", f"(lambda x: {formula})(...)")
        yield Change(mistake, f"Your activation seems to be {name}.", (activates,))
    for mistake, detail, *changes in CODE:
        yield Change(mistake, detail, tuple(changes))
    n, last = c.n_layers, (c.n_layers - 1,)
    orders = [("one-block", f"Only the first {k} of {n} seem to run.", tuple(range(k))) for k in range(1, n)]
    orders += [("block-repeated", "", (0,) * n), ("block-repeated", "", last * n), ("not-chained", "", last)]
    for mistake, detail, order in orders:
        runs = f"[(i, self.blocks[i]) for i in {order}]"
        yield Change(mistake, detail, ((STACK, "enumerate(self.blocks)", runs),))
    yield from _weights(c, names)
    for name, function in (("softmax", softmax), ("logarithm of the softmax", log_softmax)):
        yield Change("load-probabilities", f"What comes back is the {name} of the logits.", result=function)


def _settings(c: ModelConfig, T: int) -> Iterator[Change]:
    """Yields mistakes that are another configuration's right way."""
    K, D, usual, rms = c.d_head, c.d_model, c.d_head**-0.5, c.norm == "rmsnorm"
    bases = {f"Your base seems to be {base:,.0f}.": base for base in BASES}
    bases |= {
        "Your angles seem to be position · base^(−i/K).": c.rope_base**0.5,
        "Your angles seem to be position · base^(−2i/D).": c.rope_base ** (K / D),
    }
    scales = {
        "1/K": 1 / K, "1/√D": D**-0.5, "1/√H": c.n_heads**-0.5, "√K": K**0.5, "1/√K": usual, "1/D": 1 / D,
        "1/√T": T**-0.5, "2/√K": 2 * usual, "1/(2√K)": usual / 2,
    }  # fmt: skip
    heads = [n for n in range(2, D) if D % n == 0 and n != c.n_heads and not c.qk_norm]
    other_norm = "layernorm" if rms else "rmsnorm"
    rows: list[tuple[str, str, dict[str, Any]]] = [
        *(("other-eps", f"Your norms seem to add ε = {eps:.3g}.", {"norm_eps": eps}) for eps in EPSILONS),
        *(("other-base", said, {"rope_base": base}) for said, base in bases.items()),
        ("positions-left-out" if c.positions == "learned" else "no-rotation", "", {"positions": "none"}),
        ("loaded-scale" if np.isclose(c.attention_scale, usual) else "usual-scale", "", {"attention_scale": usual}),
        *(("loaded-scale", f"Your scores seem to be multiplied by {said}.", {"attention_scale": scale})
          for said, scale in scales.items()),
        ("one-head", "", {"n_heads": 1, "n_kv_heads": 1, "qk_norm": False}),
        *(("other-heads", f"Your model seems to have {n} heads instead of {c.n_heads}.",
           {"n_heads": n, "n_kv_heads": n}) for n in heads),
        ("no-qk-norm", "", {"qk_norm": False}),
        ("no-embedding-norm", "", {"embedding_norm": False}),
        ("head-of-embedding", "", {"head": "tied"}),
        (f"{other_norm}-for-{c.norm}", "", {"norm": other_norm, "qk_norm": c.qk_norm}),
    ]  # fmt: skip
    yield from (Change(mistake, detail, config=config) for mistake, detail, config in rows)


def _weights(c: ModelConfig, names: Mapping[str, np.ndarray]) -> Iterator[Change]:
    """Yields mistakes that give a right model other weights."""
    Weight = Callable[[str, np.ndarray, Mapping[str, np.ndarray]], np.ndarray]

    def of(ends: str | tuple[str, ...], change: Callable[[np.ndarray], np.ndarray], part: str = "") -> Weight:
        return lambda name, w, weights: change(w) if part in name and name.endswith(ends) else w

    def exchanged(a: str, b: str) -> Weight:
        return lambda name, w, weights: weights[name.replace(a, "?").replace(b, a).replace("?", b)]

    for letters in ("q k v o", "q k v", "q k v o up gate down", "o"):
        ends = tuple(f"W_{letter}.weight" for letter in letters.split())
        for turned in (lambda w: w.T.reshape(w.shape), lambda w: w.reshape(w.shape[::-1]).T):
            yield Change("not-transposed", weights=of(ends, turned))
    for a, b in (("W_q", "W_k"), ("W_k", "W_v"), ("W_q", "W_v"), ("W_v", "W_o"), ("W_gate", "W_up")):
        yield Change("exchanged", f"It seems to be `{a}` and `{b}`.", weights=exchanged(a, b))
    its = "norm_attention", "norm_feedforward"
    yield Change("exchanged", f"It seems to be `{its[0]}` and `{its[1]}`.", weights=exchanged(*its))
    yield Change("bias-left-out", "All of them were.", weights=of("bias", np.zeros_like))
    yield Change("bias-left-out", "Those of the norms were.", weights=of("bias", np.zeros_like, "norm"))
    yield Change("no-feedforward", weights=of(("W_down.weight", "W_down.bias"), np.zeros_like))
    yield Change("norm-gain", weights=of("weight", np.ones_like, "norm"))
    yield Change("norm-gain", "Yours multiply by 1 + gain.", weights=of("weight", lambda w: w + 1, "norm"))
    for kind in dict.fromkeys(re.sub(r".*blocks\.\d+", "", name) for name in names):  # as it begins
        gain = "norm" in kind and kind.endswith("weight")
        mistake = "bias-left-out" if kind.endswith("bias") else "norm-gain" if gain else "not-loaded"
        said = f"Your model runs as if `{kind}` were {'1' if gain else '0'} everywhere."
        yield Change(mistake, said, weights=of(kind, np.ones_like if gain else np.zeros_like))
    for said, times in (("√D", c.d_model**0.5), ("1/√D", c.d_model**-0.5)):
        said = f"In your model, the token vectors seem to be multiplied by {said}."
        scaled = of("token_embedding.weight", lambda w, times=times: times * w)
        yield Change("embedding-scaled", said, weights=scaled)
