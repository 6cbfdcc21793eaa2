"""Tests repeated runs: how far they are from the stored ones, and which are still missing."""

import json
import math
from types import SimpleNamespace

import pytest

from glassformer import shipped
from glassformer.experiments import Run, experiment, stored
from tests.experiments import conftest
from tools import again
from tools.again import ALONE, OUTSIDE, WITHIN, compare, grouped


def seeds(*found):
    return [Run({"seed": seed}, one) for seed, one in enumerate(found)]


def verdict(stored, now, *others):
    """Returns the verdict on a run that found one thing, compared with runs of other seeds."""
    worst = compare(seeds(*({"x": one} for one in (stored, *others))), {"x": now})
    return worst and worst.verdict


@pytest.mark.parametrize("found", [1.5, None, "a text", [], {"loss": [[1, 2.0], [3, 4.0]]}], ids=str)
def test_what_is_the_same_has_no_difference(found):
    assert verdict(found, found) is None
    assert verdict(found, found, found) is None


@pytest.mark.parametrize(
    ("stored", "now", "others", "wanted"),
    [
        (2.0, 2.19, (2.1, 2.2), WITHIN),
        (2.2, 2.35, (2.1, 2.0), WITHIN),  # beyond them all, but nearer to its own than they are to each other
        (2.0, 1.79, (2.1, 2.2), OUTSIDE),
        (2.0, 2.01, (), ALONE),
        (1.2345, 1.2346, (1.2345,), WITHIN),  # a unit of the fifth digit is rounding
        (1.2345, 1.2347, (1.2345,), OUTSIDE),
        ([3.0, 2.0], [3.1, 2.1], ([3.2, 2.0],), WITHIN),  # the widest range of any point
        ([3.0, 2.0], [3.1, 2.3], ([3.2, 2.0],), OUTSIDE),
        (True, False, (True,), OUTSIDE),
        (True, False, (False,), WITHIN),
        ("one", "two", ("three",), WITHIN),
        ("one", "two", ("one",), OUTSIDE),
        (2.0, math.nan, (2.1,), OUTSIDE),
        (2.0, math.nan, (None,), WITHIN),
        (None, math.nan, (), None),  # NaN is stored as None
        (2.0, [2.0], (3.0,), OUTSIDE),
    ],
)
def test_a_difference_is_compared_with_that_between_seeds(stored, now, others, wanted):
    assert verdict(stored, now, *others) == wanted


def test_what_is_missing_or_new_is_outside():
    runs = seeds({"loss": 2.0, "steps": 5}, {"loss": 3.0, "steps": 5})
    gone, new = compare(runs, {"loss": 2.0}), compare(runs, runs[0].found | {"more": 1.0})
    assert (gone.what, gone.verdict, gone.stored, gone.now) == ("steps", OUTSIDE, "something", "nothing")
    assert (new.what, new.verdict, new.stored, new.now) == ("more", OUTSIDE, "nothing", "something")
    assert compare(seeds({"x": [1, 2]}), {"x": [1, 2, 3]})[:4] == ("x, length", ALONE, 2, 3)


def test_of_several_differences_the_worst_is_reported():
    runs = seeds(
        {"course": [4.0, 2.0], "steps": {"first": 10}}, {"course": [4.5, 2.0], "steps": {"first": 10}}
    )
    worst = compare(runs, {"course": [4.0, 2.4], "steps": {"first": 10}})
    assert worst[:4] == ("course", WITHIN, 2.0, 2.4)
    assert worst[4:] == pytest.approx((0.4, 0.2, 0.5))
    # A small difference where the seeds agree is worse than a large one where they do not.
    worst = compare(runs, {"course": [4.4, 2.0], "steps": {"first": 11}})
    assert (worst.what, worst.verdict, worst.seeds) == ("steps, first", OUTSIDE, 0)


def test_every_stored_run_is_of_a_kind_and_the_models_and_neurons_are_too():
    every = again.kinds()
    assert list(dict.fromkeys(kind.name for kind in every)) == list(again.EVERY)
    for name in again.NAMES:
        assert sum(len(kind.runs) for kind in every if kind.name == name) == len(stored(name))
    cards = {kind.settings["model"]: kind.runs[0].found for kind in every if kind.name == again.MODELS}
    assert set(cards) == set(shipped.NAMES)
    assert all(card["losses"] for card in cards.values())


def test_tests_of_the_book_can_read_the_repeated_runs_instead_of_the_stored_ones(tmp_path):
    """The weekly workflow runs tests/experiments so."""
    runs = json.loads(again.DATA.read_text(encoding="utf-8"))
    one = next(run for run in runs if run["name"] == "activations")
    one["found"]["loss"] += 0.2
    file, cleanups = tmp_path / "again.json", []
    file.write_text(json.dumps(runs), encoding="utf-8")
    before = stored("activations", **one["settings"])
    options = SimpleNamespace(getoption=lambda *_, **__: file, add_cleanup=cleanups.append)
    conftest.pytest_configure(options)
    assert stored("activations", **one["settings"])[0].found == one["found"]
    with pytest.raises(pytest.skip.Exception):
        experiment("activations").measure_shortly()
    for undo in reversed(cleanups):
        undo()
    assert stored("activations", **one["settings"]) == before


@pytest.fixture
def repeat(monkeypatch, tmp_path):
    """Runs the command on three kinds of two experiments, and returns its status and the settings of the runs made."""
    measure = lambda x, seed: {"loss": x + seed}  # noqa: E731
    runs = [Run({"x": x, "seed": seed}, measure(x, seed), "AVX") for x in (1.0, 2.0) for seed in (5, 6)]
    alone = [Run({"x": 3.0, "seed": 0}, {"loss": 7.0})]
    every = [*grouped("leak", measure, runs), *grouped("depth", measure, alone)]
    fails = set()
    monkeypatch.setattr(again, "DATA", tmp_path / "again.json")
    monkeypatch.setattr(again, "PAGE", tmp_path / "again.md")
    monkeypatch.setattr(again, "kinds", lambda: every)

    def run(*arguments):
        made = []

        def each(todo, workers):
            for at, (function, settings) in enumerate(todo):
                made.append(settings["x"])
                done = Run(settings, function(**settings), "ARM")
                yield at, ZeroDivisionError() if settings["x"] in fails else done, 30.0

        monkeypatch.setattr(again, "each", each)
        monkeypatch.setattr("sys.argv", ["again", *arguments])
        return again.main(), made

    return run, fails


def test_a_run_that_failed_is_made_the_next_time_and_only_it(repeat, capsys):
    run, fails = repeat
    fails.add(3.0)
    assert run() == (1, [1.0, 2.0, 3.0])
    assert "depth: x 3.0, seed 0: ZeroDivisionError()" in capsys.readouterr().out
    assert "- *not yet*: x 3.0, seed 0\n" in again.PAGE.read_text(encoding="utf-8")
    fails.clear()
    assert run() == (0, [3.0])
    assert "depth: x 3.0, seed 0: 30 s, one seed: loss" in capsys.readouterr().out
    assert run() == (0, [])
    fails.add(1.0)
    assert run("leak", "--anew") == (1, [1.0, 2.0])
    kept = json.loads(again.DATA.read_text(encoding="utf-8"))
    assert [one["settings"]["x"] for one in kept] == [
        2.0,
        3.0,
    ]  # the last result of the one that failed is gone
    assert run("--page") == (0, [])
    with pytest.raises(SystemExit):
        run("leek")
    assert "'leek' is not one of depth, " in capsys.readouterr().err


def test_the_page_has_a_verdict_on_every_kind(repeat):
    run, fails = repeat
    fails.add(2.0)
    run()
    written = again.PAGE.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in written.splitlines()]
    #     name                 kinds the same, within, one seed, outside, not yet, seconds
    assert ["[leak](#leak)", "2", "1", "–", "–", "–", "1", "30"] in rows
    assert ["all", "3", "1", "–", "1", "–", "1", "60"] in rows
    assert ["x 3.0, seed 0", "one seed (ARM; stored: unknown)", "loss", "7.0", "3.0", "4", "–"] in rows
    assert "- *the same (ARM; stored: AVX)*: x 1.0, seed 5 (30 s)\n" in written
    assert "- *not yet*: x 2.0, seed 5\n" in written
