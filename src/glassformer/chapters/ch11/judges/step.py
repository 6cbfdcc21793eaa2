"""Judges "One step with a cache" (chapter 11): the logits after one more token, with a cache of keys and values.

Axis: V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.chapters.ch06.judges.feed_forward import feed_forward
from glassformer.chapters.ch08.judges.gpt import gpt
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect
from glassformer.exercises.material import Shared, Weights
from glassformer.scratch.attention import merge_heads, softmax, split_heads
from glassformer.shapes import Float

from .small_gpt import CONTEXT, CountedTable, small_gpt, small_weights, with_counted_table


def step(id: int, weights: Weights, n_heads: int, cache: dict[Any, Any]) -> Float[np.ndarray, " V"]:
    """Returns the logits after one more id. Only this id is read; the keys and values of the past are in the cache."""
    position = cache.get("read", 0)
    x = weights["token_embedding.weight"][[id]] + weights["decoder.positions.weight"][position]  # (1, D)
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


remembered = exercise("generating.step", step, axes="V")


def _read_case(title: str, ids: list[int], at: Sequence[int]) -> None:
    @remembered.check(title)
    def _(learner):
        want, kept = small_gpt()(np.array(ids)), Shared()
        got = [learner(one, small_weights(), 2, kept) for one in ids]
        for t in at:
            expect(got[t], want[t], f"the logits of step {t}", axes="V")


_read_case("the first id, which sees only itself", [3], [0])


@remembered.check("the cache keeps what is needed later")
def _(learner):
    learner(3, small_weights(), 2, kept := Shared())
    if not kept:
        said = "your cache is empty after the first id, but everything that later ids need has to be in it."
        raise Wrong(said, what="the cache", got=0)


_read_case("the second id sees the first", [3, 5], [1])
_read_case("the same id again, at another position", [4, 4, 4, 4], [1, 2, 3])
_read_case("a full context, at every step", [1, 7, 0, 2, 8, 3, 3, 5, 6, 4, 1, 0], range(CONTEXT))


@remembered.check("two texts in turn, each with a cache of its own")
def _(learner):
    texts, kept = ([2, 6, 1], [5, 5, 8]), (Shared(), Shared())
    for t in range(3):
        got = [learner(text[t], small_weights(), 2, own) for text, own in zip(texts, kept, strict=True)]
    for place, text in enumerate(texts):
        expect(got[place], small_gpt()(np.array(text))[-1], f"the logits of text {place}", axes="V")


@remembered.check("each id is read once: keys and values are kept, not ids")
def _(learner):
    weights, kept = with_counted_table("token_embedding.weight", 2), Shared()
    for one in (3, 1, 4, 1):
        learner(one, weights, 2, kept)
    if CountedTable.looked_up > 4:
        said = f"your function looked up {CountedTable.looked_up} token vectors to read 4 ids."
        raise Wrong(said, what="token vectors looked up", got=np.array(float(CountedTable.looked_up)))


@remembered.mistake("reads again")
def _(id, weights, n_heads, cache):
    cache.setdefault("ids", []).append(id)
    return gpt(np.array(cache["ids"]), weights, n_heads)[-1]
