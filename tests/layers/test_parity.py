"""Tests that both rooms compute the same outputs, gradients and caches, for every model of the grid, in float64."""

import re
from functools import cache

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

from .grid import GRID, SYSTEMS
from .rooms import NN, SCRATCH, both_rooms
from .twins import B, S, T, gradients, run, texts, twins

every_model = pytest.mark.parametrize("name", GRID)
every_generator = pytest.mark.parametrize("name", [n for n, c in GRID.items() if c.family != "encoder"])
padded_or_not = pytest.mark.parametrize("kind", ["plain", "padded"])


@cache
def whole(room, name, kind):
    """Returns what that model of the grid computes for whole texts; the tests share it."""
    output = run(room, twins(name)[room.is_torch], texts(GRID[name], kind))
    output.flags.writeable = False
    return output


def all_but(read, *names):
    return {name: values for name, values in read.items() if name not in names}


@pytest.mark.sampled(2)
@every_model
@padded_or_not
def test_same_output(name, kind):
    config, output = GRID[name], whole(SCRATCH, name, kind)
    assert output.shape == (B, T, config.d_model if config.head == "none" else config.vocab_size)
    assert 0.1 < output.std() < 10  # not so small that nothing could be wrong, nor so large that rounding is
    assert np.isfinite(output).all()
    assert_close(output, whole(NN, name, kind), DOUBLE)


@pytest.mark.sampled(2)
@every_model
@padded_or_not
def test_same_gradients(name, kind):
    (scratch, nn), read = twins(name), texts(GRID[name], kind)
    grad = np.random.default_rng(2).normal(size=whole(SCRATCH, name, kind).shape)
    ours, theirs = gradients(SCRATCH, scratch, read, grad), gradients(NN, nn, read, grad)
    # What logits do not depend on, or without a slope; test_indexer.py has the indexer's
    without = re.compile(r"^pooler|\.indexer\.|\.choice_bias$|\.table$")
    assert set(ours) == set(theirs) == {n for n in scratch.named_parameters() if not without.search(n)}
    largest = max(np.abs(gradient).max() for gradient in theirs.values())
    for weight, gradient in ours.items():  # a small σ divides twice on the way back: 1.1e-13 was measured
        assert_close(gradient, theirs[weight], 0, beside=4 * DOUBLE * largest, what=weight)


@pytest.mark.sampled(3)
@both_rooms
@every_model
def test_one_text_is_a_batch_without_its_axis(room, name):
    config, model = GRID[name], twins(name)[room.is_torch]
    read = all_but(texts(config, "padded"), "position_ids")
    one = {name: values[1] for name, values in read.items()}
    assert_close(run(room, model, one), run(room, model, read)[1], DOUBLE)


# One model for each way of having what these look at
PARTS = {(c.family, c.head, c.pooler, c.n_segments): name for name, c in GRID.items()}


@both_rooms
@pytest.mark.parametrize("name", PARTS.values())
def test_hidden_head_encode_and_pool_are_what_the_model_is_made_of(room, name):
    config, model = GRID[name], twins(name)[room.is_torch]
    read = texts(config, "padded")
    output, hidden = whole(room, name, "padded"), run(room, model.hidden, read)
    assert hidden.shape == (B, T, config.d_model)
    with torch.no_grad():
        head = hidden if config.head == "none" else room.numpy(model.head(room.array(hidden)))
        assert_close(head, output, DOUBLE)
        if config.pooler:
            linear = model.pooler.linear
            pooled = np.tanh(hidden[:, 0] @ room.numpy(linear.weight) + room.numpy(linear.bias))
            assert_close(room.numpy(model.pool(room.array(hidden))), pooled, DOUBLE)
        if config.family != "decoder":
            ids, mask = (
                (read["source"], read["source_mask"]) if "source" in read else (read["ids"], read["mask"])
            )
            encoded = room.numpy(model.encode(room.array(ids), mask=room.array(mask)))
        if config.family == "encoder":
            assert_close(encoded, run(room, model.hidden, {"ids": ids, "mask": mask}), DOUBLE)
        if config.family == "encoder-decoder":
            assert encoded.shape == (B, S, config.d_model)
            assert_close(run(room, model, all_but(read, "source") | {"memory": encoded}), output, DOUBLE)


# The cache


def cached(room, model, read, chunks):
    """Returns the output for texts that are read in chunks of those lengths, with a cache."""
    cache, outputs, end = model.new_cache(B, T), [], 0
    for length in chunks:
        begin, end = end, end + length
        some = all_but(read, "position_ids", "mask") | {"ids": read["ids"][:, begin:end], "cache": cache}
        if "mask" in read:  # for all that has been read
            some["mask"] = read["mask"][:, :end]
        if "position_ids" in read:  # for the new ones
            some["position_ids"] = read["position_ids"][..., begin:end]
        ids = room.array(some.pop("ids"))
        arrays = {n: v if n == "cache" else room.array(v) for n, v in some.items()}
        with torch.no_grad():
            outputs.append(room.numpy(model(ids, **arrays)))
        assert cache.length == end
    return np.concatenate(outputs, axis=1)


@pytest.mark.sampled(3)
@both_rooms
@every_generator
@padded_or_not
def test_with_a_cache_the_same_comes_out(room, name, kind):
    model = twins(name)[room.is_torch]
    assert_close(cached(room, model, texts(GRID[name], kind), (3, 1, 1)), whole(room, name, kind), DOUBLE)


@pytest.mark.sampled(3)
@both_rooms
@pytest.mark.parametrize("name", [n for n, c in SYSTEMS.items() if c.family != "encoder"])
@padded_or_not
@pytest.mark.parametrize("chunks", [(1,) * T, (2, 3), (T,)], ids=str)
def test_however_the_text_is_cut(room, name, kind, chunks):
    model = twins(name)[room.is_torch]
    assert_close(cached(room, model, texts(SYSTEMS[name], kind), chunks), whole(room, name, kind), DOUBLE)


# Weights


@every_model
def test_the_weights_have_the_same_names_and_shapes_and_are_as_many_as_the_formula_says(name):
    scratch, nn = twins(name)
    ours = {n: w.shape for n, w in scratch.state_dict().items()}
    assert ours == {n: tuple(w.shape) for n, w in nn.state_dict().items()}
    assert ours == {n: w.shape for n, w in scratch.named_parameters().items()}
    assert sum(np.prod(shape) for shape in ours.values()) == GRID[name].parameter_count().total
