"""Tests PositionHeatmap: its drawing and sentences show what `scratch` computes."""

import re

import numpy as np
import pytest

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


def scratch_table(n, d, base):
    return sinusoidal(np.arange(n), d, base=base)


def slowest(d, base):
    return 2 * np.pi * base ** ((d - 2) / d)


def computed(w):
    """Returns the table, the similarity of the chosen row to each row, and the slowest wavelength."""
    table = scratch_table(w.n_positions, w.d_model, w.base)
    return table, table @ table[w.row] / (w.d_model / 2), slowest(w.d_model, w.base)


def number(x, digits):
    return f"{x:.{digits}f}".replace("-", "−")


def assert_true(said, table, row, base):
    """Compares each claim of a sentence with the table itself, on both sides of the row; returns what it claims."""
    n, d = table.shape
    similarity = table @ table[row] / (d / 2)
    distance = np.abs(np.arange(n) - row)
    start = rf"The rows? most similar to row {row} (?:is|are) (.*?) \(similarity (.*?)\)\. "
    most, value = re.match(start, said).groups()
    others = np.delete(similarity, row)
    assert similarity[[int(p) for p in most.split(" and ")]] == pytest.approx(others.max(), abs=1e-9)
    assert value == number(others.max(), 3)
    assert said.endswith(f"The slowest wave repeats every {round(slowest(d, base)):,} positions.")
    side = similarity[row:] if n - 1 - row >= row else similarity[row::-1]
    steps = np.diff(side)
    if "as if on a ruler" in said:
        assert (steps < 0).all()
        return "a ruler"
    falls, rest, rises = map(
        int,
        re.search(
            r"Up to a distance of (\d+), .* falls\. Of the (\d+) steps? beyond that, (\d+) rise", said
        ).groups(),
    )
    assert (steps[:falls] < 0).all()
    assert steps[falls] > 0
    assert ((steps > 0).sum(), len(steps) - falls) == (rises, rest)
    deceit = re.search(
        r"row (\d+), (\d+) away \((.*?)\), looks nearer than row (\d+), (\d+) away \((.*?)\)", said
    )
    if not deceit:
        assert "though none by as much as 0.001" in said
        assert (side <= np.minimum.accumulate(side) + 0.001).all()
        return "rises that hardly show"
    far, near = deceit.groups()[:3], deceit.groups()[3:]
    for p, away, shown in (far, near):
        assert distance[int(p)] == int(away)
        assert shown == number(similarity[int(p)], 3)
    assert int(far[1]) > int(near[1])
    assert float(far[2].replace("−", "-")) > float(near[2].replace("−", "-"))
    return "a deceit"


def test_the_chapters_question_has_the_answer_that_the_chapter_gives(mount):
    view = mount(PositionHeatmap(n_positions=1024, base=100, row=600))
    assert view.says == (
        "The rows most similar to row 600 are 599 and 601 (similarity 0.940). Up to a distance of 11, similarity "
        "only falls. Of the 589 steps beyond that, 294 rise: row 98, 502 away (0.271), looks nearer than "
        "row 585, 15 away (0.267). The slowest wave repeats every 544 positions."
    )


GRID = [
    {"n_positions": n, "d_model": d, "base": base, "row": row}
    for n in (16, 128, 496, 1024)
    for d in (4, 10, 64, 128)
    for base in (10.0, 79.4, 1e4, 1e6)
    for row in sorted({0, 7, n // 3, n - 1})
]


def test_every_sentence_holds(call):
    """Over the ranges of all controls."""
    shapes = sorted({tuple(state.values())[:3] for state in GRID})
    tables = {shape: scratch_table(*shape) for shape in shapes}
    similar = dict(zip(shapes, call.each("maths", "similarities", shapes), strict=True))
    asked = [
        {"row": row, "n": n, "d": d, "base": base, "similar": similar[n, d, base]}
        for n, d, base, row in (state.values() for state in GRID)
    ]
    reach = [max(a["row"], a["n"] - 1 - a["row"]) + 1 for a in asked]
    seen = call.each("maths", "ruler", [[a["similar"][:r]] for a, r in zip(asked, reach, strict=True)])
    said_of = call.each(
        "position_heatmap", "sentence", [[a | {"seen": s}] for a, s in zip(asked, seen, strict=True)]
    )
    kinds = set()
    for state, said in zip(GRID, said_of, strict=True):
        *shape, row = state.values()
        kinds.add(assert_true(said, tables[tuple(shape)], row, state["base"]))
    assert kinds == {"a ruler", "rises that hardly show", "a deceit"}


def assert_says(view, row):
    """Compares what the view says with the table, as if this row had been chosen."""
    w = view.widget
    table, _, _ = computed(w)
    assert_true(view.says, table, row, w.base)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_sentence_tables_curve_and_bars_are_those_of_scratch(mount, state):
    w = PositionHeatmap(**state)
    table, similarity, _ = computed(w)
    view = mount(w)
    assert_says(view, w.row)
    assert view.label == (
        f"Heatmap of sinusoidal positions, {w.n_positions} positions by {w.d_model} dimensions, "
        f"base {w.base:,.0f}. {view.says}"
    )
    row, curve = view.tables()
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

    bars = re.findall(r"M(\S+) (\S+)V(\S+)h(\S+)V\S+z", view.root.locator(".gf-bar").get_attribute("d"))
    x, axis, end, width = np.array(bars, float).T
    np.testing.assert_allclose((axis - end) / 38, table[w.row], atol=1e-9)
    middles = canvas["x"] - over["x"] + (np.arange(w.d_model) + 0.5) / w.d_model * canvas["width"]
    np.testing.assert_allclose(x + width / 2, middles, rtol=0, atol=0.01)


def pixels(view):
    # Read from a copy: reading a canvas over and over makes browsers complain.
    view.settle()
    read = """(canvas) => {
      const { width, height } = canvas;
      const copy = new OffscreenCanvas(width, height).getContext("2d");
      copy.fillStyle = "#f7f7f7"; // the middle in a figure; on a page it is the page's own colour
      copy.fillRect(0, 0, width, height);
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
    # Below 2, not 1: the opacity, the colour and their mixture are each rounded to whole numbers.
    assert np.abs(found - COLOURS((table + 1) / 2) * 255).max() < 2
    view.set(base=500.0)
    table, _, _ = computed(w)
    assert np.abs(pixels(view) - COLOURS((table + 1) / 2) * 255).max() < 2


def test_rows_that_share_a_pixel_are_averaged(mount):
    w = PositionHeatmap(n_positions=640, d_model=6, base=100, row=0)
    table, _, _ = computed(w)
    mean = table.reshape(320, 2, 6).mean(axis=1)  # the table is 320 pixels high
    assert np.abs(pixels(mount(w)) - COLOURS((mean + 1) / 2) * 255).max() < 2


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
        assert_says(view, w.row)
        assert (view.says, view.label) != before
    assert w.row == view.get("row") == 1007


def test_in_python_too_a_shorter_table_takes_the_row_with_it():
    w = PositionHeatmap(n_positions=1024, row=600)
    w.n_positions = 64
    assert w.row == 63


def at(view, p):
    """Returns the position of row p of the picture on the page."""
    view.settle()
    view.root.locator("canvas").scroll_into_view_if_needed()
    box = view.root.locator("canvas").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + (p + 0.5) / view.get("n_positions") * box["height"]


def test_pointing_shows_a_row_and_pressing_chooses_it(mount):
    view = mount(PositionHeatmap())
    chosen = view.says
    view.page.mouse.move(*at(view, 100))
    assert_says(view, 100)
    assert view.get("row") == 24
    view.page.mouse.move(2, 2)
    assert view.says == chosen
    view.page.mouse.click(*at(view, 90))
    view.page.mouse.move(2, 2)
    assert_says(view, 90)
    assert view.saved() == {"row": 90}
    view.page.keyboard.press("ArrowRight")  # goes on from there
    assert_says(view, 91)


def test_by_touch(mount):
    view = mount(PositionHeatmap(), width=360)
    view.page.touchscreen.tap(*at(view, 77))
    assert_says(view, 77)
    assert view.saved() == {"row": 77}


def test_it_fits_itself_to_a_narrower_window(mount):
    view = mount(PositionHeatmap())
    wide = view.root.locator("svg").bounding_box()["width"]
    view.page.set_viewport_size({"width": 360, "height": 900})
    view.settle()
    narrow = view.root.locator("svg").bounding_box()["width"]
    assert narrow < 340 < wide
    assert view.overflow() == 0
