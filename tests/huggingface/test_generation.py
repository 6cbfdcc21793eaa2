"""Compares texts and beam searches of loaded models, id for id, with transformers' `generate`.

All is computed in float64, so that rounding does not matter: the two largest of 41 logits always differ by over 1e-6.
"""

from functools import cache

import numpy as np
import pytest
import torch
from ledger import TRANSFORMERS, different_ids, largest_relative_difference, record

from glassformer.generate import beam_search, generate
from glassformer.huggingface import load

from .models import CASES, both_rooms, make

# Larger than for the other comparisons, and no head tied, so that texts are no loops of one id
T5_SIZES = {"relative": 4.0, "Attention.q.": 0.2, "Attention.o.": 1.0, "": 0.35}
SIZES = {
    "gpt2-untied": {"bias": 0.05, "": 0.35},
    "llama": {"": 0.35},
    "granite4": {"": 0.35},
    "mamba2": {"": 0.35},
    "mistral-window": {"": 0.35},
    "t5": T5_SIZES,
    "t5-v1.1": T5_SIZES,
}
SUMS_IN_FLOAT32 = f"{TRANSFORMERS} (GPT-2, LLaMA, T5; scores summed in float32)"
LENGTHS = {"one": [7], "batch": [5, 1, 12, 9]}
# Types are held in the other tests: checking them at each of a hundred steps takes longer than the steps.
lengths_of_texts = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)


def note(component, room, difference, bound=0, reference=TRANSFORMERS):
    record(component, reference, "float64", room, difference, bound, section="Generated text")


@pytest.fixture(scope="module", params=SIZES)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def theirs(case):
    # The cache of their `generate` takes the decoder to be as deep as the encoder.
    changes = {"num_decoder_layers": 2} if case.startswith("t5") else {}
    return make(case, torch.float64, "sdpa", SIZES[case], **changes)


@pytest.fixture(scope="module")
def folder(theirs, tmp_path_factory):
    path = tmp_path_factory.mktemp(theirs.config.model_type)
    theirs.save_pretrained(path)
    return path


def both(theirs, seed, lengths, stop_ids):
    """Returns the same arguments for ours and for theirs: prompts, or sources for T5."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(0, 41, length) for length in lengths]
    is_t5, longest = theirs.config.is_encoder_decoder, max(lengths)
    ids, mask = np.zeros((len(texts), longest), int), np.zeros((len(texts), longest), int)
    for row, text in enumerate(texts):
        place = slice(len(text)) if is_t5 else slice(longest - len(text), None)
        ids[row, place], mask[row, place] = text, 1
    ours = {"prompt_ids": None, "source": texts} if is_t5 else {"prompt_ids": texts}
    their_arguments = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
    their_arguments |= {"do_sample": False, "pad_token_id": 0, "eos_token_id": stop_ids or None}
    return ours | {"stop_ids": stop_ids}, their_arguments, [1] * len(texts) if is_t5 else lengths


@pytest.fixture(scope="module")
def said(theirs):
    """Returns what theirs generates, computed once for both rooms; the key is the seed, lengths, stops and options."""

    @cache
    def said(seed, lengths, stop_ids, **options):
        _, their_arguments, _ = both(theirs, seed, lengths, list(stop_ids))
        return theirs.generate(**their_arguments, **options)

    return said


def until(ids, stop_ids):
    stops = np.flatnonzero(np.isin(ids, stop_ids))
    return ids[: stops[0] + 1].tolist() if len(stops) else ids.tolist()


@pytest.mark.sampled(3)
@both_rooms
@lengths_of_texts
def test_a_hundred_greedy_ids(case, theirs, said, folder, room, lengths):
    arguments, _, _ = both(theirs, 1, lengths, [])
    expected = said(1, tuple(lengths), (), max_new_tokens=100).numpy()[:, -100:]
    assert len(np.unique(expected)) > 10  # no loop of a few ids
    model = load(folder, room=room, dtype="float64")
    actual = generate(model, n_new=100, temperature=0, **arguments)
    different = int((np.stack([text[-100:] for text in actual]) != expected).sum())
    note(f"{CASES[case].named}: 100 greedy ids", room, different)


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
    "one stop": {"stop_ids": (3,)},
    "four stops": {"stop_ids": (3, 17, 20, 21)},
    "no stop": {"stop_ids": ()},
    "mostly stops": {"stop_ids": tuple(range(30)), "early_stopping": "never", "length_penalty": 2.0},
}
# How texts are chosen is the same code for every model of either room.
one_of_each_family = pytest.mark.parametrize("case", ["gpt2-untied", "llama", "t5"], scope="module")


def compare_beams(case, theirs, said, folder, room, lengths, search):
    """Compares the texts and scores of a search, and returns the texts."""
    options = {
        "n_beams": 3,
        "n_return": 2,
        "length_penalty": 1.0,
        "early_stopping": False,
        "stop_ids": (3, 17),
    }
    options |= SEARCHES[search]
    stop_ids, n_new = options.pop("stop_ids"), 24
    arguments, _, given = both(theirs, 3, lengths, list(stop_ids))
    expected = said(
        3,
        tuple(lengths),
        stop_ids,
        max_new_tokens=n_new,
        num_beams=options["n_beams"],
        num_return_sequences=options["n_return"],
        length_penalty=options["length_penalty"],
        early_stopping=options["early_stopping"],
        return_dict_in_generate=True,
        output_scores=True,
    )
    model = load(folder, room=room, dtype="float64")
    actual = beam_search(model, n_new=n_new, **options, **arguments)
    assert len(actual) == options["n_return"] * len(lengths)
    begins = 1 if theirs.config.is_encoder_decoder else max(lengths)
    for i, (text, score) in enumerate(actual):
        expected_text = until(expected.sequences[i, begins:].numpy(), stop_ids)[:n_new]
        note(
            f"{CASES[case].named}: ids of beam search",
            room,
            different_ids(text[given[i // options["n_return"]] :].tolist(), expected_text),
        )
        # Theirs are sums in float32 of up to 24 terms of order one.
        difference = largest_relative_difference(score, expected.sequences_scores[i].item())
        note("beam search with our models: scores (relative)", room, difference, 1e-5, SUMS_IN_FLOAT32)
    return tuple(tuple(text.tolist()) for text, _ in actual[:: options["n_return"]])


@both_rooms
@lengths_of_texts
def test_beam_search(case, theirs, said, folder, room, lengths):
    compare_beams(case, theirs, said, folder, room, lengths, "plain")


@pytest.mark.sampled(3)
@one_of_each_family
def test_beam_search_with_every_option(case, theirs, said, folder):
    found = {
        compare_beams(case, theirs, said, folder, "scratch", LENGTHS["batch"], search) for search in SEARCHES
    }
    assert len(found) >= 6  # otherwise the comparison would show nothing: options must change the texts


@one_of_each_family
def test_greedy_with_stop_ids_and_penalties(case, theirs, said, folder):
    lengths, stop_ids = (8, 8, 8), (3, 17)  # of one length: their penalties also see the padding, ours do not
    arguments, _, given = both(theirs, 2, lengths, list(stop_ids))
    expected = said(
        2, lengths, stop_ids, max_new_tokens=60, repetition_penalty=1.3, no_repeat_ngram_size=2
    ).numpy()
    model = load(folder, dtype="float64")
    actual = generate(model, n_new=60, temperature=0, repetition_penalty=1.3, no_repeat_ngram=2, **arguments)
    for text, row, begins in zip(actual, expected, given, strict=True):
        different = different_ids(text[begins:].tolist(), until(row[begins:], stop_ids))
        note(f"{CASES[case].named}: greedy ids, with stop ids and penalties", "scratch", different)
