"""Answers for chapter 16: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math
from collections import deque

import numpy as np
import torch
from torch.nn import functional

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


@right("long.absorbed")
def absorb_by_einsum(q, W):
    H, _, N = q.shape
    return np.einsum("htn,rhn->htr", q, W.reshape(-1, H, N))


@right("long.absorbed")
def absorb_by_heads(q, W):
    parts = zip(q, np.split(W, len(q), axis=1), strict=True)
    return torch.stack([torch.as_tensor(one @ part.T) for one, part in parts])


@wrong("long.absorbed", "You added up the heads")
def absorb_without_heads(q, W):
    return np.hstack(list(q)) @ W.T


@right("long.running_softmax")
def read_key_by_key(q, k, v, piece):
    """Never subtracts a maximum, but merges in logarithms; a piece is one key."""
    lse, mixed = -math.inf, np.zeros(v.shape[1])
    for key, value in zip(k, v, strict=True):
        score = float(key @ q) / len(q) ** 0.5
        both = np.logaddexp(lse, score)
        mixed = mixed * math.exp(lse - both) + value * math.exp(score - both)
        lse = both
    return mixed, lse


@right("long.running_softmax")
def read_from_the_first_score(q, k, v, piece):
    """Starts from the first score instead of −∞, and adds up only where the maximum does not rise."""
    largest = k[0] @ q / len(q) ** 0.5
    sums = np.zeros(v.shape[1] + 1)
    rows = np.hstack([v, np.ones((len(v), 1))])  # the last feature adds up the weights
    while len(k):
        scores = k[:piece] @ q / len(q) ** 0.5
        if scores.max() > largest:
            sums, largest = sums * np.exp(largest - scores.max()), scores.max()
        sums = sums + np.exp(scores - largest) @ rows[:piece]
        k, rows = k[piece:], rows[piece:]
    return sums[:-1] / sums[-1], largest + np.log(sums[-1])


@wrong("long.running_softmax", "all pieces counted alike")
def read_pieces_alike(q, k, v, piece):
    mixed, sums = [], []
    for start in range(0, len(k), piece):
        scores = k[start : start + piece] @ q / len(q) ** 0.5
        powers = np.exp(scores)
        mixed.append(powers @ v[start : start + piece] / powers.sum())
        sums.append(powers.sum())
    return sum(mixed) / len(mixed), np.log(sum(sums))


@right("long.merge")
def merge_by_loop(mixed_a, lse_a, mixed_b, lse_b):
    mixed, lse = [], []
    for a, x, b, y in zip(mixed_a.tolist(), lse_a.tolist(), mixed_b.tolist(), lse_b.tolist(), strict=True):
        if max(x, y) == -math.inf:
            mixed.append([0.0] * len(a))
            lse.append(-math.inf)
            continue
        share = 1 / (1 + math.exp(y - x)) if x > y else 1 - 1 / (1 + math.exp(x - y))
        mixed.append([share * one + (1 - share) * other for one, other in zip(a, b, strict=True)])
        lse.append(max(x, y) + math.log1p(math.exp(-abs(x - y))))
    return mixed, lse


@right("long.merge")
def merge_by_torch(mixed_a, lse_a, mixed_b, lse_b):
    lse = torch.stack([torch.as_tensor(lse_a), torch.as_tensor(lse_b)])
    shares = torch.nan_to_num(lse.softmax(dim=0))[..., None]
    return (shares * torch.as_tensor(np.stack([mixed_a, mixed_b]))).sum(dim=0), lse.logsumexp(dim=0)


@wrong("long.merge", "Each query needs its own")
def merge_by_the_largest(mixed_a, lse_a, mixed_b, lse_b):
    a, b = np.exp(np.stack([lse_a, lse_b]) - np.max([lse_a, lse_b]))[..., None]
    with np.errstate(all="ignore"):
        return (a * mixed_a + b * mixed_b) / (a + b), np.max([lse_a, lse_b]) + np.log((a + b)[:, 0])


@right("long.compress")
def compress_by_loop(values, logits, rate):
    tokens, visible = [], np.zeros((len(values), len(values) // rate), dtype=bool)
    for c in range(len(values) // rate):
        block = slice(c * rate, (c + 1) * rate)
        gates = logits[block] - logits[block].max(axis=0)
        tokens.append((np.exp(gates) * values[block]).sum(axis=0) / np.exp(gates).sum(axis=0))
        visible[(c + 1) * rate - 1 :, c] = True
    return np.array(tokens), visible


@right("long.compress")
def compress_by_torch(values, logits, rate):
    T = len(values)
    values, logits = (torch.as_tensor(one).unfold(0, rate, rate) for one in (values, logits))  # (C, K, rate)
    tokens = (logits.softmax(dim=-1) * values).sum(dim=-1)
    return tokens, (torch.arange(T) + 1)[:, None] // rate > torch.arange(len(tokens))


@wrong("long.compress", "has to wait for its last position")
def compress_the_rest_too(values, logits, rate):
    tokens, visible = [], []
    for start in range(0, len(values), rate):
        gates = np.exp(logits[start : start + rate])
        tokens.append((gates * values[start : start + rate]).sum(axis=0) / gates.sum(axis=0))
        visible.append(np.arange(len(values)) >= start + rate - 1)
    return np.array(tokens), np.array(visible).T


@right("long.top_k")
def choose_by_taking_one_at_a_time(scores, visible, k):
    chosen = np.zeros(scores.shape, dtype=bool)
    left = np.where(visible, scores, -np.inf)
    rows = np.arange(len(scores))
    for _ in range(min(k, scores.shape[1])):
        best = left.argmax(axis=-1)  # the first of equal ones
        chosen[rows, best] |= left[rows, best] > -np.inf
        left[rows, best] = -np.inf
    return chosen


@right("long.top_k")
def choose_by_counting_who_is_better(scores, visible, k):
    """A key is chosen if fewer than k visible keys are better, or as good and earlier."""
    one, other = scores[:, :, None], scores[:, None, :]
    better = (other > one) | ((other == one) & np.tri(scores.shape[1], k=-1, dtype=bool))
    return visible & ((better & visible[:, None, :]).sum(axis=-1) < k)


@wrong("long.top_k", "these are more than k")
def choose_by_partition(scores, visible, k):
    scores = np.where(visible, scores, -np.inf)
    at = scores.shape[1] - min(k, scores.shape[1])
    return visible & (scores >= np.partition(scores, at)[:, at, None])


@right("long.indexer_gradient")
def gradient_by_autograd(weights, scores, seen):
    scores = torch.tensor(scores, requires_grad=True)
    hidden = ~torch.as_tensor(seen)
    guess = scores.masked_fill(hidden, -math.inf).log_softmax(dim=-1).masked_fill(hidden, 0)
    functional.kl_div(guess, torch.as_tensor(weights.mean(0)), reduction="batchmean").backward()
    return scores.grad


@right("long.indexer_gradient")
def gradient_by_loop(weights, scores, seen):
    grad = np.zeros(scores.shape)
    for t, row in enumerate(seen):
        powers = np.exp(scores[t, row] - scores[t, row].max())
        grad[t, row] = (powers / powers.sum() - weights[:, t, row].sum(axis=0) / len(weights)) / len(seen)
    return grad


# The book's answers with a slip
slip(
    "long.absorbed", "should have shape (H, T, R)",
    "q @ parts.transpose(1, 2, 0)", "(q @ parts.transpose(1, 2, 0)).swapaxes(0, 1)",
)  # fmt: skip
slip("long.running_softmax", "yours is [24, 4, 20]", "total = total", "total = 0 * total")
slip("long.running_softmax", "should return 2 things", "return mixed / total,", "return")
slip("long.merge", "lse == −∞", "* mixed_b, lse", "* mixed_b, np.maximum(lse, -1000)")
slip("long.compress", "should be True or False", "last <= np", "last - np")
slip("long.top_k", 'only with kind="stable"', "-scores", "-scores - 1e-9 * (np.arange(scores.shape[1]) > 16)")
slip("long.indexer_gradient", "the sum of each row", "return (", "return 1e-3 * (len(scores) == 3) + (")
