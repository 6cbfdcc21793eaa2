"""What `make check` and `make test CHAPTER=…` run."""

import sys

import pytest

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


def test_a_chapters_tests_are_named_by_its_number_and_by_its_exercises():
    *rooms, _, chosen = test.of_chapter("04")
    assert [room for room in rooms if not (check.ROOT / room).exists()] == []
    chosen = chosen.split(" or ")
    assert {"04-", "positions.sinusoidal", "positions.t5_bucket"} <= set(chosen)
    assert len(chosen) == 1 + 15 + 2


def test_a_chapter_that_is_not_there_is_said(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["test.py", "--chapter", "99"])
    with pytest.raises(SystemExit):
        test.main()
    assert "chapter='99' is not there; those that are: " in capsys.readouterr().err
