"""Tests what texts say about JupyterLab and Binder: in a notebook, and on a site with or without a repository."""

import json
from types import SimpleNamespace

import pytest

from tools import book
from tools.assets import pyodide
from tools.extensions import source_read
from tools.shared import chapter_facts, where_to_run

HOME = "https://github.com/someone/something"
PAGE = "notebooks/04-putting-order-in.ipynb"
WORD, BLOCK = where_to_run.name_in_notebook(), where_to_run.in_notebook()
TEXT = f"Open it in {WORD}, or {WORD}.\n\n{BLOCK}\n\n{where_to_run.HERE}The end."


def test_a_notebook_says_only_what_is_true_in_every_copy():
    said = where_to_run.in_notebook()
    assert "make lab" in said
    assert "](" not in said
    assert "http" not in said
    assert "colab" not in said.lower()


def test_without_a_repository_a_page_promises_nothing():
    said = where_to_run.on_page(TEXT, None, PAGE, has_python=False)
    assert said.startswith("Open it in JupyterLab, or JupyterLab.\n\n**In JupyterLab**")
    assert said.endswith("The end.")
    assert "make lab" in said
    for promise in ("Binder", "http", "repository", "<"):
        assert promise not in said


def test_with_a_repository_a_page_leads_to_its_notebook_and_to_the_repository():
    said = where_to_run.on_page(TEXT, HOME, PAGE, has_python=False)
    lab = f"https://mybinder.org/v2/gh/someone/something/main?urlpath=lab/tree/{PAGE}"
    assert said.startswith(f"Open it in [JupyterLab]({lab}), or [JupyterLab]({lab}).\n\n**In JupyterLab**")
    assert f"[Open this page on Binder]({lab})" in said
    assert f"[the repository]({HOME})" in said
    assert (
        f"[open it on Colab](https://colab.research.google.com/github/someone/something/blob/colab/{PAGE})"
        in said
    )
    assert said.endswith("The end.")
    assert "Colab" not in where_to_run.on_page(
        TEXT, "https://gitlab.com/someone/something", PAGE, has_python=False
    )
    assert "<" not in said


@pytest.mark.parametrize(
    ("home", "place"),
    [
        (HOME, "gh/someone/something"),
        ("https://gitlab.com/someone/something", "gl/someone%2Fsomething"),
        ("https://git.example.org/a/b", "git/https%3A%2F%2Fgit.example.org%2Fa%2Fb"),
    ],
)
def test_binder_finds_the_repository_wherever_it_is(home, place):
    assert (
        where_to_run.binder(home, "x.ipynb")
        == f"https://mybinder.org/v2/{place}/main?urlpath=lab/tree/x.ipynb"
    )


@pytest.mark.parametrize("has_python", [False, True])
@pytest.mark.parametrize(("address", "home"), [(None, None), (f"{HOME}.git", HOME), (f"{HOME}/", HOME)])
def test_the_one_setting_is_enough(address, home, has_python, tmp_path, monkeypatch):
    """It is what the publishing workflow sets: tools/book.py puts it into the theme's options, where pages find it."""
    monkeypatch.setenv("GLASSFORMER_PYTHON", str(tmp_path))
    if has_python:
        (tmp_path / pyodide.NAME).write_text("{}")
    theme = book.configuration(address)["sphinx"]["config"]["html_theme_options"]
    cells = [
        {"cell_type": "markdown", "source": ["a\n", "b ", TEXT]},
        {"cell_type": "code", "source": ["# Show the code\n", TEXT]},
    ]
    source = [json.dumps({"cells": cells})]
    app = SimpleNamespace(
        env=SimpleNamespace(doc2path=lambda page: f"/book/{page}.ipynb"),
        config=SimpleNamespace(html_theme_options=theme),
    )
    source_read.complete(app, PAGE.removesuffix(".ipynb"), source)
    words, code = json.loads(source[0])["cells"]
    assert words["source"] == where_to_run.on_page(f"a\nb {TEXT}", home, PAGE, has_python=has_python)
    assert code["source"] == TEXT


def test_a_page_leads_to_its_practice_and_says_whether_the_site_has_python_for_it():
    said = where_to_run.on_page(where_to_run.HERE, None, PAGE, has_python=True)
    assert "[the practice page](exercises/04-practice.ipynb) runs Python in your browser" in said
    assert "](" not in where_to_run.on_page(where_to_run.HERE, None, "notebooks/index.ipynb", has_python=True)
    assert "run Python in your browser" in where_to_run.on_page(
        where_to_run.HERE, None, "notebooks/index.ipynb", has_python=True
    )
    assert where_to_run.on_page(where_to_run.HERE, None, "notebooks/index.ipynb", has_python=False) == ""
    for home in (None, HOME):
        said = where_to_run.on_page(where_to_run.HERE, home, PAGE, has_python=False)
        assert "no Python for [its practice page](exercises/04-practice.ipynb)" in said
        assert "make lab" in said
        lab = where_to_run.binder(HOME, "notebooks/exercises/04-practice.ipynb")
        assert (f"[open it on Binder]({lab})" in said) == (home is not None)


def test_every_text_can_say_it():
    said = chapter_facts.fill("{{ where to run }} {{ JupyterLab }}", chapter_facts.ANYWHERE, "a text")
    assert said.startswith("<!--")
    for path in [
        chapter_facts.TEXTS / "index.md",
        *(chapter_facts.text_of(one) for one in chapter_facts.written()),
    ]:
        assert chapter_facts.ANYWHERE.items() <= chapter_facts._known_to(path).items()
