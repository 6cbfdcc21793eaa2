"""Tests documents from outside: which are read, and with which messages others are refused."""

import json
import os
import re
from pathlib import Path

import pytest

from glassformer import checkpoints, huggingface, model_files
from glassformer.text import read_text
from glassformer.untrusted_files import (
    BYTES,
    bytes_in,
    json_object,
    no_address,
    read_json,
    toml_tables,
)

NESTED = 100_000


def test_what_is_read(tmp_path):
    path = tmp_path / "a.json"
    for content in ('{"a": [1, {"b": 1e300}], "c": null}', '\ufeff{"a": [1, {"b": 1e300}], "c": null}'):
        path.write_text(content, encoding="utf-8")
        assert read_json(path) == {"a": [1, {"b": 1e300}], "c": None}
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_json(link) == read_json(path)


def test_numbers_and_depths_that_are_just_allowed():
    deep = "[" * 62 + "1" + "]" * 62
    assert json_object(f'{{"a": {deep}, "b": {10**308}, "c": -1.7e308}}', "x")["b"] == 10**308


JSON = {
    "no JSON": ('{"a": ', "x is not JSON: Expecting value"),
    "a list": ("[1, 2]", r"x must be a JSON object of fields, not \[1, 2\]"),
    "deep lists": ('{"a": ' + "[" * NESTED, "x is nested deeper than 64 objects or lists"),
    "deep objects": ('{"a":' * NESTED, "x is nested deeper than 64"),
    "deep, and whole": ('{"a": ' + "[" * 70 + "]" * 70 + "}", "x is nested deeper than 64"),
    "NaN": ('{"eps": NaN}', "x: eps=nan must be finite"),
    "infinite": ('{"rope": {"theta": [1, -Infinity]}}', r"x: rope\.theta\[1\]=-inf must be finite"),
    "too large a fraction": ('{"a": 1e999}', "x: a=inf must be finite"),
    "too large a whole": (json.dumps({"a": 10**400}), r"x: a=inf must be finite, at most 1\.8e\+308"),
    "larger by far": ('{"a": -' + "9" * 5000 + "}", "x: a=-inf must be finite"),
    "just too large": (json.dumps({"a": -(10**309)}), "x: a=-inf must be finite"),
    "a name that moves the cursor": ('{"a\\u001b[2J": NaN}', r"x: a\\x1b\[2J=nan must be finite"),
    "a long name": (
        json.dumps({"a" * 5000: 1e308}).replace("e+308", "e+999"),
        "x: a{50} … a{50}=inf must be",
    ),
}


@pytest.mark.parametrize("case", JSON)
def test_json_that_is_refused(case):
    text, message = JSON[case]
    with pytest.raises(ValueError, match=f"^{message}") as error:
        json_object(text, "x")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "a": 3}', '{"c": [{"a": 1, "a": 1}]}'])
def test_a_field_that_is_there_twice(text):
    with pytest.raises(ValueError, match=r"^x has the field 'a' twice in one object$"):
        json_object(text, "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "x is not TOML"),
        ("a = " + "[" * 10_000, "x is nested deeper than 64"),
        ("[a" + ".a" * 70 + "]", "x is nested deeper than 64"),
        ("[training]\nsteps = inf", r"x: training\.steps=inf must be finite"),
        ("steps = 1" + "0" * 400, "x: steps=inf must be finite"),
        ("steps = 1" + "0" * 5000, "x is not TOML: Exceeds the limit"),
        ("#" * (BYTES["TOML"] + 1), r"x has 16,385 characters, but at most 16,384 are allowed"),
    ],
)
def test_toml_that_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        toml_tables(text, "x")


def test_files_that_are_refused(tmp_path):
    path = tmp_path / "a.json"
    name = re.escape(str(path))
    with pytest.raises(FileNotFoundError, match=f"^{name} is missing$"):
        read_json(path)
    path.mkdir()
    with pytest.raises(IsADirectoryError, match=f"^{name} is a folder, not a file$"):
        read_json(path)
    path.rmdir()
    for content, message in {
        b"\xff\xfe{\0": "is in UTF-16",
        b'{"a": "\xe9"}': "is not in UTF-8: byte 7 is 0xe9",
        b'\xef\xbb\xbf{"a": "\xe9"}': "is not in UTF-8: byte 10 is 0xe9",
        b"{\0}": "is not text: byte 1 is 0",
        b"{}" + b" " * BYTES["JSON"]: "is larger than 16,777,216 bytes",
    }.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{name} {message}"):
            read_json(path)


@pytest.mark.parametrize(
    "reads",
    [read_json, read_text, model_files.load, checkpoints.load, huggingface.load],
)
def test_a_web_address_is_no_path_unless_something_here_is_named_so(tmp_path, monkeypatch, reads):
    monkeypatch.chdir(tmp_path)
    address = "https://example.org/openai/gpt2"
    with pytest.raises(
        FileNotFoundError, match=f"^{address} is a web address, from which nothing is downloaded"
    ):
        reads(Path(address) if reads is read_json else address)
    (tmp_path / "https:/example.org").mkdir(parents=True)
    (tmp_path / "https:/example.org/openai").write_text("{}")
    no_address("https://example.org/openai")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes among its files")
def test_what_never_ends_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        for reads in (read_json, bytes_in):
            with pytest.raises(ValueError, match=f"{name} is not a file: it is a pipe or a device"):
                reads(tmp_path / name)
