"""Tests ConfigReader: it reads any text, counts what our code counts, and says what our code lacks."""

import json
import re

import pytest

from glassformer import anatomy
from glassformer.chapters.ch13.config_reader import FIRST, LONGEST, ConfigReader
from glassformer.huggingface import config_to_hf
from glassformer.inside import cache_bytes, multiply_adds
from glassformer.published import PUBLISHED, published
from tests.anatomy.test_verdict import LACKS


def written(name):
    """Returns the config.json of a published model, as this book writes it."""
    return config_to_hf(published(name).config)


def read(call, *texts):
    """Returns what the view says of texts after 1,000 positions, with the tables of their families alone."""
    cases = []
    for text in texts:
        kind = next((kind for kind in anatomy.families() if f'"{kind}"' in text), "llama")
        own = {part: {kind: anatomy.tables()["families"][kind]} for part in ("families",)}
        own |= {"classes": {kind: anatomy.classes().get(kind, {"defaults": {}, "aliases": {}})}}
        whole = own | {"parts": anatomy.tables()["parts"], "words": anatomy.words()}
        cases.append([text, {"anatomy": whole, "longest": LONGEST}, 1000])
    return call.each("config_reader", "read", cases)


# The published models of families that Hugging Face's names are known of
WRITTEN = [name for name in PUBLISHED if not name.startswith(("bloom", "starcoder"))]


def test_every_published_model_runs_and_is_counted_to_the_digit(call):
    assert len(WRITTEN) > 20
    texts = [json.dumps(config_to_hf(PUBLISHED[name].config)) for name in WRITTEN]
    for name, found in zip(WRITTEN, read(call, *texts), strict=True):
        assert (found["verdict"], found["lacks"]) == ("Our code runs it, in NumPy and in PyTorch.", []), name
        seen = found["report"]
        config = PUBLISHED[name].config
        networks = [(layer.feedforward, n) for layer, n in config.layers(config.n_layers).values()]
        biases = sum(
            n * one.experts.n_experts for one, n in networks if one.experts and one.experts.choice_bias
        )
        # No gradient moves the biases that only choose, so files do not count them among their weights
        assert sum(row[1] for row in seen["weights"]) + biases == PUBLISHED[name].n_parameters, name
        if config.family == "decoder":
            kept = sum(numbers + state for _, (numbers, state), _ in seen["cached"])
            assert kept == cache_bytes(config, 1000, bytes_per_number=1), name
            assert seen["multiply_adds"] == multiply_adds(config, 1, 1000), name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "There is nothing to read yet"),
        ("Hello, I am prose.", r"This is not JSON: .* A config.json begins with { and ends with }\."),
        ('{"model_type": "gpt2",', "This is not JSON"),
        ("<!doctype html><p>{}", "This is not JSON but a web page: download the file itself, "),
        ("version https://git-lfs.github.com/spec/v1", "This is not JSON but a pointer of Git LFS in place"),
        (
            '{"vocab_size": 1, "rope": {"d": "\\"}"}, "vocab\\u005fsize": 2}',
            r"This config\.json has the field 'vocab_size' twice in one object\.$",
        ),
        ('{"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}], "d": "a", "b": 0}', "model_type is missing"),
        ("null", r"an object of fields, { … }, and this is null\."),
        ("[1, 2]", "this is a list"),
        ('"gpt2"', "this is a text"),
        ("17", "this is a number"),
        ("true", "this is true or false"),
        ("{}", r"^model_type is missing\. `python -m glassformer params FILE`"),
        (json.dumps(written("gpt2") | {"n_layer": 2.5}), "the number of layers=2.5 must be a whole number"),
        (json.dumps(written("gpt2") | {"n_embd": "x"}), 'n_embd="x" must be a whole number'),
        (json.dumps(written("gpt2")).replace("50257", "1e999"), "vocab_size=inf must be a whole number"),
        ('{"model_type": "__proto__"}', 'model_type="__proto__" is not known here'),
        (" " * (LONGEST + 1), "These are 1,000,001 characters"),
    ],
)
def test_what_our_code_does_not_read_gets_one_clear_sentence(call, text, words):
    (found,) = read(call, text)
    assert not found.get("verdict", "").startswith("Our code runs")
    assert re.search(words, said := found.get("trouble") or found["note"]), said


def test_what_is_too_large_is_not_counted_and_what_is_almost_too_large_to_the_digit(call):
    files = [written("gpt2") | {"n_embd": size} for size in (10**30, 10**6)]
    large, almost = read(call, *map(json.dumps, files))
    assert large["verdict"] == "It is larger than this page counts."
    assert large["report"]["trouble"] == "its numbers are larger than this page counts"
    assert almost["report"] == json.loads(json.dumps(anatomy.report(files[1], 1000)))


def test_the_list_of_what_our_code_lacks_follows(call):
    texts = [json.dumps(written("llama-3-8b") | {"new_size": 8} | given) for given, _ in LACKS]
    for found, (_, what) in zip(read(call, *texts), LACKS, strict=True):
        assert found["verdict"] == "Our code does not run it."
        assert what in [lacked for lacked, _ in found["lacks"]]


def test_a_key_that_nobody_knows_is_named_and_nothing_is_skipped(call):
    given = written("llama-3-8b") | {"new_bias": 8, "head_dim": None, "use_cache": True}
    (found,) = read(call, json.dumps(given))
    assert found["verdict"] == "Our code runs it only without some of its keys."
    assert "`new_bias`" in found["lacks"][0][0]
    seen = found["report"]
    assert seen["unknown"] == ["new_bias"]
    assert "head_dim" in seen["unset"]
    assert "use_cache" in seen["programs"]
    names = [key for key, *_ in seen["said"]]
    assert {
        key.split(".")[0] for key in [*names, *seen["unset"], *seen["programs"], *seen["unknown"]]
    } == set(given)


def test_of_a_family_that_nobody_knows_the_keys_are_explained_and_nothing_is_counted(call):
    (found,) = read(call, json.dumps(written("llama-3-8b") | {"model_type": "something"}))
    assert found["report"]["trouble"] == 'model_type="something" is not known here'
    assert "weights" not in found["report"]
    said = {key: says for key, _, says, _ in found["report"]["said"]}
    assert said["hidden_size"].startswith("The residual stream has 4,096 numbers at each position")


def test_the_layers_that_repeat_are_folded(call):
    for items, folded in (
        ("WWWWWFWWWWWF", [[2, [[5, "W"], [1, "F"]]]]),
        ("DDDEEEE", [[1, [[3, "D"]]], [1, [[4, "E"]]]]),
        ("MEMEMEME", [[4, [[1, "M"], [1, "E"]]]]),
        ("SSFSSFSS", [[2, [[2, "S"], [1, "F"]]], [1, [[2, "S"]]]]),
        ("A", [[1, [[1, "A"]]]]),
    ):
        assert call("anatomy", "fold", list(items)) == folded == anatomy.fold(list(items))


# --- what is seen -----------------------------------------------------------------------------------------


RUNS = "Our code runs it, in NumPy and in PyTorch. python -m glassformer params FILE checks every value"


def verdict(w):
    w.settle()
    return w.root.locator(".gf-verdict").inner_text()


def of_shelf(name):
    return next(one["config"] for one in anatomy.shelf() if one["name"] == name)


def test_read_by_keyboard(mount, shoot):
    w = mount(ConfigReader())
    shoot("configreader-900")
    file = of_shelf(FIRST)
    seen = anatomy.report(file, 100_000)
    total = sum(row[1] for row in seen["weights"])
    assert w.says.startswith(f"{FIRST} has 64 layers: 48 × linear attention (a state), 16 × full attention")
    assert verdict(w).startswith("Our code runs it, in NumPy and in PyTorch.")
    parts = {row[0]: row[1:] for row in w.tables()[1][1:]}
    assert parts["all"] == [f"{total:,}"] * 2 or parts["all"][0] == f"{total:,}"
    assert len(w.tables()[3]) - 1 == len(w.root.locator(".gf-sentence").all()) == len(seen["said"])

    boxes = w.root.locator(".gf-boxes li")
    assert "delta rule" in " ".join(boxes.all_inner_texts())
    w.root.get_by_role("button", name="16 × full attention").press("Enter")
    w.settle()
    assert w.saved()["kind"] == 1
    assert "delta rule" not in " ".join(boxes.all_inner_texts())
    assert "a gate on the output" in " ".join(boxes.all_inner_texts())

    w.control("Positions read").press("ArrowRight")
    assert w.saved()["positions"] == 131_072
    w.control("Model").select_option("GPT-2")
    assert verdict(w).startswith(RUNS)
    assert w.says.startswith("GPT-2 has 12 layers of one kind, full attention. Of its 124 million")

    w.control("Compare it with").select_option(FIRST)
    w.settle()
    w.root.locator(".gf-keys > summary").press("Enter")
    fields = w.root.locator(".gf-sentence .gf-field").all_inner_texts()
    assert "vocab_size" in fields
    assert w.saved()["other"]
    w.control("Compare it with").select_option("")
    assert w.saved()["other"] == ""

    field = w.root.locator("textarea")
    field.fill(json.dumps(written("gpt2") | {"n_head": 16}))
    assert verdict(w).startswith(RUNS)
    field.press("End")
    field.press("Backspace")
    assert verdict(w).startswith("It cannot be read. This is not JSON")
    assert field.get_attribute("aria-invalid") == "true"
    assert not w.root.locator(".gf-strip").is_visible()
    w.set(text=json.dumps(written("gpt2") | {"n_layer": 2.5}))
    assert verdict(w).startswith("Our code does not run it. the number of layers=2.5 must be a whole number.")


def test_a_file_is_opened_from_disk(mount, tmp_path):
    w = mount(ConfigReader())
    (tmp_path / "mine.json").write_text(json.dumps(written("smollm3-3b")), encoding="utf-8")
    (tmp_path / "large.json").write_bytes(b" " * (LONGEST + 1))
    inputs = w.root.locator("input[type=file]")
    inputs.first.set_input_files(tmp_path / "mine.json")
    assert verdict(w).startswith(RUNS)
    inputs.last.set_input_files(tmp_path / "mine.json")
    w.settle()
    assert w.saved()["other"] == w.saved()["text"]
    inputs.first.set_input_files(tmp_path / "large.json")
    w.page.get_by_text("large.json has").wait_for()
