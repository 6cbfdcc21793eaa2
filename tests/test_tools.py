"""Tests what `make check` and `make test CHAPTER=…` run."""

import sys

import pytest

from glassformer import contents
from glassformer.exercises.catalogue import catalogue, of_chapter
from tools import check, test


def test_all_commands_are_run_and_those_that_fail_are_named_and_shown(capsys):
    def command(text, status):
        return [sys.executable, "-c", f"print({text!r}); raise SystemExit({status})"]

    commands = {
        "style": command("all is well", 0),
        "types": command("no, it is not", 1),
        "last": command("", 2),
    }
    assert check.failures(commands) == ["types", "last"]
    said = capsys.readouterr().out
    assert "no, it is not" in said
    assert "all is well" not in said


def test_units_are_of_the_suite():
    assert [path for path in check.SLOW if not (check.ROOT / path).exists()] == []


@pytest.mark.parametrize("one", contents.chapters(), ids=lambda one: one.number)
def test_a_chapters_tests_are_its_own_and_what_all_chapters_share_by_its_names(one):
    *rooms, flag, chosen, other, marks = test.of_chapter(one.number)
    assert (flag, other, marks) == ("-k", "-m", "sampled or not weekly")
    assert [room for room in rooms if not (check.ROOT / room).exists()] == []
    own = [room for room in rooms if room.startswith("notebooks/")]
    assert own == [f"notebooks/{one.name}.ipynb", f"notebooks/{one.practice_name}.ipynb"]
    assert (f"tests/chapters/ch{one.number}" in rooms) == (
        test.ROOT / f"tests/chapters/ch{one.number}"
    ).exists()
    asked = set(chosen.split(" or "))
    assert {
        f"{one.number}-",
        f"ch{one.number}",
        "test_chapters",
        "checked_here",
        *of_chapter(one.number),
    } <= asked
    assert not asked & {name for name in catalogue() if name not in of_chapter(one.number)}


def test_a_chapters_own_tests_are_run(tmp_path, monkeypatch):
    monkeypatch.setattr(test, "ROOT", tmp_path)
    monkeypatch.setattr(test.notebooks, "pairs", list)
    for number in ("05", "06"):
        (tmp_path / "tests" / "chapters" / f"ch{number}").mkdir(parents=True)
    assert test.of_chapter("05")[0] == "tests/chapters/ch05"
    assert test.of_chapter("07")[0] == test.SHARED[0]


def test_a_chapter_that_is_not_there_is_said(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["test.py", "--chapter", "99"])
    with pytest.raises(SystemExit):
        test.main()
    assert "number='99' is not one of '00', '01', " in capsys.readouterr().err


class Case:
    """What pytest collects: a case of a test with the marker `sampled(n)`, or without."""

    def __init__(self, name, n=None):
        self.nodeid, self.n, self.added = f"tests/test_a.py::{name}", n, []

    def get_closest_marker(self, name):
        return pytest.mark.sampled(self.n).mark if self.n and name == "sampled" else None

    def add_marker(self, marker):
        self.added.append(marker.name)


def test_every_run_takes_every_nth_case_and_the_others_are_weekly(request):
    conftest = request.config.pluginmanager.get_plugin(str(check.ROOT / "tests" / "conftest.py"))
    names = ["test_a[0]", "test_b[0]", "test_a[1]", "test_a[2]", "test_b[1]", "test_a[3]", "test_c"]
    cases = [Case(name, {"test_a": 3, "test_b": 2}.get(name[:6])) for name in names]
    conftest.pytest_collection_modifyitems(cases)
    weekly = [name for name, case in zip(names, cases, strict=True) if case.added == ["weekly"]]
    assert weekly == ["test_a[1]", "test_a[2]", "test_b[1]"]
