"""Compares the loop and the beam search with those of transformers on the same models: tokens and scores.

Random weights are scaled up until the logits are of order one or more, so that the texts do not loop on one id. All is
computed in float64, so that rounding does not matter. Transformers casts log-probabilities to float32.
"""

import numpy as np
import pytest
import torch
from ledger import TRANSFORMERS, different_ids, largest_relative_difference, record
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from glassformer.generate import beam_search, generate

from .models import Theirs

# How the ids are chosen is the same NumPy code for either room, so there is one measurement.
REFERENCE = f"{TRANSFORMERS} (GPT-2, LLaMA, T5)"
SUMS_IN_FLOAT32 = f"{TRANSFORMERS} (GPT-2, LLaMA, T5; scores summed in float32)"


def note(component, difference, bound=0, reference=REFERENCE):
    record(
        component,
        reference,
        "float64",
        "scratch",
        difference,
        bound,
        section="Generated text",
    )


def compare(component, ours, theirs):
    """Compares texts, id for id."""
    for text, expected in zip(ours, theirs, strict=True):
        note(component, different_ids(text, expected))


SIZES = {
    "vocab_size": 41,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}


def gpt2():
    return GPT2LMHeadModel(GPT2Config(n_embd=24, n_layer=2, n_head=3, n_positions=160, **SIZES))


def llama():
    sizes = {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "max_position_embeddings": 160,
    }
    return LlamaForCausalLM(LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes, **SIZES))


def t5():
    sizes = {
        "d_model": 24,
        "d_kv": 8,
        "d_ff": 40,
        "num_layers": 2,
        "num_heads": 3,
        "decoder_start_token_id": 0,
    }
    return T5ForConditionalGeneration(T5Config(**sizes, **SIZES))


# T5 does not divide q·k by anything, and what it reads of the source is the same at every step. Without these
# sizes it would say one id over and over.
T5_SIZES = {"relative": 4.0, "Attention.q.": 0.2, "Attention.o.": 1.0}


@pytest.fixture(scope="module", params=[gpt2, llama, t5], ids=lambda make: make.__name__)
def model(request):
    torch.manual_seed(0)
    model = request.param().double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:  # gains and biases stay
                weight.normal_(0, next((size for part, size in T5_SIZES.items() if part in name), 0.35))
    return model


def batch(seed, lengths):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 41, length) for length in lengths]


def padded(texts, side):
    longest = max(map(len, texts))
    ids, mask = np.full((len(texts), longest), 0), np.zeros((len(texts), longest), int)
    for row, text in enumerate(texts):
        place = slice(longest - len(text), None) if side == "left" else slice(len(text))
        ids[row, place], mask[row, place] = text, 1
    return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


def both(model, texts, stop_ids):
    """Returns the same arguments for ours and for theirs: prompts, or sources for T5."""
    if model.config.is_encoder_decoder:
        ours, theirs = {"prompt_ids": None, "source": texts}, padded(texts, "right")
    else:
        ours, theirs = {"prompt_ids": texts}, padded(texts, "left")
    theirs |= {"do_sample": False, "pad_token_id": 0, "eos_token_id": stop_ids or None}
    return {"stop_ids": stop_ids, **ours}, theirs


def until(ids, stop_ids):
    stops = np.flatnonzero(np.isin(ids, stop_ids))
    return ids[: stops[0] + 1].tolist() if len(stops) else ids.tolist()


LENGTHS = {"one": [7], "batch": [5, 1, 12, 9]}
with_and_without_cache = pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])


@with_and_without_cache
@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_hundred_greedy_ids(model, lengths, cache):
    texts = batch(1, LENGTHS[lengths])
    ours, theirs = both(model, texts, [])
    expected = model.generate(**theirs, max_new_tokens=100).numpy()[:, -100:]
    assert len(np.unique(expected)) > 10  # no loop of a few ids
    actual = generate(Theirs(model), n_new=100, temperature=0, cache=cache, **ours)
    compare(
        "greedy loop with their models: 100 ids", [text[-100:].tolist() for text in actual], expected.tolist()
    )


def test_greedy_with_stop_ids_and_penalties(model):
    texts = batch(2, [8, 8, 8])  # of one length: their penalties also see the padding, ours do not
    ours, theirs = both(model, texts, [3, 17])
    expected = model.generate(
        **theirs, max_new_tokens=60, repetition_penalty=1.3, no_repeat_ngram_size=2
    ).numpy()
    actual = generate(
        Theirs(model), n_new=60, temperature=0, repetition_penalty=1.3, no_repeat_ngram=2, **ours
    )
    given = 1 if model.config.is_encoder_decoder else 8
    compare(
        "greedy loop with their models: ids, with stop ids and penalties",
        [text[given:].tolist() for text in actual],
        [until(row[given:], [3, 17]) for row in expected],
    )


SEARCHES = {
    "plain": {},
    "two": {"n_beams": 2},
    "five": {"n_beams": 5, "n_return": 5},
    "no length": {"length_penalty": 0.0},
    "long": {"length_penalty": 2.0},
    "short": {"length_penalty": -1.0},
    "early": {"early_stopping": True},
    "early and long": {"early_stopping": True, "length_penalty": 2.0},
    "never": {"early_stopping": "never"},
    "never and long": {"early_stopping": "never", "length_penalty": 1.5},
    "never and short": {"early_stopping": "never", "length_penalty": -0.5},
    "one stop": {"stop_ids": [3]},
    "four stops": {"stop_ids": [3, 17, 20, 21]},
    "no stop": {"stop_ids": []},
    "mostly stops": {"stop_ids": list(range(30)), "early_stopping": "never", "length_penalty": 2.0},
}


@pytest.mark.parametrize(
    ("search", "lengths", "cache"),
    [*((search, "batch", True) for search in SEARCHES), ("plain", "one", True), ("never", "batch", False)],
)
def test_beam_search(model, search, lengths, cache):
    options = {
        "n_beams": 3,
        "n_return": 2,
        "length_penalty": 1.0,
        "early_stopping": False,
        "stop_ids": [3, 17],
    }
    options |= SEARCHES[search]
    stop_ids = options.pop("stop_ids")
    ours, theirs = both(model, batch(3, LENGTHS[lengths]), stop_ids)
    n_new = 24
    expected = model.generate(
        **theirs,
        max_new_tokens=n_new,
        num_beams=options["n_beams"],
        num_return_sequences=options["n_return"],
        length_penalty=options["length_penalty"],
        early_stopping=options["early_stopping"],
        return_dict_in_generate=True,
        output_scores=True,
    )
    actual = beam_search(Theirs(model), n_new=n_new, cache=cache, **ours, **options)
    n_rows = len(LENGTHS[lengths]) * options["n_return"]
    assert len(actual) == n_rows
    given = 1 if model.config.is_encoder_decoder else theirs["input_ids"].shape[1]
    prompt_lengths = [
        1 if model.config.is_encoder_decoder else len(text) for text in batch(3, LENGTHS[lengths])
    ]
    for i, (text, score) in enumerate(actual):
        new = text[prompt_lengths[i // options["n_return"]] :].tolist()
        compare(
            "beam search with their models: ids",
            [new],
            [until(expected.sequences[i, given:].numpy(), stop_ids)[:n_new]],
        )
        # Float32 sums of up to 24 terms of order one.
        difference = largest_relative_difference(score, expected.sequences_scores[i].item())
        note("beam search with their models: scores (relative)", difference, 1e-5, SUMS_IN_FLOAT32)


def test_the_searches_above_are_different(model):
    """Otherwise the tests above would show nothing: the options must change the result."""
    found = set()
    for options in SEARCHES.values():
        ours, _ = both(model, batch(3, LENGTHS["batch"]), options.get("stop_ids", [3, 17]))
        given = {"n_beams": 3, **options} | {"n_return": 1}
        given.pop("stop_ids", None)
        texts = beam_search(Theirs(model), n_new=24, **ours, **given)
        found.add(tuple(tuple(text.tolist()) for text, _ in texts))
    assert len(found) >= 6
