"""The table of mistakes that a loaded model may have, for `engine` to try.

A change of code names a function of `scratch`, an expression or a statement in it, and what stands there by mistake, as
in the gallery of mistakes (`bugs`), which has those that chapter 14 collects. A change to what a model does not have
changes nothing, so every row is tried on every model.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import Any

import numpy as np

from glassformer.config import ModelConfig

from ..measures.texts import log_softmax, softmax
from .engine import Change, of_the_gallery

GALLERY = (
    "no-scale", "mask-one-ahead", "mask-transposed", "mask-after-softmax", "softmax-axis", "heads-not-swapped",
    "positions-late", "rope-layout", "rope-on-values", "residual-dropped", "post-norm", "tied-reshaped",
)  # fmt: skip
EPSILONS = (1e-6, 1e-8, 1e-12, 1e-3, 1e-30)
BASES = (10_000.0, 500_000.0, 1_000_000.0, 1_000.0, 100.0)
BLOCKS = 3  # so many at most are tried in all orders

BLOCK, STACK = "scratch.block.Block.forward", "scratch.model.Stack.forward"
HEADS = "scratch.multi_head.MultiHeadAttention.forward"
SCORES = "scratch.attention.scaled_dot_product_attention"
SPLIT, MERGE = "scratch.attention.split_heads", "scratch.attention.merge_heads"
NETWORK, ROTATE = "scratch.feedforward.FeedForward.forward", "scratch.rotary.rotate"
LAYERNORM, RMSNORM = "scratch.norm.LayerNorm.forward", "scratch.norm.RMSNorm.forward"
MEAN, PRODUCT = "scratch.norm._mean", "scratch.norm._mean_product"
ROPE = "scratch.rotary.RotaryPositions"

# What stands there. Of a line that is replaced by several, the lines are separated as Python separates statements.
ATTENDS, FEEDS = "x = x + attend(...)", "x = x + self.feedforward(...)"
NORM_1, NORM_2 = "self.norm_attention(x, saved)", "self.norm_feedforward(x, saved)"
HIDES = "np.copyto(scores, -np.inf, where=~causal_mask(*scores.shape[-2:]))"
TURN_Q, TURN_K = "q = self.position_encoding.rotate(...)", "k = self.position_encoding.rotate(...)"
SPLITS, MERGES = (
    "x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)",
    "x.swapaxes(-3, -2).reshape(*B, T, H * K)",
)
FIRST_PLUS, SECOND_MINUS = "turned[..., first] = a * cos + b * sin", "turned[..., second] = b * cos - a * sin"
DEALS = "np.moveaxis(x.reshape(*B, T, D // n_heads, n_heads), -1, -3)"
LIES = "x.reshape(*B, n_heads, T, D // n_heads)"
FIRST, SECOND = "turned[..., first] = a * cos - b * sin", "turned[..., second] = a * sin + b * cos"
USES_FIRST, USES_SECOND = (
    "cos, sin = c[..., first], s[..., first]",
    "cos, sin = c[..., second], s[..., second]",
)
INVERSE, ALONG = "1 / np.sqrt(_mean_square(...) + self.eps)", "x.sum(axis=-1, keepdims=True) / x.shape[-1]"
PRODUCTS, EMBEDS = "np.vecdot(a, b)[..., None] / a.shape[-1]", "self.positions.embed(x, position_ids, saved)"
OF_HEADS, UNBIASED = "heads if norm is None else norm(heads, saved)", "self.d_model / (self.d_model - 1)"

# (the mistake, which of its forms, what each function has, what it has instead)
NORMS = (
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
CODE = (
    ("no-activation", "", (NETWORK, "self.activate(...)", "+(...)")),
    ("gate-added", "", (NETWORK, "opened * up", "opened + up")),
    # How a block adds to the stream
    ("residual-from-x", "", (BLOCK, ATTENDS, f"first = x; {ATTENDS}"),
     (BLOCK, FEEDS, FEEDS.replace("x + ", "first + "))),
    ("parallel-block", "", (BLOCK, ATTENDS, f"first = x; {ATTENDS}"), (BLOCK, NORM_2, NORM_2.replace("x,", "first,"))),
    ("residual-of-norm", "", (BLOCK, ATTENDS, f"x = {NORM_1}; x = x + attend(x)"),
     (BLOCK, FEEDS, f"x = {NORM_2}; x = x + self.feedforward(x, saved)")),
    ("residual-of-norm", "This happens to attention.", (BLOCK, ATTENDS, f"x = {NORM_1}; x = x + attend(x)")),
    ("residual-of-norm", "This happens to the feed-forward network.",
     (BLOCK, FEEDS, f"x = {NORM_2}; x = x + self.feedforward(x, saved)")),
    ("residual-dropped", "Only attention replaces it.", (BLOCK, ATTENDS, ATTENDS.replace("x + ", ""))),
    ("residual-dropped", "Only the feed-forward network replaces it.", (BLOCK, FEEDS, FEEDS.replace("x + ", ""))),
    ("norm-skipped", "It is attention.", (BLOCK, NORM_1, "x")),
    ("norm-skipped", "It is the feed-forward network.", (BLOCK, NORM_2, "x")),
    ("norm-twice", "", (STACK, "self.norm(x, saved)", "self.norm(self.norm(x, saved), saved)")),
    ("no-last-norm", "", (STACK, "x = self.norm(x, saved)", "x = +x")),
    # Positions
    ("rotation-backwards", "", (ROTATE, FIRST, FIRST_PLUS), (ROTATE, SECOND, SECOND_MINUS)),
    ("rotation-backwards", "The minus sign seems to be missing.", (ROTATE, FIRST, FIRST_PLUS)),
    ("rotation-backwards", "Both halves seem to have a minus sign.", (ROTATE, SECOND, SECOND_MINUS)),
    ("rotation-order", "", (ROTATE, "np.cos(angles)", "np.cos(angles[..., ::-1])"),
     (ROTATE, "np.sin(angles)", "np.sin(angles[..., ::-1])")),
    ("rotation-mixed", "Your angles are those of neighbours, and what is rotated are halves.",
     (ROTATE, FIRST, f"c, s = np.repeat(cos, 2, -1), np.repeat(sin, 2, -1); {USES_FIRST}; {FIRST}"),
     (ROTATE, SECOND, f"{USES_SECOND}; {SECOND}")),
    ("rotation-mixed", "Your angles are those of halves, and what is rotated are neighbours.",
     (f"{ROPE}.rotate", "self.layout", "'interleaved'"),
     (ROTATE, FIRST, f"c, s = np.tile(cos, 2), np.tile(sin, 2); {USES_FIRST}; {FIRST}"),
     (ROTATE, SECOND, f"{USES_SECOND}; {SECOND}")),
    ("other-base", "Your angles seem to be position · base^(−2(i − 1)/K).",
     (f"{ROPE}._angles", "stretch(...)", "self.base ** (2 / self.d_head) * stretch(...)")),
    ("rotation-of-one", "In yours, only the queries seem to be rotated.", (HEADS, TURN_K, "k = +k")),
    ("rotation-of-one", "In yours, only the keys seem to be rotated.", (HEADS, TURN_Q, "q = +q")),
    ("values-for-keys-rotated", "", (HEADS, TURN_K, "v = self.position_encoding.rotate(v, position_ids, saved)")),
    ("positions-fixed", "", (STACK, EMBEDS, EMBEDS.replace("position_ids", "0 * position_ids"))),
    # Attention
    ("unmasked", "", (HEADS, "self.causal", "False")),
    ("mask-of-zeros", "", (SCORES, HIDES, HIDES.replace("-np.inf", "0"))),
    ("scores-lost", "", (SCORES, "softmax(scores)", "softmax(np.where(np.isinf(scores), scores, 0.0))")),
    ("softmax-plus-one", "", ("scratch.attention.softmax", "np.maximum(weights.sum(...), 1)", "weights.sum(...) + 1")),
    ("interleaved-heads", "", (SPLIT, SPLITS, DEALS)),
    ("interleaved-heads", "", (SPLIT, SPLITS, DEALS), (MERGE, MERGES, "np.moveaxis(x, -3, -1).reshape(*B, T, H * K)")),
    ("heads-split", "", (SPLIT, SPLITS, LIES)),
    ("heads-split", "", (SPLIT, SPLITS, LIES), (MERGE, MERGES, "x.reshape(*B, T, H * K)")),
    ("qk-norm-late", "", (f"{HEADS.removesuffix('forward')}_heads", OF_HEADS, "heads"),
     (HEADS, TURN_K, f"{TURN_K}; q, k = self.norm_q(q), self.norm_k(k)")),
)  # fmt: skip
# Endings of the names of matrices that are used the wrong way round
TURNED = ("q k v o", "q k v", "q k v o up gate down", "q", "k", "v", "o", "up", "gate", "down")


def suspects(c: ModelConfig, T: int, names: Mapping[str, np.ndarray]) -> Iterator[Change]:
    """Yields the mistakes that may be in a model of this configuration, for a text of T ids; the likeliest first."""
    yield from _settings(c, T)
    yield from map(of_the_gallery, GALLERY)
    changes = []
    for name, axes in (("norm-of-all", (-2, -1)), ("norm-of-all", -2), ("norm-of-batch", ())):
        mean = f"mean(axis={axes}, keepdims=True)"
        changes.append(
            Change(name, edits=((MEAN, ALONG, f"x.{mean}"), (PRODUCT, PRODUCTS, f"(a * b).{mean}")))
        )
    for name, wrong in NORMS:
        changes.append(Change(name, edits=((LAYERNORM, INVERSE, wrong), (RMSNORM, INVERSE, wrong))))
    for change in changes:
        yield change
        yield Change(change.mistake, "This happens in the norms of the blocks.", change.edits, in_blocks=True)
    for name, formula in ACTIVATIONS.items():
        mistake = "other-gelu" if (c.feedforward, formula) == ("gelu", "gelu_tanh(x)") else "other-activation"
        edits = ((NETWORK, "self.activate(...)", f"(lambda x: {formula})(...)"),)
        yield Change(mistake, f"Your activation seems to be {name}.", edits)
    for mistake, detail, *edits in CODE:
        yield Change(mistake, detail, tuple(edits))
    for mistake, detail, order in _orders(c.n_layers):
        yield Change(
            mistake, detail, ((STACK, "enumerate(self.blocks)", f"[(i, self.blocks[i]) for i in {order}]"),)
        )
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
    rows: list[tuple[str, str, dict[str, Any]]] = [
        *(("other-eps", f"Your norms seem to add ε = {eps:.3g}.", {"norm_eps": eps}) for eps in EPSILONS),
        *(("other-base", said, {"rope_base": base}) for said, base in bases.items()),
        ("positions-left-out" if c.positions == "learned" else "no-rotation", "", {"positions": "none"}),
        ("loaded-scale" if np.isclose(c.attention_scale, usual) else "usual-scale", "", {"attention_scale": usual}),
        *(("loaded-scale", f"Your scores seem to be multiplied by {said}.", {"attention_scale": scale})
          for said, scale in scales.items()),
        ("one-head", "", {"n_heads": 1, "n_kv_heads": 1, "qk_norm": False}),
        *(("other-heads", f"Your model seems to have {n} heads instead of {c.n_heads}.",
           {"n_heads": n, "n_kv_heads": n} | more)
          for n in heads for more in ({}, {"attention_scale": c.attention_scale})),
        ("no-qk-norm", "", {"qk_norm": False}),
        ("no-embedding-norm", "", {"embedding_norm": False}),
        ("head-of-embedding", "", {"head": "tied"}),
        ("layernorm-for-rmsnorm" if rms else "rmsnorm-for-layernorm", "",
         {"norm": "layernorm" if rms else "rmsnorm", "qk_norm": c.qk_norm}),
    ]  # fmt: skip
    yield from (Change(mistake, detail, config=config) for mistake, detail, config in rows)


def _orders(n: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yields orders in which n blocks run by mistake: some of them, one again and again, or exchanged."""
    for count in range(1, n):
        yield "one-block", f"Only the first {count} of {n} seem to run.", tuple(range(count))
    yield "block-repeated", "", (0,) * n
    yield "block-repeated", "", (n - 1,) * n
    yield "not-chained", "", (n - 1,)
    right = tuple(range(n))
    orders = list(permutations(right)) if n <= BLOCKS else []
    orders += [one for i in right for one in (right[:i] + right[i + 1 :], right[: i + 1] + right[i:])]
    for order in orders:
        if order != tuple(range(len(order))):
            yield "blocks-order", f"Yours seem to run in the order {', '.join(map(str, order))}.", order


def _weights(c: ModelConfig, names: Mapping[str, np.ndarray]) -> Iterator[Change]:
    """Yields mistakes that give a right model other weights."""
    Weight = Callable[[str, np.ndarray, Mapping[str, np.ndarray]], np.ndarray]

    def of(ends: str | tuple[str, ...], change: Callable[[np.ndarray], np.ndarray], part: str = "") -> Weight:
        return lambda name, w, own: change(w) if part in name and name.endswith(ends) else w

    def swapped(one: str, other: str) -> Weight:
        return lambda name, w, own: own[name.replace(one, "?").replace(other, one).replace("?", other)]

    for letters in TURNED:
        ends = tuple(f"W_{one}.weight" for one in letters.split())
        only = f"In your model, only `{ends[0]}` is used like this." if len(ends) == 1 else ""
        yield Change("not-transposed", only, weights=of(ends, lambda w: w.T.reshape(w.shape)))
        yield Change("not-transposed", only, weights=of(ends, lambda w: w.reshape(w.shape[::-1]).T))
    for one, other in (("q", "k"), ("k", "v"), ("q", "v"), ("v", "o")):
        yield Change(f"{one}{other}-exchanged", weights=swapped(f"W_{one}", f"W_{other}"))
    yield Change("gate-up", weights=swapped("W_gate", "W_up"))
    yield Change("norms-exchanged", weights=swapped("norm_attention", "norm_feedforward"))
    yield Change(
        "norms-exchanged", weights=lambda n, w, own: own[n.replace("norm_attention", "norm_feedforward")]
    )
    yield Change(
        "norms-exchanged", weights=lambda n, w, own: own[n.replace("norm_feedforward", "norm_attention")]
    )
    yield Change("bias-left-out", "All of them were.", weights=of("bias", np.zeros_like))
    yield Change("bias-left-out", "Those of the norms were.", weights=of("bias", np.zeros_like, "norm"))
    yield Change("no-feedforward", weights=of(("W_down.weight", "W_down.bias"), np.zeros_like))
    yield Change("norm-gain", weights=of("weight", np.ones_like, "norm"))
    yield Change("gain-plus-one", weights=of("weight", lambda w: w + 1, "norm"))
    for kind in dict.fromkeys(re.sub(r".*blocks\.\d+", "", name) for name in names):  # as it begins
        gain = "norm" in kind and kind.endswith("weight")
        mistake = "bias-left-out" if kind.endswith("bias") else "norm-gain" if gain else "not-loaded"
        first: Any = np.ones_like if gain else np.zeros_like
        said = f"Your model runs as if `{kind}` were {'1' if gain else '0'} everywhere."
        yield Change(mistake, said, weights=of(kind, first))
    for table in ("token_embedding.weight", "decoder.positions.weight"):
        for by in (1, -1):
            said = f"In your model, the rows of `{table}` are shifted by one."
            yield Change("row-shifted", said, weights=of(table, lambda w, by=by: np.roll(w, by, axis=0)))
    for said, times in (("√D", c.d_model**0.5), ("1/√D", c.d_model**-0.5)):
        said = f"In your model, the token vectors seem to be multiplied by {said}."
        yield Change(
            "embedding-scaled", said, weights=of("token_embedding.weight", lambda w, times=times: times * w)
        )
    yield Change("low-precision", weights=of("", lambda w: w.astype(np.float16).astype(w.dtype)))
