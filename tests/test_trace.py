"""Tests that a trace sees what the layers compute, in both rooms alike, and disturbs nothing."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

from glassformer import nn, scratch
from glassformer.config import ModelConfig
from glassformer.trace import Seen, Trace, enter, enter_sublayer, see, trace, tracing

SIZES = {"vocab_size": 11, "context_length": 12, "d_model": 8, "n_layers": 2, "n_heads": 2}
SYSTEMS = {
    "decoder": ModelConfig(**SIZES),
    "encoder": ModelConfig(**SIZES, family="encoder", norm_placement="post"),
    "encoder-decoder": ModelConfig(**SIZES, family="encoder-decoder", n_decoder_layers=1),
    "grouped": ModelConfig(**SIZES | {"n_heads": 4}, n_kv_heads=2, positions="rope", feedforward="swiglu"),
}


def traced(name):
    """Returns what is seen in each room when one model reads one text, in float64."""
    config = SYSTEMS[name]
    ours = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64)
    theirs = nn.Transformer(config, generator=None, dtype=torch.float64)
    theirs.load_state_dict({n: torch.from_numpy(w) for n, w in ours.state_dict().items()})
    read = {"ids": np.array([[1, 2, 3, 4, 5]])}
    if config.family == "encoder-decoder":
        read["source"] = np.array([[6, 7, 8]])
    with trace() as one:
        ours(**read)
    with trace() as other, torch.no_grad():
        theirs(**{n: torch.from_numpy(values) for n, values in read.items()})
    return one, other


@pytest.mark.parametrize("name", SYSTEMS)
def test_both_rooms_show_the_same_arrays_in_the_same_order(name):
    one, other = traced(name)
    for ours, theirs in zip(one, other, strict=True):
        assert ours[:-1] == theirs[:-1]
        assert_close(ours.array, theirs.array.numpy(), DOUBLE)
    assert str(one) == str(other)


def test_the_parts_of_a_decoder_in_their_order():
    one, _ = traced("decoder")
    parts = list(dict.fromkeys(seen.part for seen in one))
    assert parts == ["decoder: in", "decoder: block 0", "decoder: block 1", "decoder: out"]
    block = [(seen.sublayer, seen.name, seen.array.shape) for seen in one if seen.part == "decoder: block 1"]
    assert block == [
        ("attention", "q", (1, 2, 5, 4)),
        ("attention", "k", (1, 2, 5, 4)),
        ("attention", "v", (1, 2, 5, 4)),
        ("attention", "scores", (1, 2, 5, 5)),
        ("attention", "weights", (1, 2, 5, 5)),
        ("attention", "write", (1, 5, 8)),
        ("attention", "stream", (1, 5, 8)),
        ("feed-forward", "neurons", (1, 5, 32)),
        ("feed-forward", "write", (1, 5, 8)),
        ("feed-forward", "stream", (1, 5, 8)),
    ]
    assert (one[0].name, one[-1].name) == ("stream", "logits")
    assert {seen.sublayer for seen in one if seen.part in ("decoder: in", "decoder: out")} == {""}


def test_the_parts_of_an_encoder_decoder():
    one, _ = traced("encoder-decoder")
    parts = list(dict.fromkeys(seen.part for seen in one))
    assert [part for part in parts if "block" in part] == [
        "encoder: block 0",
        "encoder: block 1",
        "decoder: block 0",
    ]
    shapes = [w.shape for w in one.arrays("weights")]
    assert shapes == [(1, 2, 3, 3), (1, 2, 3, 3), (1, 2, 5, 5), (1, 2, 5, 3)]
    assert [w.shape for w in one.arrays("weights", "cross-attention")] == [(1, 2, 5, 3)]
    assert [w.shape for w in one.arrays("weights", "attention")] == shapes[:3]


@pytest.mark.parametrize("name", SYSTEMS)
def test_weights_are_distributions_and_the_stream_is_what_the_blocks_pass_on(name):
    one, _ = traced(name)
    for weights in one.arrays("weights"):
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=0, atol=1e-12)
    for scores, weights in zip(one.arrays("scores"), one.arrays("weights"), strict=True):
        np.testing.assert_allclose(scratch.softmax(scores), weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["decoder", "grouped", "encoder-decoder"])
def test_in_a_pre_norm_stack_every_write_is_added_to_the_stream(name):
    one, _ = traced(name)
    for part in {seen.part for seen in one if "block" in seen.part}:
        begin = next(i for i, seen in enumerate(one) if seen.part == part)
        stream = next(seen.array for seen in one[begin - 1 :: -1] if seen.name == "stream")
        for seen in one[begin:]:
            if seen.part == part and seen.name == "write":
                stream = stream + seen.array
            elif seen.part == part and seen.name == "stream":
                np.testing.assert_array_equal(seen.array, stream)


def test_looking_changes_nothing():
    model = scratch.Transformer(SYSTEMS["decoder"], generator=np.random.default_rng(0))
    ids = np.array([1, 2, 3])
    before = model(ids)
    with trace() as seen:
        during = model(ids)
    np.testing.assert_array_equal(before, during)
    np.testing.assert_array_equal(before, model(ids))
    assert seen.arrays("logits")[0] is during


@pytest.mark.parametrize("name", SYSTEMS)
def test_looking_changes_nothing_in_torch_either(name):
    """With a trace, attention is computed step by step instead of fused: the result is the same up to rounding."""
    config = SYSTEMS[name]
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    read = {"ids": torch.tensor([[1, 2, 3, 4]]), "mask": torch.tensor([[False, True, True, True]])}
    if config.family == "encoder-decoder":
        read["source"] = torch.tensor([[6, 7, 8]])
    before = model(**read)
    with trace():
        during = model(**read)
    assert_close(during.detach(), before.detach(), DOUBLE)


def test_a_trace_sees_only_while_it_is_open_and_traces_nest():
    see(x=np.zeros(1))
    assert not tracing()
    with trace() as outer:
        assert tracing()
        enter("one")
        enter_sublayer("attention")
        see(x=np.zeros(2), y=np.zeros(3))
        with trace() as inner:
            see(x=np.zeros(4))
            enter("two")
            see(x=np.zeros(5))
        see(x=np.zeros(6))
    see(x=np.zeros(7))
    assert not tracing()
    assert [(s.part, s.sublayer, s.name, s.array.shape) for s in outer] == [
        ("one", "attention", "x", (2,)),
        ("one", "attention", "y", (3,)),
        ("one", "attention", "x", (4,)),
        ("two", "", "x", (5,)),
        ("two", "", "x", (6,)),
    ]
    assert [(s.part, s.array.shape) for s in inner] == [("", (4,)), ("two", (5,))]


def test_the_outer_trace_goes_on_when_an_inner_one_that_saw_as_much_closes():
    """Two empty traces are equal lists, but it must be the inner one that closes."""
    with trace() as outer:
        with trace() as inner:
            pass
        see(x=np.zeros(2))
    assert (len(outer), len(inner)) == (1, 0)


def test_it_closes_when_something_goes_wrong():
    with pytest.raises(RuntimeError), trace() as seen:
        raise RuntimeError
    see(x=np.zeros(1))
    assert seen == []


def test_the_table():
    seen = Trace()
    seen += [
        Seen("in", "", "stream", np.zeros((2, 1500))),
        Seen("block 0", "attention", "q", np.zeros((1, 3))),
        Seen("block 0", "attention", "k", np.zeros((1, 3))),
        Seen("block 1", "attention", "q", np.zeros(())),
    ]
    assert str(seen).splitlines() == [
        "part     sublayer   array   shape      numbers",
        "in                  stream  (2, 1500)    3,000",
        "block 0  attention  q       (1, 3)           3",
        "                    k       (1, 3)           3",
        "block 1  attention  q       ()               1",
    ]
    assert len(seen.arrays("q")) == 2
    assert seen.arrays("v") == seen.arrays("q", "feed-forward") == []
