"""Tests that widgets/engine/model_file.js and model_files.py write, read and refuse the same files."""

import base64
import json
import random
import struct
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest
import torch
from close import ENGINE, SINGLE, assert_close
from linking import base64_of, opened
from own_models import CHARACTERS, SIZES, in_a_file, in_one_file, small, trained
from safetensors import safe_open
from safetensors.numpy import load_file, save

from glassformer import checkpoints, model_files, onepage, shipped, text, untrusted_files
from glassformer.config import LATER, ModelConfig
from glassformer.widgets.engine.model import source_of

PAGE = """() => {
  const asFile = ({ path, size, bytes }) => ({
    name: path.split("/").at(-1),
    webkitRelativePath: path.includes("/") ? path : "",
    size: size ?? bytes.length,
    arrayBuffer: async () => bytes.slice().buffer,
    slice: (start, end) => new Blob([bytes.slice(start, end)]),
  });
  const open = (files) => js.opened(files.map(asFile));
  const tried = async (files) => {
    try {
      await open(files);
      return null;
    } catch (error) {
      if (!(error instanceof js.Refusal)) return `BROKEN ${error}`;
      return error.message;
    }
  };
  const decoded = (files) => files.map(({ bytes, ...more }) => ({ bytes: bytesOf(bytes), ...more }));
  window.asked = {
    defaults: () => js.DEFAULTS,
    signs: () => js.SIGNS,
    refusal: (files) => tried(decoded(files)),
    async opened(files, ids) {
      const { name, config, characters, tensors, facts } = await open(decoded(files));
      const logits = new js.Transformer(config, tensors).forward(ids);
      const saved = js.written({ config, tokenizer: { characters }, tensors, facts: { ...facts, text: "é €" } });
      return { name, config, characters, facts, logits: Array.from(logits), saved: textOf(saved) };
    },
    // Every edit is [start, end, bytes in base64]: what is there instead.
    async edited(base, edits) {
      const all = bytesOf(base);
      const found = [];
      for (const [start, end, news] of edits) {
        const bytes = Uint8Array.from([...all.subarray(0, start), ...bytesOf(news), ...all.subarray(end)]);
        found.push(await tried([{ path: "m.safetensors", bytes }]));
      }
      return found;
    },
  };
}"""


@pytest.fixture(scope="module")
def reader(browser):
    page = opened(browser, "model_file", "transformer", "untrusted")
    page.evaluate(PAGE)

    def ask(function, *arguments):
        return page.evaluate("([name, given]) => window.asked[name](...given)", [function, list(arguments)])

    yield ask
    page.close()


def file(path, content, **more):
    """Returns a file that the reader chooses."""
    content = content.encode() if isinstance(content, str) else content
    return {"path": path, "bytes": base64_of(content), **more}


def one(content):
    return [file("m.safetensors", content)]


IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def logits_of(found, model):
    return np.array(found["logits"]).reshape(-1, model.config.vocab_size)


# --- round trips ---


def test_defaults_are_those_of_a_configuration(reader):
    whole = {field.name: field.default for field in fields(ModelConfig) if field.default is not MISSING}
    assert reader("defaults") == {name: value for name, value in whole.items() if name not in LATER}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("norms", [True, False])
def test_what_the_page_reads_and_saves_is_the_same_model(reader, tmp_path, dtype, norms):
    model = small(qk_norm=norms, embedding_norm=norms, rope_base=500.0, attention_scale=0.3)
    found = reader("opened", one(in_one_file(model, dtype=dtype)), IDS)
    assert found["name"] == "m"
    assert found["characters"] == CHARACTERS
    assert found["config"] == json.loads(model.config.to_json())
    assert found["facts"] == {"steps": "5"}
    path = tmp_path / "saved.safetensors"
    path.write_bytes(base64.b64decode(found["saved"]))
    read_again = model_files.load(path)
    assert read_again.config == model.config
    assert read_again.tokenizer.characters == CHARACTERS
    with safe_open(path, "np") as file:
        facts = file.metadata()
    assert (facts["steps"], facts["text"]) == ("5", "é €")
    for name, values in model.named_parameters().items():
        np.testing.assert_array_equal(read_again.weights[name], values.astype(dtype))
    again = checkpoints.model_of(read_again.config, read_again.weights)
    assert_close(logits_of(found, model), again(np.array(IDS)), SINGLE)
    if norms and dtype is np.float32:
        again = checkpoints.model_of(model.config, read_again.weights, room="nn")
        with torch.no_grad():
            assert_close(again(torch.tensor(IDS)).numpy(), logits_of(found, model), SINGLE)


def test_what_an_earlier_page_saved_is_the_same_model(reader):
    before = Path(__file__).parents[1] / "before"
    wanted = load_file(before / "meant.safetensors")["page/whole"][:10]  # the first of two texts
    found = reader("opened", one((before / "page.safetensors").read_bytes()), [1, 4, 2, 0, 2, 7, 3, 3, 5, 6])
    assert found["characters"] == "\n !Abcé€"
    assert_close(np.reshape(found["logits"], wanted.shape), wanted, ENGINE)


def test_the_one_page_reads_it(tmp_path):
    model = small()
    page = onepage.GPT(tmp_path / in_a_file(tmp_path, model))
    assert "".join(page.alphabet) == CHARACTERS
    assert_close(page(IDS, [[] for _ in range(2)]), model(np.array(IDS)), SINGLE)


def files_of(folder, root):
    return [
        file(path.relative_to(root).as_posix(), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def test_a_run_of_train_is_opened(reader, tmp_path):
    folder = trained(tmp_path / "my-run")
    last = checkpoints.latest(folder)
    assert len(list(folder.glob("step-*"))) == 2
    model = checkpoints.load_model(folder)  # the average
    for files, name in (
        (files_of(folder, tmp_path), "my-run"),
        (files_of(last, folder), "step 4"),
        (files_of(last, last), "step 4"),
    ):
        found = reader("opened", files, IDS)
        assert found["name"] == name
        assert found["facts"] == {"steps": "4"}
        assert_close(logits_of(found, model), model(np.array(IDS)), SINGLE)


def test_a_damaged_run_is_refused(reader, tmp_path):
    last = checkpoints.latest(trained(tmp_path / "my-run"))
    files = {path.name: path.read_bytes() for path in last.iterdir()}

    def said(**changes):
        new = {name: content for name, content in (files | changes).items() if content is not None}
        return reader("refusal", [file(name, content) for name, content in new.items()])

    assert said() is None
    assert said(**{"average.safetensors": None}) == "average.safetensors is missing among the files"
    assert said(**{"tokenizer.json": None}) == "tokenizer.json is missing among the files"
    description = files["training.json"]
    assert said(**{"training.json": description.replace(b"checkpoint 1", b"checkpoint 2")}).startswith(
        "training.json was not written by this version"
    )
    assert said(**{"training.json": description[:-20]}) == "training.json is not JSON"
    assert said(**{"training.json": description.replace(b'"step": 4', b'"step": 5')}) == (
        "training.json does not contain what was written: its checksum differs"
    )
    assert "lacks the model" in said(**{"training.json": b'{"format": "glassformer checkpoint 1"}'})
    for name in ("average.safetensors", "tokenizer.json"):
        changed = files[name][:-3] + bytes([files[name][-3] ^ 1]) + files[name][-2:]
        assert said(**{name: changed}) == (
            f"{name} does not contain what was written: its checksum differs from that in training.json"
        )


def test_a_shipped_folder_is_opened(reader):
    folder = shipped.PLACE / "shakespeare"
    names = ("config.json", "tokenizer.json", "model.safetensors", "card.json")
    files = [file(f"shakespeare/{name}", (folder / name).read_bytes()) for name in names]
    model, _ = shipped.load()
    found = reader("opened", files, IDS)
    assert found["name"] == "shakespeare"
    assert_close(logits_of(found, model), model(np.array(IDS)), SINGLE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("words", "the tokenizer reads byte pairs"),
        ("masked", 'cannot run in a page: family=encoder is not "decoder"'),
        ("dates", 'cannot run in a page: family=encoder-decoder is not "decoder"'),
    ],
)
def test_other_models_of_the_book_are_refused_by_name(reader, name, words):
    folder = shipped.PLACE / name
    files = [
        file(f"{name}/{part}", (folder / part).read_bytes())
        for part in ("config.json", "tokenizer.json", "model.safetensors")
    ]
    assert words in reader("refusal", files)


# --- refusals ---


def test_several_runs_are_refused_like_several_models(reader, tmp_path):
    trained(tmp_path / "both" / "one")
    trained(tmp_path / "both" / "two")
    assert reader("refusal", files_of(tmp_path / "both", tmp_path)) == (
        "These are several runs: choose the folder of one of them"
    )


def test_files_of_another_kind_are_named_as_in_python(reader, tmp_path):
    assert reader("signs") == [[sign.decode("latin-1"), what] for sign, what in untrusted_files.SIGNS]
    for sign, what in untrusted_files.SIGNS[:6]:
        content = (
            sign.swapcase() + b"\x02\x04\xff" + bytes(100)
            if sign[:1] == b"<"
            else sign + b"\x02\x04\xff" * 40
        )
        assert reader("refusal", one(content)) == f"m.safetensors is {what}"
        assert python_says(tmp_path / "m.safetensors", content) in (
            f"m.safetensors is {what}",
            f"model='m.safetensors' is {what}",
        )
        assert reader("refusal", [file("model.bin", content)]) == f"model.bin is {what}"
        folder = [file(name, content) for name in ("config.json", "tokenizer.json", "model.safetensors")]
        assert reader("refusal", folder) == f"config.json is not text but {what}"
    page = b"\xef\xbb\xbf \n<!doctype HTML><html></html>"
    folder = [file(name, page) for name in ("config.json", "tokenizer.json", "model.safetensors")]
    assert reader("refusal", folder).startswith("config.json is not JSON but a web page")
    assert reader("refusal", one(struct.pack("<Q", 0x80) + bytes(200))).endswith("does not begin with {")


def test_files_that_are_no_model_are_refused(reader):
    def said(*files):
        return reader("refusal", list(files))

    assert said() == said(file("a.txt", "hello"))
    assert said().startswith("None of these files is a model")
    good = in_one_file(small())
    assert said(file("a.safetensors", good), file("b.safetensors", good)).startswith("These are 2 files")
    assert said(file("a.safetensors", good, size=2**26 + 1)) == (
        "a.safetensors has 64.0 MB, more than the 64.0 MB that this page opens"
    )
    assert said(file("x/config.json", "{}"), file("y/config.json", "{}")).startswith(
        "These are several models"
    )
    assert said(file("config.json", "{}")) == "tokenizer.json is missing among the files"
    weights = save({"a": np.zeros(3, np.float32)})
    assert said(file("model.safetensors", weights)).startswith("model.safetensors has weights alone")
    gpt2 = [file("config.json", '{"model_type": "gpt2"}'), file("tokenizer.json", "{}")]
    assert "config.json of another library" in said(*gpt2, file("model.safetensors", weights))


def python_says(path, content):
    """Returns why Python refuses to show a file in a page, without the folder; None if it does not."""
    path.write_bytes(content)
    try:
        source = source_of(str(path))
    except (ValueError, TypeError) as error:
        return str(error).replace(str(path), path.name)
    if not isinstance(source.tokenizer, text.CharTokenizer):
        return "byte pairs"
    return None if source.config.family == "decoder" else "family"


def weights_with(**changes):
    weights = {name: values.copy() for name, values in small().named_parameters().items()}
    return {name: values for name, values in (weights | changes).items() if values is not None}


def metadata(**changes):
    config = json.loads(small().config.to_json())
    texts = {
        "format": "glassformer model 1",
        "config": json.dumps(config | changes.pop("config", {})),
        "tokenizer": text.CharTokenizer(CHARACTERS).to_json(),
    }
    return {name: value for name, value in (texts | changes).items() if value is not None}


def with_header(header, numbers=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + numbers


def sharing(name, other):
    """Returns a model file in which one weight has the bytes of another, and nobody its own."""
    content = in_one_file(small())
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header[name]["data_offsets"] = header[other]["data_offsets"]
    return with_header(header, content[end:])


def edited(old, new):
    """Returns a model file with something else in its header, once."""
    content = in_one_file(small())
    end = 8 + int.from_bytes(content[:8], "little")
    assert content[8:end].count(old) == 1
    return with_header(content[8:end].replace(old, new), content[end:])


def in_a_text(words):
    return words.replace(b'"', rb"\"")


def with_a_large_weight():
    weights = weights_with()
    weights["unembedding.weight"][3, 7] = -2e19
    return save(weights, metadata())


PLACE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
W = "decoder.norm.weight"
INFINITE = np.full(16, np.inf, np.float32)
HOSTILE = {
    "empty": b"",
    "seven bytes": b"1234567",
    "a header beyond the file": struct.pack("<Q", 100) + b"{}",
    "a header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "not JSON": with_header(b"{nothing}"),
    "not UTF-8": with_header(b'{"\xff": 1}'),
    "beyond the end": with_header({"a": PLACE}, bytes(4)),
    "overlapping": with_header({"a": PLACE, "b": PLACE}, bytes(8)),
    "two weights in one place": sharing(W, "decoder.embedding_norm.weight"),
    "a hole": with_header({"a": PLACE | {"data_offsets": [4, 12]}}, bytes(12)),
    "enormous": with_header({"a": PLACE | {"shape": [2**62, 2**62]}}, bytes(8)),
    "a name of the language": with_header({"__proto__": PLACE}, bytes(8)),
    "weights alone": save(weights_with()),
    "another format": save(weights_with(), metadata(format="glassformer model 2")),
    "no configuration": save(weights_with(), metadata(config_=None) | {"config": ""}),
    "no tokenizer": save(weights_with(), metadata(tokenizer=None)),
    "characters twice": save(weights_with(), metadata(tokenizer='{"characters": "aa"}')),
    "infinite": save(weights_with(**{W: INFINITE}), metadata()),
    "NaN": save(weights_with(**{W: np.full(16, np.nan, np.float32)}), metadata()),
    "a weight too many": save(weights_with(more=np.zeros(1, np.float32)), metadata()),
    "another shape": save(weights_with(**{W: np.ones((4, 4), np.float32)}), metadata()),
    "float64": save(weights_with(**{W: np.ones(16)}), metadata()),
    "a huge model": save(weights_with(), metadata(config={"n_layers": 10**12})),
    "a huge context": save(weights_with(), metadata(config={"context_length": 10**9})),
    "no blocks": save(weights_with(), metadata(config={"n_layers": 0})),
    "an unknown field": save(weights_with(), metadata(config={"colour": "red"})),
    "a negative epsilon": save(weights_with(), metadata(config={"norm_eps": -1})),
    "dropout of 1": save(weights_with(), metadata(config={"dropout": 1.0})),
    "yarn": save(
        weights_with(), metadata(config={"rope_scaling": "yarn", "rope_slow": 3.0, "rope_fast": 2.0})
    ),
    "learned positions": in_one_file(small(positions="learned")),
    "grouped heads": save(weights_with(), metadata(config={"n_kv_heads": 1})),
    "an encoder": save(weights_with(), metadata(config={"family": "encoder"})),
    "a weight twice": edited(b'{"__metadata__"', b'{"decoder.norm.weight": {}, "__metadata__"'),
    "metadata twice": edited(b'{"__metadata__"', b'{"__metadata__": {}, "__metadata__"'),
    "a field twice": edited(in_a_text(b'"d_model":'), in_a_text(b'"d_model": 8, "d_model":')),
    "a list as a dtype": edited(
        b'"decoder.norm.weight":{"dtype":"F32"', b'"decoder.norm.weight":{"dtype":["F32"]'
    ),
    "a text as a number": save(weights_with(), metadata(config={"d_model": "16"})),
    "a decoder of a decoder": save(weights_with(), metadata(config={"n_decoder_layers": 2})),
    "too large": with_a_large_weight(),
}
# What the page says of some of them; and those of which Python begins with the same words.
SAID = {
    "another format": "m.safetensors has the format 'glassformer model 2', which another version of Glassformer wrote: "
    "this one reads 'glassformer model 1'",
    "too large": "m.safetensors: unembedding.weight contains -2e+19 at 3, 7: every weight must be finite and smaller "
    "than 1e+19",
    "a text as a number": 'd_model="16" must be a whole number',
    "a field twice": "has the field 'd_model' twice in one object",
}
ALIKE = ("weights alone", "no tokenizer", "NaN", "infinite", "learned positions", "a hole", "no blocks")


@pytest.mark.parametrize("name", HOSTILE)
def test_both_refuse_what_is_hostile_in_one_sentence(reader, tmp_path, name):
    here = reader("refusal", one(HOSTILE[name]))
    there = python_says(tmp_path / "m.safetensors", HOSTILE[name])
    for said in (here, there):
        assert said is not None
        assert not said.startswith("BROKEN")
        assert "\n" not in said
        assert len(said) < 600
    if name not in ("an encoder",):  # Python has views for them
        assert "m.safetensors" in here
        assert "m.safetensors" in there
    assert SAID.get(name, "") in here
    if name in ALIKE:
        assert here.split()[:3] == there.replace("model='m.safetensors'", "m.safetensors").split()[:3]


def test_what_is_no_mistake_is_taken_by_both(reader, tmp_path):
    """The configuration may leave out fields that have a default, and null is derived."""
    given = {name: SIZES[name] for name in SIZES} | {
        "d_head": None,
        "n_kv_heads": None,
        "attention_scale": None,
    }
    for content in (
        save(weights_with(), metadata() | {"config": json.dumps(given)}),
        save(weights_with(), metadata(config={"dropout": 0.1, "rope_base": 10})),
    ):
        assert reader("refusal", one(content)) is None
        assert python_says(tmp_path / "m.safetensors", content) is None


def edits(content, seed, count):
    """Returns random damage: flipped bits, other bytes and words, and cuts, as [start, end, what is there instead]."""
    rng = random.Random(seed)
    header = 8 + int.from_bytes(content[:8], "little")
    words = [*rb"0 -1 null [] {} true 1e3 F16 BF16".split(), b"9" * 20, b'""', b"\xff", b"\0", b'\\"']
    found = []
    for _ in range(count):
        place = rng.randrange(header) if rng.random() < 0.8 else rng.randrange(len(content))
        match rng.randrange(5):
            case 0:
                found.append((place, len(content), b""))  # cut off
            case 1:
                found.append((place, place + 1, bytes([content[place] ^ 1 << rng.randrange(8)])))
            case 2:
                found.append((place, place + 1, bytes([rng.randrange(256)])))
            case 3:
                found.append((place, place + rng.randrange(4), rng.choice(words)))
            case 4:
                found.append((place, place + rng.randrange(20), b""))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_both_take_or_refuse_the_same_damaged_files(reader, tmp_path, seed):
    content = in_one_file(small(seed))
    damage = edits(content, seed, 600)
    sent = [[start, end, base64_of(news)] for start, end, news in damage]
    here = reader("edited", base64_of(content), sent)
    assert not [said for said in here if said and said.startswith("BROKEN")]
    differ = []
    for said, (start, end, news) in zip(here, damage, strict=True):
        there = python_says(tmp_path / "m.safetensors", content[:start] + news + content[end:])
        if (said is None) != (there is None):
            differ.append((start, content[start - 20 : start], content[start:end][:20], news, said, there))
    assert not differ
    assert sum(said is not None for said in here) > 400  # most damage is seen
