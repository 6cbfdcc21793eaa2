"""Tests ActivationExplorer: functions and slopes equal those of `scratch`, and the sentences are true."""

import math
import re

import numpy as np
import pytest
import torch

from glassformer import scratch
from glassformer.chapters.ch06.activation_explorer import CURVES, ActivationExplorer
from glassformer.scratch.feedforward import SLOPES

XS = [*np.linspace(-6, 6, 97), 1e-9, -1e-9, 12.0, -12.0]
IN_TORCH = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def number(text):
    return float(text.replace("−", "-").replace("+", ""))


# --- the numbers ------------------------------------------------------------------------------------------


def test_the_error_function_is_exact(call):
    xs = [*np.linspace(-7, 7, 301), 0.0, 1e-12, 30.0, -400.0]
    found = call.each("activation_explorer", "erf", [[float(x)] for x in xs])
    np.testing.assert_allclose(found, [math.erf(x) for x in xs], rtol=0, atol=1e-14)


def test_every_activation_is_drawn(call):
    assert list(call("activation_explorer", "activated", 0)["values"]) == [*CURVES], (
        "add to CURVES of the .js"
    )
    assert set(IN_TORCH) == set(CURVES), "add to IN_TORCH"


def test_values_and_slopes_are_those_of_scratch_and_of_torch(call):
    drawn = call.each("activation_explorer", "activated", [[float(x)] for x in XS])
    x = torch.tensor(XS, dtype=torch.float64, requires_grad=True)
    for name, curve in CURVES.items():
        values, slopes = ([one[kind][name] for one in drawn] for kind in ("values", "slopes"))
        np.testing.assert_allclose(values, curve(np.array(XS)), rtol=0, atol=1e-12)
        np.testing.assert_allclose(slopes, SLOPES[curve](np.array(XS)), rtol=0, atol=1e-12)
        wanted = IN_TORCH[name](x)
        np.testing.assert_allclose(values, wanted.detach(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(slopes, torch.autograd.grad(wanted.sum(), x)[0], rtol=0, atol=1e-12)


def test_a_gated_neuron_is_that_of_a_feed_forward_network(call):
    """Uses a network of one neuron whose weights pass on the gate's number and the other number unchanged."""
    network = scratch.FeedForward(2, 1, activation="swiglu", bias=False, generator=None, dtype=np.float64)
    network.W_gate.weight, network.W_up.weight = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    network.W_down.weight = np.array([[1.0, 0.0]])
    points = np.random.default_rng(0).uniform(-3, 3, (20, 2))
    drawn = call.each("activation_explorer", "gated", points.tolist())
    np.testing.assert_allclose([one["product"] for one in drawn], network(points)[:, 0], rtol=0, atol=1e-12)
    step = 1e-6
    for (gate, up), one in zip(points, drawn, strict=True):
        assert one == pytest.approx(ActivationExplorer(gate=gate, up=up).gated()._asdict(), abs=1e-12)
        near = [(gate + step, up), (gate - step, up), (gate, up + step), (gate, up - step)]
        a, b, c, d = network(np.array(near))[:, 0]
        assert [one["by_gate"], one["by_up"]] == pytest.approx(
            [(a - b) / (2 * step), (c - d) / (2 * step)], abs=1e-8
        )
        assert one["relu"] == max(up, 0)


# --- what is seen -----------------------------------------------------------------------------------------


def readout(w):
    w.settle()
    rows = w.root.locator(".gf-readout tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    return {row[0]: [number(cell) for cell in row[1:]] for row in rows}


def test_the_point_is_moved_by_keyboard_and_pointer_and_the_numbers_follow(mount):
    w = mount(ActivationExplorer())
    w.press("x", *["ArrowRight"] * 3, "PageUp")
    x = w.get("x")
    assert x > -0.61
    w.press("SiLU", "ArrowLeft")
    assert w.saved() == {"x": x, "curve": "gelu_tanh"}
    right = w.widget.activated()
    names = {"relu": "ReLU", "gelu": "GELU (exact)", "gelu_tanh": "GELU (tanh)", "silu": "SiLU"}
    shown = readout(w)
    for name, title in names.items():
        assert shown[title] == pytest.approx([right.values[name], right.slopes[name]], abs=5.1e-5)
    apart = right.values["gelu"] - right.values["gelu_tanh"]
    assert shown["exact − tanh"] == pytest.approx([apart], abs=5.1e-7)
    assert w.root.locator(".gf-chosen-row th").inner_text() == "GELU (tanh)"
    said = re.search(
        r"^GELU \(tanh\) of (\S+) is (\S+)\. Its slope there is (\S+):.* about (\S+)\. GELU \(exact\) gives (\S+),",
        w.says,
    )
    expected = [
        x,
        right.values["gelu_tanh"],
        right.slopes["gelu_tanh"],
        right.slopes["gelu_tanh"] / 10,
        right.values["gelu"],
    ]
    assert [number(part) for part in said.groups()] == pytest.approx(expected, abs=5.1e-4)

    end = ActivationExplorer(x=4).activated()
    expected = [shown for name in names for shown in (end.values[name], end.slopes[name])]
    assert [number(cell) for cell in w.table()[-1]] == pytest.approx([4, *expected], abs=5.1e-6)

    box = w.root.locator(".gf-panel").nth(1).bounding_box()
    w.page.mouse.move(box["x"] + box["width"] * (36 + 308 * 0.75) / 352, box["y"] + 60)
    w.settle()
    assert w.get("x") == 2


def test_the_difference_of_the_two_gelus_is_drawn_as_large_as_asked(mount):
    w = mount(ActivationExplorer())
    path = w.root.locator(".gf-apart")

    def height():
        ys = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path.get_attribute("d"))]
        return max(ys) - min(ys)

    flat = height()
    w.press("Exact − tanh, magnified", "End")
    assert w.saved() == {"magnified": 1000}
    x = np.linspace(-4, 4, 201)
    apart = CURVES["gelu"](x) - CURVES["gelu_tanh"](x)
    unit = (300 - 38 - 8) / 5
    assert height() == pytest.approx(1000 * np.ptp(apart) * unit, abs=0.05)
    assert flat < 0.1
    assert "1,000 × (exact − tanh)" in w.root.locator(".gf-panel-title").first.inner_text()


def test_the_gate(mount):
    w = mount(ActivationExplorer(show="gate"))
    assert w.root.locator(".gf-readout").is_hidden()
    assert w.control("x").is_hidden()
    w.press("gate", "ArrowRight")
    w.press("up", "ArrowLeft", "ArrowLeft")
    assert w.saved() == {"gate": pytest.approx(1.55), "up": pytest.approx(-2.1)}
    right = w.widget.gated()
    said = re.search(
        r"silu\((\S+)\) = (\S+), and the other number is (\S+)\. Their product is (\S+)\. "
        r".* adds (\S+), .* slope is (\S+)\. .* into (\S+)\.$",
        w.says,
    )
    expected = [1.55, right.by_up, -2.1, right.product, right.by_up, right.by_gate, 0]
    assert [number(part) for part in said.groups()] == pytest.approx(expected, abs=5.1e-3)
    assert [number(row[1]) for row in w.table()[1:]] == pytest.approx(
        [right.by_up, right.product, right.by_gate, right.by_up, 0], abs=5.1e-6
    )
    colours = w.root.locator("canvas").evaluate_all(
        """maps => maps.map((map) => {
          const pixels = map.getContext("2d").getImageData(0, 0, map.width, map.height).data;
          const at = (x, y) => 4 * (Math.floor(y * map.height) * map.width + Math.floor(x * map.width));
          return [[0.9, 0.1], [0.9, 0.9], [0.1, 0.1]].map(([x, y]) => [...pixels.slice(at(x, y), at(x, y) + 4)]);
        })"""
    )
    colours = np.array(colours, float)
    # red less blue
    (both, turned, closed), (up, down, again) = (colours[..., 0] - colours[..., 2]) * colours[..., 3] / 255
    assert both > 100
    assert turned < -100
    assert -60 < closed < 0
    assert up == again > 30  # the gate has no say
    assert down == 0

    box = w.root.locator(".gf-over").first.bounding_box()
    w.page.mouse.move(
        box["x"] + box["width"] * (40 + 260 * 2 / 3) / 308, box["y"] + box["height"] * (8 + 260 / 6) / 306
    )
    w.settle()
    assert (w.get("gate"), w.get("up")) == pytest.approx((1, 2), abs=0.051)


def test_every_curve_has_its_name_beside_it(mount):
    """The names of the curves are in both panels, and the name of the selected curve is bold."""
    w = mount(ActivationExplorer(curve="silu"))
    for panel in w.root.locator(".gf-panel").all():
        assert panel.locator(".gf-curve-name").all_text_contents() == ["ReLU", "SiLU", "both GELUs"]
        assert panel.locator(".gf-chosen-name").all_text_contents() == ["SiLU"]
    w.set(curve="gelu_tanh")
    assert w.root.locator(".gf-chosen-name").all_text_contents() == ["both GELUs"] * 2
