"""Answers for chapter 13: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import json
import math
import struct

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


# 1 · real.count_llama


@right("real.count_llama")
def count_by_shapes(vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, *, tied=False):
    D, K = d_model, d_model // n_heads
    shapes = [(D, n_heads * K), (D, n_kv_heads * K), (D, n_kv_heads * K), (n_heads * K, D)]
    shapes += [(D, d_ff), (D, d_ff), (d_ff, D), (D, 1), (D, 1)]
    shapes = shapes * n_layers + [(D, 1), (vocab_size, D)] + [(vocab_size, D)] * (not tied)
    return sum(rows * columns for rows, columns in shapes)


@wrong("real.count_llama", "a float")
def count_as_a_float(vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, *, tied=False):
    return 1.0 * count_by_shapes(vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, tied=tied)


# 2 · real.read_config


@right("real.read_config")
def read_by_questions(config):
    heads = answering = config["num_attention_heads"]
    if config.get("num_key_value_heads") is not None:
        answering = config["num_key_value_heads"]
    width = config["head_dim"] if config.get("head_dim") else config["hidden_size"] / heads
    per_block = 2 * 2 * answering * int(width)
    return np.array([int(width), heads // answering, per_block * config["num_hidden_layers"]])


@wrong("real.read_config", "You read a field that not every file has")
def read_what_is_not_there(config):
    G = config["num_key_value_heads"]
    K = config["hidden_size"] // config["num_attention_heads"]
    return K, config["num_attention_heads"] // G, 4 * config["num_hidden_layers"] * G * K


# 3 · real.split_conv1d


@right("real.split_conv1d")
def split_by_reshaping(weight, bias):
    D = len(weight)
    return (*weight.reshape(D, 3, D).swapaxes(0, 1), *bias.reshape(3, D))


@wrong("real.split_conv1d", "should return 6 things")
def split_in_two(weight, bias):
    return np.split(weight, 3, axis=1), np.split(bias, 3)


# 4 · real.rename


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


@wrong(
    "real.rename", "should raise ValueError; yours quietly returned a str, 'decoder.blocks.0.attention.W_qkv"
)
def rename_the_three_too(name):
    if "attn.c_attn" in name:
        return "decoder.blocks.0.attention.W_qkv.weight"
    return rename_by_dots(name)


@wrong("real.rename", "rename('lm_head.weight') should raise ValueError; yours raised KeyError")
def rename_by_index(name):
    if "h." not in name and "lm_head" in name:
        raise KeyError(name)
    return rename_by_dots(name)


@wrong("real.rename", "You use one table for both places")
def rename_as_the_page_does(name):
    table = {
        "wte": "token_embedding", "wpe": "decoder.positions", "ln_1": "norm_attention",
        "attn.c_proj": "attention.W_o", "ln_2": "norm_feedforward", "ln_f": "decoder.norm",
        "mlp.c_fc": "feedforward.W_up", "mlp.c_proj": "feedforward.W_down",
    }  # fmt: skip
    name = name.removeprefix("transformer.")
    block = ""
    if name.startswith("h."):
        _, number, name = name.split(".", 2)
        block = f"decoder.blocks.{number}."
    part, _, end = name.rpartition(".")
    if part not in table:
        raise ValueError(name)
    return f"{block}{table[part]}.{end}"


# 5 · real.read_tensor


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


@right("real.read_tensor")
def read_by_the_library(data, name):
    from safetensors.torch import load

    return load(data)[name].float()


def _row(data, name, start, brain):
    entry = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])[name]
    raw = data[start:][slice(*entry["data_offsets"])]
    if entry["dtype"] == "BF16":
        return brain(np.frombuffer(raw, "<u2")).reshape(entry["shape"])
    kind = {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]
    return np.frombuffer(raw, kind).astype(np.float32).reshape(entry["shape"])


def _start(data):
    return 8 + int.from_bytes(data[:8], "little")


@wrong("real.read_tensor", "You put the 16 bits into the lower half")
def read_without_a_shift(data, name):
    return _row(data, name, _start(data), lambda bits: bits.astype(np.uint32).view(np.float32))


@wrong("real.read_tensor", "You put the 16 bits into the lower half")
def read_padded_behind(data, name):
    def behind(bits):
        return np.array([struct.unpack("<f", struct.pack("<H", one) + b"\0\0")[0] for one in bits.tolist()])

    return _row(data, name, _start(data), behind)


@wrong("real.read_tensor", "You converted a whole number to float32")
def read_and_convert(data, name):
    return _row(data, name, _start(data), lambda bits: (bits.astype(np.uint32) << 16).astype(np.float32))


@wrong("real.read_tensor", "You left out the spaces at the end of the header")
def read_behind_the_stripped_header(data, name):
    header = data[8 : _start(data)].rstrip()
    return _row(data, name, 8 + len(header), lambda bits: (bits.astype(np.uint32) << 16).view(np.float32))


@wrong("real.read_tensor", "You treat `__metadata__` as a tensor")
def read_all_of_them(data, name):
    (length,) = struct.unpack("<Q", data[:8])
    found = {}
    for one, entry in json.loads(data[8 : 8 + length]).items():
        kind = entry["dtype"]
        found[one] = kind
    return found[name]


@wrong("real.read_tensor", "You read the eight bytes of the length in the wrong order")
def read_the_length_as_big(data, name):
    (length,) = struct.unpack(">Q", data[:8])
    return json.loads(data[8 : 8 + length])[name]


# 6 · real.to_half


@right("real.to_half")
def to_half_as_transformers_does(W_q, W_k, W_v, W_o, n_heads, n_kv_heads):
    """Works on the layout of Linear, (out, in), as their converter does."""

    def permute(w, heads):
        out, width = w.shape
        return w.reshape(heads, out // heads // 2, 2, width).transpose(1, 2).reshape(out, width)

    return *(permute(torch.as_tensor(W).T, n).T for W, n in ((W_q, n_heads), (W_k, n_kv_heads))), W_v, W_o


@wrong("real.to_half", "W_q of")
def to_half_reversed(W_q, W_k, W_v, W_o, n_heads, n_kv_heads):
    return W_q[:, ::-1], W_k[:, ::-1], W_v, W_o


# 7 · real.fold


@right("real.fold")
def fold_by_torch(table, gain, gain_q, scale, eps):
    normed = functional.rms_norm(torch.as_tensor(table), (len(gain),), torch.as_tensor(gain), eps)
    return normed, [float(one) * scale * len(gain_q) ** 0.5 for one in gain_q]


@wrong("real.fold", "should return 2 things")
def fold_the_table(table, gain, gain_q, scale, eps):
    return {"table": table}


# 8 · real.first_difference


@right("real.first_difference")
def first_by_loop(one, other, tolerance):
    for (name, a), (_, b) in zip(one, other, strict=True):
        if a.shape != b.shape:
            return name
        for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
            if x != y and not abs(x - y) <= tolerance:
                return name
    return ""


def _first_by(close, nothing=""):
    def first(one, other, tolerance):
        for (name, a), (_, b) in zip(one, other, strict=True):
            if a.shape != b.shape or not close(a, b, tolerance):
                return name
        return nothing

    return first


@right("real.first_difference")
def first_by_isclose(one, other, tolerance):
    return _first_by(lambda a, b, t: np.isclose(a, b, rtol=0, atol=t).all())(one, other, tolerance)


@wrong("real.first_difference", "np.allclose also allows 1e-5 of each number")
def first_by_the_default(one, other, tolerance):
    return _first_by(lambda a, b, t: np.isclose(a, b, atol=t).all())(one, other, tolerance)


@wrong("real.first_difference", "Your tolerance is relative to each number")
def first_by_share(one, other, tolerance):
    return _first_by(lambda a, b, t: np.allclose(a, b, rtol=t, atol=0))(one, other, tolerance)


@wrong("real.first_difference", "A NaN in both arrays counts as equal for you")
def first_with_equal_nan(one, other, tolerance):
    return _first_by(lambda a, b, t: np.allclose(a, b, 0, t, equal_nan=True))(one, other, tolerance)


@wrong("real.first_difference", "You replaced NaN by a number")
def first_without_nan(one, other, tolerance):
    def close(a, b, t):
        return (abs(np.nan_to_num(a) - np.nan_to_num(b)) <= t).all()

    return _first_by(close)(one, other, tolerance)


# 9 · real.gpt2


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


@wrong("real.gpt2", "yours has shape (5, 6)")
def gpt2_without_a_head(ids, weights, n_heads):
    return weights["wte.weight"][ids]
