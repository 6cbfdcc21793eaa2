"""Tests that colours have enough contrast with the page and with each other, and agree in figures and views."""

import itertools
import re

import matplotlib
import numpy as np
import pytest

from glassformer import figures, role_colours
from glassformer.widgets.kit.modules import stylesheet

ROLES = role_colours.SHADES

# What someone sees who lacks one kind of cone, in linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.
VISION = {
    "trichromat": np.eye(3),
    "protanope": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranope": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanope": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# Ottosson (2020): linear RGB to cone responses, and their cube roots to Oklab.
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def themes():
    """Returns the colour variables of each theme from the stylesheet."""
    found = {"light": {}, "dark": {}}
    sheet = role_colours.variables(".gf-widget", role_colours.SHADES) + stylesheet("kit")
    for selector, block in re.findall(r"^([^{}]*){([^{}]*)}", sheet, re.MULTILINE):
        theme = "dark" if "dark" in selector else "light"
        found[theme] |= re.findall(r"--gf-([\w-]+): (#\w{6});", block)
    assert found["light"].keys() == found["dark"].keys() > ROLES.keys()
    return found


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    low, high = sorted(linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def oklab(colour, vision):
    seen = np.clip(vision @ linear(colour), 0, 1)
    return TO_OKLAB @ np.cbrt(TO_CONES @ seen)


def test_contrast_is_measured_as_wcag_does():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("background", ["surface", "sunken"])
def test_text_and_marks_stand_out(theme, background):
    colours = themes()[theme]
    for text in ["ink", "muted", "right", "wrong"]:
        assert contrast(colours[text], colours[background]) >= 4.5, text
    for mark in [*ROLES, "line-strong", "focus"]:
        assert contrast(colours[mark], colours[background]) >= 3, mark


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_two_roles_look_alike_whichever_cones_one_has(theme, vision):
    for a, b in itertools.combinations(ROLES, 2):
        seen = [oklab(ROLES[role][theme], VISION[vision]) for role in (a, b)]
        assert np.linalg.norm(seen[0] - seen[1]) > 0.04, f"{a} and {b}"


def test_each_role_has_its_colour_in_the_stylesheet():
    for theme, colours in themes().items():
        assert {role: colours[role] for role in ROLES} == {role: ROLES[role][theme] for role in ROLES}


def rgb(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def test_weights_are_coloured_as_in_the_figures(call):
    t = np.linspace(0, 1, 65)
    found = np.array([rgb(colour) for colour in call.each("plot", "cividis", [[float(x)] for x in t])])
    expected = matplotlib.colormaps[figures.WEIGHTS](t)[:, :3] * 255
    assert np.abs(found - expected).max() < 6  # 33 points joined by lines
    assert call("plot", "cividis", -1) == call("plot", "cividis", 0)
    assert call("plot", "cividis", 2) == call("plot", "cividis", 1)


def test_signed_values_are_coloured_as_in_the_figures(call):
    t = np.linspace(-1, 1, 33)
    mixed = [
        re.fullmatch(r"color-mix\(in srgb, #(\w+) (\S+)%, var\(--gf-surface\)\)", colour).groups()
        for colour in call.each("plot", "diverging", [[float(x)] for x in t])
    ]
    ends = np.array([list(bytes.fromhex(end)) for end, _ in mixed])
    share = np.array([float(share) for _, share in mixed])[:, None] / 100
    found = ends * share + 0xF7 * (1 - share)  # the middle in a figure; on a page it is the page's own colour
    assert np.abs(found - figures.SIGNED.resampled(2**16)((t + 1) / 2)[:, :3] * 255).max() < 1
