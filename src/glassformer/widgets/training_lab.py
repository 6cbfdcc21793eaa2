"""Trains a small GPT in the reader's browser, and shows how it learns."""

import json
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from traitlets import Dict, Enum, Float, Int, List, TraitError, Unicode, default, validate

from glassformer import experiments
from glassformer.text import CharTokenizer, corpus
from glassformer.train.recipe import Recipe
from glassformer.widgets.kit.view import Chapters, FileView, Number

NAMES = ("", "short")  # of the forms of the view
SIZES = ("small", "book", "own")
SMALL = {"d_model": 64, "n_layers": 2, "steps": 1500}
WIDTHS, BLOCKS, STEPS = (32, 64, 96, 128), (1, 6), (1, 5000)
BREAKS = ("nothing", "rate", "mask", "warmup")
CURVES = ("zero", "same", "worse", "stuck")
KEPT = 20_000  # characters of the reader's own text that a notebook stores at most
HELD_OUT = 0.1  # of the text, at its end
RUNG = "Muon"  # the step of the ladder in experiments/recipes.py that is the modern recipe
MEASURED = "training_lab.json"  # in assets
W_O = "decoder.blocks.0.attention.W_o.weight"


@cache
def landmarks() -> dict[str, float]:
    """Computes the loss of guessing the held-out Shakespeare without a model, in nats, as learned_text.js does.

    The guesses are blind, from how often each character occurs, and from the character before. Every count is one
    higher, so that nothing is impossible. Derived in chapter 09.
    """
    text = corpus()
    tokenizer = CharTokenizer.from_text(text)
    ids, V = tokenizer.encode(text), tokenizer.vocab_size
    learned, held_out = np.split(ids, [round(len(ids) * (1 - HELD_OUT))])
    single = np.bincount(learned, minlength=V) + 1
    pairs = np.bincount(V * learned[:-1] + learned[1:], minlength=V * V).reshape(V, V) + 1
    before, now = held_out[:-1], held_out[1:]
    return {
        "ln V": float(np.log(V)),
        "unigram": float(-np.log(single / single.sum())[now].mean()),
        "bigram": float(-np.log(pairs / pairs.sum(axis=1, keepdims=True))[before, now].mean()),
    }


@cache
def recipe() -> dict[str, Any]:
    """Returns the book's modern recipe as training.js reads it, with the length of a text."""
    found = Recipe.of_the_book("modern")
    _, _, config = found.made_for(corpus())
    model = json.loads(config.to_json())
    return {"model": model, "training": asdict(found.training), "length": found.data.length}


class TrainingLab(FileView, module="training_lab"):
    """A GPT that learns in front of the reader, in the page itself: its loss, its text, one weight and one head.

    The reader chooses a size and a text, may first say where the loss will end, and starts. Then they may pause, take
    one step, or go back to a checkpoint; follow the value and the gradient of one weight, and measure its slope in
    two ways; and watch one head's attention as it forms. Three breaks, each a change to the same small run, ask which
    curve will come out before they show it.

    Everything is computed in the browser, with the book's modern recipe (engine/training.js). The traits keep what the
    reader has chosen; what has been learned is never stored. Chapter 10 derives the training loop, chapter 09 the
    gradients.

    Traits:
        name: of a shorter form, "short": only the small model, its loss, its text and one weight; "": the whole view.
        size: "small", "book" for the size of the book's recipes, or "own".
        d_model, n_layers, steps: of "own": the width (32, 64, 96 or 128), how many blocks, and how many steps.
        rate: what all learning rates of "own" are multiplied by.
        seed: of the first weights and of the order of the text.
        source: "shakespeare", or "own" for the reader's text.
        text: the reader's text, if it has at most 20,000 characters.
        broken: "nothing", "rate" (ten times too large), "mask" (there is none) or "warmup" (there is none).
        guess: where the loss will end, as the reader thinks, in nats; None: no guess yet.
        expected: the curve that the reader expects of a break: "zero", "same", "worse" or "stuck"; "": none yet.
        weight: the weight that is followed: its name, its row and its column.
        head: the head that is shown: its block, and which of its heads.

    Raises:
        TraitError: a value outside its range.
    """

    name = Enum(NAMES, "").tag(sync=True)
    size = Enum(SIZES, "small").tag(sync=True)
    d_model = Enum(WIDTHS, 64).tag(sync=True)
    n_layers = Int(2, min=BLOCKS[0], max=BLOCKS[1]).tag(sync=True)
    steps = Int(1000, min=STEPS[0], max=STEPS[1]).tag(sync=True)
    rate = Number(1.0, min=0.01, max=100).tag(sync=True)
    seed = Int(0, min=0, max=9999).tag(sync=True)
    source = Enum(("shakespeare", "own"), "shakespeare").tag(sync=True)
    text = Unicode().tag(sync=True)
    broken = Enum(BREAKS, "nothing").tag(sync=True)
    guess = Float(None, allow_none=True).tag(sync=True)
    expected = Enum(("", *CURVES), "").tag(sync=True)
    weight = List([W_O, 0, 0]).tag(sync=True)
    head = List([0, 0]).tag(sync=True)

    _recipe = Dict(read_only=True).tag(sync=True)
    _sizes = Dict(read_only=True).tag(sync=True)
    _landmarks = Dict(read_only=True).tag(sync=True)
    _chapters = Chapters().tag(sync=True)
    _pytorch = List(read_only=True).tag(sync=True)  # losses of the book's size with PyTorch, one for a seed
    _measured = Dict(read_only=True).tag(sync=True)  # small runs that tools/assets/training_lab.py recorded

    @default("_recipe")
    def _default_recipe(self) -> dict[str, Any]:
        return recipe()

    @default("_sizes")
    def _default_sizes(self) -> dict[str, dict[str, int]]:
        model, training = recipe()["model"], recipe()["training"]
        book = {name: model[name] for name in ("d_model", "n_layers")} | {"steps": training["steps"]}
        return {"small": SMALL, "book": book}

    @default("_landmarks")
    def _default_landmarks(self) -> dict[str, float]:
        return landmarks()

    @default("_pytorch")
    def _default_pytorch(self) -> list[float]:
        runs = experiments.stored("recipes", part="ladder", recipe=RUNG)
        return [run.found["validation_loss"] for run in runs]

    @default("_measured")
    def _default_measured(self) -> dict[str, Any]:
        return json.loads(resources.files("glassformer").joinpath("assets", MEASURED).read_text("utf-8"))

    @validate("text")
    def _validate_text(self, proposal: dict) -> str:
        if len(proposal["value"]) > KEPT:
            raise TraitError(
                f"text has {len(proposal['value'])} characters, but at most {KEPT} can be stored"
            )
        return proposal["value"]

    @validate("weight")
    def _validate_weight(self, proposal: dict) -> list:
        given = proposal["value"]
        if len(given) != 3 or not isinstance(given[0], str) or not _are_places(given[1:]):
            raise TraitError(f"weight={given!r} must be the name of a weight, its row and its column, from 0")
        return given

    @validate("head")
    def _validate_head(self, proposal: dict) -> list:
        given = proposal["value"]
        if len(given) != 2 or not _are_places(given):
            raise TraitError(f"head={given!r} must be a block and one of its heads, both counted from 0")
        return given

    def _file(self, what: str) -> bytes | None:
        """Returns the book's Shakespeare when the view asks for the corpus."""
        return corpus().encode() if what == "corpus" else None


def _are_places(given: list) -> bool:
    return all(type(each) is int and each >= 0 for each in given)
