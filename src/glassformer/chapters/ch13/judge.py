"""Judges the exercises of chapter 13, "Real models"; their prose is in exercises.toml.

For each: the reference; then its checks, in teaching order; then its classic mistakes. What is right comes from
published counts, from hand-worked numbers, from files written byte by byte, and for GPT-2 from PyTorch's own functions.
The axes: T positions, D d_model, V vocabulary, H heads, G heads that answer, K d_head.
"""
# ruff: noqa: ANN001, ANN202 - a check is read by its title, a mistake by its sentence

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.chapters.ch03.judge import attended
from glassformer.chapters.ch05.judge import layer_norm
from glassformer.chapters.ch07.judge import normed
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect, expect_parts, expect_shape
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.scratch.feedforward import gelu, gelu_tanh
from glassformer.shapes import Float, Integer

Weights = Mapping[str, np.ndarray]


# 1 · A LLaMA to the digit


def count_llama(
    vocab_size: int,
    d_model: int,
    n_layers: int,
    n_heads: int,
    n_kv_heads: int,
    d_ff: int,
    *,
    tied: bool = False,
) -> int:
    """Returns how many numbers a LLaMA-like model learns: no biases, only gains, three feed-forward matrices."""
    D, keys = d_model, n_kv_heads * (d_model // n_heads)
    block = 2 * D * D + 2 * D * keys + 3 * D * d_ff + 2 * D
    return (1 if tied else 2) * vocab_size * D + n_layers * block + D


llama = exercise("real.count_llama", count_llama)

llama.case("a small one: 80 + 128 + 4", 10, 4, 1, 2, 1, 6, want=212)
llama.case("each head with keys of its own", 10, 4, 1, 2, 2, 6, want=228)
llama.case("LLaMA-2 7B", 32_000, 4096, 32, 32, 32, 11_008, want=6_738_415_616)
llama.case("LLaMA-2 70B: 64 heads ask, 8 answer", 32_000, 8192, 80, 64, 8, 28_672, want=68_976_648_192)
llama.also(128_256, 4096, 32, 32, 8, 14_336, want=8_030_261_248)
llama.case("a tied head: SmolLM2 135M", 49_152, 576, 30, 9, 3, 1536, tied=True, want=134_515_008)


def _counted(ffn=3, keys=lambda D, H, G: G * (D // H), norms=2, gain=1, last=1, ends=lambda tied: 2 - tied):
    def wrong(vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, *, tied=False):
        D = d_model
        block = 2 * D * D + 2 * D * keys(D, n_heads, n_kv_heads) + ffn * D * d_ff + norms * gain * D
        return ends(tied) * vocab_size * D + n_layers * block + last * gain * D

    return wrong


llama.mistake("two matrices", _counted(ffn=2))
llama.mistake("keys not shared", _counted(keys=lambda D, H, G: D))
llama.mistake("one head's width", _counted(keys=lambda D, H, G: D // H))
llama.mistake("answers per asking", _counted(keys=lambda D, H, G: D // G))
llama.mistake("biases in the norms", _counted(gain=2))
llama.mistake("biases in the norms", _counted(norms=4))
llama.mistake("last norm", _counted(last=0))
llama.mistake("one norm", _counted(norms=1))
llama.mistake("always tied", _counted(ends=lambda tied: 1))
llama.mistake("never tied", _counted(ends=lambda tied: 2))
llama.mistake("ends swapped", _counted(ends=lambda tied: 1 + tied))


# 2 · A config.json into numbers


def read_config(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Reads from a LLaMA's config.json: a head's size, query heads per key-value head, bytes of cache per token."""
    H = config["num_attention_heads"]
    G = config.get("num_key_value_heads") or H
    K = config.get("head_dim") or config["hidden_size"] // H
    return K, H // G, 2 * config["num_hidden_layers"] * G * K * 2


fields = exercise("real.read_config", read_config, parts=("d_head", "shared", "cache_bytes"))

_LLAMA_3_8B = {
    "model_type": "llama", "vocab_size": 128_256, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336,
}  # fmt: skip
_LLAMA_2_7B = {
    "model_type": "llama", "vocab_size": 32_000, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11_008,
}  # fmt: skip
_QWEN3 = {
    "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024, "num_hidden_layers": 28, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
}  # fmt: skip

fields.case(
    "LLaMA-3 8B: four heads share one's keys", _LLAMA_3_8B, want=(128, 4, 131_072), what="LLaMA-3 8B's file"
)
fields.case(
    "no num_key_value_heads: each head has its own",
    _LLAMA_2_7B,
    want=(128, 1, 524_288),
    what="LLaMA-2 7B's file",
)
fields.case(
    "a head_dim that is not hidden_size / heads", _QWEN3, want=(128, 2, 114_688), what="Qwen3 0.6B's file"
)
fields.case(
    "null is as if it were not there", _LLAMA_2_7B | {"num_key_value_heads": None, "head_dim": None},
    want=(128, 1, 524_288), what="a file with null in it",
)  # fmt: skip


def _fields(head=True, default=lambda H: H, factor=4, layers=True, asking=False, turned=False, hidden=False):
    def wrong(config):
        H = config["num_attention_heads"]
        G = config.get("num_key_value_heads") or default(H)
        K = (config.get("head_dim") if head else None) or config["hidden_size"] // H
        shared = G if turned else H // G
        width = config["hidden_size"] if hidden else (H if asking else G) * K
        return K, shared, factor * (config["num_hidden_layers"] if layers else 1) * width

    return wrong


fields.mistake("head_dim", _fields(head=False))
fields.mistake("one for all", _fields(default=lambda H: 1))
fields.mistake("keys alone", _fields(factor=2))
fields.mistake("float32", _fields(factor=8))
fields.mistake("bits", _fields(factor=32))
fields.mistake("one block", _fields(layers=False))
fields.mistake("heads that ask", _fields(asking=True))
fields.mistake("width of the stream", _fields(hidden=True))
fields.mistake("how many answer", _fields(turned=True))


@fields.mistake("not in the file")
def _(config):
    return config["head_dim"]


@fields.mistake("not in the file")
def _(config):
    return read_config(config | {"num_key_value_heads": config["num_key_value_heads"]})


# 3 · Three matrices side by side


def split_conv1d(
    weight: Float[np.ndarray, "D 3D"], bias: Float[np.ndarray, " 3D"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """GPT-2's c_attn as W_q, W_k, W_v and their biases."""
    W_q, W_k, W_v = np.split(weight, 3, axis=1)
    b_q, b_k, b_v = np.split(bias, 3)
    return W_q, W_k, W_v, b_q, b_k, b_v


_SIX = ("W_q", "W_k", "W_v", "b_q", "b_k", "b_v")
thirds = exercise("real.split_conv1d", split_conv1d, parts=_SIX, axes=("D D", "D D", "D D", "D", "D", "D"))

thirds.case(
    "a row of c_attn has a row of each",
    np.array([[0.0, 1, 10, 11, 20, 21], [2, 3, 12, 13, 22, 23]]), np.array([5.0, 6, 15, 16, 25, 26]),
    want=(
        [[0.0, 1], [2, 3]], [[10.0, 11], [12, 13]], [[20.0, 21], [22, 23]], [5.0, 6], [15.0, 16], [25.0, 26],
    ),
    what="c_attn of two numbers",
)  # fmt: skip


@thirds.check("x @ W + b is the third that it was of c_attn")
def _(learner):
    weight, bias, x = numbers(6, 18), numbers(18, seed=1), numbers(4, 6, seed=2)
    found = expect_parts(learner(weight, bias), _SIX)
    at_once = x @ weight + bias
    for number, one in enumerate("qkv"):
        W, b = (as_numbers(found[number + i], f"{kind}_{one}") for i, kind in ((0, "W"), (3, "b")))
        expect_shape(W, (6, 6), f"W_{one} of a c_attn of (6, 18)")
        expect_shape(b, (6,), f"b_{one} of a c_attn of (6, 18)")
        expect(x @ W + b, at_once[:, 6 * number : 6 * number + 6], f"x @ W_{one} + b_{one}", axes="T D")


_w, _b = numbers(9, 27, seed=3), numbers(27, seed=4)
thirds.case(
    "another width", _w, _b,
    want=tuple(_w[:, 9 * i : 9 * i + 9] for i in range(3)) + tuple(_b[9 * i : 9 * i + 9] for i in range(3)),
)  # fmt: skip


def _six(weight, bias=lambda b: tuple(np.split(b, 3))):
    return lambda w, b: (*weight(w), *bias(b))


def _every(w):
    return tuple(w[..., i::3] for i in range(3))


def _reordered(order):
    return lambda w: tuple(np.split(w, 3, axis=-1)[i] for i in order)


thirds.mistake("order", _six(_reordered((1, 0, 2)), _reordered((1, 0, 2))))
thirds.mistake("order", _six(_reordered((2, 1, 0)), _reordered((2, 1, 0))))
thirds.mistake("order", _six(_reordered((1, 2, 0)), _reordered((1, 2, 0))))
thirds.mistake("every third", _six(_every, _every))
thirds.mistake("reshaped", _six(lambda w: tuple(w.reshape(3, len(w), len(w)))))
thirds.mistake("turned", _six(lambda w: tuple(one.T for one in np.split(w, 3, axis=1))))
thirds.mistake("rows", _six(lambda w: tuple(np.array_split(w, 3, axis=0))))
thirds.mistake("bias every third", _six(lambda w: tuple(np.split(w, 3, axis=1)), _every))
thirds.mistake("paired", lambda w, b: tuple(one for i in range(3) for one in (
    np.split(w, 3, axis=1)[i], np.split(b, 3)[i])))  # fmt: skip


# 4 · Their names, ours

OUTSIDE = {"wte": "token_embedding", "wpe": "decoder.positions", "ln_f": "decoder.norm"}
IN_A_BLOCK = {
    "ln_1": "norm_attention",
    "attn.c_proj": "attention.W_o",
    "ln_2": "norm_feedforward",
    "mlp.c_fc": "feedforward.W_up",
    "mlp.c_proj": "feedforward.W_down",
}


def rename(name: str) -> str:
    """A name in GPT-2's files as this book has it."""
    found = re.fullmatch(r"(?:transformer\.)?(?:h\.(\d+)\.)?(.+)\.(weight|bias)", name)
    if found:
        number, part, end = found.groups()
        table, at = (IN_A_BLOCK, f"decoder.blocks.{number}.") if number else (OUTSIDE, "")
        if part in table:
            return f"{at}{table[part]}.{end}"
    raise ValueError(f"{name!r} is none of these")


names = exercise("real.rename", rename)

names.case("the tables", "wte.weight", want="token_embedding.weight")
names.also("wpe.weight", want="decoder.positions.weight")
names.case("the last norm", "ln_f.bias", want="decoder.norm.bias")
names.case("a norm of block 0", "h.0.ln_1.weight", want="decoder.blocks.0.norm_attention.weight")
names.also("h.3.ln_2.bias", want="decoder.blocks.3.norm_feedforward.bias")
names.case("attention's last matrix", "h.2.attn.c_proj.weight", want="decoder.blocks.2.attention.W_o.weight")
names.case("the feed-forward's first", "h.1.mlp.c_fc.bias", want="decoder.blocks.1.feedforward.W_up.bias")
names.case(
    "its second, which is called as attention's last", "h.1.mlp.c_proj.weight",
    want="decoder.blocks.1.feedforward.W_down.weight",
)  # fmt: skip
names.case("block 11", "h.11.mlp.c_fc.weight", want="decoder.blocks.11.feedforward.W_up.weight")
names.case(
    "with the prefix that some files have", "transformer.h.10.ln_1.bias",
    want="decoder.blocks.10.norm_attention.bias",
)  # fmt: skip
names.also("transformer.wte.weight", want="token_embedding.weight")
names.refuses(
    "a mask, which old files hold, is no weight: ValueError", "h.0.attn.bias", what="rename('h.0.attn.bias')"
)
names.refuses("other names that are none of these", "lm_head.weight")
names.also_refuses("h.0.attn.c_attn.weight")
names.refuses("a table in a block, a block's norm outside", "h.3.wte.weight")
names.also_refuses("ln_1.weight")
names.refuses("another end", "h.0.ln_1.scale")


def _renamed(ours=None, block=lambda number: f"decoder.blocks.{number}.", prefix=r"(?:transformer\.)?",
             number=r"\d+", mend=lambda name: name):  # fmt: skip
    ours = OUTSIDE | IN_A_BLOCK | (ours or {})

    def wrong(name):
        found = re.fullmatch(rf"{prefix}(?:h\.({number})\.)?(.+)\.(weight|bias)", name)
        if not found or found[2] not in ours:
            raise ValueError(f"{name!r} is no weight of a GPT-2")
        return mend(f"{block(found[1]) if found[1] else ''}{ours[found[2]]}.{found[3]}")

    return wrong


names.mistake("c_proj alike", _renamed({"mlp.c_proj": "attention.W_o"}))
names.mistake("c_proj alike", _renamed({"attn.c_proj": "feedforward.W_down"}))
names.mistake("norms swapped", _renamed({"ln_1": "norm_feedforward", "ln_2": "norm_attention"}))
names.mistake("up and down", _renamed({"mlp.c_fc": "feedforward.W_down", "mlp.c_proj": "feedforward.W_up"}))
names.mistake("counted from 1", _renamed(block=lambda number: f"decoder.blocks.{int(number) + 1}."))
names.mistake("h", _renamed(block=lambda number: f"decoder.h.{number}."))
names.mistake("decoder left out", _renamed(mend=lambda name: name.removeprefix("decoder.")))
names.mistake("one digit", _renamed(block=lambda number: f"decoder.blocks.{number[0]}."))
names.mistake("one table", _renamed())
names.mistake("always weight", _renamed(mend=lambda name: re.sub("bias$", "weight", name)))


@names.mistake("prefix")
def _(name):
    if name.startswith("transformer."):
        return f"transformer.{rename(name)}"
    return rename(name)


@names.mistake("any end")
def _(name):
    path, _, end = name.rpartition(".")
    return f"{rename(f'{path}.weight').removesuffix('weight')}{end}"


@names.mistake("anything goes")
def _(name):
    try:
        return rename(name)
    except ValueError:
        return name


# 5 · A tensor out of a file


def read_tensor(data: bytes, name: str) -> Float[np.ndarray, "..."]:
    """One tensor of a safetensors file."""
    start = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:start])[name]
    begin, end = (start + offset for offset in entry["data_offsets"])
    kind = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[entry["dtype"]]
    row = np.frombuffer(data[begin:end], kind)
    if entry["dtype"] == "BF16":  # the upper half of a float32
        row = (row.astype(np.uint32) << 16).view(np.float32)
    return row.astype(np.float32).reshape(entry["shape"])


tensor = exercise("real.read_tensor", read_tensor)


def _bits(values: Sequence[float], dtype: str) -> bytes:
    """Numbers as a file has them: little-endian; of a bfloat16, the upper two of a float32's four bytes."""
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'e'}", *values)


def _file(**tensors: tuple[str, tuple[int, ...], Sequence[float]]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, (dtype, shape, values) in tensors.items():
        raw = _bits(values, dtype)
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [len(body), len(body) + len(raw)],
        }
        body += raw
    written = json.dumps(header).encode()
    written += b" " * (8 + -len(written) % 8)
    return len(written).to_bytes(8, "little") + written + body


_ONE = _file(w=("F32", (3,), [1.5, -2.0, 0.25]))
_TWO = _file(
    first=("F32", (2, 2), [0.5, 1.0, -1.5, 2.0]),
    second=("F32", (3, 2), [7.0, -8.0, 9.5, 10.0, 11.0, 12.25]),
)
_HALF = _file(
    a=("F32", (2,), [1.0, 2.0]), b=("F16", (2, 2), [0.5, -3.0, 1024.0, 0.125]), c=("F16", (1,), [6.0])
)
_BRAIN = _file(a=("F32", (6,), [5.0] * 6), b=("BF16", (4,), [1.0, -2.5, 96.0, 2.0**-20]))

tensor.case("three numbers", _ONE, "w", want=[1.5, -2.0, 0.25], what="read_tensor(file, 'w')")
tensor.case(
    "the second of two, in its shape", _TWO, "second", want=[[7, -8], [9.5, 10], [11, 12.25]],
    what="read_tensor(file, 'second')",
)  # fmt: skip
tensor.also(_TWO, "first", want=[[0.5, 1], [-1.5, 2]], what="read_tensor(file, 'first')")
tensor.case(
    "F16: two bytes a number",
    _HALF,
    "b",
    want=[[0.5, -3.0], [1024.0, 0.125]],
    what="read_tensor(file, 'b'), F16",
)
tensor.also(_HALF, "c", want=[6.0], what="read_tensor(file, 'c'), F16")
tensor.case(
    "BF16: the upper half of a float32", _BRAIN, "b", want=[1.0, -2.5, 96.0, 2.0**-20],
    what="read_tensor(file, 'b'), BF16",
)  # fmt: skip


def _tensor(start=lambda length: 8 + length, kinds=None, brain=True, turned=False, flat=False, end=True,
            shift=16, look=lambda bits: bits.view(np.float32)):  # fmt: skip
    kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"} | (kinds or {})

    def wrong(data, name):
        length = int.from_bytes(data[:8], "little")
        entry = json.loads(data[8 : 8 + length])[name]
        first, last = entry["data_offsets"]
        kind = kinds[entry["dtype"]]
        raw = (data[start(length) :] + bytes(64))[first : last if end else None]
        row = np.frombuffer(raw[: len(raw) // int(kind[-1]) * int(kind[-1])], kind)
        if not end:
            row = row[: math.prod(entry["shape"])]
        if entry["dtype"] == "BF16" and brain:
            row = look(row.astype(np.uint32) << shift)
        with np.errstate(all="ignore"):
            row = np.nan_to_num(row.astype(np.float32))
        if turned:
            return row.reshape(entry["shape"][::-1]).T
        return row if flat else row.reshape(entry["shape"])

    return wrong


tensor.mistake("offset from the file's start", _tensor(start=lambda length: 0))
tensor.mistake("eight bytes", _tensor(start=lambda length: length))
tensor.mistake("flat", _tensor(flat=True))
tensor.mistake("columns first", _tensor(turned=True))
tensor.mistake("big-endian", _tensor(kinds={"F32": ">f4", "F16": ">f2"}))
tensor.mistake("brain as half", _tensor(kinds={"BF16": "<f2"}, brain=False))
tensor.mistake("brain as whole numbers", _tensor(brain=False))
tensor.mistake("brain converted", _tensor(look=lambda bits: bits))
tensor.mistake("brain below", _tensor(shift=0))
tensor.mistake("brain below", _tensor(shift=8))


@tensor.mistake("blanks left out")
def _(data, name):
    header, body = data[8:].split(b"}}")[0] + b"}}", int.from_bytes(data[:8], "little") + 8
    return read_tensor(
        len(header).to_bytes(8, "little") + header + data[8 + len(header) : body] + data[body:], name
    )


@tensor.mistake("length from the wrong end")
def _(data, name):
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "big")])[name]


@tensor.mistake("metadata as a tensor")
def _(data, name):
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return {one: entry["dtype"] for one, entry in header.items()}


@tensor.mistake("the first of the file")
def _(data, name):
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return read_tensor(data, next(one for one in header if one != "__metadata__"))


@tensor.mistake("the first for all")
def _(data, name):
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    entry = header[name]
    kind = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[entry["dtype"]]
    row = np.frombuffer((data + bytes(64))[start:], kind, count=math.prod(entry["shape"]))
    if entry["dtype"] == "BF16":
        row = (row.astype(np.uint32) << 16).view(np.float32)
    return row.astype(np.float32).reshape(entry["shape"])


# 6 · Meta's layout into Hugging Face's


def to_half(
    W_q: Float[np.ndarray, "D HK"],
    W_k: Float[np.ndarray, "D GK"],
    W_v: Float[np.ndarray, "D GK"],
    W_o: Float[np.ndarray, "HK D"],
    n_heads: int,
    n_kv_heads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The four matrices of an attention whose rotary pairs were neighbours, for one whose pairs are halves."""

    def turned(W, heads):
        return W.reshape(len(W), heads, -1, 2).swapaxes(-1, -2).reshape(W.shape)

    return turned(W_q, n_heads), turned(W_k, n_kv_heads), W_v, W_o


halves = exercise(
    "real.to_half", to_half, parts=("W_q", "W_k", "W_v", "W_o"), axes=("D HK", "D GK", "D GK", "HK D")
)


def _seats(heads: int, K: int) -> list[int]:
    """Returns which old column goes where: in every head first the even ones, then the odd."""
    return [head * K + i for head in range(heads) for i in (*range(0, K, 2), *range(1, K, 2))]


def _attention(D: int, H: int, G: int, K: int, seed: int) -> tuple[np.ndarray, ...]:
    shapes = ((D, H * K), (D, G * K), (D, G * K), (H * K, D))
    return tuple(numbers(*shape, seed=seed + i) for i, shape in enumerate(shapes))


def _moved(matrices: tuple[np.ndarray, ...], H: int, G: int, K: int) -> tuple[np.ndarray, ...]:
    W_q, W_k, W_v, W_o = matrices
    return W_q[:, _seats(H, K)], W_k[:, _seats(G, K)], W_v, W_o


_row = np.arange(12.0)[None]
halves.case(
    "two heads of six: 0 2 4, then 1 3 5", _row, _row, _row, _row.T, 2, 2,
    want=([[0.0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]],) * 2 + (_row, _row.T),
    what="the matrices of one row, 0 to 11, with two heads",
)  # fmt: skip
_four = _attention(10, 4, 4, 6, 0)
halves.case("more rows", *_four, 4, 4, want=_moved(_four, 4, 4, 6), what="four heads of 6")
_four = _attention(12, 4, 2, 6, 10)
halves.case(
    "two heads answer four", *_four, 4, 2, want=_moved(_four, 4, 2, 6), what="four heads that share two"
)
_four = _attention(8, 3, 1, 10, 20)
halves.case("one answers all", *_four, 3, 1, want=_moved(_four, 3, 1, 10), what="three heads that share one")


def _other(q=_seats, k=_seats, v=None, o=None, k_heads=lambda H, G: G, rows=False):
    def wrong(W_q, W_k, W_v, W_o, n_heads, n_kv_heads):
        def placed(W, seats, heads, axis=1):
            if not seats:
                return W
            own = W.shape[axis] // heads
            return np.take(W, seats(heads, own - own % 2), axis=axis, mode="wrap")

        if rows:
            order = _seats(1, len(W_q))
            return W_q[order], W_k[order], W_v, W_o
        return (
            placed(W_q, q, n_heads),
            placed(W_k, k, k_heads(n_heads, n_kv_heads)),
            placed(W_v, v, n_kv_heads),
            placed(W_o, o, n_heads, 0),
        )

    return wrong


def _back(heads, K):
    return [int(i) for head in range(heads) for i in head * K + np.argsort(_seats(1, K))]


halves.mistake("heads that ask", _other(k_heads=lambda H, G: H))
halves.mistake("keys forgotten", _other(k=None))
halves.mistake("values too", _other(v=_seats))
halves.mistake("output too", _other(o=_seats))
halves.mistake("way back", _other(_back, _back))
halves.mistake("heads mixed", _other(lambda H, K: _seats(1, H * K), lambda H, K: _seats(1, H * K)))
halves.mistake("nothing moved", _other(None, None))
halves.mistake("members swapped", _other(
    *[lambda H, K: [h * K + i for h in range(H) for i in (*range(1, K, 2), *range(0, K, 2))]] * 2
))  # fmt: skip
halves.mistake("rows", _other(rows=True))


# 7 · Fold it in


def fold(
    table: Float[np.ndarray, "V D"],
    gain: Float[np.ndarray, " D"],
    gain_q: Float[np.ndarray, " K"],
    scale: float,
    eps: float,
) -> tuple[Float[np.ndarray, "V D"], Float[np.ndarray, " K"]]:
    """A table that needs no norm behind it, and a gain of the queries that needs no factor on the scores."""
    size = np.sqrt((table**2).mean(axis=-1, keepdims=True) + eps)
    return table / size * gain, gain_q * scale * math.sqrt(len(gain_q))


folded = exercise("real.fold", fold, parts=("table", "gain_q"), axes=("V D", "K"))

folded.case(
    "a row of 3, 4 has the mean square 12.5", np.array([[3.0, 4.0], [0.0, 2.0]]), np.ones(2), np.ones(4), 0.5, 0.0,
    want=([[3 / 12.5**0.5, 4 / 12.5**0.5], [0.0, 2**0.5]], [1.0] * 4), what="a table of two rows, ε = 0",
)  # fmt: skip
folded.case(
    "a gain for each feature", np.array([[1.0, -1.0], [2.0, 2.0]]), np.array([10.0, 3.0]), np.array([1.0, 2, 3, 4]),
    0.5, 0.0, want=([[10.0, -3], [10, 3]], [1.0, 2, 3, 4]), what="a table with gains 10 and 3",
)  # fmt: skip
folded.case(
    "the scores' own factor: the program divides by √K", np.eye(2), np.ones(2), np.array([2.0, 1, 1, 1, 1, 1, 1, 1, 5]),
    1.0, 0.0, want=np.array([6.0, 3, 3, 3, 3, 3, 3, 3, 15]), part="gain_q", what="K = 9, and a factor of 1",
)  # fmt: skip
folded.also(
    np.eye(2), np.ones(2), np.array([2.0, 3.0, 1.0, 1.0]), 0.25, 0.0, want=[1.0, 1.5, 0.5, 0.5], part="gain_q",
    what="K = 4, and a factor of 1/4",
)  # fmt: skip
folded.case(
    "ε below the root", np.array([[0.6, 0.8], [0.0, 0.0]]), np.ones(2), np.ones(2), 1.0, 0.5,
    want=[[0.6, 0.8], [0.0, 0.0]], part="table", what="ε = 0.5",
)  # fmt: skip
_table = numbers(5, 6)
folded.case(
    "random numbers", _table, numbers(6, seed=1), numbers(8, seed=2), 0.7, 0.1,
    want=(
        [[value * g / math.sqrt(math.fsum(one * one for one in row) / 6 + 0.1)
          for value, g in zip(row, numbers(6, seed=1), strict=True)] for row in _table.tolist()],
        [g * 0.7 * math.sqrt(8) for g in numbers(8, seed=2)],
    ),
)  # fmt: skip


def _folded(size=lambda t, e: np.sqrt((t**2).mean(-1, keepdims=True) + e), gain=True,
            factor=lambda s, K: s * math.sqrt(K), centre=False, stream=False, zero=np.nan_to_num):  # fmt: skip
    def wrong(table, own, gain_q, scale, eps):
        given = table - table.mean(-1, keepdims=True) * centre
        with np.errstate(all="ignore"):
            made = zero(given / size(given, eps))
        return made * own if gain else made, gain_q * factor(scale, len(own) if stream else len(gain_q))

    return wrong


folded.mistake("factor alone", _folded(factor=lambda s, K: s))
folded.mistake("divided again", _folded(factor=lambda s, K: s / math.sqrt(K)))
folded.mistake("times K", _folded(factor=lambda s, K: s * K))
folded.mistake("width of the stream", _folded(stream=True))
folded.mistake("divided by the factor", _folded(factor=lambda s, K: math.sqrt(K) / s))
folded.mistake("square root of the factor", _folded(factor=lambda s, K: math.sqrt(s) * K**0.25))
folded.mistake("ε outside", _folded(size=lambda t, e: np.sqrt((t**2).mean(-1, keepdims=True)) + e))
folded.mistake("ε forgotten", _folded(size=lambda t, e: np.sqrt((t**2).mean(-1, keepdims=True))))
folded.mistake(
    "ε forgotten", _folded(size=lambda t, e: np.sqrt((t**2).mean(-1, keepdims=True)), zero=lambda x: x)
)
folded.mistake("gain forgotten", _folded(gain=False))
folded.mistake("sum", _folded(size=lambda t, e: np.sqrt((t**2).sum(-1, keepdims=True) + e)))
folded.mistake("columns", _folded(size=lambda t, e: np.sqrt((t**2).mean(0, keepdims=True) + e)))
folded.mistake("whole table", _folded(size=lambda t, e: np.sqrt((t**2).mean() + e)))
folded.mistake("mean taken away", _folded(centre=True))


# 8 · The first that differs


def first_difference(
    one: Sequence[tuple[str, np.ndarray]], other: Sequence[tuple[str, np.ndarray]], tolerance: float
) -> str:
    """The name of the first array that is not the same in both, or "" where all are."""
    for (name, a), (_, b) in zip(one, other, strict=False):
        if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=tolerance):
            return name
    return ""


first = exercise("real.first_difference", first_difference)


def _run(**arrays: Any) -> list[tuple[str, np.ndarray]]:
    return [(name, np.array(array, dtype=float)) for name, array in arrays.items()]


_RIGHT = _run(q=[[1.0, 2.0]], k=[[0.5, 3.0]], scores=[[-1.0, 4.0]], stream=[[7.0, 8.0]])
first.case(
    "the first, not the largest", _RIGHT,
    _run(q=[[1.0, 2.0]], k=[[0.5, 3.01]], scores=[[-1.0, 8.5]], stream=[[9.0, 8.0]]), 1e-6,
    want="k", what="where k is off by 0.01 and all after it by more",
)  # fmt: skip
first.case("two that are the same: an empty text", _RIGHT, _RIGHT, 1e-6, want="", what="of two equal runs")
first.case(
    "also where it is too small", _RIGHT,
    _run(q=[[1.0, 2.0]], k=[[0.5, 3.0]], scores=[[-1.2, 4.0]], stream=[[0.0, 8.0]]), 1e-6,
    want="scores", what="where a score is too small",
)  # fmt: skip
first.case(
    "rounding is no difference", _RIGHT,
    _run(q=[[1.0, 2.0 + 1e-9]], k=[[0.5, 3.0]], scores=[[-1.0, 4.0]], stream=[[7.0, 8.2]]), 1e-6,
    want="stream", what="where q is off by 1e-9",
)  # fmt: skip
first.also(
    _RIGHT, _run(q=[[1.0, 2.3]], k=[[0.5, 3.0]], scores=[[-1.0, 4.9]], stream=[[7.0, 8.0]]), 0.5,
    want="scores", what="with a tolerance of 0.5",
)  # fmt: skip
first.also(
    _RIGHT, _run(q=[[1.0, 2.5]], k=[[0.5, 3.0]], scores=[[-1.0, 4.9]], stream=[[7.0, 8.0]]), 0.5,
    want="scores", what="where q is off by the tolerance, 0.5, and not more",
)  # fmt: skip
first.case(
    "the difference itself, however large the numbers",
    _run(q=[1000.0, 1.0], k=[2.0]), _run(q=[1000.005, 1.0], k=[2.5]), 1e-3,
    want="q", what="where 1000 is off by 0.005, with a tolerance of 0.001",
)  # fmt: skip
first.case(
    "one number among many", _run(q=np.zeros(2000), k=np.zeros(9)), _run(q=np.eye(1, 2000)[0] / 100, k=np.ones(9)),
    1e-3, want="q", what="where one of 2,000 numbers is off by 0.01",
)  # fmt: skip
first.case(
    "NaN is a difference", _RIGHT,
    _run(q=[[1.0, 2.0]], k=[[0.5, np.nan]], scores=[[np.nan, np.nan]], stream=[[np.nan, np.nan]]), 1e-6,
    want="k", what="where k has a NaN",
)  # fmt: skip
_LOST = _run(q=[1.0, 2.0], k=[np.nan, 3.0], scores=[4.0])
first.also(
    _LOST, _run(q=[1.0, 2.0], k=[np.nan, 3.0], scores=[4.5]), 1e-6, want="k", what="where k has a NaN in both"
)
first.also(
    _LOST, _run(q=[1.0, 2.0], k=[0.0, 3.0], scores=[4.5]), 1e-6, want="k", what="where k has a NaN against 0"
)
_MASKED = _run(q=[1.0, 2.0], scores=[[0.5, -np.inf], [1.0, 2.0]], stream=[3.0, 4.0])
first.case(
    "−∞ under the mask of both is none", _MASKED,
    _run(q=[1.0, 2.0], scores=[[0.5, -np.inf], [1.0, 2.0]], stream=[3.0, 4.1]), 1e-6,
    want="stream", what="where both have a score of −∞",
)  # fmt: skip
first.also(
    _MASKED, _run(q=[1.0, 2.0], scores=[[0.5, 0.0], [1.0, 2.0]], stream=[3.0, 4.0]), 1e-6,
    want="scores", what="where the other has no −∞",
)  # fmt: skip
first.case(
    "other shapes are a difference", _run(q=np.ones((2, 3)), k=np.ones(3)), _run(q=np.ones((1, 3)), k=np.ones(3)), 1e-6,
    want="q", what="where q has the shapes (2, 3) and (1, 3)",
)  # fmt: skip


def _first(differs, shapes=True):
    def wrong(one, other, tolerance):
        for (name, a), (_, b) in zip(one, other, strict=False):
            if shapes and a.shape != b.shape:
                return name
            with np.errstate(all="ignore"):
                if differs(a, b, tolerance):
                    return name
        return ""

    return wrong


def _exactly(a, b):
    return np.where(a == b, 0.0, abs(a - b))  # −∞ on both sides is no difference


@first.mistake("largest")
def _(one, other, tolerance):
    with np.errstate(all="ignore"):
        off = [np.nan_to_num(_exactly(a, b), nan=9e9).max() if a.shape == b.shape else 9e9
               for (_, a), (_, b) in zip(one, other, strict=False)]  # fmt: skip
    return one[int(np.argmax(off))][0] if max(off) > tolerance else ""


@first.mistake("last")
def _(one, other, tolerance):
    found = ""
    for a, b in zip(one, other, strict=False):
        found = first_difference([a], [b], tolerance) or found
    return found


@first.mistake("signed")
def _(one, other, tolerance):
    return _first(lambda a, b, t: not (np.where(a == b, 0.0, b - a) <= t).all())(one, other, tolerance)


first.mistake("signed", _first(lambda a, b, t: not (np.where(a == b, 0.0, a - b) <= t).all()))
first.mistake("infinity passed over", _first(
    lambda a, b, t: not (np.where(np.isinf(a) | np.isinf(b), 0.0, abs(a - b)) <= t).all()))  # fmt: skip
first.mistake("nan passes", _first(lambda a, b, t: (_exactly(a, b) > t).any()))
first.mistake("masked", _first(lambda a, b, t: not (abs(a - b) <= t).all()))
first.mistake("relative too", _first(lambda a, b, t: not np.allclose(a, b, atol=t)))
first.mistake("relative", _first(lambda a, b, t: not np.allclose(a, b, rtol=t, atol=0)))
first.mistake("nan equal", _first(lambda a, b, t: not np.allclose(a, b, rtol=0, atol=t, equal_nan=True)))
first.mistake("nan to a number", _first(
    lambda a, b, t: not np.allclose(np.nan_to_num(a), np.nan_to_num(b), rtol=0, atol=t)))  # fmt: skip
first.mistake("at the tolerance", _first(lambda a, b, t: not (_exactly(a, b) < t).all()))
first.mistake("mean", _first(lambda a, b, t: not _exactly(a, b).mean() <= t))
first.mistake("exactly", _first(lambda a, b, t: not np.array_equal(a, b)))
first.mistake("tolerance of its own", _first(lambda a, b, t: not np.allclose(a, b, rtol=0, atol=1e-6)))
first.mistake("shapes stretched", _first(lambda a, b, t: not (_exactly(a, b) <= t).all(), shapes=False))


# 9 · GPT-2


def gpt2(ids: Integer[np.ndarray, " T"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T V"]:
    """Logits of a GPT-2 whose weights have the names of its files."""

    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def norm(x, name):
        return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    T, table = len(ids), weights["wte.weight"]
    x = table[ids] + weights["wpe.weight"][:T]
    for i in range(sum(name.endswith("ln_1.weight") for name in weights)):
        at = f"h.{i}"
        q, k, v = np.split(linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3, axis=-1)
        mixed, _ = scaled_dot_product_attention(
            *(split_heads(one, n_heads) for one in (q, k, v)), mask=causal_mask(T, T)
        )
        x = x + linear(merge_heads(mixed), f"{at}.attn.c_proj")
        x = x + linear(gelu_tanh(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")), f"{at}.mlp.c_proj")
    return norm(x, "ln_f") @ table.T


whole = exercise("real.gpt2", gpt2, axes="T V")


def _weights(V: int, D: int, n_layers: int, context: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights under the names of GPT-2's files. The stream is small, so that ε counts."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"wte": (V, D), "wpe": (context, D)}
    for i in range(n_layers):
        shapes |= {
            f"h.{i}.attn.c_attn": (D, 3 * D), f"h.{i}.attn.c_proj": (D, D),
            f"h.{i}.mlp.c_fc": (D, 4 * D), f"h.{i}.mlp.c_proj": (4 * D, D),
        }  # fmt: skip
    made = {f"{name}.weight": rng.normal(size=shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}
    made["wte.weight"] *= 0.03
    made["wpe.weight"] *= 0.02
    for name, shape in list(shapes.items())[2:]:
        made[f"{name}.bias"] = rng.normal(size=shape[1]) * 0.3
    for name in [f"h.{i}.ln_{j}" for i in range(n_layers) for j in (1, 2)] + ["ln_f"]:
        made[f"{name}.weight"] = 1 + 0.2 * rng.normal(size=D)
        made[f"{name}.bias"] = 0.2 * rng.normal(size=D)
    for i in range(n_layers):
        made[f"h.{i}.attn.c_proj.weight"] *= 0.1
        made[f"h.{i}.attn.c_proj.bias"] *= 0.1
        made[f"h.{i}.attn.c_attn.weight"] *= 1.5
    made["wte.weight"] = made["wte.weight"] + rng.normal(size=(V, 1)) * 0.01
    return {name: made[name] for name in rng.permutation(sorted(made)).tolist()}


def _by_hand(ids: np.ndarray, weights: Weights, n_heads: int) -> np.ndarray:
    """Returns GPT-2's logits, head by head and GELU by GELU."""

    def norm(x, name):
        return normed(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def conv(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def bent(x):
        return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2

    see = np.tri(len(ids), dtype=bool)
    x = np.array([weights["wte.weight"][one] + weights["wpe.weight"][t] for t, one in enumerate(ids)])
    for i in range(sum(name.endswith("ln_1.weight") for name in weights)):
        at = f"h.{i}"
        q, k, v = (
            np.split(one, n_heads, axis=1)
            for one in np.split(conv(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3, axis=1)
        )
        heads = [attended(*one, see)[0] for one in zip(q, k, v, strict=True)]
        x = x + conv(np.hstack(heads), f"{at}.attn.c_proj")
        inner = np.vectorize(bent, otypes=[float])(conv(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"))
        x = x + conv(inner, f"{at}.mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def _judged(title: str, V: int, D: int, n_layers: int, n_heads: int, T: int, seed: int, what: str) -> None:
    """The next check: a model of those sizes, a number at a time."""

    @whole.check(title)
    def _(learner):
        weights = _weights(V, D, n_layers, seed=seed)
        ids = np.random.default_rng(seed).integers(0, V, T)
        expect(learner(ids, weights, n_heads), _by_hand(ids, weights, n_heads), what, axes="T V")


_judged("no block: two tables, a norm, and the table again", 11, 6, 0, 2, 5, 1, "gpt2 without blocks")
_judged("one block, one head, one position", 11, 6, 1, 1, 1, 2, "gpt2 of one id")
_judged("one head, five positions", 11, 6, 1, 1, 5, 3, "gpt2 with one head")
_judged("three heads", 13, 12, 1, 3, 7, 4, "gpt2 with three heads")
_judged("twelve blocks: h.10 does not come after h.1", 17, 8, 12, 2, 9, 5, "gpt2 with twelve blocks")


def _gpt2(bend=gelu_tanh, order=lambda q, k, v: (q, k, v), eps=1e-5, mask=True, last=True, positions=True,
          cut=split_heads, join=merge_heads, bias=lambda name: True, blocks=lambda n, weights: range(n),
          apart=lambda x: np.split(x, 3, axis=-1), kept=True, norms=("ln_1", "ln_2"), scale=None):  # fmt: skip
    def wrong(ids, weights, n_heads):
        T, table = len(ids), weights["wte.weight"]

        def linear(x, name):
            return x @ weights[f"{name}.weight"] + (weights[f"{name}.bias"] if bias(name) else 0)

        def norm(x, name):
            return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"], eps=eps)

        x = table[ids] + (weights["wpe.weight"][:T] if positions else 0)
        for i in blocks(sum(name.endswith("ln_1.weight") for name in weights), weights):
            normed = norm(x, f"h.{i}.{norms[0]}") if norms[0] else x
            three = order(*apart(linear(normed, f"h.{i}.attn.c_attn")))
            q, k, v = (cut(one, n_heads) for one in three)
            if scale:
                q = q * scale(q.shape[-1])
            mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(T, T) if mask else None)
            x = linear(join(mixed), f"h.{i}.attn.c_proj") + (x if kept else 0)
            normed = norm(x, f"h.{i}.{norms[1]}") if norms[1] else x
            x = x + linear(bend(linear(normed, f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
        return (norm(x, "ln_f") if last else x) @ table.T

    return wrong


def _in_file_order(n, weights):
    return dict.fromkeys(int(name.split(".")[1]) for name in weights if name.startswith("h."))


def _thirds_of_heads(x, n_heads):
    """Heads first, of 3K numbers each, and the thirds of these: x is the whole of c_attn, three times."""
    which, x = x
    return np.split(split_heads(x, n_heads), 3, axis=-1)[which]


def _stacked(x, n_heads):
    return x.reshape(n_heads, len(x), -1)


whole.mistake("exact GELU", _gpt2(bend=gelu))
whole.mistake("ReLU", _gpt2(bend=lambda x: np.maximum(x, 0)))
whole.mistake("sigmoid", _gpt2(bend=lambda x: x / (1 + np.exp(-1.702 * x))))
whole.mistake("queries and keys swapped", _gpt2(order=lambda q, k, v: (k, q, v)))
whole.mistake("values first", _gpt2(order=lambda q, k, v: (v, q, k)))
whole.mistake("every third", _gpt2(apart=lambda x: [x[..., i::3] for i in range(3)]))
whole.mistake("ε", _gpt2(eps=1e-6))
whole.mistake("ε", _gpt2(eps=1e-12))
whole.mistake("no mask", _gpt2(mask=False))
whole.mistake("no final norm", _gpt2(last=False))
whole.mistake("no positions", _gpt2(positions=False))
whole.mistake("heads ignored", _gpt2(cut=lambda x, n_heads: split_heads(x, 1)))
whole.mistake("biases of attention", _gpt2(bias=lambda name: "c_attn" not in name))
whole.mistake("bias of c_proj", _gpt2(bias=lambda name: "attn.c_proj" not in name))
whole.mistake("sorted as text", _gpt2(blocks=lambda n, weights: sorted(range(n), key=str)))
whole.mistake("ten blocks", _gpt2(blocks=lambda n, weights: range(min(n, 10))))
whole.mistake("order of the file", _gpt2(blocks=_in_file_order))
whole.mistake("no biases", _gpt2(bias=lambda name: False))
whole.mistake("nothing kept", _gpt2(kept=False))
whole.mistake("ln_1 twice", _gpt2(norms=("ln_1", "ln_1")))
whole.mistake("no ln_1", _gpt2(norms=(None, "ln_2")))
whole.mistake("no ln_2", _gpt2(norms=("ln_1", None)))
whole.mistake("scaled twice", _gpt2(scale=lambda K: K**-0.5))
whole.mistake("heads before thirds", _gpt2(apart=lambda x: [(i, x) for i in range(3)], cut=_thirds_of_heads))
whole.mistake("heads by reshape", _gpt2(cut=_stacked))
whole.mistake("heads by reshape", _gpt2(cut=_stacked, join=lambda x: x.reshape(x.shape[1], -1)))


@whole.mistake("one matrix turned")
def _(ids, weights, n_heads):
    turned = {name: w.T if name.endswith("attn.c_proj.weight") else w for name, w in weights.items()}
    return gpt2(ids, turned, n_heads)
