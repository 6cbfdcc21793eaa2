"""Tests texts of several files, and files of pairs."""

import re

import numpy as np
import pytest
from memory import peak
from tokenizers import AddedToken

from glassformer.text import BytePairTokenizer, CharTokenizer
from glassformer.train import own_files
from glassformer.train.own_files import OwnText, ids_of, read_pairs
from glassformer.train.recipe import DataConfig, Recipe

SMALL = """
[data]
length = 8
[model]
family = "encoder-decoder"
d_model = 8
n_layers = 1
n_heads = 2
[training]
steps = 1
batch_size = 2
"""


def content_of(*arguments):
    return "".join(OwnText(*arguments))


def test_several_files_come_in_order_and_each_on_a_new_line(tmp_path):
    for name, content in {
        "b.txt": "two",
        "a/z.txt": "one\r\n",
        "c.txt": "three\n",
        "no.md": "not this",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content.encode())
    a, b, c = (str(tmp_path / name) for name in ("a", "b.txt", "c.txt"))
    assert content_of(str(tmp_path)) == "one\ntwo\nthree\n"
    assert content_of([c, b]) == "three\ntwo"
    assert content_of([b, a, c]) == "two\none\nthree\n"
    assert content_of([b, a, b, c], "one\n") == "twoone\none\ntwoone\nthree\n"
    assert content_of(b) == content_of(b, "one\n") == "two"
    (tmp_path / "e.txt").write_text("e", encoding="utf-8")
    assert content_of([str(tmp_path / "e.txt")] * 2, "ee") == "eeee"
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty is a folder without a file that ends in \.txt"):
        content_of([b, str(tmp_path / "empty")])
    with pytest.raises(FileNotFoundError, match=r"d\.txt is missing"):
        content_of([b, str(tmp_path / "d.txt")])


WHITE = [*" \n\t\v\x1c\x85\xa0\u3000", "\r\n", "  ", "\n\n"]


def test_the_ids_of_the_parts_are_those_of_the_whole(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    some = [*WHITE, *"aé!1日\U0001f333", "'s", "the", "<e>"]
    text = "".join(rng.choice(some, 4000))
    (tmp_path / "a.txt").write_bytes(text.encode())
    monkeypatch.setattr("glassformer.text.PART", 16)
    parts, text = OwnText(str(tmp_path / "a.txt")), text.replace("\r\n", "\n")
    assert "".join(parts) == text
    assert len([*parts]) > 300
    byte_pairs = BytePairTokenizer.from_text(text, 400, ["<e>"])
    assert BytePairTokenizer.from_text(parts, 400, ["<e>"]).to_json() == byte_pairs.to_json()
    greedy = BytePairTokenizer.from_json(byte_pairs.to_json())
    greedy.tokenizer.add_special_tokens([AddedToken("the", rstrip=True)])
    for tokenizer in (CharTokenizer.from_text(text), byte_pairs, greedy):
        assert np.array_equal(ids_of(tokenizer, parts), tokenizer.encode(text))


def test_many_ids_are_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(own_files, "IN_MEMORY", 9)
    file, tokenizer = tmp_path / "run" / "ids.bin", CharTokenizer("abc ")
    assert ids_of(tokenizer, ["abc", " cba"], file).dtype == np.int64
    assert not file.exists()
    for parts in (["abc", " cba", " abc"], ["abc cb", "a abc"], ["abc cba abd"]):
        before = file.stat().st_ino if file.exists() else 0
        tokenizer = CharTokenizer("".join(sorted({*"".join(parts)})))
        ids = ids_of(tokenizer, parts, file)
        assert (ids.dtype, file.stat().st_size) == (np.uint8, 64 + 11)
        assert np.array_equal(ids, tokenizer.encode("".join(parts)))
        assert (file.stat().st_ino == before) == (parts[0] == "abc cb")  # the same text in other parts


def test_what_is_in_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    for name in (
        "glassformer.text.PART",
        "glassformer.tasks.AT_ONCE",
        "glassformer.train.own_files.IN_MEMORY",
    ):
        monkeypatch.setattr(name, 2**14)
    recipe = Recipe.from_toml(SMALL.replace("-decoder", ""))  # an encoder, which also draws from all ids
    size = 100_000
    (tmp_path / "a.txt").write_text("to be, or not to be\n" * size, encoding="utf-8")

    def checked():
        (tmp_path / "ids.bin").unlink(missing_ok=True)
        _, task, _ = recipe.made_for(OwnText(str(tmp_path / "a.txt")), ids_file=tmp_path / "ids.bin")
        task.checksum()

    assert peak(checked, at_most=10 * size) < 10 * size  # half of the text


def test_a_character_between_files_is_in_none_of_them(tmp_path):
    for name, content in {"a.txt": "one§", "b.txt": "t-wo", "c.txt": "§or\nso"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    a, b, c = (str(tmp_path / f"{name}.txt") for name in "abc")
    recipe = Recipe.from_toml(SMALL.replace("-decoder", ""), ["data.document_end=§", "data.length=2"])
    for texts in ([a, b], [c]):  # a single file has what is between its documents
        assert recipe.made_for(OwnText(texts, "§"))[0].characters[-1] == "§"
    for texts in ([c, b], [a, c]):
        with pytest.raises(ValueError, match=r"document_end='§' stands between files, but .*c\.txt has"):
            recipe.made_for(OwnText(texts, "§"))


PAIRS = [("ab", "BA"), ("é\u2028 ", ""), ('"c"', "C")]
TSV = 'ab\tBA\né\u2028 \t\n"c"\tC\n'
JSONL = '{"source": "ab", "target": "BA", "n": 1}\n{"target": "", "source": "é\u2028 "}\n'
JSONL += '{"source": "\\"c\\"", "target": "C"}'


@pytest.mark.parametrize(("name", "content"), [("a.tsv", TSV), ("a.jsonl", JSONL)])
def test_pairs_are_read_line_by_line(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_pairs(tmp_path / name) == PAIRS


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "a\tb\nab\n", "a.tsv, line 2 must have two columns with a tab between them"),
        ("a.tsv", "a\tb\tc\n", "source and target, but has 3"),
        ("a.tsv", "a\tb\n\tb\n", "line 2 has an empty source"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source": "a"}', "a.jsonl, line 2 needs the field 'target'"),
        ("a.jsonl", '{"source": 1, "target": "b"}', "line 1 needs the field 'source', a string"),
        ("a.jsonl", "[1]", "line 1 must be a JSON object"),
        ("a.jsonl", "{}\n\n", "line 1 needs the field 'source'"),
        ("a.csv", "a,b", "a.csv must end in .tsv or .jsonl"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_pair_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(said)):
        read_pairs(tmp_path / name)


def test_a_recipe_learns_from_a_file_of_pairs(tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_text("ab\tBA\nabc\tCBA\n" * 10, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    recipe = Recipe.from_toml(SMALL, ["data.pairs=a.tsv"]).with_whole_path()
    assert recipe.data.pairs == str(tmp_path / "a.tsv")
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    tokenizer, task, config = recipe.made_for("ignored")
    assert tokenizer.characters == "ABCabc"
    assert config.vocab_size == 8
    assert [tokenizer.decode(task.sources[i]) + tokenizer.decode(task.targets[i]) for i in (0, 1)] == [
        "abBA",
        "abcCBA",
    ]
    with pytest.raises(ValueError, match=r"a\.tsv, line 2 needs length=4, but length=3 in \[data\]"):
        Recipe.from_toml(SMALL, ["data.pairs=a.tsv", "data.length=3"]).made_for("")


def test_a_recipe_keeps_the_whole_paths_of_several_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Recipe.from_toml(SMALL, ['data.text=["a.txt", "b"]']).with_whole_path()
    assert recipe.data.text == [str(tmp_path / "a.txt"), str(tmp_path / "b")]
    assert Recipe.from_toml(recipe.to_toml()) == recipe


@pytest.mark.parametrize(
    ("text", "said"),
    [([], r"text=\[\] is empty"), (["a", ""], r"text=\['a', ''\] is empty"), (["a", 1], r"text\[1\]=1")],
)
def test_texts_that_name_nothing_are_refused(text, said, as_readers_run_it):
    with pytest.raises((ValueError, TypeError), match=said):
        DataConfig(text=text)
