"""Answers for chapter 11: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import itertools
import math

import numpy as np
import torch
from torch.nn import functional

from glassformer.chapters.ch08.judges.gpt import gpt
from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("generating.temper")
def temper_to_the_power(logits, temperature):
    """Raises the ratios to the power 1/T and takes logarithms, which gives logits again."""
    if temperature == 0:
        likeliest = np.eye(logits.shape[-1])[logits.argmax(axis=-1)]
        return (likeliest - 1) * 1e9
    return np.log(np.exp(logits) ** (1 / temperature))


@right("generating.top_k")
def top_k_of_torch(logits, k):
    logits = torch.as_tensor(logits)
    best = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.full_like(logits, -math.inf).scatter(-1, best.indices, best.values)


@right("generating.top_p")
def top_p_as_often_in_torch(logits, p):
    logits = torch.as_tensor(logits)
    best, order = logits.sort(dim=-1, descending=True)
    cut = best.softmax(-1).cumsum(-1) >= p
    cut = torch.cat([torch.zeros_like(cut[..., :1]), cut[..., :-1]], dim=-1)
    return logits.masked_fill(cut.scatter(-1, order, cut), -math.inf)


@right("generating.draw")
def draw_along_the_line(probabilities, uniform):
    left, last = uniform, 0
    for i, p in enumerate(probabilities):
        if p > 0:
            last = i
            if left < p:
                return i
            left -= p
    return last


@right("generating.draw")
def draw_by_counting(probabilities, uniform):
    ends = np.cumsum(probabilities)
    return int((ends / ends[-1] <= uniform).sum())


@wrong("generating.draw", "it does not use the number")
def draw_of_its_own(probabilities, uniform):
    return np.random.default_rng().choice(len(probabilities), p=probabilities)


def choose(logits, temperature, k, p, generator):
    logits = torch.as_tensor(np.asarray(logits))
    if temperature == 0:
        return int(logits.argmax())
    logits = torch.as_tensor(top_k_of_torch(logits / temperature, k or len(logits)))
    q = torch.as_tensor(top_p_as_often_in_torch(logits, p or 1.0)).softmax(-1)
    return draw_by_counting(q.numpy(), generator.random())


@right("generating.generate")
def generate_in_torch(ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None):
    ids = torch.as_tensor(ids)
    places = len(weights["decoder.positions.weight"])
    for _ in range(n_new):
        logits = gpt(ids[-places:].numpy(), weights, n_heads)[-1]
        ids = torch.cat([ids, torch.tensor([choose(logits, temperature, k, p, generator)])])
    return ids


@right("generating.generate_cached")
def cached_in_lists(ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None):
    memory, text, logits = {}, [], None
    for t in range(len(ids) + n_new):
        new = int(ids[t]) if t < len(ids) else choose(logits, temperature, k, p, generator)
        text.append(new)
        logits = step_in_torch(new, weights, n_heads, memory)
    return text


@wrong("generating.generate_cached", "should have shape (T) = (7,); yours has shape (1, 7)")
def cached_as_a_batch(ids, weights, n_heads, n_new, **options):
    return [cached_in_lists(ids, weights, n_heads, n_new, **options)]


@right("generating.beam")
def beam_by_argsort(next_log_p, n_new, width):
    beams, totals = [()], np.zeros(1)
    for _ in range(n_new):
        grown = totals[:, None] + np.array([next_log_p(one) for one in beams])
        best = np.argsort(-grown, axis=None, kind="stable")[:width]
        rows, ids = np.unravel_index(best, grown.shape)
        beams = [(*beams[row], int(i)) for row, i in zip(rows, ids, strict=True)]
        totals = grown[rows, ids]
    return np.array(beams[0]), totals[0]


@right("generating.changes")
def changes_by_paths(mask, position, n_layers):
    """Returns the positions that reach this position in at most that many steps."""
    steps = np.linalg.matrix_power
    sees = mask.astype(int) | np.eye(len(mask), dtype=int)
    return [steps(sees, i)[:, position] > 0 for i in range(n_layers)]


@right("generating.cells")
def cells_counted(n):
    steps = range(1, n + 1)
    return n**2, sum(steps), sum(t * t for t in steps), sum(steps)


@right("generating.cache_bytes")
def bytes_of_real_arrays(n_layers, n_kv_heads, d_head, length, *, bytes_per_number=2, batch=1):
    one = np.broadcast_to(np.zeros((), np.int8), (2, n_layers, batch, n_kv_heads, length, d_head))
    return one.size * bytes_per_number


@wrong("generating.step", "everything that later ids need has to be in it")
def step_remembers_outside(id, weights, n_heads, cache, own={}):  # noqa: B006 - what it remembers
    return step_in_torch(id, weights, n_heads, own if len(own.get((0, "k"), ())) < 8 else {})


@right("generating.step")
def step_in_torch(id, weights, n_heads, cache):
    w = {name: torch.as_tensor(one) for name, one in weights.items()}
    D = w["token_embedding.weight"].shape[1]

    def norm(x, name):
        return functional.layer_norm(x, (D,), w[f"{name}.weight"], w[f"{name}.bias"])

    t = len(cache.get((0, "k"), ()))
    x = w["token_embedding.weight"][id] + w["decoder.positions.weight"][t]
    for i in itertools.count():
        at = f"decoder.blocks.{i}."
        if f"{at}norm_attention.weight" not in w:
            break
        normed = norm(x, f"{at}norm_attention")
        q, k, v = ((normed @ w[f"{at}attention.W_{n}.weight"]).view(n_heads, -1) for n in "qkv")
        for name, new in (("k", k), ("v", v)):
            cache.setdefault((i, name), []).append(new)
        keys, values = (torch.stack(cache[i, name], dim=1) for name in "kv")
        mixed = functional.scaled_dot_product_attention(q[:, None], keys, values)
        x = x + mixed.reshape(-1) @ w[f"{at}attention.W_o.weight"]
        normed = norm(x, f"{at}norm_feedforward")
        inner = functional.gelu(normed @ w[f"{at}feedforward.W_up.weight"] + w[f"{at}feedforward.W_up.bias"])
        x = x + inner @ w[f"{at}feedforward.W_down.weight"] + w[f"{at}feedforward.W_down.bias"]
    return norm(x, "decoder.norm") @ w["token_embedding.weight"].T


@right("generating.diagnose")
def diagnose_by_prefixes(read, write, ids):
    """Uses that a model without a leak reads a prefix just as it reads it in the whole text."""
    whole = np.asarray(read(ids))
    if any(abs(np.asarray(read(ids[: t + 1]))[-1] - whole[t]).max() > 1e-3 for t in range(len(ids))):
        return "leak"
    if abs(whole - np.asarray(write(ids))).max() > 1e-3:
        return "cache"
    says = whole.argmax(axis=-1)
    return "fine" if (says[:-1] == ids[1:]).mean() >= (says == ids).mean() else "targets"


# The book's answers with a slip
slip("generating.temper", "leaves nothing to draw from", "logits / temperature", "0 * logits - np.inf")
slip(
    "generating.top_k", "should have shape (5,)",
    "np.where(logits < smallest, -np.inf, logits)", "np.sort(logits)[-k:]",
)  # fmt: skip
slip("generating.top_p", "softmax of top_p(logits, 0.8)", "before >= p", "before > 1")
slip(
    "generating.generate", "should have shape (T) = (7,); yours has shape (1, 7)",
    "return np.array(text)", "return np.array([text])",
)  # fmt: skip
slip("generating.beam", "in the wrong order", "return list(ids), total", "return total, list(ids)")
slip("generating.beam", "all of the texts", "return list(ids), total", "return texts")
slip("generating.changes", "Make it one with `dtype=bool`", "np.array(rows)", "np.array(rows).astype(int)")
slip("generating.cells", "your function should return 4 things", "return n * n, ", "return ")
slip("generating.step", "should have shape (V) = (9,); yours has shape (1, 9)", ".T)[0]", ".T)")
slip("generating.diagnose", "should be 'fine'", 'else "fine"', 'else "nothing"')
