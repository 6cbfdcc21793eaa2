"""Tests that no key of a file is passed over in silence, and that strange files are told what they are."""

import ast
import json
import os
import pickle
import re
import shlex

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models
from typer.testing import CliRunner

from glassformer.anatomy import shelf
from glassformer.cli import app
from glassformer.huggingface import (
    config_from_hf,
    load,
    start_id,
    state_from_hf,
    stop_ids,
    tokenizer,
    unknown_keys,
)
from glassformer.huggingface.configs import described
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.keys import GENERATION_HARMLESS, GENERATION_KEYS, RULES, WITHOUT_TYPE, Key

from .models import CASES, IDS, LLAMA, ask_ours, ask_theirs, batch, make, rope
from .test_configs import BERT, GPT2, LLAMA_2, LLAMA_3_2, MISTRAL_V01, QWEN2, QWEN3, T5, T5_V1_1

NEEDED = {
    "deepseek_v2": {"num_experts_per_tok": 3},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 1},
    "glm4_moe": {"head_dim": 64},
}
"""What has no default in transformers."""
CLASSES = {kind: transformers.AutoConfig.for_model(kind, **NEEDED.get(kind, {})) for kind in FORMATS}


def run(*arguments):
    """Returns what a command prints on both streams, in one line, and its exit status."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return " ".join(result.output.split()), result.exit_code


@pytest.fixture
def put(tmp_path):
    """Returns a function that writes a folder of that case with keys of config.json changed."""

    def write(case, **changes):
        make(case).save_pretrained(tmp_path)
        path = tmp_path / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return tmp_path

    return write


# Every key


@pytest.mark.parametrize("kind", FORMATS)
def test_every_key_that_transformers_writes_is_accounted_for(kind):
    given = json.loads(CLASSES[kind].to_json_string(use_diff=False))
    assert unknown_keys(given) == []
    described(given)
    assert set(CLASSES[kind].attribute_map) <= set(FORMATS[kind].aliases)


def test_every_key_of_generation_is_accounted_for(tmp_path):
    given = (
        transformers.GenerationConfig().to_dict()
        | transformers.GenerationConfig._get_default_generation_params()
    )
    assert set(given) <= {*GENERATION_KEYS, *GENERATION_HARMLESS}
    (tmp_path / "config.json").write_text('{"vocab_size": 9}')
    (tmp_path / "generation_config.json").write_text(json.dumps(given | {"eos_token_id": 3}))
    assert stop_ids(tmp_path) == [3]


OLD = {
    "attn_pdrop": 0.1,
    "initializer_range": 0.02,
    "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "torch_dtype": "float32",
    "transformers_version": "4.36.0",
    "use_cache": True,
}
HUB = {
    "gpt2": GPT2 | OLD | {"output_past": True, "predict_special_tokens": True, "bos_token_id": 50256},
    "bert multilingual": BERT
    | {"directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token_transform", "pad_token_id": 0},
    "t5": T5 | {"initializer_factor": 1.0, "output_past": True, "decoder_start_token_id": 0, "n_positions": 512},
    "flan-t5": T5_V1_1 | {"dense_act_fn": "gelu_new", "is_gated_act": True, "classifier_dropout": 0.0},
    "llama 1": LLAMA_2 | {"max_sequence_length": 2048, "pad_token_id": 0, "_name_or_path": "x"},
    "vicuna 16k": LLAMA_2 | {"max_sequence_length": 16384, "rope_scaling": {"factor": 4.0, "type": "linear"}},
    "llama 3.2": LLAMA_3_2 | {"pretraining_tp": 1, "mlp_bias": False, "eos_token_id": [1, 2], "attention_dropout": 0.0},
    "smollm2": LLAMA_2
    | {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {"kv_cache_dtype": {}}},
    "mistral": MISTRAL_V01 | {"head_dim": None, "attention_dropout": 0.0},
    "qwen2 of transformers 5": QWEN2 | {"layer_types": ["full_attention"] * 24, "dtype": "bfloat16"},
    "qwen distilled": QWEN2 | {"use_mrope": False, "torch_dtype": "bfloat16"},
    "qwen3": QWEN3 | {"max_window_layers": 28, "temperature": 0.6, "top_k": 20},
}  # fmt: skip


@pytest.mark.parametrize("name", HUB)
def test_files_of_the_hub_need_no_key_to_be_ignored(name):
    config_from_hf(HUB[name])


RELABELLED = [
    ("SmolLM3Config", "llama", "no_rope_layers"),
    (
        "GraniteConfig",
        "llama",
        "embedding_multiplier=12.*; residual_multiplier=0.2.*; attention_multiplier=0.01",
    ),
    ("Ministral3Config", "mistral", "rope_parameters.llama_4_scaling_beta"),
    ("Qwen3MoeConfig", "qwen3", "num_local_experts"),
    ("Gemma2Config", "llama", "final_logit_softcapping"),
    ("Glm4Config", "llama", "every head is rotated as a whole"),
    ("GPTBigCodeConfig", "gpt2", "multi_query"),
]


@pytest.mark.parametrize(("theirs", "kind", "key"), RELABELLED)
def test_a_file_of_another_family_is_not_taken_for_one_of_ours_in_silence(tmp_path, theirs, kind, key):
    given = json.loads(getattr(transformers, theirs)().to_json_string(use_diff=False))
    given |= {"model_type": kind, "architectures": None, "hidden_act": "silu", "pad_token_id": None}
    if theirs == "GraniteConfig":  # as published; its defaults change nothing, but for the scale of scores
        given |= {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.01}
    with pytest.raises(ValueError, match=key):
        config_from_hf(given)
    (tmp_path / "config.json").write_text(json.dumps(given))
    said, _ = run("params", tmp_path)
    assert re.search(key, said)


HARMLESS = {
    "is_causal": (True, False),
    "no_rope_layers": ([1, 1], [1, 0]),
    "layer_types": (["full_attention"] * 32, ["full_attention", "linear_attention"] * 16),
    "attention_multiplier": (128**-0.5, 0.0078125),
    "query_pre_attn_scalar": (128, 256),
    "pruned_heads": ({}, {"0": [1]}),
    "sliding_window": (None, 4096),
    "partial_rotary_factor": (1.0, 0.5),
    "num_local_experts": (0, 8),
    "mlp_bias": (False, 1),
    "quantization": (None, {"bits": 4}),
}


@pytest.mark.parametrize("key", HARMLESS)
def test_a_key_is_refused_by_name_unless_it_changes_nothing(key):
    harmless, other = HARMLESS[key]
    assert config_from_hf(LLAMA_2 | {key: harmless}) == config_from_hf(LLAMA_2)
    with pytest.raises(ValueError, match=rf"^{key}="):
        config_from_hf(LLAMA_2 | {key: other})
    assert config_from_hf(LLAMA_2 | {key: other}, ignore=[key]) == config_from_hf(LLAMA_2)


def test_every_rule_lets_pass_what_changes_nothing():
    """For each family: a file with all of these keys, each at every harmless value."""
    for kind, base in {
        "gpt2": GPT2,
        "bert": BERT,
        "t5": T5,
        "llama": LLAMA_2,
        "qwen3": QWEN3 | {"num_hidden_layers": 32},
    }.items():
        for key, values, _ in (*RULES, *FORMATS[kind].must_be):
            for value in values:
                value = [value] * 32 if value == "full_attention" else value
                assert config_from_hf(base | {key: value}) == config_from_hf(base), (kind, key, value)


@pytest.mark.parametrize(
    ("given", "changes", "names"),
    [
        (GPT2, {"hidden_size": 700}, "n_embd=768 contradicts hidden_size=700"),
        (GPT2, {"n_ctx": 2048}, "n_positions=1024 contradicts n_ctx=2048"),
        (T5, {"num_hidden_layers": 5}, "num_layers=6 contradicts num_hidden_layers=5"),
        (T5, {"is_gated_act": True}, "feed_forward_proj='relu' contradicts is_gated_act=True"),
        (T5_V1_1, {"dense_act_fn": "gelu"}, "feed_forward_proj='gated-gelu' contradicts dense_act_fn='gelu'"),
        (LLAMA_3_2, rope(5e5), "rope_scaling=.* contradicts rope_parameters="),
        (LLAMA_2, {"rope_theta": 5.0} | rope(1e4), "rope_theta=5.0 contradicts rope_parameters.rope_theta=10000.0"),
        (LLAMA_2, rope(1e4, type="linear", factor=2.0), "rope_type='default' contradicts type='linear'"),
        (QWEN2, {"layer_types": ["full_attention"] * 23}, "num_hidden_layers=24 contradicts .* layer_types=23"),
        (QWEN2, {"layer_types": ["sliding_attention"] * 24}, "layer_types=24 contradicts use_sliding_window=False"),
        (MISTRAL_V01, {"layer_types": ["full_attention"] * 32}, "layer_types=0 contradicts sliding_window=4096"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)  # fmt: skip
def test_keys_that_contradict_each_other(given, changes, names):
    with pytest.raises(ValueError, match=f"{names}.*: both cannot be right$"):
        config_from_hf(given | changes)


def test_another_name_of_a_key_is_read():
    short = {key: value for key, value in GPT2.items() if key not in ("n_embd", "n_ctx")}
    assert config_from_hf(short | {"hidden_size": 768}) == config_from_hf(GPT2)


def decoded(given):
    """Returns a file with the infinity that transformers writes as a word."""
    return transformers.PreTrainedConfig._decode_special_floats(given)


def outcome(given):
    """Returns what is made of a file: a configuration, or "refused"; whether models lack its parts does not matter."""
    try:
        return described(given)
    except (TypeError, ValueError) as error:
        return "missing" if str(error).endswith(" is missing") else "refused"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", [*CASES, *(f"{kind} by default" for kind in FORMATS)])
def test_what_a_file_leaves_out_or_has_as_null_is_what_transformers_takes_for_it(case):
    """Each key of a file, one by one: left out, and null. Absent and null are not always the same.

    Keys that say which layers are of which kind are also left out together.
    """
    if case in CASES:
        _, architecture, settings = CASES[case]
        kind = getattr(transformers, architecture).config_class
    else:
        kind = type(CLASSES[case.removesuffix(" by default")])
        architecture = FORMATS[kind.model_type].architectures[0]
        settings = {"use_sliding_window": True} if kind.model_type.startswith("qwen") else {}
        settings |= NEEDED.get(kind.model_type, {})
    given = json.loads(kind(**IDS | settings).to_json_string(use_diff=False)) | {
        "architectures": [architecture]
    }
    without = [[key] for key in sorted(given.keys() - {"model_type", "architectures"})]
    if kinds := FORMATS[kind.model_type].kinds:
        rules = [key.name for key in (kinds.every, kinds.first) if isinstance(key, Key)]
        without.append([kinds.key, *rules])
    tried = 0
    for keys in without:
        others = {name: value for name, value in given.items() if name not in keys}
        for changed in (others, others | dict.fromkeys(keys)):
            try:
                theirs = kind(
                    **{name: value for name, value in decoded(changed).items() if name != "model_type"}
                )
            except (StrictDataclassError, TypeError, ZeroDivisionError):
                continue
            wanted = json.loads(theirs.to_json_string(use_diff=False)) | {"architectures": [architecture]}
            found = outcome(changed)
            assert found in ("missing", outcome(wanted)), changed.items() ^ given.items()
            tried += found != "missing"
    assert tried > 30


# A key that nobody knows


def test_a_key_that_nobody_knows_is_refused_with_the_way_on(put):
    folder = put(
        "llama", router_bias=[1, 2], rope_parameters={"rope_type": "default", "rope_theta": 1e4, "new": 3}
    )
    names = ["router_bias", "rope_parameters.new"]
    with pytest.raises(
        ValueError,
        match=r"config\.json: router_bias=\[1, 2\], rope_parameters\.new=3 are not known here and may change what the "
        r"model computes: ignore=\['router_bias', 'rope_parameters\.new'\] reads",
    ):
        load(folder)
    assert load(folder, ignore=names).config == config_from_hf(
        json.loads((folder / "config.json").read_text()), ignore=names
    )
    with pytest.raises(ValueError, match=r"^[^,]*new=3 is not known here"):
        load(folder, ignore=["router_bias"])
    with pytest.raises(TypeError, match="ignore='router_bias' must be a list of names"):
        load(folder, ignore="router_bias")
    said, status = run("params", folder)
    assert status == 0
    assert "router_bias=[1, 2], rope_parameters.new=3 are not known here" in said
    assert "known" not in run("params", folder, *(f"--ignore={name}" for name in names))[0]


def test_a_key_inside_of_the_settings_of_a_kind_of_layer():
    given = json.loads(make("gemma3").config.to_json_string(use_diff=False))
    given["rope_parameters"]["sliding_attention"]["new"] = 3
    name = "rope_parameters.sliding_attention.new"
    assert unknown_keys(given) == [name]
    with pytest.raises(ValueError, match=rf"^{name}=3 is not known here"):
        config_from_hf(given)
    assert config_from_hf(given, ignore=[name]) == config_from_hf(given, ignore=["all"])


ODD_NAMES = {
    "for a shell": ["it's", "$HOME; echo *", 'a"b\\', "-x", "größe"],
    "empty": [""],
    "inside of another": ["rope_parameters.it's new"],
    "unprintable": ["a\x1b[2J", "\u202e", "\ud800"],
    "two spaces": ["a  b"],
    "long": ["n" * 3000],
    "many": [f"key_{i}" for i in range(99)],
    "code": [*(f"key_{i}" for i in range(9)), "auto_map"],
}


@pytest.mark.parametrize("case", ODD_NAMES)
def test_what_is_suggested_for_unknown_keys_runs_as_it_is_printed(put, case):
    """On the command line and in Python, however many keys there are and whatever their names."""
    names = ODD_NAMES[case]
    rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    if case == "inside of another":
        folder = put("llama", rope_parameters=rope | {"it's new": 1})
    else:
        folder = put("llama", rope_parameters=rope, **dict.fromkeys(names, 1))
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(41)}, unk_token="w0"))
    words.save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").write_text('{"its own": 1}')
    command = ["generate", folder, "--prompt", "w1", "--n-new", 1]
    options, ignore = [], []
    for _ in ("config.json", "generation_config.json"):
        if ignore == ["all"]:
            break
        said, status = run(*command, *options)
        assert (status, said.isprintable()) == (2, True), said
        assert ("auto_map names code" in said) == (case == "code" and not options), said
        ignore = ast.literal_eval(re.search(r"ignore=(\[.*\]) reads the file without", said)[1])
        options = shlex.split(re.search(r"\(on the command line: (.*)\)$", said)[1])
        assert load(folder, ignore=ignore).config.rope_interpolation == 2.0
    assert run(*command, *options)[1] == 0, options
    assert stop_ids(folder, ignore=ignore) == []


def test_a_key_inside_of_another_is_refused_by_both_names():
    with pytest.raises(ValueError, match=r"^rope_scaling\.new=1 is not known here"):
        config_from_hf(LLAMA_2 | {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "new": 1}})


@pytest.mark.parametrize(
    ("key", "value"), [("new", 1), ("suppress_tokens", [3]), ("no_repeat_ngram_size", 3), ("forced_bos_token_id", 2)]
)  # fmt: skip
def test_what_generation_asks_for_and_is_not_done_is_refused(tmp_path, key, value):
    (tmp_path / "config.json").write_text('{"vocab_size": 9}')
    path = tmp_path / "generation_config.json"
    path.write_text(
        json.dumps({"decoder_start_token_id": 0, "eos_token_id": 1, "temperature": 0.5, key: value})
    )
    for ask, found in ((stop_ids, [1]), (start_id, 0)):
        with pytest.raises(ValueError, match=rf"generation_config\.json: {key}=.* ignore=\['{key}'\]"):
            ask(tmp_path)
        assert ask(tmp_path, ignore=[key]) == found


# Windows of a Qwen


@pytest.mark.parametrize("n_whole", [0, 2])
@torch.no_grad()
def test_a_qwen_whose_layers_all_have_a_window_or_none(tmp_path, n_whole):
    windows = {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": n_whole}
    theirs = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**LLAMA, vocab_size=41, **windows)).eval()
    theirs.save_pretrained(tmp_path)
    # as transformers 4 wrote it: without layer_types, which follow from the others
    path = tmp_path / "config.json"
    given = {key: value for key, value in json.loads(path.read_text()).items() if key != "layer_types"}
    path.write_text(json.dumps(given | windows))
    ours = load(tmp_path)
    assert ours.config.sliding_window == (None if n_whole else 7)
    given = batch("qwen2", False)
    np.testing.assert_allclose(
        ask_ours("scratch", ours, given)[0], ask_theirs("qwen2", theirs, given)[0].numpy(), atol=1e-5
    )
    assert config_from_hf(json.loads(path.read_text())) == ours.config


# Half precision


@torch.no_grad()
def test_a_t5_that_float16_cannot_hold_is_refused_and_bfloat16_is_right(tmp_path):
    """What its feed-forward networks write overflows float16; transformers computes that product in float32."""
    theirs = make("t5", sizes={"shared": 1.0, "relative": 1.0, "DenseReluDense": 60.0})
    theirs.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="dtype='float16' is too narrow for a T5"):
        load(tmp_path, room="nn", dtype="float16")
    logits, _ = ask_ours("nn", load(tmp_path, room="nn", dtype="bfloat16"), batch("t5", False))
    expected, _ = ask_theirs("t5", theirs, batch("t5", False))
    assert float((logits.float() - expected).abs().max()) < 0.05 * float(expected.abs().max())


def test_a_weight_that_float16_cannot_hold_is_named(put):
    folder = put("gpt2")
    weights = load_file(folder / "model.safetensors")
    weights["transformer.wpe.weight"][0, 0] = 7e4
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"float16.* decoder\.positions\.weight.* above 65,504"):
        load(folder, room="nn", dtype="float16")
    load(folder, room="nn", dtype="bfloat16")


# Strange files


@pytest.mark.parametrize(("keys", "what"), WITHOUT_TYPE, ids=lambda value: str(value)[:20])
def test_a_file_without_a_type_is_told_what_it_is(tmp_path, keys, what):
    path = tmp_path / "some.json"
    path.write_text(json.dumps(dict.fromkeys(keys, 1)))
    said, status = run("params", path)
    assert status == 2
    if "ModelConfig" not in what:  # `params` reads one
        assert said == f"Error: {path}: model_type is missing: {what}"
    with pytest.raises(ValueError, match=r"^model_type is missing: "):
        config_from_hf(dict.fromkeys(keys, 1))


@pytest.mark.parametrize(("kind", "given"), [("bert", BERT), ("gpt2", GPT2), ("t5", T5), ("llama", LLAMA_2)])
def test_what_a_file_without_a_type_is_told_to_add_makes_it_one(kind, given):
    old = {key: value for key, value in given.items() if key != "model_type"}
    with pytest.raises(ValueError, match=f'"{kind}"') as error:
        config_from_hf(old)
    assert "context_length" not in str(error.value)
    assert config_from_hf(old | {"model_type": kind}) == config_from_hf(given)


STRANGE = {
    "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n",
    "a web page": b"\n<!doctype html>\n<html><title>config.json</title></html>",
    "GGUF": b"GGUF\x03\x00\x00\x00",
    "zip": b"PK\x03\x04\x00\x00",
    "a pickle": pickle.dumps({"weight": 1}),
    "ONNX": b"\x08\x07\x12\x00",
    "safetensors": b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ",
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_a_file_is_in_truth_is_said(put, what):
    folder = put("gpt2")
    for name in ("config.json", "model.safetensors", "model.bin"):
        if (name, what) == ("model.safetensors", "safetensors"):
            continue
        kept = (folder / name).read_bytes() if (folder / name).exists() else None
        (folder / name).write_bytes(STRANGE[what])
        commands = {
            "config.json": [("params", folder), ("params", folder / name), ("generate", folder)],
            "model.safetensors": [("generate", folder)],
            "model.bin": [("params", folder / name), ("generate", folder / name)],
        }
        for command in commands[name]:
            said, status = run(*command)
            assert status == 2
            assert what.lower() in said.lower(), said
        if kept is not None:
            (folder / name).write_bytes(kept)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["model_index.json"], "diffusers"),
        (["adapter_config.json", "adapter_model.safetensors"], "adapter"),
        (["modules.json"], "sentence-transformers"),
        (["params.json"], "Meta's own form"),
        (["model.Q4_K_M.gguf"], "llama.cpp"),
        (["config.json", "model.onnx"], "ONNX"),
        (["config.json", "pytorch_model.bin.index.json"], "pickles"),
    ],
)
def test_what_a_folder_is_in_truth_is_said(tmp_path, names, what):
    for name in names:
        (tmp_path / name).write_text(json.dumps(GPT2) if name == "config.json" else "{}")
    for command in ("generate",) if "config.json" in names else ("params", "generate"):
        said, status = run(command, tmp_path)
        assert status == 2
        assert what in said


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (LLAMA_2, {"partial_rotary_factor": None}),
        (LLAMA_2, {"rope_parameters": {"rope_type": "default", "type": None, "partial_rotary_factor": None}}),
        (T5, {"is_gated_act": None, "tie_word_embeddings": None}),
        (BERT, {"embedding_size": 768, "emb_size": 768, "dtype": "float32", "torch_dtype": "float16"}),
        (GPT2, {"n_special": 0, "embedding_size": 768}),
    ],
    ids=["llama", "rope", "t5", "bert", "gpt2"],
)
def test_what_changes_nothing_is_not_refused(given, changes):
    assert config_from_hf(given | changes) == config_from_hf(given)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"dim": 768, "n_layers": 6, "n_heads": 12, "sinusoidal_pos_embds": False}, "DistilBERT"),
        ({"emb_dim": 2048, "dim": 2, "n_layers": 12, "n_heads": 16}, "XLM"),
        ({"dim": 288, "n_layers": 6, "n_heads": 6, "multiple_of": 32}, "Meta"),
        ({"block_size": 1024, "n_embd": 768, "n_layer": 12, "padded_vocab_size": 50304}, "LitGPT"),
    ],
)
def test_settings_of_other_programs_are_told_apart(given, what):
    with pytest.raises(ValueError, match=rf"^model_type is missing: .*{what}"):
        config_from_hf(given)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
def test_a_link_to_nothing_is_said(put, name):
    folder = put("gpt2")
    (folder / name).unlink(missing_ok=True)
    if name == "config.json":
        with pytest.raises(FileNotFoundError, match=r"config\.json is missing$"):
            load(folder)
    (folder / name).symlink_to(name)
    read = {"config.json": load, "generation_config.json": stop_ids, "tokenizer.json": tokenizer}[name]
    with pytest.raises(FileNotFoundError, match=rf"/{name} is a link to something that is missing$"):
        read(folder)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["a/config.json", "b/config.json"], "a config.json is in .*/a$"),
        (["snapshots/abc/config.json"], "a config.json is in .*/snapshots/abc$"),
        (["CONFIG.JSON"], "its CONFIG.JSON must be written config.json$"),
    ],
)
def test_where_a_model_is_instead_is_said(tmp_path, names, what):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    with pytest.raises(FileNotFoundError, match=what):
        load(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.model", "vocab.txt"])
def test_another_tokenizer_in_its_place_is_named(put, name):
    folder = put("gpt2")
    (folder / name).write_text("x")
    with pytest.raises(
        FileNotFoundError, match=rf"tokenizer\.json is missing, and its {name} is not read here"
    ):
        tokenizer(folder)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="only Linux has such a file")
def test_a_read_that_fails_names_the_file():
    assert "/proc/self/mem" in run("params", "/proc/self/mem")[0]


def test_a_path_of_windows_and_capitals(tmp_path):
    for name in ("C:\\models\\gpt2", "models\\gpt2", "D:/gpt2"):
        for command in ("params", "generate"):
            assert "a path as Windows writes it" in run(command, name)[0]
    with pytest.raises(
        ValueError, match="the file has the key 'MODEL_TYPE', which must be written 'model_type'"
    ):
        config_from_hf({key.upper(): value for key, value in GPT2.items()})


@pytest.mark.parametrize("case", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize(
    ("prefix", "what"),
    [("_orig_mod.", "torch.compile"), ("module.", "DataParallel"), ("net.model.", "another module")],
)
def test_a_prefix_of_all_weights_is_named(case, prefix, what):
    theirs = make(case)
    config = config_from_hf(json.loads(theirs.config.to_json_string(use_diff=False)))
    state = {f"{prefix}{name}": weight for name, weight in theirs.state_dict().items()}
    with pytest.raises(
        ValueError, match=f"all their names begin with '{prefix}': {what} is around the model"
    ):
        state_from_hf(config, state)


def test_a_model_can_be_traced():
    """While torch.jit traces, sizes are tensors."""
    model = load_tiny()
    ids = torch.tensor([[3, 1, 4]])
    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(model, (ids,), check_trace=False)
    assert torch.equal(traced(ids + 1), model(ids + 1))


def load_tiny():
    from glassformer.config import ModelConfig
    from glassformer.nn import Transformer

    config = ModelConfig(vocab_size=9, context_length=8, d_model=8, n_layers=1, n_heads=2)
    return Transformer(config, generator=torch.Generator().manual_seed(0)).eval()


def test_code_of_its_own_counts_only_if_it_names_other_classes():
    """DeepSeek-V3's file names code that computes what the library's class of that name does."""
    given = next(one["config"] for one in shelf() if one["name"] == "DeepSeek-V3")
    assert config_from_hf(given).n_layers == 61
    for model in ("modeling_deepseek.NewForCausalLM", "DeepseekV3ForCausalLM2", 3, None):
        auto_map = given["auto_map"] | {"AutoModelForCausalLM": model}
        with pytest.raises(ValueError, match="auto_map names code of the file's own, which is never run"):
            config_from_hf(given | {"auto_map": auto_map})
