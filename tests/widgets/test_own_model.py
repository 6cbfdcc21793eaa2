"""Tests that every view of the book's decoder takes a model of the reader's own, and gives the book's model back."""

import pytest
from own import in_a_file, small
from playwright.sync_api import expect

from glassformer import widgets

TAKE = (
    "GlassMachine",
    "LiveWriter",
    "AttentionExplorer",
    "LogitLens",
    "NeuronExplorer",
    "AblationBoard",
    "SamplingLab",
    "BeamTree",
)
DO_NOT = ("FillIn", "DateTranslator")  # of other families


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return in_a_file(tmp_path_factory.mktemp("own"), small())


def line(w):
    return w.root.locator("details.gf-own")


def summary(w):
    return line(w).locator("summary")


def said(w):
    return line(w).locator(".gf-own-said")


def choose_file(w, *files):
    """Chooses files in the view's own dialog."""
    line(w).locator("input[type=file]").first.set_input_files(list(files))


def opened(w, *files):
    choose_file(w, *files)
    expect(said(w)).to_contain_text("This view shows")
    w.rest()


@pytest.mark.parametrize("name", TAKE)
def test_every_view_shows_the_readers_model_and_then_the_books_again(mount, file, name):
    w = mount(getattr(widgets, name)())
    w.rest()
    before = w.root.locator(".gf-drawing").inner_text(), w.says
    traits = {trait: w.now(trait) for trait in w.widget.keys}
    expect(summary(w)).to_have_text("Model: the book’s")
    opened(w, file)
    expect(summary(w)).to_have_text("Model: my-gpt")
    numbers = f"{small().config.parameter_count().total:,}"
    expect(said(w)).to_have_text(
        f"This view shows my-gpt: 2 blocks of 2 heads, 30 characters, {numbers} parameters."
    )
    assert w.says
    assert (w.root.locator(".gf-drawing").inner_text(), w.says) != before
    assert w.axe_violations() == []
    w.control("the book’s model").check()
    w.rest()
    expect(summary(w)).to_have_text("Model: the book’s")
    if name != "LiveWriter":  # which goes on writing
        assert {trait: w.now(trait) for trait in w.widget.keys} == traits
        assert (w.root.locator(".gf-drawing").inner_text(), w.says) == before


@pytest.mark.parametrize("name", DO_NOT)
def test_views_of_other_families_do_not(mount, name):
    w = mount(getattr(widgets, name)())
    w.rest()
    expect(line(w)).to_have_count(0)
