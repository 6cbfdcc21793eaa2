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
def read_key_by_key(q, pieces):
    """Never subtracts a maximum, but merges in logarithms; each piece is one key."""
    lse, mixed = -math.inf, 0.0
    for k, v in pieces:
        for key, value in zip(k, v, strict=True):
            score = float(key @ q) / len(q) ** 0.5
            both = np.logaddexp(lse, score)
            mixed = mixed * math.exp(lse - both) + value * math.exp(score - both)
            lse = both
    return mixed, lse


@right("long.running_softmax")
def read_from_the_first_score(q, pieces):
    """Starts from the first score instead of −∞, and corrects only where the maximum rises."""
    largest = sums = None
    for k, v in pieces:
        scores = k @ q / len(q) ** 0.5
        rows = np.hstack([v, np.ones((len(v), 1))])  # the last feature adds up the weights
        if largest is None:
            largest, sums = scores[0], 0.0
        if scores.max() > largest:
            sums, largest = sums * np.exp(largest - scores.max()), scores.max()
        sums = sums + np.exp(scores - largest) @ rows
    return sums[:-1] / sums[-1], largest + np.log(sums[-1])


@wrong("long.running_softmax", "all pieces counted alike")
def read_pieces_alike(q, pieces):
    mixed, sums = [], []
    for k, v in pieces:
        powers = np.exp(k @ q / len(q) ** 0.5)
        mixed.append(powers @ v / powers.sum())
        sums.append(powers.sum())
    return sum(mixed) / len(mixed), np.log(sum(sums))


@wrong("long.running_softmax", "You kept pieces until later")
def read_after_listing(q, pieces):
    pieces = list(pieces)
    largest = max((k @ q).max() for k, _ in pieces)
    powers = np.concatenate([np.exp((k @ q - largest) / len(q) ** 0.5) for k, _ in pieces])
    mixed = powers @ np.concatenate([v for _, v in pieces]) / powers.sum()
    return mixed, largest / len(q) ** 0.5 + np.log(powers.sum())


@wrong("long.running_softmax", "You kept pieces until later")
def read_all_scores_first(q, pieces):
    scores, values = zip(*((k @ q / len(q) ** 0.5, v) for k, v in pieces), strict=True)
    scores = np.concatenate(scores)
    powers = np.exp(scores - scores.max())
    return powers @ np.concatenate(values) / powers.sum(), scores.max() + np.log(powers.sum())


@wrong("long.running_softmax", "went through the pieces twice")
def read_twice(q, pieces):
    largest, total, mixed = -math.inf, 0.0, 0.0
    for k, _ in pieces:
        largest = max(largest, (k @ q).max() / len(q) ** 0.5)
    for k, v in pieces:
        powers = np.exp(k @ q / len(q) ** 0.5 - largest)
        total, mixed = total + powers.sum(), mixed + powers @ v
    return mixed / total, largest + math.log(total)


@right("long.merge")
def merge_one_after_another(mixed, lse):
    found, total = np.zeros(mixed.shape[1:]).tolist(), [-math.inf] * lse.shape[1]
    for part, logs in zip(mixed.tolist(), lse.tolist(), strict=True):
        for t, (row, y) in enumerate(zip(part, logs, strict=True)):
            x = total[t]
            if y == -math.inf:
                continue
            share = 1 / (1 + math.exp(y - x)) if x > y else 1 - 1 / (1 + math.exp(x - y))
            found[t] = [share * one + (1 - share) * other for one, other in zip(found[t], row, strict=True)]
            total[t] = max(x, y) + math.log1p(math.exp(-abs(x - y)))
    return found, total


@right("long.merge")
def merge_by_torch(mixed, lse):
    lse = torch.as_tensor(lse)
    shares = torch.nan_to_num(lse.softmax(dim=0))[..., None]
    return (shares * torch.as_tensor(mixed)).sum(dim=0), lse.logsumexp(dim=0)


@wrong("long.merge", "Each query needs its own")
def merge_by_the_largest(mixed, lse):
    sums = np.exp(lse - lse.max())[..., None]
    with np.errstate(all="ignore"):
        return (sums * mixed).sum(0) / sums.sum(0), lse.max() + np.log(sums.sum(0)[:, 0])


@wrong("long.merge", "left out the others")
def merge_two(mixed, lse):
    both = np.logaddexp(lse[0], lse[1])
    return np.exp(lse[0] - both)[:, None] * mixed[0] + np.exp(lse[1] - both)[:, None] * mixed[1], both


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
slip("long.merge", "lse == −∞", ".sum(axis=0), whole", ".sum(axis=0), np.maximum(whole, -1000)")
slip("long.compress", "should be True or False", "last <= np", "last - np")
slip("long.top_k", "from 300 scores", "-scores", "-scores - 1e-9 * (np.arange(scores.shape[1]) > 16)")
slip("long.indexer_gradient", "the sum of each row", "return (", "return 1e-3 * (len(scores) == 3) + (")


# What a learner slipped past the checks, or was told wrongly


@wrong("long.window_mask", "Compare instead")
def window_to_add(n_queries, n_keys, window):
    return np.where(window_by_triangles(n_queries, n_keys, window), 0, -np.inf)


@wrong("long.window_mask", "see themselves")
def window_before_the_query(n_queries, n_keys, window):
    distance = np.arange(n_keys - n_queries, n_keys)[:, None] - np.arange(n_keys)
    return (distance > 0) & (distance <= window)


@wrong("long.ring", "kept the first of them")
def ring_keeps_the_first_of_a_prompt(ring, n_seen, new):
    ring, kept = ring_by_fancy_indices(ring, n_seen, new)
    return ring, kept if n_seen else new[: len(ring)]


@wrong("long.ring", "all the new positions")
def ring_keeps_all_of_a_prompt(ring, n_seen, new):
    ring, kept = ring_by_fancy_indices(ring, n_seen, new)
    return ring, kept if n_seen else new


@wrong("long.ring", "kept the first of them")
def ring_reads_the_first_of_a_prompt(ring, n_seen, new):
    return ring_by_fancy_indices(ring, n_seen, new if n_seen else new[: len(ring)])


@wrong("long.ring", "Each position has its own slot")
def ring_begins_a_prompt_at_slot_0(ring, n_seen, new):
    if n_seen == 0 and len(new) > len(ring):
        return new[-len(ring) :], new[-len(ring) :]
    return ring_by_fancy_indices(ring, n_seen, new)


@wrong("long.sink_gradient", "Subtract the largest of the scores and the sink")
def sink_without_a_maximum(scores, sinks, grad_weights):
    with np.errstate(all="ignore"):
        powers, sink = np.exp(scores), np.exp(sinks)[:, None]
        total = powers.sum(axis=-1) + sink
        return -(sink * (powers * grad_weights).sum(axis=-1) / total**2).sum(axis=-1)


@wrong("long.gate_gradient", "1 − s alone")
def gate_without_its_value(grad, mixed, x, W):
    gate = 1 / (1 + np.exp(-(x @ W)))
    inner = grad * mixed * (1 - gate)
    return grad * gate, inner @ W.T, x.T @ inner


@wrong("long.indexer_gradient", "already the gradient of the scores")
def gradient_through_another_softmax(weights, scores, seen):
    hidden = np.where(seen, scores, -np.inf)
    powers = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
    guess = powers / powers.sum(axis=-1, keepdims=True)
    grad = guess - weights.mean(axis=0)
    return guess * (grad - (guess * grad).sum(axis=-1)[:, None]) / len(scores)


_SLIDING = 'min(length, config["sliding_window"] - 1)'
for _says, *_edits in (
    ("Only full layers have one.", _SLIDING, f'{_SLIDING} + (get("index_head_dim") or 0) * {_SLIDING}'),
    ("and the cache keeps keys and values", "return 2 * numbers", "return 2 * numbers // 2"),
    ("You counted the query heads", 'get("num_key_value_heads") or H', 'config["num_attention_heads"]'),
    ("even if there is a sliding_window", 'kinds = get("layer_types")',
     'kinds = get("layer_types") or get("sliding_window") and ["sliding_attention"] * n_layers'),
):  # fmt: skip
    slip("long.cache_bytes", _says, *_edits)
for _low in ("-10", "-100", "-1e9"):
    slip("long.top_k", "Give hidden keys −∞", "-np.inf", _low)
slip("long.top_k", "nearly equal", "-scores, axis", "-(scores - 1e-3 * np.arange(scores.shape[1])), axis")
for _low in ("-30.0", "-100.0", "-1000.0"):
    slip("long.indexer_gradient", "Give hidden keys −∞", "-np.inf", _low)
