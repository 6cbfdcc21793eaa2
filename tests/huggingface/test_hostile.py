"""Tests damaged and malicious folders: each is read or refused in one sentence, in bounded time and memory.

Small valid folders of every family are changed, field by field and byte by byte. Inputs that once used too much memory,
never finished or ended in a traceback have tests of their own.
"""

import json
import math
import shutil

import numpy as np
import pytest
import tokenizers
from bounded import bounded
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glassformer.huggingface import load, start_id, stop_ids, tokenizer
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.families.format import claims_none

from .models import CASES, make

# The first case of each family
FAMILIES = {CASES[case].model_type: case for case in reversed(CASES)}
CONFIG, GENERATION, WORDS = "config.json", "generation_config.json", "tokenizer.json"
WEIGHTS, SHARD, INDEX = "model.safetensors", "one.safetensors", "model.safetensors.index.json"

N_BYTES = 128 * 1024**2  # more than a folder of a few kilobytes needs by far
SECONDS = 2.0  # of the processor
SENTENCE = 1500  # characters, a path of the test's included


def test_every_family_has_a_small_folder():
    whole = {kind for kind, form in FORMATS.items() if form.claims is not claims_none}
    assert set(FAMILIES) == whole, "add to CASES in models.py"


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """Returns the files of a small folder of every family, by name."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    files = {}
    for family, case in FAMILIES.items():
        folder = tmp_path_factory.mktemp(family)
        make(case).save_pretrained(folder)
        config = json.loads((folder / CONFIG).read_text())
        files[family] = {
            CONFIG: json.dumps(config | {"eos_token_id": 1}).encode(),
            GENERATION: json.dumps({"decoder_start_token_id": 0, "eos_token_id": [1, 2]}).encode(),
            WORDS: words.to_str().encode(),
            WEIGHTS: (folder / WEIGHTS).read_bytes(),
        }
    return files


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "folder"


EVERYTHING = (load, tokenizer, stop_ids, start_id)


def refusals(place, files, asks=EVERYTHING):
    """Returns the errors for a folder with these files, for each request; a model that loads must compute."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    errors, model = [], None
    with bounded(SECONDS, N_BYTES, of_the_processor=True), np.errstate(all="ignore"):
        for ask in asks:
            try:
                found = ask(place)
                model = found if ask is load else model
            except (ValueError, OSError) as error:
                errors.append(error)
        if model is not None:
            ids = np.zeros((1, 2), np.int64)
            model(ids, **({"source": ids} if model.config.family == "encoder-decoder" else {}))
    said = [str(error) for error in errors]
    assert all(type(error) in (ValueError, FileNotFoundError) for error in errors), errors
    assert all(str(place) in words and words.isprintable() and len(words) < SENTENCE for words in said), said
    return said


# Changes

DELETED = "deleted"
NUMBERS = [-1, 0, 1, 2, 3, 7, 10**5, 10**9, 2**31, 2**63, 10**30, 10**400]
NUMBERS += [0.0, 0.5, -1.5, 1e38, 1e308, math.nan]
WORDS_TO_TRY = ["", "x", "\x1b[2J", "linear", "\ud800", "9" * 3000, "../../etc/passwd", "gelu", "\0"]
THINGS = [None, True, False, [], {}, [1], ["x"], [[]]]
THINGS += [{"rope_type": "linear"}, {"factor": 0}, {"rope_type": []}]
SPECIAL = ["architectures", "rope_parameters", "rope_scaling", "rope_theta", "sliding_window", "head_dim"]
SPECIAL += [
    "use_sliding_window",
    "quantization_config",
    "partial_rotary_factor",
    "num_key_value_heads",
    "new",
]

family_names = st.sampled_from(sorted(FAMILIES))
values = st.sampled_from([*NUMBERS, *WORDS_TO_TRY, *THINGS, DELETED])
changes = st.lists(st.tuples(st.integers(0, 99), values), min_size=1, max_size=3)
damages = st.lists(st.tuples(st.integers(0, 9999), st.binary(max_size=4)), min_size=1, max_size=3)


def changed(content, edits, more=()):
    """Yields a JSON object with some fields, chosen by number, set or deleted, including nested fields."""
    given = json.loads(content)
    places = [(given, name) for name in [*given, *more]]
    for inner in given.values():
        if isinstance(inner, dict):
            places += [(inner, name) for name in [*inner, "new"]]
            places += [(one, name) for one in inner.values() if isinstance(one, dict) for name in one]
    for number, value in edits:
        holder, name = places[number % len(places)]
        if value == DELETED:
            holder.pop(name, None)
        else:
            holder[name] = value
    return json.dumps(given).encode()


def damaged(content, edits):
    """Yields bytes with some replaced by others; an empty replacement cuts off the rest."""
    for number, new in edits:
        at = number % (len(content) + 1)
        content = content[:at] + (new + content[at + len(new) :] if new else b"")
    return content


def parts(content):
    """Returns the header of a safetensors file, and its numbers."""
    ends = 8 + int.from_bytes(content[:8], "little")
    return content[8:ends], content[ends:]


def joined(header, numbers):
    return len(header).to_bytes(8, "little") + header + numbers


def tries(n):
    """Uses the same examples in every run."""
    return settings(derandomize=True, database=None, deadline=None, max_examples=n)


# What was found


def test_what_is_changed_is_valid(place, valid):
    for family, files in valid.items():
        assert refusals(place, files) == [], family


BACK = {
    "deep": ("gpt2", lambda text: b'{"a":' * 100_000),
    "deep lists": ("gpt2", lambda text: text[:-1] + b', "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a mark": ("gpt2", lambda text: b"\xff\xfe" + text),
    "blocks": ("gpt2", {"n_layer": 10**5}),
    "vocabulary, small enough for a model": ("llama", {"vocab_size": 10**7}),
    "heads": ("llama", {"num_attention_heads": 10**7, "num_key_value_heads": 10**7}),
    "epsilon": ("bert", {"layer_norm_eps": 10**400}),
    "theta": ("qwen3", {"rope_theta": 10**400, "rope_parameters": None, "rope_scaling": None}),
    "NaN": ("qwen2", {"rms_norm_eps": math.nan}),
    "escapes": ("mistral", {"hidden_act": "\x1b[2J"}),
}


@pytest.mark.parametrize("case", BACK)
def test_configs_that_once_had_a_traceback(place, valid, case):
    family, change = BACK[case]
    files = dict(valid[family])
    if callable(change):
        files[CONFIG] = change(files[CONFIG])
    else:
        files[CONFIG] = json.dumps(json.loads(files[CONFIG]) | change).encode()
    assert refusals(place, files)[0].startswith(str(place / CONFIG))


def test_a_header_with_thousands_of_strange_tensors(place, valid):
    header, numbers = parts(valid["gpt2"][WEIGHTS])
    end = {"dtype": "F32", "shape": [0], "data_offsets": [len(numbers)] * 2}
    strange = {f"strange \x1b[2J {i}": end for i in range(3000)}
    header = json.dumps(json.loads(header) | strange).encode()
    (said,) = refusals(place, valid["gpt2"] | {WEIGHTS: joined(header, numbers)})
    assert said.endswith("; and 2,992 more")


# What may be found


@tries(130)
@given(family=family_names, edits=changes)
@example(family="gpt2", edits=[(0, DELETED)])
def test_configs(place, valid, family, edits):
    files = valid[family]
    refusals(place, files | {CONFIG: changed(files[CONFIG], edits, SPECIAL)}, (load, stop_ids))


@tries(60)
@given(family=family_names, edits=changes)
def test_headers(place, valid, family, edits):
    files = valid[family]
    header, numbers = parts(files[WEIGHTS])
    refusals(place, files | {WEIGHTS: joined(changed(header, edits), numbers)}, (load,))


@tries(40)
@given(edits=st.lists(st.tuples(st.integers(0, 99), values | st.just(SHARD)), min_size=1, max_size=3))
@example(edits=[(0, DELETED)])
@example(edits=[(1, "/dev/zero.safetensors")])
def test_indexes(place, valid, edits):
    files = dict(valid["llama"])
    files[SHARD] = files.pop(WEIGHTS)
    names = [name for name in json.loads(parts(files[SHARD])[0]) if name != "__metadata__"]
    index = json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, SHARD)}).encode()
    refusals(place, files | {INDEX: changed(index, edits)}, (load,))


@tries(40)
@given(edits=changes)
@example(edits=[(1, "5")])
@example(edits=[(1, [1, "2"])])
def test_ids_of_generation(place, valid, edits):
    files = valid["t5"]
    refusals(
        place, files | {GENERATION: changed(files[GENERATION], edits, ["bos_token_id"])}, (stop_ids, start_id)
    )


@tries(60)
@given(edits=changes)
def test_tokenizers(place, valid, edits):
    files = valid["gpt2"]
    refusals(place, files | {WORDS: changed(files[WORDS], edits)}, (tokenizer,))


@tries(80)
@given(family=family_names, name=st.sampled_from([CONFIG, GENERATION, WORDS, WEIGHTS]), edits=damages)
@example(family="gpt2", name=WEIGHTS, edits=[(0, b"\xff\xff\xff\xff"), (4, b"\xff\xff\xff\xff")])
@example(family="gpt2", name=GENERATION, edits=[(5, b"")])
def test_damage(place, valid, family, name, edits):
    files = valid[family]
    refusals(place, files | {name: damaged(files[name], edits)})
