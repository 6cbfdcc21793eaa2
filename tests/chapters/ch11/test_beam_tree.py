"""Tests BeamTree: it shows the search of `beam_search` and the greedy text, stored and live, and its line is true."""

import json

import numpy as np
import pytest
from close import ENGINE, SINGLE, assert_close

from glassformer import shipped
from glassformer.chapters.ch11.beam_tree import BeamTree
from glassformer.generate import beam_search
from glassformer.trace import trace

DECIMALS = 5.1e-6  # five of them are kept, and shown
PROMPT = "Your prompt (the search continues its last 100 characters)"


@pytest.fixture(scope="module")
def book():
    return shipped.load()


@pytest.fixture(scope="module")
def view():
    """Returns a view with the stored data of its first picture, which is computed once for all tests."""
    stored = BeamTree()._stored
    return lambda **traits: BeamTree(_stored=stored, **traits)


def total_of(book, prompt, text):
    """Returns the log-probability of a text after a prompt, from one pass over all of it."""
    model, tokenizer = book
    ids = tokenizer.encode(prompt + text)
    logits = model(ids[:-1]).astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return log_p[np.arange(len(ids) - 1), ids[1:]][len(prompt) - 1 :].sum()


# --- the numbers ------------------------------------------------------------------------------------------


def test_a_trace_sees_every_candidate(book):
    model, tokenizer = book
    prompt = tokenizer.encode("My lord, ")
    with trace() as seen:
        ((ids, worth),) = beam_search(model, prompt, 6, n_beams=4, length_penalty=0)
    steps = seen.arrays("candidates")
    assert [step.shape for step in steps] == [(8, 3)] * 6
    assert all((np.diff(step[:, 2]) <= 0).all() for step in steps)
    assert steps[-1][0, 1:].tolist() == [ids[-1], worth]


def test_scores_are_those_of_the_texts(book, view):
    widget = view()
    for text, worth in [*widget.found(3), (widget.greedy()[0], widget.greedy()[1][-1])]:
        assert_close(worth, total_of(book, widget.text, text), SINGLE, beside=DECIMALS)


def test_defaults_show_a_beam_that_finds_more_than_greedy(view):
    (text, worth), greedy = view().found()[0], view().greedy()
    assert text != greedy[0]
    assert worth > greedy[1][-1] + 0.5
    assert len(json.dumps(view()._stored)) < 60_000 * 8 / 12  # 12 is the most that can be written


# --- what is seen -----------------------------------------------------------------------------------------


def shown(text):
    return float(text.replace("−", "-"))


def spelled(text):
    return f"“{text.replace(chr(10), '⏎')}”"


def found(w):
    """Waits for the search, then compares its results, the greedy text and the line with Python."""
    ended, greedy, candidates = (table[1:] for table in w.tables())
    widget = w.widget
    right = widget.found(widget.n_beams)
    assert [row[0] for row in ended] == [spelled(text) for text, _ in right]
    assert_close([shown(row[3]) for row in ended], [worth for _, worth in right], ENGINE, beside=DECIMALS)
    text, totals = widget.greedy()
    assert [row[0] for row in greedy] == [spelled(text[: i + 1]) for i in range(len(text))]
    assert_close([shown(row[1]) for row in greedy], totals, ENGINE, beside=DECIMALS)
    said = w.says.replace("−", "-")
    beams = "one beam" if widget.n_beams == 1 else f"{widget.n_beams} beams"
    assert said.startswith(f"The search with {beams} finds {spelled(right[0][0])} (")
    same = right[0][0] == text
    other = f"Greedy decoding finds {spelled(text)} ({totals[-1]:.2f})"
    assert ("Greedy decoding finds the same text." if same else other) in said
    return candidates


def nodes(w):
    w.settle()
    read = "all => all.filter((n) => !n.hidden).map((n) => n.className.replaceAll('gf-beam-', ''))"
    return w.root.locator("button.gf-beam-node").evaluate_all(read)


def test_the_first_picture_needs_no_weights(mount, view):
    w = mount(view())
    candidates = found(w)
    assert w.says.endswith("At step 6, “ what'”: “'” adds −2.00 to make −5.08. It continues.")
    fates = [row[3] for row in candidates]
    assert fates == ["grows"] * 3 + ["dropped"] * 3 + fates[6:42] + ["ends"] * 3 + ["dropped"] * 3
    assert [name.split()[1] for name in nodes(w)] == fates
    best = [name for name in nodes(w) if "best" in name]
    assert len(best) == 8
    for width in (1, 6):
        w.press("Beams", "Home" if width == 1 else "End")
        w.saved()
        found(w)
        assert len(nodes(w)) == 2 * width * 8
    assert w.page.evaluate("window.asked ?? 0") == 0


def test_steps_and_nodes_by_keyboard(mount, view):
    w = mount(view())
    w.press("Steps taken", "Home", "ArrowRight", "ArrowRight")
    assert w.saved()["step"] == 2
    assert len(nodes(w)) == 12
    assert w.says.startswith(
        "After 2 of 8 steps, the best text with 3 beams is “⏎⏎” (−2.21 nats). Greedy decoding has “ w” (−2.31), "
        "which is 1.1 times less likely."
    )
    w.root.get_by_role("button", name="Forward").press("Enter")
    w.root.get_by_role("button", name="Back").press("Enter")
    w.root.get_by_role("button", name="Forward").press("Enter")
    assert w.saved()["step"] == 3
    w.root.locator("button.gf-beam-node[tabindex='0']").focus()
    for key in ("Home", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowRight"):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved()["node"] == [2, 0]  # “ w” goes on to “ wh”, the best of its column
    assert "At step 3, “ wh”: “h” adds −0.21 to make −2.52. It continues." in w.says
    w.page.keyboard.press("ArrowLeft")
    w.settle()
    assert w.saved()["node"] == [1, 1]
    w.page.keyboard.press("ArrowRight")
    w.page.keyboard.press("ArrowRight")  # there is no fourth column yet
    w.settle()
    assert w.saved()["node"] == [2, 0]
    w.press("Steps taken", "Home")
    assert nodes(w) == []
    assert w.says.startswith("A search with 3 beams: nothing is written yet.")


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("ROMEO:\n", {"n_beams": 4, "n_new": 10}),
        ("My lord, ", {"n_beams": 6, "n_new": 12}),
        ("KING RICHARD", {"n_beams": 2, "n_new": 12, "end": "\n", "length_penalty": 1.0}),
    ],
)
def test_a_prompt_of_the_readers_own(mount, view, text, traits):
    w = mount(view())
    w.set(**traits)
    w.control(PROMPT).fill(text)
    w.settle()
    w.saved()
    assert w.widget.text == text
    found(w)


def test_texts_of_other_lengths_are_valued_as_the_penalty_says(mount, view):
    """If texts end with a line break, a penalty helps the long ones."""
    w = mount(view())
    w.control("a line break").check()
    w.settle()
    lengths = []
    for penalty in ("Home", "End"):
        w.press("Length penalty", penalty)
        w.saved()
        found(w)
        lengths.append(len(w.widget.found()[0][0]))
    assert w.widget.length_penalty == 2
    assert lengths == [1, 8]
    w.control("nothing").check()
    w.settle()
    w.saved()
    found(w)
    assert "All texts have the same length here" in w.says
