"""Tests BytePairStepper: its merges and tokens equal those of the tokenizers library, and its sentences are true."""

import json

import pytest

from glassformer.chapters.ch02.byte_pair_stepper import LINE, excerpt
from glassformer.text import BytePairTokenizer
from glassformer.widgets import BytePairStepper

TEXTS = {
    "the excerpt": excerpt(),
    "the line": LINE,
    "ties": "ab ba ab ba cd dc aabb abab",
    "runs": "aaaa aaa aaaaa zzzzzzz   !!!! 1111\n\naaa  \n b",
    "two ways to one token": "abc abc abc bc bc bc xbc ab abcd abcd a bcd aabc",
    "other alphabets": "naïve façade £5 馬 馬 馬耳東風 🐎🐎 don't we'll\t\ttabs",
    "one word": "banana",
}
PRINTING = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = [byte for byte in range(256) if byte not in PRINTING]
LETTERS = {  # GPT-2's, for each byte
    **{byte: chr(byte) for byte in PRINTING},
    **{byte: chr(256 + i) for i, byte in enumerate(OTHERS)},
}


def library(text, vocabulary):
    """Returns the merges of the library, and its tokenizer."""
    tokenizer = BytePairTokenizer.from_text(text, vocabulary)
    return [tuple(pair) for pair in json.loads(tokenizer.to_json())["model"]["merges"]], tokenizer


def in_letters(tokenizer, text):
    return [tokenizer.tokenizer.id_to_token(i) for i in tokenizer.encode(text).tolist()]


# --- the same as the library's --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_merges_are_the_librarys(call, name):
    learned = call("byte_pair_stepper", "learn", TEXTS[name], 150)
    vocabulary = learned["states"][-1]["vocabulary"]
    merges, tokenizer = library(TEXTS[name], vocabulary)
    ours = [tuple(merge["pair"]) for merge in learned["merges"]]
    assert ours[: len(merges)] == merges
    assert tokenizer.vocab_size == vocabulary
    # Beyond those, our merges make only tokens that there are already, which the library's size does not count.
    assert all(merge["made"] in tokenizer.tokenizer.get_vocab() for merge in learned["merges"])


def test_of_two_ways_to_one_token_the_vocabulary_counts_one(call):
    learned = call("byte_pair_stepper", "learn", "abcabc abc bcx bcy bcz abw abv abu abt", 150)
    made = [merge["made"] for merge in learned["merges"]]
    sizes = [state["vocabulary"] for state in learned["states"]]
    assert sizes == [256 + len(set(made[:n])) for n in range(len(made) + 1)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("n", [0, 1, 7, 40, 100])
def test_a_text_is_cut_as_the_library_cuts_it(call, name, n):
    learned = call("byte_pair_stepper", "learn", TEXTS["the excerpt"], 150)
    _, tokenizer = library(TEXTS["the excerpt"], learned["states"][n]["vocabulary"])
    assert call("byte_pair_stepper", "encode", TEXTS[name], learned["merges"][:n]) == in_letters(
        tokenizer, TEXTS[name]
    )


def test_counts_are_those_of_the_words_one_by_one(call):
    learned = call("byte_pair_stepper", "learn", LINE, 150)
    state = learned["states"][0]
    assert state["tokens"] == len(LINE) == 41
    # Of the line's pairs inside words these three stand three times or more; ids decide their order.
    assert [(one["pair"], one["count"]) for one in state["leading"][:3]] == [
        (["o", "r"], 4),
        (["h", "o"], 3),
        (["r", "s"], 3),
    ]
    assert learned["merges"][0] == {"pair": ["o", "r"], "count": 4, "made": "or"}
    for merge, before, after in zip(
        learned["merges"], learned["states"], learned["states"][1:], strict=False
    ):
        assert before["leading"][0]["pair"] == merge["pair"]
        assert after["tokens"] == before["tokens"] - merge["count"]  # no token meets itself in this line
    assert learned["states"][-1]["leading"] == []
    assert learned["states"][-1]["tokens"] == 12  # a token for each word and each sign


@pytest.mark.parametrize(
    ("text", "shown"),
    [("horse", "horse"), (" a\n", "␣a↵"), ("馬", "馬"), (b"\xe9\xa6", "‹e9›‹a6›"), (b"a\xff", "‹61›‹ff›")],
)
def test_tokens_are_legible(call, text, shown):
    token = "".join(LETTERS[byte] for byte in (text.encode() if isinstance(text, str) else text))
    assert call("byte_pairs", "spelled", token) == shown


def test_the_excerpt_is_whole_speeches_around_the_line():
    assert LINE in excerpt()
    assert 3000 < len(excerpt()) < 6000
    assert excerpt().isascii()
    assert excerpt().endswith("\n")


# --- what is seen ---------------------------------------------------------------------------------------------------


def pieces(w):
    w.settle()
    return w.root.locator(".gf-pieces .gf-piece").all_inner_texts()


def test_at_first_each_byte_is_a_token(mount):
    w = mount(BytePairStepper())
    assert pieces(w) == [c if c != " " else "␣" for c in LINE]
    merges, _ = library(excerpt(), 257)
    assert merges == [("Ġ", "t")]
    assert w.says.startswith(
        "No merge yet: each byte is a token. Your text: 41 bytes in 41 tokens, 1.00 bytes a token. "
        "Vocabulary: 256. Next: “␣” + “t”, "
    )


def test_merging_and_going_back_by_keyboard(mount):
    w = mount(BytePairStepper(learn_from="text"))
    merge = w.root.get_by_role("button", name="Merge")
    merge.press("Enter")
    assert w.says == (
        "Merge 1: “o” + “r” became “or”, 4 times in your text. Your text: 41 bytes in 37 tokens, 1.11 bytes a token. "
        "Vocabulary: 257. Next: “h” + “or”, 3 times in your text, as often as “s” + “e”; the lower ids go first."
    )
    assert w.root.locator(".gf-pieces .gf-piece-new").all_inner_texts() == ["or"] * 4
    merge.press(" ")
    w.settle()
    assert w.get("merges") == 2
    assert pieces(w).count("hor") == 3
    w.root.get_by_role("button", name="Back").press("Enter")
    w.root.get_by_role("button", name="Back").press("Enter")
    w.root.get_by_role("button", name="Back").press("Enter")
    assert w.get("merges") == 0
    w.press("Merges", "End")
    assert "No pair is left: each word is one token." in w.says
    assert pieces(w) == [
        "A",
        "␣horse",
        "!",
        "␣a",
        "␣horse",
        "!",
        "␣my",
        "␣kingdom",
        "␣for",
        "␣a",
        "␣horse",
        "!",
    ]
    assert w.saved()["merges"] == w.widget.merges == int(w.control("Merges").get_attribute("max"))


def test_the_slider_goes_where_the_library_goes(mount):
    w = mount(BytePairStepper(merges=60))
    _, tokenizer = library(excerpt(), 316)
    shown = [token.replace("Ġ", "␣") for token in in_letters(tokenizer, LINE)]
    assert pieces(w) == shown
    assert f"41 bytes in {len(shown)} tokens" in w.says
    made, tokens = w.tables()
    assert len(made) == 61
    assert made[-1][0] == "60"
    assert made[-1][-1] == "316"
    assert [row[1] for row in tokens[1:]] == shown
    assert sum(int(row[2]) for row in tokens[1:]) == 41
    assert w.label.startswith(f"{len(shown)} tokens after 60 merges: ")


def test_the_readers_own_text(mount):
    w = mount(BytePairStepper(merges=150))
    field = w.control("Your text (up to 200 characters)")
    field.fill("馬 é")
    assert "6 bytes in 6 tokens" in w.says
    assert pieces(w) == ["‹e9›", "‹a6›", "‹ac›", "␣", "‹c3›", "‹a9›"]
    field.fill("")
    assert "Your text is empty." in w.says
    assert pieces(w) == []
    w.press("your text", " ")
    assert "No pair is left" in w.says
    field.fill("banana")
    assert w.says.startswith("Merge 4: “ban” + “ana” became “banana”")  # as many as there are pairs for
    assert pieces(w) == ["banana"]
    assert w.saved()["text"] == "banana"
