"""Tests FillIn: encoder and decoder give the probabilities of `scratch` for masked characters, stored and live."""

import json

import numpy as np
import pytest

from glassformer import shipped
from glassformer.chapters.ch12 import fill_in
from glassformer.chapters.ch12.fill_in import at_random
from glassformer.scratch import softmax
from glassformer.widgets import FillIn
from glassformer.widgets.engine.model import LINE

MODEL, TOKENIZER = shipped.load("masked")
DECODER, _ = shipped.load()
MASK = shipped.card("masked")["ids"]["mask"]
SEEN = {" ": "␣", "\n": "⏎"}
FIELD = "Your line"


def seen(id):
    character = TOKENIZER.characters[id]
    return SEEN.get(character, character)


def filled_by_hand(text, covered, steps):
    """Computes the same in a plain way: probabilities for each position as of the last time it was computed."""
    ids, left, said, order = TOKENIZER.encode(text), list(covered), {}, []
    ids[left] = MASK
    while left:
        p = softmax(MODEL(ids).astype(np.float64))
        said |= {t: p[t] for t in left}
        if len(order) == steps:
            break
        surest = max(left, key=lambda t: p[t].max())
        ids[surest] = p[surest].argmax()
        order.append(surest)
        left.remove(surest)
    return said, order


def assert_shows(w, *, atol=1e-4):
    """Asserts what both tables, the letters under the line and the score show."""
    w.saved()
    text, covered = w.widget.text, [t for t in w.widget.covered if t < len(w.widget.text)]
    ids = TOKENIZER.encode(text)
    said, order = filled_by_hand(text, covered, w.widget.steps)
    left = softmax(DECODER(TOKENIZER.encode("\n" + text)[:-1]).astype(np.float64))
    sides = [said, dict(enumerate(left))][: 1 + w.widget.compared]
    table, best = w.tables()
    assert [int(row[0]) for row in table[1:]] == covered
    under = w.root.locator(".gf-fill-letter").evaluate_all(
        "all => all.map((letter) => [...letter.children].map((cell) => [cell.textContent, cell.className]))"
    )
    assert "".join(letter[0][0] for letter in under) == "".join(SEEN.get(c, c) for c in text)
    for row in table[1:]:
        t = int(row[0])
        assert (row[1], row[2]) == (seen(ids[t]), f"{order.index(t) + 1}." if t in order else "")
        assert under[t][1][0] == (seen(said[t][:MASK].argmax()) if t in order else "")
        for place, side in enumerate(sides):
            p = side[t]
            guess, share, rank, loss, entropy = row[3 + 5 * place : 8 + 5 * place]
            assert guess == under[t][2 + place][0] == seen(p[:MASK].argmax())
            assert ("gf-fill-right" in under[t][2 + place][1]) == (rank == "1")
            assert int(rank) == 1 + (p > p[ids[t]]).sum()
            assert float(share) == pytest.approx(p.max(), abs=atol)
            assert float(loss) == pytest.approx(-np.log(p[ids[t]]), abs=10 * atol)
            assert float(entropy) == pytest.approx(-(p * np.log(p)).sum(), abs=5 * atol)
    if covered:
        scores = w.root.locator(".gf-fill-scores tbody tr").all_inner_texts()
        assert len(scores) == len(sides)
        for score, side in zip(scores, sides, strict=True):
            right = sum(side[t].argmax() == ids[t] for t in covered)
            loss = np.mean([-np.log(side[t][ids[t]]) for t in covered])
            _, found, mean = score.split("\t")
            assert found == f"{right} of {len(covered)}"
            assert float(mean) == pytest.approx(loss, abs=6e-3)
    t = w.widget.position
    if t in covered:
        for place, side in enumerate(sides):
            order = np.argsort(-side[t][:MASK], kind="stable")[:5]
            assert [row[2 * place] for row in best[1:]] == [seen(id) for id in order]
            shares = [float(row[2 * place + 1]) for row in best[1:]]
            np.testing.assert_allclose(shares, side[t][order], rtol=0, atol=atol)
    return said, sides


# --- the numbers ------------------------------------------------------------------------------------------


def test_what_is_stored_is_small_however_much_is_covered():
    widget = FillIn(text="M" * 64, covered=list(range(64)), steps=3)
    assert len(json.dumps(widget.get_state(["_stored", "_config", "_other", "_task"]))) < 60_000
    assert FillIn()._task == {"mask": MASK, "share": 0.15}
    said, filled = FillIn(steps=2).guesses()
    by_hand, order = filled_by_hand(LINE, FillIn().covered, 2)
    assert [t for t, _ in filled] == order
    for t, p in by_hand.items():
        np.testing.assert_array_equal(said[t], p)
    assert (len(FillIn(steps=99).guesses()[1]), FillIn(covered=[]).guesses()) == (6, ({}, []))


def test_a_model_that_reads_other_characters_has_no_decoder_beside_it(monkeypatch):
    monkeypatch.setattr(fill_in, "OTHER", "masked")
    widget = FillIn()
    assert widget._other["name"] == "masked"
    other = widget._source._replace(tokenizer=type(widget._source.tokenizer)("abc"))
    monkeypatch.setattr(fill_in, "source_of", lambda name: other)
    assert (FillIn()._other, FillIn()._stored["left"]) == ({}, [])


def test_covers_at_random_are_alike_in_both_languages(call):
    cases = [[length, seed] for length in (1, 10, 41, 64) for seed in (0, 5)]
    for (length, seed), found in zip(cases, call.each("fill_in", "atRandom", cases), strict=True):
        assert found == at_random(length, seed)
        assert len(found) == max(1, round(length / 7))


def test_words_and_the_surest(call):
    text = "My horse, my"
    asked = [[text, 4, []], [text, 2, [5]], [text, 8, []], [text, 11, [10, 11]]]
    words = call.each("fill_in", "wordAt", asked)
    assert words == [[3, 4, 5, 6, 7], [3, 4, 5, 6, 7], [10, 11], [0, 1]]
    assert call("fill_in", "wordAt", "!", 0, []) == []
    looks = [{"rank": 1, "loss": 0.5}, {"rank": 3, "loss": 2.5}]
    assert call("fill_in", "score", looks) == {"right": 1, "of": 2, "loss": 1.5}


# --- what is seen -----------------------------------------------------------------------------------------


def test_the_first_picture_needs_no_weights_and_then_the_models_read(mount, shoot):
    w = mount(FillIn())
    assert_shows(w)
    assert w.says == (
        "Position 29 was “f”. From both sides, the guess is “f” (94 %), which is right. "
        "From the left side only, the guess is “i” (12 %); “f” has rank 12. "
        "Of 6 covered characters, the encoder guesses 4 correctly, and the decoder, which sees only the left side, 2."
    )
    shoot("fillin-900")
    w.root.locator(".gf-fill-asks").press("ArrowLeft")
    assert w.says.startswith("Position 28 is a space and not covered, so the model reads it.")
    assert w.page.evaluate("window.asked") is None
    w.page.keyboard.press("ArrowLeft")
    w.page.keyboard.press(" ")
    w.rest()
    assert w.saved()["covered"] == sorted([*at_random(41, 0), 27])
    assert_shows(w)
    assert w.page.evaluate("window.asked") == 2
    w.page.keyboard.press("Enter")
    w.rest()
    assert w.saved()["covered"] == at_random(41, 0)

    # One after the other
    for steps in (1, 2):
        w.root.get_by_role("button", name="Fill in the surest guess").press("Enter")
        w.rest()
        assert w.saved()["steps"] == steps
        assert f"It was filled in as number {steps} of 6, with " in w.says
    w.press("Filled in, surest first", "ArrowRight")
    w.rest()
    assert w.saved()["steps"] == 3
    assert_shows(w)

    # Another text; the decoder beside it only where it is wanted
    w.press("Compare with a decoder", " ")
    w.control(FIELD).fill("My lord,\nthe king!")
    w.rest()
    assert_shows(w)
    assert "left only" not in w.root.locator(".gf-drawing").inner_text()
    w.press("Compare with a decoder", " ")
    w.root.get_by_role("button", name="Uncover all").press("Enter")
    assert w.says.startswith("Nothing is covered.")
    for _ in range(4):
        w.root.get_by_role("button", name="Cover a word").press("Enter")
    w.rest()
    assert w.saved()["covered"] == [t for t, c in enumerate(w.widget.text) if c not in " ,\n!"]
    assert_shows(w)
    assert " 72 % are covered; in training, 15 % had to be guessed." in w.says
    w.root.get_by_role("button", name="Cover one in seven").press("Enter")
    w.rest()
    assert w.saved()["covered"] == at_random(18, 1)
    assert_shows(w)
    assert w.page.evaluate("window.asked") == 2

    # By hand: a click covers, on another covered one it looks, and on that one it uncovers.
    w.control(FIELD).fill("to be or not")
    w.root.get_by_role("button", name="Uncover all").press("Enter")
    letters = w.root.locator(".gf-fill-letter")
    for t, covered in ((3, [3]), (6, [3, 6]), (3, [3, 6]), (3, [6])):
        letters.nth(t).click()
        w.rest()
        assert (w.saved()["covered"], w.get("position")) == (covered, t)
    assert_shows(w)


def test_on_a_phone_with_all_covered(mount, shoot):
    w = mount(FillIn(covered=list(range(41)), position=40, steps=2), width=360)
    assert_shows(w)
    assert " 100 % are covered; in training, 15 % had to be guessed." in w.says
    assert w.overflow() == 0
    assert w.axe_violations() == []
