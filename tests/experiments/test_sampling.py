"""Tests what chapter 11 says about each sampling strategy, on the stored runs and on short ones."""

import numpy as np
import pytest

from glassformer.experiments import experiment, stored
from glassformer.experiments.sampling import (
    SETTINGS,
    entropy,
    share_of_repeats,
    share_of_words,
    words_of,
)


def found(writer, setting=None):
    return [run.found for run in stored("sampling", part="texts", writer=writer, setting=setting)]


def values(what, writer, setting=None):
    return np.array([one[what] for one in found(writer, setting)])


def lengths(writer, setting=None, **asked):
    runs = stored("sampling", part="lines", writer=writer, setting=setting, **asked)
    return np.concatenate([run.found["lengths"] for run in runs])


def short(**settings):
    return experiment("sampling").measure_shortly(**{"part": "texts", "setting": None, "seed": 7} | settings)


# What is counted


def test_entropy_is_that_of_a_distribution():
    p = np.array([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0], [0.5, 0.5, 0, 0]])
    np.testing.assert_allclose(entropy(p), [np.log(4), 0, np.log(2)])


def test_words_that_may_be_cut_do_not_count():
    known = words_of("The horse's kingdom, my lord")
    assert known == {"the", "horse's", "kingdom", "my", "lord"}
    assert share_of_words(["xx my Lord, zz kingdom yy"], known) == 3 / 4
    assert share_of_words(["king"], known) == 0


def test_a_repeat_stood_in_the_same_text_before():
    assert share_of_repeats(["abcabc"], n=3) == 1 / 4
    assert share_of_repeats(["abcabc", "abcabc"], n=3) == 1 / 4
    assert share_of_repeats(["aaaa"], n=1) == 3 / 4
    assert share_of_repeats(["abcd"], n=2) == 0


# What the study found


def test_what_is_likelier_is_no_better_text():
    """Greedy texts and beams are likelier than the real text for every seed, and repeat themselves far more."""
    for which in (("greedy",), ("beam", 2), ("beam", 4), ("beam", 8)):
        assert values("log p", *which).min() > values("log p", "text").max() + 0.4
        assert values("repeats", *which).min() > 10 * values("repeats", "text").max()


def test_wider_beams_find_likelier_texts_and_repeat_more_than_narrow_ones_but_less_than_greedy():
    for narrow, wide in ((2, 4), (4, 8)):
        assert values("log p", "beam", narrow).max() < values("log p", "beam", wide).min()
        assert np.median(values("repeats", "beam", narrow)) < np.median(values("repeats", "beam", wide))
    assert values("repeats", "beam", 8).max() < values("repeats", "greedy").min()


def test_a_higher_temperature_writes_less_likely_texts_with_fewer_words_that_exist():
    temperatures = SETTINGS["temperature"]
    for what in ("log p", "words"):
        middle = [np.median(values(what, "temperature", T)) for T in temperatures]
        assert (np.diff(middle) <= 0.001).all()
    assert values("words", "temperature", 0.4).min() > 0.99
    assert values("words", "temperature", 1.5).max() < 0.8


def test_at_temperature_1_as_many_words_exist_as_in_the_real_text_and_the_text_is_easier():
    assert np.median(values("words", "temperature", 1.0)) == pytest.approx(
        np.median(values("words", "text")), abs=0.02
    )
    assert values("log p", "temperature", 1.0).min() > values("log p", "text").max()
    assert values("repeats", "temperature", 1.0).max() < values("repeats", "text").min()


def test_a_cut_makes_a_high_temperature_bearable():
    for which in (("top_p at 1.5", 0.8), ("min_p at 1.5", 0.1)):
        assert values("words", *which).min() > values("words", "temperature", 1.5).max() + 0.1


# Made now, in short


def test_in_short_too_greedy_is_likelier_than_the_real_text_and_a_beam_likelier_still():
    text, greedy, beam = (
        short(writer=writer, setting=setting)
        for writer, setting in (("text", None), ("greedy", None), ("beam", 4))
    )
    assert text["log p"] < greedy["log p"] < beam["log p"]
    assert greedy["entropy"] == 0 < beam["entropy"] == beam["model entropy"]
    assert text["prompt"] == greedy["prompt"]


@pytest.mark.weekly
def test_in_short_too_strategies_lower_the_entropy():
    for writer, setting in (("top_k", 2), ("min_p", 0.3), ("temperature", 0.4)):
        one = short(writer=writer, setting=setting)
        assert one["entropy"] < one["model entropy"]


def test_in_short_a_plain_sum_writes_no_longer_lines_than_the_mean():
    plain, mean = (
        short(part="lines", writer="beam", setting=4, length_penalty=penalty)["lengths"]
        for penalty in (0.0, 1.0)
    )
    assert np.mean(plain) <= np.mean(mean)
