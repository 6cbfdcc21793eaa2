"""Tests what must hold for a whole model, whatever its sizes and its text."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from close import DOUBLE, assert_close
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.layers import KeyValueSharing
from glassformer.trace import trace

from .grid import SYSTEMS
from .rooms import both_rooms
from .twins import build, gradients, run

MATTERS = 1e-6  # far above rounding

seeds = st.integers(0, 2**32 - 1)
lengths = st.integers(1, 8)
DECODERS = [name for name, config in SYSTEMS.items() if config.family == "decoder"]
every_system = pytest.mark.parametrize("name", SYSTEMS)
few = settings(max_examples=3)  # each reads with a whole model, several times


@cache
def model_of(room, name, **changes):
    return build(room, SYSTEMS[name].replace(**changes))


def read(model, seed, T, batch=2, S=4):
    rng = np.random.default_rng(seed)
    V = model.config.vocab_size
    text = {"ids": rng.integers(0, V, (batch, T))}
    if model.config.family == "encoder-decoder":
        text["source"] = rng.integers(0, V, (batch, S))
    return text


def difference(a, b):
    return np.abs(a - b).max()


def other_ids(ids, V):
    """Returns a different id at every position."""
    return (ids + 1) % V


@pytest.mark.sampled(2)
@both_rooms
@pytest.mark.parametrize("name", [*DECODERS, "2017", "T5"])
@few
@given(seed=seeds, T=lengths, data=st.data())
def test_no_logits_depend_on_a_later_token(room, name, seed, T, data):
    model, t = model_of(room, name), data.draw(st.integers(0, T - 1))
    text = read(model, seed, T)
    changed = text["ids"].copy()
    changed[:, t] = other_ids(changed[:, t], model.config.vocab_size)
    before, after = run(room, model, text), run(room, model, text | {"ids": changed})
    assert_close(before[:, :t], after[:, :t], DOUBLE)
    assert difference(before[:, t], after[:, t]) > MATTERS


@both_rooms
@pytest.mark.parametrize("name", ["BERT", "an encoder with σ + ε"])
@few
@given(seed=seeds, T=st.integers(2, 8))
def test_in_an_encoder_every_position_sees_every_other(room, name, seed, T):
    model = model_of(room, name)
    text = read(model, seed, T, batch=1)
    before = run(room, model, text)
    for t in range(T):
        changed = text["ids"].copy()
        changed[:, t] = other_ids(changed[:, t], model.config.vocab_size)
        after = run(room, model, text | {"ids": changed})
        assert (np.abs(after - before).max(axis=-1) > MATTERS).all()


@pytest.mark.sampled(2)
@both_rooms
@every_system
@few
@given(seed=seeds, T=st.integers(2, 8), data=st.data())
def test_what_is_masked_has_no_influence(room, name, seed, T, data):
    model, V = model_of(room, name), SYSTEMS[name].vocab_size
    text = read(model, seed, T)
    rng = np.random.default_rng(seed)
    mask = rng.random((2, T)) < 0.6
    mask[:, data.draw(st.integers(0, T - 1))] = True
    if SYSTEMS[name].compresses:
        mask = np.sort(mask, axis=-1)[:, ::-1]  # on the right only
    text["mask"] = mask
    changed = {"ids": np.where(mask, text["ids"], other_ids(text["ids"], V))}
    if "source" in text:
        text["source_mask"] = np.array([[1, 1, 0, 1], [0, 1, 0, 0]], bool)
        changed["source"] = np.where(text["source_mask"], text["source"], other_ids(text["source"], V))
    before, after = run(room, model, text), run(room, model, text | changed)
    assert np.isfinite(before).all()
    assert_close(before[mask], after[mask], DOUBLE)


@both_rooms
def test_a_text_is_read_as_alone_beside_a_longer_one(room):
    model = model_of(room, "BERT")
    ids, real = read(model, seed=0, T=6)["ids"], np.array([True, True, True, True, False, False])
    alone = run(room, model, {"ids": ids[:, real]})
    beside = run(room, model, {"ids": ids * real, "mask": np.stack([real, real])})
    assert_close(alone, beside[:, real], DOUBLE)


@pytest.mark.sampled(2)
@both_rooms
@every_system
@few
@given(seed=seeds, T=lengths)
def test_texts_of_a_batch_do_not_meet(room, name, seed, T):
    model = model_of(room, name)
    text = read(model, seed, T, batch=3)
    together = run(room, model, text)
    for row in (0, 2):
        alone = run(room, model, {n: values[row : row + 1] for n, values in text.items()})
        assert_close(alone, together[row : row + 1], DOUBLE)
    order = np.array([2, 0, 1])
    assert_close(run(room, model, {n: v[order] for n, v in text.items()}), together[order], DOUBLE)


@both_rooms
@pytest.mark.parametrize("name", ["GPT-2", "T5", "BERT"])
def test_a_tied_weight_has_the_gradients_of_both_its_uses(room, name):
    """With the same numbers in an untied model, the gradients of embedding and head add up to the tied one."""
    tied = model_of(room, name)
    state = dict(tied.state_dict())
    untied = room.layers.Transformer(
        SYSTEMS[name].replace(head="untied"), generator=None, dtype=room.dtype("float64")
    )
    embedding = room.numpy(state["token_embedding.weight"])
    untied.load_state_dict(state | {"unembedding.weight": room.array(embedding.T)})
    text = read(tied, 0, 5)
    grad = np.random.default_rng(1).normal(size=(2, 5, 11))
    assert_close(run(room, tied, text), run(room, untied, text), DOUBLE)
    one, two = gradients(room, tied, text, grad), gradients(room, untied, text, grad)
    in_two_parts = two["token_embedding.weight"] + two["unembedding.weight"].T
    largest = np.abs(in_two_parts).max()
    assert_close(one["token_embedding.weight"], in_two_parts, DOUBLE)
    assert np.abs(two["unembedding.weight"]).max() > 0.01 * largest
    assert np.abs(two["token_embedding.weight"]).max() > 0.01 * largest


@both_rooms
def test_the_first_block_can_tell_tokens_apart_beside_sinusoids(room):
    """Token vectors start at 0.02 and sinusoids have a size of 0.71: without a factor, the cosine is 0.999."""
    equal_size = 0.5**0.5 / 0.02
    config = SYSTEMS["GPT-2"].replace(d_model=64, positions="sinusoidal", embedding_scale=equal_size)
    model = build(room, config)
    small = 0.02 * np.random.default_rng(0).normal(size=(config.vocab_size, 64))
    model.load_state_dict(dict(model.state_dict()) | {"token_embedding.weight": room.array(small)})
    with trace() as seen:
        run(room, model, {"ids": np.array([[1], [2]])})
    one, other = np.asarray(seen.arrays("stream")[0])[:, 0]
    assert one @ other < 0.8 * np.linalg.norm(one) * np.linalg.norm(other)


@both_rooms
def test_no_two_matrices_begin_with_the_same_numbers(room):
    """Parts that share one generator draw different numbers; those that seed it anew all begin alike."""
    model = room.layers.Transformer(SYSTEMS["GPT-2"], **room.parameters())
    drawn = [
        np.ravel(room.numpy(weight)) for weight in dict(model.named_parameters()).values() if weight.ndim > 1
    ]
    for a, b in combinations(drawn, 2):
        n = min(len(a), len(b))
        assert abs(np.corrcoef(a[:n], b[:n])[0, 1]) < 0.9


@both_rooms
@every_system
def test_without_dropout_training_and_evaluation_are_alike(room, name):
    model = build(room, SYSTEMS[name])
    text = read(model, seed=0, T=8)
    assert_close(run(room, model.train(), text), run(room, model.eval(), text), DOUBLE)


@both_rooms
def test_values_that_are_keys_are_those_of_a_matrix_equal_to_that_of_the_keys(room):
    own = SYSTEMS["the modern one"]  # which has a norm and a rotation of the keys
    shared = build(room, own.replace(kinds={"shared": {"sharing": KeyValueSharing(values="keys")}}))
    separate, state = build(room, own), dict(shared.state_dict())
    values = {name.replace("W_k", "W_v"): weight for name, weight in state.items() if "W_k" in name}
    separate.load_state_dict(state | values)
    text = read(shared, seed=0, T=8)
    assert_close(run(room, shared, text), run(room, separate, text), DOUBLE)


@both_rooms
@pytest.mark.parametrize("causal", [False, True])
@few
@given(seed=seeds)
def test_garbage_of_any_size_behind_a_mask_is_not_seen(room, causal, seed):
    rng = np.random.default_rng(seed)
    attention = room.layers.MultiHeadAttention(8, 2, causal=causal, **room.parameters())
    x, mask = rng.normal(size=(2, 6, 8)), np.array([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 1, 1]], bool)
    garbage = np.where(mask[..., None], x, 1e4 * rng.normal(size=x.shape))
    seen, hidden = (
        room.numpy(attention(room.array(values), mask=room.array(mask[:, None, None])))
        for values in (x, garbage)
    )
    assert_close(seen[mask], hidden[mask], DOUBLE)


@both_rooms
@few
@given(seed=seeds, T=st.integers(2, 8))
def test_an_encoder_without_positions_does_not_see_order(room, seed, T):
    model = model_of(room, "BERT", positions="none")
    text = read(model, seed, T)
    order = np.random.default_rng(seed).permutation(T)
    shuffled = run(room, model, text | {"ids": text["ids"][:, order]})
    assert_close(shuffled, run(room, model, text)[:, order], DOUBLE)


@both_rooms
@pytest.mark.parametrize("positions", ["rope", "alibi", "t5", "learned", "sinusoidal"])
@few
@given(seed=seeds, T=st.integers(2, 6), shift=st.integers(1, 6))
def test_only_absolute_positions_see_where_the_text_begins(room, positions, seed, T, shift):
    model = model_of(room, "GPT-2", positions=positions, t5_n_buckets=8, t5_max_distance=9)
    text = read(model, seed, T)
    moved = run(room, model, text | {"position_ids": np.arange(T) + shift})
    if positions in ("rope", "alibi", "t5"):
        assert_close(moved, run(room, model, text), DOUBLE)
    else:
        assert difference(moved, run(room, model, text)) > MATTERS


@both_rooms
def test_the_tied_head_is_the_embedding(room):
    model = build(room, SYSTEMS["GPT-2"])
    text = {"ids": np.array([[1, 2, 3]])}
    before = run(room, model, text)
    weight = model.token_embedding.weight
    (weight.data if room.is_torch else weight)[0] += 1  # no token of the text, but an entry of the vocabulary
    changed = run(room, model, text) != before
    np.testing.assert_array_equal(changed.any(axis=(0, 1)), np.arange(11) == 0)
