"""Tests the Transformers of both rooms, with every family and position method: every way to compute a text agrees."""

import functools

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

import glassformer.nn
import glassformer.scratch
from glassformer.config import POSITIONS, ModelConfig
from glassformer.generate import beam_search, generate, stream
from glassformer.generate.reader import Reader

# Annotations are enforced in the files beside this one; here they would take most of the time.
N_NEW = 14

FAMILIES = ("decoder", "encoder-decoder")
PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11], [0, 0]]
SOURCES = [[9, 8], [7, 6, 5, 4, 3], [1], [2, 2, 2]]

every_family = pytest.mark.parametrize("family", FAMILIES)
every_method = pytest.mark.parametrize("positions", POSITIONS)
both_rooms = pytest.mark.parametrize("room", ["scratch", "nn"])


@functools.cache
def model(room, family="decoder", positions="rope", n_kv_heads=2, context_length=48):
    """Returns a model with the same weights in both rooms, in float64 and large enough that texts do not loop."""
    config = ModelConfig(
        vocab_size=29,
        context_length=context_length,
        d_model=16,
        n_layers=2,
        n_heads=4,
        n_kv_heads=n_kv_heads,
        family=family,
        positions=positions,
        t5_n_buckets=8,
        t5_max_distance=16,
        head="untied",
    )
    ours = glassformer.scratch.Transformer(config, generator=None, dtype=np.float64)
    rng = np.random.default_rng(0)
    state = {name: rng.normal(0, 0.4, weight.shape) for name, weight in ours.state_dict().items()}
    if room == "scratch":
        ours.load_state_dict(state)
        return ours.eval()
    theirs = glassformer.nn.Transformer(config, generator=None, dtype=torch.float64)
    theirs.load_state_dict({name: torch.from_numpy(weight) for name, weight in state.items()})
    return theirs.eval()


def given(model, rows=slice(None)):
    """Returns the prompts and, for an encoder–decoder, their sources."""
    if model.config.family == "decoder":
        return {"prompt_ids": PROMPTS[rows]}
    return {"prompt_ids": PROMPTS[rows], "source": SOURCES[rows]}


def texts(model, *, rows=slice(None), **options):
    if options.get("temperature") != 0:
        options["generator"] = np.random.default_rng(5)
    return [text.tolist() for text in generate(model, **given(model, rows), **{"n_new": N_NEW, **options})]


STRATEGIES = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 0.9, "top_p": 0.95, "repetition_penalty": 1.2},
}


# However it is computed


@both_rooms
@every_family
@every_method
def test_with_cache_and_without(room, family, positions):
    it = model(room, family, positions)
    for strategy in STRATEGIES.values():
        cached = texts(it, **strategy)
        assert cached == texts(it, **strategy, cache=False)


@both_rooms
@every_family
@every_method
@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])
def test_logits_in_a_batch_and_alone(room, family, positions, cache):
    """Compares logits up to rounding, because ids alone would not show a small error."""
    it = model(room, family, positions)

    def reader(rows):
        prompts = [np.array(text) for text in PROMPTS[rows]]
        sources = [np.array(text) for text in SOURCES[rows]] if family != "decoder" else None
        return Reader(it, prompts, 5, sources=sources, cache=cache, pad_id=28)

    together, alone = reader(slice(None)), [reader(slice(i, i + 1)) for i in range(4)]
    for new in np.random.default_rng(0).integers(0, 29, (5, 4)):
        logits = together.next_logits()
        assert logits.shape == (4, 29)
        expected = np.concatenate([row.next_logits() for row in alone])
        assert_close(logits, expected, DOUBLE)
        together.append(new)
        for row, token in zip(alone, new, strict=True):
            row.append(np.array([token]))


BEGIN = {
    "slide": lambda length: max(0, length - 12),
    "half": lambda length: max(0, -(-(length - 12) // 6) * 6),
}


@both_rooms
@every_method
@pytest.mark.parametrize(("way", "begin"), BEGIN.items(), ids=BEGIN)
def test_past_the_context_it_is_the_model_on_what_is_in_view(room, positions, way, begin):
    it = model(room, "decoder", positions, context_length=12)
    expected = [1, 2, 3]
    for _ in range(N_NEW):
        ids = np.array(expected[begin(len(expected)) :])
        logits = it(torch.from_numpy(ids) if room == "nn" else ids)
        expected.append(int(logits[-1].argmax()))
    assert texts(it, rows=slice(1), temperature=0, past_context=way) == [expected]


# Beams


@both_rooms
@every_family
@every_method
def test_beams_with_cache_and_without(room, family, positions):
    it = model(room, family, positions)
    options = {**given(it), "n_new": 12, "n_beams": 4, "n_return": 3, "stop_ids": [3, 5]}
    cached, whole = (beam_search(it, cache=cache, **options) for cache in (True, False))
    assert [text.tolist() for text, _ in cached] == [text.tolist() for text, _ in whole]
    np.testing.assert_allclose([score for _, score in cached], [score for _, score in whole], rtol=1e-12)


# What is left behind


@both_rooms
def test_the_model_is_left_as_it_was(room):
    it = model(room)
    before = {name: np.asarray(weight).copy() for name, weight in it.state_dict().items()}
    texts(it, temperature=0)
    assert not it.training
    for name, weight in it.state_dict().items():
        np.testing.assert_array_equal(np.asarray(weight), before[name])
    if room == "nn":
        assert torch.is_grad_enabled()
        assert all(weight.grad is None for weight in it.parameters())


def test_a_stream_that_is_paused_leaves_torch_alone():
    steps = stream(model("nn"), [1, 2], 5, temperature=0)
    next(steps)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_torch_models_of_other_dtypes(dtype):
    config = ModelConfig(vocab_size=29, context_length=48, d_model=16, n_layers=1, n_heads=4)
    it = glassformer.nn.Transformer(config, generator=torch.Generator().manual_seed(0), dtype=dtype).eval()
    for cache in (True, False):
        [text] = generate(it, [1, 2, 3], 5, generator=np.random.default_rng(0), cache=cache)
        assert text.shape == (8,)
