"""Tests HeadGradients: values and gradients equal those of `scratch` and torch; outlines show dependencies."""

import itertools
import re

import numpy as np
import pytest
import torch

from glassformer.chapters.ch09.head_gradients import KINDS, RAISED, K, T
from glassformer.widgets import HeadGradients

EXACT = {"rtol": 0, "atol": 1e-12}
TRAITS = ("q", "k", "v", "mask", "raised")


def drawn(seed):
    rng = np.random.default_rng(seed)
    return dict(zip("qkv", rng.uniform(-3, 3, (3, T, K)).round(2).tolist(), strict=True))


def state(widget):
    return {name: getattr(widget, name) for name in TRAITS}


def numbers(found):
    """Returns what the page computes, as arrays; −∞ stays −∞."""
    return {kind: np.array(rows, dtype=float) for kind, rows in found.items()}


def shown(text):
    return -np.inf if text == "−∞" else float(text.replace("−", "-"))


SETTINGS = [
    HeadGradients(mask=mask, raised=raised, **({} if seed is None else drawn(seed)))
    for (mask, raised), seed in itertools.product(
        [(True, "all"), (True, "3 0"), (False, "1 2"), (False, "all")], [None, 0]
    )
]


# --- the numbers ------------------------------------------------------------------------------------------


def test_both_languages_compute_what_torch_computes(call):
    for widget, page in zip(
        SETTINGS, call.each("head_gradients", "compute", [[state(w)] for w in SETTINGS]), strict=True
    ):
        page, python = numbers(page), widget.computed()._asdict()
        q, k, v = (
            torch.tensor(getattr(widget, name), dtype=torch.float64, requires_grad=True) for name in "qkv"
        )
        scores = q @ k.T / K**0.5
        if widget.mask:
            scores = scores.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -torch.inf)
        weights = scores.softmax(-1)
        outputs = weights @ v
        for each in (scores, weights, outputs):
            each.retain_grad()
        raised = outputs.sum() if widget.raised == "all" else outputs[tuple(map(int, widget.raised.split()))]
        raised.backward()
        theirs = {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "outputs": outputs}
        assert page.keys() == KINDS.keys()
        for kind, right in theirs.items():
            np.testing.assert_allclose(page[kind], right.detach(), **EXACT)
            np.testing.assert_allclose(page[f"grad_{kind}"], right.grad, **EXACT)
        for kind, right in python.items():
            np.testing.assert_allclose(page[kind], right, **EXACT)


def test_a_masked_score_has_no_gradient_at_all(call):
    for raised in RAISED:
        found = numbers(call("head_gradients", "compute", state(HeadGradients(raised=raised))))
        assert not found["grad_scores"][np.triu_indices(T, 1)].any()
        assert abs(found["grad_scores"].sum(axis=1)).max() < 1e-12


def test_what_a_number_is_made_of_is_what_it_hangs_on(call):
    """Changing an outlined number has an effect on the chosen one; changing any other number has none."""
    rng = np.random.default_rng(1)
    begun = {kind: rng.uniform(0.5, 2, (T, size)) for kind, size in KINDS.items()}

    def made(kind, of):
        weights, ds, dw, up = of["weights"], of["grad_scores"], of["grad_weights"], of["grad_outputs"]
        return {
            "scores": lambda: of["q"] @ of["k"].T,
            "weights": lambda: np.exp(of["scores"]) / np.exp(of["scores"]).sum(1, keepdims=True),
            "outputs": lambda: weights @ of["v"],
            "grad_v": lambda: weights.T @ up,
            "grad_weights": lambda: up @ of["v"].T,
            "grad_scores": lambda: weights * (dw - (weights * dw).sum(1, keepdims=True)),
            "grad_q": lambda: ds @ of["k"],
            "grad_k": lambda: ds.T @ of["q"],
        }[kind]()

    cells = [(kind, r, c) for kind, size in KINDS.items() for r in range(T) for c in range(size)]
    parts = dict(
        zip(cells, call.each("head_gradients", "madeOf", [[list(each)] for each in cells]), strict=True)
    )

    def said(whole, part):
        return any(
            part[0] == kind and row in (None, part[1]) and column in (None, part[2])
            for kind, row, column in parts[whole]
        )

    given = {"q", "k", "v", "grad_outputs"}
    for kind, part in itertools.product(KINDS.keys() - given, cells):
        moved = {name: rows.copy() for name, rows in begun.items()}
        moved[part[0]][part[1:]] += 0.25
        hangs = made(kind, moved) != made(kind, begun)
        assert hangs.tolist() == [[said((kind, r, c), part) for c in range(KINDS[kind])] for r in range(T)]
    assert not any(parts[whole] for whole in cells if whole[0] in given)


# --- what is seen -----------------------------------------------------------------------------------------


def cell(w, kind, row, column):
    """Returns one number on the page."""
    of = kind.removeprefix("grad_")
    inside = w.root.locator(f".gf-head-{of}").locator(".gf-number, .gf-result")
    return inside.nth(2 * KINDS[of] * row + (KINDS[of] if kind != of else 0) + column)


def check(w):
    right = {name: getattr(w.widget, name) for name in "qkv"} | w.widget.computed()._asdict()
    for (kind, size), rows in zip(SHOWN.items(), w.tables(), strict=True):
        seen = [[shown(x) for x in row[1 : 1 + size]] for row in rows[1:]]
        np.testing.assert_allclose(seen, right[kind], rtol=0, atol=5.1e-5)


SHOWN = {
    name: KINDS[name] for of in ("q", "scores", "k", "weights", "v", "outputs") for name in (of, f"grad_{of}")
}


def test_it_answers_the_keyboard_with_what_python_computes(mount):
    w = mount(HeadGradients())
    assert w.root.locator(".gf-result[tabindex='0']").count() == 9
    check(w)
    w.control("Raise").select_option(str(RAISED.index("1 2")))
    w.press("Causal mask", "Space")
    w.press("key of “horse”, number 1", "ArrowUp", "ArrowUp")
    assert w.saved()["raised"] == "1 2"
    assert w.widget.mask is False
    assert w.widget.k[2][1] == pytest.approx(HeadGradients().k[2][1] + 0.2)
    assert w.widget.cell == ["k", 2, 1]
    check(w)
    slope = w.widget.computed().grad_k[2, 1]
    assert f"Its gradient is {slope:.3f}".replace("-", "−") in w.says
    assert f"by about {abs(slope) / 10:.3f}" in w.says

    cell(w, "grad_scores", 0, 0).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved()["cell"] == ["grad_scores", 2, 0]
    assert w.root.locator(".gf-result[tabindex='0']").count() == 9

    lit, reached = [], []
    for kind, size in KINDS.items():
        for r, c in itertools.product(range(T), range(size)):
            classes = cell(w, kind, r, c).get_attribute("class").split()
            lit += [(kind, r)] * ("gf-lit" in classes)
            reached += [(kind, r, c)] * ("gf-reached" in classes)
    assert lit == [("weights", 2)] * T + [("grad_weights", 2)] * T
    assert reached == [("grad_q", 2, c) for c in range(K)] + [("grad_k", 0, c) for c in range(K)]

    w.root.get_by_text("Restore the numbers").press("Enter")
    w.saved()
    assert w.widget.k == HeadGradients().k


def test_the_arithmetic_said_of_a_number_gives_the_number(call):
    for widget in SETTINGS[:6]:
        found = call("head_gradients", "compute", state(widget))
        values = numbers(found)
        cells = [(kind, r, c) for kind, size in KINDS.items() for r in range(T) for c in range(size)]
        lines = call.each(
            "head_gradients", "sentence", [[state(widget) | {"cell": list(each)}, found] for each in cells]
        )
        for (kind, r, c), said in zip(cells, lines, strict=True):
            value = values[kind][r, c]
            if kind in ("q", "k", "v", "grad_outputs"):
                assert shown(re.search(r": (−?[\d.]+\d|\d)\.", said)[1]) == pytest.approx(value, abs=1e-9)
            elif value == -np.inf:
                assert said.endswith("the mask makes it −∞.")
            elif kind in ("weights", "grad_scores") and widget.mask and c > r:
                assert "0" in said
                assert value == 0
            else:
                told = re.search(r"(?:= |√3 |which is )(−?[\d.]+\d)\.(?: |$)", said)
                assert shown(told[1]) == pytest.approx(value, abs=0.00501), said


TOO_WIDE = """cells => cells.filter(cell => {
  const text = document.createRange();
  text.selectNodeContents(cell);
  return text.getBoundingClientRect().width > cell.clientWidth;
}).map(cell => cell.textContent)"""
EXTREME = [[-3.0, 2.9, -3.0]] * T


@pytest.mark.parametrize("numbers", [drawn(3), {"q": EXTREME, "k": EXTREME[::-1], "v": EXTREME}])
def test_every_number_fits_its_cell(mount, shoot, numbers):
    w = mount(HeadGradients(raised="all", **numbers))
    for width in (900, 720, 390, 360):
        w.page.set_viewport_size({"width": width, "height": 900})
        w.settle()
        shoot(f"headgradients-{numbers['q'][0][0]}-{width}")
        assert w.root.locator(".gf-result").evaluate_all(TOO_WIDE) == []


NEAR_0 = """cells => cells.filter(cell => Math.abs(Number(cell.textContent.replace("−", "-"))) < 0.1)
  .map(cell => getComputedStyle(cell).backgroundColor)"""


def test_a_number_near_0_does_not_glare_on_a_dark_page(mount):
    w = mount(HeadGradients(raised="all", **drawn(3)))
    w.theme("dark")
    colours = w.root.locator(".gf-result").evaluate_all(NEAR_0)
    assert len(colours) > 20
    for colour in colours:  # "rgb(27, 31, 36)", or a mixture, "color(srgb 0.11 0.12 0.14)"
        unit = 255 if colour.startswith("rgb") else 1
        assert max(map(float, re.findall(r"[\d.]+", colour)[:3])) < 0.5 * unit


def test_each_view_has_tables_of_its_own():
    first = HeadGradients()
    begun = [rows[0][0] for rows in (first.q, first.k, first.v)]
    for rows in (first.q, first.k, first.v):
        rows[0][0] += 1
    second = HeadGradients()
    assert [rows[0][0] for rows in (second.q, second.k, second.v)] == begun
