"""Tests that commands, views and the one page take a model from a single file, and say in one line why they do not."""

import json
from pathlib import Path

import numpy as np
import pytest
from close import SINGLE, assert_close
from own_models import CHARACTERS, in_a_file, small
from traitlets import TraitError
from typer.testing import CliRunner

from glassformer import model_files, onepage, scratch, widgets
from glassformer.cli import app
from glassformer.widgets.engine.model import refusal, source_of

IDS = np.array([3, 1, 4, 1, 5, 9, 2, 6])


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output, result.exit_code


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_all_readers_compute_the_same(tmp_path, dtype):
    path = in_a_file(tmp_path, small(), dtype=dtype)
    model = source_of(path).model
    assert isinstance(model, scratch.Transformer)
    page = onepage.GPT(Path(path))
    assert page.alphabet == list(CHARACTERS)
    assert_close(page(IDS, [[] for _ in range(2)]), model(IDS), SINGLE)
    rounded = {name: values.astype(dtype) for name, values in small().named_parameters().items()}
    assert all((model.named_parameters()[name] == values).all() for name, values in rounded.items())


def test_the_machine_shows_it(tmp_path):
    path = in_a_file(tmp_path, small())
    machine = widgets.GlassMachine(path)
    assert machine.model == path
    assert machine._characters == CHARACTERS
    assert machine.part == "guess 2"


def test_messages_name_the_file_and_the_rule(tmp_path):
    missing = tmp_path / "no.safetensors"
    with pytest.raises(FileNotFoundError, match=r"no\.safetensors is missing"):
        model_files.load(missing)
    assert run("generate", missing)[0] == f"Error: {missing} is missing\n"
    alone = in_a_file(tmp_path, small(), format=None)
    output, status = run("generate", alone)
    assert (status, output.count("\n")) == (2, 1)
    assert output.startswith(f"Error: {alone} has weights alone")
    large = in_a_file(tmp_path, small(context_length=2_000_000))
    with pytest.raises(
        TraitError, match="cannot run in a page: with context_length=2000000, its keys and values need more"
    ):
        widgets.GlassMachine(large)


def test_a_model_that_needs_too_much_memory_is_refused_in_the_page():
    fields = {**dict(vars(small(context_length=10_000).config))}
    assert refusal(fields) is None
    assert "keys and values" in refusal(fields | {"context_length": 1_000_000})


def edited(path, change):
    """Writes the file again with another header."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + length])
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda header: json.dumps(json.loads(header) | {"__metadata__": None}).encode(),
            "has weights alone",
        ),
        (
            lambda header: header.replace(b"glassformer model 1", b"glassformer model 2"),
            "has the format 'glassformer model 2', which another version of Glassformer wrote: this one reads",
        ),
        (lambda header: b"  " + header, "is not a safetensors file: its header does not begin with {"),
    ],
    ids=["no metadata", "a later format", "a space before the header"],
)
def test_a_header_that_is_allowed_but_is_not_ours(tmp_path, change, said):
    path = Path(in_a_file(tmp_path, small()))
    edited(path, change)
    for command in ("generate", "params", "trace"):
        output, status = run(command, path)
        assert (status, output.startswith(f"Error: {path} {said}")) == (2, True), output


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "a pointer of Git LFS"),
        (b"<!doctype html><html></html>", "a web page"),
        (b"GGUF\x03\0\0\0\0\0\0\0", "a GGUF file"),
        (b"PK\x03\x04\x14\0\0\0\x08\0", "a zip archive"),
        (b"\x80\x02}q\0X\x01\0\0\0a", "a pickle"),
        (b"\x08\x07\x12\x07pytorch\0", "a file of ONNX"),
    ],
)
def test_what_a_file_is_in_truth_is_said(tmp_path, content, what):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    output, status = run("params", path)
    assert (status, output.startswith(f"Error: {path} is {what}")) == (2, True), output
