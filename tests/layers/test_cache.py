"""Tests the cache: what it holds, what it refuses, and that a refusal changes nothing."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

from glassformer.inside.work import cache_bytes

from .grid import SYSTEMS
from .rooms import both_rooms
from .twins import build, run

DECODERS = ["GPT-2", "the modern one", "near and far", "states and attention", "BLOOM", "2017", "T5"]
every_decoder = pytest.mark.parametrize("name", DECODERS)


def built(room, name):
    return build(room, SYSTEMS[name])


def source_of(model, rows=3):
    if model.config.family == "decoder":
        return {}
    return {"source": np.random.default_rng(5).integers(0, 11, (rows, 4))}


def step(room, model, ids, cache, **read):
    arrays = {name: room.array(values) for name, values in read.items()}
    with torch.no_grad():
        return room.numpy(model(room.array(ids), cache=cache, **arrays))


@both_rooms
@every_decoder
def test_reordering_rows_is_having_read_them_in_that_order(room, name):
    model, ids, order = built(room, name), np.arange(18).reshape(3, 6) % 11, [2, 0, 2]
    source, cache = source_of(model), model.new_cache(3, 6)
    positions = np.array([[0, 1, 2, 3], [0, 0, 0, 1], [5, 6, 7, 8]])
    step(room, model, ids[:, :4], cache, position_ids=positions, **source)
    cache.reorder(order)
    source = {n: values[order] for n, values in source.items()}
    continued = step(room, model, ids[:, 4:5], cache, **source)
    all_positions = np.concatenate([positions, positions[:, -1:] + 1], axis=1)[order]
    read = {"ids": np.concatenate([ids[order, :4], ids[:, 4:5]], axis=1), "position_ids": all_positions}
    assert_close(continued, run(room, model, read | source)[:, 4:], DOUBLE)


@both_rooms
@every_decoder
def test_after_a_reset_it_is_as_new(room, name):
    model, ids = built(room, name), np.arange(15).reshape(3, 5) % 11
    cache = model.new_cache(3, 5)
    step(room, model, ids, cache, **source_of(model))
    held = [block.keys for block in cache.blocks]
    cache.reset()
    assert cache.length == 0
    other = {n: v[::-1].copy() for n, v in source_of(model).items()}
    fresh = step(room, model, ids[::-1].copy(), cache, **other)
    np.testing.assert_array_equal(fresh, step(room, model, ids[::-1].copy(), model.new_cache(3, 5), **other))
    assert all(block.keys is keys for block, keys in zip(cache.blocks, held, strict=True))


@both_rooms
@every_decoder
@pytest.mark.usefixtures("as_readers_run_it")
def test_what_is_refused_changes_nothing(room, name):
    """After too many ids, or an invalid id or position, the cache works as if the call had not happened."""
    model, ids = built(room, name), np.arange(18).reshape(3, 6) % 11
    source, cache, twin = source_of(model), model.new_cache(3, 6), model.new_cache(3, 6)
    for one in (cache, twin):
        step(room, model, ids[:, :4], one, **source)
    refused = [
        (ids[:, :3], {}, "capacity=6 positions: it already holds 4, so 3 more do not fit"),
        (ids[:, :1] + 11, {}, r"ids\[0, 0\]=\d+ is outside 0..10"),
        (ids[:, :1], {"position_ids": np.array([0, 1])}, "position_ids has 2 entries"),
        (ids[:, :1], {"mask": np.ones((3, 4), bool)}, r"mask.shape=\(3, 4\) does not match .*=\(3, 5\)"),
    ]
    if model.config.positions == "learned":
        refused.append(
            (ids[:, :1], {"position_ids": np.array([12])}, r"position_ids\[0\]=12 is outside 0..11")
        )
    for new, given, message in refused:
        with pytest.raises(ValueError, match=message):
            step(room, model, new, cache, **given, **source)
    assert cache.length == 4
    np.testing.assert_array_equal(
        step(room, model, ids[:, 4:], cache, **source), step(room, model, ids[:, 4:], twin, **source)
    )


@pytest.mark.sampled(3)
@both_rooms
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["near and far", "ALiBi in a window", "GPT-2"])
def test_reading_in_steps_going_back_and_reordering_is_reading_at_once(room, name, seed):
    """Also where a window has dropped what a later position does not see, with padding on either side."""
    window = {"kinds": {"near": {"sliding_window": 3}, "far": {}}, "order": "near far"}
    config = SYSTEMS["BLOOM"].replace(**window) if name == "ALiBi in a window" else SYSTEMS[name]
    model, rng, most_back = build(room, config), np.random.default_rng(seed), 2
    cache, ids, real = (
        model.new_cache(3, 12, rewindable=most_back),
        np.zeros((3, 0), int),
        np.ones((3, 0), bool),
    )
    while ids.shape[1] < 12:
        n_new = min(int(rng.integers(1, 6)), 12 - ids.shape[1])
        new, mask = rng.integers(0, 11, (3, n_new)), rng.random((3, n_new)) < 0.8
        mask[:, -1] = True  # a query with no key at all has nothing to compare
        for _ in range(2):  # read it, go back, and read it again
            whole, seen = np.concatenate([ids, new], axis=1), np.concatenate([real, mask], axis=1)
            got = step(room, model, new, cache, mask=seen)
            assert_close(got, run(room, model, {"ids": whole, "mask": seen})[:, -n_new:], DOUBLE)
            if n_new > most_back:
                break
            cache.rewind(ids.shape[1])
        else:
            step(room, model, new, cache, mask=seen)
        rows = rng.integers(0, 3, 3)
        cache.reorder(rows)
        ids, real = whole[rows], seen[rows]


@both_rooms
def test_going_back_further_than_a_window_keeps_is_refused_and_changes_nothing(room):
    model, ids = built(room, "near and far"), np.arange(16).reshape(2, 8) % 11
    cache = model.new_cache(2, 12, rewindable=2)
    step(room, model, ids, cache)
    for length, message in [
        (
            5,
            "length=5 is too far back: the cache has read 8 positions, .* by 2; new_cache(…, rewindable=3) keeps more",
        ),
        (9, "length=9 must be at most 8, the positions that the cache holds"),
    ]:
        with pytest.raises(ValueError, match="^" + message.replace("(", r"\(").replace(")", r"\)")):
            cache.rewind(length)
    cache.rewind(7)
    with pytest.raises(
        ValueError, match=r"length=5 is too far back: the cache has read 7 positions, .* by 1"
    ):
        cache.rewind(5)
    assert cache.length == 7
    again = step(room, model, ids[:, 7:], cache)
    assert_close(again, run(room, model, {"ids": ids})[:, 7:], DOUBLE)
    everything = built(room, "GPT-2").new_cache(2, 12)
    step(room, built(room, "GPT-2"), ids, everything)
    everything.rewind(0)
    assert everything.length == 0
    assert everything.next_position == 0


@both_rooms
def test_attention_alone_biases_only_the_keys_that_its_window_has_kept(room):
    L, rng = room.layers, np.random.default_rng(0)
    attention = L.MultiHeadAttention(
        8, 2, position_encoding=L.AlibiPositions(2), causal=True, window=3, **room.parameters()
    )
    x, cache = rng.normal(size=(1, 7, 8)), attention.new_cache(1, 7)
    pieces = [room.numpy(attention(room.array(x[:, a:b]), cache=cache)) for a, b in ((0, 5), (5, 6), (6, 7))]
    whole = room.numpy(attention(room.array(x)))
    assert_close(np.concatenate(pieces, axis=1), whole, DOUBLE)


@both_rooms
def test_a_window_keeps_what_it_needs_and_what_it_takes_to_go_back(room):
    config = SYSTEMS["near and far"]
    model = room.layers.Transformer(config, generator=None)
    near, far = 2 * 2 * 4 * 4, 2 * 1 * 8 * 4  # bytes of a position: keys and values, G · K, float32
    for rewindable in (0, 5):
        cache = model.new_cache(1, 10, rewindable=rewindable)
        assert cache.nbytes == 4 * near * (2 + rewindable) + far * 10
    assert cache_bytes(config, 10) == 4 * near * 2 + far * 10
    assert cache_bytes(config, 1) == 4 * near + far


@both_rooms
def test_positions_that_are_left_out_follow_those_that_were_given(room):
    model, ids = built(room, "GPT-2"), np.arange(10).reshape(2, 5)
    asked = [
        ([0, 3], [[4, 5, 6]] * 2, [[0, 3, 4, 5, 6]] * 2),  # for all rows alike
        ([[0, 0], [7, 8]], [[1, 2, 3], [9, 10, 11]], [[0, 0, 1, 2, 3], [7, 8, 9, 10, 11]]),
    ]
    for first, follow, everywhere in asked:
        expected = run(room, model, {"ids": ids, "position_ids": np.array(everywhere)})[:, 2:]
        for second in ({}, {"position_ids": np.array(follow)}):
            cache = model.new_cache(2, 5)
            step(room, model, ids[:, :2], cache, position_ids=np.array(first))
            assert_close(step(room, model, ids[:, 2:], cache, **second), expected, DOUBLE)


@both_rooms
def test_its_size_is_known_beforehand(room):
    config = SYSTEMS["the modern one"]
    model = room.layers.Transformer(config, generator=None)
    cache = model.new_cache(3, 7)
    assert (cache.length, cache.capacity) == (0, 7)
    assert cache.nbytes == 2 * config.n_layers * 3 * config.n_kv_heads * 7 * config.d_head * 4
    before = [block.keys for block in cache.blocks]
    step(room, model, np.zeros((3, 7), int), cache)
    assert cache.nbytes == 2 * config.n_layers * 3 * config.n_kv_heads * 7 * config.d_head * 4
    assert all(block.keys is keys for block, keys in zip(cache.blocks, before, strict=True))


@both_rooms
def test_the_memory_of_an_encoder_is_kept_once_and_counted(room):
    model = build(room, SYSTEMS["T5"])
    config, cache = model.config, model.new_cache(3, 7)
    empty = cache.nbytes
    with torch.no_grad():
        memory = room.numpy(model.encode(room.array(source_of(model)["source"])))
    first = step(room, model, np.array([[1], [2], [3]]), cache, memory=memory)
    assert cache.nbytes - empty == 2 * config.n_decoder_layers * 3 * config.n_kv_heads * 4 * config.d_head * 8
    kept = [block.keys for block in cache.memory]
    step(room, model, np.array([[1], [2], [3]]), cache, memory=memory)
    assert all(block.keys is keys for block, keys in zip(cache.memory, kept, strict=True))
    assert np.isfinite(first).all()


@both_rooms
def test_appending_gives_views(room):
    cache = room.layers.KeyValueCache(1, 1, 3, 2, dtype=room.dtype("float64"))
    one, two = room.array(np.ones((1, 1, 1, 2))), room.array(2 * np.ones((1, 1, 2, 2)))
    cache.append(one, 2 * one)
    keys, values = cache.append(two, 2 * two)
    np.testing.assert_array_equal(room.numpy(keys)[0, 0], [[1, 1], [2, 2], [2, 2]])
    np.testing.assert_array_equal(room.numpy(values)[0, 0], [[2, 2], [4, 4], [4, 4]])
    cache.keys[0, 0, 0, 0] = 9.0
    assert keys[0, 0, 0, 0] == 9
    assert cache.length == 3
