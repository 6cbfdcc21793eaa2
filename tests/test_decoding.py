"""Tests decoding one id at a time: what is shown early never changes, and in the end it is what `decode` gives."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from glassformer.decoding import BYTES, CONTEXT, IncrementalDecoder
from glassformer.text import LONGEST_WORD, BytePairTokenizer, CharTokenizer, corpus

LETTERS = {byte: letter for letter, byte in BYTES.items()}
LLAMA = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
WORDS = ["▁the", "▁", "a", "##b", "▁▁", ".", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
DECODERS = {
    "bytes": decoders.ByteLevel(),
    "Llama": decoders.Sequence([*LLAMA, decoders.Strip(" ", 1, 0)]),
    "Gemma": decoders.Sequence(LLAMA),
    "words": decoders.Metaspace(),
    "pieces of words": decoders.WordPiece(),
    "ends of words": decoders.BPEDecoder("a"),
    "none": None,
    "across tokens": decoders.Sequence([decoders.Fuse(), decoders.Replace("aa", "c")]),
}


def tokenizer(name):
    """Returns a tokenizer with that decoder, and the ids that make the most of it."""
    words = [*LETTERS.values(), "<s>", "日本"] if name == "bytes" else WORDS
    made = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    if DECODERS[name] is not None:
        made.decoder = DECODERS[name]
    made.add_special_tokens(["<s>"])
    byte = LETTERS.get if name == "bytes" else "<0x{:02X}>".format
    some = [*"🤗€é".encode(), 0xED, 0xA0, 0xF4, 0x90, 0xFF, 0x0A, 0x20, 0x41]
    ids = [made.token_to_id(byte(one)) for one in some]
    return made, ids + [words.index("<s>")] + (
        [words.index("日本")] if name == "bytes" else [0, 1, 2, 3, 4, 5] * 3
    )


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_shown_stays_and_in_the_end_it_is_what_decode_gives(name):
    made, ids = tokenizer(name)
    generator, early = random.Random(0), 0
    for _ in range(150):
        text = generator.choices(ids, k=generator.randrange(40))
        decoder, shown = IncrementalDecoder(made, made.decode), ""
        for n, i in enumerate(text, start=1):
            shown += decoder.push(i)
            continued = text[:n] + generator.choices(ids, k=generator.randrange(6))
            assert made.decode(continued).startswith(shown), continued
        assert shown + decoder.finish() == made.decode(text), text
        early += len(shown)
    assert (early > 500) == (name != "across tokens")  # where that cannot be known, nothing is shown early


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("bytes", {0xF0: "", 0x9F: "", 0x0A: "�\n", 0xFF: "�", 0xC3: "", 0xA9: "é"}),
        (
            "Llama",
            {0xF0: "", 0x9F: "", 0x0A: "���", 0xFF: "�"},
        ),  # there, one broken byte breaks all beside it
    ],
)
def test_half_a_character_is_shown_as_soon_as_it_is_certainly_broken(name, pieces):
    made, _ = tokenizer(name)
    decoder = IncrementalDecoder(made, made.decode)
    byte = LETTERS.get if name == "bytes" else "<0x{:02X}>".format
    assert [decoder.push(made.token_to_id(byte(one))) for one in pieces] == list(pieces.values())


def test_a_space_that_the_end_takes_away_is_not_shown_before():
    made, _ = tokenizer("Llama")
    made.decoder = decoders.Sequence([*LLAMA, decoders.Strip(" ", 0, 1)])
    decoder = IncrementalDecoder(made, made.decode)
    assert [decoder.push(made.token_to_id(word)) for word in ("▁the", "▁")] == ["", ""]
    assert decoder.finish() == " the"


def test_a_text_that_contradicts_what_was_shown_follows_whole():
    made, _ = tokenizer("bytes")
    decoder = IncrementalDecoder(made, lambda ids: made.decode(ids).upper())
    assert decoder.push(made.token_to_id("a")) + decoder.finish() == "a\nA"


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("kind", ["any", "spaces", "characters of bytes", "broken bytes", "special"])
def test_an_id_costs_the_same_however_long_the_text_is(name, kind):
    made, ids = tokenizer(name)
    byte = LETTERS.get if name == "bytes" else "<0x{:02X}>".format
    only = {"spaces": [0x20], "characters of bytes": [*"🤗".encode()], "broken bytes": [0xFF]}
    n, decoded = 500, []
    text = [made.token_to_id(byte(one)) for one in only.get(kind, ())] * n or ids * n
    text = [made.token_to_id("<s>")] * n if kind == "special" else text[:n]
    decoder = IncrementalDecoder(made, lambda some: decoded.append(len(some)) or made.decode(some))
    for i in text:
        decoder.push(i)
    decoder.finish()
    assert sum(decoded) <= (2 * CONTEXT + 3) * n


def test_the_books_own_tokenizers_decode_one_id_at_a_time():
    text = "Ay, é 日本 🤗\n\n\x00"
    for made in (BytePairTokenizer.from_text(corpus()[:20_000], 300), CharTokenizer.from_text(text)):
        decoder = made.incremental()
        pieces = [decoder.push(i) for i in made.encode(text).tolist()]
        assert "".join(pieces) == text
        assert decoder.finish() == ""


# Learning byte pairs


def test_a_text_without_spaces_is_learned_in_words_of_limited_length():
    """A word of n letters takes the library a time that grows with n². A text of one letter shows the length."""
    made = BytePairTokenizer.from_text("a" * 4096, 300)
    assert max(len(made.decode([i])) for i in range(256, made.vocab_size)) == LONGEST_WORD
    assert made.decode(made.encode("a" * 5000)) == "a" * 5000
    ordinary = corpus()[:50_000]
    library = Tokenizer(models.BPE())
    library.pre_tokenizer, library.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(
        ordinary.splitlines(keepends=True),
        BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False),
    )
    assert BytePairTokenizer.from_text(ordinary, 400).to_json() == library.to_str()
