"""Tests SamplingLab: it writes what Python writes, with every distribution, with branches and with two strategies."""

import inspect
import json
import re

import numpy as np
import pytest
from close import SINGLE, assert_close

from glassformer import shipped
from glassformer.chapters.ch11 import sampling_lab
from glassformer.generate import distribution, draw, generate
from glassformer.scratch import softmax
from glassformer.widgets import SamplingLab
from glassformer.widgets.engine.model import LINE
from glassformer.widgets.engine.mulberry import uniform
from glassformer.widgets.kit.modules import read

MODEL, TOKENIZER = shipped.load()
CONTEXT = MODEL.config.context_length
SEEN = {" ": "␣", "\n": "⏎"}
LIVE = 1e-4  # what the page's arithmetic costs a probability, beside four decimals
STORED = 1e-3  # what three decimals of a logit cost


def text(w, column=0):
    """Returns what a column has written after the prompt."""
    w.settle()
    letters = w.root.locator(".gf-lab-column").nth(column).locator(".gf-lab-letter:not(.gf-lab-next)")
    return letters.evaluate_all(
        "all => all.filter((e) => !e.hidden).map((e) => e.textContent).join('')"
    ).replace("⏎\n", "\n")


def click(w, name):
    w.root.get_by_role("button", name=name, exact=True).press("Enter")
    w.rest()


def bar(w, character):
    return w.root.locator(f".gf-lab-bar[aria-label^='{character}:']").first


def python(w):
    """Returns the same lab in Python, in the state that the view is in."""
    w.saved()
    return w.widget


def assert_writes(w, *, other=False):
    """Asserts that a column's text is drawn from the NumPy model's distributions, and returns the model's logits."""
    lab, written = python(w), text(w, int(other))
    assert len(written) == lab.length
    logits = MODEL(TOKENIZER.encode(lab.text + written))[len(lab.text) - 1 :]
    drawn = draw(distribution(logits, **lab.strategy(other=other)), uniform(lab.seed, lab.length + 1))
    for place, character in lab.other_picked if other else lab.picked:
        drawn[place] = TOKENIZER.encode(character)[0]
    assert TOKENIZER.decode(drawn[:-1]) == written
    return written, logits


def assert_shows(w, logits, strategy, *, place=0, atol=LIVE):
    """Asserts that a table shows every character, the likeliest first, with both probabilities."""
    rows = w.tables()[3 * place][1:]
    p, after = softmax(logits), distribution(logits, **strategy)
    ids = [
        TOKENIZER.characters.index({seen: c for c, seen in SEEN.items()}.get(row[0], row[0])) for row in rows
    ]
    assert sorted(ids) == list(range(65))
    np.testing.assert_allclose([float(row[1]) for row in rows], p[ids], rtol=0, atol=atol + 6e-5)
    found = [0.0 if row[2] == "cut" else float(row[2]) for row in rows]
    np.testing.assert_allclose(found, after[ids], rtol=0, atol=atol + 6e-5)
    assert [row[2] == "cut" for row in rows] == [after[i] == 0 for i in ids]


NEEDS_THE_TEXT = {"past", "repetition_penalty", "no_repeat_ngram"}  # a page's `distribution` has logits alone


def test_every_strategy_of_generate_has_its_sliders():
    strategies = {*inspect.signature(distribution).parameters} - {"logits"} - NEEDS_THE_TEXT
    missing = (
        "a strategy needs code in transformer.js, traits and sliders, and an entry in STRATEGY (.py and .js)"
    )
    assert set(sampling_lab.STRATEGY) == strategies, missing
    [in_javascript] = re.findall(r"^const STRATEGY = (.*);$", read("sampling_lab"), re.M)
    assert json.loads(in_javascript) == [*sampling_lab.STRATEGY], missing


class Numbers(np.random.Generator):
    """A generator whose random numbers are known."""

    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = iter(numbers)

    def random(self, size):
        return np.array([next(self.numbers) for _ in range(size)])


# --- in Python --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [False, True])
def test_it_writes_what_generate_writes_past_the_context_too(other):
    prompt = f"{LINE}\n" * 3  # 126 of 128 characters
    lab = SamplingLab(
        text=prompt, length=6, temperature=0.9, min_p=0.02, other_temperature=1.3, other_top_k=9
    )
    written, logits = lab.written(other=other)
    options = {"generator": Numbers(uniform(7, 6)), "past_context": "half", **lab.strategy(other=other)}
    ids = TOKENIZER.encode(prompt)
    assert TOKENIZER.decode(generate(MODEL, ids, 6, **options)[0]) == prompt + written
    assert_close(logits[0], MODEL(ids)[-1], SINGLE, beside=5.1e-4)  # three decimals are kept
    ids = TOKENIZER.encode(prompt + written)
    assert_close(logits[-1], MODEL(ids[CONTEXT // 2 :])[-1], SINGLE, beside=5.1e-4)


def test_what_is_stored_is_no_more_than_fits_and_picks_are_written(monkeypatch):
    monkeypatch.setattr(sampling_lab, "MAX_STORED", 10)
    lab = SamplingLab(text="A", length=6, compared=True, picked=[[0, "K"], [2, "I"]], other_picked=[[1, "Z"]])
    first, second = lab._stored["columns"]
    assert (first["written"][0], first["written"][2], second["written"][1]) == ("K", "I", "Z")
    assert [len(first[name]) for name in ("written", "logits")] == [4, 5]


def test_at_first_every_cut_is_off_and_a_character_is_shown_that_was_not_the_likeliest():
    lab = SamplingLab()
    for other in (False, True):
        assert lab.strategy(other=other)["top_p"] == 1
        assert lab.strategy(other=other)["top_k"] == 65
        assert lab.strategy(other=other)["min_p"] == 0
    written, logits = lab.written()
    [id] = TOKENIZER.encode(written[lab.position])
    assert 1 <= (logits[lab.position] > logits[lab.position][id]).sum() <= 5


# --- the mathematics --------------------------------------------------------------------------------------


def test_numbers_entropy_repeats_and_where_texts_part(call):
    found = call.each("writer", "uniformAt", [[99, i] for i in (0, 1, 2, 399)])
    np.testing.assert_array_equal(found, uniform(99, 400)[[0, 1, 2, 399]])
    p = np.array([0.5, 0.25, 0.25, 0])
    assert call("writer", "entropy", p.tolist()) == pytest.approx(1.5 * np.log(2))
    # "abcabca": from the fifth on, each of the last three ends a run of two that was there.
    assert call("writer", "repeated", [0, 1, 2, 0, 1, 2, 0], 3, 2) == 3
    assert call("writer", "repeated", [0, 1, 2, 0, 1, 2, 0], 5, 2) == 2
    assert call("writer", "parting", [1, 2, 3], [1, 2, 4, 5]) == 2
    assert call("writer", "parting", [1, 2, 3], [1, 2]) is None


# --- what is seen -----------------------------------------------------------------------------------------


def test_the_first_picture_needs_no_weights_and_follows_the_keys(mount):
    w = mount(SamplingLab(top_p=0.9, position=27))
    strategy = {"top_p": 0.9}
    written, logits = assert_writes(w)
    assert_shows(w, logits[27], strategy, atol=STORED)
    p, after = softmax(logits[27]), distribution(logits[27], **strategy)
    drawn = TOKENIZER.encode(written[27])[0]
    number = uniform(7, 28)[27]
    assert w.says == (
        f"At position 27, the model gives “n” a probability of {100 * p[drawn]:.0f} %, rank 2 of 65. "
        f"{(after > 0).sum()} of 65 characters can be drawn; their probability together is "
        f"{100 * p[after > 0].sum():.0f} % in the model. The random number {number:.3f} "
        f"falls on its stretch of the line, which is {100 * after[drawn]:.0f} % long."
    )
    order = np.argsort(-p, kind="stable")[:16]
    bars = w.root.locator(".gf-lab-column").first.locator(".gf-lab-bar")
    assert bars.locator("b").all_inner_texts() == [SEEN.get(c, c) for c in TOKENIZER.decode(order)]
    cut = bars.evaluate_all("all => all.map((bar) => bar.classList.contains('gf-lab-cut'))")
    assert cut == [after[i] == 0 for i in order]
    shares = bars.locator(".gf-lab-after").evaluate_all(
        "all => all.map((bar) => Number(bar.style.getPropertyValue('--share')))"
    )
    np.testing.assert_allclose(shares, after[order] / 0.7, rtol=0, atol=2 * STORED)
    # The line, laid out by id: where its stretch begins and ends is where the number fell.
    begins, ends = w.root.locator(".gf-lab-here").first.evaluate(
        """(here) => {
          const box = here.parentElement.getBoundingClientRect();
          const own = here.getBoundingClientRect();
          return [own.left - box.left, own.right - box.left].map((x) => x / box.width);
        }"""
    )
    np.testing.assert_allclose([begins, ends], np.cumsum(after)[[drawn - 1, drawn]], rtol=0, atol=5e-3)
    assert begins < number < ends

    means = [float(row[1]) for row in w.tables()[2][1:]]
    ids = TOKENIZER.encode(written)
    before, left = softmax(logits[:-1]), distribution(logits[:-1], **strategy)
    entropies = [-(q * np.log(np.where(q > 0, q, 1))).sum(axis=-1).mean() for q in (before, left)]
    runs = [(LINE + written)[i - 5 : i + 1] for i in range(5, 41 + 60)]
    repeats = sum(run in runs[:i] for i, run in enumerate(runs) if i >= 41 - 5) / 60
    surprise = -np.log(before[np.arange(60), ids]).mean()
    np.testing.assert_allclose(means, [*entropies, surprise, repeats], rtol=0, atol=2e-3)
    assert repeats > 0

    w.root.get_by_role("group", name="What is written; arrow keys choose a character", exact=True).focus()
    for key, position in zip(["Right", "Up", "Down", "Left"], (28, 12, 28, 27), strict=True):
        w.page.keyboard.press(f"Arrow{key}")
        w.settle()
        assert w.get("position") == position, key
    w.page.keyboard.press("Home")
    w.page.keyboard.press("ArrowLeft")
    assert w.get("position") == 0
    assert_shows(w, logits[0], strategy, atol=STORED)
    w.page.keyboard.press("End")
    assert w.says.startswith("The next character, at position 60: the likeliest is ")
    assert_shows(w, logits[60], strategy, atol=STORED)
    assert not w.root.locator(".gf-lab-mark").first.is_visible()
    w.root.locator(".gf-lab-letter").nth(4).click()
    assert w.saved() == {"position": 4}
    assert w.page.evaluate("window.asked") is None


def test_it_writes_as_python_does(mount):
    w = mount(SamplingLab(length=20, top_p=0.9))
    click(w, "To the end of the line")
    written, logits = assert_writes(w)
    assert written.index("\n", 20) == len(written) - 1
    assert_shows(w, logits[-1], {"top_p": 0.9})
    click(w, "One character")
    assert_writes(w)
    # Each slider; the same numbers write another text, as far as the context and beyond.
    for label, keys in {
        "Temperature": ["Home"] + ["ArrowRight"] * 14,
        "Top-k": ["Home"] + ["ArrowRight"] * 11,
        "Top-p": ["End", "ArrowLeft"],
        "Min-p": ["ArrowRight"] * 3,
        "Seed of the random numbers": ["ArrowRight"],
    }.items():
        w.press(label, *keys)
    w.rest()
    names = ("temperature", "top_k", "top_p", "min_p", "seed")
    assert [w.get(name) for name in names] == [pytest.approx(0.7), 12, 0.99, 0.03, 8]
    _, logits = assert_writes(w)
    w.set(position=15)
    assert_shows(w, logits[15], w.widget.strategy())
    assert w.page.evaluate("window.asked") == 1
    click(w, "Start again")
    assert text(w) == ""
    w.control("Your prompt").fill("To be")
    w.rest()
    assert w.says.startswith("The next character, at position 0: ")
    click(w, "Twenty")
    assert w.get("length") == w.get("position") == 20
    assert python(w).text == "To be"
    assert_writes(w)


def test_branches_and_two_strategies(mount, shoot):
    w = mount(SamplingLab(length=34, top_p=0.9, position=27), width=360)
    before = text(w)
    bar(w, "“b”").press("Enter")
    w.rest()
    assert w.saved()["picked"] == [[27, "b"]]
    after, _ = assert_writes(w)
    assert after[:28] == before[:27] + "b"
    assert "You chose it by hand." in w.says
    click(w, f"27: {before[27:34]}…".replace("\n", "⏎"))
    assert (text(w), w.get("picked")) == (before, [])
    click(w, f"27: {after[27:34]}…".replace("\n", "⏎"))
    assert text(w) == after
    assert_writes(w)

    w.press("Compare with a second strategy", " ")
    w.rest()
    assert_writes(w, other=True)
    fork = next(i for i, (a, b) in enumerate(zip(after, text(w, 1), strict=True)) if a != b)
    assert f"The two texts differ from position {fork} on: A writes " in w.says
    assert w.root.locator(".gf-lab-fork").all_inner_texts() == [after[fork], text(w, 1)[fork]]
    w.press("Temperature B", "Home", *["ArrowRight"] * 26)
    w.press("Min-p B", "ArrowRight")
    w.rest()
    _, logits = assert_writes(w, other=True)
    assert_shows(w, logits[27], python(w).strategy(other=True), place=1)
    assert text(w) == after
    # Up and down go along the bars; the next character may be chosen, too.
    w.set(position=34)
    bars = w.root.locator(".gf-lab-column").nth(1).locator(".gf-lab-bar")
    bars.first.focus()
    w.page.keyboard.press("ArrowDown")
    w.settle()
    character = bars.nth(1).locator("b").inner_text()
    w.page.keyboard.press("Enter")
    w.rest()
    assert w.saved()["other_picked"] == [[34, {"␣": " ", "⏎": "\n"}.get(character, character)]]
    assert w.get("length") == 35
    assert_writes(w)
    assert_writes(w, other=True)

    # What was picked further on is given up with the text that it stood in.
    w.set(position=2)
    bar(w, "“K”").press("Enter")
    w.rest()
    assert w.get("picked") == [[2, "K"]]
    assert_writes(w)

    assert w.tables()
    assert w.overflow() == 0
    assert w.axe_violations() == []
    shoot("sampling-360")


def test_past_the_context_it_can_be_stopped(mount):
    w = mount(SamplingLab(text=f"{LINE}\n" * 3, length=0))
    for _ in range(4):
        click(w, "One character")
    assert text(w) == python(w).written()[0]
    w.root.evaluate(
        """async (root) => {
          const button = (name) => [...root.querySelectorAll("button")].find((each) => each.textContent === name);
          const written = () => root.querySelectorAll(".gf-lab-letter:not(.gf-lab-next, [hidden])").length;
          for (let i = 0; i < 10; i++) button("Twenty").click();
          while (written() < 8) await new Promise(requestAnimationFrame);
          button("Stop").click();
        }"""
    )
    assert len(text(w)) == w.get("length")
    assert 8 <= w.get("length") < 20
