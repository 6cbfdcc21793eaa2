"""Tests ParameterExplorer: its counts equal ModelConfig's for every choice, and it explains rules and changes."""

import dataclasses
import random
import re

import pytest
from traitlets import TraitError

from glassformer.chapters.ch08.parameter_explorer import (
    DEPENDS,
    FIELDS,
    FOLLOWS,
    LIMITS,
    OPTIONS,
    ParameterExplorer,
    formulas,
    presets,
)
from glassformer.config import ModelConfig
from glassformer.parameters import evaluate
from glassformer.published import PUBLISHED, TEACHING

LETTERS = ParameterExplorer()._letters


def some_fields(rng):
    """Returns arbitrary choices, and sizes of which most fit together."""
    fields = {name: rng.choice(options) for name, options in OPTIONS.items()}
    fields |= {name: rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 96]) for name in LIMITS}
    fields |= {name: None for name in FOLLOWS if rng.random() < 0.6}
    if fields["family"] != "encoder":
        fields |= {"pooler": False, "n_segments": 0}
    if fields["family"] != "encoder-decoder":
        fields["n_decoder_layers"] = None
    if fields["head"] == "none":
        fields |= {"head_bias": False, "head_transform": False}
    return fields


def refused(fields):
    """Returns the error message of ModelConfig for fields that do not fit together."""
    try:
        ModelConfig(**fields)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def of_family(fields):
    """Returns the formulas of one family: all of them for a hundred configurations would take megabytes."""
    family = fields["family"] + " "
    return {
        part: {
            "fields": found["fields"],
            "entries": {key: one for key, one in found["entries"].items() if f"{key} ".startswith(family)},
        }
        for part, found in formulas().items()
    }


RNG = random.Random(8)
RANDOM = [some_fields(RNG) for _ in range(250)]
KNOWN = {name: fields for name, (_, fields, _) in presets().items()}


# --- the numbers ------------------------------------------------------------------------------------------


def test_every_choice_is_counted_as_python_counts_it(call):
    valid = [*KNOWN.values(), *[fields for fields in RANDOM if refused(fields) is None][:75]]
    assert len(valid) > 100
    drawn = call.each(
        "parameter_explorer", "counted", [[fields, of_family(fields), LETTERS] for fields in valid]
    )
    for fields, parts in zip(valid, drawn, strict=True):
        count = ModelConfig(**fields).parameter_count()
        expected = [(p.name, p.times, p.each, p.count) for p in count.parts]
        assert [(p["name"], p["times"], p["each"], p["count"]) for p in parts] == expected, fields
    spelled = call.each("parameter_explorer", "formulaOf", [[part] for parts in drawn for part in parts])
    written = [str(part) for fields in valid for part in ModelConfig(**fields).parameter_count().parts]
    assert [re.sub(r"(?<=\d),(?=\d)", "", text) for text in spelled] == written


class Noting(ModelConfig):
    """A configuration that notes which of its fields are read."""

    def __getattribute__(self, name):
        READ.add(name)
        return super().__getattribute__(name)


READ = set()


def test_a_count_depends_on_no_field_that_counting_does_not_know():
    valid = [Noting(**fields) for fields in (*KNOWN.values(), *RANDOM) if refused(fields) is None]
    READ.clear()
    for config in valid:
        config.parameter_count()
    # No model of this view has several kinds of layers, several streams or embeddings of each layer
    later = {"kinds", "streams", "layer_embeddings"}
    unknown = READ & {field.name for field in dataclasses.fields(ModelConfig)} - {*FIELDS, *later}
    assert not unknown, (
        "add to OPTIONS and DEPENDS of engine/counting.py, with a label in parameter_explorer.js"
    )
    assert set(OPTIONS) - {"family"} <= set().union(*DEPENDS.values()), "add to DEPENDS of engine/counting.py"


def test_every_part_of_every_model_is_known():
    """A part that is added to `parameter_count` must get a row here."""
    assert {part.name for f in KNOWN.values() for part in ModelConfig(**f).parameter_count().parts} <= {
        *DEPENDS
    }


def test_presets_are_the_published_models_to_the_digit():
    shown = {name: entry for name, entry in (PUBLISHED | TEACHING).items() if entry.config.kinds is None}
    for name, entry in shown.items():
        config = ModelConfig(**KNOWN[name])
        assert config.parameter_count().total == entry.n_parameters, name
        assert {field: getattr(config, field) for field in FIELDS} == {
            field: getattr(entry.config, field) for field in FIELDS
        }


def test_fields_that_cannot_be_are_refused_in_pythons_words(call):
    words = [refused(fields) for fields in RANDOM]
    assert 40 < sum(said is not None for said in words) < 180
    assert call.each("parameter_explorer", "problem", [[fields, LIMITS] for fields in RANDOM]) == words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"d_model": 0}, "d_model=0 must be at least 1"),
        ({"n_layers": 2.5}, "n_layers=2.5 must be a whole number"),
        ({"n_heads": 10}, "d_model=768 is not divisible by n_heads=10"),
        ({"n_kv_heads": 5}, "n_heads=12 is not divisible by n_kv_heads=5"),
        (
            {"positions": "rope", "d_head": 3},
            "d_head=3 is odd: sines and cosines come in pairs of dimensions",
        ),
        ({"n_layers": 1001}, "n_layers=1001 must be at most 1000"),
    ],
)
def test_every_rule_has_its_sentence_in_both_languages(call, change, words):
    fields = KNOWN["gpt2"] | change
    assert call("parameter_explorer", "problem", fields, LIMITS) == words
    with pytest.raises(TraitError, match=words):
        ParameterExplorer(fields=change)


def test_the_largest_model_is_still_a_whole_number():
    largest = LIMITS | dict.fromkeys(["feedforward_bias", "qk_norm", "embedding_norm"], True)
    largest |= {"family": "encoder-decoder", "feedforward": "swiglu", "head": "untied"}
    assert ModelConfig(**largest).parameter_count().total < 2**53


@pytest.mark.parametrize(
    ("preset", "block"),
    [("gpt2", "decoder"), ("llama-3-8b", "decoder"), ("t5-base", "decoder"), ("bert-base", "encoder")],
)
def test_one_block_is_written_as_python_writes_it(call, preset, block):
    count = ParameterExplorer(preset).count()
    parts = call("parameter_explorer", "counted", KNOWN[preset], formulas(), LETTERS)
    terms = call("parameter_explorer", "blockOf", parts, count.sizes)
    line = (
        f"one {block} block: {call('parameter_explorer', 'spell', terms)} = {evaluate(terms, count.sizes):,}"
    )
    assert line in str(count)
    assert evaluate(terms, count.sizes) == evaluate(count.blocks[block], count.sizes)


# --- what is seen -----------------------------------------------------------------------------------------


def heading(w):
    w.settle()
    return w.root.locator(".gf-bar-of").first.inner_text()


def rows(w):
    """Returns the parts as the table shows them: name -> (parameters, those of the preset, the change)."""
    table = w.tables()[0][1:]
    return {
        row[0]: tuple(int(x.replace(",", "").replace("−", "-")) for x in (row[4], row[6], row[7]))
        for row in table
    }


def right(w):
    now = ParameterExplorer(w.get("preset"), fields=w.get("fields")).count()
    was = ParameterExplorer(w.get("preset")).count()
    before = {part.name: part.count for part in was.parts}
    found = {p.name: (p.count, before.get(p.name, 0), p.count - before.get(p.name, 0)) for p in now.parts}
    return found | {"total": (now.total, was.total, now.total - was.total)}


def folded(w):
    w.settle()
    return w.root.locator(".gf-more-choices summary").inner_text()


def test_gpt2_and_what_changes_by_keyboard(mount):
    w = mount(ParameterExplorer())
    assert heading(w) == "gpt2: 124,439,808 parameters"
    assert w.says == (
        "Feed-forward: 12 × (2D·F + F + D) = 12 × (2·768·3,072 + 3,072 + 768) = 56,669,184, 45.5 % of all."
    )
    assert "One decoder block: 12D² + 13D = 7,087,872." in w.root.locator(".gf-facts-of").inner_text()
    assert (
        "66.6 % of the blocks, and 45.5 % of the whole model" in w.root.locator(".gf-facts-of").inner_text()
    )

    w.press("Blocks", "ArrowUp")
    assert w.saved()["fields"]["n_layers"] == 13
    assert rows(w) == right(w)
    assert rows(w)["total"] == (131_527_680, 124_439_808, 7_087_872)
    assert w.says.endswith("gpt2 has 56,669,184 here: +4,722,432.")
    w.press("Width D", "ArrowUp")  # by the number of heads
    assert w.saved()["fields"]["d_model"] == 780
    assert rows(w) == right(w)

    w.control("Heads H").fill("7")
    assert w.says == "d_model=780 is not divisible by n_heads=7. The drawing shows your last valid model."
    assert w.control("Heads H").get_attribute("aria-invalid") == "true"
    assert w.saved()["fields"]["n_heads"] == 12
    w.control("Heads H").fill("")
    assert w.says.startswith("n_heads= must be a whole number")
    w.control("Heads H").fill("1e9")
    assert w.says.startswith("n_heads=1000000000 must be at most 1000.")
    w.control("Heads H").fill("13")
    assert w.saved()["fields"]["n_heads"] == 13
    w.control("Neurons F").fill("2080")
    assert rows(w) == right(w)
    w.control("Neurons F").fill("")
    assert w.saved()["fields"]["d_ff"] is None
    w.control("Head").select_option("untied")
    w.control("Feed-forward").select_option("swiglu")
    w.root.locator(".gf-more-choices summary").press("Enter")
    w.press("QK-norm", " ")
    assert folded(w) == "More choices: decoder, layernorm, pre-norm, feed-forward bias, QK-norm"
    assert rows(w) == right(w)
    w.root.get_by_role("button", name="Undo changes").press("Enter")
    w.settle()
    assert heading(w) == "gpt2: 124,439,808 parameters"
    assert w.root.get_by_role("button", name="Undo changes").is_disabled()


def test_families_and_their_own_choices(mount):
    w = mount(ParameterExplorer())
    w.control("Model").select_option("bert-base")
    w.settle()
    assert heading(w) == "bert-base: 109,482,240 parameters"
    assert w.control("Pooler").is_checked()
    assert w.control("Blocks of the decoder").is_hidden()
    assert folded(w) == (
        "More choices: encoder, layernorm, post-norm, feed-forward bias, embedding norm, pooler"
    )
    w.root.locator(".gf-more-choices summary").press("Enter")
    w.control("Family").select_option("decoder")  # which has no pooler and no segments
    assert not any(w.saved()["fields"][name] for name in ("pooler", "n_segments"))
    assert rows(w) == {name: n for name, n in right(w).items() if name in rows(w)}
    w.control("Model").select_option("t5-base")
    assert heading(w) == "t5-base: 222,903,552 parameters"
    w.press("Blocks of the decoder", *"24")
    assert w.saved()["fields"]["n_decoder_layers"] == 24
    assert rows(w) == right(w)
    w.set(preset="qwen2.5-0.5b")
    assert heading(w) == "qwen2.5-0.5b: 494,032,768 parameters"
    assert w.control("Key/value heads G").input_value() == "2"


def test_parts_are_walked_through_with_the_keys_and_pointed_at(mount):
    w = mount(ParameterExplorer("t5-base"))
    w.root.locator(".gf-part-row.gf-here").focus()
    for keys, says in [
        (["ArrowUp"], "Cross-attention: 12 × 4D² = 12 × 4·768² = 28,311,552, 12.7 % of all."),
        (["Home", "ArrowDown"], "Positions: 2 × 32H = 2 × 32·12 = 768, 0.0 % of all."),
        (["End", "ArrowDown"], "Head: tied to the token embedding. No parameters."),
    ]:
        for key in keys:
            w.page.keyboard.press(key)
        assert w.says == says
    w.root.locator(".gf-stack span[data-part=attention]").first.hover()
    assert w.says.startswith("Attention: 24 × 4D² = 24 × 4·768²")
    assert w.saved()["part"] == "attention"


def test_no_option_of_a_select_is_cut_off(mount):
    w = mount(ParameterExplorer("t5-base"))
    for width in (900, 390, 360, 320):
        w.page.set_viewport_size({"width": width, "height": 900})
        w.settle()
        cut = w.root.evaluate(
            """root => [...root.querySelectorAll(".gf-configuration select")].filter((select) => {
                const copy = select.cloneNode(true);
                copy.style.cssText = "width: max-content; display: inline-block; position: absolute";
                select.parentElement.append(copy);
                const cut = select.offsetWidth && copy.offsetWidth > select.offsetWidth;
                copy.remove();
                return cut;
            }).map((select) => `${select.labels[0].textContent}: ${select.offsetWidth}`)"""
        )
        assert cut == [], width
