"""Tests RouterView: its routes are those of NumPy, on any text, and the test of a guess counts what is really there."""

import re

import numpy as np
import pytest

from glassformer import shipped
from glassformer.chapters.ch18 import router_view
from glassformer.chapters.ch18.router_view import RULES, RouterView, fits, stored_facts
from glassformer.text import corpus
from glassformer.trace import trace

HELD_OUT = corpus()[len(corpus()) * 9 // 10 : len(corpus()) - 55_770]
A_LINE = "ROMEO:\nBut soft, what light?"
PAIRS = [(block, expert) for block in range(4) for expert in (0, 3, 7)]


def routes_of(widget):
    """Returns the chosen experts and their weights at every character (L, T, 2), as a trace sees them."""
    _, tokenizer = shipped.load("experts")
    with trace() as seen:
        widget._source.model(tokenizer.encode(widget.text[:128])[None])
    return [np.array(seen.arrays(name))[:, 0] for name in ("chosen", "shares")]


def numbers(rows):
    return np.array([[float(cell.replace("−", "-")) for cell in row] for row in rows])


def check(w):
    """Checks the tables of routes and probabilities, the colours and the bars against NumPy; of a text of any kind."""
    widget = w.widget
    w.saved()
    text, block = widget.text[:128], widget.block
    chosen, shares = (array[block] for array in routes_of(widget))
    routes, probabilities = w.tables()[:2]
    shown = numbers([row[2:] for row in routes[1:]])
    np.testing.assert_array_equal(shown[:, [0, 2]], chosen)
    np.testing.assert_allclose(shown[:, [1, 3]], shares, atol=1.1e-3)
    at = min(widget.position, len(text) - 1)
    p = widget.probabilities()[block]
    np.testing.assert_allclose(numbers(row[1:] for row in probabilities[1:])[:, 0], p[at], atol=1.1e-4)
    letters = w.root.locator(".gf-character")
    assert letters.evaluate_all("all => all.map((one) => one.dataset.sign)") == [str(e) for e in chosen[:, 0]]
    styles = letters.evaluate_all("all => all.map((one) => one.style.background)")
    filled = [style.startswith("rgb") for style in styles]
    underlined = [style.startswith("linear") for style in styles]
    if widget.expert < 0:
        assert all(filled)
        assert len(set(styles)) == len(set(chosen[:, 0]))
    else:
        assert filled == (chosen[:, 0] == widget.expert).tolist()
        assert underlined == (chosen[:, 1] == widget.expert).tolist()
    strong = w.root.locator(".gf-router-chosen > b").all_inner_texts()
    assert sorted(strong) == sorted(str(e) for e in chosen[at])


# --- what it counts ---


def test_the_counts_are_those_of_the_held_out_text():
    """Run tools/assets/router.py if the model was trained again."""
    model, tokenizer = shipped.load("experts")
    ids = tokenizer.encode(HELD_OUT)
    facts, few = stored_facts(), router_view.choices(model, ids[: 128 * 8 + 5])
    assert few.shape == (4, 1024, 2)
    assert facts["rules"] == list(RULES)
    N = len(ids) // 128 * 128
    known = fits(HELD_OUT)
    assert facts["all"]["fits"] == [int(fit[:N].sum()) for fit in known.values()]
    assert facts["all"]["n"] == N
    for layer in facts["experts"]:
        assert sum(expert["n"] for expert in layer) == 2 * N
        sums = np.sum([expert["fits"] for expert in layer], axis=0)
        np.testing.assert_array_equal(sums, 2 * np.array(facts["all"]["fits"]))
    again = router_view.measure(model, tokenizer, ids[: 128 * 40])
    for layer, some in zip(facts["experts"], again["experts"], strict=True):
        shares = np.array([expert["n"] for expert in layer]) / N
        np.testing.assert_allclose([expert["n"] / (128 * 40) for expert in some], shares, atol=0.06)
    first = router_view.measure(model, tokenizer, ids[:1024])
    for layer, counted in zip(few, first["experts"], strict=True):
        for e, expert in enumerate(counted):
            taken = [HELD_OUT[t] for t in np.flatnonzero((layer == e).any(axis=-1))]
            assert expert["n"] == len(taken)
            for character, n in expert["frequent"]:
                assert taken.count(character) == n
            assert expert["fits"][RULES.index("spaces")] == taken.count(" ")


def test_the_rules_by_hand():
    found = fits("KING:\nAh, my")
    expected = {
        "vowels": " I    A     ",
        "consonants": "K NG   h  my",
        "capital letters": "KING  A     ",
        "punctuation marks": "    :   ,   ",
        "the first letter of a word": "K     A   m ",
        "the last letter of a word": "   G   h   y",
        "inside a word": " IN         ",
        "in a name in capitals": "KING        ",
        "right after a vowel": "  N    h    ",
        "right after a consonant": " I G:   ,  y",
        "right after a space": "          m ",
    }
    for name, letters in expected.items():
        shown = "".join(c if fit else " " for c, fit in zip("KING:\nAh, my", found[name], strict=True))
        assert shown == letters, name
    assert np.flatnonzero(found["spaces"]).tolist() == [9]
    assert np.flatnonzero(found["line breaks"]).tolist() == [5]
    assert np.flatnonzero(found["right after a punctuation mark"]).tolist() == [5, 9]
    assert np.flatnonzero(found["among the first five of a line"]).tolist() == [6, 7, 8, 9, 10]


def test_a_guess_is_tested_as_by_hand(call):
    facts = stored_facts()
    cases = [(block, expert, rule) for block, expert in PAIRS for rule in RULES]
    found = call.each("router_view", "tested", [[facts, *case] for case in cases])
    for (block, expert, rule), here in zip(cases, found, strict=True):
        i, own, every = RULES.index(rule), facts["experts"][block][expert], facts["all"]
        n, N, share = own["n"], every["n"], every["fits"][i] / every["n"]
        assert here["own"] == pytest.approx(own["fits"][i] / n)
        assert here["all"] == pytest.approx(share)
        assert here["taken"] == pytest.approx(own["fits"][i] / every["fits"][i])
        assert here["spread"] == pytest.approx(2 * np.sqrt(share * (1 - share) / n * (N - n) / (N - 1)))
    assert call("router_view", "tested", facts, 0, -1, "vowels") is None
    assert call("router_view", "tested", facts, 0, 1, "") is None


def test_a_random_expert_is_as_far_from_all_as_is_said():
    vowels = fits(HELD_OUT)["vowels"]
    n, N, p = 14_000, len(vowels), vowels.mean()
    generator = np.random.default_rng(0)
    shares = [vowels[generator.choice(N, n, replace=False)].mean() for _ in range(200)]
    assert np.std(shares) == pytest.approx(np.sqrt(p * (1 - p) / n * (N - n) / (N - 1)), rel=0.15)


# --- what is seen ---


def test_the_first_picture_needs_no_weights(mount):
    w = mount(RouterView())
    check(w)
    assert w.says.startswith("Block 0 sends “")
    w.press("2", "Space")
    w.root.locator(".gf-asks").focus()
    w.page.keyboard.press("End")
    check(w)
    assert w.saved() == {"block": 2, "position": len(w.widget.text) - 1}
    assert w.page.evaluate("window.asked") is None
    w.root.locator(".gf-character").nth(3).tap()
    assert w.get("position") == 3
    w.root.locator(".gf-character").nth(5).hover()
    assert w.get("position") == 5
    chosen, shares = (array[2, 5] for array in routes_of(w.widget))
    assert (
        f"to expert {chosen[0]} (weight {shares[0]:.2f}) and expert {chosen[1]} (weight {shares[1]:.2f})"
        in w.says
    )


def test_any_text_is_read_in_the_page(mount):
    w = mount(RouterView())
    for text in (A_LINE, HELD_OUT[:300]):
        w.control("Your text").fill(text)
        w.rest()
        check(w)
        assert w.root.locator(".gf-character").count() == min(len(text), 128)
    w.root.get_by_role("button", name="Expert 5").press("Enter")
    check(w)
    w.press("3", "Space")
    check(w)
    assert w.saved().items() >= {"expert": 5, "block": 3, "text": HELD_OUT[:300]}.items()
    w.control("Your text").fill(RouterView().text)
    w.rest()
    check(w)


def test_a_guess_is_made_tested_and_forgotten(mount):
    w = mount(RouterView(block=1))
    guess, test = w.root.get_by_role("combobox"), w.root.locator(".gf-router-test .gf-bar-number")
    assert guess.is_hidden()
    w.root.get_by_role("button", name="Expert 3").tap()
    assert test.first.is_hidden()
    guess.select_option("right after a vowel")
    facts = stored_facts()
    own, i = facts["experts"][1][3], RULES.index("right after a vowel")
    share, base = 100 * own["fits"][i] / own["n"], 100 * facts["all"]["fits"][i] / facts["all"]["n"]
    assert test.all_inner_texts() == [f"{share:.1f} %", f"{base:.1f} %"]
    expected = rf"expert 3 of block 1 takes, {share:.1f} % are right after a vowel; of a random expert’s, {base:.1f} ± "
    assert re.search(expected, w.says)
    frequent, tested = w.tables()[2:]
    assert [row[1] for row in frequent[1:]] == [f"{100 * n / own['n']:.1f}" for _, n in own["frequent"]]
    assert [row[1] for row in tested[1:3]] == [f"{share:.1f}", f"{base:.1f}"]
    w.root.get_by_role("button", name="Expert 4").press("Enter")
    assert w.saved() == {"expert": 4, "guess": ""}
    guess.select_option("vowels")
    w.press("3", "Space")
    assert w.saved() == {"block": 3, "expert": 4, "guess": ""}
    w.root.get_by_role("button", name="All experts").press("Enter")
    assert guess.is_hidden()


@pytest.mark.parametrize(("own", "words"), [(0.5, "2.5 times"), (0.1, "takes fewer"), (0.205, "no better")])
def test_the_verdict_is_about_chance(call, own, words):
    found = {"own": own, "all": 0.2, "spread": 0.01}
    where = {"block": 0, "expert": 1, "guess": "vowels"}
    assert words in call("router_view", "testSentence", found, where)


def test_a_model_of_ones_own_has_no_counts(mount):
    model, tokenizer = shipped.load("experts")
    model.load_state_dict({name: array[..., ::-1].copy() for name, array in model.state_dict().items()})
    w = mount(RouterView(model, tokenizer=tokenizer, block=1))
    check(w)
    assert w.root.get_by_role("combobox").is_hidden()
    w.root.get_by_role("button", name="Expert 2").press("Enter")
    check(w)
    w.control("Your text").fill(A_LINE)
    w.rest()
    check(w)
