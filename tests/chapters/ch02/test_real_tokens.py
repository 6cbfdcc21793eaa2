"""Tests RealTokens: its tokens are those of an independent encoder, and the stored examples are what it computes."""

import hashlib
import json
from itertools import pairwise

import pytest
from playwright.sync_api import expect
from tokenizers import Regex, pre_tokenizers
from traitlets import TraitError

from glassformer.chapters.ch02.real_tokens import CUTS, EXAMPLES, LIBRARY, LONGEST, VOCABULARIES
from glassformer.widgets import RealTokens
from tools.assets import token_examples as tool

# How the two vocabularies cut a text into words, from OpenAI's tiktoken (tiktoken_ext/openai_public.py).
LETTERS = {
    "r50k_base": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "o200k_harmony": "|".join(
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
}
# Of texts that are widely printed, for example in the README of tiktoken.
KNOWN = {
    ("r50k_base", "Hello world"): [15496, 995],
    ("r50k_base", "hello world"): [31373, 995],
    ("o200k_harmony", "hello world"): [24912, 2375],
}
TEXTS = [
    *(example.text for example in EXAMPLES),
    "don't we'll I'VE \t\ttabs\r\n\r\nand   spaces  ",
    "naïve façade £5 馬 馬耳東風 🐎🐎 ﷽ é é ​ zero",
    "a/b//c\n/d 12345678901234567890 ½ ² Ⅷ",
    "ǅungla İstanbul ΑΒΓαβγ АБВабв",
    "x" * 300,
    "\x00\x07",  # and not U+FEFF, which is a space in JavaScript's patterns and nowhere else
]
SPECIAL = {
    "r50k_base": {"<|endoftext|>": 50256},
    "o200k_harmony": {"<|endoftext|>": 199999, "<|start|>": 200006, "<|end|>": 200007, "<|message|>": 200008},
}


@pytest.fixture(scope="module", params=[vocabulary.file for vocabulary in VOCABULARIES])
def vocabulary(request, browser):
    """Yields the name of a vocabulary's file, and a page whose `cut` uses it."""
    page = browser.new_page()
    tool.open_vocabulary(page, request.param)
    yield request.param, page
    page.close()


def by_rank(word: bytes, ranks: dict[bytes, int]) -> list[int]:
    """Returns the ids of a word: of all neighbours, the pair with the lowest rank is merged first."""
    parts = [bytes([byte]) for byte in word]
    while len(parts) > 1:
        pairs = [ranks.get(a + b, len(ranks)) for a, b in pairwise(parts)]
        if min(pairs) == len(ranks):
            break
        at = pairs.index(min(pairs))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [ranks[part] for part in parts]


def test_tokens_are_those_of_an_independent_encoder(vocabulary):
    file, page = vocabulary
    ranks = page.evaluate("""() => core.bytePairRankDecoder.map((piece) =>
        typeof piece === "string" ? piece : [...piece])""")
    ranks = {piece.encode() if isinstance(piece, str) else bytes(piece): id for id, piece in enumerate(ranks)}
    words = pre_tokenizers.Split(Regex(LETTERS[file]), "isolated")
    for text in TEXTS:
        expected = [id for word, _ in words.pre_tokenize_str(text) for id in by_rank(word.encode(), ranks)]
        found = page.evaluate("(text) => cut(text, false)", text)
        assert [token["id"] for token in found] == expected, text
        assert b"".join(bytes(token["bytes"]) for token in found) == text.encode()
        assert not any(token["isSpecial"] for token in found)


def test_tokens_are_the_known_ones(vocabulary):
    file, page = vocabulary
    for (name, text), ids in KNOWN.items():
        if name == file:
            assert [token["id"] for token in page.evaluate("(text) => cut(text, false)", text)] == ids


def test_special_tokens_are_single_only_if_recognised(vocabulary):
    file, page = vocabulary
    for text, id in SPECIAL[file].items():
        around = f"before{text}after"
        recognised = page.evaluate("(text) => cut(text, true)", around)
        assert [token["id"] for token in recognised if token["isSpecial"]] == [id]
        assert b"".join(bytes(token["bytes"]) for token in recognised) == around.encode()
        plain = page.evaluate("(text) => cut(text, false)", around)
        assert id not in [token["id"] for token in plain]
    assert page.evaluate("(text) => cut(text, true)", "<|nonsense|>") == page.evaluate(
        "(text) => cut(text, false)", "<|nonsense|>"
    )


def test_examples_are_stored_as_they_are_computed(browser):
    page = browser.new_page()
    assert tool.cuts(page) == json.loads(CUTS.read_text("utf-8"))
    page.close()


def test_the_library_is_the_published_one():
    # SHA-256 of the files in gpt-tokenizer 3.4.0 as published
    published = {
        "LICENSE": "55c0b09ede96ed11bd312d90b200d74807cad56415cb491a76364e6a537d3b92",
        "o200k_harmony.js": "5907417b7aa5f4e8f3e14a820619669a76d67aca448ab655afbfb359bad83548",
        "r50k_base.js": "e95692224049d99b15601019c4b1cad61e3ff7b17d0870fe20e668bd82c15717",
    }
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in LIBRARY.iterdir()}
    assert found == published


# --- the view ---------------------------------------------------------------------------------------------------------


def boxes(w, name):
    w.settle()
    return w.root.get_by_label(f"The tokens of {name}").locator(".gf-token").all_inner_texts()


def test_examples_need_no_vocabulary(mount):
    w = mount(RealTokens())
    for example in EXAMPLES:
        w.root.get_by_role("button", name=example.label).press("Enter")
        assert w.get("text") == example.text
        assert w.get("special") is example.special
        assert w.says.startswith(f"Your text has {len(example.text)} characters.")
    assert w.page.evaluate("window.asked ?? 0") == 0
    w.root.get_by_role("button", name="strawberry").press("Enter")
    assert boxes(w, "GPT-2")[6:8] == ["␣strawberry", "?"]
    assert boxes(w, "GPT-2")[10:14] == ["␣ST", "RAW", "BER", "RY"]


def test_own_text_is_cut_with_the_vocabularies(mount):
    w = mount(RealTokens())
    w.control("Your text").fill("Hello world")
    assert w.says == "Your text has 11 characters. That makes 2 tokens for GPT-2 and 2 tokens for gpt-oss."
    assert boxes(w, "GPT-2") == boxes(w, "gpt-oss") == ["Hello", "␣world"]
    first, second = w.tables()
    assert [row[2] for row in first[1:]] == ["15496", "995"]
    assert [row[2] for row in second[1:]] == ["13225", "2375"]
    asked = w.page.evaluate("window.asked")
    w.control("Your text").fill("<|endoftext|>")
    assert len(boxes(w, "GPT-2")) > 1
    w.press("Recognise special tokens, such as <|endoftext|>", "Space")
    assert boxes(w, "GPT-2") == ["<|endoftext|>"]
    w.control("Your text").fill("")
    assert w.says == "Type a text, or choose one of the examples."
    assert w.page.evaluate("window.asked") == asked  # loaded once


def test_any_text_is_kept_and_answered(mount):
    w = mount(RealTokens())
    for text in (
        "<b>bold</b><script>alert(1)</script>",
        "שלום עולם",
        "\U0001f355" * 40,
        "\n\n\t ",
        "é" * 999,
    ):
        w.control("Your text").fill(text)
        assert w.says.startswith(f"Your text has {len(text)} character")
        assert w.control("Your text").input_value() == text
        assert w.root.locator(".gf-pieces script, .gf-pieces b").count() == 0


def test_a_token_is_explained_by_keyboard(mount):
    w = mount(RealTokens())
    tokens = w.root.get_by_label("The tokens of GPT-2").locator(".gf-token")
    tokens.first.focus()
    tokens.first.press("ArrowRight")
    assert w.says == "GPT-2 sees “␣horse” as the single number 8,223. The token holds 6 characters."
    w.root.get_by_role("button", name="Emoji").press("Enter")
    w.root.get_by_label("The tokens of GPT-2").locator(".gf-token").nth(3).focus()
    assert "only a part of a character" in w.says


def test_a_box_is_explained_when_the_pointer_moves_and_not_when_it_is_drawn_anew_under_it(mount):
    w = mount(RealTokens())
    box = w.root.get_by_label("The tokens of GPT-2").locator(".gf-token").nth(1).bounding_box()
    w.page.mouse.move(box["x"] + 5, box["y"] + 5)
    chosen = w.root.locator(".gf-chosen")
    expect(chosen).to_have_text("␣horse")
    w.control("Your text").press_sequentially("!?")
    assert w.says.startswith("Your text has 43 characters.")
    expect(chosen).to_have_count(0)
    w.page.mouse.move(box["x"] + 6, box["y"] + 6)
    expect(chosen).to_have_count(1)
    assert w.says.startswith("GPT-2 sees ")


def test_traits_are_checked():
    with pytest.raises(
        TraitError, match=f"text has {LONGEST + 1} characters, but must have at most {LONGEST}"
    ):
        RealTokens(text="x" * (LONGEST + 1))
