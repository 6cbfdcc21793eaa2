"""What the book says of its chapters, in its contents, its first page and their own texts, is what the list says."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from glassformer.contents import chapter, chapters, folder
from glassformer.exercises.catalogue import catalogue
from glassformer.experiments import NAMES, experiment

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "book" / "chapters"
WRITTEN = [one for one in chapters() if one.written]
INDEX = (TEXTS / "index.md").read_text(encoding="utf-8")


def text_of(place, one):
    return (place / f"{one.name}.md").read_text(encoding="utf-8")


def practised():
    """The written chapters that have a practice notebook."""
    return [one for one in WRITTEN if (TEXTS / "exercises" / f"{one.name}.md").exists()]


def as_words(minutes):
    return f"{minutes} minutes"


def test_they_are_numbered_in_order():
    assert [one.number for one in chapters()] == [f"{i:02d}" for i in range(len(chapters()))]
    assert chapter("04").name == "04-putting-order-in"
    for one in chapters():
        assert re.fullmatch(r"\d\d(-[a-z]+)+", one.name)
        assert one.question.endswith("?")


def test_a_number_that_no_chapter_has():
    with pytest.raises(ValueError, match=r"number='4' is not one of '00', '01', .*'15'"):
        chapter("4")


def test_what_is_written_has_a_text_and_nothing_else_has():
    texts = {path.stem for path in TEXTS.glob("*.md")}
    assert texts - {"index"} == {one.name for one in WRITTEN}
    assert {path.stem for path in (TEXTS / "exercises").glob("*.md")} <= texts


@pytest.mark.parametrize("one", WRITTEN, ids=lambda one: one.number)
def test_a_chapter_begins_with_its_title_its_question_and_its_time(one):
    text = text_of(TEXTS, one)
    title, beginning = re.search(r"^# (.+?)\n\n(.+?)```", text, re.DOTALL | re.MULTILINE).groups()
    assert title == one.title
    assert beginning.startswith(f"**{one.question}**")
    assert f"*Takes about {as_words(one.minutes)}." in beginning


def test_the_contents_list_what_is_written():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    [listed] = [part["chapters"] for part in parts if part["caption"] == "Chapters"]
    expected = []
    for one in WRITTEN:
        sections = [{"file": f"notebooks/exercises/{one.name}"}]
        expected.append(
            {"file": f"notebooks/{one.name}"} | ({"sections": sections} if one in practised() else {})
        )
    assert listed == expected


# Experiments, each a page named as the package names it

EXPERIMENTS = sorted((TEXTS / "experiments").glob("*.md"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_the_page_of_an_experiment_begins_with_its_question(path):
    text = path.read_text(encoding="utf-8")
    beginning = re.search(r"^# .+?\n\n(.+?)```", text, re.DOTALL | re.MULTILINE)[1]
    assert beginning.startswith(f"**{experiment(path.stem).question}**")
    assert re.search(r"\*Takes about \d+ minutes\.", beginning)


def test_the_contents_and_the_first_page_list_the_experiments_that_have_a_page():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    [listed] = [part["chapters"] for part in parts if part["caption"] == "Experiments"]
    in_order = [name for name in NAMES if name in {path.stem for path in EXPERIMENTS}]
    assert listed == [{"file": f"notebooks/experiments/{name}"} for name in in_order]
    for name in in_order:
        text = (TEXTS / "experiments" / f"{name}.md").read_text(encoding="utf-8")
        title, minutes = re.search(r"^# (.+)$", text, re.MULTILINE)[1], re.search(r"(\d+ minutes)\.", text)[1]
        assert re.search(
            rf"^\| \[{re.escape(title)}\]\(experiments/{name}\.ipynb\) \| .+ \| {minutes} \|$",
            INDEX,
            re.MULTILINE,
        )


def test_the_first_page_lists_what_is_written():
    rows = re.findall(r"^\| \*\*\[(\d\d · .+?)\]\((.+?)\)\*\* \| (.+?) \| (.+?) \|$", INDEX, re.MULTILINE)
    assert rows == [
        (f"{one.number} · {one.title}", f"{one.name}.ipynb", one.question, as_words(one.minutes))
        for one in WRITTEN
    ]
    practice = re.findall(r"^\| \[(\d\d) · Practice\]\((.+?)\)", INDEX, re.MULTILINE)
    assert practice == [(one.number, f"exercises/{one.name}.ipynb") for one in practised()]


def test_wherever_the_first_page_names_a_chapter_it_is_by_its_title():
    for words, name in re.findall(r"\[([^\]]+)\]\((\d\d-[^)]+)\.ipynb\)", INDEX):
        one = chapter(name[:2])
        assert name == one.name
        assert words.endswith(one.title)


@pytest.mark.parametrize("one", practised(), ids=lambda one: one.number)
def test_a_practice_notebook_is_that_of_its_chapter(one):
    title = one.title[0].lower() + one.title[1:]
    text = text_of(TEXTS / "exercises", one)
    assert re.search(r"^# (.+)$", text, re.MULTILINE)[1] == f"Practice: {title}"
    assert f"(../{one.name}.ipynb)" in text


def test_there_is_a_quiz_for_each_chapter_that_is_written():
    for one in WRITTEN:
        text = (folder(one.number) / "quiz.toml").read_text(encoding="utf-8")
        assert text.startswith(f"# Chapter {one.number}, {one.title}.")
        assert set(tomllib.loads(text)) == {"question"}


def test_exercises_are_those_of_chapters_that_are_written():
    chapters = {prose.chapter for prose in catalogue().values()}
    assert chapters == {one.number for one in practised()} - {"15"}  # a blank notebook: exercises/capstone
