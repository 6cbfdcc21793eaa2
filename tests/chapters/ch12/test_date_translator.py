"""Tests DateTranslator: it translates as `scratch` does, and its alignment and its stored facts are right."""

import base64
import json
import math
from datetime import date

import numpy as np
from playwright.sync_api import expect

from glassformer import dates
from glassformer.chapters.ch12.date_translator import EXAMPLE
from glassformer.train.recipe import special_ids
from glassformer.widgets import DateTranslator
from glassformer.widgets.kit.modules import needed, read

FIELD = "A date"
SLIDER = "Character of the answer"
LIVE = 1.5e-4  # what the page's arithmetic costs, and four decimals
STRANGE = ["no date at all", "23-11-1984", "3", "the day was Friday the 23rd of November, 1984"]

# Translate each text with the view's own code: characters, and for every step its probabilities and weights.
TRANSLATE = """async ([modules, loader, state, file]) => {
  const { link } = await import(URL.createObjectURL(new Blob([loader], { type: "text/javascript" })));
  const { translated } = await link(modules);
  const { Transformer, readTensors } = await link(modules.slice(0, state.upTo));
  const bytes = Uint8Array.from(atob(file), (c) => c.charCodeAt(0));
  const transformer = new Transformer(state.config, readTensors(new DataView(bytes.buffer)));
  return JSON.stringify(state.sources.map((source) => {
    const steps = translated(transformer, source, state.marks);
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value.map((step) => ({ ...step, p: [...step.p], weights: step.weights.map((w) => [...w]) }));
    }
  }));
}"""


def some(n):
    """Returns that many texts: dates in every format, some short or in lower case, and texts that are not dates."""
    written = [
        dates.write_date(date(1900 + 6 * i, 1 + i % 12, 3 + i % 28), form, short=i % 3 == 2, small=i % 4 == 3)
        for i, form in enumerate(2 * dates.FORMS)
    ]
    return [*STRANGE, *(pair.source for pair in written)][:n]


def column(table, i):
    return np.array([float(row[i]) for row in table[1:]])


def assert_shows(w, translated, t, *, atol=LIVE):
    """Asserts what the tables show: where the chosen character looks, what else might have come, and every head."""
    widget = w.widget
    looks, likely, written, heads = w.tables()
    of_block = translated.weights[widget.block]
    weights = of_block.mean(axis=0) if widget.head < 0 else of_block[widget.head]
    np.testing.assert_allclose(column(looks, 2), weights[t], rtol=0, atol=atol)
    assert [row[1] for row in looks[1:]] == list(widget.text.replace(" ", "␣"))
    right = np.sort(translated.probabilities[t])[::-1]
    np.testing.assert_allclose(column(likely, 1), right, rtol=0, atol=atol)
    assert "".join(row[1] for row in written[1:]) == translated.text + "■"
    entropies = -(weights * np.log(np.maximum(weights, 1e-30))).sum(axis=-1)
    np.testing.assert_allclose(column(written, 5), entropies, rtol=0, atol=5e-3)
    of_all = np.concatenate([translated.weights.mean(axis=1, keepdims=True), translated.weights], axis=1)
    most = of_all[:, :, t].reshape(-1, len(widget.text))
    np.testing.assert_allclose(column(heads, 3), most.max(axis=-1), rtol=0, atol=atol)


# --- in Python --------------------------------------------------------------------------------------------


def test_the_marks_are_those_of_the_recipe_and_what_is_stored_is_small():
    widget = DateTranslator(text="the day was Friday the 23rd of November, 1984 and so on, my dear")
    special = special_ids("encoder-decoder", len(widget._characters))
    assert {name: widget._marks[name] for name in special} == special
    assert len(json.dumps(widget._stored)) < 60_000
    assert DateTranslator().translation().text == "1984-11-23"


# --- the mathematics --------------------------------------------------------------------------------------


def test_thirty_texts_are_translated_as_scratch_does(page):
    first, texts = DateTranslator(), some(30)
    names = needed("date_translator")
    state = {
        "upTo": names.index("transformer") + 1,
        "config": first._config,
        "marks": first._marks,
        "sources": [first._source.tokenizer.encode(text).tolist() for text in texts],
    }
    modules = [{"name": name, "source": read(name)} for name in names]
    file = base64.b64encode(first._file("weights")).decode()
    found = json.loads(page.evaluate(TRANSLATE, [modules, read("loader"), state, file]))
    for text, steps in zip(texts, found, strict=True):
        first.text = text
        wanted = first.translation()
        ids = [step["id"] for step in steps if step["id"] != first._marks["stop"]]
        assert first._source.tokenizer.decode(ids) == wanted.text, text
        np.testing.assert_allclose([step["p"] for step in steps], wanted.probabilities, rtol=0, atol=1e-4)
        T, S = len(steps), len(text)
        weights = np.array([step["weights"] for step in steps]).reshape(T, 2, 4, S).transpose(1, 2, 0, 3)
        np.testing.assert_allclose(weights, wanted.weights, rtol=0, atol=1e-4)


def test_what_a_text_means_and_what_is_said_of_an_answer(call):
    ways = DateTranslator()._ways
    days = [date(1900, 2, 28), date(2000, 2, 29), date(1977, 5, 11), date(2099, 12, 31)]
    pairs = [
        dates.write_date(day, form, short=short, small=small)
        for day, form, short, small in [
            (day, form, i % 2 == 0, j % 2 == 0)
            for j, form in enumerate(dates.FORMS)
            for i, day in enumerate(days)
        ]
    ]
    found = call.each("date_translator", "meaning", [[pair.source, ways] for pair in pairs])
    assert [each["iso"] for each in found] == [pair.target for pair in pairs]
    strange = [
        *STRANGE, "3 Mai 1994", "3th May 1994", "03.5.1994", "MAY 3, 1994", "3 May 94", "32 May 1994", "3 May 1994 ",
    ]  # fmt: skip
    assert set(call.each("date_translator", "meaning", [[text, ways] for text in strange])) == {None}
    texts = [
        "2000-02-29",
        "1900-02-29",
        "2001-02-29",
        "2004-13-01",
        "2004-00-01",
        "2004-01-00",
        "2004-1-1",
        "1977-12-31",
    ]
    assert call.each("date_translator", "isDay", [[text] for text in texts]) == [True, *[False] * 6, True]
    answers = {
        "3.5.1994": "1994-05-03", "2099, oct 15": "2099-05-15", "30 February 2001": "2001-02-30",
        "3-5-1994": "1994-05-03", "no date at all": "2000-03-00", "23 November 1784": "2044-11-17",
    }  # fmt: skip
    said = call.each("date_translator", "verdict", [[*answer, ways] for answer in answers.items()])
    assert [each["mark"] for each in said] == ["✓", "✗", "?", "?", "?", "✗"]
    assert said[1]["says"] == "Wrong: the date is 2099-10-15."
    assert "no such day" in said[2]["says"]
    assert ": a day of the calendar" in said[3]["says"]
    assert ": no day of the calendar" in said[4]["says"]
    assert said[5]["says"].endswith("from 1900 to 2099.")


# --- what is seen -----------------------------------------------------------------------------------------


def test_the_first_picture_needs_no_weights_and_follows_the_keys(mount):
    w = mount(DateTranslator())
    translated = w.widget.translation()
    row = translated.weights[1, 0, 6]
    entropy = -(row * np.log(row)).sum()
    assert w.says == (
        f"“1” at position 6, the month’s 2nd digit: probability > 99 %. Here, head 0 of block 1 looks most at “v” of "
        f"“November” (position 22), with weight {row[22]:.2f}. "
        f"The entropy of its weights is {entropy:.2f} nats, of at most {math.log(34):.2f}."
    )
    assert_shows(w, translated, 6)
    # One ribbon for each weight of 0.02 and more; only the chosen character's are strong.
    groups = w.root.locator(".gf-translator-ribbons")
    counts = groups.evaluate_all("all => all.map((group) => group.childElementCount)")
    assert counts == (translated.weights[1, 0] >= 0.02).sum(axis=-1).tolist()
    chosen = groups.evaluate_all("all => all.map((group) => group.classList.contains('gf-chosen'))")
    assert np.flatnonzero(chosen).tolist() == [6]
    w.press(SLIDER, "ArrowRight", "ArrowRight", "ArrowRight")
    w.press("Head", "ArrowUp")
    assert w.saved() == {"position": 9, "head": -1}
    assert_shows(w, translated, 9)
    assert "the day’s 2nd digit" in w.says
    assert "average of all heads" in w.says
    w.press(SLIDER, "End")
    assert w.get("position") == 10
    assert w.says.startswith("The stop, after the last character: ")
    w.root.locator(".gf-translator-target").nth(4).click()
    assert w.saved()["position"] == 4
    assert "the 1st hyphen" in w.says
    assert w.root.locator(".gf-translator-verdict").inner_text().split("\n")[-1] == "1984-11-23. Right."
    assert w.page.evaluate("window.asked") is None


def test_another_text_on_a_phone_and_what_it_does_not_know(mount, shoot):
    w = mount(DateTranslator(), width=360)
    verdict = w.root.locator(".gf-translator-verdict")
    w.control(FIELD).fill("2099, oct 15")
    w.rest()
    w.saved()
    assert_shows(w, w.widget.translation(), 6)
    assert verdict.inner_text().endswith("2099-05-15. Wrong: the date is 2099-10-15.")
    w.root.get_by_role("button", name="23-11-1984", exact=True).press("Enter")
    w.rest()
    w.saved()
    assert w.control(FIELD).input_value() == "23-11-1984"
    assert_shows(w, w.widget.translation(), 6)
    assert "The model was never trained on this format" in verdict.inner_text()
    # Typing on while it is at work: what is shown in the end belongs to the last text.
    w.press(FIELD, "End", " ", "a")
    w.rest()
    assert w.saved()["text"] == "23-11-1984 a"
    assert_shows(w, w.widget.translation(), 6)
    assert w.page.evaluate("window.asked") == 1
    w.control(FIELD).fill(EXAMPLE)
    w.rest()
    # It writes as the reader watches: what is not written yet is not seen.
    w.saved()  # so that Python, which sets the position, has the same text
    w.set(position=10)
    w.hold_beats()
    w.root.get_by_role("button", name="Watch it write").press("Enter")
    unwritten = w.root.locator(".gf-translator-target.gf-unwritten")
    for t in (0, 1, 2):
        expect(unwritten).to_have_count(10 - t)
        assert w.get("position") == t
        assert w.beat()
    w.root.get_by_role("button", name="Stop").press("Enter")
    expect(unwritten).to_have_count(0)
    assert w.get("position") == 3
    assert not w.beat()
    w.tables()
    assert w.overflow() == 0
    assert w.axe_violations() == []
    shoot("translator-360")
