"""Tests facts that must be stated in several places, because readers see them there: all places agree."""

import inspect
import pkgutil
import re
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer import checkpoints, cli, nn, parameters, scratch, text, widgets
from glassformer.config import (
    ATTENTION_BIASES,
    FAMILIES,
    FEEDFORWARDS,
    GATED,
    POSITIONS,
    ROPE_BASE,
    ROPE_LAYOUTS,
    ModelConfig,
)
from glassformer.huggingface import folders
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.families.format import ACTIVATION_WORDS, GATES, Place
from glassformer.published import published
from glassformer.tasks import NO_TARGET, MaskedToken, NextToken, Pairs
from glassformer.train import recipe
from glassformer.widgets.kit import places

ROOT = Path(__file__).parents[1]
ROOMS = pytest.mark.parametrize("room", [scratch, nn], ids=["scratch", "nn"])
DEFAULT = {f.name: f.default for f in fields(ModelConfig)}


# Numbers


@cache
def signatures():
    """Returns every function and method that the package defines, by its full name."""
    found = {}
    for file in pkgutil.walk_packages(glassformer.__path__, "glassformer."):
        if file.name == "glassformer.__main__":  # it is the command
            continue
        module = import_module(file.name)
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != file.name:
                continue
            inside = vars(value).items() if inspect.isclass(value) else []
            for path, function in [(name, value), *((f"{name}.{inner}", part) for inner, part in inside)]:
                if inspect.isfunction(function):
                    found[f"{file.name}.{path}"] = inspect.signature(function)
    return found


def defaults(name, within="glassformer."):
    """Returns the default of a parameter with that name, by the function that has it."""
    return {
        path: signature.parameters[name].default
        for path, signature in signatures().items()
        if path.startswith(within)
        and name in signature.parameters
        and signature.parameters[name].default is not inspect.Parameter.empty
    }


def in_javascript(pattern):
    """Returns the numbers that follow a name in the widgets' code: `base = 10_000`."""
    code = [path.read_text(encoding="utf-8") for path in places.scripts()]
    return [float(number) for text in code for number in re.findall(rf"\b{pattern} = ([\d_.]+)", text)]


def in_widgets(name):
    """Returns the initial values of the traits with that name, by widget."""
    views = [getattr(widgets, view) for view in widgets.__all__]
    traits = {view.__name__: view.class_traits(sync=True).get(name) for view in views}
    return {view: trait.default_value for view, trait in traits.items() if trait is not None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base", ROPE_BASE),
        ("layout", DEFAULT["rope_layout"]),
        ("interpolation", DEFAULT["rope_interpolation"]),
        ("n_buckets", DEFAULT["t5_n_buckets"]),
        ("max_distance", DEFAULT["t5_max_distance"]),
        ("norm_eps", DEFAULT["norm_eps"]),
        ("activation", DEFAULT["feedforward"]),
        ("ignore_index", NO_TARGET),
    ],
)
def test_what_a_layer_is_by_default_is_what_a_configuration_is(name, expected):
    for room in ("glassformer.scratch", "glassformer.nn"):
        assert defaults(name, within=room), f"{room} has no {name}: the test looks for the wrong name"
    different = {path: value for path, value in defaults(name).items() if value != expected}
    assert not different, f"{name} is {expected} elsewhere"


def test_a_configuration_has_the_same_base():
    assert set(defaults("rope_base").values()) == {DEFAULT["rope_base"]} == {ROPE_BASE}


@ROOMS
def test_the_epsilon_of_norms(room):
    found = defaults("eps", within=f"{room.__name__}.norm.")
    assert set(found.values()) == {DEFAULT["norm_eps"]}


def test_the_widgets_start_with_the_same_numbers():
    assert set(in_javascript("(?i:base)")) == {ROPE_BASE}
    assert set(in_javascript("nBuckets")) == {DEFAULT["t5_n_buckets"]}
    assert set(in_javascript("maxDistance")) == {DEFAULT["t5_max_distance"]}
    assert set(in_widgets("base").values()) == {ROPE_BASE}
    assert set(in_widgets("n_buckets").values()) == {DEFAULT["t5_n_buckets"]}
    assert set(in_widgets("max_distance").values()) == {DEFAULT["t5_max_distance"]}


def test_what_a_learner_completes_has_the_same_base():
    practice = (ROOT / "book" / "chapters").rglob("*.md")
    stubs = [
        base
        for page in practice
        for base in re.findall(r"^def .*\bbase=([\d_.]+)", page.read_text("utf-8"), re.M)
    ]
    assert {float(base) for base in stubs} == {ROPE_BASE}


def test_the_share_kept_for_validation_is_a_tenth_everywhere():
    kept = inspect.signature(text.split).parameters["validation"].default
    found = defaults("validation")
    assert len(found) > 4
    assert set(found.values()) == {kept}


# Names

ACTIVATIONS = set(FEEDFORWARDS) - {"none"}  # a layer without the network


def names_known(call):
    """Returns the names that a function lists in its error for an unknown name."""
    with pytest.raises(ValueError, match="'no such' is not one of") as refused:
        call("no such")
    return re.findall(r"'([^']+)'", str(refused.value))[1:]


@ROOMS
def test_the_rooms_know_the_names_of_the_configuration(room):
    x = np.zeros((1, 4)) if room is scratch else torch.zeros(1, 4)
    angles = x[:, :2]
    assert set(names_known(lambda name: room.rotate(x, angles, layout=name))) == set(ROPE_LAYOUTS)
    assert set(names_known(lambda name: room.RotaryPositions(4, layout=name))) == set(ROPE_LAYOUTS)
    assert set(names_known(lambda name: room.MultiHeadAttention(4, 2, bias=name, generator=None))) == set(
        ATTENTION_BIASES
    )
    assert (
        set(names_known(lambda name: room.FeedForward(4, 8, activation=name, generator=None))) == ACTIVATIONS
    )


@ROOMS
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_a_feed_forward_is_gated_where_its_configuration_is(room, name):
    assert (room.FeedForward(4, 8, activation=name, generator=None).W_gate is not None) == (name in GATED)


def test_hugging_face_has_another_word_for_every_activation():
    assert set(ACTIVATION_WORDS.values()) == ACTIVATIONS - set(GATED) - {"xielu"}  # only Apertus has that
    assert set(GATES.values()) == set(GATED)


def test_every_family_has_a_task_and_its_special_ids():
    assert recipe.SPECIAL.keys() == set(FAMILIES)
    assert {task.family for task in (NextToken, MaskedToken, Pairs)} == set(FAMILIES)


def test_there_are_two_rooms():
    rooms = {str(room) for room in cli.Room}
    assert folders.DTYPES.keys() == rooms
    config = ModelConfig(vocab_size=2, context_length=2, d_model=2, n_layers=1, n_heads=1)
    assert set(names_known(lambda room: checkpoints.model_of(config, {"x": np.zeros(1)}, room=room))) == rooms


def test_the_letters_of_formulas_stand_for_fields():
    assert set(parameters.LETTERS.values()) <= DEFAULT.keys()


def test_the_biases_that_can_be_drawn_are_positions():
    assert set(widgets.DistanceBias.class_traits()["method"].values) < set(POSITIONS)


# The quick reference


def row(part):
    """Returns what a row of the quick reference says about GPT-2, and about Llama 3 and Qwen3."""
    page = (ROOT / "book" / "reference.md").read_text(encoding="utf-8")
    [cells] = [
        line.strip("| ").split(" | ")
        for line in page.splitlines()
        if re.match(rf"\| \[?{part}\b.*<br>", line)
    ]
    return cells[2:4]


OF_CONFIG = {
    "tokenizer": lambda c: f"{c.vocab_size:,}",
    "embedding": lambda c: f"{c.d_model:,} wide",
    "positions": lambda c: {"learned": f"table of {c.context_length:,}", "rope": f"{c.rope_base:,.0f}"}[
        c.positions
    ],
    "norm": lambda c: {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[c.norm],
    "attention": lambda c: f"√{c.d_head}",
    "heads": lambda c: (
        f"{c.n_heads}, {'each' if c.n_heads == c.n_kv_heads else 'four for each key–value head'}"
    ),
    "feed-forward network": lambda c: f"{c.d_ff:,}",
    "block": lambda c: f"{c.n_layers}",
    "biases": lambda c: "everywhere" if c.feedforward_bias and c.attention_bias == "all" else "nowhere",
    "head": lambda c: {"tied": "the embedding again", "untied": "a matrix of its own"}[c.head],
    "KV cache": lambda c: f"{2 * c.n_layers * c.n_kv_heads * c.d_head:,}",
}


@pytest.mark.parametrize("part", OF_CONFIG)
def test_the_quick_reference_says_what_the_configurations_say(part):
    old, new = row(part)
    for name, said in {"gpt2": old, "llama-3-8b": new, "qwen3-8b": new}.items():
        assert OF_CONFIG[part](published(name).config) in said, name


def test_the_quick_reference_counts_and_names_what_is_there():
    old, new = row("whole model")
    for name, said in {"gpt2": old, "llama-3-8b": new, "qwen3-8b": new}.items():
        assert f"{published(name).n_parameters:,}" in said
    assert "Qwen3 norms queries and keys" in row("attention")[1]
    assert [published(name).config.qk_norm for name in ("gpt2", "llama-3-8b", "qwen3-8b")] == [
        False,
        False,
        True,
    ]
    files = re.findall(r" · `(\w+(?:/\w+)*\.py)` \|", (ROOT / "book" / "reference.md").read_text())
    assert len(files) > 15
    for file in files:
        assert (ROOT / "src" / "glassformer" / file).exists(), file
        if file.startswith("scratch/") and file != "scratch/optimizer.py":
            assert (ROOT / "src" / "glassformer" / file.replace("scratch", "nn")).exists(), file


# The names of weights


def names_in_notation():
    """Returns, from the notation's tables, the name in a family's files by our name and the column."""
    page = (
        (ROOT / "book" / "notation.md").read_text(encoding="utf-8").split("## The same weights in files")[1]
    )
    said, heads = {}, []
    for line in page.splitlines():
        if line.startswith("| This book"):
            heads = [cell.strip() for cell in line.strip("|").split("|")]
        elif line.startswith("| `"):
            ours, *theirs = [cell.strip() for cell in line.strip("|").split("|")]
            said |= {
                (ours.strip("`"), head): cell for head, cell in zip(heads[1:], theirs, strict=True) if cell
            }
    return said


FAMILIES_OF_FILES = {
    "GPT-2": ("gpt2", "decoder.", "transformer.", None),
    "BERT": ("bert", "encoder.", "bert.", None),
    "LLaMA, Mistral, Qwen": ("llama", "decoder.", "model.", None),
    "Gemma 2, Gemma 3": ("gemma2", "decoder.", "model.", "llama"),
    "OLMo 2, OLMo 3": ("olmo2", "decoder.", "model.", "llama"),
    "Phi-3": ("phi3", "decoder.", "model.", "llama"),
    "DeepSeek-V3, V3.2, GLM-5": ("deepseek_v32", "decoder.", "model.", "llama"),
    "Apertus": ("apertus", "decoder.", "model.", "llama"),
    "Hunyuan": ("hunyuan_v1_dense", "decoder.", "model.", "llama"),
    "nanochat": ("nanochat", "decoder.", "model.", "llama"),
    "Mixtral": ("mixtral", "decoder.", "model.", "llama"),
    "Qwen2-MoE": ("qwen2_moe", "decoder.", "model.", "llama"),
    "T5's encoder": ("t5", "encoder.", "encoder.", None),
    "T5's decoder": ("t5", "decoder.", "decoder.", None),
}
"""A column of the notation's tables: the family, our stack, how names begin, and from which family it shows changes."""


def cells_of(family, stack, begins):
    """Returns the names in a family's files by our name, as the notation writes them."""
    layout, found = FORMATS[family].layout, {}
    places = {
        ours: Place(place) if isinstance(place, str) else place
        for ours, place in {**layout.names, **layout.gated}.items()
    }
    names = [place.name for place in places.values()]
    for ours, place in places.items():
        n_parts = names.count(place.name)
        lies = " ᵀ" if place.transposed else ""
        part = "third" if family == "gpt2" else "part"
        which = ["first", "second", "last"][-1 if place.part == n_parts - 1 else place.part]
        part = "" if n_parts == 1 else f", {which} {part}"
        found[ours.removeprefix(stack)] = (
            f"`{place.name.removeprefix(begins)}`{lies}{part}{', less 1' if place.added else ''}"
        )
    return found


@pytest.mark.parametrize("head", FAMILIES_OF_FILES)
def test_the_notation_has_the_names_that_files_are_read_by(head):
    family, stack, begins, base = FAMILIES_OF_FILES[head]
    other = {"encoder.": "decoder.", "decoder.": "encoder."}[stack]
    usual = {} if base is None else cells_of(base, stack, begins)
    wanted = {
        ours: cell
        for ours, cell in cells_of(family, stack, begins).items()
        if not ours.startswith(other)
        and usual.get(ours) != cell
        and not (head == "T5's encoder" and ours == "unembedding")
    }
    if base is not None:
        wanted |= dict.fromkeys(usual.keys() - cells_of(family, stack, begins), "none")
    assert {ours: cell for (ours, at), cell in names_in_notation().items() if at == head} == wanted


def test_the_notation_has_no_other_family():
    assert set(FAMILIES_OF_FILES) == {head for _, head in names_in_notation()}


# The letters of formulas


def letters(number):
    """Returns the letters in the formulas of a chapter, without those in names and words."""
    [file] = (ROOT / "book" / "chapters").glob(f"{number}-*.md")
    text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    formulas = re.findall(r"\$\$(.+?)\$\$|(?<!\$)\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\d$])", text, re.DOTALL)
    words = r"\\(?:text|operatorname|mathrm|mathbf)\{[^}]*\}"
    return {
        letter
        for pair in formulas
        for formula in pair
        for letter in re.findall(r"\\[a-zA-Z]+|[a-zA-Z]", re.sub(words, " ", formula))
    }


def test_a_letter_with_several_meanings_is_in_the_chapters_that_the_notation_names():
    page = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
    table = page.split("## Letters with several meanings")[1].split("##")[0]
    rows = re.findall(r"^\| \$(\S+)\$ \|.*", table, re.MULTILINE)
    assert len(rows) >= 10
    for line in re.findall(r"^\| \$.*", table, re.MULTILINE):
        letter = re.match(r"\| \$(\S+)\$", line)[1]
        numbers = re.findall(r"\b\d\d\b", " ".join(re.findall(r"\(chapters? ([^)]*)\)", line)))
        assert numbers
        assert [number for number in numbers if letter not in letters(number)] == [], letter
