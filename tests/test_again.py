"""Tests repeated runs: how far they are from the stored ones, and which are still missing."""

import json
import math
import re
import subprocess
import sys

import pytest

from glassformer import shipped
from glassformer.experiments import Run, stored
from tools.again import __main__ as tool
from tools.again import came, kinds
from tools.again.compare import ALONE, OUTSIDE, WITHIN, compare
from tools.again.page import page


def seeds(*found):
    return [Run({"seed": seed}, one) for seed, one in enumerate(found)]


def verdict(stored, now, *others):
    """Returns the verdict on a run that found one thing, compared with runs of other seeds."""
    worst = compare(seeds(*({"x": one} for one in (stored, *others))), {"x": now})
    return worst and worst.verdict


# One thing beside the stored seeds


@pytest.mark.parametrize(
    "found",
    [1.5, 0, True, None, "a text", [], [1.0, None, "b"], {"loss": [[1, 2.0], [3, 4.0]]}],
    ids=str,
)
def test_what_is_the_same_has_no_difference(found):
    assert verdict(found, found) is None
    assert verdict(found, found, found) is None


@pytest.mark.parametrize(
    ("stored", "now", "others", "wanted"),
    [
        # numbers: the seeds lie from 2.0 to 2.2
        (2.0, 2.19, (2.1, 2.2), WITHIN),
        (2.2, 2.35, (2.1, 2.0), WITHIN),  # beyond them all, but nearer to its own than they are to each other
        (2.0, 2.21, (2.1, 2.2), OUTSIDE),
        (2.0, 1.79, (2.1, 2.2), OUTSIDE),
        (2.0, 2.01, (), ALONE),
        (407_937, 407_938, (407_937,), OUTSIDE),  # a count is kept in all its digits
        # a unit of the fifth digit is rounding
        (1.2345, 1.2346, (1.2345,), WITHIN),
        (1.2345, 1.2347, (1.2345,), OUTSIDE),
        (1.2345e-7, 1.2346e-7, (), WITHIN),
        (0.0, 1e-12, (0.0,), OUTSIDE),
        # curves: the largest difference of any point, the widest spread of any point
        ([3.0, 2.0], [3.1, 2.1], ([3.2, 2.0],), WITHIN),
        ([3.0, 2.0], [3.1, 2.3], ([3.2, 2.0],), OUTSIDE),
        # what is no number
        (True, False, (True,), OUTSIDE),
        (True, False, (False,), WITHIN),
        ("one", "two", ("three",), WITHIN),
        ("one", "two", ("one",), OUTSIDE),
        ("one", "two", (), ALONE),
        (2.0, None, (2.1,), OUTSIDE),
        (2.0, math.nan, (2.1,), OUTSIDE),
        (2.0, math.nan, (None,), WITHIN),
        (None, 2.0, (2.0,), WITHIN),
        (None, 2.0, (None,), OUTSIDE),
    ],
)
def test_a_difference_is_held_against_what_the_seeds_differ(stored, now, others, wanted):
    assert verdict(stored, now, *others) == wanted


def test_nan_is_what_is_stored_as_none():
    assert verdict(None, math.nan) is None
    assert verdict([1.0, None], [1.0, math.inf]) is None


def test_what_is_missing_or_new_is_outside():
    runs = seeds({"loss": 2.0, "steps": 5}, {"loss": 3.0, "steps": 5})
    gone, new = compare(runs, {"loss": 2.0}), compare(runs, runs[0].found | {"more": 1.0})
    assert (gone.what, gone.verdict, gone.stored, gone.now) == ("steps", OUTSIDE, "something", "nothing")
    assert (new.what, new.verdict, new.stored, new.now) == ("more", OUTSIDE, "nothing", "something")
    assert verdict(2.0, [2.0], 3.0) == OUTSIDE  # another form


def test_lists_of_other_lengths_differ_in_their_length():
    worst = compare(seeds({"course": [3.0, 2.0]}, {"course": [3.0, 1.0]}), {"course": [9.0, 2.0, 1.0]})
    assert (worst.what, worst.verdict, worst.stored, worst.now) == ("course, length", OUTSIDE, 2, 3)
    # who trains for a time, and not for so many steps, has lists of many lengths
    assert verdict([3.0, 2.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0, 1.0]) == WITHIN
    # points are held against those of seeds that have as many
    assert verdict([3.0, 2.0], [3.1, 2.0], [3.2]) == ALONE


def test_where_a_run_differs_most_is_said_with_by_how_much():
    runs = seeds(
        {"loss": 2.0, "course": [4.0, 2.0], "steps": {"first": 10}},
        {"loss": 2.5, "course": [4.5, 2.0], "steps": {"first": 10}},
    )
    worst = compare(runs, {"loss": 2.1, "course": [4.0, 2.4], "steps": {"first": 10}})
    assert worst[:4] == ("course", WITHIN, 2.0, 2.4)
    assert worst[4:] == pytest.approx((0.4, 0.2, 0.5))
    # A small difference where the seeds agree is worse than a large one where they do not.
    worst = compare(runs, {"loss": 2.4, "course": [4.0, 2.0], "steps": {"first": 11}})
    assert (worst.what, worst.verdict, worst.seeds) == ("steps, first", OUTSIDE, 0)
    # Beside what the seeds differ in it, not by itself.
    runs = seeds({"a": 100.0, "b": 1.0}, {"a": 200.0, "b": 1.1})
    assert compare(runs, {"a": 120.0, "b": 1.09}).what == "b"


# Which runs there are


def test_runs_that_differ_in_their_seed_alone_are_of_one_kind():
    runs = [Run({"a": a, "seed": seed}, {}) for a in (1, 2) for seed in (3, 4)] + [Run({"b": 1}, {})]
    groups = kinds.grouped("x", dict, runs)
    assert [[run.settings for run in kind.runs] for kind in groups] == [
        [{"a": 1, "seed": 3}, {"a": 1, "seed": 4}],
        [{"a": 2, "seed": 3}, {"a": 2, "seed": 4}],
        [{"b": 1}],
    ]
    assert groups[1].settings == {"a": 2, "seed": 3}


def test_every_stored_run_is_of_a_kind_and_the_models_and_neurons_are_too():
    every = kinds.kinds()
    assert list(dict.fromkeys(kind.name for kind in every)) == list(kinds.EVERY)
    for name in kinds.NAMES:
        assert sum(len(kind.runs) for kind in every if kind.name == name) == len(stored(name))
    cards = {kind.settings["model"]: kind.runs[0].found for kind in every if kind.name == kinds.MODELS}
    assert set(cards) == set(shipped.NAMES)
    assert all(card["losses"] for card in cards.values())


# What the book says of the stored runs


def claims(file, *chosen):
    """Runs the tests of stored runs on repeated ones, and returns the status and the output."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--made-again", file, *chosen],
        cwd=tool.BOOK.parent,
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout


def test_what_the_book_says_of_the_stored_runs_is_true_of_those_made_again():
    status, said = claims(tool.DATA, "tests/experiments")
    assert status == 0, said
    passed = re.search(r"(\d+) passed", said)
    assert int(passed[1]) > 400


def test_a_run_that_came_out_otherwise_is_noticed(tmp_path):
    again = json.loads(tool.DATA.read_text(encoding="utf-8"))
    one = next(one for one in again if one["name"] == "activations")
    one["found"]["loss"] += 0.2
    file = tmp_path / "again.json"
    file.write_text(json.dumps(again), encoding="utf-8")
    status, said = claims(file, "tests/experiments/test_activations.py")
    assert status == 1, said


# What came


def measure(x, seed):
    return {"loss": x + seed}


@pytest.fixture
def again(monkeypatch, tmp_path):
    """Runs the command on three kinds of two experiments, and returns its status and the settings of the runs made."""
    runs = [Run({"x": x, "seed": seed}, {"loss": x + seed}, "AVX") for x in (1.0, 2.0) for seed in (5, 6)]
    every = [
        *kinds.grouped("leak", measure, runs),
        *kinds.grouped("depth", measure, [Run({"x": 3.0, "seed": 0}, {"loss": 7.0})]),
    ]
    fails, seconds = set(), {1.0: 30.0, 2.0: 20.0, 3.0: 40.0}
    monkeypatch.setattr(tool, "DATA", tmp_path / "again.json")
    monkeypatch.setattr(tool, "PAGE", tmp_path / "again.md")
    monkeypatch.setattr(tool, "kinds", lambda: every)

    def run(*arguments):
        made = []

        def each(todo, workers):
            for at, (function, settings) in enumerate(todo):
                made.append(settings["x"])
                if settings["x"] in fails:
                    yield at, ZeroDivisionError(), 0.0
                else:
                    yield at, Run(settings, function(**settings), "ARM"), seconds[settings["x"]]

        monkeypatch.setattr(tool, "each", each)
        monkeypatch.setattr("sys.argv", ["again", *arguments])
        return tool.main(), made

    return run, fails


def test_a_run_that_failed_is_made_the_next_time_and_only_it(again, capsys):
    run, fails = again
    fails.add(3.0)
    assert run() == (1, [1.0, 3.0, 2.0])  # one of each experiment first
    assert "depth: x 3.0, seed 0: ZeroDivisionError()" in capsys.readouterr().out
    assert [one.run.settings["x"] for one in came.read(tool.DATA)] == [1.0, 2.0]
    assert "- *not yet*: x 3.0, seed 0\n" in tool.PAGE.read_text(encoding="utf-8")
    fails.clear()
    assert run() == (0, [3.0])
    assert "depth: x 3.0, seed 0: 40 s, one seed: loss 7.0, now 3.0" in capsys.readouterr().out
    assert run() == (0, [])


def test_all_or_some_are_made_anew_the_cheapest_first(again):
    run, fails = again
    run()
    assert run("--anew") == (0, [2.0, 1.0, 3.0])
    fails.add(1.0)
    assert run("leak", "--anew") == (1, [2.0, 1.0])
    assert [one.run.settings["x"] for one in came.read(tool.DATA)] == [
        2.0,
        3.0,
    ]  # what came before is forgotten
    assert run("--page") == (0, [])


def test_of_an_experiment_of_which_nothing_is_known_one_run_is_tried_first():
    def some(name, *numbers):
        return kinds.grouped(name, measure, [Run({"x": x, "seed": 0}, {}) for x in numbers])

    every = [*some("known", 1, 2, 3), *some("unknown", 4, 5)]
    took = [
        came.Came("known", Run({"x": x, "seed": 0}, {}), seconds, {}) for x, seconds in ((1, 9.0), (2, 5.0))
    ]
    order = [kind.settings["x"] for kind in came.cheapest_first(every, took)]
    assert order == [4, 2, 3, 1, 5]  # of 3 is known what others took


def test_an_unknown_name_is_refused(again, capsys):
    run, _ = again
    with pytest.raises(SystemExit):
        run("leek")
    assert "'leek' is not one of depth, " in capsys.readouterr().err


def test_the_page_says_of_every_kind_how_it_came_out(again):
    run, fails = again
    fails.add(2.0)
    run()
    written = tool.PAGE.read_text(encoding="utf-8")
    assert written == page(tool.kinds(), came.read(tool.DATA))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in written.splitlines()]
    #     name                 kinds the same, within, one seed, outside, not yet, seconds
    assert ["[leak](#leak)", "2", "1", "–", "–", "–", "1", "30"] in rows
    assert ["[depth](#depth)", "1", "–", "–", "1", "–", "–", "40"] in rows
    assert ["all", "3", "1", "–", "1", "–", "1", "70"] in rows
    assert [
        "x 3.0, seed 0", "one seed (ARM; stored: unknown)", "loss", "7.0", "3.0", "4", "–",
    ] in rows  # fmt: skip
    assert "- *the same (ARM; stored: AVX)*: x 1.0, seed 5 (30 s)\n" in written
    assert "- *not yet*: x 2.0, seed 5\n" in written
