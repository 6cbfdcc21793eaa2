"""Tests AblationBoard: its losses and texts are those of the NumPy model with the same parts switched off."""

import json
import re

import pytest
from close import ENGINE, SINGLE, assert_close

from glassformer import inside
from glassformer.chapters.ch07.ablation_board import AblationBoard, _alone
from glassformer.experiments import stored
from glassformer.experiments.inside import sample
from glassformer.text import corpus, split
from glassformer.widgets.engine.model import source_of

KEPT, SHOWN = 5.1e-6, 5.1e-5  # five decimals are kept, and four are shown
ATTENTION = [f"block {b}: head {h}" for b in range(4) for h in range(4)]
FEEDFORWARD = [f"block {b}: feed-forward" for b in range(4)]


def right(w, off=None):
    """Returns what Python computes for the view's current state."""
    w.saved()  # takes it over
    return w.widget.losses(off), w.widget.writes(off)


def check(w):
    w.rest()
    now, before = right(w), right(w, [])
    shown = [[float(x.replace("−", "-")) for x in row[1:3]] for row in w.tables()[0][1:]]
    for found, name in zip(shown, ("validation", "text"), strict=True):
        assert_close(found, [now[0][name], before[0][name]], ENGINE, beside=SHOWN, what=name)
    texts = w.root.locator(".gf-written span:last-child").all_text_contents()
    assert texts == [now[1], before[1]]


def asked(w):
    return w.page.evaluate("window.asked ?? 0")


# --- the numbers ------------------------------------------------------------------------------------------


def test_the_losses_are_those_of_the_tour_on_other_characters():
    widget = AblationBoard(temperature=0.8, seed=3)
    model, tokenizer = widget._source.model, widget._source.tokenizer
    _, validation = split(tokenizer.encode(corpus()))
    batches = list(sample(validation, 128, 512))
    assert [len(text) for text in widget._stored["windows"]] == [129] * 4
    assert "".join(text[1:] for text in widget._stored["windows"]) == tokenizer.decode(batches[0][1].ravel())
    with inside.ablated(model, 2, "attention", [0]):
        without = widget.losses(["block 2: head 0"])["validation"]
        assert_close(without, inside.mean_loss(model, batches), SINGLE, beside=KEPT)
    worth = stored("inside", part="ablations")[0].found
    assert len(json.dumps(widget._stored)) < 6000
    for part, rise in widget._stored["worth"].items():
        assert_close(rise + worth["nothing"], worth[part], SINGLE, beside=SHOWN)


def test_an_attention_is_all_of_its_heads():
    widget = AblationBoard()
    widget.off = ["block 1: feed-forward", "block 1: attention", "block 1: head 2"]
    assert widget.off == [*ATTENTION[4:8], "block 1: feed-forward"]
    whole = _alone(source_of("shakespeare"))["block 1: attention"]
    assert_close(widget.losses(ATTENTION[4:8])["validation"], whole, SINGLE, beside=KEPT)


# --- what is seen -----------------------------------------------------------------------------------------


def test_the_first_picture_needs_no_weights(mount):
    w = mount(AblationBoard(off=["block 3: feed-forward"], temperature=0.8, seed=3))
    check(w)
    assert asked(w) == 0
    rise = (
        _alone(source_of("shakespeare"))["block 3: feed-forward"]
        - _alone(source_of("shakespeare"))["nothing"]
    )
    assert w.says.startswith("Without the feed-forward network of block 3: the loss rises from 1.256 to ")
    assert w.says.endswith(f", +{rise:.3f}.")


def test_switches_by_keyboard_and_a_text_of_ones_own(mount):
    w = mount(AblationBoard())
    assert w.says.startswith("Everything is on: the loss is 1.256 nats on 512 characters")
    assert asked(w) == 0
    w.root.locator(".gf-board input[tabindex='0']").press("Space")
    w.rest()
    assert w.get("off") == ATTENTION[:4]
    assert asked(w) == 1
    alone = _alone(source_of("shakespeare"))
    heads = sum(alone[part] - alone["nothing"] for part in ATTENTION[:4])
    assert w.says.startswith("Without the attention of block 0: the loss rises from 1.256 to 1.7")
    assert w.says.endswith(f"Removed one at a time, its 4 heads cost {heads:.3f} in sum.")
    for key in ("ArrowRight", "ArrowDown", "Space", "ArrowLeft", "Home", "End", "Space"):
        w.page.keyboard.press(key)
    check(w)
    off = [ATTENTION[0], *ATTENTION[2:4], "block 3: feed-forward"]
    assert w.get("off") == off
    assert w.root.locator(".gf-board input").first.evaluate("input => input.indeterminate")
    together, added = (float(x) for x in re.search(r"cost (\S+); .* cost (\S+) in sum\.$", w.says).groups())
    assert together == pytest.approx(w.widget.losses()["validation"] - alone["nothing"], abs=0.0007)
    assert added == pytest.approx(sum(alone[part] - alone["nothing"] for part in off), abs=0.0006)
    # Pressed while it still reads: what comes last is what is shown
    for name, off in (("Only attention", FEEDFORWARD), ("Only feed-forward", ATTENTION), ("All on", [])):
        w.root.get_by_role("button", name=name, exact=True).press("Enter")
        assert w.get("off") == off
    w.root.locator(".gf-board input").nth(5).press("Space")
    w.settle()
    assert w.root.get_by_role("button", name="Other draws").is_disabled()
    w.control("Your text").fill("KING RICHARD:\nMy lord, " * 5)
    w.press("Temperature", *["ArrowRight"] * 7)
    w.root.get_by_role("button", name="Other draws").press("Enter")
    check(w)
    assert (w.get("off"), w.get("temperature"), w.get("seed")) == (FEEDFORWARD[:1], 0.7, 1)
    assert asked(w) == 1  # weights come once
    w.control("Your text").fill("A")
    w.settle()
    assert "it has no next character" in w.root.locator(".gf-meters").inner_text()
