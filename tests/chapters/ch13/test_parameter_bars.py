"""Tests ParameterBars: it counts every model of the book as ModelConfig does, and its areas are true to scale."""

import math
import re

import pytest

from glassformer import shipped
from glassformer.chapters.ch13.parameter_bars import NONE, SORTS, ParameterBars, configs, year
from glassformer.config import FAMILIES
from glassformer.published import PUBLISHED, TEACHING

COUNTS = {name: config.parameter_count() for name, config in configs().items()}
MODELS = ParameterBars()._models


def share(name, part):
    return next((p.count for p in COUNTS[name].parts if p.name == part), 0) / COUNTS[name].total


# --- the numbers ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted(call):
    return call.each("parameter_bars", "counted", [[model] for model in MODELS])


def test_every_model_of_the_book_is_counted_to_the_digit(call, counted):
    assert [model["name"] for model in counted] == list(COUNTS)
    later = {name for name, one in PUBLISHED.items() if "token uses" in one.note}  # which have experts
    later |= {"experts"}
    assert set(COUNTS) == {*PUBLISHED, *TEACHING, *shipped.NAMES} - later
    assert len(later) > 5
    for model in counted:
        count = COUNTS[model["name"]]
        expected = [(p.name, p.times, p.each, p.count) for p in count.parts]
        assert [(p["name"], p["times"], p["each"], p["count"]) for p in model["parts"]] == expected
        assert model["total"] == count.total
    for name in {*PUBLISHED, *TEACHING} - later:
        assert COUNTS[name].total == (PUBLISHED | TEACHING)[name].n_parameters
    for name in {*shipped.NAMES} - later:
        weights = shipped.load(name)[0].named_parameters().values()
        assert COUNTS[name].total == sum(weight.size for weight in weights)
    spelled = call.each("counting", "formulaOf", [[part] for model in counted for part in model["parts"]])
    written = [str(part) for count in COUNTS.values() for part in count.parts]
    assert [re.sub(r"(?<=\d),(?=\d)", "", text) for text in spelled] == written


def test_years_are_those_of_the_sources():
    years = {"gpt2": 2019, "gpt3": 2020, "t5-v1.1-base": 2020, "llama-3-8b": 2024, "qwen3-8b": 2025}
    assert {name: year(name) for name in years} == years
    assert all(str(year(name)) in one.source for name, one in PUBLISHED.items())
    assert {year(name) for name in (*TEACHING, *shipped.NAMES)} == {None}


@pytest.mark.parametrize("sort", SORTS)
def test_models_are_put_in_order(call, counted, sort):
    by = {
        "size": lambda name: COUNTS[name].total,
        "year": lambda name: year(name) or 0,
        "feed-forward": lambda name: share(name, "feed-forward"),
    }[sort]
    slim = [m | {"parts": [p for p in m["parts"] if p["name"] == "feed-forward"]} for m in counted]
    seen = call.each("parameter_bars", "arranged", [[slim, family, sort] for family in ("all", *FAMILIES)])
    assert len(seen[0]) == len(COUNTS) == sum(map(len, seen[1:]))
    for family, models in zip(("all", *FAMILIES), seen, strict=True):
        assert {model["family"] for model in models} == ({*FAMILIES} if family == "all" else {family})
        values = [by(model["name"]) for model in models]
        assert values == sorted(values)


def test_areas_are_true_to_scale(call, counted):
    full = next(model for model in counted if model["name"] == "gpt3")
    sides = call.each("parameter_bars", "side", [[model, full] for model in counted])
    for model, side in zip(counted, sides, strict=True):
        assert side**2 == pytest.approx(model["total"] / full["total"], rel=1e-12)


def test_the_small_ones_vanish_in_words(call, counted):
    of = {model["name"]: model for model in counted}
    pairs = "teaching-736 gpt3", "gpt2 gpt3", "gpt3 gpt3", "gpt3 gpt2", "gpt2 gpt2-medium"
    said = call.each("parameter_bars", "onScale", [[of[name] for name in pair.split()] for pair in pairs])
    N = {name: count.total for name, count in COUNTS.items()}
    pixels = 340 * math.sqrt(N["teaching-736"] / N["gpt3"])
    assert said == [
        f"teaching-736 is a dot, {pixels:.2g} of a pixel high: 237 million of it would fill the frame.",
        f"gpt2: {N['gpt3'] / N['gpt2']:,.0f} of it would fill the frame.",
        "gpt3 fills the frame.",
        f"gpt3 is {N['gpt3'] / N['gpt2']:,.0f} times the frame.",
        f"gpt2: {N['gpt2-medium'] / N['gpt2']:.1f} of it would fill the frame.",
    ]


# --- what is seen -----------------------------------------------------------------------------------------


def names(w):
    w.settle()
    return w.root.locator(".gf-one-model").evaluate_all("rows => rows.map(r => r.firstChild.firstChild.data)")


def bars(w, name):
    """Returns the share of each part in a bar of the list, as laid out."""
    row = w.root.locator(".gf-one-model").nth(names(w).index(name))
    return row.locator(".gf-stack span").evaluate_all(
        "spans => Object.fromEntries(spans.map(s =>"
        " [s.dataset.part, s.getBoundingClientRect().width / s.parentNode.clientWidth]))"
    )


def rows(w):
    """Returns, for each part, the parameters of this model and of the other."""
    table = w.tables()[0]
    return {row[0]: [int(cell.replace(",", "")) for cell in row[3::2]] for row in table[1:]}


def right(*models):
    parts = {part.name for name in models for part in COUNTS[name].parts}
    found = {part: [round(share(name, part) * COUNTS[name].total) for name in models] for part in parts}
    return found | {"total": [COUNTS[name].total for name in models]}


def test_shares_by_keyboard(mount, shoot):
    w = mount(ParameterBars())
    shoot("sizes-900")
    assert names(w) == list(COUNTS)
    for name in ("teaching-736", "gpt2", "t5-base", "gpt3"):
        for part, width in bars(w, name).items():
            assert width == pytest.approx(share(name, part), abs=2e-3), (name, part)
    assert w.says == (
        "gpt2. Feed-forward: 12 × (2D·F + F + D) = 12 × (2·768·3,072 + 3,072 + 768) = 56,669,184, 45.5 % of all. "
        "In gpt3 it is 66.4 %."
    )
    assert rows(w) == right("gpt2", "gpt3")
    w.root.locator(".gf-one-model[tabindex='0']").focus()
    w.page.keyboard.press("ArrowDown")
    assert w.saved()["model"] == "smollm2-135m"
    w.page.keyboard.press("Home")
    assert w.saved()["model"] == "teaching-512"
    w.control("Compare with").select_option("teaching-736")
    assert rows(w) == right("teaching-512", "teaching-736")
    w.press("year", "Space")
    years = [year(name) or 0 for name in names(w)]
    assert years == sorted(years)
    w.press("encoder–decoders", "Space")
    assert {configs()[name].family for name in names(w)} == {"encoder-decoder"}
    w.press("feed-forward", "Space")
    shares = [share(name, "feed-forward") for name in names(w)]
    assert shares == sorted(shares)
    assert w.root.locator(".gf-one-model[tabindex='0']").count() == 1  # the chosen one is not among them
    w.control("Model").select_option("t5-base")
    w.control("Compare with").select_option("0")
    assert w.saved()["other"] == NONE
    assert rows(w) == {part: [count] for part, (count,) in right("t5-base").items()}
    w.root.locator(".gf-part-row.gf-here").focus()
    w.page.keyboard.press("ArrowUp")
    assert w.says == "t5-base. Cross-attention: 12 × 4D² = 12 × 4·768² = 28,311,552, 12.7 % of all."
    costs = w.root.locator(".gf-readout").inner_text()
    assert re.findall(r"[\d.]+ [kMG]B", costs) == ["892 MB", "446 MB", "223 MB"]
    assert "446 million" in costs


def test_sizes_by_keyboard(mount, shoot):
    w = mount(ParameterBars(other=NONE))
    w.press("sizes", "Space")
    assert w.control("Model that fills the frame").get_attribute("aria-valuetext") == "gpt2-xl, 1.56 billion"
    frame, box = (w.root.locator(s).bounding_box() for s in (".gf-areas", ".gf-box.gf-here"))
    ratio = box["width"] * box["height"] / (frame["width"] * frame["height"])
    assert ratio == pytest.approx(COUNTS["gpt2"].total / COUNTS["gpt2-xl"].total, rel=0.02)
    shown = w.root.locator(".gf-box:not([hidden])").count()
    assert shown == sum(count.total <= COUNTS["gpt2-xl"].total for count in COUNTS.values())
    shoot("sizes-areas-900")
    w.press("Model that fills the frame", "End")
    assert w.saved()["scale"] == "gpt3"
    assert w.says.endswith("of a pixel high: 237 million of it would fill the frame.")
    assert w.root.locator(".gf-dot").inner_text() == "gpt2, teaching-736"
    assert "Areas true to scale, gpt3 filling the frame." in w.label
    w.press("Model that fills the frame", "ArrowLeft")
    assert w.saved()["scale"] == "llama-2-70b"
    w.press("Model that fills the frame", "Home")
    assert w.says.startswith("gpt2 is 243,047 times the frame.")
    w.set(scale="teaching-736")
    assert w.root.locator(".gf-box:not([hidden])").count() == 2
    assert w.says.endswith("teaching-736 fills the frame.")
    w.set(scale="gpt2-xl")
    w.settle()
    w.root.locator(".gf-areas").click(position={"x": frame["width"] - 12, "y": 12})
    assert w.saved()["model"] == "gpt2-xl"
