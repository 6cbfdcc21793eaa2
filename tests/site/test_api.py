"""Tests the page of the package: it has all that the package offers, and docstrings are shown as they are meant."""

import re
from copy import copy
from importlib import import_module

import pytest
from bs4 import BeautifulSoup

import glassformer
from tools.notebooks import ROOT

# Modules for the book itself, for other modules, and the page in NumPy, which is read as a whole
LEFT_OUT = {"__version__", "bugs", "dates", "exercises", "onepage", "progress"}
SOURCE = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
SHOWN = dict(re.findall(r"^```\{package\} glassformer\.(\S+)\n((?::.*\n)*)```$", SOURCE, re.MULTILINE))


@pytest.fixture(scope="module")
def page(site):
    """Returns the page, parsed."""
    return BeautifulSoup((site / "book" / "api.html").read_text("utf-8"), "html.parser").select_one("article")


def test_it_has_every_module_with_every_name_or_leaves_it_out_by_name(page):
    assert set(dir(glassformer)) - LEFT_OUT <= set(SHOWN)
    ids = {entry["id"] for entry in page.select("dt.sig")}
    for module, options in SHOWN.items():
        found = {i.rpartition(".")[2] for i in ids if i.rpartition(".")[0] == f"glassformer.{module}"}
        if only := re.search(r":members: (.+)", options):
            assert found == set(only[1].split(", "))
            continue
        without = re.search(r":exclude-members: (.+)", options)
        left_out = set(without[1].split(", ")) if without else set()
        offered = set(import_module(f"glassformer.{module}").__all__)
        assert (found, left_out - offered) == (offered - left_out, set()), module


def test_every_entry_says_what_it_is_in_a_sentence(page):
    for entry in page.select("dt.sig"):
        first = entry.find_next_sibling("dd").find("p", recursive=False)
        assert first, entry["id"]
        is_field = "attribute" in entry.parent["class"]  # a comment, not a docstring
        assert is_field or re.search(r"[.:!?][)”]?$", first.get_text()), entry["id"]
        assert "property" in entry.parent["class"] or not re.search(
            r"<|~|\w\[(?:ndarray|Tensor), '|_Has|\*args: Any", entry.get_text()
        ), entry["id"]


def test_no_markup_is_left_and_sections_are_lists(page):
    page = copy(page)
    for section in page.select("dl.field-list > dt"):
        rows = section.find_next_sibling("dd")
        if section.get_text() == "Raises:":
            names = ", ".join(row.get_text() for row in rows.select("strong"))
            assert re.fullmatch(r"(\w+(Error|Interrupt)(, )*)+", names), names
    for code in page.select("pre, code"):
        assert "\\" not in code.get_text(), code
        code.decompose()
    left = r"[`\\]|\*\*[^*]+\*\*|^(?:Args|Attributes|Raises|Returns|Traits|Yields)\b.*:\n"
    for part in page.select(".api p, .api li, .api dd, .api dt"):
        if part.name == "p" or part.parent.name != "dl":
            assert not re.search(left, part.get_text()), part
    assert not page.select(".api blockquote, .api dl:not(.py, .field-list, dt > dl)")


def test_names_lead_to_their_entries(page):
    def leads(entry, words):
        said = page.find(id=entry).find_next_sibling("dd")
        return [link["href"] for link in said.select("a") if link.get_text() == words]

    assert set(leads("glassformer.pretrained.load", "huggingface.load")) == {"#glassformer.huggingface.load"}
    assert set(leads("glassformer.nn.Transformer", "TokenEmbedding")) <= {"#glassformer.nn.TokenEmbedding"}
    assert leads("glassformer.generate.generate", "stop_ids") == []  # an argument, not huggingface's function
    assert leads("glassformer.scratch.softmax", "chapter 03") == ["../notebooks/03-attention.html"]
    trainer = page.find(id="glassformer.train.Trainer")
    assert {link["href"] for link in trainer.select("a")} >= {"#glassformer.train.TrainingConfig"}
