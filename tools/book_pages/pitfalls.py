"""Writes book/pitfalls.md: every mistake of the gallery, its effects, and the cheapest test that catches it.

All of it comes from `bugs/gallery.toml` and from the stored runs of the experiments "pitfalls" and "clinic". If these
have changed, `make notebooks` writes the page again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from glassformer.bugs.gallery import Bug, read
from glassformer.contents import chapter
from glassformer.experiments import spread, stored
from glassformer.experiments.clinic import TESTS, caught, cheapest
from glassformer.experiments.pitfalls import NOT_APPLICABLE, RIGHT, TRAINED, looks, writes_badly

HEADING = """# Pitfalls

These mistakes raise no error. Each one changes a line or two of this book's code, and `glassformer.bugs.put_in` makes
the change while a `with` block runs. [Chapter 14](../notebooks/14-when-it-almost-works.ipynb) diagnoses twelve of them
and explains the ten tests.

The columns *Loss* and *Text* show what happened when a small model was trained with the mistake for {steps} steps, with
seeds {seeds}, compared with a correct model of the same seed. A loss is *too good* if it is lower by more than 0.5
[nats](glossary.md#nat), *worse* if it is higher by more than 0.1, and *normal* otherwise. A run is *broken off* when
its loss or a gradient is no longer a number, and then no text is written. A text is *bad* if a simple judge, which
counts characters, finds it more surprising than the correct model's text, by 0.7 nats per character. These are results
of these runs: a larger model or a longer training may show more. The *cheapest test* is the first of the ten that
catches the mistake with every seed tried. The test `gradient` compares with a gradient written by hand for the correct
code. Autograd computes the gradient of the faulty code, and then only `parity` finds the mistake. The models of the ten
tests do not have the parts of later chapters. For a mistake in such a part, the page names the test that catches it in
a model with the part, and `tests/test_bugs.py` tries it out.
"""

NONE = "none of the ten"
BROKEN_OFF = "broken off"  # as `looks` says


def page(gallery: Path) -> str:
    """Returns the page of a gallery: a table of all mistakes, then each one, chapter by chapter."""
    bugs = sorted(read(gallery.read_text(encoding="utf-8")).values(), key=lambda bug: bug.chapter)
    some = [run.found for run in stored("pitfalls", bug=RIGHT)]
    lines = [HEADING.format(seeds=_and(_seeds("rope")), steps=some[0]["steps"]), *_table(bugs)]
    for number, those in groupby(bugs, key=lambda bug: bug.chapter):
        lines += ["", f"## {number} · {chapter(number).title}"]
        for bug in those:
            lines += ["", *_entry(bug)]
    return "\n".join(lines) + "\n"


def _table(bugs: list[Bug]) -> Iterator[str]:
    yield "| Mistake | Loss | Text | Cheapest test | Chapter |"
    yield "| --- | --- | --- | --- | --- |"
    for bug in bugs:
        tests = [bug.caught_by] if bug.caught_by else [f"`{test}`" for test in cheapest(bug.name)]
        one = chapter(bug.chapter)
        yield (
            f"| {bug.title} | {' | '.join(_seen(bug.name))} | {' or '.join(tests) or NONE}"
            f" | [{one.number}](../notebooks/{one.name}.ipynb) |"
        )


def _entry(bug: Bug) -> Iterator[str]:
    wrong, right = bug.what
    yield f"### {bug.title}"
    yield f"\n{bug.symptom}\n"
    yield "```diff"
    yield from (f"- {line}" for line in right.splitlines())
    yield from (f"+ {line}" for line in wrong.splitlines())
    yield "```\n"
    yield f"- **measured**: {_measured(bug.name)}"
    tests = ", ".join(f"`{test}`" for test in TESTS if bug.name in caught()[test])
    yield f"- **caught by**: {bug.caught_by or tests or NONE}"
    yield f"- **its name**: `{bug.name}`"


def _and(things: Iterable[Any]) -> str:
    return " and ".join(map(str, things))


def _seeds(model: str) -> list[int]:
    return [run.settings["seed"] for run in stored("pitfalls", bug=RIGHT, model=model)]


def _pairs(name: str) -> list[tuple[dict, dict]]:
    """Returns the results of runs with the mistake, each with that of the correct model for the same seed."""
    model = TRAINED[name]
    return [
        (
            stored("pitfalls", bug=name, model=model, seed=seed)[0].found,
            stored("pitfalls", bug=RIGHT, model=model, seed=seed)[0].found,
        )
        for seed in _seeds(model)
    ]


def _seen(name: str) -> tuple[str, str]:
    """Describes the loss curve and the text."""
    if name in NOT_APPLICABLE:
        return "–", "–"
    losses = {looks(*pair) for pair in _pairs(name)}
    if losses == {BROKEN_OFF}:
        return BROKEN_OFF, "–"
    texts = {"bad" if writes_badly(*pair) else "normal" for pair in _pairs(name)}
    return " or ".join(sorted(losses)), " or ".join(sorted(texts))


def _measured(name: str) -> str:
    if name in NOT_APPLICABLE:
        return f"no training, because {NOT_APPLICABLE[name]}"
    sick, right = zip(*_pairs(name), strict=True)

    def both(runs: tuple[dict, ...], what: str) -> str:
        return _and(f"{run[what]:.2f}" for run in runs)

    def words(runs: tuple[dict, ...]) -> str:
        return _and(f"{run['known_words']:.0%} of {run['words']}" for run in runs)

    if set(map(looks, sick, right)) == {BROKEN_OFF}:
        return (
            f"after {_and(sorted({run['steps'] for run in sick}))} steps, the loss or its gradient is no longer a "
            f"number (the correct model ends at {both(right, 'reported')} nats)"
        )
    deep = _deep() if name == "post-norm" else ""
    return (
        f"{deep}training reports a loss of {both(sick, 'reported')} nats (the correct model: "
        f"{both(right, 'reported')}); the same weights in the correct code have {both(sick, 'validation')}; of the "
        f"words written,"
        f" {words(sick)} exist (the correct model: {words(right)})"
    )


def _deep() -> str:
    """Describes the effect of the norm's placement, which needs a deep model without warm-up: chapter 05's runs."""
    post, pre = (
        spread(
            run.found["validation_loss"]
            for run in stored(
                "norm_placement", placement=placement, n_layers=8, learning_rate=1e-3, warmup=0, steps=None,
                zero_init=None,
            )
        )
        for placement in ("post", "pre")
    )  # fmt: skip
    return (
        f"with eight blocks and no warm-up, the loss is {post:.2f} nats (the correct model: {pre:.2f}); with two"
        " blocks, a warm-up and sublayers that add nothing at first, "
    )
