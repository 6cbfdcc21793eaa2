"""Tests StateWatch: its state is that of `recurrent_steps`, and what it shows of it is true."""

import itertools
import re

import numpy as np
import pytest

from glassformer import scratch
from glassformer.chapters.ch17.state_watch import StateWatch

LONG = "cat red, dog=blue, my fox → gold; hen: red, cat -> green, owl blue, dog gold, ant pink, bee red, fox blue"
ALL = list(itertools.product([1, 3, 24], [False, True], [1.0, 0.7], [2, 8, 16], [True, False]))
NAMES = ["position", "delta", "decay", "d_key", "orthogonal", "pairs"]
COLOURS = "cells => cells.map((cell) => cell.getAttribute('style')).filter(Boolean)"


def seen(call, *widgets):
    """Returns what the view computes for the traits of each widget."""
    return call.each("state_watch", "watch", [[{name: getattr(w, name) for name in NAMES}] for w in widgets])


def state_of(shown, widget, n):
    """Returns the state (K, U) that `scratch` computes for the first n pairs."""
    k = np.array([shown["k"][shown["keys"].index(key)] for key, _ in shown["done"][:n]])
    v = np.array([[float(name == value) for name in shown["values"]] for _, value in shown["done"][:n]])
    if n == 0:
        return np.zeros_like(shown["state"], float)
    log_decay, strength = np.full((n, 1), np.log(widget.decay)), np.ones((n, 1))
    return scratch.recurrent_steps(k, k, v, log_decay=log_decay, strength=strength, delta=widget.delta)[1]


def test_the_state_and_all_answers_are_those_of_scratch(call):
    widgets = [StateWatch(pairs=LONG, **dict(zip(NAMES, each, strict=False))) for each in ALL]
    for widget, shown in zip(widgets, seen(call, *widgets), strict=True):
        n, k = len(shown["done"]), np.array(shown["k"])
        state, before = state_of(shown, widget, n), widget.decay * state_of(shown, widget, n - 1)
        now = k[shown["keys"].index(shown["done"][-1][0])]
        np.testing.assert_allclose(shown["state"], state, atol=1e-12)
        np.testing.assert_allclose(shown["old"], now @ before, atol=1e-12)
        np.testing.assert_allclose(np.outer(now, shown["written"]), state - before, atol=1e-12)
        for key, read, answer in zip(shown["keys"], k @ state, shown["answers"], strict=True):
            np.testing.assert_allclose(answer["read"], read, atol=1e-12)
            most = max(read.max(), 2e-9)
            best = [name for name, x in zip(shown["values"], read, strict=True) if most - x < 1e-9]
            assert answer["found"] == best
            assert answer["isRight"] == (best == [dict(shown["done"]).get(key)])
            assert answer["share"] == pytest.approx(most / np.abs(read).sum() if best else 0)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_keys_have_length_1_and_as_many_as_there_are_features_can_be_at_right_angles(call, orthogonal):
    for K in (2, 4, 8, 16):
        k = np.array(call("state_watch", "directions", 24, K, orthogonal))
        np.testing.assert_allclose(np.square(k).sum(axis=1), 1)
        assert (np.abs(k[:K] @ k[:K].T - np.eye(K)).max() < 1e-9) == orthogonal


def test_a_list_is_read_as_it_was_meant(call):
    text = "cat red, dog=blue;my fox → gold\n a->b , alone, cow: red, c d, pig grey, " + "x red, " * 30
    parsed = call("state_watch", "parse", text)
    expected = [["cat", "red"], ["dog", "blue"], ["my fox", "gold"], ["a", "b"], ["cow", "red"], ["c", "d"]]
    assert parsed["pairs"] == expected + [["x", "red"]] * 18
    assert parsed["unused"] == ["alone", "pig grey"] + ["x red"] * 12


def numbers(texts):
    return [float(text.strip("()").replace("−", "-")) for text in texts]


def check(w, call, written, asked):
    """Checks the tables, the numbers in the drawing and its colours against what is computed for two keys."""
    w.saved()
    [shown] = seen(call, w.widget)
    state, reads = np.array(shown["state"]), [answer["read"] for answer in shown["answers"]]
    key, query = (np.array(shown["k"][shown["keys"].index(name)]) for name in (written, asked))
    answers, matrix, _ = w.tables()
    np.testing.assert_allclose([numbers(row[1:-2]) for row in answers[1:]], reads, atol=5.01e-3)
    table = np.column_stack([state, key, query])
    np.testing.assert_allclose([numbers(row[1:]) for row in matrix[1:]], table, atol=5.01e-4)
    value = np.array(shown["values"]) == shown["done"][-1][1]
    old = np.multiply(shown["old"], -1 if w.widget.delta else 1)
    drawn = np.concatenate([value, old, shown["written"], query @ state, *reads])
    cells = w.root.locator(".gf-state-number").all_inner_texts()
    np.testing.assert_allclose(numbers(cells), drawn, atol=5.01e-3)
    styles = w.root.locator(".gf-state > span:not([class])").evaluate_all(COLOURS)
    shares = [float(re.search(r"([\d.]+)%", x)[1]) / (100 if "#d55e00" in x else -100) for x in styles]
    np.testing.assert_allclose(shares, np.column_stack([key, state, query]).clip(-1, 1).ravel(), atol=6e-4)


def test_it_is_written_asked_and_changed_by_keyboard_and_by_touch(mount, call):
    w = mount(StateWatch())
    assert w.says.startswith("After 6 pairs, the answer is right for 4 of 5 keys. For “cat”, red and")
    check(w, call, "cat", "cat")
    w.press("the difference (delta rule)", "Space")
    assert w.says.endswith("“cat”, the answer is green, its latest value, with 100 % of what is returned.")
    w.root.get_by_role("button", name="Back").press("Enter")
    w.press("Kept at each step (decay)", "ArrowLeft", "ArrowLeft")
    w.press("4", "Space")
    w.root.get_by_role("button", name="dog").tap()
    assert w.saved() == {"delta": True, "position": 5, "decay": 0.9, "d_key": 4, "asked": "dog"}
    assert re.search(r"K · U = 4 · 4 = 16 numbers.* 5 · \(4 \+ 4\) = 40 numbers", w.root.inner_text())
    check(w, call, "owl", "dog")
    w.press("Pairs written", "Home")
    assert w.says.endswith("the only key. For “dog”, nothing has been written yet; no value stands out.")


def test_the_readers_own_list(mount, call):
    w = mount(StateWatch())
    field = w.control("Keys and their values (at most 24 pairs with 5 different values)")
    w.press("Pairs written", "ArrowLeft", "ArrowRight")  # at the end, where a longer list is followed
    field.fill("Ä x, ö y, a b, c d, e f, g x, Ä y, rest")
    assert w.says.startswith("After 7 pairs, the answer is right for 5 of 6 keys. For “Ä”, x and y are")
    assert w.says.endswith("Not used: rest.")
    w.root.get_by_role("button", name="Add five pairs").press("Enter")  # and all of them are written
    check(w, call, "crab", "Ä")
    field.fill(" , ")
    assert w.says == "Type a key and a value, such as “cat red”."
    w.root.get_by_role("button", name="Restore the list").press("Enter")
    assert w.saved()["pairs"] == StateWatch().pairs
