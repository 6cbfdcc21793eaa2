"""Tests wrong arguments: the error names the argument, its value and the rule."""

import jaxtyping
import numpy as np
import pytest

from glassformer import scratch

from .grid import SYSTEMS
from .rooms import METHODS, SCRATCH, Layer, both_rooms


def attention(room, **changed):
    return room.layers.MultiHeadAttention(**{"d_model": 12, "n_heads": 3, **room.parameters(), **changed})


def t5(room, n_heads=2, **changed):
    return room.layers.T5Positions(n_heads, **{"bidirectional": True, **room.parameters(), **changed})


def attend(room, q=(5, 4), k=(6, 4), v=(6, 4), **given):
    q, k, v = (room.array(np.ones(shape)) for shape in (q, k, v))
    return room.layers.scaled_dot_product_attention(q, k, v, **given)


def ones(room, *shape, dtype="float64"):
    return room.array(np.ones(shape), dtype)


def model(room, system="GPT-2", **changed):
    """Returns a model with V = 11, D = 8, H = 2 and a context of 12."""
    return room.layers.Transformer(SYSTEMS[system].replace(**changed), generator=None)


def read(room, *shape, system="GPT-2", **given):
    """Returns the model's output for ids of that shape, all 0."""
    arrays = {n: room.array(v) if isinstance(v, (np.ndarray, list)) else v for n, v in given.items()}
    return model(room, system)(room.array(np.zeros(shape, int)), **arrays)


def cross_entropy(room, logits=(2, 3), targets=(0, 1), **given):
    return room.layers.cross_entropy(ones(room, *logits), room.array(np.array(targets)), **given)


def cache(room, *sizes):
    return room.layers.KeyValueCache(*sizes)


def linear(room, *sizes):
    return room.layers.Linear(*sizes, **room.parameters())


def loaded(room, **changed):
    layer = linear(room, 2, 3)
    state = {"weight": ones(room, 2, 3), "bias": ones(room, 3), **changed}
    return layer.load_state_dict({name: values for name, values in state.items() if values is not None})


# name: (what to call, the error, its message from beginning to end)
CASES = {
    # token embedding
    "vocab_size": (
        lambda r: r.layers.TokenEmbedding(0, 4, **r.parameters()),
        ValueError,
        "vocab_size=0 must be at least 1",
    ),
    "vocab_size kind": (
        lambda r: r.layers.TokenEmbedding(3.0, 4, **r.parameters()),
        TypeError,
        "vocab_size=3.0 must be a whole number",
    ),
    "embedding d_model": (
        lambda r: r.layers.TokenEmbedding(3, -4, **r.parameters()),
        ValueError,
        "d_model=-4 must be at least 1",
    ),
    "id too large": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([[0, 2, 1], [2, 3, 7]])),
        ValueError,
        "ids[1, 1]=3 is outside 0..2 (vocab_size=3)",
    ),
    "id negative": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([0, -1])),
        ValueError,
        "ids[1]=-1 is outside 0..2 (vocab_size=3)",
    ),
    "ids float": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([0.0, 1.0])),
        TypeError,
        "ids must be an array of integers, not float64",
    ),
    "ids bool": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([True, False])),
        TypeError,
        "ids must be an array of integers, not bool",
    ),
    "ids list": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())([0, 1]),
        TypeError,
        "ids must be an array of integers, not list",
    ),
    # frequencies and the sinusoidal table
    "frequencies odd": (
        lambda r: r.layers.frequencies(7),
        ValueError,
        "d=7 is odd: sines and cosines come in pairs of dimensions",
    ),
    "frequencies base": (
        lambda r: r.layers.frequencies(8, base=-2.0),
        ValueError,
        "base=-2.0 must be positive and finite",
    ),
    "sinusoidal odd": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 7),
        ValueError,
        "d_model=7 is odd: sines and cosines come in pairs of dimensions",
    ),
    "sinusoidal zero": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 0),
        ValueError,
        "d_model=0 must be at least 1",
    ),
    "sinusoidal base": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 8, base=float("inf")),
        ValueError,
        "base=inf must be positive and finite",
    ),
    "sinusoidal base NaN": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 8, base=float("nan")),
        ValueError,
        "base=nan must be positive and finite",
    ),
    "sinusoidal base kind": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 8, base="10000"),
        TypeError,
        "base='10000' must be a number",
    ),
    "sinusoidal positions": (
        lambda r: r.layers.sinusoidal(r.array([[0, 1]]), 8),
        ValueError,
        "positions has shape (1, 2), but needs exactly one axis",
    ),
    "sinusoidal list": (
        lambda r: r.layers.sinusoidal([0, 1], 8),
        TypeError,
        "positions must be an array, not list",
    ),
    "SinusoidalPositions odd": (
        lambda r: r.layers.SinusoidalPositions(7),
        ValueError,
        "d_model=7 is odd: sines and cosines come in pairs of dimensions",
    ),
    "SinusoidalPositions base": (
        lambda r: r.layers.SinusoidalPositions(8, base=0.0),
        ValueError,
        "base=0.0 must be positive and finite",
    ),
    "SinusoidalPositions width": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 5, 6)),
        ValueError,
        "x.shape[-1]=6 does not match d_model=8",
    ),
    "SinusoidalPositions ints": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 5, 8, dtype="int64")),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "SinusoidalPositions one axis": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 8)),
        ValueError,
        "x has shape (8,), but needs the axes (..., T, D)",
    ),
    "SinusoidalPositions positions": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 5, 8), r.array([0, 1])),
        ValueError,
        "position_ids has 2 entries, but needs one for each of the 5 rows",
    ),
    # learned
    "context_length": (
        lambda r: r.layers.LearnedPositions(0, 8, **r.parameters()),
        ValueError,
        "context_length=0 must be at least 1",
    ),
    "learned d_model": (
        lambda r: r.layers.LearnedPositions(4, 0, **r.parameters()),
        ValueError,
        "d_model=0 must be at least 1",
    ),
    "beyond the context": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 5, 8)),
        ValueError,
        "position_ids[4]=4 is outside 0..3 (context_length=4)",
    ),
    "learned negative": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 8), r.array([0, -1])),
        ValueError,
        "position_ids[1]=-1 is outside 0..3 (context_length=4)",
    ),
    "learned float": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 8), r.array([0.0, 1.0])),
        TypeError,
        "position_ids must be an array of integers, not float64",
    ),
    "learned width": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 6)),
        ValueError,
        "x.shape[-1]=6 does not match d_model=8",
    ),
    # rotary
    "angles odd": (
        lambda r: r.layers.rotation_angles(r.array([0, 1]), 5),
        ValueError,
        "d_head=5 is odd: sines and cosines come in pairs of dimensions",
    ),
    "angles interpolation": (
        lambda r: r.layers.rotation_angles(r.array([0, 1]), 4, interpolation=0.0),
        ValueError,
        "interpolation=0.0 must be positive and finite",
    ),
    "angles base": (
        lambda r: r.layers.rotation_angles(r.array([0, 1]), 4, base=0.0),
        ValueError,
        "base=0.0 must be positive and finite",
    ),
    "angles positions": (
        lambda r: r.layers.rotation_angles(r.array(3), 4),
        ValueError,
        "positions has shape (), but needs exactly one axis",
    ),
    "stretch scaling": (
        lambda r: r.layers.stretch(4, original_context=9, scaling="ntk"),
        ValueError,
        "scaling='ntk' is not one of 'linear', 'llama3', 'yarn'",
    ),
    "stretch context": (
        lambda r: r.layers.stretch(4, original_context=0),
        ValueError,
        "original_context=0 must be at least 1",
    ),
    "stretch ramp": (
        lambda r: r.layers.stretch(4, original_context=9, scaling="llama3", slow=4.0, fast=1.0),
        ValueError,
        "slow=4.0 must be below fast=1.0: slow pairs are stretched, and fast ones are not",
    ),
    "RotaryPositions base of yarn": (
        lambda r: r.layers.RotaryPositions(4, base=1.0, scaling="yarn", original_context=9),
        ValueError,
        'base=1.0 must exceed 1 with scaling="yarn": later pairs have to be slower',
    ),
    "RotaryPositions attention factor": (
        lambda r: r.layers.RotaryPositions(4, attention_factor=0.0),
        ValueError,
        "attention_factor=0.0 must be positive and finite",
    ),
    "rotate layout": (
        lambda r: r.layers.rotate(ones(r, 2, 4), ones(r, 2, 2), layout="halves"),
        ValueError,
        "layout='halves' is not one of 'half', 'interleaved'",
    ),
    "rotate angles": (
        lambda r: r.layers.rotate(ones(r, 3, 4), ones(r, 1, 2)),
        ValueError,
        "angles.shape[-2:]=(1, 2) does not match (T, d_head/2)=(3, 2)",
    ),
    "rotate odd": (
        lambda r: r.layers.rotate(ones(r, 3, 5), ones(r, 3, 2)),
        ValueError,
        "d_head=5 is odd: sines and cosines come in pairs of dimensions",
    ),
    "rotate ints": (
        lambda r: r.layers.rotate(ones(r, 3, 4, dtype="int64"), ones(r, 3, 2)),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "rotate one axis": (
        lambda r: r.layers.rotate(ones(r, 4), ones(r, 2)),
        ValueError,
        "x has shape (4,), but needs the axes (..., T, K)",
    ),
    "RotaryPositions odd": (
        lambda r: r.layers.RotaryPositions(5),
        ValueError,
        "d_head=5 is odd: sines and cosines come in pairs of dimensions",
    ),
    "RotaryPositions layout": (
        lambda r: r.layers.RotaryPositions(4, layout="rotary"),
        ValueError,
        "layout='rotary' is not one of 'half', 'interleaved'",
    ),
    "RotaryPositions base": (
        lambda r: r.layers.RotaryPositions(4, base=-1.0),
        ValueError,
        "base=-1.0 must be positive and finite",
    ),
    "RotaryPositions interpolation": (
        lambda r: r.layers.RotaryPositions(4, interpolation=-1.0),
        ValueError,
        "interpolation=-1.0 must be positive and finite",
    ),
    "RotaryPositions width": (
        lambda r: r.layers.RotaryPositions(4).rotate(ones(r, 2, 5, 6)),
        ValueError,
        "x.shape[-1]=6 does not match d_head=4",
    ),
    "RotaryPositions positions": (
        lambda r: r.layers.RotaryPositions(4).rotate(ones(r, 5, 4), r.array([[0, 1, 2, 3, 4]])),
        ValueError,
        "position_ids has shape (1, 5), but needs exactly one axis",
    ),
    "RotaryPositions floats": (
        lambda r: r.layers.RotaryPositions(4).rotate(ones(r, 2, 4), r.array([0.0, 1.0])),
        TypeError,
        "position_ids must be an array of integers, not float64",
    ),
    # relative
    "relative floats": (
        lambda r: r.layers.relative_positions(r.array([0.5]), r.array([1])),
        TypeError,
        "query_positions must be an array of integers, not float64",
    ),
    "relative axes": (
        lambda r: r.layers.relative_positions(r.array([0]), r.array([[[1]]])),
        ValueError,
        "key_positions has shape (1, 1, 1), but needs the axes (T,) or (B, T)",
    ),
    "slopes": (
        lambda r: r.layers.alibi_slopes(0),
        ValueError,
        "n_heads=0 must be at least 1",
    ),
    "slopes kind": (
        lambda r: r.layers.alibi_slopes(2.0),
        TypeError,
        "n_heads=2.0 must be a whole number",
    ),
    "AlibiPositions": (
        lambda r: r.layers.AlibiPositions(-1),
        ValueError,
        "n_heads=-1 must be at least 1",
    ),
    "buckets float": (
        lambda r: r.layers.t5_bucket(r.array([0.5]), bidirectional=True),
        TypeError,
        "relative_positions must be an array of integers, not float64",
    ),
    "buckets few": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=True, n_buckets=3),
        ValueError,
        "n_buckets=3 must be at least 4",
    ),
    "buckets one": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=False, n_buckets=1),
        ValueError,
        "n_buckets=1 must be at least 2",
    ),
    "max_distance": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=False, max_distance=16),
        ValueError,
        "max_distance=16 must exceed the 16 distances that have their own bucket "
        "(n_buckets=32, bidirectional=False)",
    ),
    "max_distance both ways": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=True, max_distance=8),
        ValueError,
        "max_distance=8 must exceed the 8 distances that have their own bucket "
        "(n_buckets=32, bidirectional=True)",
    ),
    "T5Positions heads": (lambda r: t5(r, 0), ValueError, "n_heads=0 must be at least 1"),
    "T5Positions buckets": (
        lambda r: t5(r, n_buckets=2),
        ValueError,
        "n_buckets=2 must be at least 4",
    ),
    "T5Positions distance": (
        lambda r: t5(r, max_distance=2.5),
        TypeError,
        "max_distance=2.5 must be a whole number",
    ),
    # attention
    "softmax ints": (
        lambda r: r.layers.softmax(r.array([1, 2])),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "softmax empty": (
        lambda r: r.layers.softmax(ones(r, 3, 0)),
        ValueError,
        "x.shape[-1]=0 must be at least 1",
    ),
    "mask queries": (lambda r: r.layers.causal_mask(0), ValueError, "n_queries=0 must be at least 1"),
    "mask keys": (lambda r: r.layers.causal_mask(3, 2), ValueError, "n_keys=2 must be at least 3"),
    "window": (
        lambda r: r.layers.window_mask(3, window=0),
        ValueError,
        "window=0 must be at least 1",
    ),
    "window keys": (
        lambda r: r.layers.window_mask(3, 2, window=1),
        ValueError,
        "n_keys=2 must be at least 3",
    ),
    "no key": (
        lambda r: attend(r, k=(0, 4), v=(0, 4)),
        ValueError,
        "q (5, 4), k (0, 4), v (0, 4): there is no key to attend to",
    ),
    "q and k": (
        lambda r: attend(r, q=(5, 8)),
        ValueError,
        "q (5, 8), k (6, 4), v (6, 4): q and k must agree on the last axis, d_head",
    ),
    "q and k leading": (
        lambda r: attend(r, q=(2, 5, 4)),
        ValueError,
        "q (2, 5, 4), k (6, 4), v (6, 4): q and k must agree on every axis except that of the positions, T or S",
    ),
    "k and v": (
        lambda r: attend(r, v=(1, 4)),
        ValueError,
        "q (5, 4), k (6, 4), v (1, 4): every key needs one value, so k and v must have the same shape",
    ),
    "q flat": (
        lambda r: attend(r, q=(4,)),
        ValueError,
        "q (4,), k (6, 4), v (6, 4): each needs at least two axes, (..., T, K)",
    ),
    "q ints": (
        lambda r: r.layers.scaled_dot_product_attention(*[ones(r, 2, 4, dtype="int64")] * 3),
        TypeError,
        "q must be an array of floating-point numbers, not int64",
    ),
    "mask of numbers": (
        lambda r: attend(r, mask=ones(r, 5, 6)),
        TypeError,
        "mask must be an array of booleans (True = may attend), not float64",
    ),
    "mask of ints": (
        lambda r: attend(r, mask=ones(r, 5, 6, dtype="int64")),
        TypeError,
        "mask must be an array of booleans (True = may attend), not int64",
    ),
    "mask shape": (
        lambda r: attend(r, mask=ones(r, 6, 5, dtype="bool")),
        ValueError,
        "mask of shape (6, 5) does not broadcast to the scores' (5, 6)",
    ),
    "mask too many axes": (
        lambda r: attend(r, mask=ones(r, 1, 5, 6, dtype="bool")),
        ValueError,
        "mask of shape (1, 5, 6) does not broadcast to the scores' (5, 6)",
    ),
    "bias shape": (
        lambda r: attend(r, score_bias=ones(r, 3, 5, 6)),
        ValueError,
        "score_bias of shape (3, 5, 6) does not broadcast to the scores' (5, 6)",
    ),
    "bias ints": (
        lambda r: attend(r, score_bias=ones(r, 5, 6, dtype="int64")),
        TypeError,
        "score_bias must be an array of floating-point numbers, not int64",
    ),
    "split": (
        lambda r: r.layers.split_heads(ones(r, 5, 8), 3),
        ValueError,
        "d_model=8 is not divisible by n_heads=3",
    ),
    "split one axis": (
        lambda r: r.layers.split_heads(ones(r, 8), 2),
        ValueError,
        "x has shape (8,), but needs the axes (..., T, D)",
    ),
    "merge two axes": (
        lambda r: r.layers.merge_heads(ones(r, 5, 4)),
        ValueError,
        "x has shape (5, 4), but needs the axes (..., H, T, K)",
    ),
    "n_heads does not divide": (
        lambda r: attention(r, d_model=50, n_heads=4),
        ValueError,
        "d_model=50 is not divisible by n_heads=4",
    ),
    "n_heads zero": (lambda r: attention(r, n_heads=0), ValueError, "n_heads=0 must be at least 1"),
    "another n_heads": (
        lambda r: attention(r, position_encoding=r.layers.AlibiPositions(1)),
        ValueError,
        "position_encoding.n_heads=1 does not match n_heads=3",
    ),
    "another d_head": (
        lambda r: attention(r, position_encoding=r.layers.RotaryPositions(6)),
        ValueError,
        "position_encoding.d_head=6 does not match d_head=4",
    ),
    "attention width": (
        lambda r: attention(r)(ones(r, 5, 10)),
        ValueError,
        "x.shape[-1]=10 does not match d_model=12",
    ),
    "attention one axis": (
        lambda r: attention(r)(ones(r, 12)),
        ValueError,
        "x has shape (12,), but needs the axes (..., T, D)",
    ),
    "attention ints": (
        lambda r: attention(r)(ones(r, 5, 12, dtype="int64")),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "attention empty": (
        lambda r: attention(r)(ones(r, 0, 12)),
        ValueError,
        "q (3, 0, 4), k (3, 0, 4), v (3, 0, 4): there is no key to attend to",
    ),
    "attention positions": (
        lambda r: attention(r)(ones(r, 5, 12), position_ids=r.array([0, 1, 2])),
        ValueError,
        "position_ids has 3 entries, but needs one for each of the 5 rows",
    ),
    "attention positions kind": (
        lambda r: attention(r).attention_weights(ones(r, 2, 12), position_ids=r.array([0.0, 1.0])),
        TypeError,
        "position_ids must be an array of integers, not float64",
    ),
    "attention mask": (
        lambda r: attention(r, causal=True)(ones(r, 2, 5, 12), mask=ones(r, 4, 4, dtype="bool")),
        ValueError,
        "mask of shape (4, 4) does not broadcast to the scores' (2, 3, 5, 5)",
    ),
    "attention mask kind": (
        lambda r: attention(r, causal=True)(ones(r, 2, 5, 12), mask=ones(r, 5, 5)),
        TypeError,
        "mask must be an array of booleans (True = may attend), not float64",
    ),
    "attention n_kv_heads": (
        lambda r: attention(r, n_kv_heads=2),
        ValueError,
        "n_heads=3 is not divisible by n_kv_heads=2",
    ),
    "attention bias kind": (
        lambda r: attention(r, bias=True),
        ValueError,
        "bias=True is not one of 'all', 'qkv', 'none'",
    ),
    "attention bias shape": (
        lambda r: attention(r)(ones(r, 5, 12), score_bias=ones(r, 2, 5, 5)),
        ValueError,
        "score_bias of shape (2, 5, 5) does not broadcast to the scores' (3, 5, 5)",
    ),
    "attention positions by row": (
        lambda r: attention(r)(ones(r, 2, 5, 12), position_ids=r.array(np.zeros((3, 5), int))),
        ValueError,
        "position_ids has shape (3, 5), but needs exactly one axis",
    ),
    "repeat times": (
        lambda r: r.layers.repeat_heads(ones(r, 2, 5, 4), 0),
        ValueError,
        "times=0 must be at least 1",
    ),
    "repeat axes": (
        lambda r: r.layers.repeat_heads(ones(r, 5, 4), 2),
        ValueError,
        "x has shape (5, 4), but needs the axes (..., G, T, K)",
    ),
    # linear, norms, feed-forward
    "Linear n_in": (lambda r: linear(r, 0, 3), ValueError, "n_in=0 must be at least 1"),
    "Linear n_out": (lambda r: linear(r, 3, 2.0), TypeError, "n_out=2.0 must be a whole number"),
    "Linear width": (
        lambda r: linear(r, 3, 2)(ones(r, 5, 4)),
        ValueError,
        "x.shape[-1]=4 does not match n_in=3",
    ),
    "Linear ints": (
        lambda r: linear(r, 3, 2)(ones(r, 5, 3, dtype="int64")),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    **{
        f"{norm} {name}": (case, error, message)
        for norm in ("LayerNorm", "SigmaNorm", "RMSNorm")
        for name, case, error, message in (
            (
                "d_model",
                lambda r, norm=norm: getattr(r.layers, norm)(0),
                ValueError,
                "d_model=0 must be at least 1",
            ),
            (
                "eps",
                lambda r, norm=norm: getattr(r.layers, norm)(4, eps=0.0),
                ValueError,
                "eps=0.0 must be positive and finite",
            ),
            (
                "width",
                lambda r, norm=norm: getattr(r.layers, norm)(4)(ones(r, 3, 5)),
                ValueError,
                "x.shape[-1]=5 does not match d_model=4",
            ),
            (
                "ints",
                lambda r, norm=norm: getattr(r.layers, norm)(4)(ones(r, 3, 4, dtype="int64")),
                TypeError,
                "x must be an array of floating-point numbers, not int64",
            ),
        )
    },
    "activation": (
        lambda r: r.layers.FeedForward(4, 8, activation="swish", **r.parameters()),
        ValueError,
        "activation='swish' is not one of 'relu', 'gelu', 'gelu_tanh', 'swiglu', 'geglu', 'geglu_tanh'",
    ),
    "d_ff": (
        lambda r: r.layers.FeedForward(4, 0, **r.parameters()),
        ValueError,
        "n_out=0 must be at least 1",
    ),
    "FeedForward width": (
        lambda r: r.layers.FeedForward(4, 8, **r.parameters())(ones(r, 3, 5)),
        ValueError,
        "x.shape[-1]=5 does not match n_in=4",
    ),
    # head and pooler
    "Unembedding width": (
        lambda r: model(r).head(ones(r, 3, 7)),
        ValueError,
        "x.shape[-1]=7 does not match d_model=8",
    ),
    "Unembedding ints": (
        lambda r: model(r).head(ones(r, 3, 8, dtype="int64")),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "Pooler axes": (
        lambda r: model(r, "BERT").pool(ones(r, 8)),
        ValueError,
        "x has shape (8,), but needs the axes (..., T, D)",
    ),
    # cache
    "cache batch_size": (lambda r: cache(r, 0, 2, 5, 4), ValueError, "batch_size=0 must be at least 1"),
    "cache n_kv_heads": (lambda r: cache(r, 1, 0, 5, 4), ValueError, "n_kv_heads=0 must be at least 1"),
    "cache capacity": (lambda r: cache(r, 1, 2, 0, 4), ValueError, "capacity=0 must be at least 1"),
    "cache d_head": (lambda r: cache(r, 1, 2, 5, 4.0), TypeError, "d_head=4.0 must be a whole number"),
    "cache shape": (
        lambda r: cache(r, 1, 2, 5, 4).append(ones(r, 1, 2, 3, 5), ones(r, 1, 2, 3, 5)),
        ValueError,
        "the keys have shape (1, 2, 3, 5), but the cache takes (B, G, T, K) = (1, 2, T, 4)",
    ),
    "cache full": (
        lambda r: cache(r, 1, 2, 5, 4).append(*[ones(r, 1, 2, 6, 4)] * 2),
        ValueError,
        "the cache has room for capacity=5 positions: it already holds 0, so 6 more do not fit",
    ),
    "reorder rows": (
        lambda r: model(r).new_cache(2, 5).reorder([0, 2]),
        ValueError,
        "rows[1]=2 is outside 0..1 (batch_size=2)",
    ),
    "reorder floats": (
        lambda r: model(r).new_cache(2, 5).reorder(np.array([0.0, 1.0])),
        TypeError,
        "rows must be an array of integers, not float64",
    ),
    "reorder too few": (
        lambda r: model(r).new_cache(2, 5).reorder([0]),
        ValueError,
        "rows has 1 entries, but needs one for each of the 2 rows",
    ),
    # model
    "no config": (
        lambda r: r.layers.Transformer(12, generator=None),
        TypeError,
        "config=12 must be a ModelConfig of glassformer.config",
    ),
    "no id": (lambda r: read(r, 2, 0), ValueError, "ids.shape[-1]=0 must be at least 1"),
    "ids of floats": (
        lambda r: model(r)(ones(r, 2)),
        TypeError,
        "ids must be an array of integers, not float64",
    ),
    "ids without axes": (
        lambda r: read(r),
        ValueError,
        "ids has shape (), but needs the axes (..., T)",
    ),
    "ids outside": (
        lambda r: model(r)(r.array([0, 11])),
        ValueError,
        "ids[1]=11 is outside 0..10 (vocab_size=11)",
    ),
    "longer than the context": (
        lambda r: read(r, 13),
        ValueError,
        "position_ids[12]=12 is outside 0..11 (context_length=12)",
    ),
    "model mask shape": (
        lambda r: read(r, 2, 3, mask=np.ones((2, 4), bool)),
        ValueError,
        "mask.shape=(2, 4) does not match (..., S)=(2, 3)",
    ),
    "model mask kind": (
        lambda r: read(r, 2, 3, mask=np.ones((2, 3), int)),
        TypeError,
        "mask must be an array of booleans (True = a real token), not int64",
    ),
    "model positions": (
        lambda r: read(r, 2, 3, system="BLOOM", position_ids=[0, 1]),
        ValueError,
        "position_ids has 2 entries, but needs one for each of the 3 rows",
    ),
    "model positions kind": (
        lambda r: read(r, 2, 3, system="BLOOM", position_ids=[0.0, 1.0, 2.0]),
        TypeError,
        "position_ids must be an array of integers, not float64",
    ),
    "segments without": (
        lambda r: read(r, 2, 3, segments=np.zeros((2, 3), int)),
        ValueError,
        "segments were given, but n_segments=0",
    ),
    "segments shape": (
        lambda r: read(r, 2, 3, system="BERT", segments=[0, 0, 0]),
        ValueError,
        "segments.shape=(3,) does not match ids.shape=(2, 3)",
    ),
    "segments outside": (
        lambda r: read(r, 3, system="BERT", segments=[0, 1, 2]),
        ValueError,
        "segments[2]=2 is outside 0..1 (n_segments=2)",
    ),
    "segments kind": (
        lambda r: read(r, 3, system="BERT", segments=[0.0, 1.0, 1.0]),
        TypeError,
        "segments must be an array of integers, not float64",
    ),
    "source of a decoder": (
        lambda r: read(r, 3, source=[0, 1]),
        ValueError,
        "source is for an encoder-decoder, but family='decoder'",
    ),
    "source_mask of an encoder": (
        lambda r: read(r, 3, system="BERT", source_mask=np.ones(3, bool)),
        ValueError,
        "source_mask is for an encoder-decoder, but family='encoder'",
    ),
    "nothing to read": (
        lambda r: read(r, 3, system="T5"),
        ValueError,
        "an encoder-decoder needs either source (the ids to read) or memory (the output of encode)",
    ),
    "twice to read": (
        lambda r: read(r, 3, system="T5", source=[0, 1], memory=np.ones((2, 8), np.float32)),
        ValueError,
        "an encoder-decoder needs either source (the ids to read) or memory (the output of encode)",
    ),
    "source outside": (
        lambda r: read(r, 3, system="T5", source=[0, -1]),
        ValueError,
        "source[1]=-1 is outside 0..10 (vocab_size=11)",
    ),
    "source kind": (
        lambda r: read(r, 3, system="T5", source=[0.5]),
        TypeError,
        "source must be an array of integers, not float64",
    ),
    "source batch": (
        lambda r: read(r, 2, 3, system="T5", source=[0, 1]),
        ValueError,
        "source.shape[:-1]=() does not match ids.shape[:-1]=(2,)",
    ),
    "memory width": (
        lambda r: read(r, 3, system="T5", memory=np.ones((2, 7), np.float32)),
        ValueError,
        "memory.shape[-1]=7 does not match d_model=8",
    ),
    "memory batch": (
        lambda r: read(r, 3, system="T5", memory=np.ones((1, 2, 8), np.float32)),
        ValueError,
        "memory.shape[:-2]=(1,) does not match ids.shape[:-1]=()",
    ),
    "memory kind": (
        lambda r: read(r, 3, system="T5", memory=np.ones((2, 8), int)),
        TypeError,
        "memory must be an array of floating-point numbers, not int64",
    ),
    "source_mask shape": (
        lambda r: read(r, 3, system="T5", source=[0, 1], source_mask=np.ones(3, bool)),
        ValueError,
        "source_mask.shape=(3,) does not match (..., S)=(2,)",
    ),
    "memory's source_mask": (
        lambda r: read(r, 3, system="T5", memory=np.ones((2, 8), np.float32), source_mask=np.ones(3, bool)),
        ValueError,
        "source_mask.shape=(3,) does not match (..., S)=(2,)",
    ),
    "cache of another model": (
        lambda r: read(r, 1, 3, cache=model(r, "the modern one").new_cache(1, 5)),
        ValueError,
        "the keys have shape (1, 2, 3, 4), but the cache takes (B, G, T, K) = (1, 2, T, 6)",
    ),
    "cache of another batch": (
        lambda r: read(r, 1, 3, cache=model(r).new_cache(2, 5)),
        ValueError,
        "ids of shape (1, 3) do not fit the cache: it takes (B, T) with B=2",
    ),
    "cache without batch": (
        lambda r: read(r, 3, cache=model(r).new_cache(2, 5)),
        ValueError,
        "ids of shape (3,) do not fit the cache: it takes (B, T) with B=2",
    ),
    "cache too short": (
        lambda r: read(r, 1, 6, cache=model(r).new_cache(1, 5)),
        ValueError,
        "the cache has room for capacity=5 positions: it already holds 0, so 6 more do not fit",
    ),
    "cache of an encoder": (
        lambda r: read(r, 1, 3, system="BERT", cache=model(r).new_cache(1, 5)),
        ValueError,
        "cache is for a decoder, but family='encoder': every position sees the whole text",
    ),
    "new_cache of an encoder": (
        lambda r: model(r, "BERT").new_cache(1, 5),
        ValueError,
        "this model has no decoder: its configuration leaves it out",
    ),
    "new_cache size": (lambda r: model(r).new_cache(1, 0), ValueError, "capacity=0 must be at least 1"),
    "no encoder": (
        lambda r: model(r).encode(r.array([0])),
        ValueError,
        "this model has no encoder: its configuration leaves it out",
    ),
    "encode mask": (
        lambda r: model(r, "T5").encode(r.array([0, 1]), mask=ones(r, 3, dtype="bool")),
        ValueError,
        "mask.shape=(3,) does not match (..., S)=(2,)",
    ),
    "no head": (
        lambda r: model(r, head="none").head(ones(r, 3, 8)),
        ValueError,
        "this model has no head: its configuration leaves it out",
    ),
    "no pooler": (
        lambda r: model(r).pool(ones(r, 3, 8)),
        ValueError,
        "this model has no pooler: its configuration leaves it out",
    ),
    # loss
    "loss shapes": (
        lambda r: cross_entropy(r, (2, 4, 3), (0, 1)),
        ValueError,
        "targets.shape=(2,) does not match logits.shape[:-1]=(2, 4)",
    ),
    "loss target": (
        lambda r: cross_entropy(r, (2, 3), (0, 3)),
        ValueError,
        "targets[1]=3 is outside 0..2 (vocab_size=3)",
    ),
    "loss another ignore_index": (
        lambda r: cross_entropy(r, (2, 3), (0, -100), ignore_index=-1),
        ValueError,
        "targets[1]=-100 is outside 0..2 (vocab_size=3)",
    ),
    "loss nothing left": (
        lambda r: cross_entropy(r, (2, 3), (-100, -100)),
        ValueError,
        "targets has no entry other than ignore_index=-100: there is nothing to average",
    ),
    "loss targets kind": (
        lambda r: cross_entropy(r, (2, 3), (0.0, 1.0)),
        TypeError,
        "targets must be an array of integers, not float64",
    ),
    "loss logits kind": (
        lambda r: r.layers.cross_entropy(r.array([[1, 2]]), r.array([0])),
        TypeError,
        "logits must be an array of floating-point numbers, not int64",
    ),
}

# What only scratch has
SCRATCH_CASES = {
    "state missing": (
        lambda r: loaded(r, bias=None),
        ValueError,
        "the state does not fit: bias is missing",
    ),
    "state unknown": (
        lambda r: loaded(r, gain=ones(r, 3)),
        ValueError,
        "the state does not fit: gain is not a weight of this layer",
    ),
    "state shape": (
        lambda r: loaded(r, weight=ones(r, 3, 2)),
        ValueError,
        "the state does not fit: weight has shape (3, 2), but must have (2, 3)",
    ),
    "dropout rate": (
        lambda r: scratch.Dropout(1.0, generator=None),
        ValueError,
        "rate=1.0 must be at least 0 and below 1",
    ),
    "dropout without chance": (
        lambda r: scratch.Dropout(0.1, generator=None)(ones(r, 3)),
        ValueError,
        "rate=0.1 needs a generator to draw what training drops",
    ),
    "AdamW rate": (
        lambda r: scratch.AdamW(linear(r, 2, 3), learning_rate=0.0),
        ValueError,
        "learning_rate=0.0 must be positive and finite",
    ),
    "AdamW beta": (
        lambda r: scratch.AdamW(linear(r, 2, 3), betas=(0.9, 1.0)),
        ValueError,
        "betas[1]=1.0 must be at least 0 and below 1",
    ),
    "AdamW eps": (
        lambda r: scratch.AdamW(linear(r, 2, 3), eps=-1e-8),
        ValueError,
        "eps=-1e-08 must be positive and finite",
    ),
    "AdamW decay": (
        lambda r: scratch.AdamW(linear(r, 2, 3), weight_decay=-0.1),
        ValueError,
        "weight_decay=-0.1 must be zero or more, and finite",
    ),
    "AdamW names": (
        lambda r: scratch.AdamW(linear(r, 2, 3), no_decay=["gain"]),
        ValueError,
        "no_decay='gain' is not one of 'weight', 'bias'",
    ),
    "max_norm": (
        lambda r: scratch.clip_gradients(linear(r, 2, 3), 0.0),
        ValueError,
        "max_norm=0.0 must be positive and finite",
    ),
    "no forward": (
        lambda r: scratch.Layer()(1),
        NotImplementedError,
        "Layer has no forward",
    ),
    "loss backward": (
        lambda r: scratch.cross_entropy_backward(ones(r, 2, 3), np.array([0, 3])),
        ValueError,
        "targets[1]=3 is outside 0..2 (vocab_size=3)",
    ),
}


@both_rooms
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("as_readers_run_it")
def test_the_message_names_argument_value_and_rule(room, case):
    call, error, message = CASES[case]
    with pytest.raises(error) as caught:
        call(room)
    assert str(caught.value) == message


@pytest.mark.parametrize("case", SCRATCH_CASES)
@pytest.mark.usefixtures("as_readers_run_it")
def test_the_message_of_what_only_scratch_has(case):
    call, error, message = SCRATCH_CASES[case]
    with pytest.raises(error) as caught:
        call(SCRATCH)
    assert str(caught.value) == message


def test_a_state_that_does_not_fit_changes_nothing():
    layer = linear(SCRATCH, 2, 3)
    kept = layer.state_dict()
    with pytest.raises(ValueError, match="bias is missing"):
        layer.load_state_dict({"weight": np.ones((2, 3))})
    np.testing.assert_array_equal(layer.weight, kept["weight"])
    layer.weight[...] = 0  # what state_dict gave is a copy
    assert kept["weight"].any()


@both_rooms
def test_while_the_tests_run_annotations_are_enforced(room, request):
    """The fixture really switches something off: without it a call reaches jaxtyping, with it our own check."""

    def call():
        return room.layers.SinusoidalPositions(8).embed(ones(room, 8))

    with pytest.raises(jaxtyping.TypeCheckError):
        call()
    request.getfixturevalue("as_readers_run_it")
    with pytest.raises(ValueError, match="needs the axes"):
        call()


@both_rooms
@pytest.mark.parametrize("method", METHODS)
def test_an_input_is_never_changed(room, method):
    x = room.array(np.random.default_rng(0).normal(size=(2, 5, 24)))
    kept = room.numpy(x).copy()
    layer = Layer(room, method)
    weight = room.numpy(layer.method.weight).copy() if hasattr(layer.method, "weight") else None
    positions, mask = room.array(np.arange(5)), room.array(np.tri(5, dtype=bool))
    layer.attention(layer.method.embed(x, positions), position_ids=positions, mask=mask)
    np.testing.assert_array_equal(room.numpy(x), kept)
    np.testing.assert_array_equal(room.numpy(positions), np.arange(5))
    np.testing.assert_array_equal(room.numpy(mask), np.tri(5, dtype=bool))
    if weight is not None:
        np.testing.assert_array_equal(room.numpy(layer.method.weight), weight)


# NaN goes where the docstrings say that it goes


@both_rooms
def test_softmax_of_a_row_with_nan_or_infinity_is_nan(room):
    x = room.array([[1.0, np.nan], [1.0, 2.0], [-np.inf, np.nan]])
    bad = np.isnan(room.numpy(room.layers.softmax(x)))
    np.testing.assert_array_equal(bad, [[1, 1], [0, 0], [1, 1]])
    with np.errstate(invalid="ignore"):
        assert np.isnan(room.numpy(room.layers.softmax(room.array([1.0, np.inf])))).all()


@both_rooms
@pytest.mark.parametrize(
    ("where", "rows"),
    [("q", [0, 0, 1, 0]), ("k", [0, 0, 1, 1]), ("v", [1, 1, 1, 1])],
)
def test_a_mask_is_no_wall_against_nan(room, where, rows):
    """At position 2 of 4, causal: a NaN query stays there, a key affects those that see it, a value affects all."""
    arrays = dict(zip("qkv", np.random.default_rng(0).normal(size=(3, 4, 6)), strict=True))
    arrays[where][2] = np.nan
    output, _ = room.layers.scaled_dot_product_attention(
        *(room.array(arrays[name]) for name in "qkv"), mask=room.layers.causal_mask(4)
    )
    output = np.isnan(room.numpy(output))
    np.testing.assert_array_equal(output, np.array(rows, bool)[:, None] & np.ones(6, bool))


@both_rooms
def test_a_nan_in_one_row_of_the_input_reaches_every_row(room):
    x = np.random.default_rng(0).normal(size=(4, 24))
    x[3, 0] = np.nan
    assert np.isnan(Layer(room, "rope", causal=True)(x)).all()
