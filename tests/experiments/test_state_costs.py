"""Tests what chapter 17 says that a token costs after long texts, with states, with attention, and with both."""

import numpy as np
import pytest

from glassformer import inside
from glassformer.experiments import experiment, stored
from glassformer.experiments.state_costs import LENGTHS, MODELS, ROOMS, drawn, pretend_to_have_read

both_rooms = pytest.mark.parametrize("room", ROOMS)


def found(room, model, what):
    [run] = stored("state_costs", room=room, model=model)
    return dict(zip(LENGTHS, run.found[what], strict=True))


@both_rooms
@pytest.mark.parametrize("model", MODELS)
def test_what_is_kept(room, model):
    of_states, of_attention = {"states": (4, 0), "hybrid": (3, 1), "attention": (0, 4)}[model]
    state, position = 4 * 32 * 32 + 3 * 3 * 128, 2 * 128  # with the last inputs of three convolutions
    kept = found(room, model, "bytes")
    assert kept == {n: 4 * (of_states * state + of_attention * position * n) for n in LENGTHS}
    config = drawn(room, model)[0].config
    assert kept == {n: inside.cache_bytes(config, n) for n in LENGTHS}


@both_rooms
def test_a_cache_that_was_filled_is_as_full_as_one_that_has_read(room):
    model, of_numpy = drawn(room, "hybrid")
    read, filled = (model.new_cache(1, 12) for _ in range(2))
    model(of_numpy(np.zeros((1, 9), int)), cache=read)
    pretend_to_have_read(filled, 9, of_numpy, seed=0)
    for one, other in zip(read.blocks, filled.blocks, strict=True):
        assert one.length == other.length == 9
        assert getattr(one, "filled", 9) == other.filled
        assert np.asarray(other.keys).std() > 0.9
    np.testing.assert_array_equal(read.position_ids, filled.position_ids)
    assert model(of_numpy(np.zeros((1, 1), int)), cache=filled).shape == (1, 1, 65)


def test_in_short_too_every_length_is_measured():
    measured = experiment("state_costs").measure_shortly(room="scratch", model="states")
    assert len(measured["milliseconds"]) == 3
    assert min(measured["milliseconds"]) > 0
    assert measured["bytes"] == list(found("scratch", "states", "bytes").values())
