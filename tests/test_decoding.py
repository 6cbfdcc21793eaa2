"""Tests decoding one id at a time: no half characters, and in the end it is what `decode` gives."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from glassformer.decoding import REPLACEMENT, IncrementalDecoder
from glassformer.text import LONGEST_WORD, BytePairTokenizer, CharTokenizer, corpus

LLAMA = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
WORDS = ["▁the", "▁", "a", "##b", "▁▁", ".", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
BYTES = BytePairTokenizer.from_text("the\n", 256).tokenizer
DECODERS = {
    "bytes": decoders.ByteLevel(),
    "Llama": decoders.Sequence([*LLAMA, decoders.Strip(" ", 1, 0)]),
    "Gemma": decoders.Sequence(LLAMA),
    "words": decoders.Metaspace(),
    "pieces of words": decoders.WordPiece(),
    "ends of words": decoders.BPEDecoder("a"),
    "none": None,
}


def tokenizer(name):
    """Returns a tokenizer with that decoder, and a function from text to one id for each byte."""
    if name == "bytes":
        return BYTES, lambda text: BYTES.encode(text).ids
    made = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(WORDS)}, merges=[]))
    if DECODERS[name] is not None:
        made.decoder = DECODERS[name]
    made.add_special_tokens(["<s>"])
    return made, lambda text: [WORDS.index(f"<0x{byte:02X}>") for byte in text.encode()]


def pieces_of(made, ids):
    decoder = IncrementalDecoder(made.decode)
    return [decoder.push(i) for i in ids], decoder.finish()


@pytest.mark.parametrize("name", DECODERS)
def test_pieces_are_what_decode_gives_and_have_whole_characters(name):
    made, ids_of = tokenizer(name)
    generator = random.Random(0)
    for _ in range(50):
        parts = [[i] for i in range(7)] if name != "bytes" else [ids_of(" the")]
        parts += map(ids_of, ("🤗", "é", "日本\n", "a"))
        ids = [i for part in generator.choices(parts, k=generator.randrange(20)) for i in part]
        pieces, rest = pieces_of(made, ids)
        assert "".join(pieces) + rest == made.decode(ids)
        assert REPLACEMENT not in "".join(pieces)
        assert rest == ""


@pytest.mark.parametrize("name", ["bytes", "Llama"])
def test_broken_bytes_are_shown_when_something_follows_and_in_the_end(name):
    made, ids_of = tokenizer(name)
    broken = ids_of("🤗")[:2]
    letter = ids_of("a") if name == "bytes" else [WORDS.index("a")]
    pieces, rest = pieces_of(made, [*broken, *letter, *broken])
    assert (pieces[:2], pieces[2][-1], pieces[3:]) == (["", ""], "a", ["", ""])
    assert "".join(pieces) + rest == made.decode([*broken, *letter, *broken])


def test_a_text_that_contradicts_what_was_shown_follows_whole():
    decoder = IncrementalDecoder(lambda ids: "".join("xyz"[i] for i in ids).replace("xy", "!"))
    assert [decoder.push(0), decoder.push(1), decoder.finish()] == ["x", "", "\n!"]


@pytest.mark.parametrize("name", DECODERS)
def test_an_id_costs_the_same_however_long_the_text_is(name):
    made, ids_of = tokenizer(name)
    decoded = []
    decoder = IncrementalDecoder(lambda some: decoded.append(len(some)) or made.decode(some))
    ids = ids_of("🤗 a") * 100
    for i in ids:
        decoder.push(i)
    decoder.finish()
    assert sum(decoded) <= 20 * len(ids)


def test_the_books_own_tokenizers_decode_one_id_at_a_time():
    text = "Ay, é 日本 🤗\n\n\x00"
    for made in (BytePairTokenizer.from_text(corpus()[:20_000], 300), CharTokenizer.from_text(text)):
        pieces, rest = pieces_of(made, made.encode(text).tolist())
        assert ("".join(pieces), rest) == (text, "")


# Learning byte pairs


def test_a_text_without_spaces_is_learned_in_words_of_limited_length():
    """A word of n letters takes the library a time that grows with n². A text of one letter shows the length."""
    made = BytePairTokenizer.from_text("a" * 4096, 300)
    assert max(len(made.decode([i])) for i in range(256, made.vocab_size)) == LONGEST_WORD
    assert made.decode(made.encode("a" * 5000)) == "a" * 5000
    ordinary = corpus()[:50_000]
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    library.train_from_iterator(ordinary.splitlines(keepends=True), trainer)
    assert BytePairTokenizer.from_text(ordinary, 400).to_json() == library.to_str()
