"""Judges the exercises of chapter 08, "A complete GPT"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from hand-worked numbers, from published counts, from PyTorch's own functions, and for the shipped
model from the one page, which shares no code with the rest. The axes: T positions, D d_model, V vocabulary, H heads.
"""
# ruff: noqa: ANN001, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.chapters.ch04.judge import rotary
from glassformer.chapters.ch05.judge import layer_norm, rms_norm
from glassformer.chapters.ch06.judge import swiglu
from glassformer.chapters.ch07.judge import block, normed, pre_norm_by_hand
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.scratch.feedforward import gelu_tanh
from glassformer.shapes import Bool, Float, Integer

Weights = Mapping[str, np.ndarray]


# 1 · The head


def unembed(x: Float[np.ndarray, "*B D"], embedding: Float[np.ndarray, "V D"]) -> Float[np.ndarray, "*B V"]:
    """A logit for each entry of the vocabulary: the dot product of the state with that entry's own vector."""
    return x @ embedding.T


head = exercise("gpt.unembed", unembed, axes="T V")


def _dots(x: Any, embedding: Any) -> list[list[float]]:
    return [[math.fsum(a * b for a, b in zip(state, row, strict=True)) for row in embedding] for state in x]


head.shape("a logit for each entry of the vocabulary", numbers(5, 4), numbers(7, 4, seed=1), want=(5, 7))
head.case(
    "the logit of an entry is the dot product with its row",
    np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 5], [0, -3, 1]]),
    want=[[1.0, 2.0, 3.0, -6.0]],
)  # fmt: skip
_x, _e = numbers(3, 4), numbers(6, 4, seed=1)
head.case("random states", _x, _e, want=_dots(_x, _e))
_x, _e = numbers(3, 4, seed=2), numbers(4, 4, seed=3)
head.case("as many entries as the width: both ways round have the right shape", _x, _e, want=_dots(_x, _e))
_x, _e = numbers(2, 3, 4, seed=4), numbers(5, 4, seed=5)
head.case("any axes in front", _x, _e, want=[_dots(one, _e) for one in _x], axes="B T V")
head.also(_x[0, 0], _e, want=_dots(_x[0, :1], _e)[0], axes="V")


def _shares(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


head.mistake("wrong way round", lambda x, E: x @ E)
head.mistake("reshaped", lambda x, E: x @ E.reshape(E.shape[::-1]))
head.mistake("softmax", lambda x, E: _shares(x @ E.T))
head.mistake("argmax", lambda x, E: (x @ E.T).argmax(axis=-1))
head.mistake("vocabulary first", lambda x, E: E @ x.T)
head.mistake("all axes", lambda x, E: (E @ x.T).T)
head.mistake("root", lambda x, E: x @ E.T / math.sqrt(E.shape[1]))
head.mistake("cosine", lambda x, E: x @ (E / np.linalg.norm(E, axis=1, keepdims=True)).T)


# 2 · The door


def check_ids(
    ids: Integer[np.ndarray, "*B T"], vocab_size: int, context_length: int
) -> Integer[np.ndarray, "*B T"]:
    """The ids as they are, if a model of that vocabulary and that context can read them."""
    T = ids.shape[-1]
    if context_length < T:
        raise ValueError(f"a text of {T} tokens is too long: the context is {context_length}")
    for some in (ids.min(), ids.max()):
        if not 0 <= some < vocab_size:
            raise ValueError(f"id {some} is not in the vocabulary: ids are 0 to {vocab_size - 1}")
    return ids


door = exercise("gpt.check_ids", check_ids, axes="T")

door.case("ids that fit come back as they are", np.array([3, 0, 2]), 5, 8, want=[3, 0, 2])
door.refuses(
    "an id above the vocabulary: ValueError, with the id", np.array([3, 17, 2]), 5, 8,
    what="the id 17 with a vocabulary of 5", names=(17,),
)  # fmt: skip
door.refuses(
    "so is the vocabulary's size itself: ids count from 0", np.array([1, 5, 0]), 5, 8,
    what="the id 5 with a vocabulary of 5", names=(5,),
)  # fmt: skip
door.case("the last id there is", np.array([4, 4, 4]), 5, 8, want=[4, 4, 4])
door.refuses(
    "a negative id: NumPy would count from the end", np.array([0, -3, 1]), 5, 8,
    what="the id -3 with a vocabulary of 5", names=(-3,),
)  # fmt: skip
door.refuses(
    "a text that is too long: ValueError, with its length and the context", np.arange(12) % 5, 5, 8,
    what="12 ids with a context of 8", names=(12, 8),
)  # fmt: skip
door.case("as long as the context", np.arange(8) % 5, 5, 8, want=np.arange(8) % 5)
door.case(
    "a batch: the positions are the last axis",
    np.arange(12).reshape(6, 2) % 5, 5, 4, want=np.arange(12).reshape(6, 2) % 5, axes="B T",
)  # fmt: skip
door.also_refuses(np.array([[0, 1], [2, 7]]), 5, 4, what="an id 7 in the second of two texts", names=(7,))
door.also_refuses(np.array([0, 1, 2, 3, 4, 5]), 5, 8, what="the id 5 at the sixth place", names=(5,))
door.also_refuses(
    np.arange(12).reshape(2, 6) % 5, 5, 4, what="two texts of 6 ids with a context of 4", names=(6, 4)
)


def _door(low=0, high=0, length=lambda ids: ids.shape[-1], over=lambda T, most: most < T):
    """A wrong answer: ids from `low` to below V + `high` pass, and texts whose length is not over."""

    def wrong(ids, vocab_size, context_length):
        T = length(ids)
        if over(T, context_length):
            raise ValueError(f"{T} tokens, but the context is {context_length}")
        for some in (ids.max(), ids.min()):
            if not (low is None or some >= low) or not (high is None or some < vocab_size + high):
                raise ValueError(f"id {some} is not in 0 … {vocab_size - 1}")
        return ids

    return wrong


door.mistake("negatives pass", _door(low=None))
door.mistake("negatives pass", _door(low=-math.inf))
door.mistake("one too many", _door(high=1))
door.mistake("one too few", _door(high=-1))
door.mistake("length at the limit", _door(over=lambda T, most: most <= T))
door.mistake("first axis", _door(length=len))
door.mistake("all of them", _door(length=np.size))


@door.mistake("first text")
def _(ids, vocab_size, context_length):
    _door()(np.atleast_2d(ids)[0], vocab_size, context_length)
    return ids


door.mistake("length forgotten", _door(over=lambda T, most: False))
door.mistake("ids forgotten", _door(low=None, high=None))
door.mistake("clipped", lambda ids, V, T: np.clip(_door(low=None, high=None)(ids, V, T), 0, V - 1))
door.mistake("wrapped", lambda ids, V, T: _door(low=None, high=None)(ids, V, T) % V)


@door.mistake("cut")
def _(ids, vocab_size, context_length):
    return _door(over=lambda T, most: False)(ids, vocab_size, context_length)[..., :context_length]


# 3 · The whole machine


def gpt(ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T V"]:
    """A GPT as GPT-2 is one: token vectors and positions, blocks, a norm, and the embedding again as the head."""
    table = weights["token_embedding.weight"]
    x = table[ids] + weights["decoder.positions.weight"][: len(ids)]
    n_layers = len({name.split(".")[2] for name in weights if name.startswith("decoder.blocks.")})
    for i in range(n_layers):
        start = f"decoder.blocks.{i}."
        own = {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}
        x = block(x, own, n_heads)
    x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return x @ table.T


whole = exercise("gpt.gpt", gpt, built_on=(block, layer_norm), axes="T V")


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
    while own := _of_block(weights, i):
        x, i = pre_norm_by_hand(x, own, n_heads), i + 1
    x = normed(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return np.array([[math.fsum(row * one) for one in table] for row in x])


@cache
def _by_hand_on(
    T: int, V: int, D: int, n_layers: int, n_heads: int, seed: int
) -> tuple[Any, Any, np.ndarray]:
    """Returns ids, weights and their logits: computed when the first answer is judged."""
    ids = np.random.default_rng(seed).integers(V, size=T)
    weights = gpt_weights(V, D, n_layers, seed=seed)
    return ids, weights, gpt_by_hand(ids, weights, n_heads)


def _many(n: int, thing: str) -> str:
    return f"{n} {thing}{'s' * (n != 1)}"


def _whole_case(title: str, T: int, V: int, D: int, n_layers: int, n_heads: int, seed: int = 0) -> None:
    what = f"gpt of {T} ids, V = {V}, D = {D}, {_many(n_layers, 'block')} and {_many(n_heads, 'head')},"

    @whole.check(title)
    def _(gpt):
        ids, weights, want = _by_hand_on(T, V, D, n_layers, n_heads, seed)
        expect(gpt(ids, weights, n_heads), want, what, axes="T V")


def _without_blocks() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A model that only looks up, adds, norms and compares; hand-worked."""
    weights = {
        "token_embedding.weight": np.array([[1.0, 1.0], [3.0, -1.0], [0.0, 2.0]]),
        "decoder.positions.weight": np.array([[1.0, -3.0], [1.0, 5.0]]),
        "decoder.norm.weight": np.array([1.0, 2.0]),
        "decoder.norm.bias": np.array([0.0, 0.5]),
    }
    return np.array([0, 1]), weights


@whole.check("no blocks at all: look up, add the position, norm, compare with every row")
def _(gpt):
    # Sums (2, −2) and (4, 4): their deviations from the mean are (2, −2), of variance 4, and (0, 0)
    ids, weights = _without_blocks()
    up = 2 / math.sqrt(4 + 1e-5)
    first, second = (up, 0.5 - 2 * up), (0.0, 0.5)
    want = [[a + b, 3 * a - b, 2 * b] for a, b in (first, second)]
    expect(gpt(ids, weights, 1), want, "gpt of two ids without a block", axes="T V")


_whole_case("one block of one head", T=4, V=7, D=6, n_layers=1, n_heads=1)
_whole_case("three blocks of two heads", T=5, V=9, D=4, n_layers=3, n_heads=2, seed=1)
_whole_case(
    "as long as the context, as many entries as the width", T=8, V=6, D=6, n_layers=2, n_heads=3, seed=2
)
_whole_case("eleven blocks, in their order", T=3, V=5, D=2, n_layers=11, n_heads=1, seed=3)


@whole.check("a later token changes no logit before it")
def _(gpt):
    ids, weights, want = _by_hand_on(5, 9, 4, 3, 2, 1)
    other = ids.copy()
    other[-1] = (other[-1] + 1) % 9
    expect(np.asarray(gpt(other, weights, 2))[:4], want[:4], "the first four rows, with another fifth token,")


def _of_block(weights: Weights, i: int) -> dict[str, np.ndarray]:
    start = f"decoder.blocks.{i}."
    return {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}


def _built(
    into=lambda ids, w: w["token_embedding.weight"][ids] + w["decoder.positions.weight"][: len(ids)],
    order=lambda n: range(n),
    last=lambda x, w: layer_norm(x, w["decoder.norm.weight"], w["decoder.norm.bias"]),
    out=lambda x, w: x @ w["token_embedding.weight"].T,
    step=lambda x, first, own, n_heads: block(x, own, n_heads),
):
    """A wrong answer: one of the four steps changed, or what is done with each block."""

    def wrong(ids, weights, n_heads):
        x = first = into(ids, weights)
        for i in order(sum(name.endswith("W_q.weight") for name in weights)):
            x = step(x, first, _of_block(weights, i), n_heads)
        return out(last(x, weights), weights)

    return wrong


def _softmaxed(x, w):
    return _shares(x @ w["token_embedding.weight"].T)


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


# 4 · How many?


def parameters(
    vocab_size: int,
    context_length: int,
    d_model: int,
    n_layers: int,
    *,
    tied: bool = True,
    attention_biases: bool = True,
) -> int:
    """Returns how many numbers a GPT of GPT-2's kind learns; its feed-forward is four times as wide as its stream."""
    V, T, D = vocab_size, context_length, d_model
    block = 12 * D * D + (13 if attention_biases else 9) * D
    return V * D + T * D + n_layers * block + 2 * D + (0 if tied else V * D)


counted = exercise("gpt.parameters", parameters)

# In the first no two slips cost the same: V = 13, T = 7, D = 6, N = 5
counted.case("a small one: 78 + 42 + 5 · 486 + 12", 13, 7, 6, 5, attention_biases=False, want=2562)
counted.case("a very small one: 16 + 256 + 456 + 8", 4, 64, 4, 2, attention_biases=False, want=736)
counted.also(4, 8, 4, 2, attention_biases=False, want=512)
counted.case("twice as wide", 4, 64, 8, 2, attention_biases=False, want=2240)
counted.case("twice as deep", 4, 64, 4, 4, attention_biases=False, want=1192)
counted.case("GPT-2 small, to the digit", 50_257, 1024, 768, 12, want=124_439_808)
counted.also(50_257, 1024, 1600, 48, want=1_557_611_200)
counted.case(
    "a head with a matrix of its own", 50_257, 1024, 768, 12, tied=False, want=124_439_808 + 38_597_376
)
counted.also(4, 64, 4, 2, tied=False, attention_biases=False, want=752)


def _miscounted(
    biases=13, bare=9, norm=2, positions=1, squares=12, head=0, untied=1, more=lambda V, T, D, N: 0
):
    """A wrong answer, one of its numbers changed."""

    def wrong(V, T, D, N, *, tied=True, attention_biases=True):
        blocks = N * (squares * D * D + (biases if attention_biases else bare) * D)
        ends = V * D + positions * T * D + norm * D + (head if tied else untied) * V * D
        return ends + blocks + more(V, T, D, N)

    return wrong


counted.mistake("no biases, no norms", _miscounted(0, 0))
counted.mistake("attention biases anyway", _miscounted(13, 13))
counted.mistake("attention biases never", _miscounted(9, 9))
counted.mistake("no final norm", _miscounted(norm=0))
counted.mistake("gain alone", _miscounted(norm=1))
counted.mistake("one norm a block", _miscounted(11, 7))
counted.mistake("norms without biases", _miscounted(11, 7, norm=1))
counted.mistake("no feed-forward biases", _miscounted(8, 4))
counted.mistake("one matrix of the feed-forward", _miscounted(squares=8))
counted.mistake("no W_o", _miscounted(12, 9, squares=11))
counted.mistake("no positions", _miscounted(positions=0))
counted.mistake("head counted twice", _miscounted(head=1))
counted.mistake("untied forgotten", _miscounted(untied=0))
counted.mistake("head bias", _miscounted(more=lambda V, T, D, N: V))
counted.mistake("no vectors", _miscounted(more=lambda V, T, D, N: -V * D))
counted.mistake("last bias forgotten", _miscounted(12, 8))
counted.mistake("inner bias forgotten", _miscounted(9, 5))
counted.mistake("two wide biases", _miscounted(16, 12))
counted.mistake("three biases of attention", _miscounted(12, 9))
counted.mistake("a last norm in each block", _miscounted(15, 11, norm=0))
counted.mistake("one block", lambda V, T, D, N, **options: parameters(V, T, D, 1, **options))


# 5 · A slip


def audit(
    printed: Integer[np.ndarray, " 4"], vocab_size: int, context_length: int, d_model: int, n_layers: int
) -> tuple[Integer[np.ndarray, " 4"], int]:
    """Returns how far each printed term is above its own formula, and what the formulas leave out of GPT-2."""
    V, T, D = vocab_size, context_length, d_model
    terms = np.array([V * D, T * D, n_layers * (12 * D * D + 9 * D), 2 * D])
    return printed - terms, n_layers * 4 * D


audited = exercise("gpt.audit", audit, parts=("slips", "missing"), axes=("", ""))

_PRINTED = np.array([38_597_376, 786_432, 85_026_816, 1_536])
_GPT2 = (50_257, 1024, 768, 12)
_small = np.array([16, 256, 456, 8])
audited.case(
    "a sum without a slip, of a model with V = 4, D = 4 and two blocks",
    _small, 4, 64, 4, 2, want=(np.zeros(4, int), 32), what="audit of 16 + 256 + 456 + 8",
)  # fmt: skip
audited.case(
    "each term beside its own formula",
    _small + np.array([0, 4, 0, -8]), 4, 64, 4, 2, want=np.array([0, 4, 0, -8]), part="slips",
    what="audit of 16 + 260 + 456 + 0",
)  # fmt: skip
audited.case(
    "the printed terms of GPT-2 small",
    _PRINTED, *_GPT2, want=np.array([0, 0, 85_026_816 - 85_017_600, 0]), part="slips", what="audit of GPT-2's terms",
)  # fmt: skip
audited.case(
    "what no term counts: four vectors of biases in every block",
    _PRINTED, *_GPT2, want=12 * (768 + 768 + 768 + 768), part="missing", what="audit of GPT-2's terms",
)  # fmt: skip


@audited.check("with both put right, the sum is what GPT-2 small has: 124,439,808")
def _(audit):
    slips, missing = audit(_PRINTED, *_GPT2)
    expect(
        int(_PRINTED.sum()) - int(np.sum(slips)) + int(missing),
        124_439_808,
        "the printed sum, less the slips, and what is missing",
    )


def _audit(blocks=9, sign=1, missing=lambda V, T, D, N: 4 * D * N, swap=False):
    """A wrong answer, one of its numbers changed."""

    def wrong(printed, V, T, D, N):
        terms = np.array([V * D, T * D, N * (12 * D * D + blocks * D), 2 * D])
        pair = sign * (printed - terms), missing(V, T, D, N)
        return pair[::-1] if swap else pair

    return wrong


audited.mistake("sign", _audit(sign=-1))
audited.mistake("with its biases", _audit(blocks=13))
audited.mistake("one block", _audit(missing=lambda V, T, D, N: 4 * D))
audited.mistake("three biases", _audit(missing=lambda V, T, D, N: 3 * D * N))
audited.mistake("all biases", _audit(missing=lambda V, T, D, N: 13 * D * N))
audited.mistake("head", _audit(missing=lambda V, T, D, N: V * D))
audited.mistake(
    "net", lambda printed, V, T, D, N: (_audit()(printed, V, T, D, N)[0], 13 * D * N - 9 * D * N - 12 * D)
)
audited.mistake("pair", _audit(swap=True))


# 6 · What tying saves


def tying_saves(vocab_size: int, context_length: int, d_model: int, n_layers: int) -> tuple[int, float]:
    """Returns how many parameters tying saves in a GPT of GPT-2's kind, and their fraction of the untied model."""
    saved = vocab_size * d_model
    return saved, saved / parameters(vocab_size, context_length, d_model, n_layers, tied=False)


saving = exercise(
    "gpt.tying_saves", tying_saves, built_on=(parameters,), parts=("saved", "share"), axes=("", "")
)

saving.case("GPT-2 small: a matrix of 50,257 × 768", 50_257, 1024, 768, 12, want=38_597_376, part="saved")
saving.case(
    "of the model as it would be without tying",
    50_257, 1024, 768, 12, want=38_597_376 / (124_439_808 + 38_597_376), part="share",
)  # fmt: skip
saving.case(
    "the widest of the family: the share shrinks",
    50_257, 1024, 1600, 48, want=(80_411_200, 80_411_200 / (1_557_611_200 + 80_411_200)),
)  # fmt: skip
saving.case(
    "characters save next to nothing: four of them, 16 of 784 parameters",
    4, 64, 4, 2, want=(16, 16 / 784),
)  # fmt: skip


def _saves(saved=lambda V, D: V * D, share=lambda saved, tied, untied: saved / untied):
    def wrong(V, T, D, N):
        tied = parameters(V, T, D, N)
        some = saved(V, D)
        return some, share(some, tied, tied + V * D)

    return wrong


saving.mistake("of the tied model", _saves(share=lambda saved, tied, untied: saved / tied))
saving.mistake("per cent", _saves(share=lambda saved, tied, untied: 100 * saved / untied))
saving.mistake("what is left", _saves(share=lambda saved, tied, untied: tied / untied))
saving.mistake("both", _saves(saved=lambda V, D: 2 * V * D))
saving.mistake("vocabulary alone", _saves(saved=lambda V, D: V))


@saving.mistake("no biases")
def _(V, T, D, N):
    return V * D, V * D / parameters(V, T, D, N, tied=False, attention_biases=False)


# 7 · One matrix or two


def is_tied(make: Callable[[], tuple[np.ndarray, np.ndarray]]) -> bool:
    """Returns whether embedding (V, D) and head (D, V) are one matrix: writes into one and looks at the other."""
    return _written(*make())


def _written(embedding: np.ndarray, head: np.ndarray) -> bool:
    embedding[...] = np.arange(embedding.size).reshape(embedding.shape)
    return head.shape == embedding.shape[::-1] and bool((head == embedding.T).all())


one = exercise("gpt.is_tied", is_tied)


def _pair(V: int, D: int, of: Callable) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def make() -> tuple[np.ndarray, np.ndarray]:
        embedding = numbers(V, D, seed=80_808) * 0.02  # no numbers that an answer writes itself
        return of(embedding)

    return make


def _of_one_store(embedding: np.ndarray) -> np.ndarray:
    """Another view of the same memory: `embedding` itself is a view of what both look at."""
    return np.frombuffer(embedding.data, embedding.dtype).reshape(embedding.shape).T


def _in_one_row(embedding: np.ndarray, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns two views of one store; only row number `row` of each is the same memory."""
    V = len(embedding)
    store = np.concatenate([embedding, embedding])
    return store[row : row + V], store[::2][:V].T


_TITLES = {
    "the embedding, turned: one matrix": (5, 3, lambda E: (E, E.T), True),
    "a matrix of its own": (5, 3, lambda E: (E, numbers(3, 5, seed=9)), False),
    "a copy: the same numbers, until one is changed": (5, 3, lambda E: (E, E.T.copy()), False),
    "the same memory the wrong way round": (4, 4, lambda E: (E, E), False),
    "the same memory in another order": (5, 3, lambda E: (E, E[::-1].T), False),
    "the same memory in its first row alone": (5, 3, lambda E: _in_one_row(E, 0), False),
    "the same memory in its last row alone": (5, 3, lambda E: _in_one_row(E, 4), False),
    "the same memory through another door": (6, 2, lambda E: (E, _of_one_store(E)), True),
}
for _title, (_V, _D, _of, _is) in _TITLES.items():
    one.case(_title, _pair(_V, _D, _of), want=_is, what=f"is_tied where the head is {_title.split(':')[0]},")


one.mistake("equal now", lambda make: (lambda E, W: E.T.shape == W.shape and bool((E.T == W).all()))(*make()))
one.mistake("says no", lambda make: _written(make()[0], make()[1]))


@one.mistake("says no")
def _(make):
    embedding, head = make()
    return np.array_equal(embedding.T + 1, head)


@one.mistake("one row")
def _(make):
    embedding, head = make()
    embedding[0] = 999.0 + np.arange(len(embedding[0]))
    return head.shape == embedding.shape[::-1] and bool((head[:, 0] == embedding[0]).all())


one.mistake("shares memory", lambda make: bool(np.shares_memory(*make())))
one.mistake("says no", lambda make: (lambda E, W: W is E.T)(*make()))
one.mistake("base", lambda make: (lambda E, W: W.base is E)(*make()))
one.mistake("shapes", lambda make: (lambda E, W: E.T.shape == W.shape)(*make()))


@one.mistake("one number")
def _(make):
    embedding, head = make()
    embedding[0, 0] = 999.0
    return bool(head[0, 0] == 999.0)


# 8 · Which logits move


def moves(
    ids: Integer[np.ndarray, " T"], token: int, vocab_size: int, *, tied: bool = True
) -> Bool[np.ndarray, "T V"]:
    """Returns which logits may change when the row of `token` in the embedding changes."""
    table = np.zeros((len(ids), vocab_size), dtype=bool)
    table[np.cumsum(ids == token) > 0] = True  # as an input: from where it first stands
    if tied:
        table[:, token] = True  # as an output: its own logit, everywhere
    return table


moved = exercise("gpt.moves", moves, axes="T V")

_T, _F = True, False
moved.case(
    "a token that the text lacks: its own logit, at every position",
    np.array([0, 2, 0]), 1, 4, want=[[_F, _T, _F, _F]] * 3,
)  # fmt: skip
moved.case(
    "a token that the text begins with: everything",
    np.array([3, 1]), 3, 4, want=[[_T] * 4] * 2,
)  # fmt: skip
moved.case(
    "before it first stands there, its own logit alone: nobody sees ahead",
    np.array([0, 0, 2, 1]), 2, 3, want=[[_F, _F, _T], [_F, _F, _T], [_T] * 3, [_T] * 3],
)  # fmt: skip
moved.case(
    "untied, the row is read and nothing else",
    np.array([0, 1, 1, 2]), 1, 3, tied=False, want=[[_F] * 3, [_T] * 3, [_T] * 3, [_T] * 3],
)  # fmt: skip
moved.case(
    "from where it first stands, and not from the last place",
    np.array([1, 0, 2, 0]), 0, 3, want=[[_T, _F, _F], [_T] * 3, [_T] * 3, [_T] * 3],
)  # fmt: skip
moved.also(np.array([0, 2, 0]), 1, 4, tied=False, want=[[_F] * 4] * 3)


def _moving(rows, column=lambda tied: tied):
    """A wrong answer: `rows` says which positions move as a whole."""

    def wrong(ids, token, V, *, tied=True):
        table = np.zeros((len(ids), V), dtype=bool)
        table[rows(ids == token)] = True
        if column(tied):
            table[:, token] = True
        return table

    return wrong


def _later(there):
    return np.cumsum(there) > 0


moved.mistake("column alone", _moving(lambda there: there & False))
moved.mistake("column alone", _moving(lambda there: there & False, lambda tied: True))
moved.mistake("sees ahead", _moving(lambda there: there | there.any()))
moved.mistake("where it stands", _moving(lambda there: there))
moved.mistake("after it", _moving(lambda there: np.cumsum(there) - there > 0))
moved.mistake("nothing", lambda ids, token, V, *, tied=True: np.zeros((len(ids), V), dtype=bool))
moved.mistake("no column", _moving(_later, lambda tied: False))
moved.mistake("column anyway", _moving(_later, lambda tied: True))


@moved.mistake("from the last")
def _(ids, token, V, *, tied=True):
    places = np.flatnonzero(ids == token)
    last = places[-1] if len(places) else len(ids)
    return _moving(lambda there: np.arange(len(there)) >= last)(ids, token, V, tied=tied)


@moved.mistake("row for column")
def _(ids, token, V, *, tied=True):
    table = moves(ids, token, V, tied=False)
    if tied and token < len(ids):
        table[token] = True
    return table


@moved.mistake("everything")
def _(ids, token, V, *, tied=True):
    return np.ones((len(ids), V), dtype=bool)


# 9 · The shipped model


def shakespeare(
    ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int, scale: float
) -> Float[np.ndarray, "T V"]:
    """The book's own kind of GPT: RMSNorm, also on queries and keys, RoPE, SwiGLU, and a head of its own."""
    x = rms_norm(weights["token_embedding.weight"][ids], weights["decoder.embedding_norm.weight"])
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)
    for i in range(n_layers):
        start = f"decoder.blocks.{i}."
        w = {name.removeprefix(start): one for name, one in weights.items() if name.startswith(start)}
        normed = rms_norm(x, w["norm_attention.weight"])
        q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
        q = rotary(rms_norm(q, w["attention.norm_q.weight"]))
        k = rotary(rms_norm(k, w["attention.norm_k.weight"]))
        q = q * (scale * math.sqrt(q.shape[-1]))  # attention divides by this root
        mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x)))
        x = x + merge_heads(mixed) @ w["attention.W_o.weight"]
        normed = rms_norm(x, w["norm_feedforward.weight"])
        gate, up, down = (w[f"feedforward.W_{name}.weight"] for name in ("gate", "up", "down"))
        x = x + swiglu(normed, gate, up, down)
    return rms_norm(x, weights["decoder.norm.weight"]) @ weights["unembedding.weight"]


real = exercise(
    "gpt.shakespeare",
    shakespeare,
    built_on=(rms_norm, rotary, split_heads, causal_mask, scaled_dot_product_attention, merge_heads, swiglu),
    axes="T V",
)

_SCALE = 0.4243  # the shipped model's


def _modern(V: int, D: int, F: int, n_layers: int, n_heads: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights of a small model of the same kind, its gains away from 1."""
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
    """The weights of the book's model, as its file has them, in double precision."""
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
    sizes = f"D = {D}, {_many(n_layers, 'block')}, {_many(n_heads, 'head')}, scale {scale}"
    what = f"shakespeare of {_many(T, 'id')}, {sizes},"

    @real.check(title)
    def _(shakespeare):
        ids, weights, want = _page_on(T, V, D, F, n_layers, n_heads, scale)
        expect(shakespeare(ids, weights, n_heads, scale), want, what, axes="T V")


_real_case("one token and no block: norm, norm again, head", 1, 5, 4, 6, 0, n_heads=1, scale=0.5)
_real_case("one block, one token: nobody to look at", 1, 5, 6, 7, 1, n_heads=1, scale=0.5)
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
    """A wrong answer: one choice changed."""

    def wrong(ids, weights, n_heads, scale):
        x = weights["token_embedding.weight"][ids]
        if embedding_norm:
            x = norm(x, weights["decoder.embedding_norm.weight"])
        for i in range(sum(name.endswith("norm_attention.weight") for name in weights)):
            w = _of_block(weights, i)
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
