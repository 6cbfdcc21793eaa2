"""Tests that each chapter's folder is complete, and that what the book says about its chapters is true.

tools/shared/chapter_facts.py fills in titles, minutes, counts and lists; its tests are in test_derived.py. Here, the
texts are read in the form that readers get.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from glassformer import contents
from glassformer.contents import chapter, chapters, folder
from glassformer.exercises.catalogue import catalogue, of_chapter
from glassformer.experiments import NAMES, experiment
from tools import notebooks
from tools.shared import chapter_facts, prediction_rules

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "book" / "chapters"
WRITTEN = chapter_facts.written()
PRACTISED = [one for one in WRITTEN if of_chapter(one.number)]
OF_A_CHAPTER = pytest.mark.parametrize("one", WRITTEN, ids=lambda one: one.number)
FIRST_PAGE = chapter_facts.text(TEXTS / "index.md")


def text_of(one):
    return chapter_facts.text(chapter_facts.text_of(one))


def practice_of(one):
    return chapter_facts.text(chapter_facts.practice_of(one))


def test_chapters_are_numbered_in_order():
    assert [one.number for one in chapters()] == [f"{i:02d}" for i in range(len(chapters()))]
    for one in chapters():
        assert re.fullmatch(r"\d\d(-[a-z]+)+", one.name)
        assert one.question.endswith("?")


@OF_A_CHAPTER
def test_a_place_to_stop_that_a_chapter_promises_has_a_heading(one):
    start, *rest = text_of(one).split("\n## ")
    promised = re.search(r"place to stop|two sittings", start) is not None
    stops = [part.count("\n### Halfway\n\n**This is a good place to stop for the day.** ") for part in rest]
    assert sum(stops) == promised
    assert sum(part.count("place to stop") for part in rest) == promised


def test_a_chapters_files_are_named_by_its_number_and_title():
    assert chapter("04").name == "04-putting-order-in"


def test_a_number_that_no_chapter_has():
    last = chapters()[-1].number
    with pytest.raises(ValueError, match=rf"number='4' is not one of '00', '01', .*'{last}'"):
        chapter("4")


def test_one_chapter_is_read_without_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "PLACE", tmp_path)
    contents._chapter.cache_clear()
    for number in ("00", "01"):
        folder(number).mkdir()
    (folder("01") / "chapter.toml").write_text('title = "One"\nquestion = "Why?"\n')
    try:
        assert chapter("01").title == "One"
        assert not chapter("01").written
    finally:
        contents._chapter.cache_clear()


# A chapter's folder


@OF_A_CHAPTER
def test_a_chapters_folder_is_complete(one):
    files = {path.name for path in folder(one.number).iterdir()}
    assert {"__init__.py", "chapter.toml", "quiz.toml"} <= files
    assert ("exercises.toml" in files) == ("judges" in files)
    assert one.practice
    assert chapter_facts.practice_of(one)
    assert of_chapter(one.number) or "exercises.toml" not in files
    # What the practice is cannot be said by the number of its exercises alone, nor can a made-up number be right.
    assert ("{{ exercises }}" in one.practice) == bool(of_chapter(one.number))
    assert one.practice_time or of_chapter(one.number)


@OF_A_CHAPTER
def test_the_files_of_a_chapter_begin_with_its_title(one):
    for name in ("quiz.toml", "exercises.toml"):
        if (file := folder(one.number) / name).exists():
            assert file.read_text(encoding="utf-8").startswith(f"# Chapter {one.number}, {one.title}")
    assert set(tomllib.loads((folder(one.number) / "quiz.toml").read_text(encoding="utf-8"))) == {"question"}


def test_no_two_chapters_have_an_exercise_of_the_same_name():
    names = Counter(name for one in chapters() for name in of_chapter(one.number))
    assert [name for name, count in names.items() if count > 1] == []
    assert list(catalogue()) == list(names)


def test_every_text_belongs_to_a_chapter_that_is_written():
    texts = {path.stem for path in TEXTS.glob("*.md")}
    assert texts - {"index"} == {one.name for one in WRITTEN}
    practices = {path.relative_to(TEXTS).as_posix() for path in TEXTS.glob("exercises/*.md")}
    assert practices == {f"{one.practice_name}.md" for one in WRITTEN}


def test_no_two_notebooks_have_tabs_of_the_same_name():
    names = Counter(notebook.name for _, notebook in notebooks.pairs())
    assert [name for name, count in names.items() if count > 1] == []


# Its texts


@OF_A_CHAPTER
def test_a_chapter_begins_with_its_title_its_question_and_its_time(one):
    title, beginning = re.search(r"^# (.+?)\n\n(.+?)```", text_of(one), re.DOTALL | re.MULTILINE).groups()
    assert title == f"{one.number} · {one.title}"
    assert beginning.startswith(f"**{one.question}**")
    assert re.search(rf"\*Takes about {one.minutes} minutes[.,]", beginning)


@OF_A_CHAPTER
def test_a_chapter_has_its_own_quiz_and_leads_to_its_practice(one):
    assert re.findall(r'Quiz\.load\("(.+?)"\)', text_of(one)) == [one.number]
    assert f"({one.practice_name}.ipynb)" in text_of(one)


@OF_A_CHAPTER
def test_a_practice_is_that_of_its_chapter(one):
    title = f"{one.number} · Practice: {one.title[0].lower()}{one.title[1:]}"
    assert re.search(r"^# (.+)$", practice_of(one), re.MULTILINE)[1] == title
    assert f"(../{one.name}.ipynb)" in practice_of(one)


@pytest.mark.parametrize("one", PRACTISED, ids=lambda one: one.number)
def test_a_practice_shows_the_progress_of_its_chapter_alone(one):
    assert re.findall(r"^progress\((.*)\)$", practice_of(one), re.MULTILINE) == [f'"{one.number}"']


@OF_A_CHAPTER
def test_no_text_says_itself_what_is_derived(one):
    """A count, a time or a title that a text writes out itself would not change with the folder."""
    exercises = chapter_facts.counted(len(of_chapter(one.number)), "exercise")
    for path in (chapter_facts.text_of(one), chapter_facts.practice_of(one)):
        written = path.read_text(encoding="utf-8")
        assert f"**{one.question}**" not in written
        assert not of_chapter(one.number) or f" {exercises}" not in written
        assert not re.search(r"★ · \d+ minutes", written)


# The first page and the contents of the site


@OF_A_CHAPTER
def test_the_place_to_stop_that_a_chapter_promises_is_not_in_a_fold(one):
    cells = notebooks.read_text(chapter_facts.text_of(one)).cells
    folded = {id(cell) for fold in prediction_rules.folds(cells).values() for cell in fold.cells}
    (promised, *_), *stops = [
        (cell.source, id(cell) in folded)
        for cell in cells
        if re.search("place to stop|two sittings", cell.source)
    ] or [("",)]
    assert not promised or promised.startswith(("#", "*")), "the first to name it is the chapter's beginning"
    assert [is_folded for _, is_folded in stops] == [False] * bool(promised)


def test_wherever_the_first_page_names_a_chapter_it_is_by_its_title():
    named = re.findall(r"\[([^\]]+)\]\((\d\d-[^)]+)\.ipynb\)(?!<!-- route)", FIRST_PAGE)
    assert {name for _, name in named} == {one.name for one in WRITTEN}
    for words, name in named:
        assert name == chapter(name[:2]).name
        assert words == chapter(name[:2]).heading


def test_the_parts_hold_every_chapter_once_and_in_order():
    parts = contents.parts()
    assert [one for part in parts for one in part.chapters] == list(chapters())
    assert [part.heading for part in parts] == [
        "I · Parts",
        "II · The machine",
        "III · Learning and writing",
        "IV · Real ones",
        "V · Since then",
    ]
    assert [part.chapters[0].number for part in parts] == ["00", "05", "09", "12", "16"]


@pytest.mark.parametrize("begins", [["01"], ["00", "02", "01"], ["00", "77"], []])
def test_parts_that_leave_out_a_chapter_or_are_not_in_order(tmp_path, monkeypatch, begins):
    monkeypatch.setattr(contents, "PLACE", tmp_path)
    for number in ("00", "01", "02"):
        folder(number).mkdir()
    tables = [f'[[part]]\ntitle = "One"\nbegins = "{number}"\n' for number in begins]
    (tmp_path / "parts.toml").write_text("".join(tables) or "part = []\n")
    with pytest.raises(
        ValueError, match=r"parts\.toml: the parts begin with chapters .* start with the first of"
    ):
        contents.parts()


def test_the_first_page_lists_the_chapters_by_part():
    cells = re.findall(r"^\| (?:\*\*)?\[?((?:\d\d|[IVX]+) · [^\]|*]+)", FIRST_PAGE, re.MULTILINE)
    headings = [one.heading for one in WRITTEN]
    listed = [cell for cell in cells if not cell.endswith("Practice")]
    expected = []
    for part in contents.parts():
        expected += [part.heading, *(one.heading for one in part.chapters if one.heading in headings)]
    assert listed == expected


# Experiments, each a page named as the package names it

EXPERIMENTS = sorted((TEXTS / "experiments").glob("*.md"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_the_page_of_an_experiment_begins_with_its_question(path):
    text = path.read_text(encoding="utf-8")
    beginning = re.search(r"^# .+?\n\n(.+?)```", text, re.DOTALL | re.MULTILINE)[1]
    if path.stem in NAMES:
        assert beginning.startswith(f"**{experiment(path.stem).question}**")
    else:  # a page whose cells do everything, without stored runs
        assert re.match(r"\*\*[^*]+\?\*\*", beginning)
    assert re.search(r"\*Takes about \d+ minutes\.", beginning)


def test_the_contents_and_the_first_page_list_the_experiments_that_have_a_page():
    parts = chapter_facts.table_of_contents()["parts"]
    [listed] = [part["chapters"] for part in parts if part["caption"] == "Experiments"]
    pages = [path.stem for path in EXPERIMENTS]
    in_order = [name for name in NAMES if name in pages] + [name for name in pages if name not in NAMES]
    assert listed == [{"file": f"notebooks/experiments/{name}"} for name in in_order]
    for name in in_order:
        text = (TEXTS / "experiments" / f"{name}.md").read_text(encoding="utf-8")
        title, minutes = re.search(r"^# (.+)$", text, re.MULTILINE)[1], re.search(r"(\d+) minutes\.", text)[1]
        assert re.search(
            rf"^\| \[{re.escape(title)}\]\(experiments/{name}\.ipynb\) \| .+ \| {minutes} min \| \|$",
            FIRST_PAGE,
            re.MULTILINE,
        )
