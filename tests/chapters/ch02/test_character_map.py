"""Tests CharacterMap: its drawing and sentences follow the shipped model's tables, and readers can explore it."""

import itertools
import re

import numpy as np
import pytest

from glassformer import shipped
from glassformer.chapters.ch02.character_map import plane
from glassformer.widgets import CharacterMap

TABLES = ("embedding", "head")


@pytest.fixture(scope="module")
def model():
    return shipped.load()


def rows_of(model, table):
    transformer, _ = model
    rows = transformer.token_embedding.weight if table == "embedding" else transformer.unembedding.weight.T
    return np.asarray(rows, np.float64)


def likeness(model, table):
    rows = rows_of(model, table)
    lengths = np.linalg.norm(rows, axis=1)
    return rows @ rows.T / np.outer(lengths, lengths)


def said(x):
    return f"{x:.2f}".replace("-", "−") if round(x, 2) else "0.00"


def name(character):
    return {"\n": "line break", " ": "space"}.get(character, f"“{character}”")


# --- the numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_cosines_and_neighbours_are_those_of_the_model(call, model, table):
    cosines, expected = CharacterMap().maps[table]["cosines"], likeness(model, table)
    V = len(expected)
    assert len(cosines) == V * (V - 1) // 2
    for i in (0, 1, 17, V - 1):
        got = call.each("character_map", "cosine", [[cosines, V, i, j] for j in range(V)])
        np.testing.assert_allclose(got, expected[i], rtol=0, atol=5.1e-5)
        near = call("character_map", "neighbours", cosines, V, i)
        assert sorted(one["index"] for one in near) == [j for j in range(V) if j != i]
        np.testing.assert_allclose(
            [one["cosine"] for one in near], np.sort(np.delete(expected[i], i))[::-1], rtol=0, atol=5.1e-5
        )


@pytest.mark.parametrize("table", TABLES)
def test_no_other_plane_keeps_more(model, table):
    """Compares with the eigenvectors of the covariance: the share of the variance, and all distances in the plane."""
    import torch

    directions = rows_of(model, table)
    directions = torch.from_numpy(directions / np.linalg.norm(directions, axis=1, keepdims=True))
    centred = directions - directions.mean(dim=0)
    _, axes = torch.linalg.eigh(centred.T @ centred)  # the largest eigenvalues last
    on_plane = centred @ axes[:, -2:]
    share = (on_plane.square().sum() / centred.square().sum()).item()
    shown = CharacterMap().maps[table]
    assert shown["share"] == pytest.approx(share, abs=1e-4)
    points = torch.tensor(shown["points"], dtype=torch.float64)
    np.testing.assert_allclose(torch.cdist(points, points), torch.cdist(on_plane, on_plane), atol=2e-3)


def test_the_plane_of_points_that_lie_in_one():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(9, 2)) @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T + 3.0
    points, share = plane(flat)
    assert share == pytest.approx(1)
    distances = [np.linalg.norm(x[:, None] - x, axis=-1) for x in (points, flat)]
    np.testing.assert_allclose(*distances, atol=1e-12)
    assert (points[np.abs(points).argmax(axis=0), [0, 1]] > 0).all()


@pytest.mark.parametrize(
    ("character", "group"),
    [("e", "vowel"), ("y", "consonant"), ("E", "capital"), ("\n", "sign"), ("3", "sign"), ("$", "sign")],
)
def test_groups(call, character, group):
    assert call("character_map", "groupOf", character) == group


def test_marks_are_moved_until_none_covers_another(call):
    box = {"left": 14, "right": 300, "top": 14, "bottom": 320}
    rng = np.random.default_rng(1)
    points = [[150.0, 150.0], [150.0, 150.0], *rng.uniform(60, 260, size=(40, 2)).tolist()]
    moved = np.array(call("character_map", "apart", points, 20, box))
    distances = np.linalg.norm(moved[:, None] - moved, axis=-1) + 1e3 * np.eye(len(moved))
    assert distances.min() >= 19.5
    assert (moved.min(axis=0) >= 14).all()
    assert (moved.max(axis=0) <= [300, 320]).all()
    far = [[20.0, 20.0], [100.0, 100.0]]
    assert call("character_map", "apart", far, 20, box) == far


# --- what is seen ---------------------------------------------------------------------------------------------------


def test_the_line_says_what_the_model_says(mount, model):
    w, characters = mount(CharacterMap()), model[1].characters
    for table, (character, other) in itertools.product(TABLES, [("e", "E"), ("\n", "k"), (".", "")]):
        w.set(table=table, character=character, other=other)
        alike, i = likeness(model, table), characters.index(character)
        near = [j for j in np.argsort(-alike[i]) if j != i]
        where = {"embedding": "embedding", "head": "output head"}[table]
        first = f"{name(characters[near[0]])} (cosine {said(alike[i, near[0]])})"
        rest = ", ".join(f"{name(characters[j])} ({said(alike[i, j])})" for j in near[1:5])
        expected = f"In the {where}, the nearest to {name(character)} is {first}, followed by {rest}."
        if other:
            j = characters.index(other)
            cosine, rank = said(alike[i, j]), near.index(j) + 1
            expected += f" {name(other)} has a cosine of {cosine} and is number {rank} of 64."
        assert w.says == expected
        assert w.root.locator(".gf-near li").count() == 8
        kept = round(100 * CharacterMap().maps[table]["share"])
        assert f"keeps {kept} %" in w.root.inner_text()


def test_it_is_wandered_in_by_keyboard(mount):
    w = mount(CharacterMap())
    w.press("Character", "ArrowDown")
    assert w.get("character") == "f"
    assert w.says.startswith("In the embedding, the nearest to “f” is ")
    w.press("Compare with", "Home")
    assert w.get("other") == ""
    assert "number" not in w.says
    w.press("output head (guessed)", " ")
    assert w.says.startswith("In the output head, the nearest to “f” is ")
    assert w.saved() == {"character": "f", "other": "", "table": "head"}


def centre(w, character):
    w.settle()
    place = w.widget.characters.index(character)
    box = w.root.locator(".gf-map .gf-mark").nth(place).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_pointing_compares_and_clicking_chooses(mount):
    w = mount(CharacterMap())
    w.page.mouse.move(*centre(w, "q"))
    assert "“q” has a cosine of" in w.says
    w.page.mouse.click(*centre(w, "T"))
    assert w.get("character") == "T"
    assert w.says.startswith("In the embedding, the nearest to “T” is “t”")
    w.page.touchscreen.tap(*centre(w, "."))
    assert w.says.startswith("In the embedding, the nearest to “.” is ")


def test_lines_lead_to_the_five_nearest(mount, model):
    w = mount(CharacterMap())
    alike = likeness(model, "embedding")
    i = w.widget.characters.index("e")
    near = set(np.argsort(-alike[i])[1:6].tolist())
    marks = w.root.locator(".gf-map .gf-mark")
    shown = marks.evaluate_all("m => m.flatMap((g, i) => (g.classList.contains('gf-mark-near') ? [i] : []))")
    assert set(shown) == near
    assert w.root.locator(".gf-mark-chosen").text_content() == "e"
    read = "g => g.getAttribute('transform').match(/[\\d.]+/g).map(Number)"
    ends = [marks.nth(j).evaluate(read) for j in near]
    lines = w.root.locator(".gf-join").evaluate_all(
        "l => l.map(e => ['x2', 'y2'].map(n => +e.getAttribute(n)))"
    )
    np.testing.assert_allclose(sorted(lines), sorted(ends), atol=0.06)


def test_the_numbers_are_a_table(mount, model):
    w = mount(CharacterMap(character="\n"))
    header, *rows = w.table()
    assert header == ["Character", "Group", "Cosine", "Distance on the map", "Length of the row"]
    assert rows[0][:4] == ["line break", "sign", "1.000", "0.000"]
    assert len(rows) == 65
    alike, characters = likeness(model, "embedding"), w.widget.characters
    lengths = np.linalg.norm(rows_of(model, "embedding"), axis=1)
    spelled = {"line break": "\n", "space": " "}
    for character, _, cosine, _, length in rows[1:]:
        j = characters.index(spelled.get(character, character))
        assert float(cosine.replace("−", "-")) == pytest.approx(alike[0, j], abs=6e-4)
        assert float(length) == pytest.approx(lengths[j], abs=6e-3)
    assert re.match(
        r"Map of 65 characters by their rows in the embedding, line break joined to space, ", w.label
    )
