import numpy as np
import pytest

from glassformer.text import CharTokenizer, corpus, inputs_and_targets, split, windows

# The corpus


def test_the_corpus_is_all_there():
    text = corpus()
    assert len(text) == 1_115_394
    assert text.startswith("First Citizen:\nBefore we proceed any further, hear me speak.\n")
    assert "\r" not in text


def test_the_corpus_has_65_characters_and_survives_the_round_trip():
    text = corpus()
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.vocab_size == 65
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int64
    assert ids.shape == (1_115_394,)
    assert tokenizer.decode(ids) == text


# The tokenizer


def test_ids_are_places_in_unicode_order():
    tokenizer = CharTokenizer.from_text("to be, or not")
    assert tokenizer.characters == " ,benort"
    assert tokenizer.vocab_size == 8
    assert tokenizer.encode("not to").tolist() == [4, 5, 7, 0, 7, 5]
    assert tokenizer.decode(np.array([2, 3, 3, 1])) == "bee,"
    assert tokenizer.decode([2, 3, 3, 1]) == "bee,"


def test_the_order_given_is_the_order_kept():
    tokenizer = CharTokenizer("zaé")
    assert tokenizer.encode("éza").tolist() == [2, 0, 1]
    assert tokenizer.decode([1, 2]) == "aé"


def test_no_text_is_no_ids():
    tokenizer = CharTokenizer("ab")
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.encode("").dtype == np.int64
    assert tokenizer.decode(np.zeros(0, np.int64)) == ""
    assert tokenizer.decode([]) == ""


TOKENIZER = CharTokenizer("abc")
IDS = np.arange(10)
RNG = np.random.default_rng(0)
BAD = {  # what is called: the message; the rest is in test_checks.py
    "CharTokenizer('')": "characters='' must have at least one character",
    "CharTokenizer.from_text('')": "characters='' must have at least one character",
    "CharTokenizer('abca')": "characters has 'a' twice, at 0 and 3",
    "TOKENIZER.encode('abécé')": "text[2]='é' is not one of the 3 characters of the vocabulary",
    "TOKENIZER.decode(np.array([0, 1, 3]))": "ids[2]=3 is outside 0..2 (vocab_size=3)",
    "TOKENIZER.decode(np.array([[0]]))": "ids has shape (1, 1), but needs exactly one axis",
    "split(IDS, 0.0)": "validation=0.0 must be positive and finite",
    "split(IDS, 1.0)": "validation=1.0 leaves a part of the 10 ids empty",
    "split(IDS, 1.5)": "validation=1.5 leaves a part of the 10 ids empty",
    "split(IDS[:1])": "validation=0.1 leaves a part of the 1 ids empty",
    "split(IDS[None])": "ids has shape (1, 10), but needs exactly one axis",
    "windows(IDS, 10, 1, RNG)": "length=10 needs windows of 11 ids, but there are only 10",
    "windows(IDS, 0, 1, RNG)": "length=0 must be at least 1",
    "windows(IDS, 3, 0, RNG)": "count=0 must be at least 1",
    "windows(IDS[None], 3, 1, RNG)": "ids has shape (1, 10), but needs exactly one axis",
    "inputs_and_targets(IDS[:, None])": "windows.shape[-1]=1 must be at least 2",
    "inputs_and_targets(np.array(3))": "windows has shape (), but needs the axes (..., T+1)",
    "inputs_and_targets(np.zeros((2, 3)))": "windows must be an array of integers, not float64",
}


@pytest.mark.parametrize("call", BAD)
def test_the_message_names_argument_value_and_rule(call):
    with pytest.raises((ValueError, TypeError)) as caught:
        eval(call)
    assert str(caught.value) == BAD[call]


# Splitting


def test_the_split_is_at_nine_tenths_and_loses_nothing():
    training, validation = split(IDS)
    assert training.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert validation.tolist() == [9]
    training, validation = split(IDS, 0.5)
    assert training.tolist() == [0, 1, 2, 3, 4]
    assert validation.tolist() == [5, 6, 7, 8, 9]


def test_the_split_of_the_corpus():
    training, validation = split(np.zeros(1_115_394, np.int64))
    assert (len(training), len(validation)) == (1_003_854, 111_540)


# Windows


def test_windows_are_stretches_of_the_text():
    drawn = windows(IDS * 10, 3, 500, np.random.default_rng(0))
    assert drawn.shape == (500, 4)
    np.testing.assert_array_equal(np.diff(drawn), 10)
    assert set(drawn[:, 0]) == {0, 10, 20, 30, 40, 50, 60}  # the last begins where four ids are left


def test_a_window_as_long_as_the_text():
    np.testing.assert_array_equal(windows(IDS, 9, 2, np.random.default_rng(0)), [IDS, IDS])


def test_windows_come_from_the_generator_alone():
    first, again, other = (windows(np.arange(1000), 5, 8, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


# Inputs and targets


def test_at_each_place_the_target_is_the_next_id():
    inputs, targets = inputs_and_targets(np.array([[5, 3, 8, 1], [2, 2, 7, 0]]))
    np.testing.assert_array_equal(inputs, [[5, 3, 8], [2, 2, 7]])
    np.testing.assert_array_equal(targets, [[3, 8, 1], [2, 7, 0]])
    inputs, targets = inputs_and_targets(np.array([4, 9], np.uint8))
    assert (inputs.tolist(), targets.tolist()) == ([4], [9])
    assert inputs.dtype == targets.dtype == np.uint8
