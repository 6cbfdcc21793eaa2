"""Tests the loop on models that can be worked out by hand: what it reads, at which positions, and when it stops."""

import numpy as np
import pytest

from glassformer.generate import distribution, draw, generate, stream
from glassformer.generate.reader import CHUNK

from .models import Arithmetic, Chain, Fixed

with_and_without_cache = pytest.mark.parametrize("cache", [True, False], ids=["cache", "no cache"])


def texts(*args, **given):
    return [text.tolist() for text in generate(*args, **given)]


def greedy(*args, **given):
    return texts(*args, temperature=0, **given)


def by_hand(prompt, n_new, *, V=10, context=10**9, past_context="slide", source=()):
    """Computes Arithmetic's text step by step; past `context` the window slides, or is moved on by half a context."""
    text = list(prompt)
    for _ in range(n_new):
        start, step = 0, 1 if past_context == "slide" else context // 2
        while len(text) - start > context:
            start += step
        shares = [(place + 1) * (token + 1) for place, token in enumerate(text[start:])]
        text.append((sum(shares) + sum(token + 1 for token in source)) % V)
    return text


# One text


@with_and_without_cache
def test_greedy_by_hand(cache):
    # 1·2 + 2·3 = 8; + 3·9 = 35; + 4·6 = 59
    assert greedy(Arithmetic(), [1, 2], 3, cache=cache) == [[1, 2, 8, 5, 9]]


@with_and_without_cache
@pytest.mark.parametrize("length", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 300])
def test_long_prompts_are_read_in_chunks(length, cache):
    prompt = np.random.default_rng(0).integers(0, 10, length)
    assert greedy(Arithmetic(context_length=400), prompt, 4, cache=cache) == [by_hand(prompt, 4)]


def test_with_cache_every_id_is_read_once_and_without_again_and_again():
    model = Arithmetic(context_length=400)
    greedy(model, np.zeros(300, int), 4)
    assert model.shapes == [(1, 128), (1, 128), (1, 44), (1, 1), (1, 1), (1, 1)]
    model = Arithmetic(context_length=400)
    greedy(model, np.zeros(300, int), 4, cache=False)
    assert model.shapes == [(1, 300), (1, 301), (1, 302), (1, 303)]


@pytest.mark.parametrize(
    "prompt",
    [[1, 2], (1, 2), np.array([1, 2]), np.array([1, 2], np.uint64), [np.array([1, 2])], np.array([[1, 2]])],
    ids=["list", "tuple", "array", "uint64", "batch of one", "array (1, T)"],
)
def test_prompts_of_any_kind(prompt):
    [text] = generate(Arithmetic(), prompt, 3, temperature=0)
    assert text.tolist() == [1, 2, 8, 5, 9]
    assert text.dtype == np.int64


def test_the_prompt_stays_as_it_was():
    prompt = np.array([1, 2])
    [text] = generate(Arithmetic(), prompt, 3, temperature=0)
    text[:] = 0
    assert prompt.tolist() == [1, 2]


# Several texts

PROMPTS = [[1, 2], [7], [3, 1, 4, 1, 5, 9, 2], [0, 0]]


@with_and_without_cache
@pytest.mark.parametrize("pad_id", [0, 9])
def test_every_row_is_as_if_alone(cache, pad_id):
    expected = [by_hand(prompt, 12) for prompt in PROMPTS]
    assert greedy(Arithmetic(), PROMPTS, 12, cache=cache, pad_id=pad_id) == expected


@with_and_without_cache
def test_padding_longer_than_a_chunk(cache):
    prompts = [np.arange(300) % 10, [4], np.arange(150) % 7]
    expected = [by_hand(prompt, 5) for prompt in prompts]
    assert greedy(Arithmetic(context_length=400), prompts, 5, cache=cache) == expected


@with_and_without_cache
def test_stop_ids_end_their_row_only(cache):
    expected = []
    for prompt in PROMPTS:
        text = by_hand(prompt, 12)
        stop = next((i for i in range(len(prompt), len(text)) if text[i] in (3, 8)), len(text))
        expected.append(text[: stop + 1])
    assert len({len(text) for text in expected}) > 1  # they do end at different places
    assert greedy(Arithmetic(), PROMPTS, 12, cache=cache, stop_ids=[3, 8]) == expected
    assert greedy(Arithmetic(), PROMPTS, 12, cache=cache, stop_ids=iter([3, 8])) == expected


def test_a_stop_id_in_the_prompt_stops_nothing():
    assert greedy(Arithmetic(), [1, 2], 3, stop_ids=[1, 2]) == [[1, 2, 8, 5, 9]]


def test_nothing_is_computed_once_all_have_ended():
    model = Arithmetic()
    assert greedy(model, [[1, 2], [1, 2]], 10, stop_ids=[5]) == [[1, 2, 8, 5]] * 2
    assert len(model.shapes) == 2


# Step by step


def test_stream_gives_what_generate_gives():
    steps = list(stream(Arithmetic(), PROMPTS, 12, temperature=0))
    assert all(step.shape == (4,) and step.dtype == np.int64 for step in steps)
    new = np.stack(steps, axis=1).tolist()
    assert [prompt + row for prompt, row in zip(PROMPTS, new, strict=True)] == greedy(
        Arithmetic(), PROMPTS, 12
    )


def test_stream_gives_padding_after_the_end():
    # Alone, [1, 2] goes on 8, 5, 9 and [7] goes on 8, 6, 7, 9.
    steps = stream(Arithmetic(), [[1, 2], [7]], 4, temperature=0, stop_ids=[5], pad_id=3)
    assert [step.tolist() for step in steps] == [[8, 8], [5, 6], [3, 7], [3, 9]]


def test_stream_computes_a_step_when_it_is_asked_for_one():
    model = Arithmetic()
    steps = stream(model, [1, 2], 10, temperature=0)
    assert model.shapes == []
    next(steps)
    assert len(model.shapes) == 1
    next(steps)
    assert len(model.shapes) == 2


def test_what_a_caller_does_to_a_step_does_not_reach_the_text():
    seen = []
    for step in stream(Arithmetic(), [1, 2], 3, temperature=0, stop_ids=[0]):
        seen.append(step[0])
        step[:] = 0
    assert seen == [8, 5, 9]


def test_what_is_written_so_far_can_be_read_and_changed_at_every_step():
    writing, seen = stream(Arithmetic(), [[1, 2], [7]], 4, temperature=0, stop_ids=[5], pad_id=3), []
    for _ in writing:
        first, second = writing.texts()
        seen.append((first.tolist(), second.tolist()))
        first[:], second[:] = 0, 0
    assert seen == [
        ([1, 2, 8], [7, 8]),
        ([1, 2, 8, 5], [7, 8, 6]),
        ([1, 2, 8, 5], [7, 8, 6, 7]),
        ([1, 2, 8, 5], [7, 8, 6, 7, 9]),
    ]


def test_what_is_given_once_can_be_an_iterator():
    assert texts(Arithmetic(), [[1, 2], [7]], 4, temperature=0, stop_ids=iter([5])) == [
        [1, 2, 8, 5],
        [7, 8, 6, 7, 9],
    ]


# Sampling


def test_one_number_a_row_and_step():
    """Repeats the draws with the strategies themselves."""
    logits = np.random.default_rng(1).normal(0, 2, (8, 8))
    strategy = {"temperature": 0.9, "top_k": 6, "top_p": 0.95, "min_p": 0.01}
    prompts = [[1], [2, 3], [0]]
    expected, rng = [list(prompt) for prompt in prompts], np.random.default_rng(7)
    for _ in range(40):
        uniform = rng.random(3)
        p = distribution(np.array([logits[text[-1]] for text in expected]), **strategy)
        for text, new in zip(expected, draw(p, uniform), strict=True):
            text.append(int(new))
    assert texts(Chain(logits), prompts, 40, generator=np.random.default_rng(7), **strategy) == expected


def test_a_row_that_ended_does_not_change_the_draws_of_the_others():
    model = Chain(np.random.default_rng(1).normal(0, 2, (8, 8)))
    free = texts(model, [[1], [2]], 40, generator=np.random.default_rng(3))
    stop = free[0][3]
    ended = texts(model, [[1], [2]], 40, generator=np.random.default_rng(3), stop_ids=[stop])
    assert len(ended[0]) <= 4 < len(ended[1]) <= 41
    assert free[1][: len(ended[1])] == ended[1]


def test_greedy_needs_no_generator_and_takes_no_number():
    generator = np.random.default_rng(0)
    texts(Fixed([0, 1, 0]), [0], 5, temperature=0.0, generator=generator)
    assert generator.random() == np.random.default_rng(0).random()


def test_greedy_takes_the_first_of_equals():
    assert greedy(Fixed([0, 1, 1]), [0], 2) == [[0, 1, 1]]


def test_greedy_heeds_the_penalties():
    # Used once, 3 counts 1.5, and then 2.9 counts 1.45; the penalty is on what was used, not on how often.
    assert greedy(Fixed([3, 2.9, 1]), [2], 4, repetition_penalty=2) == [[2, 0, 1, 0, 0]]
    assert greedy(Fixed([3, 2.9, 1]), [2], 2, no_repeat_ngram=1) == [[2, 0, 1]]


def test_penalties_see_each_rows_own_text_without_its_padding():
    # Row 1 is padded with 0 on the left, which is no part of it: 0 may come. Row 0 has a 0: 1 comes.
    assert greedy(Fixed([3, 2.9, 1]), [[0, 2], [2]], 1, no_repeat_ngram=1) == [[0, 2, 1], [2, 0]]


def test_running_out_of_ids_is_an_error():
    with pytest.raises(ValueError, match="nothing is left to draw"):
        greedy(Fixed([3, 2, 1]), [0], 4, no_repeat_ngram=1)


def test_a_row_that_ended_cannot_run_out():
    # Row 0 has ended with 1, and would have had nothing left; its padding is not held against it.
    assert greedy(Chain(np.eye(4)[[1, 2, 3, 0]]), [[0], [2]], 3, no_repeat_ngram=2, stop_ids=[1]) == [
        [0, 1],
        [2, 3, 0, 1],
    ]


# Past the context

in_both_ways = pytest.mark.parametrize("way", ["slide", "half"])


@with_and_without_cache
@in_both_ways
@pytest.mark.parametrize("length", [1, 3, 8, 9, 20])
@pytest.mark.parametrize("context", [8, 7])
def test_the_window_moves(context, length, way, cache):
    prompt = np.random.default_rng(0).integers(0, 10, length).tolist()
    model = Arithmetic(context_length=context)
    expected = [by_hand(prompt, 15, context=context, past_context=way)]
    assert greedy(model, prompt, 15, past_context=way, cache=cache) == expected
    assert max(shape[1] for shape in model.shapes) <= context


@with_and_without_cache
@in_both_ways
def test_the_window_moves_for_each_row_alone(way, cache):
    prompts = [[1, 2], [5] * 9, [3, 1, 4, 1, 5], [7]]
    expected = [by_hand(prompt, 15, context=6, past_context=way) for prompt in prompts]
    assert greedy(Arithmetic(context_length=6), prompts, 15, past_context=way, cache=cache) == expected


def test_in_halves_the_window_is_read_again_only_when_it_is_full():
    model = Arithmetic(context_length=6)
    greedy(model, [1, 2, 3], 9, past_context="half")
    assert [shape[1] for shape in model.shapes] == [3, 1, 1, 1, 4, 1, 1, 4, 1]


def test_up_to_the_context_a_sliding_window_uses_the_cache():
    model = Arithmetic(context_length=6)
    greedy(model, [1, 2, 3], 6, past_context="slide")
    assert [shape[1] for shape in model.shapes] == [3, 1, 1, 1, 6, 6]


def test_the_context_may_be_filled_but_not_passed():
    model = Arithmetic(context_length=6)
    assert len(greedy(model, [1, 2, 3], 3)[0]) == 6
    n_calls = len(model.shapes)
    message = "a prompt of 3 ids and n_new=4 make 7, more than context_length=6"
    with pytest.raises(ValueError, match=message):
        greedy(model, [[1], [1, 2, 3]], 4)
    with pytest.raises(ValueError, match=message):
        stream(model, [1, 2, 3], 4, temperature=0)  # at the call, not at the first step
    assert len(model.shapes) == n_calls


# With a source

SOURCES = [[4, 4, 4], [1], [9, 8, 7, 6, 5]]


@with_and_without_cache
def test_sources_of_different_lengths(cache):
    model = Arithmetic(family="encoder-decoder")
    expected = [by_hand([0], 6, source=source) for source in SOURCES]
    assert greedy(model, None, 6, source=SOURCES, cache=cache) == expected
    assert model.encoded == 1  # once for all steps
    expected = [by_hand([3], 6, source=source) for source in SOURCES]
    assert greedy(model, None, 6, source=SOURCES, start_id=3, cache=cache) == expected
    prompts = [[1, 2, 3], [4], [5, 6]]
    expected = [by_hand(prompt, 6, source=source) for prompt, source in zip(prompts, SOURCES, strict=True)]
    assert greedy(model, prompts, 6, source=SOURCES, cache=cache) == expected


def test_one_source():
    model = Arithmetic(family="encoder-decoder")
    assert greedy(model, None, 6, source=[4, 4, 4]) == [by_hand([0], 6, source=[4, 4, 4])]


# What the model computed is no number


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("strategy", [{"temperature": 0}, {"temperature": 0, "top_k": 2}, {}], ids=str)
def test_logits_that_are_not_finite(bad, strategy):
    with pytest.raises(ValueError, match="logits"):
        generate(Fixed([0, bad, 1]), [0], 3, generator=np.random.default_rng(0), **strategy)


def test_single_ids_at_minus_infinity_are_fine():
    assert greedy(Fixed([-np.inf, 1, 0]), [0], 1) == [[0, 1]]
    assert texts(Fixed([-np.inf, 1, -np.inf]), [0], 1, generator=np.random.default_rng(0)) == [[0, 1]]
