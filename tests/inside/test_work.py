"""Tests work and memory: the formulas against what is counted during a run and measured in its cache."""

import numpy as np
import pytest

from glassformer import scratch, shipped
from glassformer.config import ModelConfig
from glassformer.generate import generate
from glassformer.inside import cache_bytes, counting, generation_work, multiply_adds
from glassformer.published import published

from .models import DECODERS

IDS = np.array([3, 1, 4, 1, 5])


@pytest.fixture(scope="module", params=DECODERS)
def model(request):
    return scratch.Transformer(DECODERS[request.param], generator=np.random.default_rng(0)).eval()


def test_a_hand_worked_pass():
    """D = 4, one head of 4, F = 8, V = 10, two positions after three: all products are written out."""
    config = ModelConfig(vocab_size=10, context_length=8, d_model=4, n_layers=1, n_heads=1, d_ff=8)
    projections = 4 * (2 * 4 * 4)
    scores, means = 2 * 5 * 4, 2 * 5 * 4
    feedforward = 2 * 4 * 8 + 2 * 8 * 4
    assert multiply_adds(config, 2, 3) == projections + scores + means + feedforward + 4 * 10
    assert multiply_adds(config, 2, 3, n_logits=0) == projections + scores + means + feedforward


def test_what_is_counted_is_what_the_formula_says(model):
    with counting(model) as whole:
        model(IDS)
    assert whole.multiply_adds == multiply_adds(model.config, 5, n_logits=5)
    for cache in (False, True):
        with counting(model) as written:
            generate(model, IDS, 6, temperature=0, cache=cache)
        assert written.multiply_adds == generation_work(model.config, 5, 6, cache=cache)


def test_counting_changes_nothing(model):
    weights, right = model.named_parameters(), model(IDS)
    with counting(model) as count:
        np.testing.assert_array_equal(model(IDS), right)
    before = count.multiply_adds
    after = model.named_parameters()
    assert all(after[name] is weights[name] for name in weights)
    assert type(model(IDS)) is np.ndarray
    assert count.multiply_adds == before > 0


def test_bytes_are_those_of_the_arrays(model):
    kept = model.new_cache(1, 9)
    assert cache_bytes(model.config, 9) == kept.nbytes
    double = scratch.Transformer(model.config, generator=np.random.default_rng(0), dtype=np.float64)
    assert cache_bytes(model.config, 9, bytes_per_number=8) == double.new_cache(1, 9).nbytes


def test_the_books_model():
    model, tokenizer = shipped.load()
    ids = tokenizer.encode("A horse! ")
    counts = []
    for cache in (False, True):
        with counting(model) as count:
            generate(model, ids, 8, temperature=0, cache=cache)
        counts.append(count.multiply_adds)
    assert counts == [generation_work(model.config, 9, 8, cache=cache) for cache in (False, True)]
    assert counts[0] > 5 * counts[1]
    assert cache_bytes(model.config, 128) == model.new_cache(1, 128).nbytes == 524_288


def test_published_caches_at_full_context():
    """The factors: two for keys and values, blocks, heads, numbers per head, positions, bytes."""
    llama = published("llama-2-7b").config
    assert cache_bytes(llama, 4096, bytes_per_number=2) == 2 * 32 * 32 * 128 * 4096 * 2 == 2**31
    assert cache_bytes(published("llama-3-8b").config, 8192, bytes_per_number=2) == 2**30
    shared = llama.replace(n_kv_heads=1)
    assert cache_bytes(llama, 100) == 32 * cache_bytes(shared, 100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_read": 0}, "n_read=0"),
        ({"n_read": 2, "n_past": -1}, "n_past=-1"),
        ({"n_read": 2, "n_logits": 3}, "n_logits=3 must be at most n_read=2"),
    ],
)
def test_bad_numbers_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        multiply_adds(published("gpt2").config, **arguments)


def test_only_decoders_with_a_head_write():
    with pytest.raises(ValueError, match="family"):
        multiply_adds(published("bert-base").config, 3)
    with pytest.raises(ValueError, match="without a head"):
        cache_bytes(published("gpt2").config.replace(head="none"), 3)
    with pytest.raises(ValueError, match="n_positions=0"):
        cache_bytes(published("gpt2").config, 0)
    with pytest.raises(TypeError, match="model"), counting("gpt2"):
        pass
