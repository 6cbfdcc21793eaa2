"""Tests the reader's own file end to end: the functions that readers keep, put together, make models that run."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from close import DOUBLE, SINGLE, assert_close
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer import scratch, shipped
from glassformer.exercises import check, commands, exercises, keep, own_file
from glassformer.exercises.own_file import ENVIRONMENT
from glassformer.exercises.record import ENVIRONMENT as PROGRESS
from glassformer.exercises.record import Record
from glassformer.generate import generate as written
from glassformer.published import published
from glassformer.tasks import NextToken
from glassformer.text import corpus
from glassformer.train import TrainingConfig, train_in_numpy

from .test_keep import shell  # noqa: F401 - a notebook's kernel

LINE = "A horse! a horse! my kingdom for a horse!"

# As a reader might write them, in the order of the book. Each cell ends in a function that is saved.
CELLS = [
    """
    import math

    import numpy as np
    """,
    """
    def encode(text, characters):
        for place, one in enumerate(text):
            if one not in characters:
                raise ValueError(f"{one!r} at {place} is unknown")
        return np.array([characters.index(one) for one in text], dtype=int)
    """,
    """
    def embed(ids, table):
        for one in np.ravel(ids):
            if not 0 <= one < len(table):
                raise ValueError(f"id {one} is not in 0 … {len(table) - 1}")
        return table[ids]
    """,
    """
    def softmax(x):
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    """,
    """
    def causal_mask(n_queries, n_keys):
        return np.tri(n_queries, n_keys, n_keys - n_queries, dtype=bool)
    """,
    """
    def scaled_dot_product_attention(q, k, v, *, mask=None):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        weights = softmax(scores)
        return weights @ v, weights
    """,
    """
    def split_heads(x, n_heads):
        *B, T, D = x.shape
        if D % n_heads:
            raise ValueError(f"{D} numbers for {n_heads} heads")
        return x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)
    """,
    """
    def merge_heads(x):
        *B, H, T, K = x.shape
        return x.swapaxes(-3, -2).reshape(*B, T, H * K)
    """,
    """
    def multi_head(x, W_q, W_k, W_v, W_o, n_heads):
        q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
        return merge_heads(scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x), len(x)))[0]) @ W_o
    """,
    """
    def rotary(x, base=10_000.0):
        T, K = x.shape[-2:]
        angles = np.arange(T)[:, None] * base ** (-2 * np.arange(K // 2) / K)
        a, b = x[..., : K // 2], x[..., K // 2 :]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    """,
    """
    def layer_norm(x, weight, bias, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * weight + bias
    """,
    """
    def rms_norm(x, weight, eps=1e-5):
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight
    """,
    """
    def gelu(x):
        return x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
    """,
    """
    def feed_forward(x, W_up, b_up, W_down, b_down):
        return gelu(x @ W_up + b_up) @ W_down + b_down
    """,
    """
    def silu(x):
        return x * np.exp(-np.logaddexp(0, -x))
    """,
    """
    def swiglu(x, W_gate, W_up, W_down):
        return (silu(x @ W_gate) * (x @ W_up)) @ W_down
    """,
    """
    def block(x, weights, n_heads):
        def some(part, *names):
            return [weights[f"{part}.{name}"] for name in names]

        normed = layer_norm(x, *some("norm_attention", "weight", "bias"))
        x = x + multi_head(normed, *some("attention", *(f"W_{n}.weight" for n in "qkvo")), n_heads)
        normed = layer_norm(x, *some("norm_feedforward", "weight", "bias"))
        names = "W_up.weight", "W_up.bias", "W_down.weight", "W_down.bias"
        return x + feed_forward(normed, *some("feedforward", *names))
    """,
    """
    def check_ids(ids, vocab_size, context_length):
        if ids.shape[-1] > context_length:
            raise ValueError(f"{ids.shape[-1]} tokens, but the context is {context_length}")
        for one in (ids.min(), ids.max()):
            if not 0 <= one < vocab_size:
                raise ValueError(f"id {one} is not in 0 … {vocab_size - 1}")
        return ids
    """,
    """
    def gpt(ids, weights, n_heads):
        table, places = weights["token_embedding.weight"], weights["decoder.positions.weight"]
        x = embed(ids, table) + places[: len(ids)]
        i = 0
        while f"decoder.blocks.{i}.norm_attention.weight" in weights:
            at = f"decoder.blocks.{i}."
            x = block(x, {n.removeprefix(at): w for n, w in weights.items() if n.startswith(at)}, n_heads)
            i += 1
        x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
        return x @ table.T
    """,
    """
    def shakespeare(ids, weights, n_heads, scale):
        x = embed(ids, weights["token_embedding.weight"])
        x = rms_norm(x, weights["decoder.embedding_norm.weight"])
        i = 0
        while f"decoder.blocks.{i}.norm_attention.weight" in weights:
            at = f"decoder.blocks.{i}."
            w = {n[len(at) :].removesuffix(".weight"): v for n, v in weights.items() if n.startswith(at)}
            h = rms_norm(x, w["norm_attention"])
            q, k, v = (split_heads(h @ w[f"attention.W_{n}"], n_heads) for n in "qkv")
            q, k = (rotary(rms_norm(y, w[f"attention.norm_{n}"])) for y, n in ((q, "q"), (k, "k")))
            q = q * scale * math.sqrt(q.shape[-1])
            mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x), len(x)))
            x = x + merge_heads(mixed) @ w["attention.W_o"]
            h = rms_norm(x, w["norm_feedforward"])
            x = x + swiglu(h, *(w[f"feedforward.W_{n}"] for n in ("gate", "up", "down")))
            i += 1
        return rms_norm(x, weights["decoder.norm.weight"]) @ weights["unembedding.weight"]
    """,
    """
    def cross_entropy(logits, targets):
        top = logits.max(axis=-1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))
        return np.mean(total - logits[np.arange(len(targets)), targets])
    """,
    """
    def cross_entropy_backward(logits, targets):
        return (softmax(logits) - np.eye(logits.shape[-1])[targets]) / len(targets)
    """,
    """
    def linear_backward(grad, x, W):
        return grad @ W.T, x.T @ grad
    """,
    """
    def layer_norm_backward(grad, x, weight, bias, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
        y, g = centred / size, grad * weight
        grad_x = (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)) / size
        return grad_x, (grad * y).sum(axis=0), grad.sum(axis=0)
    """,
    """
    def gelu_slope(x):
        below = (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
        return below + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    """,
    """
    def feed_forward_backward(grad, x, W_up, b_up, W_down, b_down):
        up = x @ W_up + b_up
        wide, grad_down = linear_backward(grad, gelu(up), W_down)
        wide = wide * gelu_slope(up)
        grad_x, grad_up = linear_backward(wide, x, W_up)
        return grad_x, grad_up, wide.sum(axis=0), grad_down, grad.sum(axis=0)
    """,
    """
    def softmax_backward(grad, weights):
        return weights * (grad - (grad * weights).sum(axis=-1, keepdims=True))
    """,
    """
    def scaled_dot_product_attention_backward(grad, q, k, v, *, mask=None):
        _, weights = scaled_dot_product_attention(q, k, v, mask=mask)
        scores = softmax_backward(grad @ v.swapaxes(-1, -2), weights) / np.sqrt(q.shape[-1])
        return scores @ k, scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad
    """,
    """
    def multi_head_backward(grad, x, W_q, W_k, W_v, W_o, n_heads):
        mask = causal_mask(len(x), len(x))
        q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
        mixed, _ = scaled_dot_product_attention(q, k, v, mask=mask)
        grad, grad_o = linear_backward(grad, merge_heads(mixed), W_o)
        found = scaled_dot_product_attention_backward(split_heads(grad, n_heads), q, k, v, mask=mask)
        back = [linear_backward(merge_heads(g), x, W) for g, W in zip(found, (W_q, W_k, W_v))]
        return sum(g for g, _ in back), *(g for _, g in back), grad_o
    """,
    """
    def block_backward(grad, x, weights, n_heads):
        def some(part, *names):
            return [weights[f"{part}.{name}"] for name in names]

        first, second = (some(part, "weight", "bias") for part in ("norm_attention", "norm_feedforward"))
        matrices = some("attention", *(f"W_{n}.weight" for n in "qkvo"))
        maps = "W_up.weight", "W_up.bias", "W_down.weight", "W_down.bias"
        normed = layer_norm(x, *first)
        middle = x + multi_head(normed, *matrices, n_heads)
        own = {}
        back, *found = feed_forward_backward(grad, layer_norm(middle, *second), *some("feedforward", *maps))
        own |= {f"feedforward.{n}": g for n, g in zip(maps, found)}
        back, own["norm_feedforward.weight"], own["norm_feedforward.bias"] = layer_norm_backward(
            back, middle, *second
        )
        grad = grad + back
        back, *found = multi_head_backward(grad, normed, *matrices, n_heads)
        own |= {f"attention.W_{n}.weight": g for n, g in zip("qkvo", found)}
        back, own["norm_attention.weight"], own["norm_attention.bias"] = layer_norm_backward(back, x, *first)
        return grad + back, own
    """,
    """
    def gpt_gradients(ids, targets, weights, n_heads):
        table, places = weights["token_embedding.weight"], weights["decoder.positions.weight"]
        ends = weights["decoder.norm.weight"], weights["decoder.norm.bias"]
        blocks = []
        while f"decoder.blocks.{len(blocks)}.norm_attention.weight" in weights:
            at = f"decoder.blocks.{len(blocks)}."
            blocks.append({n.removeprefix(at): w for n, w in weights.items() if n.startswith(at)})
        stream = [embed(ids, table) + places[: len(ids)]]
        for own in blocks:
            stream.append(block(stream[-1], own, n_heads))
        normed = layer_norm(stream[-1], *ends)
        logits = normed @ table.T
        grad, grad_head = linear_backward(cross_entropy_backward(logits, targets), normed, table.T)
        grads = {"token_embedding.weight": grad_head.T, "decoder.positions.weight": np.zeros_like(places)}
        grad, grads["decoder.norm.weight"], grads["decoder.norm.bias"] = layer_norm_backward(
            grad, stream[-1], *ends
        )
        for i in range(len(blocks) - 1, -1, -1):
            grad, own = block_backward(grad, stream[i], blocks[i], n_heads)
            grads |= {f"decoder.blocks.{i}.{n}": g for n, g in own.items()}
        np.add.at(grads["token_embedding.weight"], ids, grad)
        grads["decoder.positions.weight"][: len(ids)] = grad
        return cross_entropy(logits, targets), grads
    """,
    # Chapter 11
    """
    def temper(logits, temperature):
        if temperature > 0:
            return logits / temperature
        likeliest = logits.argmax(axis=-1, keepdims=True) == np.arange(logits.shape[-1])
        return np.where(likeliest, 0.0, -np.inf)
    """,
    """
    def top_k(logits, k):
        smallest = np.sort(logits, axis=-1)[..., -min(k, logits.shape[-1]), None]
        return np.where(logits < smallest, -np.inf, logits)
    """,
    """
    def top_p(logits, p):
        order = np.argsort(-logits, axis=-1)
        shares = np.take_along_axis(softmax(logits), order, axis=-1)
        out = np.zeros(logits.shape, dtype=bool)
        np.put_along_axis(out, order, np.cumsum(shares, axis=-1) - shares >= p, axis=-1)
        return np.where(out, -np.inf, logits)
    """,
    """
    def draw(probabilities, uniform):
        ends = np.cumsum(probabilities)
        return int(np.searchsorted(ends, uniform * ends[-1], side="right"))
    """,
    """
    def generate(ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None):
        ids, context = list(ids), len(weights["decoder.positions.weight"])
        for _ in range(n_new):
            logits = temper(gpt(np.array(ids[-context:]), weights, n_heads)[-1], temperature)
            logits = logits if k is None else top_k(logits, k)
            q = softmax(logits if p is None else top_p(logits, p))
            ids.append(int(q.argmax()) if temperature == 0 else draw(q, generator.random()))
        return np.array(ids)
    """,
    """
    def beam(next_log_p, n_new, width):
        texts = [((), 0.0)]
        for _ in range(n_new):
            grown = [((*ids, i), total + x) for ids, total in texts for i, x in enumerate(next_log_p(ids))]
            texts = sorted(grown, key=lambda text: -text[1])[:width]
        return list(texts[0][0]), texts[0][1]
    """,
    """
    def step(id, weights, n_heads, cache):
        t, i = cache.get("t", 0), 0
        x = (weights["token_embedding.weight"][id] + weights["decoder.positions.weight"][t])[None]
        while f"decoder.blocks.{i}.norm_attention.weight" in weights:
            at = f"decoder.blocks.{i}."
            w = {n.removeprefix(at): one for n, one in weights.items() if n.startswith(at)}
            h = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
            q, k, v = (split_heads(h @ w[f"attention.W_{n}.weight"], n_heads) for n in "qkv")
            if t:
                k, v = (np.concatenate(pair, axis=1) for pair in zip(cache[i], (k, v)))
            cache[i] = k, v
            x = x + merge_heads(scaled_dot_product_attention(q, k, v)[0]) @ w["attention.W_o.weight"]
            h = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
            names = "W_up.weight", "W_up.bias", "W_down.weight", "W_down.bias"
            x = x + feed_forward(h, *(w[f"feedforward.{n}"] for n in names))
            i += 1
        cache["t"] = t + 1
        x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
        return (x @ weights["token_embedding.weight"].T)[0]
    """,
    """
    def generate_cached(ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None):
        cache, ids = {}, list(ids)
        for one in ids:
            logits = step(int(one), weights, n_heads, cache)
        for n in range(n_new):
            if n:
                logits = step(ids[-1], weights, n_heads, cache)
            x = temper(logits, temperature)
            x = x if k is None else top_k(x, k)
            q = softmax(x if p is None else top_p(x, p))
            ids.append(int(q.argmax()) if temperature == 0 else draw(q, generator.random()))
        return np.array(ids)
    """,
]

# Chapter 10
CELLS += [
    """
    def batches(ids, size, length, generator):
        while True:
            starts = generator.integers(len(ids) - length, size=size)
            windows = ids[starts[:, None] + np.arange(length + 1)]
            yield windows[:, :-1], windows[:, 1:]
    """,
    """
    def clip(gradients, max_norm):
        norm = math.sqrt(sum((g**2).sum() for g in gradients.values()))
        factor = min(1.0, max_norm / (norm + 1e-6))
        return {name: g * factor for name, g in gradients.items()}, norm
    """,
    """
    def rate_at(step, peak, warmup, steps, final_share=0.1):
        if step < warmup:
            return peak * (step + 1) / (warmup + 1)
        p = (step - warmup) / (steps - warmup)
        return peak * (final_share + (1 - final_share) * (1 + math.cos(math.pi * p)) / 2)
    """,
    """
    def adamw(weight, grad, m, v, step, rate, betas=(0.9, 0.95), eps=1e-8, decay=0.1):
        m = betas[0] * m + (1 - betas[0]) * grad
        v = betas[1] * v + (1 - betas[1]) * grad**2
        mean, square = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
        weight = weight - rate * decay * weight
        return weight - rate * mean / (np.sqrt(square) + eps), m, v
    """,
    """
    def train(weights, n_heads, batches, steps, *, peak=1e-2, warmup=20, max_norm=1.0):
        memory = {name: (0.0, 0.0) for name in weights}
        for step, (inputs, targets) in zip(range(steps), batches):
            found = [gpt_gradients(x, y, weights, n_heads) for x, y in zip(inputs, targets)]
            mean = {name: sum(g[name] for _, g in found) / len(found) for name in weights}
            mean, _ = clip(mean, max_norm)
            rate = rate_at(step, peak, warmup, steps)
            for name, g in mean.items():
                decay = 0.1 if g.ndim == 2 else 0.0
                weights[name], *memory[name] = adamw(weights[name], g, *memory[name], step + 1, rate, decay=decay)
            yield np.mean([loss for loss, _ in found])
    """,
    """
    def gpt_torch(ids, weights, n_heads):
        from torch.nn import functional

        def norm(x, part):
            return functional.layer_norm(x, x.shape[-1:], weights[f"{part}.weight"], weights[f"{part}.bias"])

        x = weights["token_embedding.weight"][ids] + weights["decoder.positions.weight"][: len(ids)]
        i = 0
        while f"decoder.blocks.{i}.norm_attention.weight" in weights:
            at = f"decoder.blocks.{i}."
            h = norm(x, f"{at}norm_attention")
            q, k, v = (
                (h @ weights[f"{at}attention.W_{n}.weight"]).unflatten(-1, (n_heads, -1)).transpose(0, 1)
                for n in "qkv"
            )
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + mixed.transpose(0, 1).flatten(1) @ weights[f"{at}attention.W_o.weight"]
            h = norm(x, f"{at}norm_feedforward")
            h = h @ weights[f"{at}feedforward.W_up.weight"] + weights[f"{at}feedforward.W_up.bias"]
            h = functional.gelu(h) @ weights[f"{at}feedforward.W_down.weight"]
            x = x + h + weights[f"{at}feedforward.W_down.bias"]
            i += 1
        return norm(x, "decoder.norm") @ weights["token_embedding.weight"].T
    """,
]

# Chapters 12 and 13
CELLS += [
    """
    def padding_mask(lengths, S):
        return (np.arange(S) < np.asarray(lengths)[:, None])[:, None, None]
    """,
    """
    def encoder(ids, weights, n_heads):
        table, i = weights["token_embedding.weight"], 0
        x = embed(ids, table) + weights["encoder.positions.weight"][: len(ids)]
        while f"encoder.blocks.{i}.norm_attention.weight" in weights:
            at = f"encoder.blocks.{i}."
            w = {n.removeprefix(at): one for n, one in weights.items() if n.startswith(at)}
            h = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
            q, k, v = (split_heads(h @ w[f"attention.W_{n}.weight"], n_heads) for n in "qkv")
            x = x + merge_heads(scaled_dot_product_attention(q, k, v)[0]) @ w["attention.W_o.weight"]
            h = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
            names = "W_up.weight", "W_up.bias", "W_down.weight", "W_down.bias"
            x = x + feed_forward(h, *(w[f"feedforward.{n}"] for n in names))
            i += 1
        return layer_norm(x, weights["encoder.norm.weight"], weights["encoder.norm.bias"]) @ table.T
    """,
    """
    def cover(ids, chosen, fate, other, mask_id):
        read = np.where(fate < 0.8, mask_id, np.where(fate < 0.9, other, ids))
        return np.where(chosen, read, ids), np.where(chosen, ids, -100)
    """,
    """
    def loss(logits, targets):
        asked = targets != -100
        return cross_entropy(logits[asked], targets[asked])
    """,
    """
    def look_across(x, memory, W_q, W_k, W_v, W_o, n_heads, real):
        q, k, v = (split_heads(y @ W, n_heads) for y, W in ((x, W_q), (memory, W_k), (memory, W_v)))
        return merge_heads(scaled_dot_product_attention(q, k, v, mask=real)[0]) @ W_o
    """,
    """
    def shifted(answers, start_id, stop_id, pad_id):
        T = 1 + max(map(len, answers))
        ids, targets = np.full((len(answers), T), pad_id), np.full((len(answers), T), -100)
        for row, answer in enumerate(answers):
            ids[row, : len(answer) + 1] = [start_id, *answer]
            targets[row, : len(answer) + 1] = [*answer, stop_id]
        return ids, targets
    """,
    """
    def translate(next_logits, start_id, stop_id, n_most):
        ids = [start_id]
        while len(ids) <= n_most and (new := int(np.argmax(next_logits(np.array(ids))))) != stop_id:
            ids.append(new)
        return ids[1:]
    """,
    """
    import json

    def read_tensor(data, name):
        start = 8 + int.from_bytes(data[:8], "little")
        entry = json.loads(data[8:start])[name]
        begin, end = entry["data_offsets"]
        kind = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[entry["dtype"]]
        row = np.frombuffer(data[start + begin : start + end], kind)
        if kind == "<u2":
            row = (row.astype("<u4") << 16).view("<f4")
        return row.astype(np.float32).reshape(entry["shape"])
    """,
    """
    def gelu_tanh(x):
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    """,
    """
    def gpt2(ids, weights, n_heads):
        def norm(x, name):
            return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

        def linear(x, name):
            return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

        T, i = len(ids), 0
        x = weights["wte.weight"][ids] + weights["wpe.weight"][:T]
        while f"h.{i}.ln_1.weight" in weights:
            at = f"h.{i}"
            three = np.split(linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3, axis=-1)
            q, k, v = (split_heads(one, n_heads) for one in three)
            mixed = scaled_dot_product_attention(q, k, v, mask=causal_mask(T, T))[0]
            x = x + linear(merge_heads(mixed), f"{at}.attn.c_proj")
            x = x + linear(gelu_tanh(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")), f"{at}.mlp.c_proj")
            i += 1
        return norm(x, "ln_f") @ weights["wte.weight"].T
    """,
]


@pytest.fixture(scope="module")
def own(shell, tmp_path_factory):  # noqa: F811
    """Returns the file after a reader has written, checked and kept all functions."""
    named = {
        exercise.reference.__name__: exercise.name for exercise in reversed(exercises())
    }  # the first of a name
    path = tmp_path_factory.mktemp("reader") / "my_transformer.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(path))
        patch.setattr(commands, "display", lambda panel: None)
        patch.setenv(PROGRESS, str(path.with_name("progress.json")))
        patch.setattr(commands, "_record", Record())
        patch.setattr(commands, "_accepted", {})
        shell.user_ns["__name__"] = "__main__"
        shell.init_user_ns()
        for source in map(textwrap.dedent, CELLS):
            shell.run_cell(source, store_history=True).raise_error()
            for name in re.findall(r"^def (\w+)", source, re.MULTILINE):
                written = shell.user_ns[name]
                assert check(named[name], written) is written, name
                keep(written)
        assert own_file.trouble() == ""
    return path


def small_gpt(**sizes):
    """Returns a small model of GPT-2's kind, in which no bias is 0 and no gain is 1."""
    config = published("gpt2").config.replace(
        vocab_size=65, attention_bias="none", feedforward="gelu", **sizes
    )
    rng = np.random.default_rng(0)
    model = scratch.Transformer(config, generator=rng, dtype=np.float64)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.1
    return model


ALONE = """
import sys
assert "glassformer" not in sys.modules
"""


def elsewhere(own, folder, program):
    """Returns what a program prints in another Python that can import the reader's file but not this package."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) + ALONE],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(own.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


def test_it_stands_alone_and_has_all_parts(own):
    text = own.read_text(encoding="utf-8")
    kept = re.findall(r"^def (\w+)", text, re.MULTILINE)
    assert kept == [name for cell in CELLS for name in re.findall(r"^    def (\w+)", cell, re.MULTILINE)]
    assert sorted(re.findall(r"^(?:import|from) .*", text, re.MULTILINE)) == [
        "import json",
        "import math",
        "import numpy as np",
    ]


def test_it_trains_itself_as_the_package_does_and_goes_on_in_pytorch(own, tmp_path):
    """Without the package: trains 20 steps on Shakespeare; PyTorch confirms the gradients and takes one more step."""
    model = small_gpt(context_length=16, d_model=12, n_layers=1, n_heads=3)
    task = NextToken(shipped.load()[1].encode(corpus()[:20_000]), 16, batch_size=4, seed=0)
    learned = [task.batch(step) for step in range(20)]
    np.savez(tmp_path / "weights.npz", **model.named_parameters())
    np.save(tmp_path / "batches.npy", np.array([[inputs["ids"], targets] for inputs, targets in learned]))
    program = """
        import numpy as np
        import torch
        from my_transformer import batches, gpt_gradients, gpt_torch, train

        weights, learned = dict(np.load("weights.npz")), np.load("batches.npy")
        losses = list(train(weights, 3, learned, 20, peak=1e-2, warmup=5))
        np.save("losses.npy", losses)
        text = learned[0, 0].ravel()
        x, y = (one[0] for one in next(batches(text, 1, 12, np.random.default_rng(0))))
        _, grads = gpt_gradients(x, y, weights, 3)
        tensors = {name: torch.tensor(w, requires_grad=True) for name, w in weights.items()}
        optimizer = torch.optim.AdamW(tensors.values(), lr=1e-2)
        loss = [0, 0]
        for i in range(2):
            optimizer.zero_grad()
            loss[i] = torch.nn.functional.cross_entropy(gpt_torch(torch.tensor(x), tensors, 3), torch.tensor(y))
            loss[i].backward()
            if i == 0:
                off = max(abs(tensors[name].grad.numpy() - g).max() for name, g in grads.items())
            optimizer.step()
        print(off < 1e-12, (loss[1] < loss[0]).item())
    """
    assert elsewhere(own, tmp_path, program) == "True True"
    plan = TrainingConfig(
        steps=20,
        batch_size=4,
        learning_rate=1e-2,
        warmup=5,
        decay="cosine",
        final_share=0.1,
        weight_decay=0.1,
    )
    assert_close(np.load(tmp_path / "losses.npy"), list(train_in_numpy(model, task, plan)), 2e-11)


def test_another_python_runs_it_and_gets_the_packages_numbers(own, tmp_path):
    """A kernel without this package loads weights of `scratch` and gets the same logits."""
    random = small_gpt(context_length=48, d_model=24, n_layers=3, n_heads=4)
    model, tokenizer = shipped.load()
    ids = tokenizer.encode(LINE)
    np.savez(tmp_path / "random.npz", **random.named_parameters())
    np.savez(tmp_path / "shipped.npz", **model.named_parameters())
    program = f"""
        import numpy as np
        from my_transformer import check_ids, encode, gpt, shakespeare

        ids = check_ids(encode({LINE!r}, {tokenizer.characters!r}), 65, 48)
        np.save("random.npy", gpt(ids, dict(np.load("random.npz")), 4))
        np.save("shipped.npy", shakespeare(ids, dict(np.load("shipped.npz")), 4, {model.config.attention_scale}))
    """
    assert elsewhere(own, tmp_path, program) == ""
    assert_close(np.load(tmp_path / "random.npy"), random(ids), DOUBLE)
    assert_close(np.load(tmp_path / "shipped.npy"), model(ids), SINGLE)


def test_its_gradients_are_the_packages(own, tmp_path):
    """Without the package: compares the loss and the gradient of every weight of a small GPT."""
    model = small_gpt(context_length=48, d_model=12, n_layers=2, n_heads=3)
    ids = shipped.load()[1].encode(LINE)
    np.savez(tmp_path / "weights.npz", **model.named_parameters())
    np.save(tmp_path / "ids.npy", ids)
    program = """
        import numpy as np
        from my_transformer import gpt_gradients

        ids = np.load("ids.npy")
        loss, grads = gpt_gradients(ids[:-1], ids[1:], dict(np.load("weights.npz")), 3)
        np.savez("found.npz", loss=loss, **grads)
    """
    assert elsewhere(own, tmp_path, program) == ""
    saved = []
    logits = model(ids[:-1], saved=saved)
    model.backward(scratch.cross_entropy_backward(logits, ids[1:]), saved)
    found = dict(np.load(tmp_path / "found.npz"))
    assert_close(found.pop("loss"), scratch.cross_entropy(logits, ids[1:]), DOUBLE)
    right = model.gradients()
    assert found.keys() == right.keys() == model.named_parameters().keys()
    largest = max(np.abs(gradient).max() for gradient in right.values())
    for name, gradient in right.items():
        assert_close(found[name], gradient, 0, beside=DOUBLE * largest, what=name)


def test_another_python_writes_with_it_and_with_a_cache_the_same(own, tmp_path):
    """The reader's code writes the package's text, greedy and sampled, with and without a cache."""
    random = small_gpt(context_length=24, d_model=16, n_layers=2, n_heads=2)
    ids = np.arange(5)
    np.savez(tmp_path / "random.npz", **random.named_parameters())
    program = """
        import numpy as np
        from my_transformer import generate, generate_cached

        weights = dict(np.load("random.npz"))
        for name, options in {"greedy": {"temperature": 0}, "drawn": {"temperature": 1.5, "k": 40, "p": 0.9}}.items():
            for write in (generate, generate_cached):
                rng = np.random.default_rng(0)
                text = write(np.arange(5), weights, 2, 16, generator=rng, **options)
                np.save(f"{name} {write.__name__}.npy", text)
    """
    assert elsewhere(own, tmp_path, program) == ""
    for name, options in {
        "greedy": {"temperature": 0},
        "drawn": {"temperature": 1.5, "top_k": 40, "top_p": 0.9},
    }.items():
        [want] = written(random, ids, 16, generator=np.random.default_rng(0), **options)
        for write in ("generate", "generate_cached"):
            np.testing.assert_array_equal(np.load(tmp_path / f"{name} {write}.npy"), want)


def test_another_python_reads_a_folder_of_transformers_with_it(own, tmp_path):
    """The reader's functions read a GPT-2 folder written by transformers and compute its logits."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=40, n_positions=16, n_embd=24, n_layer=2, n_head=3)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():  # no bias is 0 and no gain 1
            weight += 0.1 * torch.randn_like(weight)
    model.save_pretrained(tmp_path)
    program = """
        import json
        import numpy as np
        from my_transformer import gpt2, read_tensor

        data = open("model.safetensors", "rb").read()
        names = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).keys() - {"__metadata__"}
        weights = {name.removeprefix("transformer."): read_tensor(data, name) for name in names}
        np.save("logits.npy", gpt2(np.arange(12), weights, 3))
    """
    assert elsewhere(own, tmp_path, program) == ""
    with torch.no_grad():
        want = model(torch.arange(12)[None]).logits[0]
    assert_close(np.load(tmp_path / "logits.npy"), want, SINGLE)


def test_another_python_runs_an_encoder_and_a_translator_with_it(own, tmp_path):
    """The encoder's logits equal the package's; the translator masks, attends to the source and stops as it should."""
    config = published("gpt2").config.replace(
        family="encoder", vocab_size=65, attention_bias="none", feedforward="gelu",
        context_length=48, d_model=24, n_layers=2, n_heads=4,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    model = scratch.Transformer(config, generator=rng, dtype=np.float64)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.1
    ids = shipped.load()[1].encode(LINE)
    np.savez(tmp_path / "weights.npz", **model.named_parameters())
    np.save(tmp_path / "ids.npy", ids)
    program = """
        import numpy as np
        from my_transformer import cover, encoder, loss, look_across, padding_mask, shifted, translate

        ids, weights = np.load("ids.npy"), dict(np.load("weights.npz"))
        logits = encoder(ids, weights, 4)
        np.save("logits.npy", logits)
        chosen = np.arange(len(ids)) % 7 == 0
        read, targets = cover(ids, chosen, np.zeros(len(ids)), ids, 64)
        print(sum(read == 64), round(loss(logits, targets), 9))
        x = np.random.default_rng(0).normal(size=(5, 4))
        real = padding_mask([3], 5)[0, 0, 0]
        maps = np.eye(4)[None].repeat(4, 0)
        others = np.where(real[:, None], x, 9)
        print(np.array_equal(look_across(x, x, *maps, 2, real), look_across(x, others, *maps, 2, real)))
        read, asked = shifted([[3, 1, 2]], 7, 8, 9)
        after = dict(zip(read[0], asked[0]))
        print(translate(lambda ids: np.eye(10)[after[ids[-1]]], 7, 8, 9))
    """
    printed = elsewhere(own, tmp_path, program).splitlines()
    want = model(ids)
    assert_close(np.load(tmp_path / "logits.npy"), want, DOUBLE)
    asked = np.arange(0, len(ids), 7)
    assert printed == [
        f"{len(asked)} {round(scratch.cross_entropy(want[asked], ids[asked]), 9)}",
        "True",
        "[3, 1, 2]",
    ]
