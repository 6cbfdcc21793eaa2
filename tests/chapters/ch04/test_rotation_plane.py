"""Tests RotationPlane: it shows the numbers of `scratch.rotate`, and the score stays when both positions move."""

import math
import re

import numpy as np
import pytest

from glassformer.chapters.ch04.rotation_plane import RotationPlane
from glassformer.scratch import rotate


def turned(angle, length, position, theta):
    vector = length * np.array([[math.cos(math.radians(angle)), math.sin(math.radians(angle))]])
    return rotate(vector, np.array([[position * theta]]))[0]


def vectors(w):
    """Returns the rotated query and key of a RotationPlane, as computed by `scratch`."""
    return (
        turned(w.query_angle, w.query_length, w.query_position, w.theta),
        turned(w.key_angle, w.key_length, w.key_position, w.theta),
    )


def score(w):
    q, k = vectors(w)
    return float(q @ k)


def text(x, digits):
    return f"{x:.{digits}f}".replace("-", "−")


# --- the numbers ------------------------------------------------------------------------------------------


def test_the_score_is_pythons(call):
    rng = np.random.default_rng(0)
    for _ in range(40):
        q, k = rng.normal(size=(2, 2))
        m, n = rng.integers(0, 51, 2).tolist()
        theta = 10 ** rng.uniform(-3, 0)
        q_turned, k_turned = rotate(np.stack([q, k]), np.array([[m * theta], [n * theta]]))
        got = call("rotation_plane", "rotaryScore", q.tolist(), k.tolist(), m, n, theta)
        assert got == pytest.approx(q_turned @ k_turned, rel=0, abs=1e-12)
        np.testing.assert_allclose(
            call("rotation_plane", "turned", q.tolist(), m, theta), q_turned, rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    ("a", "b", "angle"),
    [([1, 0], [1, 1], 45), ([2, 0], [-1, 0], 180), ([0, 3], [1, 0], 90), ([1, 2], [2, 4], 0)],
)
def test_angles(call, a, b, angle):
    assert call("rotation_plane", "angleBetween", a, b) == pytest.approx(angle, abs=1e-12)
    assert call("rotation_plane", "angleBetween", b, a) == pytest.approx(angle, abs=1e-12)


# --- what is seen -----------------------------------------------------------------------------------------


def test_default_state_makes_the_point(mount):
    w = mount(RotationPlane())
    s = score(w.widget)
    assert (
        w.says
        == f"Query at 7, key at 3: distance 4. Score {s:.3f}. Move both together, and it stays the same."
    )
    q, k = vectors(w.widget)
    between = math.degrees(math.acos(s / np.linalg.norm(q) / np.linalg.norm(k)))
    assert w.label == (
        f"Query at position 7 and key at position 3, {between:.1f} degrees apart; score {s:.3f}. "
        "Beside them, the score against distance: a wave, marked at distance 4."
    )
    assert w.root.get_by_text("Score q·k").inner_text() == f"Score q·k = {s:.6f}, angle {between:.1f}°"


STATES = [
    {},
    {"query_position": 0, "key_position": 0},
    {"query_position": 3, "key_position": 50, "theta": 1.0},
    {"query_angle": -180.0, "key_angle": 180.0, "query_length": 0.1, "key_length": 1.5, "theta": 0.001},
    {"query_angle": -35.0, "query_length": 1.35, "query_position": 31, "theta": 0.9},
]


def tips(w):
    """Returns the tips of the arrows in the plane's own units: {class: (x, y)}."""
    w.settle()
    script = "gs => gs.map(g => [g.getAttribute('class'), g.querySelector('path').getAttribute('d')])"
    found = {}
    for name, d in w.root.locator(".gf-arrow").evaluate_all(script):
        x, y = (float(number) for number in re.match(r"M(\S+) ([^L]+)L", d).groups())
        found[name.removeprefix("gf-arrow gf-arrow-")] = ((x - 170) / 104, (170 - y) / 104)
    return found


@pytest.mark.parametrize("state", STATES)
def test_arrows_curve_and_tables_show_the_computed_numbers(mount, state):
    w = mount(RotationPlane(**state))
    q, k = vectors(w.widget)
    q0, k0 = vectors(RotationPlane(**(state | {"query_position": 0, "key_position": 0})))
    for name, vector in {"query": q, "key": k, "query gf-arrow-faint": q0, "key gf-arrow-faint": k0}.items():
        np.testing.assert_allclose(tips(w)[name], vector, rtol=0, atol=1e-9)

    # The mark lies on the curve, at the distance and at the score.
    reach = w.widget.query_length * w.widget.key_length
    distance = w.widget.query_position - w.widget.key_position
    mark = w.root.locator(".gf-spot")
    x, y = float(mark.get_attribute("cx")), float(mark.get_attribute("cy"))
    assert (x - 185) / 145 * 50 == pytest.approx(distance, abs=1e-9)
    assert (152 - y) / 138 * reach == pytest.approx(score(w.widget), abs=1e-9)
    points = [
        tuple(map(float, p.split(","))) for p in w.root.locator(".gf-wave").get_attribute("points").split()
    ]
    assert points[4 * (distance + 50)] == pytest.approx((x, y), abs=1e-9)

    both, curve = w.tables()
    assert [row[0] for row in both] == ["Vector", "query", "key"]
    for row, vector, name in ((both[1], q, "query"), (both[2], k, "key")):
        angle, position = getattr(w.widget, f"{name}_angle"), getattr(w.widget, f"{name}_position")
        by = position * w.widget.theta
        assert row[1:4] == [f"{text(angle, 0)}°", str(position), f"{by:.3f}"]
        assert row[5:] == [text(c, 6) if f"{c:.6f}" != "-0.000000" else "0.000000" for c in vector]
        now = math.radians(float(row[4].removesuffix("°").replace("−", "-")))
        assert abs(math.remainder(now - math.radians(angle) - by, math.tau)) < math.radians(0.051)
    assert curve[0] == ["Distance m − n", "Score"]
    for d, row in zip(range(-50, 51), curve[1:], strict=True):
        m, n = max(d, 0), max(-d, 0)
        w.widget.query_position, w.widget.key_position = m, n
        assert row == [str(d).replace("-", "−"), text(score(w.widget), 6)]


def test_a_key_ahead_is_called_ahead(mount):
    w = mount(RotationPlane(query_position=3, key_position=5))
    assert w.says.startswith("Query at 3, key at 5: distance −2 (the key lies ahead). Score ")


# --- what can be done -------------------------------------------------------------------------------------


def shown_score(w):
    return re.search(r"Score (\S+)\. ", w.says)[1], w.root.get_by_text("Score q·k").inner_text()


def test_moving_both_leaves_the_score_to_the_last_digit(mount):
    w = mount(RotationPlane())
    before = shown_score(w)
    positions = []
    for name in ["−1"] * 5 + ["+10"] * 5 + ["+1", "−1", "−1"]:
        w.root.get_by_role("button", name=f"Move both {name}", exact=True).press("Enter")
        assert shown_score(w) == before
        positions.append((w.get("query_position"), w.get("key_position")))
    down, up = [(6, 2), (5, 1), (4, 0), (4, 0), (4, 0)], [(14, 10), (24, 20), (34, 30), (44, 40), (50, 46)]
    assert positions == [*down, *up, (50, 46), (49, 45), (48, 44)]  # and no further at either end
    assert w.saved() == {"query_position": 48, "key_position": 44}


def test_every_slider_by_keyboard(mount):
    w = mount(RotationPlane())
    w.press("Query’s position m", "End")
    w.press("Key’s position n", "Home", "ArrowRight")
    w.press("Frequency θ (rad/position)", "ArrowLeft", "ArrowLeft")
    assert w.says.startswith("Query at 50, key at 1: distance 49.")
    w.root.get_by_text("The vectors before rotation").press("Enter")
    w.press("Query’s angle", "Home")
    w.press("Key’s angle", "ArrowLeft")
    w.press("Query’s length", "ArrowLeft")
    w.press("Key’s length", "End")
    saved = w.saved()
    assert saved.pop("query_length") == pytest.approx(0.95)
    assert saved == {
        "query_position": 50,
        "key_position": 1,
        "theta": 0.158,
        "query_angle": -180,
        "key_angle": 99,
        "key_length": 1.5,
    }
    assert f"Score {text(score(w.widget), 3)}." in w.says


@pytest.mark.parametrize(
    ("arrow", "trait"), [("query", "query"), ("key", "key"), ("query gf-arrow-faint", "query")]
)
def test_arrows_can_be_dragged(mount, arrow, trait):
    w = mount(RotationPlane())
    w.root.locator(".gf-plane").scroll_into_view_if_needed()
    box = w.root.locator(".gf-plane").bounding_box()
    pixel = box["width"] / 340

    def to(x, y):
        return box["x"] + (170 + 104 * x) * pixel, box["y"] + (170 - 104 * y) * pixel

    aim = (0.0, -1.3)  # straight down
    w.page.mouse.move(*to(*tips(w)[arrow]))
    w.page.mouse.down()
    w.page.mouse.move(*to(*aim), steps=5)
    w.page.mouse.up()
    w.page.mouse.move(*to(1, 1))  # let go: it stays
    w.saved()
    assert getattr(w.widget, f"{trait}_length") == pytest.approx(1.3)
    reached = tips(w)[arrow]
    assert reached == pytest.approx(aim, abs=1.3 * math.radians(0.51))
    assert float(getattr(w.widget, f"{trait}_angle")).is_integer()
    assert f"Score {text(score(w.widget), 3)}." in w.says


@pytest.mark.parametrize(("start", "moves"), [((0, 0), True), ((0.9, -1.2), False)])
def test_a_finger_turns_an_arrow_or_scrolls_the_page(mount, start, moves):
    w = mount(RotationPlane(query_position=0, key_position=0), width=360)
    w.page.set_viewport_size({"width": 360, "height": 500})
    w.settle()
    w.root.locator(".gf-plane").scroll_into_view_if_needed()
    box = w.root.locator(".gf-plane").bounding_box()
    pixel = box["width"] / 340
    tip = tips(w)["query"] if moves else start
    x, y = box["x"] + (170 + 104 * tip[0]) * pixel, box["y"] + (170 - 104 * tip[1]) * pixel
    finger = w.page.context.new_cdp_session(w.page)
    scrolled = w.page.evaluate("scrollY")
    for kind, dy in [("touchStart", 0), *(("touchMove", -10 * i) for i in range(1, 7)), ("touchEnd", None)]:
        points = [] if dy is None else [{"x": x, "y": y + dy}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    w.settle()
    assert ("query_angle" in w.saved()) == moves
    assert (w.page.evaluate("scrollY") == scrolled) == moves
