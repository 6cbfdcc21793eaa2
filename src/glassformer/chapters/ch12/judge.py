"""Judges the exercises of chapter 12, "Three families"; their prose is in exercises.toml.

For each: the reference; then its checks, in teaching order; then its classic mistakes. What is right comes from
counting cell by cell, from PyTorch's own functions, from the package's own models, and from numbers worked by hand. The
axes: B batch, T positions, S positions of a source, D d_model, H heads, V vocabulary.
"""
# ruff: noqa: ANN001, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from glassformer.chapters.ch03.judge import attended
from glassformer.chapters.ch05.judge import layer_norm
from glassformer.chapters.ch06.judge import feed_forward
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import (
    merge_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
)
from glassformer.shapes import Bool, Float, Integer
from glassformer.tasks import NO_TARGET

Weights = Mapping[str, np.ndarray]


# 1 · Cells


def cells(T: int, P: int, S: int) -> tuple[int, int, int, int]:
    """Returns how many cells a head may use: both ways, causal, with a prefix of P, and across to a source of S."""
    causal = T * (T + 1) // 2
    return T * T, causal, causal + P * (P - 1) // 2, T * S


counting = exercise("families.cells", cells, parts=("both", "causal", "prefix", "cross"))


def _counted(T: int, P: int, S: int) -> tuple[int, int, int, int]:
    """One cell after another."""
    square = [(t, s) for t in range(T) for s in range(T)]
    causal = sum(s <= t for t, s in square)
    return len(square), causal, sum(s <= t or s < P for t, s in square), len([0] * T * S)


counting.case("three tokens, on paper: 9 cells, 6 of them causal", 3, 2, 5, want=_counted(3, 2, 5))
counting.case("without a prefix it is causal", 7, 0, 4, want=_counted(7, 0, 4))
counting.also(7, 1, 4, want=_counted(7, 1, 4))
counting.case("a prefix that is the whole text: both ways", 6, 6, 9, want=_counted(6, 6, 9))
counting.case("ten tokens", 10, 4, 13, want=_counted(10, 4, 13))
counting.case("GPT-2's context", 1024, 100, 300, want=(1_048_576, 524_800, 529_750, 307_200))


def _counts(causal=None, prefix=None, cross=None):
    """A wrong answer: one of the counts changed."""

    def wrong(T, P, S):
        both, right_causal, right_prefix, right_cross = cells(T, P, S)
        return (
            both,
            causal(T) if causal else right_causal,
            prefix(T, P) if prefix else right_prefix,
            cross(T, S) if cross else right_cross,
        )

    return wrong


counting.mistake("diagonal left out", _counts(causal=lambda T: T * (T - 1) // 2))
counting.mistake("half", _counts(causal=lambda T: T * T // 2))
counting.mistake("prefix twice", _counts(prefix=lambda T, P: T * (T + 1) // 2 + P * P))
counting.mistake("its diagonal twice", _counts(prefix=lambda T, P: T * (T + 1) // 2 + P * (P + 1) // 2))
counting.mistake("prefix sees the rest", _counts(prefix=lambda T, P: P * T + sum(t + 1 for t in range(P, T))))
counting.mistake("prefix apart", _counts(prefix=lambda T, P: P * P + (T - P) * (T - P + 1) // 2))
counting.mistake("source square", _counts(cross=lambda T, S: S * S))
counting.mistake("across causal", _counts(cross=lambda T, S: sum(min(t + 1, S) for t in range(T))))


# 2 · The padding mask


def padding_mask(lengths: Integer[np.ndarray, " B"], S: int) -> Bool[np.ndarray, "B 1 1 S"]:
    """Returns True at real keys, for scores (B, H, T, S): the same for every head and query."""
    return (np.arange(S) < np.asarray(lengths)[:, None])[:, None, None, :]


padding = exercise("families.padding_mask", padding_mask, axes="B 1 1 S")

padding.shape("a text each; heads and queries come by themselves", np.array([3, 1, 4]), 5, want=(3, 1, 1, 5))
padding.case(
    "the first three of five are real", np.array([3]), 5, want=[[[[True, True, True, False, False]]]]
)
padding.case(
    "each text has its own length", np.array([1, 4, 2]), 4,
    want=np.array([[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]], bool)[:, None, None],
)  # fmt: skip


@padding.check("no query gives anything to padding, and all that it has to the rest")
def _(learner):
    lengths, scores = np.array([2, 5, 3]), numbers(3, 2, 6, 5)
    mask = as_numbers(learner(lengths, 5), "padding_mask([2, 5, 3], 5)")
    shares = softmax(np.where(mask, scores, -1e9))
    want = np.zeros_like(shares)
    for b, n in enumerate(lengths):
        want[b, ..., :n] = softmax(scores[b, ..., :n])
    expect(shares, want, "softmax of masked scores (B, H, T, S)", axes="B H T S")


def _real(lengths, S):
    return np.arange(S) < np.asarray(lengths)[:, None]


padding.mistake("on queries", lambda lengths, S: _real(lengths, S)[:, None, :, None])
padding.mistake("hides the real", lambda lengths, S: ~padding_mask(lengths, S))
padding.mistake("without axes", lambda lengths, S: _real(lengths, S))
padding.mistake("one axis", lambda lengths, S: _real(lengths, S)[:, None])
padding.mistake(
    "one too many", lambda lengths, S: (np.arange(S) <= np.asarray(lengths)[:, None])[:, None, None]
)
padding.mistake("from the left", lambda lengths, S: _real(lengths, S)[:, None, None, ::-1])
padding.mistake(
    "written out", lambda lengths, S: np.broadcast_to(padding_mask(lengths, S), (len(lengths), 1, S, S))
)
padding.mistake(
    "all as the first", lambda lengths, S: np.broadcast_to(_real(lengths[:1], S), (len(lengths), 1, 1, S))
)


# 3 · An encoder


def encoder(ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T V"]:
    """A GPT without its mask: every position sees all."""
    table = weights["token_embedding.weight"]
    x = table[ids] + weights["encoder.positions.weight"][: len(ids)]
    n_layers = len({name.split(".")[2] for name in weights if name.startswith("encoder.blocks.")})
    for i in range(n_layers):
        own = f"encoder.blocks.{i}."
        w = {name.removeprefix(own): value for name, value in weights.items() if name.startswith(own)}
        normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
        q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
        mixed, _ = scaled_dot_product_attention(q, k, v)
        x = x + merge_heads(mixed) @ w["attention.W_o.weight"]
        normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
        up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
        x = x + feed_forward(normed, *up, w["feedforward.W_down.weight"], w["feedforward.W_down.bias"])
    x = layer_norm(x, weights["encoder.norm.weight"], weights["encoder.norm.bias"])
    return x @ table.T


reading = exercise(
    "families.encoder", encoder, axes="T V",
    built_on=(layer_norm, feed_forward, split_heads, scaled_dot_product_attention, merge_heads),
)  # fmt: skip


@cache
def _model(n_layers: int) -> Any:
    """An encoder of the package, with weights that hide no mistake."""
    from glassformer import scratch
    from glassformer.published import published

    config = published("gpt2").config.replace(
        family="encoder", vocab_size=7, context_length=9, d_model=8, n_layers=n_layers, n_heads=2, d_ff=12,
        attention_bias="none", feedforward="gelu",
    )  # fmt: skip
    model = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64)
    rng = np.random.default_rng(n_layers)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.4
    return model.eval()


def _encoded(T: int, n_layers: int) -> dict[str, Any]:
    ids = np.random.default_rng(T).integers(7, size=T)
    model = _model(n_layers)
    return {"args": (ids, dict(model.named_parameters()), 2), "want": model(ids)}


for _title, _T, _n in (
    ("one block, one token: nobody else to see", 1, 1),
    ("one block, five tokens: the first sees the last", 5, 1),
    ("two blocks", 6, 2),
    ("as long as the table of positions", 9, 2),
):
    _given = _encoded(_T, _n)
    reading.case(_title, *_given["args"], want=_given["want"])


@reading.check("the last token moves every row")
def _(learner):
    ids, weights, n_heads = _encoded(6, 2)["args"]
    other = np.append(ids[:-1], (ids[-1] + 1) % 7)
    one, two = (as_numbers(learner(some, weights, n_heads), "encoder(ids, …)") for some in (ids, other))
    still = np.flatnonzero((abs(one - two) < 1e-9).all(axis=-1))
    if len(still):
        raise Wrong(f"another last token leaves row {still[0]} as it was: it does not see the end.")


def _tanh(x, W_up, b_up, W_down, b_down):
    """A feed-forward with GPT-2's GELU."""
    up = x @ W_up + b_up
    return 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3))) @ W_down + b_down


def _encoder(
    mask=lambda T: None, positions=True, last_norm=True, blocks=None, scale=None, norms=True, out=True,
    residual=True, forward=feed_forward, second="norm_feedforward", one_head=False, turned=False,
):  # fmt: skip
    """A wrong answer: one choice changed."""

    def wrong(ids, weights, n_heads):
        table, T = weights["token_embedding.weight"], len(ids)
        x = table[ids] + (weights["encoder.positions.weight"][:T] if positions else 0)
        n_layers = len({name.split(".")[2] for name in weights if name.startswith("encoder.blocks.")})
        for i in range(min(n_layers, blocks or n_layers)):
            own = f"encoder.blocks.{i}."
            w = {name.removeprefix(own): value for name, value in weights.items()}
            normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"]) if norms else x
            heads = 1 if one_head else n_heads
            q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], heads) for name in "qkv")
            q, k = (k, q) if turned else (q, k)
            with np.errstate(all="ignore"):
                mixed, _ = scaled_dot_product_attention(q, k, v, mask=mask(T), scale=scale and scale(q))
            mixed = merge_heads(mixed) @ (w["attention.W_o.weight"] if out else np.eye(x.shape[-1]))
            x = residual * x + mixed
            normed = layer_norm(x, w[f"{second}.weight"], w[f"{second}.bias"]) if norms else x
            up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
            moved = forward(normed, *up, w["feedforward.W_down.weight"], w["feedforward.W_down.bias"])
            x = residual * x + moved
        if last_norm:
            x = layer_norm(x, weights["encoder.norm.weight"], weights["encoder.norm.bias"])
        return x @ table.T

    return wrong


reading.mistake("still causal", _encoder(lambda T: np.tri(T, dtype=bool)))
reading.mistake("looks ahead alone", _encoder(lambda T: np.tri(T, dtype=bool).T))
reading.mistake("not at itself", _encoder(lambda T: ~np.eye(T, dtype=bool) if T > 1 else None))
reading.mistake("no positions", _encoder(positions=False))
reading.mistake("no last norm", _encoder(last_norm=False))
reading.mistake("first block alone", _encoder(blocks=1))
reading.mistake("no root", _encoder(scale=lambda q: 1.0))
reading.mistake("root of D", _encoder(scale=lambda q: (q.shape[-1] * q.shape[-3]) ** -0.5))
reading.mistake("one head", _encoder(one_head=True))
reading.mistake("keys ask", _encoder(turned=True))
reading.mistake("no W_o", _encoder(out=False))
reading.mistake("no residual", _encoder(residual=False))
reading.mistake("first norm twice", _encoder(second="norm_attention"))
reading.mistake("tanh", _encoder(forward=_tanh))
reading.mistake("no norms", _encoder(norms=False))


# 4 · Cover


def cover(
    ids: Integer[np.ndarray, "*B T"],
    chosen: Bool[np.ndarray, "*B T"],
    fate: Float[np.ndarray, "*B T"],
    other: Integer[np.ndarray, "*B T"],
    mask_id: int,
) -> tuple[Integer[np.ndarray, "*B T"], Integer[np.ndarray, "*B T"]]:
    """Covers chosen ids with a fate below 0.8, replaces those below 0.9 by another; every chosen id is a target."""
    changed = np.where(fate < 0.8, mask_id, np.where(fate < 0.9, other, ids))
    return np.where(chosen, changed, ids), np.where(chosen, ids, NO_TARGET)


covering = exercise("families.cover", cover, parts=("inputs", "targets"), axes=("T", "T"))

_ids, _other = np.array([5, 3, 8, 1, 6]), np.array([2, 7, 4, 9, 0])
_none, _all = np.zeros(5, bool), np.ones(5, bool)
_fate = np.array([0.10, 0.85, 0.95, 0.79, 0.50])
covering.case(
    "nobody is chosen: all as it was, and nobody is asked", _ids, _none, _fate, _other, 10,
    want=(_ids, np.full(5, -100)),
)  # fmt: skip
covering.case(
    "below 0.8: covered, and asked for what was there",
    _ids, np.array([True, False, False, True, False]), _fate, _other, 10,
    want=([10, 3, 8, 10, 6], [5, -100, -100, 1, -100]),
)  # fmt: skip
covering.case(
    "from 0.8 to below 0.9: another id, asked for all the same",
    _ids, np.array([False, True, False, False, True]), _fate, _other, 10,
    want=([5, 7, 8, 1, 10], [-100, 3, -100, -100, 6]),
)  # fmt: skip
covering.case(
    "from 0.9: as it was, and asked for", _ids, _all, _fate, _other, 12,
    want=([12, 7, 8, 12, 12], _ids),
)  # fmt: skip
covering.case(
    "0.8 itself is another id, 0.9 itself stays", _ids, _all, np.array([0.8, 0.9, 0.1, 0.9, 0.8]), _other, 10,
    want=([2, 3, 10, 1, 0], _ids),
)  # fmt: skip
covering.case(
    "a batch", np.stack([_ids, _other]), np.stack([_all, ~_all]), np.stack([_fate[::-1], _fate]),
    np.stack([_other, _ids]), 11,
    want=([[11, 11, 8, 9, 11], _other.tolist()], [_ids.tolist(), [-100] * 5]),
)  # fmt: skip


def _covered(
    inputs=lambda ids, chosen, fate, other, m: cover(ids, chosen, fate, other, m)[0],
    targets=lambda ids, chosen, inputs: np.where(chosen, ids, NO_TARGET),
):
    def wrong(ids, chosen, fate, other, mask_id):
        made = inputs(ids, chosen, fate, other, mask_id)
        return made, targets(ids, chosen, made)

    return wrong


covering.mistake("all covered", _covered(lambda ids, chosen, fate, other, m: np.where(chosen, m, ids)))
covering.mistake("all asked", _covered(targets=lambda ids, chosen, inputs: ids + 0))
covering.mistake("asked for the cover", _covered(targets=lambda i, c, inputs: np.where(c, inputs, -100)))
covering.mistake("changed alone", _covered(targets=lambda i, c, inputs: np.where(inputs != i, i, -100)))
covering.mistake("exchanged", lambda *given: cover(*given)[::-1])
covering.mistake(
    "covered alone",
    lambda i, c, fate, other, m: (cover(i, c, fate, other, m)[0], np.where(c & (fate < 0.8), i, -100)),
)
covering.mistake("covered again", _covered(lambda i, c, fate, other, m: np.where(c & (fate < 0.9), other, i)))


@covering.mistake("the ends below")
def _(ids, chosen, fate, other, mask_id):
    return cover(ids, chosen, np.nextafter(fate, 0), other, mask_id)


@covering.mistake("the upper end below")
def _(ids, chosen, fate, other, mask_id):
    return cover(ids, chosen, np.where(fate == 0.9, 0.85, fate), other, mask_id)


covering.mistake("zero for nobody", _covered(targets=lambda ids, chosen, inputs: np.where(chosen, ids, 0)))
covering.mistake("others asked", _covered(targets=lambda ids, c, inputs: np.where(c, -100, ids)))


@covering.mistake("two fates exchanged")
def _(ids, chosen, fate, other, mask_id):
    changed = np.where(fate < 0.8, mask_id, np.where(fate < 0.9, ids, other))
    return np.where(chosen, changed, ids), np.where(chosen, ids, -100)


@covering.mistake("not the chosen alone")
def _(ids, chosen, fate, other, mask_id):
    changed = np.where(fate < 0.8, mask_id, np.where(fate < 0.9, other, ids))
    return changed, np.where(chosen, ids, -100)


# 5 · The loss of those who are asked


def loss(logits: Float[np.ndarray, "*B T V"], targets: Integer[np.ndarray, "*B T"]) -> float:
    """The mean −ln p of the targets that are not −100."""
    asked = targets != NO_TARGET
    rows, wanted = logits[asked], targets[asked]  # (N, V), (N,)
    top = rows.max(axis=-1, keepdims=True)
    log_total = top[:, 0] + np.log(np.exp(rows - top).sum(axis=-1))
    return float((log_total - rows[np.arange(len(wanted)), wanted]).mean())


mean = exercise("families.loss", loss)


def _by_hand(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the mean surprise of the targets that are asked for, one after another."""
    surprises = []
    for row, target in zip(logits.reshape(-1, logits.shape[-1]), targets.flat, strict=True):
        if target != NO_TARGET:
            top = max(row)
            surprises.append(top - row[target] + math.log(math.fsum(math.exp(one - top) for one in row)))
    return math.fsum(surprises) / len(surprises)


mean.case(
    "two of three are asked, each sure by one half", np.zeros((3, 2)), np.array([1, -100, 0]),
    want=math.log(2),
)  # fmt: skip
mean.case(
    "who is not asked does not count, whatever the logits are",
    np.log(np.array([[0.25, 0.75], [1e-30, 1.0], [0.5, 0.5]])), np.array([0, -100, 1]),
    want=math.log(8) / 2,
)  # fmt: skip
_z, _t = numbers(2, 6, 5), np.array([[4, 1, 0, 2, 3, 3], [2, 0, -100, -100, -100, -100]])
mean.case("two texts, one of them mostly padding: every target counts alike", _z, _t, want=_by_hand(_z, _t))
mean.case("all are asked", _z[0], _t[0], want=_by_hand(_z[0], _t[0]))
_z, _t = 4000 + numbers(4, 3, seed=3), np.array([-100, 0, 2, -100])
mean.case("logits so large that exp has no room for them", _z, _t, want=_by_hand(_z, _t))
_z = 4000 * numbers(4, 3, seed=3)
mean.case("so far apart that p has no room, though its logarithm has", _z, _t, want=_by_hand(_z, _t))


def _each(logits, targets):
    """−ln p of every target, 0 where nobody is asked."""
    p = logits - logits.max(axis=-1, keepdims=True)
    p = p - np.log(np.exp(p).sum(axis=-1, keepdims=True))
    found = -np.take_along_axis(p, np.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    return np.where(targets == NO_TARGET, 0, found)


@mean.mistake("padding asked")
def _(logits, targets):
    return float(_each(logits, np.where(targets == NO_TARGET, 0, targets)).mean())


@mean.mistake("counted from the end")
def _(logits, targets):
    return float(_each(logits, targets % logits.shape[-1]).mean())


@mean.mistake("text by text")
def _(logits, targets):
    asked = (targets != NO_TARGET).sum(axis=-1)
    return float((_each(logits, targets).sum(axis=-1) / asked).mean())


@mean.mistake("no maximum")
def _(logits, targets):
    with np.errstate(all="ignore"):
        p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        asked = targets != NO_TARGET
        return float(-np.log(p[asked][np.arange(asked.sum()), targets[asked]]).mean())


@mean.mistake("log of nothing")
def _(logits, targets):
    asked = targets != NO_TARGET
    with np.errstate(all="ignore"):
        return float(-np.log(softmax(logits[asked])[np.arange(asked.sum()), targets[asked]]).mean())


@mean.mistake("no log")
def _(logits, targets):
    return -float(np.exp(-_each(logits, targets))[targets != NO_TARGET].mean())


@mean.mistake("every target of every row")
def _(logits, targets):
    rows, wanted = logits[targets != NO_TARGET], targets[targets != NO_TARGET]
    return float(np.mean([_each(rows, np.full(len(rows), one)).mean() for one in wanted]))


mean.mistake("id 0 not asked", lambda logits, targets: float(_each(logits, targets)[targets > 0].mean()))
mean.mistake("over all", lambda logits, targets: float(_each(logits, targets).mean()))
mean.mistake("sum", lambda logits, targets: float(_each(logits, targets).sum()))
mean.mistake(
    "sign", lambda logits, targets: -float(_each(logits, targets).sum() / (targets != NO_TARGET).sum())
)
mean.mistake("bits", lambda x, t: float(_each(x, t).sum() / (t != NO_TARGET).sum() / math.log(2)))


# 6 · Across


def look_across(
    x: Float[np.ndarray, "T D"],
    memory: Float[np.ndarray, "S D"],
    W_q: Float[np.ndarray, "D D"],
    W_k: Float[np.ndarray, "D D"],
    W_v: Float[np.ndarray, "D D"],
    W_o: Float[np.ndarray, "D D"],
    n_heads: int,
    real: Bool[np.ndarray, " S"],
) -> Float[np.ndarray, "T D"]:
    """Attention with several heads to another text, of which the `real` positions may be seen."""
    q = split_heads(x @ W_q, n_heads)
    k, v = split_heads(memory @ W_k, n_heads), split_heads(memory @ W_v, n_heads)
    mixed, _ = scaled_dot_product_attention(q, k, v, mask=np.broadcast_to(real, (len(x), len(memory))))
    return merge_heads(mixed) @ W_o


across = exercise(
    "families.look_across", look_across, axes="T D",
    built_on=(split_heads, scaled_dot_product_attention, merge_heads),
)  # fmt: skip


def _two(T: int, S: int, D: int, n_heads: int, hidden: Sequence[int] = (), seed: int = 0) -> tuple[Any, ...]:
    real = ~np.isin(np.arange(S), hidden)
    texts = numbers(T, D, seed=seed), numbers(S, D, seed=seed + 1)
    return *texts, *numbers(4, D, D, seed=seed + 2), n_heads, real


def _across_by_hand(x, memory, W_q, W_k, W_v, W_o, n_heads, real) -> np.ndarray:
    """Returns what each head finds, through its own rows of W_o, added up."""
    mask = [real] * len(x)
    columns = np.split(np.arange(x.shape[1]), n_heads)
    heads = (
        attended(x @ W_q[:, own], memory @ W_k[:, own], memory @ W_v[:, own], mask)[0] for own in columns
    )
    return np.add.reduce([found @ W_o[own] for found, own in zip(heads, columns, strict=True)])


across.shape("a row for each that asks", *_two(2, 5, 6, 3), want=(2, 6))
_given = _two(3, 1, 4, 2)
across.case(
    "a source of one position answers all alike", *_given,
    want=np.repeat(_given[1] @ _given[4] @ _given[5], 3, axis=0),
)  # fmt: skip
for _title, _given in (
    ("one head, and two texts of one length", _two(4, 4, 3, 1, seed=3)),
    ("two heads, and two lengths", _two(3, 7, 6, 2, seed=5)),
    ("padding at the end is not seen", _two(5, 6, 4, 2, (4, 5), seed=7)),
    ("nor padding in the middle, with three heads", _two(4, 4, 6, 3, (1,), seed=9)),
):
    across.case(_title, *_given, want=_across_by_hand(*_given))


def _across(
    asks=lambda x, m: x, keys=lambda x, m: m, values=lambda x, m: m,
    may=lambda real, T: real, scale=None, out=True, one_head=False, late=False, columns=False, hidden=-np.inf,
):  # fmt: skip
    def wrong(x, memory, W_q, W_k, W_v, W_o, n_heads, real):
        if one_head:
            n_heads = 1
        q = split_heads(asks(x, memory) @ W_q, n_heads)
        k, v = split_heads(keys(x, memory) @ W_k, n_heads), split_heads(values(x, memory) @ W_v, n_heads)
        scores = q @ k.swapaxes(-1, -2) * (scale(x.shape[-1]) if scale else q.shape[-1] ** -0.5)
        seen = may(real, len(x))
        with np.errstate(all="ignore"):
            if late:
                weights = softmax(scores) * seen
            else:
                weights = softmax(np.where(seen, scores, hidden), axis=-2 if columns else -1)
        mixed = merge_heads(weights @ v)
        return mixed @ W_o if out else mixed

    return wrong


across.mistake("itself", _across(keys=lambda x, m: x, values=lambda x, m: x))
across.mistake("values of x", _across(values=lambda x, m: x))
across.mistake("roles changed", _across(asks=lambda x, m: m, keys=lambda x, m: x, values=lambda x, m: x))
across.mistake("padding seen", _across(may=lambda real, T: np.ones_like(real)))
across.mistake("real hidden", _across(may=lambda real, T: ~real if not real.all() else real))
across.mistake("nothing to see", _across(may=lambda real, T: ~real))
across.mistake("score of 0", _across(hidden=0.0))
across.mistake("hidden too late", _across(late=True))
across.mistake("causal", _across(may=lambda real, T: real & np.tri(T, len(real), dtype=bool)))
across.mistake("no root", _across(scale=lambda D: 1.0))
across.mistake("root of D", _across(scale=lambda D: D**-0.5))
across.mistake("one head", _across(one_head=True))
across.mistake("no W_o", _across(out=False))


# 7 · One step aside


def shifted(
    answers: Sequence[Integer[np.ndarray, " _"]], start_id: int, stop_id: int, pad_id: int
) -> tuple[Integer[np.ndarray, "B T"], Integer[np.ndarray, "B T"]]:
    """Returns the decoder's inputs (start and answer) and its targets (answer and stop)."""
    T = max(map(len, answers)) + 1
    ids, targets = np.full((len(answers), T), pad_id), np.full((len(answers), T), NO_TARGET)
    for row, target, answer in zip(ids, targets, answers, strict=True):
        row[: len(answer) + 1] = [start_id, *answer]
        target[: len(answer) + 1] = [*answer, stop_id]
    return ids, targets


forcing = exercise("families.shifted", shifted, parts=("ids", "targets"), axes=("B T", "B T"))

forcing.case(
    "one answer: the start goes before it, the stop after", [np.array([4, 7, 5])], 8, 9, 0,
    want=([[8, 4, 7, 5]], [[4, 7, 5, 9]]),
)  # fmt: skip
forcing.case(
    "the shorter of two is filled up, and nobody is asked for that",
    [np.array([4, 7, 5]), np.array([6])], 8, 9, 0,
    want=([[8, 4, 7, 5], [8, 6, 0, 0]], [[4, 7, 5, 9], [6, 9, -100, -100]]),
)  # fmt: skip
forcing.case(
    "three, with other ids; one answer is empty",
    [np.array([1, 2]), np.array([], int), np.array([3, 1, 1, 2, 2])], 5, 6, 7,
    want=(
        [[5, 1, 2, 7, 7, 7], [5, 7, 7, 7, 7, 7], [5, 3, 1, 1, 2, 2]],
        [[1, 2, 6, -100, -100, -100], [6, -100, -100, -100, -100, -100], [3, 1, 1, 2, 2, 6]],
    ),
)  # fmt: skip


def _filled(rows: Sequence[Any], filler: int) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([[*row, *[filler] * (width - len(row))] for row in rows])


def _forced(read, asked, filler=lambda pad: NO_TARGET):
    def wrong(answers, start_id, stop_id, pad_id):
        a = [list(answer) for answer in answers]
        return (
            _filled([read(one, start_id, stop_id) for one in a], pad_id),
            _filled([asked(one, start_id, stop_id) for one in a], filler(pad_id)),
        )

    return wrong


forcing.mistake("not shifted", _forced(lambda a, s, e: [*a, e], lambda a, s, e: [*a, e]))
forcing.mistake("in the other order", lambda *given: shifted(*given)[::-1])
forcing.mistake("asked for what it reads", _forced(lambda a, s, e: [s, *a], lambda a, s, e: [s, *a]))
forcing.mistake("no stop", _forced(lambda a, s, e: [s, *a[:-1]], lambda a, s, e: a))
forcing.mistake("stop read", _forced(lambda a, s, e: [s, *a, e], lambda a, s, e: [*a, e, NO_TARGET]))
forcing.mistake("start and stop exchanged", _forced(lambda a, s, e: [e, *a], lambda a, s, e: [*a, s]))
forcing.mistake(
    "asked for padding", _forced(lambda a, s, e: [s, *a], lambda a, s, e: [*a, e], lambda pad: pad)
)
forcing.mistake("read −100", lambda a, s, e, pad: (shifted(a, s, e, NO_TARGET)[0], shifted(a, s, e, pad)[1]))
forcing.mistake("filled with the stop", lambda a, s, e, pad: shifted(a, s, e, e))
forcing.mistake("shifted twice", _forced(lambda a, s, e: [s, *a], lambda a, s, e: [*a[1:], e, NO_TARGET]))


# 8 · Translate


def translate(
    next_logits: Callable[[np.ndarray], np.ndarray], start_id: int, stop_id: int, n_most: int
) -> Integer[np.ndarray, " _"]:
    """The likeliest id again and again, after the start and up to the stop; without these two."""
    ids = [start_id]
    while len(ids) <= n_most:
        new = int(np.argmax(next_logits(np.array(ids))))
        if new == stop_id:
            break
        ids.append(new)
    return np.array(ids[1:], dtype=int)


writing = exercise("families.translate", translate, axes="T")


def _says(*text: int, V: int = 12, start: int = 10, stop: int = 11) -> Callable[[Any], np.ndarray]:
    """A decoder that wants to write `text`, then stop; it wants to hear start and all that it wrote."""

    def next_logits(ids: Any) -> np.ndarray:
        read = [int(one) for one in np.ravel(np.asarray(ids))]
        logits = np.roll(np.linspace(0, 0.5, V), 3)  # id 0 is neither the likeliest nor the unlikeliest
        wanted = [start, *text, stop]
        on_track = read == wanted[: len(read)] and 0 < len(read) < len(wanted)
        logits[wanted[len(read)] if on_track else (sum(read) + len(read)) % start] += 3
        return logits

    return next_logits


writing.case(
    "one id: the likeliest after the start", _says(4, 2, 7), 10, 11, 1, want=[4], what="translate with n_most = 1",
    advice="`next_logits` gives (V,), one row: it takes no `[-1]`.",
)  # fmt: skip
writing.case(
    "three ids, and then the stop", _says(4, 2, 7), 10, 11, 8, want=[4, 2, 7], what="translate to [4, 2, 7]"
)
writing.case(
    "an id may come twice", _says(5, 5, 0, 5), 10, 11, 8, want=[5, 5, 0, 5], what="translate to [5, 5, 0, 5]"
)
writing.case(
    "at most so many", _says(1, 2, 3, 4, 5, 6), 10, 11, 4, want=[1, 2, 3, 4],
    what="translate with n_most = 4",
)  # fmt: skip
writing.also(_says(1, 2, 3), 10, 11, 3, want=[1, 2, 3], what="translate to [1, 2, 3] with n_most = 3")
writing.case(
    "an id like the start's, in between, stays", _says(5, 10, 6), 10, 11, 8, want=[5, 10, 6],
    what="translate to [5, 10, 6] with start 10",
)  # fmt: skip
writing.case(
    "other ids of start and stop", _says(3, 1, V=9, start=6, stop=0), 6, 0, 5,
    want=[3, 1], what="translate to [3, 1] with start 6, stop 0",
)  # fmt: skip


@writing.check("the stop at once: nothing is written")
def _(learner):
    got = as_numbers(learner(_says(), 10, 11, 5), "translate to nothing")
    if got.size:  # an empty list has no whole numbers in it, and is right
        raise Wrong(
            f"translate to nothing should be empty; yours is {got.tolist()}.", what="nothing", got=got
        )


def _written(
    first=lambda start: [start], read=lambda ids: ids, stops=True, gives=lambda ids: ids[1:], more=0,
    choose=np.argmax, keeps_stop=False,
):  # fmt: skip
    def wrong(next_logits, start_id, stop_id, n_most):
        ids, n_first = first(start_id), len(first(start_id))
        while len(ids) - n_first < n_most + more:
            new = int(choose(next_logits(np.array(read(ids), dtype=int))))
            if stops and new == stop_id:
                if keeps_stop:
                    ids.append(new)
                break
            ids.append(new)
        return np.array(gives(ids), dtype=int)

    return wrong


def _filtered(next_logits, start_id, stop_id, n_most):
    ids = translate(next_logits, start_id, stop_id, n_most)
    return ids[ids != start_id]


writing.mistake("start kept", _written(gives=lambda ids: ids))
writing.mistake("stop kept", _written(keeps_stop=True))
writing.mistake("never stops", _written(stops=False))
writing.mistake("last id alone", _written(read=lambda ids: ids[-1:]))
writing.mistake("last of a row", _written(choose=lambda logits: np.argmax(logits[-1])))
writing.mistake("no limit", _written(more=99))
writing.mistake("cut and counted", _written(keeps_stop=True, more=-1, gives=lambda ids: ids[1:-1]))
writing.mistake("filtered", _filtered)
writing.mistake("start dropped later", _written(read=lambda ids: ids[1:] if len(ids) > 1 else ids))
writing.mistake("start forgotten", _written(read=lambda ids: ids[1:]))
writing.mistake("one too many", _written(more=1))
writing.mistake("one too few", _written(more=-1))
writing.mistake("unlikeliest", _written(choose=np.argmin))


# 9 · Compared


def compared(
    d_model: int, d_ff: int, n_blocks: int, T: int, S: int
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Parameters of the blocks, and cells of a head in all blocks: decoder, encoder, encoder–decoder."""
    D, half = d_model, n_blocks // 2
    block = 4 * D * D + 2 * D * d_ff + 2 * D
    crossing = 4 * D * D + D  # four matrices, and the norm before them
    whole, own = S + T, T * (T + 1) // 2
    cells = n_blocks * whole * (whole + 1) // 2, n_blocks * S * S, half * (S * S + own + T * S)
    return (n_blocks * block, n_blocks * block, n_blocks * block + half * crossing), cells


three = exercise("families.compared", compared, parts=("parameters", "cells"))


def _summed(D: int, F: int, n_blocks: int, T: int, S: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Matrix by matrix, and cell by cell."""
    own = sum([*[D * D] * 4, D * F, F * D, D, D])
    across = sum([*[D * D] * 4, D])
    half = n_blocks // 2
    one_text = sum(1 for t in range(S + T) for s in range(S + T) if s <= t)
    causal = sum(1 for t in range(T) for s in range(T) if s <= t)
    parameters = sum([own] * n_blocks), sum([own] * n_blocks), sum([own] * n_blocks + [across] * half)
    cells = sum([one_text] * n_blocks), n_blocks * len(range(S)) ** 2, sum([S * S, causal, T * S] * half)
    return parameters, cells


three.case("two blocks of width 2", 2, 4, 2, 3, 5, want=_summed(2, 4, 2, 3, 5))
three.case("a source of one, a target of one", 3, 5, 2, 1, 1, want=_summed(3, 5, 2, 1, 1))
three.case("six blocks", 6, 10, 6, 7, 4, want=_summed(6, 10, 6, 7, 4))
three.case(
    "T5-base: 198,226,944 in its 12 + 12 blocks", 768, 3072, 24, 11, 29, want=_summed(768, 3072, 24, 11, 29)
)


def _compared(block=None, crossing=None, cells=None):
    def wrong(D, F, n_blocks, T, S):
        half = n_blocks // 2
        own = block(D, F) if block else 4 * D * D + 2 * D * F + 2 * D
        more = crossing(D, half, n_blocks) if crossing else half * (4 * D * D + D)
        right = compared(D, F, n_blocks, T, S)[1]
        return (n_blocks * own, n_blocks * own, n_blocks * own + more), (
            cells(n_blocks, T, S, right) if cells else right
        )

    return wrong


three.mistake("norm of the crossing", _compared(crossing=lambda D, half, n: half * 4 * D * D))
three.mistake("crossing everywhere", _compared(crossing=lambda D, half, n: n * (4 * D * D + D)))
three.mistake("no crossing", _compared(crossing=lambda D, half, n: 0))
three.mistake("one norm", _compared(block=lambda D, F: 4 * D * D + 2 * D * F + D))
three.mistake("norms with bias", _compared(block=lambda D, F: 4 * D * D + 2 * D * F + 4 * D))
three.mistake("biases", _compared(block=lambda D, F: 4 * D * D + 2 * D * F + F + 3 * D))
three.mistake(
    "two whole stacks",
    lambda D, F, n, T, S: (
        (*compared(D, F, n, T, S)[0][:2], compared(D, F, 2 * n, T, S)[0][2]), compared(D, F, n, T, S)[1],
    ),
)  # fmt: skip
three.mistake(
    "prefix", _compared(cells=lambda n, T, S, right: (right[0] + n * (S * (S - 1) // 2), *right[1:]))
)
three.mistake("decoder both ways", _compared(cells=lambda n, T, S, right: (n * (S + T) ** 2, *right[1:])))
three.mistake(
    "encoder reads both", _compared(cells=lambda n, T, S, right: (right[0], n * (S + T) ** 2, right[2]))
)
three.mistake(
    "writes both ways", _compared(cells=lambda n, T, S, right: (*right[:2], n // 2 * (S * S + T * T + T * S)))
)
three.mistake("one block", _compared(cells=lambda n, T, S, right: tuple(one // n for one in right)))
three.mistake("norms left out", _compared(block=lambda D, F: 4 * D * D + 2 * D * F))
three.mistake(
    "target alone", _compared(cells=lambda n, T, S, right: (n * T * (T + 1) // 2, right[1], right[2]))
)
three.mistake(
    "two texts apart",
    _compared(cells=lambda n, T, S, right: (n * (T * (T + 1) + S * (S + 1)) // 2, right[1], right[2])),
)
three.mistake(
    "encoder causal", _compared(cells=lambda n, T, S, right: (right[0], n * S * (S + 1) // 2, right[2]))
)
three.mistake(
    "both in all blocks",
    _compared(cells=lambda n, T, S, right: (right[0], right[1], n * (S * S + T * (T + 1) // 2 + T * S))),
)
three.mistake(
    "nothing across",
    _compared(cells=lambda n, T, S, right: (right[0], right[1], n // 2 * (S * S + T * (T + 1) // 2))),
)
