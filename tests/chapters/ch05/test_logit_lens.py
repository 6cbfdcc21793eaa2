"""Tests LogitLens: it shows the guesses and shares that `inside` finds, stored and live, by keyboard and pointer."""

import re
from functools import cache

import mounting
import numpy as np
import pytest
from close import ENGINE, SINGLE, assert_close
from playwright.sync_api import expect

from glassformer import shipped
from glassformer.generate.reader import window_start
from glassformer.inside.attribution import logit_attribution
from glassformer.inside.lens import logit_lens
from glassformer.scratch import softmax
from glassformer.widgets import LogitLens
from glassformer.widgets.engine.model import LINE

MODEL, TOKENIZER = shipped.load()
CONTEXT = MODEL.config.context_length
FIELD = "Your text"
SEEN = {" ": "␣", "\n": "⏎"}


def number(text):
    return float(text.replace("−", "-"))


@cache
def probabilities(text):
    return softmax(logit_lens(MODEL, TOKENIZER.encode(text)).astype(np.float64))


def expected(text, position):
    """Returns, at each depth, the five likeliest next characters and the loss and rank of the actual one, if any."""
    ids = TOKENIZER.encode(text)
    for p in probabilities(text)[:, position]:
        order = np.argsort(-p, kind="stable")
        best = [(SEEN.get(c, c), p[i]) for c, i in zip(TOKENIZER.decode(order[:5]), order, strict=False)]
        comes = ids[position + 1] if position + 1 < len(ids) else None
        yield best, comes is not None and (-np.log(p[comes]), int(np.flatnonzero(order == comes)[0]) + 1)


def shares(text, position):
    """Returns what the embedding and each sublayer add to the logit of the next character."""
    ids = TOKENIZER.encode(text)
    logits = MODEL(ids)
    comes = ids[position + 1] if position + 1 < len(ids) else logits[-1].argmax()
    of = {name: share[position] for name, share in logit_attribution(MODEL, ids, int(comes)).items()}
    blocks = range(MODEL.config.n_layers)
    heads = [sum(of[f"block {b}: head {h}"] for h in range(MODEL.config.n_heads)) for b in blocks]
    fed = [of[f"block {b}: feed-forward"] for b in blocks]
    written = [share for pair in zip(heads, fed, strict=True) for share in pair]
    return [of["embedding"], *written], logits[position, comes]


def assert_shows(w, text, position):
    guesses, parts, _ = w.tables()
    for row, (best, comes) in zip(guesses[1:], expected(text, position), strict=True):
        assert row[1:11:2] == [character for character, _ in best]
        np.testing.assert_allclose([number(p) for p in row[2:11:2]], [p for _, p in best], atol=1.01e-4)
        if comes:
            assert number(row[11]) == pytest.approx(comes[0], abs=2e-3)
            assert int(row[12]) == comes[1]
        else:
            assert row[11:] == ["", ""]
    found, (written, logit) = [number(cells[1]) for cells in parts[1:]], shares(text, position)
    assert_close(found[:-1], written, ENGINE, beside=5.1e-4)
    assert_close(found[-1], logit, ENGINE, beside=5.1e-3)  # the sum of nine numbers, each of three decimals


# --- the numbers ------------------------------------------------------------------------------------------


def test_what_is_stored_sums_to_the_logits():
    widget = LogitLens()
    ids = TOKENIZER.encode(LINE)
    logits = MODEL(ids)
    comes = np.append(ids[1:], logits[-1].argmax())
    assert_close(widget.added().sum(axis=0), logits[np.arange(len(ids)), comes], SINGLE)


@pytest.mark.parametrize("id", [0, 3, 4])
def test_rank(call, id):
    p = np.array([0.1, 0.3, 0.1, 0.4, 0.1])
    assert (
        call("logit_lens", "rankOf", p.tolist(), id) == np.argsort(-p, kind="stable").tolist().index(id) + 1
    )


# --- what is seen -----------------------------------------------------------------------------------------


def test_the_first_picture_needs_no_weights_and_follows_the_keys(mount):
    w = mount(LogitLens())
    assert_shows(w, LINE, 14)
    assert w.says == (
        "After “s” at 14, if the model stopped after block 2, it would predict “,” (28 %). The next character "
        "is “e”, which ranks 2nd of 65; the loss is 1.34. "
        "The feed-forward network of block 3 adds most to its logit: +4.42 of 9.31."
    )
    table = w.root.get_by_role("group", name="Guesses under the text; arrow keys move")
    table.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved() == {"position": 15, "depth": 4}
    assert "After “e” at 15, with all 4 blocks," in w.says
    for key in ("Home", "ArrowLeft", *["ArrowUp"] * 5):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved() == {"position": 0, "depth": 0}
    assert "if the model stopped after the embedding," in w.says
    assert_shows(w, LINE, 0)
    w.press("Position", "End")
    w.press("Stop after", "ArrowRight")
    assert w.saved() == {"position": 40, "depth": 1}
    assert_shows(w, LINE, 40)  # nothing comes
    assert TOKENIZER.characters[MODEL(TOKENIZER.encode(LINE))[-1].argmax()] == "\n"
    assert "to the logit of ⏎ (the model’s own guess)" in w.root.locator(".gf-lens-panels").inner_text()
    assert w.page.evaluate("window.asked") is None


def test_the_table_is_the_text_and_its_guesses_underlined_where_right(mount):
    w = mount(LogitLens())
    rows = w.root.locator(".gf-lens-line:not([hidden])").evaluate_all(
        """lines => [0, 1, 2, 3, 4, 5, 6].map((i) => lines.flatMap((line) =>
          [...line.children[i].querySelectorAll(".gf-lens-cell:not(:empty)")].map((cell) => [
            cell.textContent,
            Number(cell.style.getPropertyValue("--share")),
            cell.classList.contains("gf-lens-right")])))"""
    )
    letters = ["".join(cell[0] for cell in row) for row in rows]
    text = LINE.replace(" ", "␣")
    assert (letters[0], letters[-1]) == (text, text[1:])
    ids = TOKENIZER.encode(LINE)
    p = probabilities(LINE)
    for depth, row in enumerate(rows[1:-1]):
        best = p[depth].argmax(axis=-1)
        assert letters[depth + 1] == "".join(SEEN.get(c, c) for c in TOKENIZER.decode(best))
        np.testing.assert_allclose([cell[1] for cell in row], p[depth].max(axis=-1), atol=6e-4)
        assert [cell[2] for cell in row] == [*(best[:-1] == ids[1:]), False]
    # How often it is right, and the mean loss, by depth
    over_all = w.tables()[2][1:]
    right = (p[:, :-1].argmax(axis=-1) == ids[1:]).sum(axis=-1)
    loss = -np.log(p[:, np.arange(40), ids[1:]]).mean(axis=-1)
    assert [int(cells[1]) for cells in over_all] == right.tolist()
    np.testing.assert_allclose([number(cells[3]) for cells in over_all], loss, atol=2e-3)


def test_bars_are_as_long_as_what_they_say(mount):
    w = mount(LogitLens(position=22))
    likely = w.root.locator(".gf-lens-panels .gf-bar-length").evaluate_all(
        "bars => bars.map((bar) => Number(bar.style.getPropertyValue('--share')))"
    )
    np.testing.assert_allclose(likely, [p for _, p in list(expected(LINE, 22))[3][0]], atol=1e-4)
    bars = w.root.locator(".gf-lens-track span").evaluate_all(
        """bars => bars.map((bar) =>
          [bar.classList.contains("gf-lens-less") ? -1 : 1, bar.getBoundingClientRect().width])"""
    )
    found, written = np.array([sign * width for sign, width in bars]), np.array(shares(LINE, 22)[0])
    np.testing.assert_allclose(found / np.abs(found).max(), written / np.abs(written).max(), atol=0.01)
    assert w.root.locator(".gf-lens-true b").inner_text() == "n"


def test_pointing_shows_and_a_click_stays(mount):
    w = mount(LogitLens())
    cell = (
        w.root.locator(".gf-lens-line")
        .first.locator(".gf-lens-guesses")
        .nth(1)
        .locator(".gf-lens-cell")
        .nth(8)
    )
    cell.hover()
    assert w.says.startswith("After a space at 8, if the model stopped after block 0,")
    assert w.saved() == {}
    w.page.mouse.move(5, 5)
    assert w.says.startswith("After “s” at 14, if the model stopped after block 2,")
    cell.click()
    w.page.mouse.move(5, 5)
    assert w.says.startswith("After a space at 8, if the model stopped after block 0,")
    assert w.saved() == {"position": 8, "depth": 1}


def test_a_text_of_the_readers_own(mount):
    w = mount(LogitLens())
    field = w.control(FIELD)
    field.fill("hé")
    w.settle()
    assert w.root.locator(".gf-own-note").inner_text() == "The model has never seen é, so it skips it."
    assert_shows(w, "h", 0)
    for text in ("O", "My lord,\nthe king"):
        field.fill(text)
        w.rest()
        assert w.saved()["text"] == text
        for position in (len(text) // 2, len(text) - 1):
            w.set(position=position)
            assert_shows(w, text, position)
    w.root.get_by_role("button", name="Original line").press("Enter")
    w.rest()
    assert_shows(w, LINE, 16)
    w.root.get_by_role("button", name="A longer scene").press("Enter")
    w.rest()
    assert w.saved()["text"].startswith("KING RICHARD III:\n")
    assert w.page.evaluate("window.asked") == 1


def test_numbers_that_are_shown_while_a_shorter_text_is_read_are_of_what_is_read(mount):
    w = mount(LogitLens(position=len(LINE) - 1))
    w.tables()
    complaints = []
    w.page.on("pageerror", lambda error: complaints.append(str(error)))
    for text in ("A ho", LINE, "A"):
        # The numbers are asked for again and again, also between a slice that is read and the frame that draws it.
        w.root.evaluate(
            """async (root, text) => {
              const field = root.querySelector("textarea");
              field.value = text;
              field.dispatchEvent(new Event("input"));
              for (let i = 0; i < 200; i++) {
                root.querySelector("details").dispatchEvent(new Event("toggle"));
                await new Promise((go) => setTimeout(go));
              }
            }""",
            text,
        )
        w.rest()
    assert complaints == []


def test_of_a_long_text_the_model_sees_the_end(mount):
    text = "".join(f"{LINE}\n" for _ in range(4))
    w = mount(LogitLens(text=text, position=len(text) - 1), width=390)
    lost = window_start(len(text), CONTEXT)
    seen = text[lost:]
    assert f"After a line break at {len(text) - 1}," in w.says
    assert_shows(w, seen, len(seen) - 1)
    note = w.root.locator(".gf-drawing > .gf-panel-title").inner_text()
    assert note.startswith(f"The model sees positions {lost} to {len(text) - 1}, ")
    here = [int(n) for n in re.search(r"Positions (\d+) to (\d+) are shown", note).groups()]
    assert here[1] == len(text) - 1 > here[0] > lost
    w.set(position=lost + 3)  # which was not drawn
    assert_shows(w, seen, 3)
    assert f"Positions {lost} to " in w.root.locator(".gf-drawing > .gf-panel-title").inner_text()
    assert w.root.locator(".gf-lens-here").count() == 1
    w.set(position=0)  # out of its sight: the last
    assert f" at {len(text) - 1}," in w.says
    w.control(FIELD).fill(f"{text}A")
    w.rest()
    assert w.saved()["text"] == f"{text}A"
    w.set(position=len(text) - 2)
    assert_shows(w, f"{seen}A", len(seen) - 2)


def test_a_text_that_is_left_before_the_model_comes_is_not_read(mount, monkeypatch):
    w = mount(LogitLens())
    w.page.evaluate(
        """() => {
          const { model } = window.mounted[0];
          const send = model.send;
          model.send = (message) => (window.answer = () => send.call(model, message));
        }"""
    )
    w.control(FIELD).fill("A house")
    expect(w.root.locator(".gf-says")).to_have_text("Waiting for the model …")
    expect(w.root.locator(".gf-drawing")).to_have_attribute("aria-busy", "true")
    monkeypatch.setattr(mounting, "PATIENCE", 0.3)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)still busy:.*Waiting for the model"):
        w.settle()
    monkeypatch.undo()
    w.root.get_by_role("button", name="Original line").press("Enter")
    assert w.says.startswith("After “s” at 14,")
    w.page.evaluate("() => window.answer()")
    w.rest()
    assert w.root.locator(".gf-lens-text .gf-lens-cell:not(:empty)").count() == len(LINE)
    assert w.control(FIELD).input_value() == LINE
    assert_shows(w, LINE, 14)
