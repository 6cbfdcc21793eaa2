"""Tests what all views of a running model share: accepted models, how weights arrive, and how a text is read."""

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from close import SINGLE, assert_close
from linking import link
from own_models import CHARACTERS, TOKENIZER, in_a_file, small, trained
from safetensors.numpy import load as arrays_from
from traitlets import TraitError

from glassformer import checkpoints, nn, pretrained, shipped, text, widgets
from glassformer.config import CHOICES, ModelConfig
from glassformer.layers import QK_NORMS
from glassformer.train.recipe import special_ids
from glassformer.widgets.engine.model import (
    EXPERTS,
    LINE,
    MOST_WEIGHTS,
    MUST_BE,
    SPECIAL,
    ModelView,
    packed,
    refusal,
    source_of,
)
from glassformer.widgets.kit.modules import read


class Probe(ModelView, module="model"):
    """A view that shows nothing."""


# --- which configurations run in a page ---

SHIPPED = {name: json.loads(source_of(name).config.to_json()) for name in shipped.NAMES}
# What the engine takes as it comes. A new field of ModelConfig belongs here, to MUST_BE, or to what plays no part.
FREE = {
    "vocab_size": 3,
    "context_length": 5,
    "d_model": 6,
    "n_layers": 7,
    "n_heads": 4,
    "family": "encoder",
    "n_decoder_layers": None,
    "n_kv_heads": 4,
    "d_head": 10,
    "d_ff": 11,
    "rope_base": 12.5,
    "norm_eps": 1e-6,
    "attention_scale": 0.125,
    "qk_norm": False,
    "embedding_norm": False,
}
NO_PART = {"t5_n_buckets": 16, "t5_max_distance": 64, "dropout": 0.5}
# How pairs are stretched, if they are: with a factor of 1 they are not
NO_PART |= {"rope_scaling": "yarn", "rope_original_context": 16, "rope_slow": 2.0, "rope_fast": 9.0}
# One kind with the book's experts runs in a page, but no other, and no second kind.
[SPARSE] = SHIPPED["experts"]["kinds"].values()
OWN = SPARSE["experts"]["Experts"]
OTHER_EXPERTS = {
    **{"scores": "sigmoid", "sum_eps": 1e-20, "choice_bias": True, "n_groups": 2, "router_bias": True},
    **{"by_token": True, "weighs": "input", "d_shared": 8, "limit": 7.0, "offset": 1.0, "sharpness": 1.702},
}
REFUSED_KINDS = [
    *({"sparse": {"experts": {"Experts": OWN | {name: value}}}} for name, value in OTHER_EXPERTS.items()),
    {"sparse": SPARSE | {"sliding_window": 3}},
    {"sparse": SPARSE, "dense": {}},
    {"sparse": {"d_ff": 8}},
]
TAKEN_KINDS = [
    {"sparse": SPARSE | {"d_ff": 8}},
    {"a": {"experts": {"Experts": OWN | {"n_experts": 3, "top_k": 1, "renormalize": False, "scale": 2.5}}}},
]
OTHERS = {
    **{
        name: [value for value in CHOICES[name] if value != MUST_BE[name]]
        for name in CHOICES
        if name in MUST_BE
    },
    **{name: [True] for name in ("feedforward_bias", "head_bias", "head_transform", "pooler")},
    "rope_interpolation": [4.0, 2.5],
    "rope_attention_factor": [1.25],
    "sliding_window": [3],
    "embedding_scale": [8, 11.313708498984761],
    "head_scale": [0.5],
    "n_segments": [2],
    "n_kv_heads": [1, 2],
    "qk_norm": [*QK_NORMS],
    "logit_cap": [30.5],
    "rope_share": [0.5],
    "rope_proportional": [True],
    "rope_truncate": [False],
    "kinds": [{"near": {"sliding_window": 3}}, *REFUSED_KINDS],
    "order": ["near*5 far"],
    "streams": [{"Streams": {"n_streams": 4}}],
    "layer_embeddings": [{"LayerEmbeddings": {"d_layer": 4}}],
}


def test_every_field_of_a_configuration_is_judged():
    assert {field.name for field in fields(ModelConfig)} == {*MUST_BE, *FREE, *NO_PART}
    assert {*OTHERS} == {*MUST_BE, "n_kv_heads", "qk_norm"}
    assert OTHER_EXPERTS.keys() == EXPERTS.keys()


def test_python_and_javascript_refuse_the_same_in_the_same_words(call):
    base = SHIPPED["shakespeare"]
    taken = [*SHIPPED.values(), *(base | {name: value} for name, value in (FREE | NO_PART).items())]
    taken += [base | {"kinds": kinds} for kinds in TAKEN_KINDS]
    others = [(name, base | {name: value}) for name in OTHERS for value in OTHERS[name]]
    refused = [config for _, config in others]
    found = call.each("transformer", "refusal", [[config] for config in (*taken, *refused)])
    assert found[: len(taken)] == [refusal(config) for config in taken] == [None] * len(taken)
    words = [refusal(config) for config in refused]
    assert found[len(taken) :] == words
    for (name, _), said in zip(others, words, strict=True):
        assert said.startswith(f"{name}=")
    assert refusal(base | {"rope_interpolation": 4.0}) == "rope_interpolation=4 is not 1"
    assert refusal(base | {"pooler": True}) == "pooler=true is not false"
    assert refusal(base | {"n_kv_heads": 2}) == "n_kv_heads=2 is not n_heads=4"


# --- runs of one's own ---


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_run_of_ones_own_is_taken(tmp_path, dtype):
    folder = str(trained(tmp_path / "run", dtype=dtype))
    view = Probe(folder)
    assert view.model == folder
    assert view._characters == CHARACTERS
    assert view.text == "".join(c for c in LINE if c in CHARACTERS)
    assert view._config == json.loads(checkpoints.load(folder).model_config.to_json())
    weights = arrays_from(view._source.weights)
    assert view._digest == checkpoints.checksum_of(view._source.weights)
    best = checkpoints.load(folder).best
    assert best.keys() == weights.keys()
    for name, array in weights.items():
        assert array.dtype == np.float32  # which the page can read
        np.testing.assert_array_equal(array, best[name].astype(np.float32))
    ids = np.arange(5)[None]
    expected = checkpoints.load_model(folder)(ids)
    assert_close(view._source.model(ids), expected, SINGLE)


def test_a_run_whose_text_is_another_begins_with_what_it_knows(tmp_path):
    greek = "".join(chr(ord("α") + i) for i in range(len(CHARACTERS)))
    view = Probe(str(trained(tmp_path, tokenizer=text.CharTokenizer(greek))))
    assert view.text == "α"


REFUSED = {
    "no such model": (
        {},
        "nowhere",
        "nowhere is neither a file or folder here nor one of shakespeare, words, experts, masked, dates",
    ),
    "no tokenizer": (
        {"tokenizer": None},
        None,
        "has no tokenizer, so a view cannot read a text: pass it as tokenizer",
    ),
    "byte pairs": (
        {"tokenizer": text.BytePairTokenizer.from_text(text.corpus()[:2000], 260), "vocab_size": 260},
        None,
        "is a BytePairTokenizer, but must be a CharTokenizer",
    ),
    "positions": ({"positions": "learned"}, None, 'cannot run in a page: positions="learned" is not "rope"'),
    "a head": ({"head": "tied"}, None, 'cannot run in a page: head="tied" is not "untied"'),
    "shared keys": ({"n_kv_heads": 1}, None, "cannot run in a page: n_kv_heads=1 is not n_heads=2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_run_is_refused_in_words(tmp_path, case):
    settings, name, words = REFUSED[case]
    name = name or str(trained(tmp_path, **settings))
    with pytest.raises(TraitError) as refused:
        Probe(name)
    assert name in str(refused.value)
    assert words in str(refused.value)


def in_torch(model):
    twin = nn.Transformer(model.config, generator=None)
    twin.load_state_dict({name: torch.tensor(weight) for name, weight in model.state_dict().items()})
    return twin


FORMS = {
    "in NumPy": lambda path: (small(), TOKENIZER),
    "in double precision": lambda path: (small(dtype=np.float64), TOKENIZER),
    "in PyTorch": lambda path: (in_torch(small()), TOKENIZER),
    "in bfloat16": lambda path: (in_torch(small()).to(torch.bfloat16), TOKENIZER),
    "opened": lambda path: (pretrained.load(path), None),
    "opened in PyTorch": lambda path: (pretrained.load(path, room="nn"), None),
    "its path": lambda path: (Path(path), None),
    "its name": lambda path: (path, None),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_model_gives_the_same_view(tmp_path, form):
    path = in_a_file(tmp_path, small())
    model, tokenizer = FORMS[form](path)
    view = Probe(model, tokenizer=tokenizer)
    assert view.model == view._own == (path if form.startswith("its") else "your model")
    assert view._characters == CHARACTERS
    ids = np.arange(5)[None]
    bound = 0.02 if form == "in bfloat16" else 1e-6
    np.testing.assert_allclose(view._source.model(ids), small()(ids), rtol=0, atol=bound)
    assert Probe()._own == ""


def test_a_view_shows_the_model_as_it_was():
    model = small()
    view = Probe(model, tokenizer=TOKENIZER)
    model.token_embedding.weight[...] = 0
    assert view._source.model.token_embedding.weight.any()


def not_finite():
    model = small()
    model.unembedding.weight[0, 1] = np.nan
    return model


WRONG = {
    "no tokenizer": (lambda: (small(), None), "model='your model' has no tokenizer"),
    "two tokenizers": (lambda: ("shakespeare", TOKENIZER), "model='shakespeare' has a tokenizer of its own"),
    "no model": (lambda: (torch.nn.Linear(2, 2), TOKENIZER), "but a view takes a Transformer of either room"),
    "learned positions": (
        lambda: (small(positions="learned"), TOKENIZER),
        'cannot run in a page: positions="learned" is not "rope"',
    ),
    "too large": (
        lambda: (nn.Transformer(small().config.replace(d_model=1024, d_ff=8192), generator=None), TOKENIZER),
        "parameters, and a page takes at most 16,777,216",
    ),
    "not finite": (not_finite, "unembedding.weight contains nan at 0, 1"),
    "ids without characters": (
        lambda: (small(vocab_size=40), TOKENIZER),
        "model='your model' has vocab_size=40, but needs 30 ids for its tokenizer's characters",
    ),
    "no id for a mask": (
        lambda: (small(family="encoder"), TOKENIZER),
        "has vocab_size=30, but needs 30 ids for its tokenizer's characters and 1 for special tokens",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_object_that_cannot_be_shown_is_refused_in_words(case):
    make, words = WRONG[case]
    given = make()
    model, tokenizer = given if isinstance(given, tuple) else (given, TOKENIZER)
    with pytest.raises(TraitError, match=re.escape(words)):
        Probe(model, tokenizer=tokenizer)


def test_the_special_ids_are_those_of_training():
    assert {family: len(special_ids(family, 0)) for family in SPECIAL} == SPECIAL
    assert eval(re.search(r"MOST = (.*?);", read("model_file"))[1]) == MOST_WEIGHTS * 4


def test_a_view_may_take_some_families_alone():
    class Decoders(ModelView, module="model"):
        _families = ("decoder",)

    assert Decoders().model == "shakespeare"
    with pytest.raises(TraitError, match="model='masked' belongs to the family encoder; it must be decoder"):
        Decoders("masked")


# --- traits, and the message that no trait is ---


def test_the_model_stays_and_the_text_is_checked():
    view = Probe("dates")
    assert set(view.text) <= set(view._characters)
    with pytest.raises(TraitError, match="read-only"):
        view.model = "shakespeare"
    view.text = "1" * 5000
    for wrong, words in {
        "": "text='' has no characters, but must have at least one",
        "12 €": r"text\[3\]='€' is not one of the 50 characters",
    }.items():
        with pytest.raises(TraitError, match=words):
            view.text = wrong
    with pytest.raises(TraitError, match="is not one of the 50 characters"):
        Probe("dates", text="A horse!")


def test_a_kernel_answers_whoever_asks_for_the_weights(monkeypatch):
    view, sent = Probe(), []
    monkeypatch.setattr(view, "send", lambda content, buffers=(): sent.append((content, list(buffers))))
    view._handle_custom_msg({"ask": "something else"}, [])
    assert sent == []
    view._handle_custom_msg({"ask": "weights"}, [])
    file = (shipped.PLACE / "shakespeare" / checkpoints.MODEL).read_bytes()
    assert sent == [
        ({"answer": "weights", "received": 0, "total": len(file)}, []),  # a sign of life while it is sent
        ({"answer": "weights"}, [file]),
    ]


ARRAYS = {
    "numbers": np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32),
    "tiny ones": np.array([[1.23456e-9, -4e-9]]),
    "nearly the next": np.array([0.999951, -0.5, 0.12345]),
    "zeros": np.zeros((2, 1)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_packed_is_unpacked_within_half_a_step(call, name):
    array = ARRAYS[name]
    given = packed(array)
    assert json.loads(json.dumps(given)) == given
    found = call("model", "unpacked", given)
    assert found["shape"] == list(array.shape)
    numbers = np.reshape(found["data"], array.shape)
    half = given["largest"] / 127 / 2
    np.testing.assert_allclose(numbers, array, rtol=1e-6, atol=half * (1 + 1e-6))
    assert np.abs(array).max() == 0 or given["largest"] == pytest.approx(np.abs(array).max(), rel=1e-3)


# --- model.js and reading.js ---


@pytest.fixture(scope="module")
def linked(browser):
    page = link(browser.new_page(), "model", "reading")
    yield page
    page.close()


def test_the_characters_of_a_model(linked):
    found = linked.evaluate(
        """() => {
          const { known, ids } = js.alphabet("ab α😀");
          return [known.length, ids("a😀 b"), [..." \\na"].map(js.visible), [..." \\na"].map(js.named)];
        }"""
    )
    assert found[:2] == [5, [0, 4, 2, 1]]
    assert found[2:] == [["␣", "⏎", "a"], ["a space", "a line break", "“a”"]]


# A reading of a model that keeps a diary: what it reads and after how many, each in three of the clock's milliseconds.
READING = """() => {
  const diary = [];
  let now = 0;
  performance.now = () => now;
  const transformer = {
    newCache: () => ({ length: 0 }),
    forward([id], { cache, see }) {
      now += 3;
      if (id === 13) throw new Error("unlucky");
      diary.push(`${id} after ${cache.length}`);
      cache.length++;
      see({ name: "id", array: id });
    },
  };
  const channel = new MessageChannel();
  channel.port1.onmessage = () => diary.push("something else");
  const look = ([{ array }], model) => {
    if (array === 12) throw new Error("not nice to look at");
    return model === transformer && 10 * array;
  };
  const reading = new js.Reading(transformer, look);
  window.reading = reading;
  window.diary = () => diary.splice(0);
  // Whoever is told of progress posts a message, which the page gets as soon as it is free.
  window.progress = () => {
    diary.push(`told of ${reading.positions.length}`);
    channel.port2.postMessage(0);
  };
}"""


@pytest.fixture
def reading(linked):
    """Provides reading(*texts), which reads texts one after another and returns results and log for each."""
    linked.evaluate(READING)

    def reading(*texts):
        return linked.evaluate(
            """async (texts) => {
              const found = [];
              for (const ids of texts) {
                const result = await window.reading.read(ids, progress).catch(({ message }) => message);
                found.push([result, [...window.reading.positions], diary()]);
              }
              return found;
            }""",
            list(texts),
        )

    yield reading
    linked.evaluate("delete performance.now")


def lines(text):
    return [line.strip() for line in text.split(",") if line.strip()]


def test_while_it_reads_the_page_is_free_after_every_slice(reading):
    [(done, positions, diary)] = reading([1, 2, 3, 4, 5])
    assert (done, positions) == (True, [10, 20, 30, 40, 50])
    assert diary == lines(
        "1 after 0, 2 after 1, told of 2, something else,"
        "3 after 2, 4 after 3, told of 4, something else, 5 after 4"
    )


def test_it_reads_on_from_where_a_text_differs(reading):
    found = reading([1, 2, 3], [1, 2, 3, 4], [1, 2, 5, 4], [1, 2], [1, 2], [3], [], [1])
    results, positions, diaries = zip(*found, strict=True)
    assert set(results) == {True}
    assert list(positions) == [
        [10, 20, 30],
        [10, 20, 30, 40],
        [10, 20, 50, 40],
        [10, 20],
        [10, 20],
        [30],
        [],
        [10],
    ]
    read = [[line for line in diary if "after" in line] for diary in diaries[1:]]
    assert read == [["4 after 3"], ["5 after 2", "4 after 3"], [], [], ["3 after 0"], [], ["1 after 0"]]


def test_a_newer_text_is_read_instead(linked, reading):
    older, newer, positions, diary = linked.evaluate(
        """async () => {
          const older = reading.read([1, 2, 3, 4, 5, 6, 7], progress);
          const newer = reading.read([1, 9], progress);
          return [await older, await newer, reading.positions, diary()];
        }"""
    )
    assert (older, newer, positions) == (False, True, [10, 90])
    # What is told of the newer one is told when it has had its slice.
    assert [line for line in diary if "after" in line] == lines("1 after 0, 2 after 1, 9 after 1")


def test_what_cannot_be_read_leaves_what_was_read(reading):
    ugly = "not nice to look at"
    found = reading([1, 2, 13, 4], [1, 2, 3], [1, 12, 3], [1, 12], [1, 5])
    assert [result for result, _, _ in found] == ["unlucky", True, ugly, ugly, True]
    assert [positions for _, positions, _ in found] == [[10, 20], [10, 20, 30], [10], [10], [10, 50]]
    assert [line for line in found[4][2] if "after" in line] == ["5 after 1"]


# --- while it computes ------------------------------------------------------------------------------------

# Whether a change made the drawing busy, and what the view said of work under way when it was busy no more.
WATCH = """async (changes) => {
  const { model, el } = window.mounted[0];
  for (const [name, value] of Object.entries(changes)) model.set(name, value);
  const early = [];
  let wasBusy = false;
  for (let calm = 0; calm < 30; ) {
    await new Promise(requestAnimationFrame);
    const isBusy = el.querySelector(".gf-drawing").hasAttribute("aria-busy");
    wasBusy ||= isBusy;
    calm = isBusy ? 0 : calm + 1;
    const words = [...el.querySelectorAll(".gf-says, .gf-result-of strong, .gf-written, .gf-translator-verdict")];
    const under = words.map((each) => each.textContent).filter((text) => / …$|^…$|Loading/.test(text));
    if (calm > 1) early.push(...under);
  }
  return [wasBusy, early];
}"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("AblationBoard", {"text": "My horse"}),
        ("AttentionExplorer", {"text": "My horse"}),
        ("BeamTree", {"n_beams": 6, "n_new": 12, "text": "My horse"}),
        ("DateTranslator", {"text": "3 May 1994"}),
        ("FillIn", {"text": "My lord, the horse", "covered": [3, 4, 5]}),
        ("LogitLens", {"text": "My horse"}),
        ("NeuronExplorer", {"neuron": 7}),
        ("SamplingLab", {"text": "My horse", "length": 60}),
    ],
)
def test_a_drawing_is_busy_until_it_shows_what_was_asked_for(mount, name, changes):
    view = mount(getattr(widgets, name)())
    view.rest()
    assert view.page.evaluate(WATCH, changes) == [True, []]
