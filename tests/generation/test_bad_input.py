"""Tests wrong arguments: the error names the argument, its value and the rule."""

import re

import numpy as np
import pytest

from glassformer.config import ModelConfig
from glassformer.generate import (
    apply_temperature,
    beam_search,
    distribution,
    forbid_repeated_ngrams,
    generate,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalize_repetition,
    stream,
)
from glassformer.scratch import Transformer

from .models import Arithmetic, Fixed

LOGITS = np.zeros((2, 5))
NAN, INF = float("nan"), float("inf")

# name: (what to call, the error, its message from beginning to end)
STRATEGIES = {
    "temperature": (
        lambda: apply_temperature(LOGITS, -0.5),
        ValueError,
        "temperature=-0.5 must be at least 0 and finite",
    ),
    "temperature inf": (
        lambda: apply_temperature(LOGITS, INF),
        ValueError,
        "temperature=inf must be at least 0 and finite",
    ),
    "temperature NaN": (
        lambda: apply_temperature(LOGITS, NAN),
        ValueError,
        "temperature=nan must be at least 0 and finite",
    ),
    "temperature kind": (
        lambda: apply_temperature(LOGITS, "1"),
        TypeError,
        "temperature='1' must be a number",
    ),
    "temperature bool": (
        lambda: apply_temperature(LOGITS, True),
        TypeError,
        "temperature=True must be a number",
    ),
    "top_k": (lambda: keep_top_k(LOGITS, 0), ValueError, "top_k=0 must be at least 1"),
    "top_k kind": (lambda: keep_top_k(LOGITS, 2.0), TypeError, "top_k=2.0 must be a whole number"),
    "top_p zero": (lambda: keep_top_p(LOGITS, 0), ValueError, "top_p=0 must be above 0 and at most 1"),
    "top_p": (lambda: keep_top_p(LOGITS, 1.1), ValueError, "top_p=1.1 must be above 0 and at most 1"),
    "top_p NaN": (lambda: keep_top_p(LOGITS, NAN), ValueError, "top_p=nan must be above 0 and at most 1"),
    "top_p kind": (lambda: keep_top_p(LOGITS, None), TypeError, "top_p=None must be a number"),
    "min_p": (lambda: keep_min_p(LOGITS, -0.1), ValueError, "min_p=-0.1 must be within 0..1"),
    "min_p high": (lambda: keep_min_p(LOGITS, 2), ValueError, "min_p=2 must be within 0..1"),
    "penalty": (
        lambda: penalize_repetition(LOGITS, [np.array([0])] * 2, 0),
        ValueError,
        "repetition_penalty=0 must be between 1e-100 and 1e100",
    ),
    "penalty that overflows": (
        lambda: penalize_repetition(LOGITS, [np.array([0])] * 2, 1e-308),
        ValueError,
        "repetition_penalty=1e-308 must be between 1e-100 and 1e100",
    ),
    "penalty rows": (
        lambda: penalize_repetition(LOGITS, [np.array([0])], 1.2),
        ValueError,
        "len(past)=1 does not match len(logits)=2",
    ),
    "n-gram": (
        lambda: forbid_repeated_ngrams(LOGITS, [np.array([0])] * 2, 0),
        ValueError,
        "no_repeat_ngram=0 must be at least 1",
    ),
    "n-gram rows": (
        lambda: forbid_repeated_ngrams(LOGITS, [np.array([0])] * 3, 1),
        ValueError,
        "len(past)=3 does not match len(logits)=2",
    ),
    "no past": (
        lambda: distribution(LOGITS, repetition_penalty=1.2),
        ValueError,
        "past=None, but repetition_penalty and no_repeat_ngram need the texts so far",
    ),
    "logits int": (
        lambda: distribution(np.array([1, 2])),
        TypeError,
        "logits must be an array of floating-point numbers, not int64",
    ),
    "logits NaN": (
        lambda: distribution(np.array([[0.0, 1.0], [0.0, NAN]])),
        ValueError,
        "logits cannot be used: the largest in each row (NaN for a row that contains a NaN) is [ 1. nan]",
    ),
}


@pytest.mark.parametrize("case", STRATEGIES)
def test_strategies(case):
    call, error, message = STRATEGIES[case]
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


# name: (the model's config, the prompt, what else is given, the error, how its message begins)
LOOPS = {
    "n_new": ({}, [1], {"n_new": 0}, ValueError, "n_new=0 must be at least 1"),
    "n_new kind": ({}, [1], {"n_new": 2.5}, TypeError, "n_new=2.5 must be a whole number"),
    "prompt empty": ({}, [], {}, ValueError, "prompt_ids is empty"),
    "prompt empty array": ({}, np.zeros(0, int), {}, ValueError, "prompt_ids is empty"),
    "one prompt empty": ({}, [[1], []], {}, ValueError, "prompt_ids[1] is empty"),
    "prompt float": ({}, [1.0], {}, TypeError, "prompt_ids must be an array of integers, not float64"),
    "prompt text": ({}, "to be", {}, TypeError, "prompt_ids must be an array of integers, not"),
    "prompt number": (
        {},
        1,
        {},
        TypeError,
        "prompt_ids must be the ids of a text, or a list of texts, not int",
    ),
    "prompt None": (
        {},
        None,
        {},
        TypeError,
        "prompt_ids must be the ids of a text, or a list of texts, not NoneType",
    ),
    "prompt too large": ({}, [1, 10], {}, ValueError, "prompt_ids[1]=10 is outside 0..9 (vocab_size=10)"),
    "one prompt too large": (
        {},
        [[1], [2, -1]],
        {},
        ValueError,
        "prompt_ids[1][1]=-1 is outside 0..9 (vocab_size=10)",
    ),
    "prompts nested": (
        {},
        [[[1]]],
        {},
        ValueError,
        "prompt_ids[0] has shape (1, 1), but needs exactly one axis",
    ),
    "stop id": ({}, [1], {"stop_ids": [2, 10]}, ValueError, "stop_ids=10 is outside 0..9 (vocab_size=10)"),
    "stop id negative": ({}, [1], {"stop_ids": [-1]}, ValueError, "stop_ids=-1 must be at least 0"),
    "stop id kind": ({}, [1], {"stop_ids": 3}, TypeError, "stop_ids=3 must be a list of ids"),
    "pad id": ({}, [1], {"pad_id": 10}, ValueError, "pad_id=10 is outside 0..9 (vocab_size=10)"),
    "start id": ({}, [1], {"start_id": 10}, ValueError, "start_id=10 is outside 0..9 (vocab_size=10)"),
    "encoder": ({"family": "encoder"}, [1], {}, ValueError, "family='encoder' cannot generate"),
    "no head": ({"head": "none"}, [1], {}, ValueError, "head='none' cannot generate"),
    "source": ({}, [1], {"source": [1]}, ValueError, "source must be None: family='decoder'"),
    "no source": (
        {"family": "encoder-decoder"},
        [1],
        {},
        ValueError,
        "source=None: family='encoder-decoder'",
    ),
    "sources": (
        {"family": "encoder-decoder"},
        [[1], [2]],
        {"source": [1]},
        ValueError,
        "len(prompt_ids)=2 does not match len(source)=1",
    ),
    "source empty": ({"family": "encoder-decoder"}, [1], {"source": []}, ValueError, "source is empty"),
    "source too large": (
        {"family": "encoder-decoder"},
        [1],
        {"source": [3, 11]},
        ValueError,
        "source[1]=11 is outside 0..9 (vocab_size=10)",
    ),
    "context": (
        {},
        [1],
        {"n_new": 64},
        ValueError,
        "a prompt of 1 ids and n_new=64 make 65, more than context_length=64",
    ),
}
DRAWS = {
    "past_context": (
        {"past_context": "crop"},
        ValueError,
        "past_context='crop' is not one of 'refuse', 'slide', 'half'",
    ),
    "no generator": (
        {"temperature": 0.7},
        ValueError,
        "generator=None: sampling at temperature=0.7 needs one, such as np.random.default_rng(0); temperature=0 ",
    ),
    "generator": ({"generator": 7}, TypeError, "generator must be a np.random.Generator, not int"),
    "old generator": (
        {"generator": np.random.RandomState(0)},
        TypeError,
        "generator must be a np.random.Generator, not RandomState",
    ),
    "temperature": ({"temperature": -1}, ValueError, "temperature=-1 must be at least 0 and finite"),
    "top_k": ({"top_k": 0}, ValueError, "top_k=0 must be at least 1"),
    "top_p": ({"top_p": 0.0}, ValueError, "top_p=0.0 must be above 0 and at most 1"),
    "min_p": ({"min_p": 1.5}, ValueError, "min_p=1.5 must be within 0..1"),
    "penalty": (
        {"repetition_penalty": -1.0},
        ValueError,
        "repetition_penalty=-1.0 must be between 1e-100 and 1e100",
    ),
    "n-gram": ({"no_repeat_ngram": 0}, ValueError, "no_repeat_ngram=0 must be at least 1"),
    "unknown": ({"topk": 3}, TypeError, "distribution() got an unexpected keyword argument 'topk'"),
}
BEAMS = {
    "n_beams": ({"n_beams": 0}, ValueError, "n_beams=0 must be at least 1"),
    "n_return": ({"n_return": 4}, ValueError, "n_return=4 must be at most n_beams=3"),
    "n_return zero": ({"n_return": 0}, ValueError, "n_return=0 must be at least 1"),
    "length_penalty": ({"length_penalty": INF}, ValueError, "length_penalty=inf must be finite"),
    "length_penalty kind": ({"length_penalty": "1"}, TypeError, "length_penalty='1' must be a number"),
    "early_stopping": (
        {"early_stopping": "always"},
        ValueError,
        "early_stopping='always' is not one of True, False, 'never'",
    ),
}


@pytest.mark.parametrize("function", [generate, stream, beam_search])
@pytest.mark.parametrize("case", LOOPS)
def test_loops(function, case):
    config, prompt, given, error, message = LOOPS[case]
    given = {"n_new": 3, **given} | ({"n_beams": 3} if function is beam_search else {"temperature": 0})
    refused_untouched(function, Arithmetic(**config), prompt, given, error, message)


@pytest.mark.parametrize("function", [generate, stream])
@pytest.mark.parametrize("case", DRAWS)
def test_draws(function, case):
    given, error, message = DRAWS[case]
    given = {"n_new": 3, "generator": None if case == "no generator" else np.random.default_rng(0), **given}
    refused_untouched(function, Arithmetic(), [1], given, error, message)


@pytest.mark.parametrize("case", BEAMS)
def test_beams(case):
    given, error, message = BEAMS[case]
    refused_untouched(beam_search, Arithmetic(), [1], {"n_new": 3, "n_beams": 3, **given}, error, message)


def refused_untouched(function, model, prompt, given, error, message):
    """Asserts that a call is refused before the model has computed anything."""
    with pytest.raises(error, match="^" + re.escape(message)):
        function(model, prompt, **given)
    assert model.shapes == []
    assert model.encoded == 0


@pytest.mark.parametrize("function", [generate, beam_search])
def test_nan_from_the_model(function):
    given = {"n_beams": 2} if function is beam_search else {"temperature": 0}
    with pytest.raises(ValueError, match="logits cannot be used"):
        function(Fixed([0.0, NAN]), [0], 2, **given)


def test_a_model_in_training_with_dropout():
    config = ModelConfig(vocab_size=9, context_length=8, d_model=8, n_layers=1, n_heads=2, dropout=0.1)
    model = Transformer(config, generator=np.random.default_rng(0))
    with pytest.raises(
        ValueError, match=r"the model is in training with dropout=0.1: call model.eval\(\) first"
    ):
        generate(model, [1], 3, temperature=0)
    assert generate(model.eval(), [1], 3, temperature=0)[0].shape == (4,)


def test_readers_of_the_numpy_room_need_no_torch():
    import subprocess
    import sys

    code = """
import sys, numpy as np
import glassformer.generate
from glassformer.config import ModelConfig
from glassformer.scratch import Transformer
config = ModelConfig(vocab_size=9, context_length=8, d_model=8, n_layers=1, n_heads=2)
model = Transformer(config, generator=np.random.default_rng(0)).eval()
glassformer.generate.generate(model, [1], 3, temperature=0)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
