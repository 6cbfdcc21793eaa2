"""Tests the byte pairs of the views: texts become the same ids as in the tokenizers library."""

import json
import random
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linking import link

from glassformer import shipped
from glassformer.text import BytePairTokenizer, corpus, split

FILE = (shipped.PLACE / "words" / shipped.TOKENIZER).read_text("utf-8")
TOKENIZER = BytePairTokenizer.from_json(FILE)
KINDS = {
    "spaces": ["a  b   c", " a", "a ", "   ", "a \n b", "\t\ta\t b"],
    "line breaks": ["\n", "\n\n", "a\n\nb\n", "a\r\nb", "\n \n", "MENENIUS:\nWhat's the matter?"],
    "apostrophes": ["don't we'll they've I'd 'tis o'er", "'s 'S 't'll'", "it’s"],
    "digits": ["7 77 777 1593", "3.14", "a1b2", "½ ² ٣"],
    "accents": ["naïve café", "cafe\u0301", "Ünïcödé", "ß"],
    "emoji": ["🍕", "I love 🍕!", "👩‍🚀👨‍👩‍👧", "🇫🇷"],
    "other scripts": ["馬耳東風", "السلام عليكم", "नमस्ते", "Привет, мир"],
    "white space of all kinds": [
        f"a{c}b {c} c{c}{c}d" for c in "\u0085\u00a0\u1680\u2003\u2028\u3000\ufeff\u200b\x1c"
    ],
    "nothing": [""],
}


def tokenizing(browser, file=FILE):
    """Opens a page with a tokenizer."""
    page = link(browser.new_page(), "byte_pairs")
    page.evaluate("(file) => { window.tokenizer = js.bytePairs(JSON.parse(file)) }", file)
    return page


@pytest.fixture(scope="module")
def ids_of(browser):
    """Provides ids_of(texts), the ids that the view gives each text."""
    page = tokenizing(browser)
    yield lambda texts: page.evaluate("texts => texts.map(tokenizer.ids)", texts)
    page.close()


def assert_same(ids_of, texts):
    for text, found in zip(texts, ids_of(texts), strict=True):
        assert found == TOKENIZER.encode(text).tolist(), repr(text)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_every_kind(ids_of, kind):
    assert_same(ids_of, KINDS[kind])


def test_held_out_shakespeare(ids_of):
    _, held_out = split(np.arange(len(corpus())))
    text = corpus()[held_out[0] :]
    generator = random.Random(0)
    starts = [generator.randrange(len(text) - 400) for _ in range(300)]
    assert_same(ids_of, [text[start : start + 400] for start in starts])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40), min_size=5, max_size=20))
def test_any_text(ids_of, texts):
    # A character that is newer than a library's table of Unicode may be a letter here and none there.
    assigned = ["".join(c for c in text if unicodedata.category(c) != "Cn") for text in texts]
    assert_same(ids_of, assigned)


def test_any_mixture_of_what_a_reader_types(ids_of):
    generator = random.Random(1)
    pieces = [
        *["the", "horse", "THOU", "ROMEO:", "'", "'s", "!", "--", "7", "é", "🍕", "ing", "kingdom", ","],
        " ",
        "  ",
        "\n",
    ]
    texts = ["".join(generator.choices(pieces, k=generator.randrange(1, 30))) for _ in range(500)]
    assert_same(ids_of, texts)


def test_merges_made_in_two_ways(browser):
    """A token that two pairs make, in a vocabulary in which this happens, so that ranks do not only grow; and ddd."""
    text = "abc abc abc bc bc bc xbc ab abcd abcd a bcd aabc cab bca ccab abab dd dd dd"
    tokenizer = BytePairTokenizer.from_text(text * 3, 300)
    page = tokenizing(browser, tokenizer.to_json())
    generator = random.Random(2)
    texts = ["".join(generator.choices("abcdx ", k=30)) for _ in range(300)]
    found = page.evaluate("texts => texts.map(tokenizer.ids)", texts)
    page.close()
    assert found == [tokenizer.encode(one).tolist() for one in texts]


def test_what_is_known_are_the_texts_of_the_tokens(browser):
    page = tokenizing(browser)
    known = page.evaluate("tokenizer.known")
    page.close()
    assert known == [TOKENIZER.decode([i]) for i in range(TOKENIZER.vocab_size)]


def test_the_file_has_what_the_view_needs():
    model = json.loads(FILE)["model"]
    assert sorted(model["vocab"].values()) == list(range(TOKENIZER.vocab_size))
    assert all(a + b in model["vocab"] for a, b in model["merges"])
