"""Tests ClockHands: the hands point where `scratch` says, and the angle of a step does not depend on the position."""

import numpy as np
import pytest

from glassformer.scratch import rotation_angles, sinusoidal
from glassformer.widgets import ClockHands

STATES = [
    {},
    {"position": 0, "step": 0},
    {"position": 3, "step": -20},
    {"position": 200, "step": 20, "d_model": 16},
    {"position": 60, "step": 1, "d_model": 4, "base": 10},
    {"position": 7, "step": -1, "d_model": 6, "base": 1e6},
]


def angles(w, position):
    (found,) = rotation_angles(np.array([position]), w.d_model, base=w.base)
    return found


def pairs(w, position):
    """Returns (D/2, 2): the two numbers of each hand."""
    return sinusoidal(np.array([position]), w.d_model, base=w.base).reshape(-1, 2)


def number(text):
    return float(text.replace("−", "-").replace(",", "").replace("+", ""))


@pytest.mark.parametrize("state", STATES, ids=str)
def test_hands_captions_and_numbers_are_those_of_scratch(mount, state):
    w = ClockHands(**state)
    view = mount(w)
    now, turns = pairs(w, w.position), angles(w, w.step)
    then = pairs(w, w.position + w.step)

    # The tips are sin to the right of the centre and cos above it; the shadows have these two lengths.
    faces = view.root.locator("svg.gf-clock").evaluate_all(
        """faces => faces.map((face) => {
          const ends = ["x1", "y1", "x2", "y2"];
          const line = (name) => ends.map((a) => +face.querySelector(name)?.getAttribute(a));
          return { hand: line(".gf-hand:not(.gf-ghost)"), ghost: line(".gf-ghost"), sin: line(".gf-sin"),
                   cos: line(".gf-cos"), r: +face.querySelector(".gf-dial").getAttribute("r") };
        })"""
    )
    for face, (sin, cos), later in zip(faces, now, then, strict=True):
        tips = {"hand": (sin, cos), "ghost": later, "sin": (sin, 0), "cos": (0, cos)}
        if w.step == 0:
            del tips["ghost"]
            assert np.isnan(face["ghost"]).all()  # there is none
        for name, tip in tips.items():
            x1, y1, x2, y2 = face[name]
            assert [(x2 - x1) / face["r"], (y1 - y2) / face["r"]] == pytest.approx(tip, abs=0.0002)

    names = [f"Hand {i}: sine {s:.2f}, cosine {c:.2f}." for i, (s, c) in enumerate(now)]
    label = f"{len(now)} clocks for position {w.position}. {' '.join(names)}"
    assert view.label == label.replace("-0.00", "0.00").replace("-", "−")
    cards = view.root.locator(".gf-clock-card").all_inner_texts()
    for text, (sin, cos), turn in zip(cards, now, turns, strict=True):
        lines = text.split("\n")
        assert number(next(t for t in lines if t.startswith("sin "))[4:]) == pytest.approx(sin, abs=0.005001)
        assert number(next(t for t in lines if t.startswith("cos "))[4:]) == pytest.approx(cos, abs=0.005001)
        assert number(lines[-1].split()[1]) == pytest.approx(turn, rel=0.05, abs=0.005001)

    header, *rows = view.table()
    assert header == [
        "Hand",
        "Dimensions",
        "Radians per position",
        "Wavelength (positions)",
        "Angle (rad)",
        "sin",
        "cos",
        "Turn in n steps (rad)",
        "sin at p + n",
        "cos at p + n",
    ]
    assert [row[:2] for row in rows] == [[str(i), f"{2 * i}, {2 * i + 1}"] for i in range(w.d_model // 2)]
    theta = angles(w, 1)
    rounding = [5.01e-7, 0.00501, *[5.01e-5] * 6]
    expected = [theta, 2 * np.pi / theta, angles(w, w.position), *now.T, turns, *then.T]
    columns = np.array([[number(cell) for cell in row[2:]] for row in rows]).T
    for column, values, within in zip(columns, expected, rounding, strict=True):
        np.testing.assert_allclose(column, values, rtol=0, atol=within)


def test_what_it_says(mount):
    view = mount(ClockHands(position=3, step=2))
    assert view.says == (
        "At position 3, hand 0 has turned by 3.00 rad (172°) and hand 3, the slowest, by 0.0030 rad (0.17°). "
        "Moving on by 2 positions turns them by 2.00 rad (115°) and 0.0020 rad (0.11°), "
        "from here or from anywhere else."
    )
    view.set(step=-20)
    assert view.says.endswith(
        "Going back by 20 positions turns them by −20.00 rad (−1146°) and −0.020 rad (−1.1°), "
        "from here or from anywhere else."
    )
    view.set(step=0)
    assert view.says.endswith("With step 0 there is no turn to compare.")


def test_full_turns_can_be_counted(mount):
    """The arc from a hand to its dashed hand is as long as the angle, so 20 rad goes round more than three times."""
    view = mount(ClockHands(position=0, step=20))
    path = view.root.locator(".gf-turn").first.get_attribute("d")
    dial = view.root.locator(".gf-dial").first
    middle = [float(dial.get_attribute(c)) for c in ("cx", "cy")]
    points = np.array([p.split() for p in path.removeprefix("M").split("L")], float) - middle
    travelled = np.unwrap(np.arctan2(points[:, 0], -points[:, 1]))
    assert travelled[-1] - travelled[0] == pytest.approx(20, abs=0.001)


def test_by_keyboard(mount):
    view = mount(ClockHands())
    for label, key, trait, value in [
        ("Position p", "ArrowRight", "position", 21),
        ("Step n", "Home", "step", -20),
        ("Dimensions D", "End", "d_model", 16),
        ("Base", "ArrowLeft", "base", 8910),
    ]:
        before = view.says
        view.press(label, key)
        assert view.get(trait) == value
        assert view.saved()[trait] == value == getattr(view.widget, trait)
        assert view.says != before
        assert number(view.table()[1][5]) == pytest.approx(np.sin(view.widget.position), abs=5.01e-5)
    assert len(view.table()) == 1 + 8
    assert view.control("Step n").get_attribute("aria-valuetext") == "−20"
