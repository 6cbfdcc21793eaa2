"""Tests the mistakes that were trained and generated with: the judge by hand, and what the text says about each."""

import math
from collections import Counter, defaultdict
from functools import cache

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.bugs import BUGS, put_in
from glassformer.experiments import experiment, stored
from glassformer.experiments.pitfalls import (
    CANDIDATES,
    LENGTH,
    MISTAKES,
    MODELS,
    NOT_APPLICABLE,
    PROMPT,
    RIGHT,
    ROPE,
    SEEDS,
    TRAINED,
    Judge,
    beginnings,
    looks,
    new_model,
    writes_badly,
)
from glassformer.tasks import NO_TARGET, NextToken
from glassformer.text import CharTokenizer, corpus

EXPERIMENT = experiment("pitfalls")


# The judge


def surprise_by_counting(known, text, order=5):
    """Computes the judge's formula with a recursive function on dictionaries."""
    followers = defaultdict(Counter)
    for n in range(order + 1):
        for i in range(n, len(known)):
            followers[known[i - n : i]][known[i]] += 1

    def p(character, run):
        seen = followers[run]
        if run == "":
            return (seen[character] + 1 / len(seen)) / (seen.total() + 1)
        shorter = p(character, run[1:])
        return (seen[character] + len(seen) * shorter) / (seen.total() + len(seen)) if seen else shorter

    return [-math.log(p(text[i], text[max(0, i - order) : i])) for i in range(len(text))]


KNOWN = "the cat sat on the mat; the rat sat on the cat."


@pytest.mark.parametrize("text", ["the cat sat", "tatatatatat", "mmmmmmm", "the dog", ".", "th"])
def test_the_judge_is_surprised_as_by_counting(text):
    np.testing.assert_allclose(Judge(KNOWN).surprise(text), surprise_by_counting(KNOWN, text), rtol=1e-12)


def test_the_judge_by_hand():
    """Of 7 characters, 4 are a and 3 are b; after "a" came "b" three times and nothing else."""
    judge = Judge("abababa")
    a, b = np.exp(-judge.surprise("a")[0]), np.exp(-judge.surprise("b")[0])
    assert (a, b) == (pytest.approx((4 + 1 / 2) / 8), pytest.approx((3 + 1 / 2) / 8))
    assert np.exp(-judge.surprise("ab")[1]) == pytest.approx((3 + 1 * b) / (3 + 1))


def test_what_the_judge_expects_sums_to_1():
    judge = Judge(corpus()[:20_000])
    for before in ("First Citizen:\nBefor", "xqzzz", "th"):
        total = sum(math.exp(-judge.surprise(before + character)[-1]) for character in judge.code)
        assert total == pytest.approx(1, abs=1e-12)


def test_words_are_counted_after_the_prompt_and_before_the_cut():
    judge = Judge("to be or not to be, that's the question")
    start = "x" * (PROMPT - 3) + " to"  # its word goes on after the prompt
    found = judge.judged([start + " Be that's nonsense to be or n"])
    assert found["words"] == 6
    assert found["known_words"] == 5 / 6
    assert found["different_words"] == 5
    assert judge.judged([" " * 30]) | {"surprise": 0} == {
        "known_words": 0,
        "different_words": 0,
        "words": 0,
        "surprise": 0,
    }


def test_texts_begin_where_a_speaker_does():
    text = corpus()
    tokenizer = CharTokenizer.from_text(text)
    held_out = np.asarray(tokenizer.encode(text))[-50_000:]
    starts = [tokenizer.decode(ids) for ids in beginnings(held_out, tokenizer, 5)]
    assert len(set(starts)) > 1
    for start in starts:
        assert len(start) == PROMPT
        assert "\n\n" + start in text
        assert start[:1].isupper()


# Which mistakes, and what was found


def test_every_mistake_of_the_gallery_is_made_or_said_not_to_apply():
    assert set(TRAINED) | set(NOT_APPLICABLE) == set(BUGS)
    assert not set(TRAINED) & set(NOT_APPLICABLE)
    assert set(TRAINED.values()) == set(MODELS)
    assert {name for name, model in TRAINED.items() if model == "in NumPy"} == {
        name for name, bug in BUGS.items() if bug.rooms == ("scratch",)
    }


def test_those_that_do_not_apply_have_no_padding():
    """No batch has a mask or a position without a target, so what these mistakes change is never reached."""
    task = NextToken(np.arange(5000) % 50, LENGTH, 6, 0)
    for inputs, targets in (task.batch(0), *task.validation()):
        assert list(inputs) == ["ids"]
        assert (targets != NO_TARGET).all()


def of(bug, seed, model=None):
    """Returns the result with that mistake, and that of the right model of the same kind and seed."""
    model = model or TRAINED[bug]
    [wrong] = stored("pitfalls", bug=bug, model=model, seed=seed)
    [right] = stored("pitfalls", bug=RIGHT, model=model, seed=seed)
    return wrong.found, right.found


both_seeds = pytest.mark.parametrize("seed", SEEDS)


@both_seeds
@pytest.mark.parametrize("bug", TRAINED)
def test_every_mistake_is_made_in_a_model_that_has_the_part(bug, seed):
    wrong, right = of(bug, seed)
    assert wrong != right, (
        f"{bug} changed no number: name a model that has the part in NEEDS, or NOT_APPLICABLE"
    )


TOO_GOOD = {"softmax-axis", "mask-after-softmax", "mask-transposed", "mask-one-ahead", "labels-unshifted"}
WORSE = {
    "heads-not-swapped",
    "no-positions",
    "tokens-unscaled",
    "t5-sign",
    "labels-shifted-twice",
    "tied-gradient-overwritten",
    "gradients-kept",
}
WRITES_BADLY = TOO_GOOD | WORSE | {"cache-off-by-one"}


@both_seeds
@pytest.mark.parametrize("bug", CANDIDATES)
def test_what_training_looks_like_and_how_the_text_is(bug, seed):
    wrong, right = of(bug, seed)
    assert looks(wrong, right) == ("too good" if bug in TOO_GOOD else "worse" if bug in WORSE else "normal")
    assert writes_badly(wrong, right) == (bug in WRITES_BADLY)


def test_chapter_14_is_about_the_mistakes_of_the_chapters_before_it():
    assert (len(MISTAKES), len(CANDIDATES)) == (31, 28)  # as it says in words
    assert all(bug.chapter > "15" for name, bug in BUGS.items() if name not in MISTAKES)


@both_seeds
def test_mistakes_of_chapter_16_hardly_show_in_training_or_text(seed):
    for bug in ("window-one-more", "latent-rotated", "values-after-rotation"):
        wrong, right = of(bug, seed)
        assert looks(wrong, right) == "normal"
        assert not writes_badly(wrong, right)
        if bug != "window-one-more":  # their weights are for the wrong code alone
            assert wrong["validation"] > right["validation"] + 0.1


@both_seeds
def test_yarn_costs_a_model_that_was_trained_without_it(seed):
    wrong, right = of("stretched-for-short-texts", seed)
    for what in ("loss", "gradient", "validation"):
        assert wrong[what] == pytest.approx(right[what], abs=3e-4)
    assert 0.08 < wrong["reported"] - right["reported"] < 0.13


@both_seeds
def test_keys_without_norm_end_training_and_a_late_decay_does_not_show(seed):
    wrong, right = of("keys-without-norm", seed)
    assert looks(wrong, right) == "broken off"
    assert wrong["steps"] < 20
    assert wrong["loss"][-1] < wrong["loss"][0] < 5  # nothing to be seen until then
    wrong, right = of("decay-after-write", seed)
    assert looks(wrong, right) == "normal"
    assert not writes_badly(wrong, right)
    assert abs(wrong["validation"] - wrong["reported"]) < 0.05  # small, but not the rounding


@both_seeds
def test_mistakes_of_a_router_hardly_show_in_training_or_text(seed):
    for bug in ("weights-not-renormalized", "bias-in-the-weights", "router-in-bfloat16"):
        wrong, right = of(bug, seed)
        assert looks(wrong, right) == "normal"
        assert not writes_badly(wrong, right)
        off = wrong["validation"] - wrong["reported"]  # the same weights in the right code
        assert off < 0.001 if bug == "router-in-bfloat16" else 0.01 < off < 0.03


def test_the_thresholds_are_wider_than_the_seeds():
    for model in MODELS:
        one, other = (run.found for run in stored("pitfalls", bug=RIGHT, model=model))
        assert abs(one["reported"] - other["reported"]) < 0.1
        assert abs(one["surprise"] - other["surprise"]) < 0.7


@both_seeds
@pytest.mark.parametrize("model", MODELS)
def test_the_right_model_is_judged_as_it_says(model, seed):
    [run] = stored("pitfalls", bug=RIGHT, model=model, seed=seed)
    assert run.found["reported"] == run.found["validation"]
    assert run.found["steps"] == 250


@both_seeds
def test_with_too_good_a_loss_the_weights_are_good_for_nothing(seed):
    for bug in TOO_GOOD:
        wrong, right = of(bug, seed)
        assert wrong["reported"] < right["reported"] / 4
        assert wrong["validation"] > right["validation"] + 0.8
    for bug in ("mask-transposed", "mask-one-ahead", "labels-unshifted"):
        assert of(bug, seed)[0]["reported"] < 0.03


@both_seeds
def test_who_learned_only_to_copy_writes_hardly_a_word(seed):
    assert of("labels-unshifted", seed)[0]["words"] == 0
    for text in of("labels-unshifted", seed)[0]["samples"]:
        assert text[PROMPT:] == text[-1] * (LENGTH - PROMPT)
    wrong, right = of("mask-one-ahead", seed)
    assert wrong["words"] < right["words"] / 4


@both_seeds
def test_these_train_as_ever_and_their_weights_are_for_the_wrong_code_alone(seed):
    for bug in ("heads-tiled", "rope-layout", "tied-reshaped", "post-norm", "residual-dropped"):
        wrong, right = of(bug, seed)
        assert wrong["validation"] > right["validation"] + 0.3


@both_seeds
def test_these_change_hardly_a_thing(seed):
    for bug in ("softmax-overflow", "eps-outside", "sigma-unbiased"):
        wrong, right = of(bug, seed)
        assert abs(wrong["reported"] - right["reported"]) < 0.02
        assert abs(wrong["validation"] - wrong["reported"]) < 0.001


@both_seeds
def test_the_cache_shows_in_the_text_alone(seed):
    wrong, right = of("cache-off-by-one", seed)
    for what in ("loss", "gradient", "reported", "validation"):
        assert wrong[what] == right[what]
    assert wrong["known_words"] < right["known_words"] / 2


@both_seeds
def test_dropout_in_evaluation_shows_in_the_validation_loss(seed):
    wrong, right = of("dropout-in-evaluation", seed)
    assert wrong["loss"] == right["loss"]
    assert wrong["validation"] == right["validation"]
    assert 0.03 < wrong["reported"] - right["reported"] < 0.1


@both_seeds
def test_without_a_residual_sublayers_that_begin_at_0_learn_only_how_often_each_character_occurs(seed):
    [unigram] = {run.found["unigram"] for run in stored("norm_placement")}
    assert of("residual-dropped", seed, "rope")[0]["reported"] == pytest.approx(unigram, abs=0.01)


def test_that_is_because_sublayers_that_begin_at_0_let_nothing_through_without_it():
    """With other initial weights, the model would learn, though more slowly than with the residual."""
    ids = torch.from_numpy(np.random.default_rng(0).integers(65, size=(2, 10)))

    def largest_gradient_within_blocks(model):
        model.train()
        nn.cross_entropy(model(ids[:, :-1]), ids[:, 1:]).backward()
        return max(w.grad.abs().max().item() for w in model.decoder.blocks.parameters() if w.ndim == 2)

    zeros = new_model(ROPE, seed=0)
    drawn = nn.Transformer(zeros.config, generator=torch.Generator().manual_seed(0))
    with put_in("residual-dropped"):
        assert largest_gradient_within_blocks(zeros) == 0
        assert largest_gradient_within_blocks(drawn) > 1e-3


@both_seeds
def test_unclipped_gradients_are_long_at_the_beginning_and_never_again(seed):
    wrong, right = of("gradients-unclipped", seed)
    assert wrong["gradient"][0] > 10
    assert max(wrong["gradient"][10:]) < 1.5
    assert abs(wrong["reported"] - right["reported"]) < 0.02


@both_seeds
def test_kept_gradients_slow_learning_down_and_never_turn_it_round(seed):
    wrong, right = of("gradients-kept", seed)
    assert all(late > early for late, early in zip(wrong["loss"][5:], right["loss"][5:], strict=True))
    assert max(wrong["loss"][-5:]) < min(wrong["loss"][:-10])


@both_seeds
def test_uncorrected_adam_is_no_worse(seed):
    """With betas (0.9, 0.95), the first steps are too short rather than too long: 0.1 / √0.05 = 0.45."""
    wrong, right = of("adam-uncorrected", seed)
    assert abs(wrong["reported"] - right["reported"]) < 0.02


# The short version, as readers run it: every layer of every character that is written has a test of its own


@cache
def shortly(bug):
    return EXPERIMENT.measure_shortly(bug=bug, model=CANDIDATES.get(bug, "rope"), seed=SEEDS[0])


def test_shortly_the_right_model_learns():
    assert shortly(RIGHT)["reported"] < 2.6
    assert shortly(RIGHT)["reported"] == shortly(RIGHT)["validation"]
    assert all(len(text) == LENGTH for text in shortly(RIGHT)["samples"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bug", ["mask-one-ahead", "labels-shifted-twice"])
def test_shortly_it_looks_the_same(bug):
    wrong, right = of(bug, SEEDS[0])
    assert looks(shortly(bug), shortly(RIGHT)) == looks(wrong, right)
    assert writes_badly(shortly(bug), shortly(RIGHT))
    assert shortly(bug)["validation"] > shortly(RIGHT)["validation"] + 0.8


def test_shortly_a_mistake_in_a_part_that_the_model_lacks_changes_no_number():
    """So whoever forgets to name the model in `NEEDS` has results that are those of the right model."""
    assert EXPERIMENT.measure_shortly(bug="t5-sign", model="rope", seed=SEEDS[0]) == shortly(RIGHT)


@pytest.mark.weekly
def test_shortly_unclipped_gradients_begin_long():
    gradient = shortly("gradients-unclipped")["gradient"]
    assert gradient[0] > 10
    assert max(gradient[20:]) < gradient[0] / 4


def test_a_run_whose_loss_is_no_number_gives_its_curve(monkeypatch):
    right = shortly(RIGHT)
    lengths = iter([1.0, 2.0, float("nan")])
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(next(lengths)))
    found = EXPERIMENT.measure_shortly(bug="no-scale", model="rope", seed=0)
    assert found["steps"] == 2
    assert found["gradient"] == [1.0, 2.0]
    assert found["reported"] is None
    assert looks(found, right) == "broken off"
    assert "samples" not in found
