"""Tests the one way to open a model: what a name or a path is taken for by every caller, and what is said of others."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from own_models import CHARACTERS, in_a_file, small, trained
from safetensors.numpy import load as arrays_from
from tokenizers import Tokenizer, decoders, models
from traitlets import TraitError
from typer.testing import CliRunner

from glassformer import checkpoints, huggingface, model_files, nn, pretrained, scratch, shipped
from glassformer.cli import app
from glassformer.config import ModelConfig
from glassformer.generate import generate
from glassformer.tasks import Pairs
from glassformer.text import CharTokenizer
from glassformer.train import Trainer, TrainingConfig
from glassformer.widgets.engine.model import ModelView

ROOMS = ("scratch", "nn")
ALPHABET = "abcdefgh"


class View(ModelView, module="model"):
    """Any view of a model."""


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output, result.exit_code


def of_hugging_face(folder):
    """Saves an untrained GPT-2 that reads eight letters, each a token."""
    config = ModelConfig(vocab_size=8, context_length=32, d_model=16, n_layers=1, n_heads=2)
    huggingface.save(scratch.Transformer(config, generator=np.random.default_rng(0)), folder)
    letters = {c: i for i, c in enumerate(ALPHABET)}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """One of each kind."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "shipped": "shakespeare",
        "file": in_a_file(folder, small()),
        "run": str(trained(folder / "run")),
        "hub": str(of_hugging_face(folder / "gpt2")),
    }


PARTS = {
    "shipped": lambda name, room: shipped.load(name, room=room)[0],
    "file": lambda path, room: checkpoints.model_of(*model_files.load(path)[:3:2], room=room),
    "run": lambda path, room: checkpoints.load_model(path, room=room),
    "hub": lambda path, room: huggingface.load(path, room=room),
}


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("kind", PARTS)
def test_each_kind_opens_in_both_rooms_as_by_the_part_that_reads_it(places, kind, room):
    name = places[kind]
    assert pretrained.find(name) == kind
    opened, expected = pretrained.load(name, room=room), PARTS[kind](name, room)
    assert opened.model.__class__.__module__ == f"glassformer.{room}.model"
    assert not opened.model.training
    assert opened.config == expected.config == pretrained.configuration(name)
    weights, wanted = opened.model.state_dict(), expected.state_dict()
    assert weights.keys() == wanted.keys()
    assert all(np.array_equal(weights[key], wanted[key]) for key in wanted)
    assert opened.decode(opened.encode("abba")) == "abba"
    if kind != "hub":
        assert opened.tokenizer.to_json() == pretrained.stored(name).tokenizer.to_json()
        assert isinstance(opened.tokenizer, CharTokenizer)


@pytest.mark.parametrize("kind", PARTS)
def test_commands_and_views_open_the_same(places, kind):
    name = places[kind]
    opened = pretrained.load(name)
    [ids] = generate(opened.model, np.array(opened.encode("abba")), 9, temperature=0)
    for room in ROOMS:
        written = run("generate", name, "--prompt", "abba", "--n-new", 9, "--temperature", 0, "--room", room)
        assert written == (opened.decode(ids) + "\n", 0)
    for command in ("params", "trace"):
        output, status = run(command, name)
        assert (status, "source:" in output) == (0, False), output
        assert command == "trace" or f"{opened.config.parameter_count().total:,} " in output
    if kind == "hub":
        with pytest.raises(
            TraitError, match="gpt2 is a folder of Hugging Face, whose tokens a page does not"
        ):
            View(name)
        return
    view = View(name)
    assert view._source.config == opened.config
    weights = arrays_from(view._source.weights)
    assert all(np.array_equal(weights[key], each) for key, each in opened.model.named_parameters().items())


@pytest.mark.parametrize("kind", PARTS)
def test_ids_that_no_text_has_are_named_and_not_left_out(places, kind):
    opened = pretrained.load(places[kind])
    assert opened.decode(iter(opened.encode("ab"))) == "ab"
    for wrong in (opened.config.vocab_size, -1):
        with pytest.raises(ValueError, match=rf"ids\[1\]={wrong} is outside"):
            opened.decode([1, wrong, 2])
    for several in ([np.arange(2), np.arange(3)], np.zeros((1, 2), int)):
        with pytest.raises(ValueError, match="ids has several texts, as `generate` returns them"):
            opened.decode(several)


def test_what_has_no_tokenizer_opens_without_one(tmp_path):
    run_of_ids = trained(tmp_path / "run", tokenizer=None)
    hub = of_hugging_face(tmp_path / "gpt2")
    (hub / "tokenizer.json").rename(hub / "vocab.json")
    for place, said in (
        (run_of_ids, f"{run_of_ids} has no tokenizer: it was trained without one"),
        (hub, f"{hub / 'tokenizer.json'} is missing, and its vocab.json is not read here"),
    ):
        opened = pretrained.load(place)
        assert opened.tokenizer is None
        assert opened.model(np.arange(4)[None]).shape == (1, 4, opened.config.vocab_size)
        for turned in (lambda: opened.encode("a"), lambda: opened.decode([0])):  # noqa: B023 - called at once
            with pytest.raises((ValueError, FileNotFoundError), match=said):
                turned()
        for prompt in ((), ("--prompt", "a")):
            assert run("generate", place, *prompt) == (f"Error: {said}\n", 2)
        assert run("params", place)[1] == 0
    with pytest.raises(TraitError, match="run' has no tokenizer"):
        View(str(run_of_ids))


def test_the_special_ids_of_a_task_are_kept_with_its_model(tmp_path):
    """Here, they come before the others: "^" and "$" are the tokenizer's own first two."""
    sizes = {"vocab_size": 5, "context_length": 4, "d_model": 8, "n_layers": 1, "n_heads": 2}
    config = ModelConfig(family="encoder-decoder", **sizes)
    pairs = [np.arange(2, 4), np.arange(3, 5)] * 8

    task = Pairs(pairs, pairs, 2, 0, start_id=0, stop_id=1, pad_id=2)
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0))
    training = TrainingConfig(steps=1, batch_size=2, device="cpu")
    Trainer(model, task, training, tmp_path / "run", tokenizer=CharTokenizer("^$abc"), progress=False).run()
    opened = pretrained.load(tmp_path / "run")
    assert (opened.start_id, opened.stop_ids) == (0, [1])
    assert opened.decode([0, 2, 3, 1]) == "ab"
    with pytest.raises(
        TraitError, match=r"special ids follow the 5 of the tokenizer: this model has .'start': 0"
    ):
        View(str(tmp_path / "run"))

    written = checkpoints.latest(tmp_path / "run") / "training.json"
    described = json.loads(written.read_text(encoding="utf-8"))
    for given, said in {
        None: "",  # a checkpoint from before they were kept
        "3": "'3' must be a dict",
        ("start", True): r"\['start'\]=True must be a whole number",
        ("start", -1): r"\['start'\]=-1 must be at least 0",
        ("stop", 5): r"\['stop'\]=5 must be below vocab_size=5",
        ("end", 1): " lacks 'start'",
    }.items():
        special = dict([given]) if isinstance(given, tuple) else given
        changed = {name: value for name, value in described.items() if name != "checksum"}
        changed |= {"special_ids": special}
        checksum = checkpoints.own_checksum_of(changed)
        written.write_text(json.dumps(changed | {"checksum": checksum}), encoding="utf-8")
        if given is None:
            opened = pretrained.load(tmp_path / "run")
            assert (opened.start_id, opened.stop_ids) == (5, [6])
            continue
        with pytest.raises(ValueError, match=rf"training\.json: special_ids.*{said}"):
            pretrained.load(tmp_path / "run")


def test_which_line_of_the_rule_counts_where_several_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained(Path("dates"))
    assert [pretrained.find(name) for name in ("dates", "./dates", Path("dates"))] == [
        "shipped",
        "run",
        "run",
    ]
    assert pretrained.load(Path("dates")).tokenizer.characters == CHARACTERS
    of_hugging_face(Path("both"))  # the reader's run, saved for others beside its checkpoints …
    shutil.copytree("dates", "both", dirs_exist_ok=True)
    assert pretrained.find("both") == "run"
    last = str(checkpoints.latest("dates"))
    assert pretrained.find(last) == "run"
    of_hugging_face(Path("other"))  # … and others' folder, with what they call a step
    Path("other", "step-1000").mkdir()
    assert pretrained.find("other") == "hub"
    shutil.copytree("other", "gpt2.safetensors")  # the ending of a folder says nothing
    assert pretrained.find("gpt2.safetensors") == "hub"
    Path("gpt2").mkdir()  # what is here comes before what is published
    Path("gpt2", "config.json").write_text(small().config.to_json(), encoding="utf-8")
    output, _ = run("params", "gpt2")
    assert (f"{small().config.parameter_count().total:,}" in output, "source:" in output) == (True, False)


def test_one_set_of_messages(tmp_path, monkeypatch):
    """Whoever asks is told the same, and nobody asks the hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked")
    )
    Path("notes.txt").write_text("a model", encoding="utf-8")
    Path("weights.gguf").write_bytes(b"GGUF\x03\0\0\0")
    Path("nothing").mkdir()
    Path("llama").mkdir()
    Path("llama", "a.gguf").touch()
    story = tmp_path / "story.txt"
    story.write_text("once upon a time " * 200, encoding="utf-8")
    begun = ("--text", story, "--steps", 1, "--set", "model.n_layers=1", "--set", "data.length=16")
    assert run("train", "begun", "--batch-size", 2, "--device", "cpu", *begun)[1] == 0
    shutil.rmtree(checkpoints.latest("begun"))
    shutil.copytree("begun", "by-hand")
    Path("by-hand", "recipe.toml").unlink()  # of a `Trainer` without the command
    Path("begun", "log.jsonl").unlink()  # interrupted before the first step
    neither = "has neither a run's checkpoint (step-…/training.json) nor Hugging Face's config.json"
    no_model = "is neither a file or folder here nor one of shakespeare, words, experts, masked, dates"
    for name, said in {
        "Shakespear": f"Shakespear {no_model}; did you mean 'shakespeare'?",
        "nothing": f"nothing {neither}",
        "llama": f"llama {neither}; its a.gguf shows a model of llama.cpp",
        "begun": "begun is a run without a checkpoint yet: `train` writes one when it ends",
        "by-hand": "by-hand is a run without a checkpoint yet",
        "notes.txt": "notes.txt is a file of another kind: name the model's folder, a .safetensors file",
        "weights.gguf": "weights.gguf is a GGUF file of llama.cpp: name the model's folder",
        "gone.safetensors": "gone.safetensors is missing",
        "gone.json": "gone.json is missing",
        "./gone": "path_or_name='./gone' is neither a folder nor a possible name on the hub",
        "begun/step-9": "the folder begun has no step-9",
        "hf://a/b": "hf://a/b is a web address, from which nothing is downloaded: give a file or folder on",
    }.items():
        for command in ("generate", "params", "trace"):
            output, status = run(command, name)
            assert (status, said in output, output.count("\n")) == (2, True, 1), (command, output)
        with pytest.raises(TraitError) as refused:
            View(name)
        assert said in str(refused.value)
    for other in ("", Path("gone")):
        with pytest.raises(FileNotFoundError, match=r"name='' is empty|^gone is missing$"):
            pretrained.load(other)
    Path("mine.json").write_text(small().config.to_json(), encoding="utf-8")
    for opens in (pretrained.load, pretrained.stored):
        with pytest.raises(
            ValueError, match=r"mine\.json is a configuration without weights: name the folder"
        ):
            opens("mine.json")
    for asks in (pretrained.stored, View, pretrained.configuration):  # these never ask the hub
        with pytest.raises((ValueError, FileNotFoundError, TraitError), match=f"someone/model {no_model}"):
            asks("someone/model")
    with pytest.raises(ValueError, match=f"gpt2x {no_model}: name='gpt2x' .* Did you mean 'gpt2'"):
        pretrained.configuration("gpt2x")
    with pytest.raises(ValueError, match="room='jax' is not one of"):
        pretrained.load("dates", room="jax")


def test_a_name_on_the_hub_is_asked_for_once_and_one_that_is_not_there_is_told_with_those_of_the_book(
    places, monkeypatch
):
    asked = []

    def download(name, **_):
        asked.append(name)
        if name == "nobody":
            raise OSError(f"404: {name}")
        return places["hub"]

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert pretrained.load("openai-community/gpt2").config == pretrained.configuration(places["hub"])
    assert asked == ["openai-community/gpt2"]
    output, status = run("generate", "nobody")
    assert (status, "nor one of shakespeare, words, experts, masked, dates: " in output, "404: nobody" in output) == (
        2, True, True,
    ), output  # fmt: skip


def test_keys_that_are_not_known_are_warned_of(tmp_path):
    folder = of_hugging_face(tmp_path)
    config = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(config.replace("{", '{"odd": 1, ', 1), encoding="utf-8")
    with pytest.warns(UserWarning, match="odd.* is not known here and may change what the model computes"):
        pretrained.configuration(folder)
    with pytest.raises(ValueError, match="odd"):
        pretrained.load(folder)
    left_out = pretrained.configuration(folder, ignore=["odd"], warn=pytest.fail)
    assert pretrained.load(folder, ignore=["odd"]).config == left_out
