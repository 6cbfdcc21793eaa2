"""Answers for chapter 13: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import json
import math
import struct

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, slip = ANSWERS.right, ANSWERS.slip


@right("real.active_parameters")
def active_by_shapes(config):
    D, H = config["hidden_size"], config["num_attention_heads"]
    G = H if config.get("num_key_value_heads") is None else config["num_key_value_heads"]
    K = D // H if config.get("head_dim") is None else config["head_dim"]
    shapes = [(D, H * K), (D, G * K), (D, G * K), (H * K, D), (D, 1), (D, 1)]
    if "qwen3" in config["model_type"]:
        shapes += [(K, 1), (K, 1)]
    if config.get("num_experts"):
        F, chosen = config["moe_intermediate_size"], config["num_experts_per_tok"]
        shapes += [(D, config["num_experts"])] + [(D, F), (D, F), (F, D)] * chosen
    else:
        F = config["intermediate_size"]
        shapes += [(D, F), (D, F), (F, D)]
    shapes = shapes * config["num_hidden_layers"] + [(D, 1), (config["vocab_size"], D)]
    shapes += [(1, D)] * (not config["tie_word_embeddings"])
    return sum(rows * columns for rows, columns in shapes)


@right("real.cache_bytes")
def cache_by_lists(config, length):
    heads = config["num_attention_heads"]
    answering = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] / heads
    kinds = config.get("layer_types") or config["num_hidden_layers"] * ["full_attention"]
    window = config.get("sliding_window") or length + 1
    kept = [len(range(length)[-window:][1 - window :]) if "sliding" in kind else length for kind in kinds]
    return np.array(4 * answering * int(width) * sum(kept))


@right("real.split_conv1d")
def split_by_reshaping(weight, bias):
    D = len(weight)
    return (*weight.reshape(D, 3, D).swapaxes(0, 1), *bias.reshape(3, D))


@right("real.rename")
def rename_by_dots(name):
    outside = {"wte": "token_embedding", "wpe": "decoder.positions", "ln_f": "decoder.norm"}
    inside = {
        "ln_1": "norm_attention", "ln_2": "norm_feedforward", "attn.c_proj": "attention.W_o",
        "mlp.c_fc": "feedforward.W_up", "mlp.c_proj": "feedforward.W_down",
    }  # fmt: skip
    *path, end = name.split(".")
    if path[0] == "transformer":
        path = path[1:]
    start, table = "", outside
    if path[0] == "h":
        start, table, path = f"decoder.blocks.{path[1]}.", inside, path[2:]
    if ".".join(path) not in table or end not in ("weight", "bias"):
        raise ValueError(name)
    return f"{start}{table['.'.join(path)]}.{end}"


@right("real.read_tensor")
def read_by_struct(data, name):
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])[name]
    raw = data[8 + length :][slice(*entry["data_offsets"])]
    if entry["dtype"] == "BF16":
        raw = b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))
    size = 2 if entry["dtype"] == "F16" else 4
    values = struct.unpack(f"<{len(raw) // size}{'e' if size == 2 else 'f'}", raw)
    return np.array(values).reshape(entry["shape"])


@right("real.to_half")
def to_half_as_transformers_does(W_q, W_k, W_v, W_o, n_heads, n_kv_heads):
    """Works on the layout of Linear, (out, in), as their converter does."""

    def permute(w, heads):
        out, width = w.shape
        return w.reshape(heads, out // heads // 2, 2, width).transpose(1, 2).reshape(out, width)

    return *(permute(torch.as_tensor(W).T, n).T for W, n in ((W_q, n_heads), (W_k, n_kv_heads))), W_v, W_o


@right("real.fold")
def fold_by_torch(table, gain, gain_q, scale, eps):
    normed = functional.rms_norm(torch.as_tensor(table), (len(gain),), torch.as_tensor(gain), eps)
    return normed, [float(one) * scale * len(gain_q) ** 0.5 for one in gain_q]


@right("real.first_difference")
def first_by_loop(one, other, tolerance):
    for (name, a), (_, b) in zip(one, other, strict=True):
        if a.shape != b.shape:
            return name
        for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
            if x != y and not abs(x - y) <= tolerance:
                return name
    return ""


@right("real.gpt2")
def gpt2_by_einsum(ids, weights, n_heads):
    w = weights
    T, D = len(ids), w["wte.weight"].shape[1]

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][ids] + w["wpe.weight"][np.arange(T)]
    numbers = {int(name.split(".")[1]) for name in w if name.startswith("h.")}
    for i in sorted(numbers):
        c = norm(x, f"h.{i}.ln_1") @ w[f"h.{i}.attn.c_attn.weight"] + w[f"h.{i}.attn.c_attn.bias"]
        q, k, v = c.reshape(T, 3, n_heads, -1).transpose(1, 0, 2, 3)
        scores = np.einsum("thk,shk->hts", q, k) / np.sqrt(D / n_heads) + np.triu(np.full((T, T), -1e30), 1)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hts,shk->thk", p / p.sum(-1, keepdims=True), v).reshape(T, D)
        x = x + mixed @ w[f"h.{i}.attn.c_proj.weight"] + w[f"h.{i}.attn.c_proj.bias"]
        wide = norm(x, f"h.{i}.ln_2") @ w[f"h.{i}.mlp.c_fc.weight"] + w[f"h.{i}.mlp.c_fc.bias"]
        wide = wide / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
        x = x + wide @ w[f"h.{i}.mlp.c_proj.weight"] + w[f"h.{i}.mlp.c_proj.bias"]
    return np.einsum("td,vd->tv", norm(x, "ln_f"), w["wte.weight"])


# The book's answers with a slip
slip("real.active_parameters", "a float", "return ", "return 1.0 * ")
slip("real.cache_bytes", "a float", "positions * 2", "positions * 2.0")
slip("real.split_conv1d", "should return 6 things", "return W_q, W_k, W_v, b_q, b_k, b_v", "return W_q, b_q")
slip(
    "real.rename", "should raise ValueError; yours quietly returned a str, 'decoder.blocks.0.attention.W_qkv",
    '"ln_1"', '"attn.c_attn": "attention.W_qkv", "ln_1"',
)  # fmt: skip
slip("real.rename", "should raise ValueError; yours raised KeyError", "raise ValueError(", "raise KeyError(")
slip("real.to_half", "W_q of", "return turned(W_q, n_heads)", "return W_q[:, ::-1]")
slip("real.fold", "should return 2 things", "return table", "return table, table")
slip("real.gpt2", "yours has shape (5, 6)", 'norm(x, "ln_f") @ table.T', "x")
