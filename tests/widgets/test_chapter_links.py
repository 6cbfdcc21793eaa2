"""Tests that a chapter that a view mentions is a link on the site; tests/lab/test_lab.py opens one in JupyterLab."""

import pytest

from glassformer import chapter_links, contents
from glassformer.chapters.ch14.diagnose_it import clinic
from glassformer.widgets import ConfigReader, DiagnoseIt, Quiz

OPTIONS = [
    {"text": "Yes.", "why": "See chapter 04.", "correct": True},
    {"text": "No.", "why": "`chapter 07`"},
]
SAID = {
    "In chapter 00, chapters 01, 02 and 03 or Chapter 15": ["chapter 00", "01", "02", "03", "Chapter 15"],
    "chapters 04–06, 07 to 08": ["04", "06", "07", "08"],
    "chapter 98, chapter 4, 12 chapters, chapters 99 and 05 of 12": ["05"],
}


def links(root):
    """Returns the words of each link within an element, which must lead to the chapter that they end with."""
    found = root.locator("a").evaluate_all("all => all.map((a) => [a.textContent, a.getAttribute('href')])")
    for words, address in found:
        assert address == f"../notebooks/{contents.chapter(words[-2:]).name}.html"
    return [words for words, _ in found]


@pytest.fixture
def on_the_site(page):
    page.evaluate("() => (document.documentElement.dataset.content_root = '../')")


@pytest.mark.usefixtures("on_the_site")
def test_the_chapters_that_views_mention_are_links(mount):
    for sentence, mentioned in SAID.items():
        quiz = mount(Quiz([{"text": sentence, "options": OPTIONS}]))
        assert links(quiz.root.locator("legend")) == mentioned
        quiz.root.locator("input").first.check()
        quiz.settle()
        assert links(quiz.root.locator(".gf-feedback")) == ["chapter 04"]

    reader = mount(ConfigReader())
    reader.root.locator(".gf-keys > summary").press("Enter")
    rows = reader.root.locator(".gf-keys .gf-chapter")
    named = [words for words in rows.all_inner_texts() if words]
    assert links(rows) == named != []
    reader.root.locator(".gf-details summary").click()
    reader.settle()
    numbers = reader.root.locator(".gf-details table").last
    assert [f"Chapter {number}" for number in links(numbers)] == named

    [(patient, option, numbers)] = [
        (entry["bug"], i, list(chapter_links.mentioned(option["why"])))
        for entry in clinic()["patient"]
        for i, option in enumerate(entry["option"])
        if any(chapter_links.mentioned(option["why"]))
    ]
    asked = mount(DiagnoseIt([patient], answers=[[option]])).root.locator(".gf-feedback")
    assert [words[-2:] for words in links(asked)] == numbers


def test_without_a_page_and_without_jupyterlab_they_are_words(mount):
    quiz = mount(Quiz([{"text": "chapter 04", "options": OPTIONS}]))
    assert quiz.root.locator("legend").inner_text().endswith("chapter 04")
    assert links(quiz.root) == []
