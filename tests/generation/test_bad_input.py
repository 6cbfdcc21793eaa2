"""Tests wrong arguments: the error names the argument, its value and the rule."""

import re

import numpy as np
import pytest

from glassformer.config import ModelConfig
from glassformer.generate import beam_search, generate, strategies, stream
from glassformer.scratch import Transformer

from .models import Arithmetic, Fixed

LOGITS, PAST = np.zeros((2, 5)), [np.array([0])] * 2
NAN, INF = float("nan"), float("inf")

# What is called: the message, which is made by a strategy
STRATEGIES = {
    "apply_temperature(LOGITS, -0.5)": "temperature=-0.5 must be at least 0 and finite",
    "apply_temperature(LOGITS, INF)": "temperature=inf must be at least 0 and finite",
    "apply_temperature(LOGITS, NAN)": "temperature=nan must be at least 0 and finite",
    "keep_top_k(LOGITS, 0)": "top_k=0 must be at least 1",
    "keep_top_p(LOGITS, 0)": "top_p=0 must be above 0 and at most 1",
    "keep_top_p(LOGITS, 1.1)": "top_p=1.1 must be above 0 and at most 1",
    "keep_top_p(LOGITS, NAN)": "top_p=nan must be above 0 and at most 1",
    "keep_min_p(LOGITS, -0.1)": "min_p=-0.1 must be within 0..1",
    "keep_min_p(LOGITS, 2)": "min_p=2 must be within 0..1",
    "penalize_repetition(LOGITS, PAST, 0)": "repetition_penalty=0 must be between 1e-100 and 1e100",
    "penalize_repetition(LOGITS, PAST, 1e-308)": "repetition_penalty=1e-308 must be between 1e-100 and 1e100",
    "penalize_repetition(LOGITS, PAST[:1], 1.2)": "len(past)=1 does not match len(logits)=2",
    "forbid_repeated_ngrams(LOGITS, PAST, 0)": "no_repeat_ngram=0 must be at least 1",
    "forbid_repeated_ngrams(LOGITS, PAST[:1], 1)": "len(past)=1 does not match len(logits)=2",
    "distribution(LOGITS, repetition_penalty=1.2)": "past=None, but repetition_penalty and no_repeat_ngram need the "
    "texts so far",
    "distribution(np.array([[0.0, 1.0], [0.0, NAN]]))": "logits cannot be used: the largest in each row (NaN for a row "
    "that contains a NaN) is [ 1. nan]",
}
KINDS = {
    "apply_temperature(LOGITS, '1')": "temperature='1' must be a number",
    "apply_temperature(LOGITS, True)": "temperature=True must be a number",
    "keep_top_k(LOGITS, 2.0)": "top_k=2.0 must be a whole number",
    "keep_top_p(LOGITS, None)": "top_p=None must be a number",
    "distribution(np.array([1, 2]))": "logits must be an array of floating-point numbers, not int64",
}


@pytest.mark.parametrize("call", [*STRATEGIES, *KINDS])
def test_strategies(call):
    error, message = (ValueError, STRATEGIES) if call in STRATEGIES else (TypeError, KINDS)
    with pytest.raises(error, match=f"^{re.escape(message[call])}$"):
        eval(call, vars(strategies) | globals())


TWO = {"family": "encoder-decoder"}
# name: (the model's config, the prompt, what else is given, how the message begins)
LOOPS = {
    "n_new": ({}, [1], {"n_new": 0}, "n_new=0"),
    "prompt empty": ({}, [], {}, "prompt_ids is empty"),
    "prompt empty array": ({}, np.zeros(0, int), {}, "prompt_ids is empty"),
    "one prompt empty": ({}, [[1], []], {}, "prompt_ids[1] is empty"),
    "prompt too large": ({}, [1, 10], {}, "prompt_ids[1]=10 is outside 0..9 (vocab_size=10)"),
    "one prompt too large": ({}, [[1], [2, -1]], {}, "prompt_ids[1][1]=-1"),
    "prompts nested": ({}, [[[1]]], {}, "prompt_ids[0] has shape (1, 1)"),
    "stop id": ({}, [1], {"stop_ids": [2, 10]}, "stop_ids=10 is outside 0..9 (vocab_size=10)"),
    "stop id negative": ({}, [1], {"stop_ids": [-1]}, "stop_ids=-1"),
    "pad id": ({}, [1], {"pad_id": 10}, "pad_id=10 is outside 0..9 (vocab_size=10)"),
    "start id": ({}, [1], {"start_id": 10}, "start_id=10 is outside 0..9 (vocab_size=10)"),
    "encoder": ({"family": "encoder"}, [1], {}, "family='encoder' cannot generate"),
    "no head": ({"head": "none"}, [1], {}, "head='none' cannot generate"),
    "source": ({}, [1], {"source": [1]}, "source must be None: family='decoder'"),
    "no source": (TWO, [1], {}, "source=None: family='encoder-decoder'"),
    "sources": (TWO, [[1], [2]], {"source": [1]}, "len(prompt_ids)=2 does not match len(source)=1"),
    "source empty": (TWO, [1], {"source": []}, "source is empty"),
    "source too large": (TWO, [1], {"source": [3, 11]}, "source[1]=11 is outside 0..9 (vocab_size=10)"),
    "context": (
        {},
        [1],
        {"n_new": 64},
        "a prompt of 1 ids and n_new=64 make 65, more than context_length=64",
    ),
}
LOOPS_KINDS = {
    "n_new kind": ({}, [1], {"n_new": 2.5}, "n_new=2.5"),
    "prompt float": ({}, [1.0], {}, "prompt_ids must be an array of integers, not float64"),
    "prompt text": ({}, "to be", {}, "prompt_ids must be an array of integers, not"),
    "prompt number": ({}, 1, {}, "prompt_ids must be the ids of a text, or a list of texts, not int"),
    "prompt None": ({}, None, {}, "prompt_ids must be the ids of a text, or a list of texts, not NoneType"),
    "stop id kind": ({}, [1], {"stop_ids": 3}, "stop_ids=3 must be a list of ids"),
}
# What else is given: how the message begins
DRAWS = [
    ({"past_context": "crop"}, "past_context='crop' is not one of 'refuse', 'slide', 'half'"),
    (
        {"temperature": 0.7, "generator": None},
        "generator=None: sampling at temperature=0.7 needs one, such as np.",
    ),
    ({"temperature": -1}, "temperature=-1"),
    ({"top_k": 0}, "top_k=0"),
    ({"top_p": 0.0}, "top_p=0.0"),
    ({"min_p": 1.5}, "min_p=1.5"),
    ({"repetition_penalty": -1.0}, "repetition_penalty=-1.0"),
    ({"no_repeat_ngram": 0}, "no_repeat_ngram=0"),
]
DRAWS_KINDS = [
    ({"generator": 7}, "generator must be a np.random.Generator, not int"),
    pytest.param(
        {"generator": np.random.RandomState(0)},
        "generator must be a np.random.Generator, not RandomState",
        id="generator-RandomState",
    ),
    ({"topk": 3}, "generate has no option 'topk': it has temperature"),
]
BEAMS = [
    ({"n_beams": 0}, "n_beams=0"),
    ({"n_return": 4}, "n_return=4 must be at most n_beams=3"),
    ({"n_return": 0}, "n_return=0"),
    ({"length_penalty": INF}, "length_penalty=inf must be finite"),
    ({"early_stopping": "always"}, "early_stopping='always' is not one of True, False, 'never'"),
]
BEAMS_KINDS = [({"length_penalty": "1"}, "length_penalty='1' must be a number")]


@pytest.mark.parametrize("function", [generate, stream, beam_search])
@pytest.mark.parametrize("case", [*LOOPS, *LOOPS_KINDS])
def test_loops(function, case):
    error = ValueError if case in LOOPS else TypeError
    config, prompt, given, message = (LOOPS | LOOPS_KINDS)[case]
    given = {"n_new": 3, **given} | ({"n_beams": 3} if function is beam_search else {"temperature": 0})
    refused_untouched(function, Arithmetic(**config), prompt, given, error, message)


@pytest.mark.parametrize("function", [generate, stream])
@pytest.mark.parametrize(("given", "message"), [*DRAWS, *DRAWS_KINDS], ids=str)
def test_draws(function, given, message):
    error = ValueError if (given, message) in DRAWS else TypeError
    given = {"n_new": 3, "generator": np.random.default_rng(0), **given}
    refused_untouched(function, Arithmetic(), [1], given, error, message)


@pytest.mark.parametrize(("given", "message"), [*BEAMS, *BEAMS_KINDS], ids=str)
def test_beams(given, message):
    error = ValueError if (given, message) in BEAMS else TypeError
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
