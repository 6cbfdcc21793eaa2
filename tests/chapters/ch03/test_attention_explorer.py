"""Tests AttentionExplorer: it shows the weights of `scratch` for every head and any text, and its line is true."""

import re

import numpy as np
import pytest

from glassformer import shipped
from glassformer.chapters.ch03.attention_explorer import AttentionExplorer
from glassformer.trace import trace
from glassformer.widgets.engine.model import LINE

STORED = 0.0051  # what a byte for a number costs
LIVE = 1e-4


def number(text):
    return 0.0 if text == "hidden" else float(text.replace("−", "-"))


def row(w):
    """Returns the weights of the query as the table shows them."""
    return np.array([number(cells[2]) for cells in w.tables()[0][1:]])


def right(**traits):
    widget = AttentionExplorer(**traits)
    return widget.weights()[widget.block, widget.head]


# --- the numbers ------------------------------------------------------------------------------------------


def test_weights_are_those_of_the_model():
    model, tokenizer = shipped.load()
    with trace() as seen:
        model(tokenizer.encode(LINE)[None])
    found = AttentionExplorer().weights()
    assert found.shape == (4, 4, 41, 41)
    np.testing.assert_array_equal(found, np.concatenate(seen.arrays("weights")))


def test_without_the_mask_only_what_was_hidden_is_added():
    """Without the mask, queries and keys are the same, so the allowed weights keep their proportions."""
    masked, free = AttentionExplorer().weights(), AttentionExplorer(masked=False).weights()
    np.testing.assert_allclose(free.sum(axis=-1), 1, atol=1e-5)
    past = np.tril(free)
    np.testing.assert_allclose(past / past.sum(axis=-1, keepdims=True), masked, atol=1e-4)
    assert np.triu(free, 1).max() > 0.5


# --- what is seen -----------------------------------------------------------------------------------------


def test_the_first_picture_needs_no_weights(mount):
    w = mount(AttentionExplorer())
    np.testing.assert_allclose(row(w), right()[36], rtol=0, atol=STORED)
    assert w.says.startswith("Block 2, head 2: “o” at 36 looks most at “h” at 35 (")
    assert w.root.locator("[aria-pressed=true]").get_attribute("aria-label") == "block 2, head 2"


def test_heads_and_queries_by_keyboard(mount):
    w = mount(AttentionExplorer())
    w.root.locator("[aria-pressed=true]").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp"):
        w.page.keyboard.press(key)
    w.root.locator(".gf-asks").focus()
    for key in ("ArrowLeft", "Home", "ArrowLeft", "End", "ArrowLeft"):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved() == {"block": 2, "head": 3, "query": 39}
    np.testing.assert_allclose(row(w), right(head=3)[39], rtol=0, atol=STORED)


@pytest.mark.parametrize("text", ["My lord,\nthe king", "A", "A horse! a house", "o" * 128])
def test_a_text_of_the_readers_own(mount, text):
    w = mount(AttentionExplorer())
    w.control("Your text").fill(text)
    w.rest()
    assert w.saved()["text"] == text
    expected = AttentionExplorer(text=text).weights()
    for block, head in ((0, 0), (3, 2)):
        w.set(block=block, head=head, query=len(text) - 1)
        np.testing.assert_allclose(row(w), expected[block, head, -1], rtol=0, atol=LIVE + 0.0005)


def test_without_the_mask_it_looks_ahead(mount):
    w = mount(AttentionExplorer(query=10))
    assert w.root.locator(".gf-characters .gf-hidden").count() == 30
    w.press("Causal mask", " ")
    w.rest()
    assert w.root.locator(".gf-hidden").count() == 0
    np.testing.assert_allclose(row(w), right(masked=False)[10], rtol=0, atol=LIVE + 0.0005)
    assert "never trained this way" in w.says
    w.press("Causal mask", " ")
    w.rest()
    np.testing.assert_allclose(row(w), right()[10], rtol=0, atol=LIVE + 0.0005)


def test_the_sentence_names_the_strongest_and_the_share_of_the_first(mount):
    w = mount(AttentionExplorer(block=0, head=1, query=20))
    weights = right(block=0, head=1)[20]
    named = [(int(at), float(share)) for at, share in re.findall(r"at (\d+) \((0\.\d\d)\)", w.says)]
    order = np.argsort(-weights)[: len(named)]
    assert len(named) == 3
    assert [at for at, _ in named] == order.tolist()
    np.testing.assert_allclose([share for _, share in named], weights[order], atol=STORED + 0.005)
    first = float(re.search(r"The first character gets a weight of (0\.\d\d)", w.says)[1])
    assert first == pytest.approx(weights[0], abs=STORED + 0.005)


def test_every_heads_habits(mount):
    w = mount(AttentionExplorer())
    expected = AttentionExplorer().weights()[:, :, 1:]
    t = np.arange(40)
    habits = [expected[:, :, t, t], expected[:, :, t, 0], expected[:, :, t, t + 1]]
    for name, column in zip(habits, (2, 3, 4), strict=True):
        shown = [number(cells[column]) for cells in w.tables()[1][1:]]
        np.testing.assert_allclose(shown, name.mean(axis=-1).ravel(), atol=STORED + 0.005)


def test_pointing_asks(mount):
    w = mount(AttentionExplorer())
    w.root.locator(".gf-character").nth(7).hover()
    w.settle()
    assert w.get("query") == 7
    box = w.root.locator(".gf-map-large").bounding_box()
    w.page.mouse.move(box["x"] + 5, box["y"] + box["height"] * 12.5 / 41)
    w.settle()
    assert w.get("query") == 12


def test_three_lines_of_the_play_can_be_read(mount):
    w = mount(AttentionExplorer())
    w.root.get_by_role("button", name="Read three lines of the play").press("Enter")
    w.rest()
    assert w.saved()["text"].count("\n") == 2
    w.set(query=70)
    assert " at 70 looks" in w.says
