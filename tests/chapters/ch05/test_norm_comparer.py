"""Tests NormComparer: its four norms equal those of `scratch` and torch, and it shows what each norm ignores."""

import math
import re

import numpy as np
import pytest
import torch

from glassformer.chapters.ch05.norm_comparer import EPS, NORMS, NormComparer

NEARLY_EQUAL = [3.002, 2.999, 3.0, 3.001, 2.998, 3.0]
VECTORS = [
    [1.0, 0.0, 0.0, 0.0],
    NEARLY_EQUAL,
    [101.0, 98.0, 103.0, 99.0, 100.0, 102.0],
    [-0.4, 2.5],
    [0.3, -1.2, 2.2, 0.0, 1e6, -3.5, 1.5, 1.0],
    [0.0, 0.0, 0.0],
]


def by_torch(x, eps):
    """Returns the four norms without any function of the package."""
    x = torch.tensor(x, dtype=torch.float64)
    D, centred = [len(x)], x - x.mean()
    return {
        "layer": torch.nn.functional.layer_norm(x, D, eps=eps),
        "sigma": centred / (x.std(correction=0) + eps),
        "unbiased": centred / torch.sqrt(x.var(correction=1) + eps),
        "rms": torch.nn.functional.rms_norm(x, D, eps=eps),
    }


# --- the numbers ------------------------------------------------------------------------------------------


def test_three_computations_agree(call):
    states = [{"x": x, "eps": eps} for x in VECTORS for eps in EPS]
    for state, drawn in zip(
        states, call.each("norm_comparer", "compute", [[each] for each in states]), strict=True
    ):
        python, right = NormComparer(**state).computed(), by_torch(**state)
        assert tuple(python) == NORMS
        for name in NORMS:
            np.testing.assert_allclose(python[name], right[name], rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(drawn[name]["out"], right[name], rtol=1e-8, atol=1e-9)
            numbers = np.array(state["x"]) - drawn[name]["minus"]
            np.testing.assert_allclose(numbers / drawn[name]["by"], right[name], rtol=1e-8, atol=1e-9)


def test_how_far_apart_the_lookalikes_are():
    """On [1, 0, 0, 0] the variance's divisor makes a difference; on nearly equal numbers, the position of ε does."""
    lively, flat = (NormComparer(x=x).computed() for x in ([1.0, 0.0, 0.0, 0.0], NEARLY_EQUAL))
    np.testing.assert_allclose(lively["layer"][0], math.sqrt(3), rtol=1e-4)
    np.testing.assert_allclose(lively["sigma"][0], math.sqrt(3), rtol=1e-4)
    np.testing.assert_allclose(lively["unbiased"][0], 1.5, rtol=1e-4)
    np.testing.assert_allclose(lively["rms"], [2, 0, 0, 0], rtol=1e-4)
    variance = 1e-5 / 6
    np.testing.assert_allclose(flat["layer"][0], 0.002 / math.sqrt(variance + 1e-5))
    np.testing.assert_allclose(flat["sigma"][0], 0.002 / (math.sqrt(variance) + 1e-5))
    assert flat["sigma"][0] > 2.5 * flat["layer"][0] > 2.5 * flat["unbiased"][0]


@pytest.mark.parametrize(
    ("before", "x", "found"),
    [
        ([1, 2, 4], [11, 12, 14], {"added": 10}),
        ([1, 2, 4], [-9, -8, -6], {"added": -10}),
        ([1, 2, 4], [10, 20, 40], {"times": 10}),
        ([0, 2, 4], [0, 0.2, 0.4], {"times": 0.1}),
        ([0.1, 0.7, -2.3], [10.1, 10.7, 7.7], {"added": 10}),
        ([1, 2, 4], [1, 2, 5], {}),
        ([1, 2, 4], [1, 2], {}),
        ([], [1, 2], {}),
    ],
)
def test_what_was_done_to_all_is_told_from_the_numbers(call, before, x, found):
    assert call("norm_comparer", "done", before, x) == found


# --- what is seen -----------------------------------------------------------------------------------------


def grid(w):
    """Returns {norm: its column} as drawn."""
    w.settle()
    cells = [float(text.replace("−", "-")) for text in w.root.locator(".gf-normed-value").all_inner_texts()]
    return dict(zip(NORMS, np.reshape(cells, (-1, 4)).T, strict=True))


def check(w):
    state = {"x": w.get("x"), "eps": w.get("eps")}
    right = by_torch(**state)
    for name, column in grid(w).items():
        np.testing.assert_allclose(column, right[name], atol=0.000501, err_msg=name)
    apart = {name: (right[name] - right["layer"]).abs() for name in NORMS}
    most = {name: (apart[name].max().item(), apart[name].argmax().item()) for name in NORMS}
    cells = w.root.locator(".gf-normed").evaluate_all(
        "all => all.map((e) => [e.classList.contains('gf-apart'), e.classList.contains('gf-ringed')])"
    )
    bold, ringed = np.reshape(cells, (-1, 4, 2)).transpose(2, 0, 1)
    np.testing.assert_array_equal(bold, torch.stack([apart[name] >= 5e-4 for name in NORMS], dim=1))
    rings = {(at, NORMS.index(name)) for name, (by, at) in most.items() if by >= 5e-4}
    assert set(zip(*np.nonzero(ringed), strict=True)) == rings
    names = {
        "layer": "LayerNorm",
        "sigma": "the version with ε outside",
        "unbiased": "the version with D − 1",
        "rms": "RMSNorm",
    }
    farthest = max(NORMS[1:], key=lambda name: most[name][0])
    by, at = most[farthest]
    if not w.says.startswith("You "):  # about a change of all numbers
        first = names[farthest][0].upper() + names[farthest][1:]
        assert w.says.startswith(f"{first} is farthest from LayerNorm, by ")
        assert float(re.search(r"by (?:only )?([\d.e−]+\d)", w.says)[1].replace("−", "-")) == pytest.approx(
            by, abs=5.01e-4, rel=0.06
        )
        assert (f" at feature {at}." in w.says) == (by >= 5e-4)
        if by >= 5e-4:
            agree = [names[name] for name in NORMS[1:] if most[name][0] < 5e-4]
            said = re.search(r"\. (.+) agrees? with LayerNorm to three decimals\.$", w.says)
            listed = said[1].replace("The version", "the version") if said else ""
            assert re.split(" and |, ", listed) == (agree or [""])
    far = w.tables()[1][3][1:]
    np.testing.assert_allclose(
        [float(text.replace("−", "-")) for text in far],
        [most[name][0] for name in NORMS],
        atol=5.01e-4,
        rtol=0.06,
    )


def foot(w, name):
    """Returns what a line below the columns says about each norm."""
    w.settle()
    cells = w.root.locator(".gf-foot").all_inner_texts()
    return cells[(i := cells.index(name)) + 1 : i + 5]


def press(w, name):
    w.root.get_by_role("button", name=name, exact=True).press("Enter")
    w.settle()


def test_by_keyboard(mount):
    w = mount(NormComparer())
    assert w.says == (
        "RMSNorm is farthest from LayerNorm, by 0.577 at feature 1. "
        "The version with ε outside agrees with LayerNorm to three decimals."
    )
    assert foot(w, "minus") == ["0.25", "0.25", "0.25", "nothing"]
    assert foot(w, "divided by") == ["0.433", "0.433", "0.5", "0.5"]
    assert foot(w, "changed by") == ["–"] * 4
    check(w)
    w.control("feature 0").fill("-2.5")
    assert w.saved() == {"before": [], "x": [-2.5, 0, 0, 0]}
    check(w)
    w.control("feature 0").fill("")  # being typed
    w.settle()
    assert w.get("x") == [-2.5, 0, 0, 0]
    press(w, "Nearly equal")
    assert w.saved()["x"] == NEARLY_EQUAL
    check(w)
    w.press("ε", *["ArrowLeft"] * 4)
    assert w.saved()["eps"] == 1e-9
    check(w)
    w.press("ε", "End")
    assert w.saved()["eps"] == 0.01
    check(w)
    table, how = w.tables()
    numbers = [[float(text.replace("−", "-")) for text in row] for row in table[1:]]
    columns = [*by_torch(NEARLY_EQUAL, 0.01).values()]
    right = np.stack([np.arange(6), NEARLY_EQUAL, *columns], axis=1)
    np.testing.assert_allclose(numbers, right, atol=5.1e-7)
    assert float(how[2][1]) == pytest.approx(math.sqrt(1e-5 / 6 + 0.01), rel=1e-6)


def test_which_norms_react(mount):
    w = mount(NormComparer(x=[0.5, -1.25, 2.0, 0.25]))
    press(w, "+ 10")
    assert w.saved() == {"before": [0.5, -1.25, 2.0, 0.25], "x": [10.5, 8.75, 12.0, 10.25]}
    was, now = (by_torch(w.get(name), 1e-5) for name in ("before", "x"))
    moved = f"{(now['rms'] - was['rms']).abs().max():.3f}"
    assert w.says == f"You added 10 to all numbers. Only RMSNorm changed, by at most {moved}."
    assert foot(w, "changed by") == ["0", "0", "0", moved]
    marks = w.root.locator(".gf-normed-was").evaluate_all("all => all.map((e) => e.style.left)")
    places = [50 + 50 * was[name][i].item() / 2 for i in range(4) for name in NORMS]
    np.testing.assert_allclose([float(mark.rstrip("%")) for mark in marks], places, atol=0.0051)
    press(w, "− 10")
    press(w, "× 10")
    assert w.saved()["x"] == [5.0, -12.5, 20.0, 2.5]
    assert w.says.startswith("You multiplied all numbers by 10. All four outputs changed, by at most ")
    assert w.says.endswith(". The reason is ε.")
    check(w)
    for _ in range(4):
        press(w, "× 10")
    assert w.saved()["x"] == [50_000, -125_000, 200_000, 25_000]
    assert w.root.get_by_role("button", name="× 10").is_disabled()
    press(w, "Random")
    state = w.saved()
    assert len(state["x"]) == 6
    assert state["before"] == []
    assert state["drawn"] == 2
    press(w, "Random")
    assert w.saved()["x"] != state["x"]
    check(w)


def test_all_zero_and_all_equal(mount):
    w = mount(NormComparer(x=[0.0, 0.0, 0.0]))
    assert w.says == "All four norms give the same result."
    w.set(x=[2.0, 2.0, 2.0])
    assert w.says.startswith("RMSNorm is farthest from LayerNorm, by 1.000 at feature 0.")


def test_another_length_forgets_what_was_before():
    widget = NormComparer(before=[0.0, 1.0, 2.0, 3.0])
    widget.x = [1.0, 2.0]
    assert widget.before == []
