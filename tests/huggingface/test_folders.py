"""Tests folders, files and names: which are accepted, and with which messages others are refused."""

import errno
import json
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tokenizers
import torch
from close import SINGLE, assert_close
from huggingface_hub.utils import filter_repo_objects
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, T5ForConditionalGeneration
from typer.testing import CliRunner

import glassformer.nn
import glassformer.scratch
from glassformer import huggingface, pretrained
from glassformer.cli import app
from glassformer.config import ModelConfig
from glassformer.huggingface import (
    config_from_hf,
    load,
    save,
    start_id,
    state_from_hf,
    state_to_hf,
    stop_ids,
    tokenizer,
)
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.weights import check_sizes
from glassformer.text import CharTokenizer
from glassformer.train.recipe import Recipe

from .models import CASES, both_rooms, make, numpy


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Returns folders of transformers by case, each written once; `put` copies them."""
    return {}, tmp_path_factory.mktemp("kept")


@pytest.fixture
def put(tmp_path, kept):
    """Copies the files of a case into the test's folder."""
    folders, place = kept

    def put(case):
        if case not in folders:
            folders[case] = place / case
            make(case).save_pretrained(folders[case])
        shutil.copytree(folders[case], tmp_path, dirs_exist_ok=True)

    return put


@pytest.fixture
def folder(tmp_path, put):
    put("gpt2")
    return tmp_path


def rewrite(folder, change):
    """Lets a test change the weights of the folder as a dictionary, and writes them back."""
    path = folder / "model.safetensors"
    state = load_file(path)
    state = {name: np.array(values) for name, values in state.items()}
    change(state)
    save_file(state, path)


def weights(model):
    return {name: numpy(weight) for name, weight in dict(model.named_parameters()).items()}


def assert_same(actual, expected):
    actual, expected = weights(actual), weights(expected)
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(actual[name], values)


# Names


@pytest.mark.parametrize("case", ["gpt2", "bert-pretraining", "llama", "qwen3-headless"])
def test_a_prefix_may_be_there_or_not(tmp_path, put, case):
    put(case)
    expected = load(tmp_path)
    prefix = {"gpt2": "transformer.", "bert-pretraining": "bert."}.get(case, "model.")

    def change(state):
        for name in list(state):
            if name.startswith(prefix):
                state[name.removeprefix(prefix)] = state.pop(name)
            elif case == "qwen3-headless":
                state[prefix + name] = state.pop(name)

    rewrite(tmp_path, change)
    assert_same(load(tmp_path), expected)


OLD = {
    "gpt2": {"h.0.attn.bias": (1, 1, 9, 9), "transformer.h.1.attn.masked_bias": ()},
    "bert-mlm": {"bert.embeddings.position_ids": (1, 160), "cls.seq_relationship.weight": (2, 24)},
    "t5": {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": (12, 4)},
    "llama": {"model.layers.0.self_attn.rotary_emb.inv_freq": (3,), "model.rotary_emb.inv_freq": (3,)},
}


@pytest.mark.parametrize("case", OLD)
def test_what_old_files_have_besides_weights(tmp_path, put, case):
    put(case)
    expected = load(tmp_path)
    rewrite(
        tmp_path, lambda state: state.update({name: np.ones(shape, int) for name, shape in OLD[case].items()})
    )
    assert_same(load(tmp_path), expected)


def test_bert_in_its_oldest_words(tmp_path, put):
    put("bert-pretraining")
    expected = load(tmp_path)

    def change(state):
        for name in list(state):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            state[old] = state.pop(name)

    rewrite(tmp_path, change)
    assert_same(load(tmp_path), expected)


def test_the_weights_say_what_a_bert_has(tmp_path, put):
    """As in bert-base-uncased: config.json says BertForMaskedLM, and the file also has a pooler."""
    put("bert-pretraining")
    given = json.loads((tmp_path / "config.json").read_text())
    for architecture in ("BertForMaskedLM", "BertModel", "BertForPreTraining"):
        (tmp_path / "config.json").write_text(json.dumps(given | {"architectures": [architecture]}))
        config = load(tmp_path).config
        assert (config.head, config.pooler) == ("tied", True)
    rewrite(
        tmp_path, lambda state: [state.pop(name) for name in list(state) if "pooler" in name or "cls" in name]
    )
    assert (load(tmp_path).config.head, load(tmp_path).config.pooler) == ("none", False)


COPIES = {
    "gpt2": [("transformer.wte.weight", "lm_head.weight")],
    "bert-mlm": [
        ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ],
    "t5": [("shared.weight", name) for name in ("encoder.embed_tokens.weight", "lm_head.weight")],
    "qwen2": [("model.embed_tokens.weight", "lm_head.weight")],
}


@pytest.mark.parametrize("case", COPIES)
def test_tied_weights_may_be_there_twice_or_under_either_name(tmp_path, put, case):
    put(case)
    expected = load(tmp_path)
    for source, copy in COPIES[case]:
        rewrite(tmp_path, lambda state, source=source, copy=copy: state.update({copy: state[source]}))
        assert_same(load(tmp_path), expected)
    for source, _ in COPIES[case]:
        rewrite(tmp_path, lambda state, source=source: state.pop(source, None))
    assert_same(load(tmp_path), expected)


@pytest.mark.parametrize("case", ["gpt2", "t5", "qwen2"])
def test_a_head_of_its_own_is_one_whatever_config_says(tmp_path, put, case):
    put(case)
    head = np.random.default_rng(0).normal(size=(41, 24)).astype(np.float32)
    rewrite(tmp_path, lambda state: state.update({"lm_head.weight": head}))
    model = load(tmp_path)
    assert model.config.head == "untied"
    np.testing.assert_array_equal(model.unembedding.weight, head.T)


def test_all_that_does_not_fit_is_named(folder):
    def change(state):
        del state["transformer.ln_f.weight"], state["transformer.h.1.attn.c_attn.bias"]
        state["transformer.h.2.ln_1.weight"] = np.ones(24)
        state["strange"] = np.ones(1)
        state["transformer.wpe.weight"] = np.ones((9, 24))
        state["transformer.h.0.attn.c_attn.weight"] = np.ones((24, 24))

    rewrite(folder, change)
    with pytest.raises(ValueError, match="the weights do not fit the config") as error:
        load(folder)
    for fault in (
        "transformer.ln_f.weight is missing",
        "transformer.h.1.attn.c_attn.bias is missing",
        "transformer.h.2.ln_1.weight is not a weight of this model",
        "strange is not a weight of this model",
        "transformer.wpe.weight has shape (9, 24), but must have (160, 24)",
        "transformer.h.0.attn.c_attn.weight has shape (24, 24), but must have (24, 72)",
    ):
        assert fault in str(error.value)
    assert str(error.value).count(";") == 5


def test_names_that_appear_with_and_without_prefix(folder):
    rewrite(folder, lambda state: state.update({"wte.weight": state["transformer.wte.weight"] + 1}))
    with pytest.raises(ValueError, match=r"wte\.weight is not a weight of this model"):
        load(folder)


def test_state_dicts_that_do_not_fit():
    theirs = make("qwen2")
    config = config_from_hf(theirs.config.to_dict() | {"architectures": [CASES["qwen2"].architecture]})
    state = dict(theirs.state_dict())
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    with pytest.raises(
        ValueError, match=r"lm_head.weight differs from model.embed_tokens.weight, to which it is tied"
    ):
        state_from_hf(config, state)
    ours = state_from_hf(config, theirs.state_dict())
    ours["token_embedding.weight"] = ours["token_embedding.weight"].T
    del ours["decoder.norm.weight"]
    with pytest.raises(
        ValueError, match=r"decoder.norm.weight is missing; token_embedding.weight has shape \(24, 41\)"
    ):
        state_to_hf(config, ours)


# Files


@both_rooms
def test_shards(folder, room):
    expected = load(folder, room=room)
    make("gpt2").save_pretrained(folder / "shards", max_shard_size="20KB")
    names = sorted(path.name for path in (folder / "shards").glob("*.safetensors"))
    assert len(names) > 2
    assert_same(load(folder / "shards", room=room), expected)
    (folder / "shards" / names[1]).unlink()
    with pytest.raises(
        FileNotFoundError, match=f"{names[1]} is missing, although model.safetensors.index.json lists it"
    ):
        load(folder / "shards", room=room)


OUTSIDE = "which is not a safetensors file of the folder"
INDEXES = {
    '{"weight_map": {"wte.weight": "../model.safetensors"}}': OUTSIDE,
    '{"weight_map": {"wte.weight": "/etc/passwd"}}': OUTSIDE,
    '{"weight_map": {"wte.weight": "pytorch_model-1.bin"}}': OUTSIDE,
    "{}": "lacks weight_map",
    '{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}': r"is in two files, a\.safetensors and b\.s",
}


@pytest.mark.parametrize("index", INDEXES)
def test_an_index_that_lists_what_it_must_not_is_refused(folder, index):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    for name in ("a.safetensors", "b.safetensors"):
        (folder / name).write_bytes(whole)
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ValueError, match=INDEXES[index]):
        load(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[:5],
        lambda whole: whole[:100],
        lambda whole: whole[:-1],
        lambda whole: whole + b"more",
        lambda whole: whole[:8] + b"?" + whole[9:],
        lambda whole: b"\xff" * 8 + whole[8:],
    ],
    ids=["empty", "length cut", "header cut", "one byte short", "too long", "no JSON", "absurd length"],
)
def test_a_damaged_file(folder, damage):
    path = folder / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"model\.safetensors is not a complete safetensors file"):
        load(folder)


def test_numbers_that_are_no_weights(folder):
    rewrite(folder, lambda s: s.update({"transformer.ln_f.bias": s["transformer.ln_f.bias"].astype(np.int8)}))
    with pytest.raises(
        ValueError, match=r"model\.safetensors: transformer\.ln_f\.bias has numbers of type I8"
    ):
        load(folder)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was opened')",)


def test_pickles_are_not_opened(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"pytorch_model\.bin, a pickle, which can run any program"):
        load(folder)


def test_files_that_are_missing(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"neither model\.safetensors nor model\.safetensors\.index\.json"
    ):
        load(folder)
    make("gpt2").save_pretrained(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"config\.json is missing"):
        load(folder)


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[1]", "must be a JSON object")])
def test_a_config_that_is_none(folder, text, message):
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        load(folder)


# What was taken as something else

LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}


@pytest.mark.parametrize(
    "said",
    [
        {"rope_parameters": LINEAR, "rope_scaling": {}},
        {"rope_parameters": LINEAR, "rope_scaling": LINEAR, "rope_theta": 5e5},
        {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 5e5},
    ],
)
def test_positions_that_a_file_describes_twice(tmp_path, put, said):
    """The numbers are those of transformers, where the older of the two counts. What contradicts: see test_keys."""
    put("llama")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rope_parameters": None} | said))
    ids = np.arange(0, 40, 2)[None]
    expected = LlamaForCausalLM.from_pretrained(tmp_path)(torch.from_numpy(ids)).logits.detach().numpy()
    assert_close(load(tmp_path)(ids), expected, SINGLE)


# Sizes and numbers that nobody can have meant

SIZES = {
    "n_layer": (10**9, r"transformer\.h\.999999999\.attn\.c_attn\.weight is missing"),
    "n_embd": (3 * 10**6, r"transformer\.wte\.weight has shape \(41, 24\)"),
    "vocab_size": (10**8, r"transformer\.wte\.weight has shape \(41, 24\)"),
    "n_positions": (10**12, r"transformer\.wpe\.weight has shape \(160, 24\)"),
    "n_inner": (10**12, r"transformer\.h\.0\.mlp\.c_fc\.weight has shape \(24, 96\)"),
}


def test_a_matrix_that_holds_several_is_not_blamed_for_its_size():
    theirs = make("phi3")
    config = config_from_hf(theirs.config.to_dict() | {"architectures": ["Phi3ForCausalLM"]})
    shapes = {name: tuple(weight.shape) for name, weight in theirs.state_dict().items()}
    with pytest.raises(ValueError, match=r"^the model has [\d,]+ weights, but its files have [\d,]+$"):
        check_sizes(config.replace(n_heads=10**6, n_kv_heads=1, d_head=8), shapes, FORMATS["phi3"].layout)


@both_rooms
def test_sizes_are_compared_before_anything_is_built(folder, room, monkeypatch):
    def build(*arguments, **options):
        raise AssertionError("a model was built")

    for where in (glassformer.scratch, glassformer.nn):
        monkeypatch.setattr(where, "Transformer", build)
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    for name, (value, words) in SIZES.items():
        path.write_text(json.dumps(whole | {name: value}))
        with pytest.raises(ValueError, match=rf"config\.json: {name}={value}, but {words}"):
            load(folder, room=room)


def test_sizes_of_the_two_stacks_of_a_t5(tmp_path, put):
    put("t5")
    path = tmp_path / "config.json"
    whole = json.loads(path.read_text())
    for name, value, words in (
        ("num_layers", 10**7, r"encoder\.block\.9999999\.layer\.0\.SelfAttention\.q\.weight is missing"),
        (
            "num_decoder_layers",
            10**7,
            r"decoder\.block\.9999999\.layer\.0\.SelfAttention\.q\.weight is missing",
        ),
        ("d_ff", 10**9, r"encoder\.block\.0\.layer\.1\.DenseReluDense\.wi\.weight has shape \(40, 24\)"),
        ("d_kv", 10**9, r"the model has [\d,]+ weights, but its files have [\d,]+"),
    ):
        path.write_text(json.dumps(whole | {name: value}))
        with pytest.raises(ValueError, match=words):
            load(tmp_path)


@both_rooms
@pytest.mark.parametrize(("value", "said"), [(np.nan, "nan"), (-np.inf, "-inf"), (1e38, "1e\\+38")])
def test_weights_that_are_no_numbers(folder, room, value, said):
    rewrite(folder, lambda state: state["transformer.h.1.mlp.c_fc.weight"].__setitem__((5, 7), value))
    with pytest.raises(
        ValueError,
        match=rf"safetensors: transformer\.h\.1\.mlp\.c_fc\.weight contains {said} at 5, 7: every weight must",
    ):
        load(folder, room=room)


def test_of_many_faults_a_few_are_said(folder):
    """A name that would move a terminal's cursor is also escaped."""
    rewrite(folder, lambda s: s.update({f"\x1b[2J{i}": np.ones(1) for i in range(1000)}))
    with pytest.raises(
        ValueError, match=r"\\x1b\[2J0 is not a weight of this model; .*; and 992 more$"
    ) as error:
        load(folder)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000


def test_arguments(folder):
    with pytest.raises(ValueError, match="room='jax' is not one of 'scratch', 'nn'"):
        load(folder, room="jax")
    with pytest.raises(ValueError, match="dtype='bfloat16' is not one of 'float32', 'float64'"):
        load(folder, dtype="bfloat16")
    assert next(load(folder, room="nn", dtype="bfloat16").parameters()).dtype == torch.bfloat16
    assert load(folder, dtype="float64").token_embedding.weight.dtype == np.float64


@both_rooms
def test_loaded_models_are_in_evaluation_and_can_be_trained(folder, room):
    model = load(folder, room=room)
    assert model.training is False
    if room == "nn":
        assert all(weight.requires_grad for weight in model.parameters())
        model(torch.zeros((1, 3), dtype=torch.int64)).sum().backward()


def test_a_loaded_model_is_not_tied_to_the_file(folder):
    before = (folder / "model.safetensors").read_bytes()
    for room in ("scratch", "nn"):
        for weight in weights(load(folder, room=room)).values():
            weight[...] = 7
    assert (folder / "model.safetensors").read_bytes() == before


# Saving


def small(**changes):
    sizes = {"vocab_size": 10, "context_length": 8, "d_model": 8, "n_layers": 1, "n_heads": 2}
    return glassformer.scratch.Transformer(ModelConfig(**sizes | changes), generator=np.random.default_rng(0))


def test_a_model_of_ours_there_and_back(tmp_path):
    model = small(dropout=0.5)
    save(model, tmp_path / "deep" / "folder")
    again = load(tmp_path / "deep" / "folder")
    assert again.config == model.config
    assert_same(again, model)


LINES = "Ünder the greenwood tree 🌳\n\nWho loves to lie with me,\tand turn his merry note\r\n" * 12


@pytest.mark.parametrize("changes", [[], ["data.tokenizer=bytepairs", "data.vocab_size=300"]])
def test_a_model_of_the_recipe_portable_opens_in_transformers_with_its_tokenizer(tmp_path, changes):
    tokenizer, _, config = Recipe.of_the_book("portable", ["data.length=32", *changes]).made_for(LINES)
    model = glassformer.scratch.Transformer(config, generator=np.random.default_rng(0)).eval()
    save(model, tmp_path, tokenizer=tokenizer)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    text = LINES[:90]
    ids = theirs(text, return_tensors="pt")["input_ids"][:, :32]
    assert theirs(text)["input_ids"] == tokenizer.encode(text).tolist()
    assert theirs.decode(theirs(text)["input_ids"]) == text
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(tmp_path).eval()(ids).logits
    assert_close(model(ids.numpy()), logits, SINGLE)
    opened = pretrained.load(tmp_path)
    assert opened.decode(opened.encode(text)) == text
    run = CliRunner().invoke(app, ["generate", str(tmp_path), "--prompt", "tree", "--n-new", "4"])
    assert run.exit_code == 0, run.output


def test_a_character_without_an_id_is_refused_there_too(tmp_path):
    save(small(), tmp_path, tokenizer=CharTokenizer("abc"))
    with pytest.raises(ValueError, match=r"tokenizer\.json: WordLevel error"):
        pretrained.load(tmp_path).encode("abd")


def test_a_tokenizer_that_does_not_fit_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="tokenizer has 12 ids, but the model's vocab_size=10"):
        save(small(), tmp_path, tokenizer=CharTokenizer("abcdefghijkl"))
    with pytest.raises(TypeError, match="tokenizer must be a CharTokenizer or a BytePairTokenizer, not str"):
        save(small(), tmp_path, tokenizer="abc")
    assert list(tmp_path.iterdir()) == []


def test_saving_over_what_was_loaded(folder):
    for _ in range(2):
        model = load(folder)
        model.token_embedding.weight += 1
        save(model, folder)
    assert_same(load(folder), model)


@pytest.mark.parametrize("fails", ["write", "replace"])
def test_an_interrupted_save_leaves_the_old_files(folder, monkeypatch, fails):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(path, *arguments, **options):
        if fails == "write":
            path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    if fails == "write":
        monkeypatch.setattr("safetensors.numpy.save_file", lambda state, path, metadata: full(path))
    else:
        monkeypatch.setattr(huggingface.folders.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        save(small(), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_model_that_no_family_has_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match=r"positions='alibi' .*such as one of the recipe portable"):
        save(small(positions="alibi"), tmp_path)
    assert list(tmp_path.iterdir()) == []


# The hub, which no test reaches


def test_a_name_is_fetched(folder, monkeypatch):
    repository = ["README.md", "config.json", "flax_model.msgpack", "model-00001-of-00002.safetensors"]
    repository += [
        "model.safetensors",
        "model.safetensors.index.json",
        "onnx/model.onnx",
        "pytorch_model.bin",
    ]
    repository += ["generation_config.json", "onnx/model.safetensors", "original/consolidated.00.pth"]
    repository += ["tokenizer.json", "model.py"]

    def snapshot_download(name, *, allow_patterns):
        assert name == "someone/some-model"
        assert list(filter_repo_objects(repository, allow_patterns=allow_patterns)) == [
            "config.json",
            "model-00001-of-00002.safetensors",
            "model.safetensors",
            "model.safetensors.index.json",
            "generation_config.json",
            "tokenizer.json",
        ]
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert_same(load("someone/some-model"), load(folder))


def test_a_name_that_the_hub_does_not_give():
    with pytest.raises(
        OSError, match="'nobody/nothing' is not a folder here, and fetching it from the hub failed: "
    ):
        load("nobody/nothing")


def test_a_name_without_huggingface_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub"):
        load("gpt2")


@pytest.mark.parametrize("path", ["./gpt2", "/no/such/folder", "a/b/c", "../x", "with space", ""])
def test_what_is_no_name(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if path == "":  # the folder one is in
        with pytest.raises(FileNotFoundError, match="neither"):
            load(path)
        return
    with pytest.raises(FileNotFoundError, match="is neither a folder nor a possible name on the hub"):
        load(path)


def test_a_mistyped_folder_is_not_looked_up_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked")
    )
    (tmp_path / "runs/first").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"the folder runs has no frist; did you mean runs/first\?$"):
        load("runs/frist")
    with pytest.raises(FileNotFoundError, match=r"the folder runs has no second$"):
        load("runs/second")
    for name in ("params.json", "mine/recipe.toml", "story.TXT", "gpt.safetensors"):
        with pytest.raises(
            FileNotFoundError, match=f"^path_or_name='{name}' is neither a folder nor a possible name"
        ):
            load(name)


# What generation needs besides the model


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        ({"eos_token_id": 5}, None, [5]),
        ({"eos_token_id": None}, None, []),
        ({}, None, []),
        ({"eos_token_id": 5}, {"eos_token_id": [6, 7]}, [6, 7]),
        ({"eos_token_id": 5}, {"bos_token_id": 1}, []),
        ({"eos_token_id": [9, 10, -1]}, None, [9]),
    ],
)
def test_stop_ids(tmp_path, config, generation, expected):
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 10}))
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert stop_ids(tmp_path) == expected


STARTS = [
    ({"decoder_start_token_id": 5, "bos_token_id": 6}, None),
    ({"bos_token_id": 6, "decoder_start_token_id": None}, None),
    ({"decoder_start_token_id": [7]}, None),
    ({"decoder_start_token_id": 5}, {"decoder_start_token_id": 0}),
    ({"decoder_start_token_id": 5}, {"bos_token_id": 8}),
    ({"decoder_start_token_id": 5}, {"eos_token_id": 1}),
    ({"eos_token_id": 1, "pad_token_id": 9}, None),
    ({"decoder_start_token_id": [5, 6]}, None),
]


def test_a_decoder_starts_where_theirs_starts(tmp_path, put):
    """If theirs gives no start, no id is invented."""
    put("t5")
    path, generation = tmp_path / "config.json", tmp_path / "generation_config.json"
    ids = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
    bare = {name: value for name, value in json.loads(path.read_text()).items() if name not in ids}
    begun = []
    for config, said in STARTS:
        path.write_text(json.dumps(bare | config))
        generation.unlink(missing_ok=True)
        if said is not None:
            generation.write_text(json.dumps(said))
        theirs = T5ForConditionalGeneration.from_pretrained(tmp_path)
        try:
            begins = theirs.generate(torch.tensor([[3, 4]]), max_new_tokens=1, use_cache=False)[0, 0].item()
        except (ValueError, IndexError, TypeError):
            with pytest.raises(ValueError, match=r"(decoder_start|bos)_token_id"):
                start_id(tmp_path)
        else:
            assert start_id(tmp_path) == begins
            begun.append(begins)
    assert begun == [5, 6, 7, 0, 8]
    for outside in (41, -1, "5"):
        generation.write_text(json.dumps({"decoder_start_token_id": outside}))
        with pytest.raises(
            ValueError, match=f"generation_config.json: decoder_start_token_id={outside!r} must be"
        ):
            start_id(tmp_path)


def test_the_command_line_starts_there_too(tmp_path, put):
    """It starts from id 5; from another id, this model would write something else."""
    put("t5")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(41)}, unk_token="w0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    said = set()
    for begins in (5, 0):
        (tmp_path / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": begins}))
        theirs = T5ForConditionalGeneration.from_pretrained(tmp_path)
        ids = theirs.generate(torch.tensor([[3, 4]]), max_new_tokens=4, do_sample=False, use_cache=False)[
            0, 1:
        ]
        command = ["generate", str(tmp_path), "--prompt", "w3 w4", "--temperature", "0", "--n-new", "4"]
        run = CliRunner().invoke(app, command)
        assert (run.exit_code, run.stdout.split()) == (0, [f"w{i}" for i in ids.tolist()])
        said.add(run.stdout)
    assert len(said) == 2


@pytest.mark.parametrize("ids", ["5", 5.0, True, {}, [[5]], [5, None], "9" * 9000])
def test_ids_that_are_none(tmp_path, ids):
    for name, sizes in (("config.json", {"vocab_size": 10}), ("generation_config.json", {})):
        (tmp_path / name).write_text(json.dumps(sizes | {"eos_token_id": ids}))
        with pytest.raises(ValueError, match=f"{name}: eos_token_id=.* must be an id, ") as error:
            stop_ids(tmp_path)
        assert len(str(error.value)) < 1100
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": ')
    with pytest.raises(ValueError, match=r"generation_config\.json is not JSON"):
        stop_ids(tmp_path)


def test_a_tokenizer(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing"):
        tokenizer(tmp_path)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    assert tokenizer(tmp_path).encode("b a c").ids == [1, 0, 2]
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not JSON"):
        tokenizer(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install \'glassformer\[bytepairs\]\'"):
        tokenizer(tmp_path)


# NumPy alone


def test_the_numpy_room_needs_no_torch(tmp_path):
    """This includes files in bfloat16, which NumPy does not have."""
    make("llama", torch.bfloat16).save_pretrained(tmp_path)
    program = """
import sys
sys.modules["torch"] = None
from glassformer.huggingface import load, save
model = load(sys.argv[1])
save(model, sys.argv[1] + "/again")
assert load(sys.argv[1] + "/again").config == model.config
"""
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
