"""PositionHeatmap: what it draws and says is what glassformer.scratch computes."""

import re

import numpy as np
import pytest
from traitlets import TraitError

from glassformer import figures
from glassformer.scratch import sinusoidal
from glassformer.widgets import PositionHeatmap

COLOURS = figures.SIGNED.resampled(2**16)  # without the 256 steps of the original

STATES = [
    {},
    {"row": 0},
    {"row": 127},
    {"n_positions": 1024, "base": 100, "row": 600},
    {"n_positions": 1024, "base": 100, "row": 600, "d_model": 8},
    {"n_positions": 16, "d_model": 4, "base": 20, "row": 0},
    {"n_positions": 512, "d_model": 128, "base": 1e6, "row": 200},
]


def computed(w):
    """The table, the similarity of the chosen row to each, and the slowest wavelength."""
    table = sinusoidal(np.arange(w.n_positions), w.d_model, base=w.base)
    similarity = table @ table[w.row] / (w.d_model / 2)
    return table, similarity, 2 * np.pi * w.base ** ((w.d_model - 2) / w.d_model)


def number(x, digits):
    return f"{x:.{digits}f}".replace("-", "−")


def sentence(w):
    table, similarity, slowest = computed(w)
    row, last = w.row, w.n_positions - 1
    near = {0: "row 1", last: f"row {last - 1}"}.get(row, f"rows {row - 1} and {row + 1}")
    step = table[0] @ table[1] / (w.d_model / 2)
    start = f"Row {row} is like {near} (similarity {number(step, 3)}). The slowest wave repeats "
    distance = np.abs(np.arange(w.n_positions) - row)
    far = np.flatnonzero(distance > slowest / 2)
    if not len(far):
        return (
            f"{start}only every {round(slowest):,} positions: "
            "no row of this table is so far away that it could look near again."
        )
    twin = far[
        similarity[far].round(12).argmax()
    ]  # rounded, so that of two at the same distance the first wins
    start += f"every {round(slowest):,} positions, so far rows come back: "
    start += f"row {twin}, {distance[twin]} away ({number(similarity[twin], 3)}), "
    closer = np.flatnonzero((distance < distance[twin]) & (similarity < similarity[twin] - 1e-12))
    if not len(closer):
        return f"{start}is the likest of those beyond half a wave."
    out = closer[distance[closer].argmin()]
    return f"{start}looks nearer than row {out}, only {distance[out]} away ({number(similarity[out], 3)})."


@pytest.mark.parametrize("state", STATES, ids=str)
def test_it_says_what_is_so(mount, state):
    w = PositionHeatmap(**state)
    view = mount(w)
    assert view.says == sentence(w)
    assert view.label == (
        f"Heatmap of sinusoidal positions, {w.n_positions} positions by {w.d_model} dimensions, "
        f"base {w.base:,.0f}. {sentence(w)}"
    )


def test_the_chapters_question_has_the_answer_that_the_chapter_gives(mount):
    view = mount(PositionHeatmap(n_positions=1024, base=100, row=600))
    assert view.says == (
        "Row 600 is like rows 599 and 601 (similarity 0.940). The slowest wave repeats every 544 positions, "
        "so far rows come back: row 98, 502 away (0.271), looks nearer than row 585, only 15 away (0.267)."
    )


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_numbers(mount, state):
    w = PositionHeatmap(**state)
    table, similarity, _ = computed(w)
    row, curve = mount(w).tables()
    waves = 2 * np.pi * w.base ** (np.arange(0, w.d_model, 2) / w.d_model)
    assert row[0] == ["Dimension", "Wave", "Wavelength (positions)", "Value"]
    assert [r[0] for r in row[1:]] == [str(i) for i in range(w.d_model)]
    assert [r[1] for r in row[1:]] == ["sine", "cosine"] * (w.d_model // 2)
    shown = [float(r[2].replace(",", "")) for r in row[1:]]
    np.testing.assert_allclose(shown, waves.repeat(2), rtol=0, atol=0.00501)
    shown = [float(r[3].replace("−", "-")) for r in row[1:]]
    np.testing.assert_allclose(shown, table[w.row], rtol=0, atol=0.0000501)
    assert curve[0] == ["Position", "Similarity"]
    assert [r[0] for r in curve[1:]] == [str(p) for p in range(w.n_positions)]
    shown = [float(r[1].replace("−", "-")) for r in curve[1:]]
    np.testing.assert_allclose(shown, similarity, rtol=0, atol=0.0000501)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_curve_and_the_bars(mount, state):
    w = PositionHeatmap(**state)
    table, similarity, _ = computed(w)
    view = mount(w)
    points = np.array(
        re.findall(r"(-?[\d.]+) (-?[\d.]+)", view.root.locator(".gf-curve").get_attribute("d")), float
    )
    dot = view.root.locator(".gf-dot")
    one, at_row = (float(dot.get_attribute(c)) for c in ("cx", "cy"))
    canvas = view.root.locator("canvas").bounding_box()
    over = view.root.locator("svg").bounding_box()
    zero = float(view.root.locator("line.gf-axis[x1]").first.get_attribute("x1"))
    np.testing.assert_allclose((points[:, 0] - zero) / (one - zero), similarity, rtol=0, atol=0.0002)
    down = canvas["y"] - over["y"] + (np.arange(w.n_positions) + 0.5) / w.n_positions * canvas["height"]
    np.testing.assert_allclose(points[:, 1], down, rtol=0, atol=0.006)
    assert at_row == pytest.approx(down[w.row])
    assert canvas["width"] < 2 * zero - one < one < over["width"]  # from −1 to 1, right of the table

    bars = view.root.locator(".gf-bar").evaluate_all(
        "rects => rects.map(r => ['x', 'y', 'width', 'height'].map(a => +r.getAttribute(a)))"
    )
    x, y, width, height = np.array(bars).T
    axis = (y + height)[table[w.row] > 0].max()  # positive bars stand on it
    np.testing.assert_allclose(
        np.where(table[w.row] > 0, axis - y, axis - y - height) / 38, table[w.row], atol=1e-9
    )
    middles = canvas["x"] - over["x"] + (np.arange(w.d_model) + 0.5) / w.d_model * canvas["width"]
    np.testing.assert_allclose(x + width / 2, middles, rtol=0, atol=0.01)


def pixels(view):
    # Read from a copy: reading a canvas over and over makes browsers complain.
    read = """(canvas) => {
      const { width, height } = canvas;
      const copy = new OffscreenCanvas(width, height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      return [width, height, ...copy.getImageData(0, 0, width, height).data];
    }"""
    width, height, *data = view.root.locator("canvas").evaluate(read)
    return np.array(data).reshape(height, width, 4)


def test_every_pixel_of_the_table(mount):
    w = PositionHeatmap(n_positions=48, d_model=10, base=50)
    table, _, _ = computed(w)
    found = pixels(view := mount(w))
    assert found.shape == (48, 10, 4)
    assert np.abs(found - COLOURS((table + 1) / 2) * 255).max() < 1
    view.set(base=500.0)
    table, _, _ = computed(w)
    assert np.abs(pixels(view) - COLOURS((table + 1) / 2) * 255).max() < 1


def test_rows_that_share_a_pixel_are_averaged(mount):
    w = PositionHeatmap(n_positions=640, d_model=6, base=100, row=0)
    table, _, _ = computed(w)
    mean = table.reshape(320, 2, 6).mean(axis=1)  # the table is 320 pixels high
    assert np.abs(pixels(mount(w)) - COLOURS((mean + 1) / 2) * 255).max() < 1


def test_by_keyboard(mount):
    view = mount(PositionHeatmap())
    w = view.widget
    for label, key, trait, value in [
        ("Row", "ArrowRight", "row", 25),
        ("Positions", "End", "n_positions", 1024),
        ("Row", "End", "row", 1023),
        ("Base", "Home", "base", 10),
        ("Dimensions D", "ArrowLeft", "d_model", 62),
        ("Positions", "ArrowLeft", "n_positions", 1008),  # takes the row with it
    ]:
        before = view.says, view.label
        view.press(label, key)
        assert view.get(trait) == value
        view.saved()
        assert getattr(w, trait) == value
        assert view.says == sentence(w)
        assert (view.says, view.label) != before
    assert w.row == view.get("row") == 1007


def test_from_python(mount):
    view = mount(PositionHeatmap())
    view.set(n_positions=1024, base=100.0, row=600)
    assert view.says == sentence(view.widget)
    assert view.control("Row").input_value() == "600"
    view.set(n_positions=64)
    assert view.widget.row == view.get("row") == 63
    assert view.says == sentence(view.widget)


def at(view, p):
    """Where row p of the picture is on the page."""
    view.root.locator("canvas").scroll_into_view_if_needed()
    box = view.root.locator("canvas").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + (p + 0.5) / view.get("n_positions") * box["height"]


def test_pointing_shows_a_row_and_pressing_chooses_it(mount):
    view = mount(PositionHeatmap())
    chosen = view.says
    view.page.mouse.move(*at(view, 100))
    assert view.says == sentence(PositionHeatmap(row=100))
    assert view.get("row") == 24
    view.page.mouse.move(2, 2)
    assert view.says == chosen
    view.page.mouse.click(*at(view, 90))
    view.page.mouse.move(2, 2)
    assert view.says == sentence(PositionHeatmap(row=90))
    assert view.saved() == {"row": 90}
    view.page.keyboard.press("ArrowRight")  # goes on from there
    assert view.says == sentence(PositionHeatmap(row=91))


def test_by_touch(mount):
    view = mount(PositionHeatmap(), width=360)
    view.page.touchscreen.tap(*at(view, 77))
    assert view.says == sentence(PositionHeatmap(row=77))
    assert view.saved() == {"row": 77}


@pytest.mark.parametrize("width", [900, 360])
def test_accessible_in_both_themes_and_on_a_phone(mount, shoot, width):
    view = mount(PositionHeatmap(n_positions=1024, base=100, row=600), width=width)
    assert view.overflow() == 0
    assert view.axe_violations() == []
    shoot(f"heatmap-{width}")
    view.set(n_positions=32)  # a thousand rows of numbers take axe a while
    view.tables()
    assert view.axe_violations() == []
    assert view.overflow() == 0


def test_it_fits_itself_to_a_narrower_window(mount):
    view = mount(PositionHeatmap())
    wide = view.root.locator("svg").bounding_box()["width"]
    view.page.set_viewport_size({"width": 360, "height": 900})
    view.settle()
    narrow = view.root.locator("svg").bounding_box()["width"]
    assert narrow < 340 < wide
    assert view.overflow() == 0


def test_it_stops_when_it_is_taken_away(mount):
    view = mount(PositionHeatmap())
    view.page.evaluate("() => window.mounted[0].cleanup()")
    said = view.says
    view.page.evaluate("() => window.mounted[0].model.set('row', 3)")
    assert view.says == said


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n_positions": 8}, "n_positions.*16.*8"),
        ({"n_positions": 2000}, "n_positions.*1024.*2000"),
        ({"d_model": 7}, "d_model=7 is odd: sines and cosines come in pairs of dimensions"),
        ({"d_model": 2}, "d_model.*4.*2"),
        ({"base": 1.0}, r"base.*10.*1\.0"),
        ({"base": float("nan")}, "base=nan is not a number from 10.0 to 1000000.0"),
        ({"row": 128}, "row=128 is not below n_positions=128"),
        ({"row": -1}, "row.*0.*-1"),
        ({"row": 1.5}, "row.*int.*1.5"),
    ],
)
def test_bad_traits_raise(bad, message):
    with pytest.raises(TraitError, match=message):
        PositionHeatmap(**bad)
