"""Tests beam search where the answer is known: by hand, by trying all texts, and in tiny vocabularies."""

import itertools

import numpy as np
import pytest

from glassformer.generate import beam_search, generate

from .models import Arithmetic, Chain, Fixed

LOG = np.log


def found(*args, **given):
    return [(text.tolist(), score) for text, score in beam_search(*args, **given)]


def log_p(logits):
    return logits - LOG(np.exp(logits).sum(axis=-1, keepdims=True))


def everything(logits, start, n_new, stop_ids, length_penalty):
    """Returns every text that ends, with its score, best first, by trying all of them."""
    logs, texts = log_p(logits), []
    for length in range(1, n_new + 1):
        for new in itertools.product(range(len(logits)), repeat=length):
            ends = new[-1] in stop_ids or length == n_new
            if ends and not any(token in stop_ids for token in new[:-1]):
                text = [start, *new]
                total = sum(logs[a, b] for a, b in itertools.pairwise(text))
                texts.append((text, total / length**length_penalty))
    return sorted(texts, key=lambda each: -each[1])


def test_by_hand_where_greedy_is_wrong():
    # From 0, greedy takes 1 (0.6) and is stuck with 0.4; by 2 it would have had 0.4 · 0.9.
    p = np.array([[0.0, 0.6, 0.4], [0.35, 0.25, 0.4], [0.05, 0.05, 0.9]])
    with np.errstate(divide="ignore"):
        model = Chain(LOG(p))
    [text] = generate(model, [0], 2, temperature=0)
    assert text.tolist() == [0, 1, 2]
    [(text, score)] = found(model, [0], 2, n_beams=2, length_penalty=0)
    assert text == [0, 2, 2]
    assert score == pytest.approx(LOG(0.4 * 0.9), rel=1e-14)


@pytest.mark.parametrize("stop_ids", [(), (2,), (0, 2)], ids=str)
@pytest.mark.parametrize("length_penalty", [-1, 0, 1, 2.5])
@pytest.mark.parametrize("seed", range(4))
def test_with_beams_for_all_it_finds_the_best_of_all(seed, length_penalty, stop_ids):
    """There are at most 4 · 4 · 4 texts, so 64 beams drop nothing, and "never" gives up no text too early."""
    logits = np.random.default_rng(seed).normal(0, 1.5, (4, 4))
    expected = everything(logits, 1, 3, stop_ids, length_penalty)
    given = {"n_beams": 64, "n_return": 64, "stop_ids": stop_ids, "length_penalty": length_penalty}
    actual = found(Chain(logits), [1], 3, early_stopping="never", **given)
    worth = {tuple(text): score for text, score in expected}
    assert {tuple(text): pytest.approx(score, rel=1e-12) for text, score in actual} == worth
    # Best first; texts with the same pairs in another order have the same score.
    np.testing.assert_allclose([score for _, score in actual], [score for _, score in expected], rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_one_beam_is_greedy(seed):
    model = Chain(np.random.default_rng(seed).normal(0, 1.5, (8, 8)))
    prompts = [[0], [1, 2], [3]]
    greedy = [text.tolist() for text in generate(model, prompts, 15, temperature=0, stop_ids=[5, 6])]
    assert [text for text, _ in found(model, prompts, 15, n_beams=1, stop_ids=[5, 6])] == greedy


def test_scores_are_log_probabilities_by_length():
    logits = np.random.default_rng(0).normal(0, 1.5, (8, 8))
    for text, score in found(Chain(logits), [0], 10, n_beams=4, n_return=4, stop_ids=[5], length_penalty=0.7):
        total = sum(log_p(logits)[a, b] for a, b in itertools.pairwise(text))
        assert score == pytest.approx(total / (len(text) - 1) ** 0.7, rel=1e-13)


def test_every_prompt_of_a_batch_is_searched_alone():
    model = Chain(np.random.default_rng(0).normal(0, 1.5, (8, 8)))
    given = {"n_beams": 3, "n_return": 2, "stop_ids": [5, 6]}
    prompts = [[0], [1, 2, 3], [3, 7]]
    together = found(model, prompts, 10, **given)
    assert together == [each for prompt in prompts for each in found(model, prompt, 10, **given)]
    assert len({len(text) for text, _ in together}) > 1


def test_a_vocabulary_smaller_than_the_beams():
    assert len(found(Fixed([0.0, 1.0]), [0], 1, n_beams=8, n_return=8)) == 2  # there are only two texts
    assert len(found(Fixed([0.0, 1.0]), [0], 3, n_beams=8, n_return=8)) == 8
    [(text, score)] = found(Fixed([0.0]), [0], 3, n_beams=4)
    assert (text, score) == ([0, 0, 0, 0], 0.0)


def test_where_every_id_stops():
    texts = found(Fixed([0.0, 1.0]), [0], 3, n_beams=3, n_return=3, stop_ids=[0, 1])
    assert [text for text, _ in texts] == [[0, 1], [0, 0]]


def count_calls(length_penalty):
    """Returns how often the model is called, for each rule and 20 models."""
    calls = {True: [], False: [], "never": []}
    for seed, rule in itertools.product(range(20), calls):
        model = Counting(np.random.default_rng(seed).normal(0, 1, (8, 8)))
        beam_search(
            model, [0], 12, n_beams=2, stop_ids=[1, 2], early_stopping=rule, length_penalty=length_penalty
        )
        calls[rule].append(model.calls)
    return calls.values()


def test_early_stopping_stops_early():
    """The rules differ only in when they consider the result good enough."""
    always, by_default, never = count_calls(length_penalty=1)
    assert all(a <= b <= c for a, b, c in zip(always, by_default, never, strict=True))
    assert sum(always) < sum(by_default) < sum(never)


@pytest.mark.parametrize("length_penalty", [0, -1])
def test_where_length_does_not_help_now_is_the_best_case(length_penalty):
    _, by_default, never = count_calls(length_penalty)
    assert by_default == never


class Counting(Chain):
    calls = 0

    def hidden(self, ids, **given):
        self.calls += 1
        return super().hidden(ids)


def test_long_prompts_and_padding():
    """Arithmetic is certain of every id, so one text has all the probability; this checks positions and masks."""
    model = Arithmetic(context_length=400)
    model.new_cache = lambda batch_size, length: Reorderable(Arithmetic.new_cache(model, batch_size, length))
    confident = model.head
    model.head = lambda hidden: 50 * confident(hidden)
    prompts = [np.arange(300) % 10, [4], np.arange(150) % 7]
    expected = [text.tolist() for text in generate(model, prompts, 5, temperature=0)]
    assert [text for text, _ in found(model, prompts, 5, n_beams=3)] == expected


class Reorderable:
    def __init__(self, cache):
        self.cache = cache

    def __getattr__(self, name):
        return getattr(self.cache, name)

    def reorder(self, rows):
        self.cache.shares = self.cache.shares[rows]
