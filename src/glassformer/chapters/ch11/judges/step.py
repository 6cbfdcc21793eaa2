"""Judges "One step with a cache" (chapter 11): the logits after one more token, with a cache of keys and values.

Axis: V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch06.judges.feed_forward import feed_forward
from glassformer.chapters.ch08.judges.gpt import gpt
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import merge_heads, softmax, split_heads
from glassformer.shapes import Float

from .small_gpt import CONTEXT, small_gpt, small_weights


def step(id: int, weights: Weights, n_heads: int, cache: dict[Any, Any]) -> Float[np.ndarray, " V"]:
    """Returns the logits after one more id. Only this id is read; the keys and values of the past are in the cache."""
    position = cache.get("read", 0)
    x = (weights["token_embedding.weight"][id] + weights["decoder.positions.weight"][position])[
        None
    ]  # (1, D)
    i = 0
    while f"decoder.blocks.{i}.norm_attention.weight" in weights:
        start = f"decoder.blocks.{i}."
        w = {name.removeprefix(start): one for name, one in weights.items() if name.startswith(start)}
        normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
        q, k, v = (
            split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv"
        )  # (H, 1, K)
        if position > 0:
            past_k, past_v = cache[i]
            k, v = np.concatenate([past_k, k], axis=1), np.concatenate([past_v, v], axis=1)  # (H, S, K)
        cache[i] = k, v
        shares = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))  # no mask: all is past
        x = x + merge_heads(shares @ v) @ w["attention.W_o.weight"]
        normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
        up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
        x = x + feed_forward(normed, *up, w["feedforward.W_down.weight"], w["feedforward.W_down.bias"])
        i += 1
    cache["read"] = position + 1
    x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return (x @ weights["token_embedding.weight"].T)[0]


_FEED = ("up.weight", "up.bias", "down.weight", "down.bias")

remembered = exercise("generating.step", step, axes="V")


class _Kept(dict):
    """A cache that a function under check may write into: its copy is itself."""

    def __deepcopy__(self, memo: dict) -> "_Kept":
        return self


class CountedTable(np.ndarray):
    """A table that counts how many of its rows are looked up; what is made of it does not count."""

    looked_up, counts = 0, False

    def __array_finalize__(self, made_of: Any) -> None:
        self.counts = False

    def __getitem__(self, place: Any) -> Any:
        found = np.asarray(self)[place]
        if self.counts:
            CountedTable.looked_up += found.size // self.shape[1]
        return found

    def __deepcopy__(self, memo: Any, /) -> "CountedTable":
        return self


def with_counted_table(name: str, n_layers: int) -> dict[str, np.ndarray]:
    """The weights, of which one table counts its look-ups, from 0."""
    weights = small_weights(n_layers)
    weights[name] = table = weights[name].view(CountedTable)
    table.counts, CountedTable.looked_up = True, 0
    return weights


def _stepped(learner: Callable[..., Any], ids: Sequence[int], kept: _Kept) -> list[Any]:
    return [learner(int(one), small_weights(), 2, kept) for one in ids]


def _read_case(title: str, ids: list[int], at: Sequence[int]) -> None:
    @remembered.check(title)
    def _(learner):
        want = small_gpt()(np.array(ids))
        got = _stepped(learner, ids, _Kept())
        for t in at:
            expect(got[t], want[t], f"the logits of step {t}", axes="V")


_read_case("the first id, which sees only itself", [3], [0])


@remembered.check("the cache keeps what is needed later")
def _(learner):
    _stepped(learner, [3], kept := _Kept())
    if not kept:
        said = "your cache is empty after the first id, but everything that later ids need has to be in it."
        raise Wrong(said, what="the cache", got=0)


_read_case("the second id sees the first", [3, 5], [1])
_read_case("the same id again, at another position", [4, 4, 4, 4], [1, 2, 3])
_read_case("a full context, at every step", [1, 7, 0, 2, 8, 3, 3, 5, 6, 4, 1, 0], range(CONTEXT))


@remembered.check("two texts in turn, each with a cache of its own")
def _(learner):
    one, two = [2, 6, 1], [5, 5, 8]
    kept = _Kept(), _Kept()
    got = [
        [learner(text[t], small_weights(), 2, own) for text, own in zip((one, two), kept, strict=True)]
        for t in range(3)
    ]
    for place, text in enumerate((one, two)):
        expect(got[2][place], small_gpt()(np.array(text))[-1], f"the logits of text {place}", axes="V")


@remembered.check("each id is read once: keys and values are kept, not ids")
def _(learner):
    weights, kept = with_counted_table("token_embedding.weight", 2), _Kept()
    for one in (3, 1, 4, 1):
        learner(one, weights, 2, kept)
    if CountedTable.looked_up > 4:
        said = f"your function looked up {CountedTable.looked_up} token vectors to read 4 ids."
        raise Wrong(said, what="token vectors looked up", got=np.array(float(CountedTable.looked_up)))


def _varied_step(
    place=lambda position: position,
    keeps=lambda past, k, v: (np.concatenate([past[0], k], axis=1), np.concatenate([past[1], v], axis=1)),
    room=lambda i: i,
    scale=lambda K: math.sqrt(K),
    final=True,
    mixes=lambda shares, v: shares @ v,
    add=1,
):
    """A wrong answer: one choice changed."""

    def wrong(id, weights, n_heads, cache):
        position = cache.get("read", 0)
        table = weights["decoder.positions.weight"]
        x = (weights["token_embedding.weight"][id] + table[place(position) % len(table)])[None]
        for i in range(2):
            start = f"decoder.blocks.{i}."
            w = {name.removeprefix(start): one for name, one in weights.items() if name.startswith(start)}
            normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
            q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
            if room(i) in cache:
                k, v = keeps(cache[room(i)], k, v)
            cache[room(i)] = k, v
            shares = softmax(q @ k.swapaxes(-1, -2) / scale(q.shape[-1]))
            x = add * x + merge_heads(mixes(shares, v)) @ w["attention.W_o.weight"]
            normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
            x = x + feed_forward(normed, *(w[f"feedforward.W_{name}"] for name in _FEED))
        cache["read"] = position + 1
        if final:
            x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
        return (x @ weights["token_embedding.weight"].T)[0]

    return wrong


@remembered.mistake("reads again")
def _(id, weights, n_heads, cache):
    cache.setdefault("ids", []).append(id)
    return gpt(np.array(cache["ids"]), weights, n_heads)[-1]


remembered.mistake(
    "nothing kept", lambda id, weights, n_heads, cache: gpt(np.array([id]), weights, n_heads)[-1]
)
remembered.mistake("off by one", _varied_step(place=lambda position: position + 1))
remembered.mistake("one too low", _varied_step(place=lambda position: max(position - 1, 0)))
remembered.mistake("always position 0", _varied_step(place=lambda position: 0))
remembered.mistake("forgets", _varied_step(keeps=lambda past, k, v: (k, v)))
remembered.mistake("last one alone", _varied_step(keeps=lambda past, k, v: tuple(
    np.concatenate([old[:, -1:], new], axis=1) for old, new in zip(past, (k, v), strict=True)
)))  # fmt: skip
remembered.mistake("one memory", _varied_step(room=lambda i: "all"))
remembered.mistake("newest first", _varied_step(keeps=lambda past, k, v: (
    np.concatenate([past[0], k], axis=1), np.concatenate([v, past[1]], axis=1)
)))  # fmt: skip
remembered.mistake("without itself", _varied_step(keeps=lambda past, k, v: past))
remembered.mistake("no final norm", _varied_step(final=False))
remembered.mistake("no root", _varied_step(scale=lambda K: 1.0))
remembered.mistake("root of the whole width", _varied_step(scale=lambda K: math.sqrt(2 * K)))
remembered.mistake("values not kept", _varied_step(keeps=lambda past, k, v: (
    np.concatenate([past[0], k], axis=1), v
)))  # fmt: skip
remembered.mistake("along the heads", _varied_step(keeps=lambda past, k, v: (
    np.concatenate([past[0], k], axis=0), np.concatenate([past[1], v], axis=0)
)))  # fmt: skip
remembered.mistake("not added", _varied_step(add=0))
