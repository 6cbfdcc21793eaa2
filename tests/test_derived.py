"""Tests that facts about chapters in texts are filled in from the chapters' folders, and nothing else is."""

import pytest

from glassformer import contents
from glassformer.exercises import catalogue
from tools import notebooks
from tools.shared import chapter_facts

CHAPTER = """
title = "Sums of GPTs"
question = "How much is it?"
minutes = 70
practice = "{{ exercises }}, from one to two"
"""
EXERCISE = """
["sums.{name}"]
title = "{title}"
source = "[a book](book.md)"
difficulty = {stars}
minutes = {minutes}
why = "So it is."
hints = ["one", "two", "three"]
mistakes = {{}}
"""
QUESTION = '[[question]]\ntext = "Is it?"\n'


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Makes a book of one written chapter with two exercises, and one planned chapter."""
    monkeypatch.setattr(contents, "PLACE", tmp_path / "package")
    monkeypatch.setattr(chapter_facts, "ROOT", tmp_path)
    monkeypatch.setattr(chapter_facts, "TEXTS", tmp_path / "book" / "chapters")
    _forget()
    for number in ("00", "01"):
        contents.folder(number).mkdir(parents=True)
    own = contents.folder("00")
    (own / "chapter.toml").write_text(CHAPTER)
    (own / "quiz.toml").write_text(QUESTION)
    exercises = [
        EXERCISE.format(name="one", title="One", stars=1, minutes=30),
        EXERCISE.format(name="two", title="Two", stars=3, minutes=125),
    ]
    (own / "exercises.toml").write_text("".join(exercises))
    (contents.folder("01") / "chapter.toml").write_text('title = "Later"\nquestion = "When?"\n')
    (contents.PLACE / "parts.toml").write_text(
        '[[part]]\ntitle = "Sums"\nbegins = "00"\n[[part]]\ntitle = "Later"\nbegins = "01"\n'
    )
    (chapter_facts.TEXTS / "exercises").mkdir(parents=True)
    for name in ("00-sums-of-gpts.md", "exercises/00-practice.md"):
        (chapter_facts.TEXTS / name).touch()
    yield chapter_facts.TEXTS
    _forget()


def _forget():
    contents._chapter.cache_clear()
    catalogue.of_chapter.cache_clear()


def said(book, written, name="00-sums-of-gpts.md"):
    (book / name).write_text(written, encoding="utf-8")
    return chapter_facts.text(book / name)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("# {{ heading }}", "# 00 · Sums of GPTs"),
        ("# {{ practice heading }}", "# 00 · Practice: sums of GPTs"),
        ("{{ Title }}, and {{ title }}", "Sums of GPTs, and sums of GPTs"),
        ("{{ map }}", "**I · Sums**\n\n- 00 · Sums of GPTs: How much is it?"),
        ("**{{ question }}**", "**How much is it?**"),
        ("*Takes about {{ minutes }}.*", "*Takes about 70 minutes.*"),
        ("Here are {{ exercises }}.", "Here are two exercises."),
        ("{{ Exercises }}, and {{ questions }}.", "Two exercises, and one question."),
        ("Here are {{ practice }}.", "Here are two exercises, from one to two."),
        ("About {{ practice time }} in all", "About two and a half hours in all"),
        ("takes another {{ practice time }}", "takes another two and a half hours"),
        ("## {{ heading sums.two }}", "## 2 · Two"),
        ("as in exercise {{ number sums.two }}", "as in exercise 2"),
        ("all {{ mistakes }}", "all 0"),
        ("{{ exercise sums.two }}", '*★★★ · 125 minutes · [a book](book.md) · stuck? `hint("sums.two")`*'),
        ("$x_{{i}}$ and f'{{x}}' and {x} stay", "$x_{{i}}$ and f'{{x}}' and {x} stay"),
    ],
)
def test_a_fact_is_filled_in(book, written, read):
    assert said(book, written) == read
    assert said(book, f"Before.\n\n{written} After.", "exercises/00-practice.md") == (
        f"Before.\n\n{read} After."
    )


def test_another_needs_no_article():
    fact = {"practice time": lambda: "an hour and a half"}
    assert chapter_facts.fill("takes {{ practice time }}", fact, "a text") == "takes an hour and a half"
    assert chapter_facts.fill("another {{ practice time }}", fact, "a text") == "another hour and a half"
    assert chapter_facts.fill("another\n{{ practice time }}", fact, "a text") == "another\nhour and a half"


def test_the_notebook_has_the_fact_and_changes_when_it_does(book):
    text = book / "00-sums-of-gpts.md"
    text.write_text(
        "---\njupytext:\n  text_representation: {extension: .md, format_name: myst}\n---\n\n{{ exercises }}\n"
    )
    before = notebooks.read_text(text)
    assert [cell.source for cell in before.cells] == ["two exercises"]
    file = contents.folder("00") / "exercises.toml"
    file.write_text(file.read_text().replace("minutes = 30", "minutes = 40"))
    _forget()
    assert notebooks.cells_fingerprint(notebooks.read_text(text)) == notebooks.cells_fingerprint(before)
    file.write_text(file.read_text() + EXERCISE.format(name="three", title="Three", stars=1, minutes=5))
    _forget()
    assert [cell.source for cell in notebooks.read_text(text).cells] == ["three exercises"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("00-sums-of-gpts.md", "heading, .*title, question, .*JupyterLab, .*exercise sums.two"),
        ("index.md", "chapters, routes, where to run, JupyterLab, practise here"),
        ("elsewhere.md", "none"),
        ("00-another-title.md", "none"),
    ],
)
def test_an_unknown_fact_is_said_with_its_line_and_what_is_known(book, name, known):
    with pytest.raises(
        chapter_facts.UnknownFactError, match=rf"{name}, line 3: {{{{ titel }}}} is not one of {known}$"
    ):
        said(book, "One.\n\nA {{ titel }}.", name)


def test_an_unknown_fact_makes_no_notebook(tmp_path, capsys):
    text = tmp_path / "book" / "chapters" / "01.md"
    text.parent.mkdir(parents=True)
    text.write_text("A {{ titel }}.\n")
    assert notebooks.main([], tmp_path) == 1
    assert "notebooks/01.ipynb: not executed. 01.md, line 1: {{ titel }}" in capsys.readouterr().err
    assert not (tmp_path / "notebooks").exists()


def test_the_first_page_lists_what_is_written_and_each_practice(book):
    assert said(book, "{{ chapters }}", "index.md").splitlines() == [
        "| **I · Sums** | | | |",
        "| [00 · Sums of GPTs](00-sums-of-gpts.ipynb) | How much is it? | 70 min "
        "| [2½ hours](exercises/00-practice.ipynb) |",
        f"| **All chapters** | {chapter_facts.OPEN_END} | 1 hour | 2½ hours |",
    ]
    (book / "exercises" / "00-practice.md").unlink()
    assert said(book, "{{ chapters }}", "index.md").splitlines()[1].endswith("| 70 min |  |")


def test_a_practice_may_have_a_time_of_its_own(book):
    file = contents.folder("00") / "chapter.toml"
    file.write_text(file.read_text() + 'practice_time = "an afternoon"\n')
    _forget()
    assert said(book, "{{ Practice time }}") == "An afternoon"
    assert "| [an afternoon](exercises/" in said(book, "{{ chapters }}", "index.md")


def test_the_contents_of_the_site_list_what_is_written(book):
    (book.parents[1] / "_toc.yml").write_text("parts:\n{{ parts }}\n  - caption: More\n    chapters: []\n")
    page, practice = "notebooks/00-sums-of-gpts", "notebooks/exercises/00-practice"
    listed = [{"file": page, "sections": [{"file": practice, "title": "00 · Practice"}]}]
    assert chapter_facts.table_of_contents() == {
        "parts": [{"caption": "I · Sums", "chapters": listed}, {"caption": "More", "chapters": []}]
    }
    (book / "exercises" / "00-practice.md").unlink()
    assert chapter_facts.table_of_contents()["parts"][0]["chapters"] == [{"file": page}]


def test_the_map_leads_to_every_chapter_but_the_one_that_it_is_in(book):
    (contents.folder("01") / "chapter.toml").write_text('title = "Later"\nquestion = "When?"\nminutes = 5\n')
    _forget()
    assert said(book, "{{ map }}") == (
        "**I · Sums**\n\n- 00 · Sums of GPTs: How much is it?\n\n"
        "**II · Later**\n\n- [01 · Later](01-later.ipynb): When?"
    )


@pytest.mark.parametrize(
    ("minutes", "words", "figures"),
    [
        (5, "five minutes", "5 min"),
        (40, "40 minutes", "40 min"),
        (45, "an hour", "1 hour"),
        (74, "an hour", "1 hour"),
        (75, "an hour and a half", "1½ hours"),
        (104, "an hour and a half", "1½ hours"),
        (105, "two hours", "2 hours"),
        (330, "five and a half hours", "5½ hours"),
    ],
)
def test_times_are_said_to_the_nearest_half_hour(minutes, words, figures):
    assert chapter_facts.in_words(minutes) == words
    assert chapter_facts.in_figures(minutes) == figures


def test_counts_are_words_up_to_twenty():
    assert chapter_facts.counted(1, "exercise") == "one exercise"
    assert chapter_facts.counted(20, "exercise") == "twenty exercises"
    assert chapter_facts.counted(21, "exercise") == "21 exercises"


def test_every_fact_has_its_value_in_every_chapter_of_the_book():
    for one in contents.chapters():
        for find in chapter_facts.FACTS.values():
            assert find(one)


def test_a_chapter_without_minutes_is_not_written_yet(book):
    assert [one.number for one in chapter_facts.written()] == ["00"]
    assert len(contents.chapters()) == 2
