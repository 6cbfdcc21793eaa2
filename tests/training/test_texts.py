"""Tests text files, and tokenizers that can be saved."""

import re

import pytest

from glassformer.text import BytePairTokenizer, CharTokenizer, corpus, read_text, tokenizer_from_json

TEXT = "Ein Löwe, 日本, 𝔊.\n" * 100


def written(path, content):
    path.write_bytes(content)
    return path


@pytest.fixture(params=[2**18, 3])
def piece(request, monkeypatch):
    """So many bytes are read at once, and nobody notices."""
    monkeypatch.setattr("glassformer.text.PART", request.param)


@pytest.mark.usefixtures("piece")
def test_text_comes_as_it_is(tmp_path):
    assert read_text(written(tmp_path / "a", TEXT.encode())) == TEXT
    assert read_text(str(tmp_path / "a")) == TEXT
    assert read_text(written(tmp_path / "a", b"\xef\xbb\xbf" + TEXT.encode())) == TEXT
    assert read_text(written(tmp_path / "a", TEXT.replace("\n", "\r\n").encode())) == TEXT
    assert read_text(written(tmp_path / "a", TEXT.replace("\n", "\r").encode())) == TEXT
    assert read_text(written(tmp_path / "a", b"ab")) == "ab"
    assert read_text(written(tmp_path / "a", "ab\r\n\ufeffc\n".encode())) == "ab\n\ufeffc\n"


BAD = {
    "empty": (b"", "is empty"),
    "binary": (b"\x7fELF\x02\x00" + b"x" * 2000, "is not text: byte 5 is 0"),
    "UTF-16": (TEXT.encode("utf-16"), "is in UTF-16, as its first two bytes show"),
    "Latin-1": (
        ("x" * 1500 + "ö" + "x" * 9).encode("latin-1"),
        r"is not in UTF-8: byte 1500 is 0xf6 \(invalid start byte\). If it is text in another encoding",
    ),
    "after a mark": (b"\xef\xbb\xbfab\xff" + b"x" * 2000, "is not in UTF-8: byte 5 is 0xff"),
    "cut off": (b"x" * 2000 + "é".encode()[:1], r"byte 2000 is 0xc3 \(unexpected end of data\)"),
}


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("case", BAD)
def test_what_is_no_text(tmp_path, case):
    content, message = BAD[case]
    path = written(tmp_path / "a file.txt", content)
    with pytest.raises(ValueError, match=message) as caught:
        read_text(path)
    assert str(path) in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.txt is missing"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(IsADirectoryError, match="is a folder, not a file"):
        read_text(tmp_path)


# Byte pairs


@pytest.fixture(scope="module")
def byte_pairs():
    return BytePairTokenizer.from_text(corpus()[:100_000], 300)


def test_by_hand():
    """In "ababab abab", the most frequent pair is a b, then ab ab."""
    tokenizer = BytePairTokenizer.from_text("ababab abab", 258)
    assert tokenizer.vocab_size == 258
    assert tokenizer.encode("abababa").tolist() == [257, 256, tokenizer.encode("a")[0]]
    assert [tokenizer.decode([i]) for i in (256, 257)] == ["ab", "abab"]


@pytest.mark.parametrize("text", ["", " ", "First Citizen:\n\n  x", "日本 é\x00\x07\U0001f600", "a\r\n\tb  "])
def test_any_text_survives(byte_pairs, text):
    assert byte_pairs.decode(byte_pairs.encode(text)) == text
    again = tokenizer_from_json(byte_pairs.to_json())
    assert isinstance(again, BytePairTokenizer)
    assert again.encode(text).tolist() == byte_pairs.encode(text).tolist()


def test_it_is_shorter_and_always_the_same(byte_pairs):
    text = corpus()[:5000]
    assert len(byte_pairs.encode(text)) < 0.8 * len(text)
    assert byte_pairs.vocab_size == 300
    assert byte_pairs.to_json() == BytePairTokenizer.from_text(corpus()[:100_000], 300).to_json()


def test_bytes_that_are_no_character(byte_pairs):
    assert byte_pairs.decode(byte_pairs.encode("é")[:1]) == "\N{REPLACEMENT CHARACTER}"
    assert byte_pairs.decode([]) == ""


def test_special_tokens_are_parts_of_their_own():
    end = "<|end|>"
    tokenizer = BytePairTokenizer.from_text(f"ab{end}" * 9, 300, [end, "<|user|>"])
    assert tokenizer.special_tokens == {end: 257, "<|user|>": 258}  # after the bytes and "ab", the only pair
    for each in (tokenizer, tokenizer_from_json(tokenizer.to_json())):
        assert each.encode(f" ab{end}").tolist() == [*tokenizer.encode(" "), 256, 257]
        assert each.decode([256, 257]) == f"ab{end}"
        assert each.special_tokens == tokenizer.special_tokens


def test_characters_survive():
    tokenizer = CharTokenizer('zé\n"日')
    again = tokenizer_from_json(tokenizer.to_json())
    assert isinstance(again, CharTokenizer)
    assert again.characters == tokenizer.characters


# On a few dozen a's it takes longer than the universe has existed.
NEVER_ENDS = (
    '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "normalizer": null, "decoder": {"type": "ByteLevel"},'
    ' "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": false}}'
)

# What is called: how the message goes
REFUSED = {
    "BytePairTokenizer.from_text('ab', 255)": "vocab_size=255 must be at least 256",
    "BytePairTokenizer.from_text('ab', 256, ['x'])": "vocab_size=256 must be at least 257",
    "BytePairTokenizer.from_text('ab', 300, ['x', 'x'])": "special_tokens[1]='x' occurs twice",
    "BytePairTokenizer.from_text('ab', 300, [''])": "special_tokens[0]='' is empty",
    "BytePairTokenizer.from_text('', 300)": "text='' is empty: there is nothing to learn from",
    "BytePairTokenizer.from_text('ab', 256).decode([256])": "ids[0]=256 is outside 0..255",
    "tokenizer_from_json('{')": "text is not JSON",
    "tokenizer_from_json('[]')": "text must be a JSON object",
    "tokenizer_from_json('{}')": "does not describe a tokenizer that this class wrote",
    "tokenizer_from_json(NEVER_ENDS)": "its pre_tokenizer.type is 'Split', not 'ByteLevel'",
    "CharTokenizer.from_json('{\"characters\": 3}')": "lacks the field 'characters'",
    'tokenizer_from_json(\'{"characters": ""}\')': "must have at least one character",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused(call):
    with pytest.raises(ValueError, match=re.escape(REFUSED[call])):
        eval(call)
