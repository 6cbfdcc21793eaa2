"""A clinic for faulty models: curves, text and maps; tests that can be ordered; and possible diagnoses, explained."""

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from traitlets import Int, List, TraitError, Unicode, validate

from glassformer import shipped
from glassformer.bugs import BUGS, put_in
from glassformer.experiments import Run, stored
from glassformer.text import CharTokenizer, corpus
from glassformer.trace import trace
from glassformer.train.landmarks import landmarks as of_counting
from glassformer.widgets.engine.model import LINE, packed
from glassformer.widgets.kit.view import Chapters, Made, UpTo, View

RIGHT = "none"  # in place of a mistake: the model as it should be
SEEDS = (0, 1)
SHOWN = 17  # characters of the line that a map is drawn of
# Whose map is drawn: in the first block, before the mistake can have changed what it reads
BLOCK, HEAD = 0, 1
LOSS_DIGITS, GRADIENT_DIGITS = 3, 2
RATE = 1e-3  # of the deep models, both placements


class DiagnoseIt(View, module="diagnose_it"):
    """A clinic: what is wrong with this model?

        DiagnoseIt()
        DiagnoseIt(["labels-unshifted", "softmax-axis"])  # these patients, in this order

    Each patient is a model trained with a mistake of `glassformer.bugs`. The view shows its loss next to the
    correct model's, its gradient, what it writes, and the validation loss that its own code reports. The
    results of tests are stored and shown when the reader orders them. Then the reader gives a diagnosis and
    reads why it is right or wrong.

    All numbers come from stored experiments ("pitfalls", "norm_placement", "clinic"), except for the maps,
    for which the book's model runs with the mistake. The texts are in diagnose.toml.

    Derived in chapter 14.

    Traits:
        patient: the current patient, from 0; after the last one comes the review.
        ordered: for each patient the tests that were ordered, by name, in order.
        answers: for each patient the reader's tries in order, options from 0.

    Raises:
        TraitError: a patient, test or option that does not exist.
    """

    patient = UpTo(lambda view: len(view._entries), first=0).tag(sync=True)
    ordered = List(List(Unicode())).tag(sync=True)
    answers = List(List(Int(min=0))).tag(sync=True)
    _patients = Made(lambda view: [_patient(entry) for entry in view._entries]).tag(sync=True)
    _right = Made(lambda view: {_right_name(entry): _right(entry) for entry in view._entries}).tag(sync=True)
    _tests = Made(lambda _: clinic()["test"]).tag(sync=True)
    _landmarks = Made(lambda _: landmarks()).tag(sync=True)
    _chapters = Chapters().tag(sync=True)

    def __init__(self, patients: Sequence[str] | None = None, **traits: Any) -> None:
        known = {entry["bug"]: entry for entry in clinic()["patient"]}
        names = list(known) if patients is None else list(patients)
        if not names or not set(names) <= set(known):
            raise TraitError(f"patients={names} must be some of {', '.join(known)}")
        self._entries = [known[name] for name in names]
        nothing: list[list] = [[] for _ in names]
        super().__init__(**({"ordered": nothing, "answers": nothing} | traits))

    @validate("ordered")
    def _validate_ordered(self, proposal: dict) -> list[list[str]]:
        there = [test["name"] for test in clinic()["test"]]
        self._check_length(proposal)
        for entry, names in zip(self._entries, proposal["value"], strict=True):
            for name in names:
                if name not in there or (name == "map" and not entry.get("map", True)):
                    raise TraitError(f"ordered has {name!r}, which is not a test for {entry['bug']!r}")
        return proposal["value"]

    @validate("answers")
    def _validate_answers(self, proposal: dict) -> list[list[int]]:
        self._check_length(proposal)
        for entry, tries in zip(self._entries, proposal["value"], strict=True):
            if any(i >= len(entry["option"]) for i in tries):
                raise TraitError(f"answers has an option that {entry['bug']!r} does not have: {tries}")
        return proposal["value"]

    def _check_length(self, proposal: dict) -> None:
        if len(proposal["value"]) != len(self._entries):
            raise TraitError(
                f"{proposal['trait'].name} has {len(proposal['value'])} entries for {len(self._entries)} patients"
            )


@cache
def clinic() -> dict[str, Any]:
    """The words: tests and patients, as diagnose.toml has them."""
    return tomllib.loads(Path(__file__).with_name("diagnose.toml").read_text(encoding="utf-8"))


@cache
def landmarks() -> dict[str, float]:
    """Losses to compare with, in nats: of knowing nothing, how often each character occurs, and each pair."""
    tokenizer = CharTokenizer.from_text(corpus())
    found = of_counting(tokenizer.encode(corpus()), tokenizer.vocab_size).values()
    return {
        name: round(loss, LOSS_DIGITS)
        for name, loss in zip(("ln V", "unigram", "bigram"), found, strict=True)
    }


def _patient(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns everything that the view shows of one patient."""
    sick = _runs(entry, entry["bug"])
    return {
        "bug": entry["bug"],
        "title": BUGS[entry["bug"]].title,
        "history": entry["history"],
        "options": entry["option"],
        "steps": sick[0].found["steps"],
        "sick": [_curves(run) for run in sick],
        "reported": [_reported(run) for run in sick],
        "sample": _sample(sick[0]),
        "right": _right_name(entry),
        "results": _results(entry, sick),
    }


def _right_name(entry: dict[str, Any]) -> str:
    """Returns the name of the correct model that a patient is compared with; several patients share one."""
    return entry.get("model", "deep")


def _right(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns what the view shows of the correct model."""
    runs = _runs(entry, RIGHT)
    return {
        "curves": [_curves(run) for run in runs],
        "reported": [_reported(run) for run in runs],
        "sample": _sample(runs[0]),
        "map": _map(RIGHT),
    }


def _runs(entry: dict[str, Any], bug: str) -> list[Run]:
    """Returns one run per seed, with or without a mistake, depending on `bug`."""
    if "model" in entry:
        return [stored("pitfalls", bug=bug, model=entry["model"], seed=seed)[0] for seed in SEEDS]
    same = {"n_layers": entry["n_layers"], "warmup": 0, "learning_rate": RATE}
    placement = "pre" if bug == RIGHT else entry["placement"]
    # Those that were made with nothing else changed have the fewest settings.
    return [
        min(
            stored("norm_placement", placement=placement, seed=seed, **same),
            key=lambda run: len(run.settings),
        )
        for seed in SEEDS
    ]


def _sample(run: Run) -> str | None:
    """The beginning of what it wrote, if anything of it was kept."""
    return run.found.get("samples", [None])[0]


def _curves(run: Run) -> dict[str, list[float | None]]:
    gradient = run.found.get("gradient", run.found.get("gradient_norm"))
    return {
        "loss": [None if x is None else round(x, LOSS_DIGITS) for x in run.found["loss"]],
        "gradient": [None if x is None else round(x, GRADIENT_DIGITS) for x in gradient],
    }


def _reported(run: Run) -> float:
    """The loss of the validation text, as the code that trained the model finds it."""
    return round(run.found["reported" if "reported" in run.found else "validation_loss"], LOSS_DIGITS)


def _results(entry: dict[str, Any], sick: list[Run]) -> dict[str, Any]:
    """Returns what each test finds: `passed`, or what there is to see. A test that does not apply is absent."""
    (run,) = stored("clinic", bug=entry["bug"], seed=0)
    results: dict[str, Any] = {name: {"passed": passed} for name, passed in run.found["passed"].items()}
    for name in results.keys() & run.found.keys():  # those that train
        results[name]["loss"] = round(run.found[name], LOSS_DIGITS)
    if entry.get("map", True):
        results["map"] = {"sick": _map(entry["bug"]), "isRight": _map(entry["bug"]) == _map(RIGHT)}
    if "validation" in sick[0].found:
        results["right"] = {
            "found": [round(run.found["validation"], LOSS_DIGITS) for run in sick],
            "reported": [_reported(run) for run in sick],
        }
    return results


@cache
def _map(bug: str) -> dict[str, Any]:
    """Returns a head's attention in the book's model with a mistake in it: weights, their sums, the share ahead."""
    model, tokenizer = shipped.load()
    ids = tokenizer.encode(LINE[:SHOWN])[None]
    with trace() as seen:
        if bug == RIGHT:
            model(ids)
        else:
            with put_in(bug):
                model(ids)
    weights = seen.arrays("weights", "attention")[BLOCK][0, HEAD]
    sums = [weights.sum(axis=axis) for axis in (1, 0)]
    return {
        "text": LINE[:SHOWN],
        "block": BLOCK,
        "head": HEAD,
        "weights": packed(weights),
        "rows": [round(float(x), 2) for x in (sums[0].min(), sums[0].max())],
        "columns": [round(float(x), 2) for x in (sums[1].min(), sums[1].max())],
        "ahead": round(float(np.triu(weights, 1).sum() / weights.sum()), 2),
    }
