"""Tests the sums and the examples of the page for teachers: minutes, graded exercises, an exercise of one's own."""

import re
from pathlib import Path

import numpy as np
import pytest

from glassformer import contents
from glassformer.exercises import add_exercises, catalogue, classroom, commands, exercises

PAGE = (Path(__file__).parents[1] / "book" / "teachers.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in re.findall(r"^\| \d.*\|$", PAGE, re.M)]
GRADED = {row[0]: row[1:4] for row in ROWS if len(row) == 5}


def test_the_times_of_chapters_and_graded_exercises_are_those_of_the_book():
    assert list(GRADED) == contents.numbers()
    functions = [one.reference.__name__ for one in exercises()]
    for number, (reading, names, minutes) in GRADED.items():
        those = [catalogue.of_chapter(number)[name] for name in re.findall("`(.+?)`", names)]
        assert (int(reading), int(minutes)) == (
            contents.chapter(number).minutes,
            sum(one.minutes for one in those),
        )
        for one in those:  # a student's file can hold them all
            assert functions.count(catalogue.find(one.name).reference.__name__) == 1


def test_each_week_of_a_syllabus_has_the_sums_of_its_chapters():
    weeks = [row for row in ROWS if len(row) == 4]
    assert [int(week[0]) for week in weeks] == [*range(1, 3), *range(1, 7), *range(1, 13)]
    for _, chapters, *sums in weeks:
        each = [(int(GRADED[number][0]), int(GRADED[number][2])) for number in chapters.split(", ")]
        assert [int(one) for one in sums] == [sum(column) for column in zip(*each, strict=True)]


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """Writes the page's own exercise as it says; it is forgotten afterwards."""
    monkeypatch.setattr(catalogue, "_added", {})
    (tmp_path / "ours" / "judges").mkdir(parents=True)
    for kind, name in (("toml", "exercises.toml"), ("python", "judges/average.py")):
        code = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)[1]
        (tmp_path / "ours" / name).write_text(code, encoding="utf-8")
    return tmp_path / "ours"


def test_an_exercise_of_ones_own_is_judged_like_the_books(ours, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(commands, "show", shown.append)
    (tmp_path / "class").mkdir()
    for name, axis in (("anna", 0), ("ben", 1)):
        (tmp_path / "class" / f"{name}.py").write_text(
            f"def average(x): return sum(x.swapaxes(0, {axis})) / x.shape[{axis}]"
        )
    right, wrong = (one.verdicts["own.average"] for one in classroom.judge(tmp_path / "class", [ours], 30))
    assert (right["status"], wrong["mistake"]) == ("right", "You averaged over the features.")
    commands.reveal("own.average")
    assert "return x.mean(axis=0)" in shown[0].code
    assert not shown[0].more[1]  # the judge's function is no library's


def test_a_folder_that_was_changed_is_read_again(ours):
    add_exercises(ours)
    assert catalogue.find("own.average").reference(np.eye(2)).shape == (2,)
    for file in (ours / "exercises.toml", ours / "judges" / "average.py"):
        file.write_text(file.read_text(encoding="utf-8").replace("axis=0", "axis=-2"), encoding="utf-8")
    assert add_exercises(ours) == ["own.average"]
    assert "axis=-2" in catalogue.find("own.average").answer


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("own.average", "gpt.gpt", "'gpt.gpt' is the name of another"),
        ("title", "titel", "'titel'"),
        ("= 5", "= ", "Invalid"),
    ],
)
def test_what_is_no_folder_of_exercises_is_refused(ours, was, now, said):
    file = ours / "exercises.toml"
    file.write_text(file.read_text(encoding="utf-8").replace(was, now), encoding="utf-8")
    with pytest.raises(ValueError, match=f"exercises.toml: .*{said}"):
        add_exercises(ours)
    assert "own.average" not in catalogue.catalogue()
