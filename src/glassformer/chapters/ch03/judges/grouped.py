"""Judges "Heads that share their keys" (chapter 03): neighbouring query heads share one key head and one value head.

Axes: T positions asking, S positions answering, H heads, G key and value heads, K d_head.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import repeat_heads, scaled_dot_product_attention
from glassformer.shapes import Float

from .by_hand import attended
from .mistakes import changed_attention


def grouped_attention(
    q: Float[np.ndarray, "H T K"], k: Float[np.ndarray, "G S K"], v: Float[np.ndarray, "G S K"]
) -> Float[np.ndarray, "H T K"]:
    """Computes attention in which H/G neighbouring query heads share each key head and value head."""
    times = len(q) // len(k)
    k, v = np.repeat(k, times, axis=0), np.repeat(v, times, axis=0)
    output, _ = scaled_dot_product_attention(q, k, v)
    return output


grouped = exercise(
    "attention.grouped",
    grouped_attention,
    built_on=(repeat_heads,),
    axes="H T K",
)


def _shared(
    H: int, G: int, T: int, S: int, K: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return numbers(H, T, K, seed=seed), numbers(G, S, K, seed=seed + 1), numbers(G, S, K, seed=seed + 2)


def _in_groups(q, k, v):
    return np.array(
        [attended(q[h], k[h * len(k) // len(q)], v[h * len(k) // len(q)])[0] for h in range(len(q))]
    )


grouped.shape("an output for each query head", *_shared(6, 2, 4, 5, 3), want=(6, 4, 3))
_given = _shared(3, 3, 2, 4, 2)
grouped.case(
    "as many key heads as query heads, so each query head has its own", *_given, want=_in_groups(*_given)
)
_given = _shared(6, 2, 3, 4, 2, seed=3)
grouped.case(
    "two key heads for six query heads: 0, 1 and 2 share the first", *_given, want=_in_groups(*_given)
)
_given = _shared(4, 1, 3, 2, 5, seed=6)
grouped.case("one key head for all the query heads", *_given, want=_in_groups(*_given))

grouped.mistake(
    "in turn",
    lambda q, k, v: changed_attention(
        q, np.tile(k, (len(q) // len(k), 1, 1)), np.tile(v, (len(q) // len(k), 1, 1))
    )[0],
)
grouped.mistake("first for all", lambda q, k, v: changed_attention(q, k[:1], v[:1])[0])
grouped.mistake("mean for all", lambda q, k, v: changed_attention(q, k.mean(axis=0), v.mean(axis=0))[0])


@grouped.mistake("no root")
def _(q, k, v):
    times = len(q) // len(k)
    return changed_attention(q, repeat_heads(k, times), repeat_heads(v, times), root=False)[0]


@grouped.mistake("masked")
def _(q, k, v):
    k, v = (repeat_heads(x, len(q) // len(k)) for x in (k, v))
    return changed_attention(q, k, v, mask=np.tri(q.shape[1], k.shape[1], dtype=bool))[0]


@grouped.mistake("queries merged")
def _(q, k, v):
    few = q.reshape(len(k), -1, *q.shape[1:]).mean(axis=1)
    return repeat_heads(changed_attention(few, k, v)[0], len(q) // len(k))


@grouped.mistake("values in turn")
def _(q, k, v):
    times = len(q) // len(k)
    return changed_attention(q, repeat_heads(k, times), np.tile(v, (times, 1, 1)))[0]
