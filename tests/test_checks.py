"""Tests the messages about wrong arguments, from beginning to end: the argument's name, its value and the rule."""

import inspect
import sys
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from glassformer import _checks as checks
from glassformer import nn, scratch
from glassformer.config import ModelConfig

FLOATS, INTS, BOOLS = np.ones((2, 3)), np.arange(6).reshape(2, 3), np.ones((2, 3), bool)
CONFIG = ModelConfig(vocab_size=11, context_length=6, d_model=8, n_layers=1, n_heads=2)


def inputs(ids=INTS, family="decoder", **given):
    """Checks the inputs of a model with V = 11 and D = 8; those that are not given are None."""
    names = ("mask", "position_ids", "segments", "source", "memory", "source_mask", "cache")
    segments = {"n_segments": 2} if family == "encoder" else {}
    checks.model_inputs(CONFIG.replace(family=family, **segments), ids, **dict.fromkeys(names) | given)


def attend(q=(5, 4), k=(6, 4), v=(6, 4), mask=None, score_bias=None):
    checks.attention(*(np.ones(shape) for shape in (q, k, v)), mask, score_bias)


def written(**shapes):
    """Returns the arguments of a recurrence with K = 4 and U = 5; others have other shapes."""
    usual = {"q": (2, 3, 4), "k": (2, 3, 4), "v": (2, 3, 5), "log_decay": (2, 3, 1), "strength": (2, 3, 1)}
    return [np.ones(shape) for shape in (usual | {"state": (2, 4, 5)} | shapes).values()]


CACHE = SimpleNamespace(batch_size=2, capacity=5, length=4)
STATE = SimpleNamespace(keys=np.zeros((1, 2, 4, 3)), values=np.zeros((1, 3, 5)))

# What is called: the message
WRONG_VALUES = {
    # Numbers and names
    "whole('n', 0)": "n=0 must be at least 1",
    "whole('n', -1, at_least=0)": "n=-1 must be at least 0",
    "whole('n', 2**63)": f"n={2**63} must be at most {2**63 - 1}",
    "whole('n', 10**400)": f"n=10**40 or more must be at most {2**63 - 1}",
    "even('d', 7)": "d=7 is odd: sines and cosines come in pairs of dimensions",
    "even('d', 0)": "d=0 must be at least 1",
    "divisible('a', 5, 'b', 2)": "a=5 is not divisible by b=2",
    "divisible('a', 5, 'b', 0)": "b=0 must be at least 1",
    "positive('x', 0.0)": "x=0.0 must be positive and finite",
    "positive('x', float('inf'))": "x=inf must be positive and finite",
    "positive('x', float('nan'))": "x=nan must be positive and finite",
    "positive('x', 10**400)": f"x={10**400} must be positive and finite",
    "not_negative('x', -0.1)": "x=-0.1 must be zero or more, and finite",
    "not_negative('x', float('inf'))": "x=inf must be zero or more, and finite",
    "rate('x', 1.0)": "x=1.0 must be at least 0 and below 1",
    "rate('x', -0.1)": "x=-0.1 must be at least 0 and below 1",
    "rate('x', float('nan'))": "x=nan must be at least 0 and below 1",
    "one_of('x', 'c', ('a', 'b'))": "x='c' is not one of 'a', 'b'",
    "one_of('x', ['a'], {'a': 1})": "x=['a'] is not one of 'a'",
    "equal('a', 1, 'b', 2)": "a=1 does not match b=2",
    "fields('It', ['n_layer'], ['n_layers'])": "It has no field 'n_layer'; did you mean 'n_layers'?",
    "fields('It', ['zzz'], ['a', 'b'])": "It has no field 'zzz'; the fields are a, b",
    "fields('It', ['zzz'], [*map(str, range(36))])": "It has no field 'zzz'; it has 36 others",
    "fields('It', ['zzz'], [*map(str, range(36))], ['0', '1'])": "It has no field 'zzz', and needs 0, 1",
    "fields('It', ['a'], 'abc', ['b', 'c'])": "It needs the field 'b', 'c'",
    # Arrays
    "indices('ids', INTS, 'vocab_size', 4)": "ids[1, 1]=4 is outside 0..3 (vocab_size=4)",
    "indices('ids', -INTS, 'vocab_size', 4)": "ids[0, 1]=-1 is outside 0..3 (vocab_size=4)",
    "axes('x', INTS, 'H, T, K')": "x has shape (2, 3), but needs the axes (..., H, T, K)",
    "vectors('x', FLOATS, 'd', 4)": "x.shape[-1]=3 does not match d=4",
    "vectors('x', FLOATS[0], 'd', 3, 'T, D')": "x has shape (3,), but needs the axes (..., T, D)",
    "one_axis('x', INTS)": "x has shape (2, 3), but needs exactly one axis",
    "one_axis('x', INTS[0], 2)": "x has 3 entries, but needs one for each of the 2 rows",
    "one_axis_or_two('x', INTS[None])": "x has shape (1, 2, 3), but needs the axes (T,) or (B, T)",
    "places('x', INTS, (3,), 3)": "x has shape (2, 3), but needs exactly one axis",
    "places('x', INTS, (2,), 4)": "x has 3 entries, but needs one for each of the 4 rows",
    # Attention, its positions and its cache
    "attend(k=(0, 4), v=(0, 4))": "q (5, 4), k (0, 4), v (0, 4): there is no key to attend to",
    "attend(q=(5, 8))": "q (5, 8), k (6, 4), v (6, 4): q and k must agree on the last axis, d_head",
    "attend(q=(2, 5, 4))": "q (2, 5, 4), k (6, 4), v (6, 4): "
    "q and k must agree on every axis except that of the positions, T or S",
    "attend(v=(1, 4))": "q (5, 4), k (6, 4), v (1, 4): "
    "every key needs one value, so k and v may differ only in the last axis",
    "attend(q=(4,))": "q (4,), k (6, 4), v (6, 4): each needs at least two axes, (..., T, K)",
    "attend(mask=BOOLS)": "mask of shape (2, 3) does not broadcast to the scores' (5, 6)",
    "attend(mask=np.ones((1, 5, 6), bool))": "mask of shape (1, 5, 6) does not broadcast to the scores' (5, 6)",
    "attend(score_bias=FLOATS)": "score_bias of shape (2, 3) does not broadcast to the scores' (5, 6)",
    "t5_buckets(True, 3, 9)": "n_buckets=3 must be at least 4",
    "t5_buckets(False, 1, 9)": "n_buckets=1 must be at least 2",
    "t5_buckets(False, 32, 16, prefix='t5_')": "t5_max_distance=16 must exceed the 16 distances that have their own "
    "bucket (t5_n_buckets=32, bidirectional=False)",
    "t5_buckets(True, 32, 8)": "max_distance=8 must exceed the 8 distances that have their own "
    "bucket (n_buckets=32, bidirectional=True)",
    "rope_scaling('llama3', 9.0, 5.0, 5.0, prefix='rope_')": "rope_slow=5.0 must be below rope_fast=5.0: "
    "slow pairs are stretched, and fast ones are not",
    "chosen_experts(0, 1, 1, 1, 1)": "n_experts=0 must be at least 1",
    "chosen_experts(4, 5, 1, 1, 1)": "top_k=5 must be at most the experts to choose from, 4",
    "chosen_experts(4, 3, 2, 1, 1)": "top_k=3 must be at most the experts to choose from, 2",
    "chosen_experts(5, 2, 2, 1, 1)": "n_experts=5 is not divisible by n_groups=2",
    "chosen_experts(4, 2, 2, 3, 1)": "top_groups=3 must be at most n_groups, 2",
    "chosen_experts(4, 2, 2, 1, 3)": "group_best=3 must be at most n_experts / n_groups, 2",
    "limited_gate(0.0, 0.0, 1.0, True)": "limit=0.0 must be positive and finite",
    "limited_gate(7.0, 1.0, 1.5, None)": (
        "limit=7.0, offset=1.0 and sharpness=1.5 need a gate, which this activation lacks"
    ),
    "ids_for_table(None)": "ids are missing: the table of this router chooses experts by them",
    "rotated_share('share', 0.3, 8)": "share=0.3 of d_head=8 is 2.4 features: it must be an even number, "
    "at most d_head",
    "rope_scaling('yarn', 1.0, 1.0, 5.0)": 'base=1.0 must exceed 1 with scaling="yarn": later pairs have to be slower',
    "fits_cache((1, 2, 3, 5), (1, 2, 9, 4), 0, 9)": "the keys have shape (1, 2, 3, 5), "
    "but the cache takes (B, G, T, K) = (1, 2, T, 4)",
    "room_in_cache(3, 3, 5)": "the cache has room for capacity=5 positions: it already holds 3, so 3 more do not fit",
    "going_back(6, 5)": "length=6 must be at most 5, the positions that the cache holds",
    "going_back(-1, 5)": "length=-1 must be at least 0",
    "going_back(2, 9, 4)": "length=2 is too far back: the cache has read 9 positions, and a layer with a window keeps "
    "what it needs to go back by 4; new_cache(…, rewindable=7) keeps more",
    "no_gradient_through_cache([], CACHE)": "no gradient flows through a cache: "
    "saved must be None when a cache is given",
    "acts_on('positions', nn.RotaryPositions(4), 'input', nn.NoPositions)": "positions, a RotaryPositions, has "
    "acts_on='queries and keys', but must act on 'input' or 'scores': an encoding of 'input' is positions of a stack, "
    "and one of 'queries and keys' attention.position_encoding of every block",
    "rotates('it', nn.AlibiPositions(2), 'd_head', 4)": "it, a AlibiPositions, acts on the scores, but must rotate "
    "queries and keys",
    "rotates('it', nn.RotaryPositions(6), 'd_head', 4)": "it.d_head=6 does not match d_head=4",
    "indexer(None, 4, None, False)": "an indexer needs d_query_latent: it reads the latent of the queries",
    "indexer(None, 4, 3, True)": "a layer either has an indexer or borrows_choice, not both",
    "below('d_rotated', 4, 'd_head', 4)": "d_rotated=4 must be below d_head=4",
    "latent(4, 4, 4, 0)": "d_query_latent=0 must be at least 1",
    "choice_to_borrow({}, True)": "borrows_choice needs shared['chosen'], "
    "which an earlier layer with an indexer leaves there",
    # Layers with a state
    "recurrence(*written(q=(4,)))": "q has shape (4,), but needs the axes (..., T, K)",
    "recurrence(*written(k=(2, 3, 5)))": "k.shape=(2, 3, 5) does not match q.shape=(2, 3, 4)",
    "recurrence(*written(v=(2, 2, 5)))": "v.shape[:-1]=(2, 2) does not match q.shape[:-1]=(2, 3)",
    "recurrence(*written(q=(2, 0, 4), k=(2, 0, 4)))": "q.shape[-2]=0 must be at least 1",
    "recurrence(*written(strength=(2, 3, 4)))": "strength.shape[-1]=4 must be 1: it has one number for each position",
    "recurrence(*written(log_decay=(2, 3, 2)))": "log_decay.shape[-1]=2 must be 1 or 4: one number for each position, "
    "or for each feature of its key",
    "recurrence(*written(state=(2, 5, 4)))": "state.shape=(2, 5, 4) does not match (..., K, U)=(2, 4, 5)",
    "state_sizes((2, 3), (0, 4))": "state=(2, 3) must be (H, K, U)",
    "state_sizes((2, 3, 0), (0, 4))": "state[2]=0 must be at least 1",
    "state_sizes((2, 3, 1), (-1, 4))": "inputs[0]=-1 must be at least 0",
    "neighbours(FLOATS, None, (2, 3), 2)": "past.shape=(2, 3) does not match (..., taps - 1, E)=(1, 3)",
    "neighbours(None, BOOLS[:, 1:], (2, 3, 4), 3)": "real.shape=(2, 2) does not match x.shape[:-1]=(2, 3)",
    "fits_state(STATE, ((2, 4, 3), (3, 6)))": "the cache keeps (2, 4, 3) and (3, 5) of each text, but this layer "
    "(2, 4, 3) and (3, 6): its own new_cache makes the one it needs",
    "padding_alone(BOOLS[0, 0], (2, 3))": "mask has shape (), but needs the axes (..., S)",
    "padding_alone(BOOLS[0], (2, 4))": "mask.shape[-1]=3 does not match the positions so far=4",
    "padding_alone(BOOLS, (2, 3))": "mask of shape (2, 3) differs from query to query or head to head: what is in a "
    "state is read as a whole, so mask must be (..., 1, 1, S), for padding",
    "padding_alone(BOOLS[:, None, None], (3, 3))": "mask of shape (2, 1, 1, 3) does not broadcast to the scores' "
    "(3, 1, 1, 3)",
    "markable([])": "a state can be marked only with room for a copy: new_cache(…, rewindable=1) makes it",
    "going_back_to_a_mark(6, 5, 5)": "length=6 must be at most 5, the positions that the cache holds",
    "going_back_to_a_mark(3, 5, None)": "length=3 cannot be gone back to: a state keeps no position of its own, only a "
    "copy of where it was marked, and it was never marked; mark() before you read on",
    "going_back_to_a_mark(3, 5, 4)": "length=3 cannot be gone back to: a state keeps no position of its own, only a "
    "copy of where it was marked, and it was marked at 4; mark() before you read on",
    "layer_with_a_state(4, 3, 4, 1)": "n_heads=4 is not divisible by n_key_heads=3",
    "layer_with_a_state(4, 2, 0, 1)": "taps=0 must be at least 1",
    "layer_with_a_state(4, 2, 4, 1, d_key=3, rank=0)": "rank=0 must be at least 1",
    "layer_with_a_state(4, 2, 4, 1.5)": "max_strength=1.5 must be 1, or 2 to let an old entry change its sign",
    # Models and their state
    "has_part('pooler', None)": "this model has no pooler: its configuration leaves it out",
    "state_dict({'a': (1,), 'b': (2,)}, {'b': (3,), '\\x1b': (1,)})": "the state does not fit: a is missing; "
    "\\x1b is not a weight of this layer; b has shape (3,), but must have (2,)",
    "no_faults('all', [*'abcdefghij'])": "all: a; b; c; d; e; f; g; h; and 2 more",
    "inputs(INTS[:, :0])": "ids.shape[-1]=0 must be at least 1",
    "inputs(INTS.sum())": "ids has shape (), but needs the axes (..., T)",
    "inputs(mask=BOOLS[:, 1:])": "mask.shape=(2, 2) does not match (..., S)=(2, 3)",
    "inputs(mask=BOOLS, cache=CACHE, ids=INTS[:, :1])": "mask.shape=(2, 3) does not match (..., S)=(2, 5)",
    "inputs(position_ids=INTS[0, :2])": "position_ids has 2 entries, but needs one for each of the 3 rows",
    "inputs(segments=INTS)": "segments were given, but n_segments=0",
    "inputs(family='encoder', segments=INTS[0] * 0)": "segments.shape=(3,) does not match ids.shape=(2, 3)",
    "inputs(family='encoder', segments=INTS)": "segments[0, 2]=2 is outside 0..1 (n_segments=2)",
    "inputs(source=INTS)": "source is for an encoder-decoder, but family='decoder'",
    "inputs(family='encoder', memory=FLOATS)": "memory is for an encoder-decoder, but family='encoder'",
    "inputs(source_mask=BOOLS)": "source_mask is for an encoder-decoder, but family='decoder'",
    "inputs(family='encoder-decoder')": "an encoder-decoder needs either source (the ids to read) "
    "or memory (the output of encode)",
    "inputs(family='encoder-decoder', source=INTS, memory=FLOATS)": "an encoder-decoder needs either source "
    "(the ids to read) or memory (the output of encode)",
    "inputs(family='encoder-decoder', source=INTS - 1)": "source[0, 0]=-1 is outside 0..10 (vocab_size=11)",
    "inputs(family='encoder-decoder', source=INTS[0])": "source.shape[:-1]=() does not match ids.shape[:-1]=(2,)",
    "inputs(family='encoder-decoder', source=INTS[:, :0])": "source.shape[-1]=0 must be at least 1",
    "inputs(family='encoder-decoder', source=INTS, source_mask=BOOLS[0])": "source_mask.shape=(3,) "
    "does not match (..., S)=(2, 3)",
    "inputs(family='encoder-decoder', memory=np.ones((2, 3, 7)))": "memory.shape[-1]=7 does not match d_model=8",
    "inputs(family='encoder-decoder', memory=np.ones((1, 3, 8)))": "memory.shape[:-2]=(1,) "
    "does not match ids.shape[:-1]=(2,)",
    "inputs(family='encoder-decoder', memory=np.ones((2, 3, 8)), source_mask=BOOLS[0])": "source_mask.shape=(3,) "
    "does not match (..., S)=(2, 3)",
    "inputs(INTS[:1], cache=CACHE)": "ids of shape (1, 3) do not fit the cache: it takes (B, T) with B=2",
    "inputs(INTS[0], cache=CACHE)": "ids of shape (3,) do not fit the cache: it takes (B, T) with B=2",
    "inputs(cache=CACHE)": "the cache has room for capacity=5 positions: it already holds 4, so 3 more do not fit",
    "inputs(family='encoder', cache=CACHE)": "cache is for a decoder, but family='encoder': "
    "every position sees the whole text",
    "loss(FLOATS, INTS[0], -100)": "targets.shape=(3,) does not match logits.shape[:-1]=(2,)",
    "loss(FLOATS, INTS[:, 1], -100)": "targets[1]=4 is outside 0..2 (vocab_size=3)",
    "loss(FLOATS, INTS[:, 0] * 0 - 7, -7)": "targets has no entry other than ignore_index=-7: "
    "there is nothing to average",
    "fits('It', 2**34, 2**33)": "It needs at least 16.0 GiB of memory, but only 8.0 GiB is available",
    "fits('It', 2**70, 2**33)": "It needs at least a billion GiB of memory, but only 8.0 GiB is available",
    # Compressed tokens
    "compression(0, False, None, None, None, True)": "compress=0 must be at least 1",
    "compression(4, False, None, None, None, False)": (
        "causal=False must be True: a query sees the blocks that are complete"
    ),
    "compression(1, True, None, None, None, True)": (
        "overlapping=True needs compress above 1: there are no compressed tokens"
    ),
    "compression(1, False, 2, 2, 2, True)": "top_k=2 needs compress above 1: there are no compressed tokens",
    "compression(4, False, None, 2, None, True)": (
        "index_heads=2 needs top_k: without it, every compressed token is seen"
    ),
    "rotated('d_head', 4, 6)": "d_rotated=6 must be at most d_head=4",
    "left_out(memory=FLOATS)": (
        "memory must be None: this attention reads its own text alone, and adds no bias"
    ),
    "padded_after(BOOLS[0], 4)": "mask.shape[-1]=3 does not match positions so far=4",
    "padded_after(BOOLS, 3)": (
        "mask of shape (2, 3) differs from query to query: a compressed token is seen whole, "
        "so mask must be (..., 1, S)"
    ),
    "padded_after(INTS[0] > 1, 3)": (
        "mask hides positions before others that it shows, but blocks to compress are counted from the first position: "
        "pad texts on the right, or read them one by one"
    ),
}
WRONG_KINDS = {
    "qk_norm('head')": "qk_norm='head' must be True or False",
    **{
        f"whole('n', {value})": f"n={value} must be a whole number"
        for value in ("2.0", "True", "'2'", "None")
    },
    "positive('x', '1')": "x='1' must be a number",
    "rate('x', True)": "x=True must be a number",
    "flag('x', 1)": "x=1 must be True or False",
    "offers('x', [], {'copy': (), 'index': (), 'next': None}, 'Any')": "x, a list, lacks next, index(): "
    "protocols.Any says what it needs",
    "instance('x', 12, ModelConfig)": "x=12 must be a ModelConfig of glassformer.config",
    "instance('x', CONFIG, dict)": "x must be a dict, not ModelConfig of glassformer.config",
    "integers('x', FLOATS)": "x must be an array of integers, not float64",
    "integers('x', BOOLS)": "x must be an array of integers, not bool",
    "integers('x', [0])": "x must be an array of integers, not list",
    "indices('x', torch.ones(2), 'n', 3)": "x must be an array of integers, not float32",
    "floats('x', INTS)": "x must be an array of floating-point numbers, not int64",
    "floats('x', torch.ones(2, dtype=torch.uint8))": "x must be an array of floating-point numbers, not uint8",
    "one_axis('x', [0])": "x must be an array, not list",
    "attend(mask=INTS)": "mask must be an array of booleans (True = may attend), not int64",
    "attend(score_bias=INTS)": "score_bias must be an array of floating-point numbers, not int64",
    "recurrence(INTS, FLOATS, FLOATS, FLOATS, FLOATS, None)": "q must be an array of floating-point numbers, not int64",
    "neighbours(None, INTS, (2, 3, 4), 2)": "real must be an array of booleans, not int64",
    "padding_alone(INTS, (2, 3))": "mask must be an array of booleans (True = real), not int64",
    "inputs(mask=INTS)": "mask must be an array of booleans (True = a real token), not int64",
    "inputs(FLOATS)": "ids must be an array of integers, not float64",
    "inputs(position_ids=FLOATS)": "position_ids must be an array of integers, not float64",
    "inputs(family='encoder', segments=FLOATS)": "segments must be an array of integers, not float64",
    "inputs(family='encoder-decoder', source=FLOATS)": "source must be an array of integers, not float64",
    "inputs(family='encoder-decoder', memory=INTS)": "memory must be an array of floating-point numbers, not int64",
    "loss(FLOATS, FLOATS[:, 0], -100)": "targets must be an array of integers, not float64",
    "loss(INTS, INTS[:, 0], -100)": "logits must be an array of floating-point numbers, not int64",
}


@pytest.mark.parametrize("call", [*WRONG_VALUES, *WRONG_KINDS])
def test_the_message_names_argument_value_and_rule(call):
    error, message = (ValueError, WRONG_VALUES) if call in WRONG_VALUES else (TypeError, WRONG_KINDS)
    with pytest.raises(error) as caught:
        eval(call, vars(checks) | globals())
    assert str(caught.value) == message[call]


def test_what_is_right_passes():
    checks.whole("n", np.int64(3))
    checks.whole("n", torch.tensor(3))  # while torch.jit traces, sizes are tensors
    checks.indices("ids", INTS, "n", 4, among=INTS < 4)
    checks.floats("x", torch.ones(2, dtype=torch.bfloat16))
    checks.places("x", INTS, (2,), 3)
    checks.rope_scaling("linear", 1.0, 5.0, 5.0)
    inputs(family="encoder-decoder", memory=np.ones((2, 4, 8)), source_mask=np.ones((2, 4), bool))
    attend(q=(2, 5, 4), k=(2, 6, 4), v=(2, 6, 4), mask=np.ones((5, 1), bool))


def test_a_text_from_outside_is_shown_without_control_characters_and_shortened():
    assert checks.shown("a\x1b\nb") == "a\\x1b\\nb"
    assert checks.shown("a" * 60 + "b" * 60) == f"{'a' * 50} … {'b' * 50}"


def test_every_check_is_here():
    tested = " ".join([*WRONG_VALUES, *WRONG_KINDS])
    names = {name for name, value in vars(checks).items() if inspect.isfunction(value)}
    others = {
        "attention",
        "model_inputs",
        "score_bias_fits",
        "text_to_read",
        "number",
        "shown",
        "own_parts",
        "model",
        "in_torch",
        "checked_before",
    }
    assert {name for name in names if f"{name}(" not in tested} == others


# Within a model, nothing is checked again


ROOMS = {"scratch": (scratch, np.random.default_rng, np.zeros), "nn": (nn, torch.Generator, torch.zeros)}


@pytest.fixture(params=ROOMS)
def read(request):
    """Returns a model of three blocks, and a function that reads a token with a cache."""
    room, generator, zeros = ROOMS[request.param]
    config = ModelConfig(vocab_size=11, context_length=6, d_model=8, n_layers=3, n_heads=2, norm="rmsnorm")
    model = room.Transformer(config, generator=generator()).eval()
    cache = model.new_cache(1, 6)
    return model, lambda **given: model(zeros((1, 1), dtype=int), cache=cache, **given)


def calls(read):
    """Returns the calls of our own functions while a token is read, from block to block."""
    found = []

    def note(frame, event, _):
        place = frame.f_code.co_filename
        if event == "call" and "/glassformer/" in place:
            found.append((place.rsplit("/glassformer/")[1], frame.f_code.co_name))

    read()
    sys.setprofile(note)
    try:
        read()
    finally:
        sys.setprofile(None)
    begins = [i for i, (place, name) in enumerate(found) if place.endswith("block.py") and name == "forward"]
    return [found[begin:end] for begin, end in pairwise([*begins, None])]


@torch.no_grad()
def test_a_block_costs_no_more_calls_than_it_needs(read):
    """Whatever is called once in a block is called for every token in every block."""
    blocks = [Counter(block) for block in calls(read[1])[:2]]  # the last one's includes what follows it
    for block in blocks:
        assert not {"kind_of", "equal"} & {name for _, name in block}  # nobody looks at an array again
        assert block.total() <= 115


@torch.no_grad()
def test_a_layer_that_a_reader_calls_is_checked_also_after_a_model_has_failed(read):
    model, one = read
    block = model.decoder.blocks[2]
    narrow = 0 * model.token_embedding.weight[None, :3, :5]
    with pytest.raises(ValueError, match=r"d_model"):
        block(narrow)
    block.attention.W_v = None  # fails inside of a model, in a block that checks nothing
    with pytest.raises(TypeError):
        one()
    with pytest.raises(ValueError, match=r"d_model"):
        model.decoder.blocks[1](narrow)
    assert checks.numbers.door.closed == 0
