"""Tests the sums and the examples of the page for teachers: minutes, graded exercises, an exercise of one's own."""

import re
from pathlib import Path

import numpy as np
import pytest

from glassformer import contents
from glassformer.exercises import add_exercises, catalogue, commands
from glassformer.exercises.attempt import attempt

PAGE = (Path(__file__).parents[1] / "book" / "teachers.md").read_text(encoding="utf-8")


def rows(title):
    """Returns the rows of each table below a heading, cell by cell, without the heads."""
    section = re.split(rf"^## {title}$", PAGE, flags=re.M)[1].partition("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in re.findall(r"^\|.*\|$", section, re.M)
    ]
    return [line for line in lines if line[0].isdecimal()]


def test_the_times_of_chapters_and_graded_exercises_are_those_of_the_book():
    found = [row[:4] for row in rows("What to grade")]
    assert [row[0] for row in found] == contents.numbers()
    graded = []
    for number, reading, names, minutes in found:
        those = [catalogue.of_chapter(number)[name] for name in re.findall("`(.+?)`", names)]
        graded += [catalogue.find(one.name).reference.__name__ for one in those]
        assert (int(reading), int(minutes)) == (
            contents.chapter(number).minutes,
            sum(one.minutes for one in those),
        )
    others = [catalogue.find(name).reference.__name__ for name in catalogue.catalogue()]
    assert [name for name in graded if others.count(name) > 1] == []  # a file can hold them all


def test_each_week_of_a_syllabus_has_the_sums_of_its_chapters():
    minutes = {row[0]: (int(row[1]), int(row[3])) for row in rows("What to grade")}
    weeks = rows("Three syllabi")
    assert [int(week[0]) for week in weeks] == [*range(1, 3), *range(1, 7), *range(1, 13)]
    for _, chapters, *sums in weeks:
        each = [minutes[number] for number in chapters.split(", ")]
        assert [int(one) for one in sums] == [sum(column) for column in zip(*each, strict=True)]


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """Writes the page's own exercise as it says, and forgets it afterwards."""
    monkeypatch.setattr(catalogue, "_added", {})
    code = dict(
        re.findall(r"^```(toml|python)\n(.*?)^```", PAGE.replace("```python\nfrom", "```\nfrom"), re.M | re.S)
    )
    (tmp_path / "ours" / "judges").mkdir(parents=True)
    (tmp_path / "ours" / "exercises.toml").write_text(code["toml"], encoding="utf-8")
    (tmp_path / "ours" / "judges" / "average.py").write_text(code["python"], encoding="utf-8")
    return tmp_path / "ours"


def test_an_exercise_of_ones_own_is_judged_like_the_books(ours, monkeypatch):
    shown = []
    monkeypatch.setattr(commands, "display", shown.append)
    add_exercises(ours)
    assert repr(shown.pop()) == "Added own.average"
    one = catalogue.find("own.average")
    right = attempt(one, lambda x: np.array([sum(column) / len(x) for column in x.T]), 5.0)
    assert right.status == "right", right.message
    wrong = attempt(one, lambda x: np.mean(x, axis=1), 5.0)
    assert (wrong.status, wrong.mistake) == ("wrong", "You averaged over the features.")
    commands.reveal("own.average")
    assert "return x.mean(axis=0)" in shown[-1].code
    assert not shown[-1].more[1]  # the judge's function is no library's


def test_a_folder_that_was_changed_is_read_again(ours, tmp_path):
    other = tmp_path / "other"
    (other / "judges").mkdir(parents=True)
    text = (ours / "exercises.toml").read_text(encoding="utf-8")
    (other / "exercises.toml").write_text(text.replace("own.", "more."), encoding="utf-8")
    for folder in (ours, other):
        catalogue.add(folder)
    judge = (ours / "judges" / "average.py").read_text(encoding="utf-8")
    (ours / "judges" / "average.py").write_text(judge.replace("axis=0", "axis=-2"), encoding="utf-8")
    (ours / "exercises.toml").write_text(text.replace("axis=0", "axis=-2"), encoding="utf-8")
    assert catalogue.add(ours) == ["own.average"]
    assert "axis=-2" in catalogue.find("own.average").answer
    (other / "judges" / "average.py").write_text(judge.replace("own.", "more."), encoding="utf-8")
    assert "axis=0" in catalogue.find("more.average").answer


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("own.average", "gpt.gpt", "'gpt.gpt' is the name of another exercise already"),
        ('title = "An average over positions"', "", "missing a required argument: 'title'"),
        ("minutes = 5", "minutes = ", "TOMLDecodeError"),
    ],
)
def test_what_is_no_folder_of_exercises_is_refused(ours, was, now, said):
    file = ours / "exercises.toml"
    file.write_text(file.read_text(encoding="utf-8").replace(was, now), encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        catalogue.add(ours)
    assert "own.average" not in catalogue.catalogue()
