"""Answers for chapter 16: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math
from collections import deque

import numpy as np
import torch

from glassformer.exercises.material import quiet
from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("long.window_mask")
def window_by_triangles(n_queries, n_keys, window):
    past = torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)
    return past & ~past.tril(n_keys - n_queries - window)


@right("long.ring")
def ring_by_queue(ring, n_seen, new):
    W = len(ring)
    kept = deque(((t, ring[t % W]) for t in range(max(n_seen - W, 0), n_seen)), maxlen=W)
    kept.extend(enumerate(new, n_seen))
    slots = {t % W: row for t, row in kept}
    return [list(slots.get(i, ring[i])) for i in range(W)], [list(row) for _, row in kept]


@right("long.ring")
def ring_by_fancy_indices(ring, n_seen, new):
    W, n = len(ring), n_seen + len(new)
    last = np.arange(max(n_seen, n - W), n)
    ring = np.array(ring)
    ring[last % W] = new[last - n_seen]
    return ring, np.roll(ring, -(n % W), axis=0)[-min(n, W) :]


@right("long.rotated_share")
def frequencies_one_by_one(d_head, base, share, kind):
    width = {"partial": share * d_head, "proportional": d_head}[kind]
    return [math.exp(-2 * i * math.log(base) / width) * (2 * i < share * d_head) for i in range(d_head // 2)]


@right("long.sink_gradient")
def sink_by_autograd(scores, sinks, grad_weights):
    scores, sinks = torch.as_tensor(scores), torch.tensor(sinks, requires_grad=True)
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.cat([scores, column], dim=-1).softmax(dim=-1)[..., :-1]
    (weights * torch.as_tensor(grad_weights)).sum().backward()
    return sinks.grad


@right("long.sink_gradient")
def sink_from_softmax_backward(scores, sinks, grad_weights):
    top = np.maximum(scores.max(axis=-1), sinks[:, None])
    powers, sink = np.exp(scores - top[..., None]), np.exp(sinks[:, None] - top)
    total = powers.sum(axis=-1) + sink
    return [
        -s @ ((p * g).sum(axis=-1) / n**2)
        for s, p, g, n in zip(sink, powers, grad_weights, total, strict=True)
    ]


@right("long.gate_gradient")
def gate_by_autograd(grad, mixed, x, W):
    leaves = [torch.tensor(one, requires_grad=True) for one in (mixed, x, W)]
    (leaves[0] * torch.sigmoid(leaves[1] @ leaves[2])).backward(torch.as_tensor(grad))
    return [leaf.grad for leaf in leaves]


@right("long.cache_bytes")
def cache_layer_by_layer(config, length):
    known = {name: value for name, value in config.items() if value is not None}
    heads = known["num_attention_heads"]
    G, K = known.get("num_key_value_heads", heads), known.get("head_dim", known["hidden_size"] // heads)
    found = 0
    for i in range(known["num_hidden_layers"] - known.get("num_kv_shared_layers", 0)):
        if "layer_types" in known and known["layer_types"][i].startswith("sliding"):
            found += 4 * G * K * min(length, known["sliding_window"] - 1)
            continue
        if "kv_lora_rank" in known:
            each = known["kv_lora_rank"] + known["qk_rope_head_dim"]
        else:
            each = 2 * known.get("num_global_key_value_heads", G) * known.get("global_head_dim", K)
        found += 2 * (each + known.get("index_head_dim", 0)) * length
    return np.array(found)


@wrong("long.ring", "should have shape")
def ring_that_knows_empty_slots_by_their_zeros(ring, n_seen, new):
    W, n = len(ring), n_seen + len(new)
    ring = ring.copy()
    for t, row in enumerate(new, start=n_seen):
        ring[t % W] = row
    ordered = np.roll(ring, -(n % W), axis=0)
    return ring, ordered[ordered.any(axis=-1)]


@wrong("long.sink_gradient", "which is not a finite number")
def sink_without_a_visible_key(scores, sinks, grad_weights):
    top = scores.max(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        powers, sink = np.exp(scores - top), np.exp(sinks[:, None, None] - top)
        total = powers.sum(axis=-1, keepdims=True) + sink
        return -(sink * powers * grad_weights / total**2).sum(axis=(1, 2))


# The book's answers with a slip
slip(
    "long.window_mask", "should be True or False", "(distance >= 0) & (distance < window)",
    "((distance >= 0) & (distance < window)).astype(int)",
)  # fmt: skip
slip("long.ring", "changed its argument `ring` in place", "    ring = ring.copy()\n", "")
slip("long.ring", "should return 2 things", "return ring, ", "return ")
slip(
    "long.rotated_share",
    "frequencies(",
    "    w = np.zeros(d_head // 2)",
    "    base = base**2\n    w = np.zeros(d_head // 2)",
)
slip(
    "long.sink_gradient", "not a finite number",
    softmax=quiet(lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)),
)  # fmt: skip
slip("long.gate_gradient", "should return 3 things", ", x.T @ grad_z", "")
slip("long.cache_bytes", "a float", "return 2 *", "return 2.0 *")
slip(
    "long.cache_bytes", "KeyError", 'get("num_kv_shared_layers") or 0', 'config["num_kv_shared_layers"]'
)  # fmt: skip
