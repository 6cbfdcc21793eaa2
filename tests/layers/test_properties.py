"""Tests what must hold for any size and any numbers: the statements of chapter 04, each in both rooms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .rooms import CONTEXT, METHODS, Layer, both_rooms

ROUNDING = 1e-12  # float64, numbers of size 1 to 10
MATTERS = 1e-3  # far above rounding: what a difference that is really there exceeds

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.sampled_from([(24, 1), (24, 2), (24, 3), (12, 6)]), seeds)  # (D, H) and a seed


def difference(a, b):
    return np.abs(a - b).max()


# Order


@both_rooms
@given(size=sizes, T=st.integers(1, 20), batch=st.sampled_from([(), (1,), (2, 3)]))
def test_without_positions_or_mask_permuting_the_input_permutes_the_output(room, size, T, batch):
    (D, H), seed = size
    rng = np.random.default_rng(seed)
    x, order = rng.normal(size=(*batch, T, D)), rng.permutation(T)
    layer = Layer(room, "none", D, H, seed=seed)
    assert difference(layer(x[..., order, :]), layer(x)[..., order, :]) <= ROUNDING
    weights = layer.attention_weights(x)[..., order, :][..., order]
    assert difference(layer.attention_weights(x[..., order, :]), weights) <= ROUNDING


@both_rooms
@given(size=sizes, T=st.integers(2, 20))
def test_the_causal_mask_breaks_that(room, size, T):
    (D, H), seed = size
    x = np.random.default_rng(seed).normal(size=(T, D))
    layer = Layer(room, "none", D, H, causal=True, seed=seed)
    assert difference(layer(x[::-1]), layer(x)[::-1]) > 100 * MATTERS


@both_rooms
@pytest.mark.parametrize("method", [method for method in METHODS if method != "none"])
@given(size=sizes, T=st.integers(3, 20))
def test_every_method_lets_order_in_and_nothing_else(room, method, size, T):
    """Moving the last row to the front changes the output; moving its position along with it does not."""
    (D, H), seed = size
    rng = np.random.default_rng(seed)
    x, places = rng.normal(size=(T, D)), rng.permutation(CONTEXT)[:T]
    layer = Layer(room, method, D, H, seed=seed)
    order = np.roll(np.arange(T), 1)
    assert difference(layer(x[order]), layer(x)[order]) > MATTERS
    assert (
        difference(layer(x[order], position_ids=places[order]), layer(x, position_ids=places)[order])
        <= ROUNDING
    )


@both_rooms
@given(size=sizes, T=st.integers(2, 20))
def test_alibi_without_a_mask_cannot_tell_forwards_from_backwards(room, size, T):
    (D, H), seed = size
    x = np.random.default_rng(seed).normal(size=(T, D))
    layer = Layer(room, "alibi", D, H, seed=seed)
    assert difference(layer(x[::-1]), layer(x)[::-1]) <= ROUNDING


@both_rooms
@given(size=sizes, T=st.integers(3, 20))
def test_one_causal_layer_forgets_the_order_of_the_past_and_two_do_not(room, size, T):
    (D, H), seed = size
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(T, D))
    shuffled = np.concatenate([np.roll(x[:-1], 1, axis=0), x[-1:]])
    one, two = (Layer(room, "none", D, H, causal=True, seed=s) for s in (seed, seed + 1))
    assert difference(one(shuffled)[-1], one(x)[-1]) <= ROUNDING
    assert difference(two(one(shuffled))[-1], two(one(x))[-1]) > MATTERS


# Absolute positions


@both_rooms
@given(
    pairs=st.integers(1, 40),
    base=st.floats(1.5, 1e6),
    p=st.integers(-500, 500),
    k=st.integers(-500, 500),
)
def test_the_sinusoidal_row_k_further_on_is_a_rotation_of_this_one(room, pairs, base, p, k):
    """PE(p+k) = R(k)·PE(p), where R(k) is built here, block by block, from k alone."""
    D = 2 * pairs
    R = np.zeros((D, D))
    for i in range(pairs):
        angle = k * base ** (-2 * i / D)
        c, s = np.cos(angle), np.sin(angle)
        R[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[c, s], [-s, c]]
    here, there = room.numpy(room.layers.sinusoidal(room.array([p, p + k]), D, base=base))
    # angles up to 1000 rad are rounded to 1e-13
    assert difference(there, R @ here) <= ROUNDING
    assert difference(R @ R.T, np.eye(D)) <= ROUNDING


# Rotary positions


def unit_vectors(seed, n, K):
    x = np.random.default_rng(seed).normal(size=(n, K))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@both_rooms
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@given(
    pairs=st.integers(1, 32),
    seed=seeds,
    m=st.integers(0, 500),
    n=st.integers(0, 500),
    shift=st.integers(-500, 500),
    interpolation=st.floats(1, 16),
)
def test_rotary_scores_depend_only_on_the_distance(room, layout, pairs, seed, m, n, shift, interpolation):
    q, k = unit_vectors(seed, 2, 2 * pairs)
    method = room.layers.RotaryPositions(2 * pairs, layout=layout, interpolation=interpolation)

    def turned(x, place):
        return room.numpy(method.rotate(room.array([x]), room.array([place])))[0]

    score = turned(q, m) @ turned(k, n)
    assert abs(score - turned(q, m + shift) @ turned(k, n + shift)) <= ROUNDING
    assert abs(score - q @ turned(k, n - m)) <= ROUNDING
    assert abs(np.linalg.norm(turned(q, m)) - 1) <= ROUNDING


@both_rooms
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@given(pairs=st.integers(1, 32), seed=seeds, distance=st.integers(1, 500))
def test_rotary_scores_do_depend_on_the_distance(room, layout, pairs, seed, distance):
    """A vector agrees with itself completely at distance 0 and at no other distance."""
    (q,) = unit_vectors(seed, 1, 2 * pairs)
    method = room.layers.RotaryPositions(2 * pairs, layout=layout)
    here, there = room.numpy(method.rotate(room.array([q, q]), room.array([0, distance])))
    assert here @ there < 1 - 1e-6  # one pair and 355 positions: 355 rad is 3e-5 from whole turns


# Relative positions


@both_rooms
@pytest.mark.parametrize("method", ["alibi", "t5", "t5-bidirectional"])
@given(H=st.integers(1, 13), shift=st.integers(-300, 300), seed=seeds)
def test_biases_depend_only_on_the_relative_position(room, method, H, shift, seed):
    queries, keys = np.random.default_rng(seed).integers(-50, 50, size=(2, 12))
    method = Layer(room, method, 2 * H, H, seed=seed).method
    bias = room.numpy(method.score_bias(room.array(queries), room.array(keys)))
    moved = room.numpy(method.score_bias(room.array(queries + shift), room.array(keys + shift)))
    np.testing.assert_array_equal(moved, bias)
    assert bias.shape == (H, 12, 12)


@both_rooms
@pytest.mark.parametrize("bidirectional", [True, False])
@given(half=st.integers(2, 40), extra=st.integers(1, 500))
def test_t5_buckets_grow_with_distance_and_all_are_used(room, bidirectional, half, extra):
    n_buckets = 2 * half
    max_distance = n_buckets * 4 + extra
    reach = np.arange(2 * max_distance)
    settings = {"bidirectional": bidirectional, "n_buckets": n_buckets, "max_distance": max_distance}
    past = room.numpy(room.layers.t5_bucket(room.array(-reach), **settings))
    future = room.numpy(room.layers.t5_bucket(room.array(reach), **settings))
    assert (np.diff(past) >= 0).all()
    assert past[0] == 0
    assert past[max_distance] == past[-1] == (half if bidirectional else n_buckets) - 1
    if bidirectional:
        np.testing.assert_array_equal(future[1:], past[1:] + half)
    else:
        assert not future.any()
