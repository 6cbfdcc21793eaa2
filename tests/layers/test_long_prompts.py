"""Tests that a long prompt is read in pieces: the numbers of reading it at once or in steps, in less memory."""

import sys

import numpy as np
import pytest
import torch
from close import DOUBLE, SINGLE, assert_close
from memory import peak

from glassformer import nn
from glassformer.layers import LinearAttention, Mamba2
from glassformer.trace import trace

from .grid import GPT2, KINDS, SYSTEMS
from .rooms import SCRATCH, both_rooms
from .twins import build

STATE = {"form": LinearAttention(n_heads=2, n_key_heads=2, d_key=4, d_value=4)}
FREE = GPT2.replace(positions="none", attention_bias="none")
DECODERS = {
    name: SYSTEMS[name]
    for name in (
        "GPT-2",
        "the modern one",
        "2017",
        "T5",
        "BLOOM",
        "near and far",
        "latents and a borrowed choice",
        "a window and compressed tokens",
    )
} | {
    "shared keys": GPT2.replace(positions="rope", kinds=KINDS["shares"], order="lender borrower"),
    "a hybrid": FREE.replace(kinds={"state": STATE, "full": {}}, n_layers=4, order="state*3 full"),
    "Mamba-2": FREE.replace(kinds={"state": {"form": Mamba2(n_heads=2, n_key_heads=1, d_key=3, d_value=4)}}),
}
ways = pytest.mark.parametrize("kind", ["plain", "padded"])
decoders = pytest.mark.parametrize("name", DECODERS)


def pieces_of(monkeypatch, room, pairs, least=1):
    """Makes the pieces of a room shorter; returns the list that notes the lengths of what is read."""
    module, lengths = sys.modules[f"{room.layers.__name__}.cache"], []
    monkeypatch.setattr(module, "PAIRS", pairs)
    monkeypatch.setattr(module, "LEAST", least)
    monkeypatch.setattr(nn.multi_head, "LARGE", 4)  # so that no mask is made, as for a long text
    place = module.ModelCache.place

    def noting(cache, position_ids):
        lengths.append(position_ids.shape[-1])
        return place(cache, position_ids)

    monkeypatch.setattr(module.ModelCache, "place", noting)
    return lengths


def reading(room, model, cache, kind):
    """Returns a function that reads some columns of two texts of 12 ids, and returns what the model gives for them."""
    rng = np.random.default_rng(3)
    ids, real, positions = rng.integers(0, 4, (2, 12)), np.ones((2, 12), bool), np.tile(np.arange(12), (2, 1))
    source = rng.integers(0, 4, (2, 4)) if model.config.family == "encoder-decoder" else None
    if kind == "padded":
        if model.config.compresses:  # whose texts have padding on the right alone
            real[0, 8:] = False
        else:
            real[0, 3:5] = real[1, :4] = False
        positions[1] = np.maximum(np.arange(12) - 4, 0)
    if model.config.positions == "alibi":  # which counts the cached positions
        positions = None

    def read(begin, end):
        given = {"mask": real[:, :end]} if kind == "padded" else {}
        if kind == "padded" and positions is not None:
            given["position_ids"] = positions[:, begin:end]
        if source is not None:
            given["source"] = source
            if kind == "padded":
                given["source_mask"] = np.array([[True, True, True, False], [True, True, True, True]])
        given = {name: room.array(values) for name, values in given.items()}
        with torch.no_grad():
            found = room.numpy(model(room.array(ids[:, begin:end]), cache=cache, **given))
        return np.where(real[:, begin:end, None], found, 0)

    return read


def check(room, name, kind, dtype, within, monkeypatch):
    model, found = build(room, DECODERS[name], dtype), {}
    steps = [(0, 3), *((t, t + 1) for t in range(3, 12))]
    for way, pairs, calls in (
        ("at once", 10**6, [(0, 3), (3, 11), (11, 12)]),
        ("in pieces", 30, [(0, 3), (3, 11), (11, 12)]),
        ("in steps", 10**6, steps),
    ):
        lengths = pieces_of(monkeypatch, room, pairs)
        read = reading(room, model, model.new_cache(2, 12), kind)
        found[way] = np.concatenate([read(*call) for call in calls], axis=1)
        monkeypatch.undo()
        assert lengths == (
            [3, 2, 2, 2, 2, 1] if way == "in pieces" else [end - begin for begin, end in calls]
        )
    for way in ("in pieces", "in steps"):
        assert_close(found[way], found["at once"], within, what=way)


@pytest.mark.sampled(3)
@both_rooms
@decoders
@ways
def test_at_once_in_pieces_and_in_steps_are_the_same(room, name, kind, monkeypatch):
    check(room, name, kind, "float64", DOUBLE, monkeypatch)


@both_rooms
def test_they_are_in_single_precision_too(room, monkeypatch):
    check(room, "a hybrid", "padded", "float32", SINGLE, monkeypatch)


@both_rooms
def test_usual_lengths_are_read_at_once_and_long_ones_in_pieces_that_keep_the_scores_few(room):
    cache = build(room, DECODERS["a hybrid"]).new_cache(1, 10**6)
    for past, new, longest in ((0, 2048, 2048), (1000, 1024, 1024), (0, 10**4, 419), (99_000, 1000, 128)):
        cache.blocks[0].length = past
        lengths = [one.stop - one.start for one in cache.pieces(new)]
        assert (max(lengths), sum(lengths)) == (longest, new)


@both_rooms
@pytest.mark.usefixtures("as_readers_run_it")
def test_what_is_refused_changes_nothing_also_in_a_later_piece(room, monkeypatch):
    lengths = pieces_of(monkeypatch, room, 20)
    model = build(room, DECODERS["GPT-2"])
    cache = model.new_cache(1, 20)
    ids = room.array(np.zeros((1, 9), int))
    with torch.no_grad():
        model(ids, cache=cache)
        lengths.clear()
        for more, message in ((12, "capacity=20 positions: it already holds 9"), (9, r"\[3\]=12 is outside")):
            with pytest.raises(ValueError, match=message):
                model(room.array(np.zeros((1, more), int)), cache=cache)
        wrong = room.array(np.array([[0] * 8 + [11]]))
        with pytest.raises(ValueError, match=r"is outside 0\.\.10"):
            model(wrong, cache=cache)
    assert (lengths, cache.length) == ([], 9)


@both_rooms
def test_a_window_can_go_back_as_far_after_pieces(room, monkeypatch):
    model = build(room, DECODERS["near and far"])
    cache, ids = model.new_cache(2, 12, rewindable=3), np.arange(20).reshape(2, 10) % 11
    pieces_of(monkeypatch, room, 20)
    with torch.no_grad():
        expected = room.numpy(model(room.array(ids), cache=cache))[:, 7:]
        cache.rewind(7)
        assert_close(room.numpy(model(room.array(ids[:, 7:]), cache=cache)), expected, DOUBLE)


@both_rooms
def test_a_trace_sees_the_whole_and_a_gradient_flows_through_it(room, monkeypatch):
    lengths = pieces_of(monkeypatch, room, 1)
    model = build(room, DECODERS["GPT-2"])
    ids = room.array(np.zeros((1, 8), int))
    with trace() as seen, torch.no_grad():
        model(ids, cache=model.new_cache(1, 8))
    assert seen.arrays("weights")[0].shape[-2:] == (8, 8)
    if room.is_torch:
        model(ids, cache=model.new_cache(1, 8)).sum().backward()
        assert lengths == [8, 8]
    else:
        assert lengths == [8]


# Memory


@pytest.mark.usefixtures("as_readers_run_it")
def test_what_reading_takes_beyond_the_cache_grows_with_the_text_and_not_with_its_square(monkeypatch):
    """In 96 pieces and 384, of 16 positions, of a text that is then four times as long."""
    model = build(SCRATCH, DECODERS["a hybrid"].replace(context_length=6144), "float32")

    def most(length, at_most=None):
        ids = np.zeros((1, length), int)
        return peak(lambda: model.hidden(ids, cache=model.new_cache(1, length)), at_most)

    at_once = most(1536)
    assert at_once >= 2 * 1536 * 1536 * 4  # the scores of two heads
    pieces_of(monkeypatch, SCRATCH, 1, least=16)
    short = most(1536, at_once / 20)
    assert short <= at_once / 20
    assert most(6144, 4.5 * short) <= 4.5 * short
