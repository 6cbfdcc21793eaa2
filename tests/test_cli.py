"""Tests the command line as users type it."""

import calendar
import contextlib
import errno
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from typer.testing import CliRunner

import glassformer
from glassformer import checkpoints, huggingface, pretrained, scratch
from glassformer.atomic_files import only_writer
from glassformer.cli import app
from glassformer.config import ModelConfig
from glassformer.dates import DatePair
from glassformer.huggingface import config_to_hf
from glassformer.published import PUBLISHED, published
from glassformer.text import CharTokenizer, corpus
from glassformer.train.recipe import PAIRS, Recipe

ROOT = Path(__file__).parents[1]


def run(*arguments):
    """Returns the output and the exit status; an error in our own code is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output, result.exit_code


def sets(*changes):
    return [part for change in changes for part in ("--set", change)]


SMALL = sets("model.d_model=8", "model.n_layers=1", "model.n_heads=2", "model.d_ff=12", "data.length=16")


def train(*options):
    return run("train", "--batch-size", 2, "--device", "cpu", *SMALL, *options)


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text("once upon a time there was a model that read a story. " * 40, encoding="utf-8")
    return path


def words(output):
    """Returns the output without the line breaks that depend on the width of the terminal."""
    return " ".join(output.split())


@pytest.mark.parametrize("name", PUBLISHED)
def test_params_prints_every_published_count(name):
    output, status = run("params", name)
    assert status == 0
    assert re.search(rf"^total +{published(name).n_parameters:,} ", output, re.M)
    assert published(name).source in output


def test_params_of_a_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(published("teaching-736").config.replace(d_model=8).to_json(), encoding="utf-8")
    output, status = run("params", path)
    assert status == 0
    assert re.search(r"^total +2,240 ", output, re.M)


def test_params_of_a_config_of_hugging_face(tmp_path):
    """The file itself, or a folder that holds nothing else."""
    config = published("llama-3.2-1b").config
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config_to_hf(config)), encoding="utf-8")
    for given in (path, tmp_path):
        output, status = run("params", given)
        assert status == 0
        assert re.search(r"^  all +1,235,814,400$", output, re.M)
        assert f"Our code runs {given}, in NumPy and in PyTorch." in words(output)
    path.write_text(json.dumps(config_to_hf(config) | {"new": 1}), encoding="utf-8")
    output, status = run("params", tmp_path)
    assert status == 0
    assert f"Our code runs {tmp_path} only without some of its keys: {path}: new=1 is not known" in words(
        output
    )
    path.write_text(json.dumps(config_to_hf(config) | {"head_dim": 63, "new": 1}), encoding="utf-8")
    output, status = run("params", tmp_path)
    assert status == 0
    assert "head_dim=63 is odd: sines and cosines come in pairs of dimensions" in words(output)
    assert re.search(r"^Keys that are not explained here\n  new\n", output, re.M)
    path.write_text(json.dumps(config_to_hf(config) | {"model_type": "none"}), encoding="utf-8")
    output, status = run("params", path)
    assert status == 0
    assert re.search(r"^Not counted\n  model_type='none' is not known here$", output, re.M)
    assert re.search(r"^  hidden_size +2,048  The residual stream has 2,048 numbers", output, re.M)
    path.write_text('{"text_config": {"model_type": "deepseek_v3"}, "vision_config": {}}', encoding="utf-8")
    output, status = run("params", path)
    assert status == 0
    assert re.search(r"^  all +671,026,404,352 \(36,625,610,752\)$", output, re.M)
    assert re.search(
        r"^  full_attention, in bfloat16 +7,027,200,000  70,272 for the next position$", output, re.M
    )
    assert f"Our code does not run this file: {path}: " in words(output)
    lacking = tmp_path / "lacking.json"
    lacking.write_text('{"model_type": "jamba"}', encoding="utf-8")
    output, status = run("params", lacking)
    assert status == 0
    assert re.search("^What our code lacks\n  experts: .*\n  the first version of Mamba: ", output, re.M)
    other = tmp_path / "other.json"
    other.write_text('{"model_type": "deepseek_v3", "kv_lora_rank": 256}', encoding="utf-8")
    output, status = run("params", path, other, "--positions", 1000)
    assert status == 0
    assert re.search("^  kv_lora_rank +–  256$", output, re.M)
    assert re.search(r"^  full_attention, in bfloat16 +70,272,000  39,040,000$", output, re.M)
    assert "num_attention_heads" not in output
    assert (
        "gpt2 is not a config.json, and only two such files can be compared" in run("params", path, "gpt2")[0]
    )
    path.write_text("[1]", encoding="utf-8")
    assert run("params", path)[1] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["params", "gpt2x"], "is not a known model. Did you mean 'gpt2'?"),
        (["params", "gpt5"], "llama-2-70b"),
        (["params", "no.json"], "no.json is missing"),
        (
            ["params", "meta-llama/no"],
            "meta-llama/no is neither a file or folder here nor one of shakespeare",
        ),
        (
            ["trace", "gpt2", "--length", "2000"],
            "--length 2000 must be at least 1 and at most context_length=1024",
        ),
        (["trace", "llama-2-70b"], "llama-2-70b has 257 GiB of weights"),
        (["trace", "gpt2", "--layers", "0"], "n_layers=0 must be at least 1"),
        (["trace", "gpt2", "--layers", "1" + "0" * 12], "GiB of weights in float32"),
        (["generate", "./nowhere"], "is neither a folder nor"),
        (["generate", "--beams", "0"], "--beams=0 must be at least 1"),
        (["generate", "--beams", 10**12], "--beams 1000000000000 needs"),
        (["generate", "--n-new", 10**12, "--slide"], "--n-new 1000000000000 needs"),
        (["generate", "--seed", "-1"], "--seed=-1 must be at least 0"),
        (["generate", "--repetition-penalty", "1e-308"], "repetition_penalty=1e-308 must be between"),
        (["generate", "--n-new", "200"], "context_length=128: --slide continues past it"),
        (["generate", "--prompt", ""], "--prompt '': the text is empty, and the model needs"),
        (["generate", "dates"], "dates needs a text to answer: give it one with --prompt"),
        (["generate", "--temprature", "1"], "No such option: --temprature"),
        (["generate", "--seed", "1.5"], "Invalid value for '--seed': '1.5': Input should be a valid integer"),
        (["evaluate", "masked"], "masked: family='encoder' must be 'decoder'"),
        (
            ["evaluate", "words", "--length", "65"],
            "--length 65 must be at most the model's context_length=64",
        ),
        (["evaluate", "words", "--stride", "65"], "--stride 65 must be at most the length of a window, 64"),
        (["evaluate", "words", "--stride", "0"], "--stride=0 must be at least 1"),
        (["evaluate", "words", "--text", "no.txt"], "no.txt is missing"),
        (["class", "no-such-folder"], "no-such-folder: No such file or directory"),
        (["class", ROOT / "book"], "book has no files of students: NAME.py, or NAME/my_transformer.py"),
        (["class", "src", "--seconds", "0"], "Invalid value for '--seconds': '0'"),
        (["class", "src", "--seconds", 10**30], "Invalid value for '--seconds': '1000"),
        (["class", "src", "--exercises", "src"], "exercises.toml: No such file or directory"),
        (["class", "src", "--csv", ""], "Invalid value for '--csv': '': it is empty"),
        (["class", "src", "--page", "https://example.org"], "https://example.org is a web address"),
        (["train"], "Missing argument 'FOLDER'"),
        (["pärams"], "No such command 'pärams'"),
        (["params", ""], "Invalid value for 'MODEL': it is empty: give a path or a name"),
        (["train", "none", "--text", ""], "Invalid value for '--text': '': it is empty"),
        (["train", "none", "--set", "data.text=''"], "text='' is empty: name a text file"),
    ],
)
def test_errors_say_what_is_wrong_in_one_line(arguments, said):
    output, status = run(*arguments)
    assert status == 2
    assert said in output
    assert (output[:7], output.count("\n")) == ("Error: ", 1)


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (
            "params HTTPS://huggingface.co/openai-community/gpt2",
            "a file or folder on this machine, or a model",
        ),
        ("generate hf://openai-community/gpt2", "a file or folder on this machine, or a model"),
        ("train file:///runs", "a file or folder on this machine"),
        ("train run --text www.example.org/mine.txt", "a file or folder on this machine"),
        ("train run --set data.text=https://example.org/mine.txt", "a file or folder on this machine"),
    ],
)
def test_a_web_address_is_called_one_and_nothing_is_downloaded(tmp_path, monkeypatch, command, instead):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked")
    )
    output, status = run(*command.split())
    address = command.split()[-1].removeprefix("data.text=")
    assert status == 2
    assert f"Error: {address} is a web address, from which nothing is downloaded: give {instead}" in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": "\xe9"}', "is not in UTF-8: byte 7 is 0xe9"),
        (b'{"a\\u001b\\nb": 1}', "model_type is missing"),
        (b'{"context_length": 1, "a\\u001b\\nb": 1}', "has no field"),
    ],
)
def test_params_of_a_file_that_is_none(tmp_path, content, said):
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    output, status = run("params", path)
    assert (status, said in output, output.count("\n")) == (2, True, 1), output
    assert str(path) in output
    assert output[:-1].isprintable()


def test_an_interruption_is_no_mistake(monkeypatch):
    def interrupt(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("glassformer.pretrained.published", interrupt)
    assert run("params", "gpt2") == ("", 130)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_what_cannot_be_printed_is_told():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "glassformer", "params", "gpt2"]
        finished = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (finished.returncode, finished.stderr) == (2, "Error: the output: No space left on device\n")


@pytest.mark.skipif(os.name != "posix", reason="no such shell")
@pytest.mark.parametrize(
    ("closed", "arguments", "status"),
    [(">&-", "params gpt2", 0), (">&- 2>&-", "generate --n-new 2", 0), (">&-", "params gpt2x", 2)],
)
def test_a_command_whose_output_is_closed(closed, arguments, status):
    command = f"{shlex.quote(sys.executable)} -m glassformer {arguments} {closed}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    lines = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout, len(lines)) == (status, "", int(status > 0))
    assert all(line.startswith("Error: ") for line in lines)


@pytest.mark.parametrize("room", ["scratch", "nn"])
def test_trace_lists_the_arrays_of_a_real_run(room):
    output, status = run("trace", "t5-small", "--layers", 1, "--length", 7, "--room", room)
    assert status == 0
    assert "B = 1, T = 7, D = 512, H = 8, K = 64, F = 2,048, V = 32,128" in output
    lines = [line.split("  ") for line in output.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert ["decoder: block 0", "attention", "q", "(1, 8, 7, 64)", "3,584"] in cells
    assert ["cross-attention", "q", "(1, 8, 7, 64)", "3,584"] in cells
    assert ["feed-forward", "neurons", "(1, 7, 2048)", "14,336"] in cells
    assert cells[-1] == ["logits", "(1, 7, 32128)", "224,896"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes a folder with an untrained GPT-2, and a tokenizer for bytes: é is two tokens, neither a whole character."""
    path = tmp_path_factory.mktemp("gpt2")
    config = ModelConfig(vocab_size=256, context_length=32, d_model=16, n_layers=1, n_heads=2)
    model = scratch.Transformer(config, generator=np.random.default_rng(0))
    for weight in model.named_parameters().values():
        weight *= 6  # lively enough that the draws differ
    huggingface.save(model, path)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def test_generate_continues_the_prompt_alike_in_both_rooms(folder):
    outputs = {
        (room, seed): run("generate", folder, "--prompt", "éa", "--n-new", 12, "--seed", seed, "--room", room)
        for room in ("scratch", "nn")
        for seed in (0, 1)
    }
    assert {status for _, status in outputs.values()} == {0}
    assert outputs["scratch", 0] == outputs["nn", 0] != outputs["scratch", 1] == outputs["nn", 1]
    assert all(output.startswith("éa") for output, _ in outputs.values())
    tokenizer = huggingface.tokenizer(folder)
    from glassformer.generate import generate

    prompt = np.array(tokenizer.encode("éa").ids)
    (ids,) = generate(huggingface.load(folder), prompt, 12, generator=np.random.default_rng(0))
    assert len(prompt) == 3
    assert outputs["scratch", 0][0] == tokenizer.decode(ids) + "\n"


@pytest.mark.skipif(os.name != "posix", reason="Windows has neither pipes nor links for everyone")
@pytest.mark.parametrize(
    ("put", "said"),
    [
        (getattr(os, "mkfifo", None), "model.safetensors is not a file: it is a pipe or a device"),
        (lambda path: path.symlink_to("nowhere"), "is a link to something that is missing"),
    ],
)
def test_what_has_the_name_of_a_models_file_but_is_none(folder, tmp_path, put, said):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.safetensors").unlink()
    put(tmp_path / "model.safetensors")
    output, status = run("generate", tmp_path, "--prompt", "a")
    assert (status, output.count("\n"), said in output) == (2, 1, True), output


def test_a_tokenizer_whose_regular_expression_has_tried_enough(folder, tmp_path):
    """Every `a` may begin another group: 2**50 ways to read fifty of them, of which the library tries ten million."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    tokenizer = huggingface.tokenizer(folder)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    output, status = run("generate", tmp_path, "--prompt", "a" * 50 + "!")
    assert status == 2
    assert f"{tmp_path}, tokenizer.json: Onig: Regex search error: retry-limit-in-match over" in output


def test_generate_takes_the_strategies(folder):
    def text(*options):
        output, status = run("generate", folder, "--prompt", "a", "--n-new", 9, *options)
        assert status == 0, output
        return output

    greedy = text("--temperature", 0)
    assert greedy == text("--top-k", 1) == text("--top-p", 0.000001) == text("--min-p", 1)
    assert greedy != text("--temperature", 0, "--repetition-penalty", 1e6)
    assert text("--beams", 3).startswith("a")


def test_beam_search_draws_nothing_and_says_so(folder):
    output, status = run(
        "generate", folder, "--beams", 3, "--temperature", 1, "--top-k", 5, "--seed", 0, "--slide"
    )
    assert status == 2
    assert "without drawing: leave out --temperature, --top-k, --seed, --slide" in words(output)


def test_without_a_model_it_is_shakespeare():
    output, status = run("generate", "--temperature", 0)
    assert (status, len(output)) == (0, 1 + 100 + 1)
    assert output == run("generate", "shakespeare", "--temperature", 0)[0]
    assert output != run("generate", "--temperature", 0, "--prompt", "ROMEO:")[0]
    # As much as there is room for, where nobody says how much
    output, status = run("generate", "--prompt", "to be or not to be " * 6)
    assert (status, len(output)) == (0, 128 + 1)
    output, status = run("generate", "--prompt", "to be or not to be " * 6, "--slide")
    assert (status, len(output)) == (0, 6 * 19 + 100 + 1)
    output, status = run("generate", "--prompt", "to be or not to be " * 7)
    assert (status, "context_length=128" in words(output)) == (2, True)


@pytest.mark.parametrize("room", ["scratch", "nn"])
def test_generate_reads_a_date(room):
    for options in ((), ("--temperature", 0), ("--beams", 3)):
        output = run("generate", "dates", "--prompt", "the 23rd of November, 1984", "--room", room, *options)
        assert output == ("1984-11-23\n", 0)
    output, status = run("generate", "dates", "--prompt", "23/11/1984")
    assert (status, "text[2]='/' is not one of" in words(output)) == (2, True)


@pytest.mark.parametrize("name", ["my run", "dates", "-run", "m.safetensors"])
def test_the_command_that_train_prints_opens_its_model(tmp_path, monkeypatch, story, name):
    monkeypatch.chdir(tmp_path)
    output, status = train("--text", story, "--steps", 1, "--", name)
    assert status == 0, output
    command = output.splitlines()[-1].removeprefix("to generate text: python -m glassformer ")
    output, status = run(*shlex.split(command), "--n-new", "3")
    assert (status, len(output), output[0]) == (0, 1 + 3 + 1, "o"), (command, output)
    if name == "dates":  # the book's own names come first; ./dates is the folder
        assert run("generate", name, "--prompt", "May 1, 2001") == ("2001-05-01\n", 0)


FEW = tuple(  # all 73,049 take seconds to be made and to become ids
    DatePair(f"{day} {calendar.month_name[month]} {year}", f"{year}-{month:02}-{day:02}", {})
    for year in range(1979, 1985)
    for month in range(1, 13)
    for day in range(1, 29)
)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("once\nupon a time " * 100, []),
        ("once upon a time " * 100, sets("data.tokenizer=bytepairs", "data.vocab_size=260")),
        ("\t--" * 400, []),
        (None, ["--recipe", "dates", *sets("data.length=32", "data.validation=0.001", "data.test=0.001")]),
    ],
    ids=["lines", "byte pairs", "a hyphen", "pairs"],
)
def test_the_command_that_train_prints_runs_whatever_was_learned(tmp_path, monkeypatch, text, options):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PAIRS, "dates", lambda: FEW)
    if text is not None:
        (tmp_path / "text").write_text(text, encoding="utf-8")
        options = [*options, "--text", "text"]
    output, status = train("run", "--steps", 1, *options)
    assert status == 0, output
    [command] = re.findall(r"^to generate text: python -m glassformer (.*)$", output, re.M)
    output, status = run(*shlex.split(command), "--n-new", "3")
    assert status == 0, (command, output)


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("run", "\x1b\x07" * 600, "utf-8"),
        ("run", "日本" * 600, "latin-1"),
    ],
)
def test_a_command_that_cannot_be_printed_as_it_is_is_not_suggested(tmp_path, name, text, encoding):
    (tmp_path / "text").write_text(text, encoding="utf-8")
    sizes = ("model.d_model=8", "model.n_layers=1", "model.n_heads=2", "model.d_ff=12", "data.length=16")
    options = ["--text", tmp_path / "text", "--steps", 1, "--device", "cpu"]
    options += [part for size in sizes for part in ("--set", size)]
    ended = CliRunner(charset=encoding).invoke(app, ["train", str(tmp_path / name), *map(str, options)])
    assert ended.exit_code == 0, ended.output
    assert "validation loss" in ended.output
    assert "to generate" not in ended.output


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    """Each as it is printed, but with few steps, on a short text and with a small model."""
    monkeypatch.chdir(tmp_path)
    few = corpus()[:20_000]
    monkeypatch.setattr("glassformer.text.corpus", lambda: few)
    (tmp_path / "mine.txt").write_text("to be, or not to be:\n" * 60, encoding="utf-8")
    (tmp_path / "mine.tsv").write_text("to be\tor not\n" * 60, encoding="utf-8")
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "ada.py").write_text("", encoding="utf-8")
    (tmp_path / "letters").mkdir()
    for name in "ab":
        (tmp_path / "letters" / f"{name}.txt").write_text("to be, or not to be:\n" * 60, encoding="utf-8")
    found = [
        command
        for path in ("README.md", "src/glassformer/train/README.md", "book/models.md")
        for command in re.findall(
            r"^[\w./]*python -m glassformer (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.M
        )
    ]
    assert len(found) >= 12
    for command in found:
        [name, *arguments] = shlex.split(command, comments=True)
        folder = next((word for word in arguments if word.startswith("runs/")), "runs/first")
        folder = "class" if name == "class" else folder
        arguments = [folder if word == "FOLDER" else word for word in arguments]
        if "--resume" in arguments:  # the run that an earlier command has begun
            arguments += ["--steps", 2]
        elif name == "train":
            shutil.rmtree(folder, ignore_errors=True)
            sizes = ["data.length=16", "data.validation=0.02", "data.test=0.02"]
            small = ["model.d_model=8", "model.d_ff=8"] if "model.d_model=256" not in arguments else []
            sizes += [] if "--from" in arguments else ["model.n_layers=1", *small]
            arguments += ["--steps", 1, "--device", "cpu", *sets(*sizes)]
        elif name == "generate":
            arguments += ["--n-new", 8]
        output, status = run(name, *arguments)
        assert status == 0, (command, output)


def test_without_a_prompt_and_without_line_breaks_nobody_is_blamed_for_one(tmp_path, story):
    assert train(tmp_path / "run", "--text", story, "--steps", 1)[1] == 0
    output, status = run("generate", tmp_path / "run")
    assert status == 2
    assert output == (
        f"Error: {tmp_path / 'run'} has no line break to begin a text with: give it a beginning with --prompt\n"
    )
    long = "once upon a time? " * 1000
    output, status = run("generate", tmp_path / "run", "--prompt", long)
    assert (status, "text[16]='?' is not one of" in words(output)) == (2, True), output


def untrained(folder, characters, **choices):
    """Saves a model of these characters."""
    config = published("teaching-736").config.replace(vocab_size=len(characters), **choices)
    model = scratch.Transformer(config, generator=np.random.default_rng(0))
    checkpoint = checkpoints.Checkpoint(
        step=1, model_config=config, training={}, tokens=0, weights=dict(model.named_parameters()), optimizer={},
        tokenizer=CharTokenizer(characters).to_json(),
    )  # fmt: skip
    checkpoints.save(folder, checkpoint)


def test_too_many_tokens_are_named_as_what_they_are(tmp_path):
    """A model with a huge context, for which the number alone decides."""
    untrained(tmp_path, "abcd", context_length=10**9, positions="none")
    output, status = run("generate", tmp_path, "--prompt", "a", "--n-new", 500_000_000)
    assert (status, output.startswith("Error: --n-new 500000000 needs at least")) == (2, True), output


ESCAPES = "\x1b[2J\x1b]0;OWNED\x07\x9b31m\u202e"


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudoterminal")
def test_a_terminal_gets_no_control_characters_and_a_pipe_gets_the_text(tmp_path):
    """A model whose characters are those of escape sequences continues them; a file is written as it is."""
    import pty

    untrained(tmp_path, "".join(dict.fromkeys(ESCAPES + "ab\n\t")))
    command = [sys.executable, "-m", "glassformer", "generate", str(tmp_path), "--prompt", f"a\t{ESCAPES}\nb"]
    piped = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    assert piped.startswith(f"a\t{ESCAPES}\nb")
    mine, its = pty.openpty()
    process = subprocess.Popen([*command, "--n-new", "20"], stdout=its, stderr=its)
    os.close(its)
    seen = b""
    with contextlib.suppress(OSError):  # Linux says so when the other end is closed
        while part := os.read(mine, 4096):
            seen += part
    os.close(mine)
    assert process.wait() == 0
    shown = seen.decode().replace("\r\n", "\n")
    assert shown.startswith("a\t\\x1b[2J\\x1b]0;OWNED\\x07\\x9b31m\\u202e\nb")
    assert all(letter.isprintable() or letter in "\n\t" for letter in shown)


def test_the_module_runs_and_says_what_it_can_do():
    finished = subprocess.run([sys.executable, "-m", "glassformer"], capture_output=True, text=True)
    assert finished.stdout.startswith("Usage: python -m glassformer [OPTIONS] COMMAND")
    for command in ("params", "trace", "generate", "train"):
        assert re.search(f"^  {command} ", finished.stdout, re.M)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_it_tells_its_version():
    assert run("--version") == (f"glassformer {glassformer.__version__}\n", 0)


def test_the_command_that_is_installed_is_the_module_and_type_checkers_find_the_marker():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [(name, place)] = project["project"]["scripts"].items()
    assert name == "glassformer"
    assert EntryPoint(name, place, "console_scripts").load() is app
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["glassformer"]
    assert (ROOT / "src/glassformer/py.typed").read_bytes() == b""


def test_train_keeps_the_run_and_generate_writes_with_it(tmp_path, story, monkeypatch):
    output, status = train(tmp_path / "run", "--text", story, "--steps", 4, "--sample-every", 2)
    assert status == 0, output
    trained = output
    assert "steps = 4" in output
    assert re.search(r"^total +[\d,]+ ", output, re.M)
    assert re.search(r"validation loss \d\.\d{4}, test loss \d\.\d{4}$", output, re.M)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "recipe.toml",
        "log.jsonl",
        "step-00000004",
    }
    for room in ("scratch", "nn"):
        output, status = run("generate", tmp_path / "run", "--prompt", "once", "--n-new", 9, "--room", room)
        assert (status, len(output)) == (0, len("once") + 9 + 1)
    read = []
    monkeypatch.setattr(
        checkpoints, "checked_bytes", lambda path, _: read.append(path.name) or path.read_bytes()
    )
    assert run("generate", tmp_path / "run", "--prompt", "once", "--n-new", 9)[1] == 0
    assert sorted(read) == ["model.safetensors", "optimizer.safetensors", "tokenizer.json"]  # each once
    output, status = run("generate", tmp_path / "run", "--prompt", "ONCE")
    assert (status, "text[0]='O' is not one of" in words(output)) == (2, True)
    assert "to generate text: python -m glassformer generate" in trained
    assert trained.rstrip().endswith("--prompt o")  # there is no new line in this text, from which to go on


@pytest.mark.parametrize(("test", "part"), [(0.1, "test"), (0.0, "validation")])
def test_evaluate_measures_what_a_run_was_not_trained_on(tmp_path, test, part):
    """With windows that do not overlap, it is the loss of the log; the parts of this text differ."""
    folder, story = tmp_path / "run", tmp_path / "story.txt"
    story.write_text("once upon a time... " * 80 + "a" * 200 + "xyzw" * 50, encoding="utf-8")
    changes = sets("data.validation=0.1", f"data.test={test}")
    output, status = train(folder, "--text", story, "--steps", 1, *changes)
    assert status == 0
    loss = float(re.search(rf"{part} loss (\d\.\d+)", output)[1])
    for room in ("scratch", "nn"):
        output, status = run("evaluate", folder, "--stride", 16, "--room", room)
        assert status == 0
        said = f"{folder} on the {part} part, 0.1 of its text, on which it was not trained\n\ntokens "
        assert output.startswith(said)
        found = re.search(r"^loss +(\S+) nats per token \(standard error 0\.\d+\)$", output, re.M)
        assert float(found[1]) == pytest.approx(loss, abs=1.1e-4)
        found = re.search(r"^bits per byte +(\S+)$", output, re.M)
        assert float(found[1]) == pytest.approx(loss / math.log(2), abs=3e-4)


def test_a_tiny_text_can_be_overfitted_on_purpose(tmp_path):
    text = tmp_path / "tiny.txt"
    text.write_text("How vexingly quick daft zebras jump!", encoding="utf-8")
    nothing_held_out = sets("data.validation=0", "data.test=0", "training.warmup=0")
    output, status = train(
        tmp_path / "run", "--text", text, "--steps", 60, "--learning-rate", 0.05, *nothing_held_out
    )
    assert status == 0
    found = re.search(
        r"^no validation loss, because data.validation=0 .*; the last step's loss is (.*)$", output, re.M
    )
    assert float(found[1]) < 1.5  # the frequencies of its letters alone give 3.1
    output, status = run("evaluate", tmp_path / "run")
    assert (status, "was trained on all of its text: name another one with --text" in words(output)) == (
        2,
        True,
    )
    output, status = train(
        tmp_path / "tested", "--text", text, "--steps", 1, *sets("data.validation=0", "data.test=0.1")
    )
    assert (status, bool(re.search(r"test loss \d", output))) == (0, True)


def test_evaluate_measures_a_text_and_names_what_is_wrong_with_it(tmp_path, folder):
    text = tmp_path / "mine.txt"
    text.write_text("to be or not to be", encoding="utf-8")
    output, status = run("evaluate", "shakespeare", "--text", text)
    assert status == 0
    assert output.startswith(f"shakespeare on {text}\n")
    assert "\nbytes          17\n" in output
    assert "(one window, so no standard error)" in output
    output, status = run("evaluate", folder)
    assert (
        status,
        "does not say which text it was not trained on: name one with --text" in words(output),
    ) == (2, True)
    assert run("evaluate", folder, "--text", text)[1] == 0
    text.write_text("to bé", encoding="utf-8")
    output, status = run("evaluate", "shakespeare", "--text", text)
    assert (status, f"{text}: text[4]='é' is not one of the 65 characters" in words(output)) == (2, True)


def test_train_warns_of_sinusoids_that_drown_the_token_vectors(tmp_path, story):
    output, status = train(
        tmp_path / "run", "--text", story, "--steps", 1, "--set", "model.positions=sinusoidal"
    )
    assert status == 0
    assert "warning: embedding_scale=1 makes token vectors of size 0.02, and the sinusoids" in words(output)


def test_what_learned_from_pairs_answers(tmp_path, monkeypatch):
    monkeypatch.setitem(PAIRS, "dates", lambda: FEW)
    changes = (
        "model.d_model=8",
        "model.n_heads=2",
        "model.d_ff=8",
        "data.validation=0.001",
        "data.test=0.001",
    )
    output, status = run("train", tmp_path / "run", "--recipe", "dates", "--steps", 2, *sets(*changes))
    assert status == 0, output
    prompt = ("--prompt", "23 November 1984")
    outputs = {run("generate", tmp_path / "run", *prompt, "--room", room) for room in ("scratch", "nn")}
    [(output, status)] = outputs
    assert status == 0
    assert prompt[1] not in output


def test_train_learns_from_the_readers_own_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.tsv").write_text("ab\tBA\nabc\tCBA\n" * 20, encoding="utf-8")
    pairs = sets("model.family=encoder-decoder", "data.pairs=own.tsv", "training.sample_every=0")
    output, status = train("run", "--steps", 1, *pairs)
    assert (status, "validation loss" in output) == (0, True), output
    monkeypatch.chdir("run")
    assert train(".", "--steps", 1, "--resume")[1] == 0  # from another folder
    output, status = run("generate", ".", "--prompt", "cab", "--n-new", 3)
    assert status == 0, output
    output, status = train("other", *sets("model.family=encoder-decoder", "data.pairs=no.tsv"))
    assert (status, "no.tsv is missing" in words(output)) == (2, True)


def test_train_learns_from_a_folder_of_texts(tmp_path):
    (tmp_path / "texts").mkdir()
    for name, letters in (("a", "to be or not to be. "), ("b", "that is the question? ")):
        (tmp_path / "texts" / f"{name}.txt").write_text(letters * 20, encoding="utf-8")
    assert train(tmp_path / "run", "--text", tmp_path / "texts", "--steps", 1)[1] == 0
    assert set("?.\n") < set(json.loads(checkpoints.load(tmp_path / "run").tokenizer)["characters"])
    output, status = train(tmp_path / "other", "--text", tmp_path / "run")
    assert (status, "is a folder without a file that ends in .txt" in words(output)) == (2, True)


def test_documents_end_where_the_recipe_says(tmp_path):
    (tmp_path / "texts").mkdir()
    for i in range(20):
        (tmp_path / "texts" / f"{i}.txt").write_text(f"the {'very ' * i}end", encoding="utf-8")
    end = sets(
        "data.document_end=<|end|>", "data.tokenizer=bytepairs", "data.vocab_size=300", "data.validation=0.4"
    )
    output, status = train(
        tmp_path / "run", "--recipe", "portable", "--text", tmp_path / "texts", "--steps", 2, *end
    )
    assert status == 0, output
    opened = pretrained.load(tmp_path / "run")
    [stop] = opened.stop_ids
    assert opened.encode("the end<|end|>the").tolist().count(stop) == 1
    assert opened.decode(opened.encode("the end<|end|>the")) == "the endthe"
    loss = float(re.search(r"test loss (\d\.\d+)", output)[1])
    found = re.search(r"^loss +(\S+) nats", run("evaluate", tmp_path / "run", "--stride", 16)[0], re.M)
    assert float(found[1]) == pytest.approx(loss, abs=1.1e-4)  # with the ends of documents
    huggingface.save(opened.model, tmp_path / "saved", tokenizer=opened.tokenizer)
    again = pretrained.load(tmp_path / "saved")
    assert (again.stop_ids, again.decode([stop])) == ([stop], "")
    settings = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    assert settings["eos_token"] == "<|end|>"
    huggingface.save(opened.model, tmp_path / "saved", tokenizer=opened.tokenizer, stop_ids=[3, 5])
    assert pretrained.load(tmp_path / "saved").stop_ids == [3, 5]
    with pytest.raises(ValueError, match=r"stop_ids\[0\]=999 is outside 0"):
        huggingface.save(opened.model, tmp_path / "saved", stop_ids=[999])


def test_a_run_whose_ids_are_in_a_file_is_the_same_and_goes_on(tmp_path, story, monkeypatch):
    def trained(name):
        assert train(tmp_path / name, "--text", story, "--steps", 2, *sets("data.validation=0.1"))[1] == 0
        described = json.loads((checkpoints.latest(tmp_path / name) / "training.json").read_text())
        return described["task"], described["files"]

    plain = trained("plain")
    monkeypatch.setattr("glassformer.train.own_files.IN_MEMORY", 500)
    monkeypatch.setattr("glassformer.text.PART", 100)
    assert trained("run") == plain
    said, wanted = (run("evaluate", tmp_path / name)[0].partition(" on ")[2] for name in ("run", "plain"))
    assert said == wanted
    assert "\nbits per byte " in said
    file = tmp_path / "run" / "ids.bin"
    written = file.stat().st_ino
    assert train(tmp_path / "run", "--resume", "--steps", 4)[1] == 0
    assert file.stat().st_ino == written
    whole = file.read_bytes()
    file.write_bytes(whole[:99] + b"!" + whole[100:])
    assert train(tmp_path / "run", "--resume", "--steps", 6)[1] == 0
    assert file.read_bytes() == whole  # a damaged file is made again


def test_train_goes_on_only_if_asked(tmp_path, story):
    folder = tmp_path / "run"
    assert train(folder, "--text", story, "--steps", 3, "--seed", 5)[1] == 0
    output, status = train(folder, "--text", story, "--steps", 3, "--seed", 5)
    assert status == 2
    assert "resume" in output
    # Its own recipe is what goes on, whatever --recipe would say.
    # So is its own text, which nobody has to name again.
    recipe = (folder / "recipe.toml").read_text(encoding="utf-8")
    (folder / "log.jsonl").unlink()  # which it does not need
    output, status = run("train", folder, "--resume")
    assert status == 0, output
    assert "seed = 5" in output
    assert f'text = "{story}"' in output
    assert (folder / "recipe.toml").read_text(encoding="utf-8") == recipe


def test_train_does_not_go_on_with_another_text(tmp_path, story):
    folder, other = tmp_path / "run", tmp_path / "other.txt"
    assert train(folder, "--text", story, "--steps", 3)[1] == 0
    # As many characters, but not the same: the model would fit, and every id mean something else.
    other.write_text(story.read_text(encoding="utf-8").replace("o", "0"), encoding="utf-8")
    output, status = run("train", folder, "--text", other, "--resume")
    assert (status, "its tokenizer differs" in words(output)) == (2, True), output


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_run_that_a_signal_stops_is_saved_and_ends_with_its_status(tmp_path, story, monkeypatch, name):
    number = getattr(signal, name, None)
    if number is None:
        pytest.skip("Windows has no such signal")

    def stops(tokenizer, begins):
        return lambda model: signal.raise_signal(number) or "once"

    monkeypatch.setattr("glassformer.train.continuing", stops)
    before = signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
    try:
        output, status = train(tmp_path / "run", "--text", story, "--steps", 4, "--sample-every", 2)
    finally:
        signal.signal(number, before)
    assert (status, "Stopped after step 2 of 4" in output, "to generate" in output) == (
        128 + number,
        True,
        False,
    )
    assert checkpoints.latest(tmp_path / "run").name == "step-00000002"


def test_to_go_on_there_must_be_a_run(tmp_path, story):
    output, status = train(tmp_path / "mistyped", "--text", story, "--resume")
    assert (status, "has no run to continue" in output) == (2, True), output
    assert not (tmp_path / "mistyped").exists()


def test_the_readers_own_recipe_is_never_written_over(tmp_path, story):
    folder = tmp_path / "run"
    assert train(folder, "--text", story, "--steps", 1)[1] == 0
    own = f"# why I chose this\n{(folder / 'recipe.toml').read_text(encoding='utf-8')}"
    (tmp_path / "own").mkdir()
    recipe = tmp_path / "own" / "recipe.toml"
    recipe.write_text(own, encoding="utf-8")
    output, status = run("train", recipe.parent, "--recipe", recipe, "--steps", 2)
    assert (status, "recipe.toml already exists with another recipe" in output) == (2, True), output
    assert recipe.read_text(encoding="utf-8") == own
    assert checkpoints.latest(recipe.parent) is None
    output, status = run("train", recipe.parent, "--recipe", recipe)
    assert status == 0, output
    assert recipe.read_text(encoding="utf-8") == own


def test_a_run_that_diverged_before_its_first_checkpoint_can_begin_again(tmp_path, story):
    """The message that refuses another recipe tells how, and what it tells works."""
    folder = tmp_path / "run"
    recipe = folder / "recipe.toml"
    output, status = train(folder, "--text", story, "--steps", 4, "--learning-rate", "1e30")
    assert (status, "diverged" in output, checkpoints.latest(folder)) == (2, True, None), output
    output, status = train(folder, "--text", story, "--steps", 4, "--learning-rate", "1e-3")
    assert (status, "write the changes into that file and begin with --resume" in output) == (2, True), output
    written = recipe.read_text(encoding="utf-8")
    assert written.count("learning_rate = 1e+30") == 1
    recipe.write_text(
        written.replace("learning_rate = 1e+30", "learning_rate = 1e-3  # it diverged"), encoding="utf-8"
    )
    for _ in range(2):  # and goes on later
        output, status = run("train", folder, "--resume")
        assert status == 0, output
    assert "# it diverged" in recipe.read_text(encoding="utf-8")
    log = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in log] == [1, 2, 3, 4]


def test_a_run_goes_on_from_another_folder(tmp_path, story, monkeypatch):
    """Its text has a relative path, with characters that TOML escapes."""
    begin = tmp_path / 'a "𝔊"'
    begin.mkdir()
    shutil.copy(story, begin / "mine.txt")
    recipe = Recipe.of_the_book("modern", ["data.text=mine.txt"]).to_toml()
    (begin / "my.toml").write_text(f"\ufeff{recipe}", encoding="utf-8")
    monkeypatch.chdir(begin)
    output, status = train(tmp_path / "run", "--recipe", "my.toml", "--steps", 1)
    assert status == 0, output
    monkeypatch.chdir(tmp_path)
    output, status = run("train", "run", "--resume")
    assert status == 0, output
    assert f'text = "{begin / "mine.txt"}"'.replace('"𝔊"', '\\"𝔊\\"') in output


def test_a_disk_that_fills_up_is_told_by_name(tmp_path, story, monkeypatch):
    def full(folder, checkpoint):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints, "save", full)
    output, status = train(tmp_path / "run", "--text", story, "--steps", 1)
    assert (status, output.splitlines()[-1]) == (2, f"Error: {tmp_path / 'run'}: No space left on device")


def test_two_runs_do_not_share_a_folder(tmp_path, story):
    held, free = threading.Event(), threading.Event()

    def first():
        with only_writer(tmp_path / "run"):
            held.set()
            free.wait(60)

    other = threading.Thread(target=first)
    other.start()
    held.wait(60)
    output, status = train(tmp_path / "run", "--text", story, "--steps", 1)
    free.set()
    other.join()
    assert (status, f"{tmp_path / 'run'} is in use by another run" in output) == (2, True), output
    assert list((tmp_path / "run").iterdir()) == []


def test_what_two_processes_cannot_share_is_told_before_anything_is_written(tmp_path, story, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    output, status = train(tmp_path / "run", "--text", story, "--steps", 1)
    assert (status, "batch_size=2 is not divisible by processes·accumulation=3" in output) == (2, True), (
        output
    )
    assert not (tmp_path / "run").exists()


def test_output_that_the_terminal_has_no_letters_for_is_printed_without_them():
    """Windows encodes what is written to a file or a pipe in a code page of 256 characters."""
    command = [sys.executable, "-m", "glassformer", "params", "gpt2"]
    ended = subprocess.run(
        command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "cp1252"}, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"124,439,808" in ended.stdout


def test_a_model_that_has_learned_nothing_is_named(tmp_path, story):
    output, status = train(tmp_path / "run", "--text", story, "--steps", 4, "--learning-rate", "100")
    assert status == 0
    assert "warning: the model has learned nothing: equal probabilities for all" in output
    fits = sets("model.attention_scale=1.2")  # 2.4/√d_head, as the recipe has it for wider heads
    output, status = train(tmp_path / "other", "--text", story, "--steps", 40, *fits)
    assert (status, "warning" in output) == (0, False), output


def test_a_wrong_flag_is_refused_before_pytorch_is_imported(tmp_path):
    program = (
        "import sys\nfrom glassformer.cli import app\n"
        f"try: app(['train', {str(tmp_path / 'run')!r}, '--steps', '0'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("False\n", "Error: steps=0 must be at least 1\n")


def test_sizes_are_compared_with_the_memory_before_anything_is_made(tmp_path, story, monkeypatch):
    monkeypatch.setattr("glassformer._checks.ram.ram", lambda: 2**33)
    for options, said in (
        (["--batch-size", 10**9], "batch_size=1000000000 needs at least"),
        (["--batch-size", 10**7], "batch_size=10000000 in pieces of 10000000 needs"),
        (["--set", "model.n_layers=1000000000"], "parameters needs at least 20,"),
        (
            ["--set", "model.n_layers=1" + "0" * 18],
            " parameters needs at least a billion GiB of memory",
        ),
        (
            sets("data.tokenizer=bytepairs", "data.vocab_size=1000000000"),
            None,
        ),  # of so few pairs
    ):
        output, status = train(tmp_path / "run", "--text", story, "--steps", 1, *options)
        if said is None:
            assert status == 0, output
        else:
            assert (status, said in output, (tmp_path / "run").exists()) == (2, True, False), output
    monkeypatch.setattr("glassformer._checks.ram.ram", lambda: 500)
    output, status = train(tmp_path / "other", "--text", story)
    assert (status, "needs at least 0.0 GiB of memory" in output) == (2, True), output


def test_train_refuses_what_it_cannot_use(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("too short", encoding="utf-8")
    one_letter = tmp_path / "one-letter.txt"
    one_letter.write_text("a" * 2000, encoding="utf-8")
    for options, said in (
        (
            ["--text", path],
            "validation=0.05 with test=0.05 leaves a part of the 9 ids empty",
        ),
        (
            ["--recipe", "classic"],
            "Error: --recipe classic is neither a file nor one of the book's recipes, modern, baseline",
        ),
        (
            ["--set", "data.validation=2"],
            "Error: validation=2 with test=0.05 leaves a part of the 1115394 ids empty",
        ),
        (["--set", "training.betas=[nan, 1.0]"], "betas=[nan, 1.0]: value[0]=nan must be finite"),
        (["--set", "model.d_modle=3"], "did you mean 'd_model'"),
        (["--device", "gpu"], "device='gpu' is not a device"),
        (
            ["--text", "/dev/zero"],
            "/dev/zero is " + ("not a file" if os.path.exists("/dev/zero") else "missing"),
        ),
        (["--learning-rate", "1e308"], "learning_rate=1e+308 must be at most 1e+30"),
        (["--set", "model.d_model=16\nn_layers=5"], "is not a change: it has a line break"),
        (["--set", "model.d_model=" + "9" * 20_000], "d_model=10**40 or more must be at most"),
        (["--text", one_letter], "the text consists of 'a' alone, so there is nothing to predict"),
        (["--set", "model.feedforward=[]"], "feedforward=[] is not one of"),
    ):
        output, status = run("train", tmp_path / "run", *options)
        assert (status, said in words(output)) == (2, True), output
    assert not (tmp_path / "run").exists()
    output, status = run("train", path)
    assert (status, "short.txt is a file, but a run needs a folder" in output) == (2, True)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    output, status = run("train", tmp_path / "loop")
    assert (status, "loop is a link to something that is missing, but a run" in output) == (2, True)


# Beginning with a model that exists


@pytest.fixture(scope="module")
def base(tmp_path_factory, story):
    """Returns the folder of a run that ended, of a model whose `zero_init` would be seen."""
    folder = tmp_path_factory.mktemp("base") / "run"
    output, status = train(folder, "--text", story, "--steps", 2, "--seed", 1)
    assert status == 0, output
    return folder


def further(*options):
    return run("train", "--batch-size", 2, "--device", "cpu", "--set", "data.length=8", *options)


def test_training_begins_with_the_weights_of_a_model_and_goes_on_without_it(tmp_path, base, story):
    """At the smallest learning rate the weights stay; the tokenizer stays, although the text has fewer characters."""
    few = tmp_path / "few.txt"
    few.write_text("a tame one ate a pea on a mat. " * 60, encoding="utf-8")
    copied, folder = tmp_path / "copied", tmp_path / "run"
    shutil.copytree(base, copied)
    rates = sets(*(f"training.{part}_rate=1e-12" for part in ("learning", "embedding", "head", "norm")))
    output, status = further(folder, "--from", copied, "--text", few, "--steps", 2, *rates)
    assert status == 0, output
    before, now = checkpoints.load(base), checkpoints.load(folder)
    assert np.abs(before.weights["decoder.blocks.0.attention.W_o.weight"]).max() > 1e-4
    for name, weight in before.weights.items():
        np.testing.assert_allclose(now.weights[name], weight, atol=1e-9, err_msg=name)
    assert (now.tokenizer, now.model_config) == (before.tokenizer, before.model_config)
    recipe = (folder / "recipe.toml").read_text(encoding="utf-8")
    assert f'[model]\nfrom = "{copied}"\n' in recipe
    assert "zero_init = false" in recipe
    shutil.rmtree(copied)
    output, status = run("train", folder, "--resume")
    assert status == 0, output
    output, status = run("train", folder, "--resume", "--from", base)
    assert (status, "--from" in output, "does not go with --resume" in words(output)) == (2, True, True)


def test_byte_pairs_of_a_folder_of_the_hub_are_kept(tmp_path, story):
    pairs = sets("data.tokenizer=bytepairs", "data.vocab_size=270")
    assert train(tmp_path / "pairs", "--text", story, "--steps", 1, *pairs)[1] == 0
    mine, tokenizer = checkpoints.load(tmp_path / "pairs"), None
    config = ModelConfig(
        vocab_size=272, context_length=16, d_model=8, n_layers=1, n_heads=2, d_ff=12, norm="rmsnorm",
        positions="rope", feedforward="swiglu", attention_bias="none", feedforward_bias=False, head="untied",
    )  # fmt: skip
    hub = tmp_path / "hub"
    huggingface.save(scratch.Transformer(config, generator=np.random.default_rng(0)), hub)
    (hub / "tokenizer.json").write_text(mine.tokenizer, encoding="utf-8")
    for begin in (tmp_path / "pairs", hub):
        folder = tmp_path / f"from-{begin.name}"
        output, status = further(folder, "--from", begin, "--text", story, "--steps", 1)
        assert status == 0, output
        tokenizer = checkpoints.load(folder).tokenizer
        assert json.loads(tokenizer) == json.loads(mine.tokenizer)
        assert run("train", folder, "--resume")[1] == 0
    word = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    word.save(str(hub / "tokenizer.json"))
    output, status = further(tmp_path / "no", "--from", hub, "--text", story, "--steps", 1)
    assert (status, "its tokenizer is of another kind" in words(output)) == (2, True), output
    (hub / "tokenizer.json").unlink()
    output, status = further(tmp_path / "no", "--from", hub, "--text", story, "--steps", 1)
    assert (status, "it has no tokenizer" in words(output)) == (2, True), output


def test_what_does_not_fit_the_model_that_a_run_begins_with_is_said(tmp_path, base, story):
    odd = tmp_path / "odd.txt"
    odd.write_text("once upon ~ a time " * 60, encoding="utf-8")
    for options, said in (
        (["--text", odd], "'~' (line 1, character 11 of the text) is not one of the"),
        (sets("model.dropout=0.1"), "model.dropout=0.1, but"),
        (["--recipe", "baseline"], "model.d_model=128, but"),
        (
            sets("data.tokenizer=bytepairs", "data.vocab_size=270"),
            "data.tokenizer='bytepairs', but",
        ),
        (sets("data.length=17"), "data.length=17 must be at most context_length=16"),
        (sets("data.pairs=dates"), "pairs='dates' needs family=\"encoder-decoder\", not 'decoder'"),
        (["--from", "shakspeare"], "did you mean 'shakespeare'"),
        (["--from", "dates"], 'family="encoder-decoder" learns from pairs'),
        (["--from", tmp_path], "has neither a run's checkpoint"),
    ):
        text = [] if "--text" in options or "data.pairs=dates" in options else ["--text", story]
        output, status = further(tmp_path / "run", "--from", base, *text, *options)
        assert (status, said in words(output)) == (2, True), output
    assert not (tmp_path / "run").exists()
    output, status = further(
        tmp_path / "run", "--from", base, "--text", story, "--steps", 1, *sets("training.zero_init=true")
    )
    assert (status, "warning: training.zero_init=True is left out" in words(output)) == (0, True), output


def test_a_run_that_has_ended_is_given_more_steps(tmp_path, base):
    folder = tmp_path / "run"
    shutil.copytree(base, folder)
    recipe = folder / "recipe.toml"
    own = f"# mine\n{recipe.read_text(encoding='utf-8')}"
    recipe.write_text(own, encoding="utf-8")
    output, status = run("train", folder, "--resume", "--steps", 1)
    assert (status, "steps=1 must be above 2, the number of steps" in words(output)) == (2, True), output
    assert recipe.read_text(encoding="utf-8") == own
    output, status = run("train", folder, "--resume", "--steps", 60)
    assert status == 0, output
    # Both are still in the warm-up, which takes 50 steps
    said = "60 steps instead of 2: from step 3 on, learning rates follow the schedule of 60 steps, so the next one is"
    assert said in words(output)
    assert recipe.read_text(encoding="utf-8") == own.replace("steps = 2\n", "steps = 60\n")
    log = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in log] == list(range(1, 61))
    output, status = run("train", folder, "--resume")
    assert (status, "instead of" in output) == (0, False), output


def test_more_steps_for_a_recipe_that_does_not_have_them_in_a_line(tmp_path, base):
    folder = tmp_path / "run"
    shutil.copytree(base, folder)
    recipe = folder / "recipe.toml"
    before, _, training = recipe.read_text(encoding="utf-8").partition("[training]\n")
    own = f"training = {{{', '.join(training.split(chr(10))).strip(', ')}}}\n{before}"
    recipe.write_text(own, encoding="utf-8")
    output, status = run("train", folder, "--resume", "--steps", 3)
    assert (status, "write it into" in words(output)) == (2, True), output
    assert recipe.read_text(encoding="utf-8") == own
    assert checkpoints.latest(folder).name == "step-00000002"
