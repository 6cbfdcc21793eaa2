"""Tests DepthExplorer: Python and JavaScript agree, the sizes match torch, and the drawing responds to the pointer."""

import itertools
import re

import numpy as np
import pytest
import torch

from glassformer.chapters.ch05.depth_explorer import DRAWS, WAYS, WIDTH, DepthExplorer, networks
from glassformer.widgets.engine.mulberry import mulberry32, uniform


def test_uniform_is_mulberry32_all_at_once():
    for seed in (0, 1, 2**31 - 1):
        np.testing.assert_array_equal(uniform(seed, 1000), list(itertools.islice(mulberry32(seed), 1000)))


# --- the numbers ------------------------------------------------------------------------------------------

STATES = [{}, {"depth": 2, "gain": 0.5}, {"depth": 17, "gain": 1.0, "seed": 3}, {"gain": 2.0, "seed": 0}]


@pytest.mark.parametrize("traits", STATES)
def test_both_languages_draw_and_compute_the_same(call, traits):
    widget = DepthExplorer(**traits)
    found = call("depth_explorer", "computeFrom", widget.seed, {"depth": widget.depth, "gain": widget.gain})
    for way, sizes in widget.computed().items():
        for quantity in ("signal", "gradient"):
            right = np.sort(getattr(sizes, quantity), axis=0)
            assert right.shape == (DRAWS, widget.depth + 1)
            for name, row in (("low", 0), ("median", DRAWS // 2), ("high", -1)):
                drawn = np.array(found[way][quantity][name], dtype=np.float64)
                np.testing.assert_allclose(drawn, right[row], rtol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_the_gradient_is_that_of_torch(way):
    depth, gain, draw = 9, 1.3, 2
    drawn = networks(5)
    weights = torch.tensor(drawn.weights[draw, :depth])
    x = torch.tensor(drawn.signals[draw], requires_grad=True)
    streams = [x]
    for weight in weights:
        read = torch.nn.functional.rms_norm(x, [WIDTH], eps=1e-5) if way == "norms" else x
        written = gain * torch.relu(read) @ weight
        x = written if way == "plain" else x + written
        streams.append(x)
    gradients = torch.autograd.grad(x @ torch.tensor(drawn.gradients[draw]), streams)
    sizes = DepthExplorer(depth=depth, gain=gain, seed=5).computed()[way]
    for found, right in ((sizes.signal, streams), (sizes.gradient, gradients)):
        rms = [each.square().mean().sqrt().item() for each in right]
        np.testing.assert_allclose(found[draw], rms, rtol=1e-12)


def ends(**traits):
    """Returns the median size of the last signal and of the first gradient for each kind of network."""
    computed = DepthExplorer(**traits).computed()
    return {
        way: (np.median(sizes.signal[:, -1]), np.median(sizes.gradient[:, 0]))
        for way, sizes in computed.items()
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_it_answers_the_question(seed):
    """Plain networks need one gain, residual ones grow at any; with norms, both sizes are near √(1 + gain²·depth)."""
    for gain in (0.5, 0.95, 1.0, 1.15, 2.0):
        plain, residual, norms = ends(gain=gain, seed=seed).values()
        if gain == 1:
            assert 0.03 < min(plain) < max(plain) < 10
        else:
            assert max(plain) < 0.03 if gain < 1 else min(plain) > 30
        assert min(residual) > 300
        np.testing.assert_allclose(norms, np.sqrt(1 + 64 * gain**2), rtol=0.5)


# --- what is seen -----------------------------------------------------------------------------------------

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def value(text):
    """Returns a number as `short` writes it."""
    digits, _, exponent = text.partition("·10")
    return float(digits) * 10.0 ** int(exponent.translate(SUPERSCRIPTS) or 0)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.16, "0.16"), (8.44, "8.4"), (9.96, "10"), (151, "150"), (1.7e-7, "1.7·10⁻⁷"), (4.97e12, "5.0·10¹²"),
        (0.0099, "9.9·10⁻³"), (1000, "1.0·10³"), (0.01, "0.010"), (1, "1.0"), (996, "1.0·10³"),
    ],
)  # fmt: skip
def test_sizes_are_written_with_two_digits(call, x, text):
    assert call("depth_explorer", "short", x) == text


def test_an_axis_has_round_decades_around_all_it_shows(call):
    for low, high in itertools.product([1e-21, 3e-7, 0.02, 0.9], [1.1, 42, 7e9, 3e22]):
        exponents = call("depth_explorer", "decades", low, high)
        steps = set(np.diff(exponents).tolist())
        assert len(steps) == 1
        assert steps <= {1, 2, 5, 10}
        assert 3 <= len(exponents) <= 8
        assert 0 in exponents
        assert 10.0 ** exponents[0] <= min(low, 0.1)
        assert 10.0 ** exponents[-1] >= max(high, 10)


NAMES = {"plain": "Plain", "residual": "Residual", "norms": "Residual with norms"}


def said(w):
    """Returns {kind: (its fate, signal, gradient)} as the sentence gives them."""
    number = r"(\d+(?:\.\d+)?(?:·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*)?)"
    return {
        way: (fate, value(signal), value(gradient))
        for way, name in NAMES.items()
        for fate, signal, gradient in re.findall(
            rf"\. {name}: (\w+) \(signal ×\s{number}, gradient ×\s{number}\)", w.says
        )
    }


def check(w):
    found = ends(depth=w.get("depth"), gain=w.get("gain"), seed=w.get("seed"))
    for way, (_, *sizes) in said(w).items():
        assert sizes == pytest.approx(found[way], rel=0.051), way
    shown = w.root.locator(".gf-came").all_inner_texts()
    assert [value(text) for text in shown] == pytest.approx(np.ravel(list(found.values())), rel=0.051)


def fates(w):
    return [fate for fate, _, _ in said(w).values()]


def test_by_keyboard(mount):
    w = mount(DepthExplorer())
    assert w.says.startswith(
        "Through 64 layers at gain 0.80. Plain: vanishes (signal ×\N{NO-BREAK SPACE}2.4·10⁻⁷"
    )
    assert fates(w) == ["vanishes", "explodes", "survives"]
    assert w.label.startswith("Two charts by layer")
    assert w.label.endswith(w.says)
    check(w)
    w.press("Gain of the matrices", *["ArrowRight"] * 4)
    assert w.saved() == {"gain": 1.0}
    assert fates(w) == ["survives", "explodes", "survives"]
    check(w)
    w.press("Gain of the matrices", "End")
    assert fates(w) == ["explodes", "explodes", "survives"]
    w.press("Layers", "Home")
    assert fates(w) == ["survives", "survives", "survives"]
    check(w)
    before = w.says
    w.root.get_by_role("button", name="Draw new matrices").press("Enter")
    assert w.says != before
    assert w.saved() == {"gain": 2.0, "depth": 2, "seed": 2}
    check(w)
    # Where the lines lie, read off the axis
    w.press("Layers", *["ArrowRight"] * 5)
    layers, computed = w.get("depth"), DepthExplorer(depth=7, gain=2.0, seed=2).computed()
    for panel, quantity in enumerate(("signal", "gradient")):
        chart = w.root.locator(".gf-panel").nth(panel)
        for way in WAYS:
            points = chart.locator(f".gf-curve-{way}").get_attribute("points").split()
            x, y = np.array([point.split(",") for point in points], dtype=float).T
            decades = np.log10(np.median(getattr(computed[way], quantity), axis=0))
            assert len(x) == layers + 1 == 8
            np.testing.assert_allclose(x, np.linspace(44, 330, layers + 1), atol=0.051)
            slope = -(196 - 8) / (decade_range(chart))
            zero = y[0 if quantity == "signal" else -1]  # of size 1
            np.testing.assert_allclose(y, zero + slope * decades, atol=0.11)
    table = w.table()
    assert table[0][:3] == ["Layer", "Plain: signal", "Residual: signal"]
    numbers = [[float(cell.replace("−", "-")) for cell in row] for row in table[1:]]
    right = [
        np.median(getattr(computed[way], quantity), axis=0)
        for quantity in ("signal", "gradient")
        for way in WAYS
    ]
    np.testing.assert_allclose(numbers, np.stack([np.arange(8), *right], axis=1), rtol=6e-4)


def decade_range(chart):
    """Returns how many decades the axis of a chart spans, from its first number to its last."""
    first, last = (chart.locator("text[text-anchor=end]").nth(i).text_content() for i in (0, -1))
    return sum(
        abs(0 if text == "1" else int(text[2:].translate(SUPERSCRIPTS) or 1)) * sign
        for text, sign in ((last, 1), (first, 1 if "⁻" in first else -1))
    )
