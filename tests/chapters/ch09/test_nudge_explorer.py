"""Tests NudgeExplorer: loss and slopes equal those of `scratch`, finite differences converge, and steps work."""

import re

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.chapters.ch09.nudge_explorer import CONFIG, IDS, RATES, STEPS, tiny_gpt
from glassformer.widgets import NudgeExplorer

TRAITS = ("name", "at", "by", "h", "sides", "rate")
W_UP = "decoder.blocks.1.feedforward.W_up.weight"
SETTINGS = [
    {},
    {"name": "token_embedding.weight", "at": [2, 3], "by": -1.35, "sides": "both", "h": 0.01, "rate": 0.001},
    {"name": "decoder.positions.weight", "at": [11, 0], "by": 2.0, "rate": 10.0},
    {"name": "decoder.blocks.1.norm_feedforward.bias", "at": [3], "by": 0.5, "h": 1e-5, "sides": "both"},
    {"name": W_UP, "at": [3, 15], "by": -2.0, "h": 1e-4},
    {"name": "decoder.blocks.0.attention.W_q.weight", "at": [0, 2], "by": 0.2, "h": 0.1},
]


def number(text):
    return float(text.replace("−", "-").replace("+", ""))


# --- the numbers ------------------------------------------------------------------------------------------


def test_the_slopes_are_those_of_torch():
    theirs = nn.Transformer(CONFIG, generator=None, dtype=torch.float64)
    theirs.load_state_dict({name: torch.tensor(w) for name, w in tiny_gpt().state_dict().items()})
    ids = torch.tensor(IDS)
    lost = torch.nn.functional.cross_entropy(theirs(ids[:-1]), ids[1:])
    lost.backward()
    data = NudgeExplorer()._data
    for name, weight in theirs.named_parameters():
        np.testing.assert_allclose(data["gradients"][name], weight.grad, rtol=0, atol=1e-12)
    assert NudgeExplorer().computed().loss == pytest.approx(lost.item(), abs=1e-12)
    assert sum(np.size(w) for w in data["weights"].values()) == 536
    assert not np.any(data["gradients"]["decoder.positions.weight"][11])  # no guess is made there


def test_both_languages_compute_the_same(call):
    views = [NudgeExplorer(**traits) for traits in SETTINGS]
    drawn = call.each(
        "nudge_explorer", "compute", [[view._data, {t: getattr(view, t) for t in TRAITS}] for view in views]
    )
    for view, found in zip(views, drawn, strict=True):
        right = view.computed()
        for name in ("loss", "moved", "slope", "promised", "dropped"):
            assert found[name] == pytest.approx(getattr(right, name), rel=1e-12, abs=1e-12), name
        assert found["measured"] == pytest.approx(right.measured, abs=1e-14 / view.h + 1e-12)


def computed(call, *changes):
    """Returns what the page computes for the first view with some traits changed; tests above compare it to Python."""
    view = NudgeExplorer()
    begun = {trait: getattr(view, trait) for trait in TRAITS}
    return call.each("nudge_explorer", "compute", [[view._data, begun | change] for change in changes])


def test_a_difference_on_both_sides_agrees_in_more_digits_until_rounding_is_left(call):
    one, both = (
        [
            abs(found["measured"] / found["slope"] - 1)
            for found in computed(call, *({"h": h, "sides": sides} for h in STEPS))
        ]
        for sides in ("one", "both")
    )
    assert one[:6] == sorted(one[:6], reverse=True)
    assert both[1:5] == sorted(both[1:5], reverse=True)
    assert both[5] < 1e-8 < 1e-6 < one[5] < 1e-4
    assert both[-1] > 1e-6
    pairs = [[1, 1.0], [1, 1.2], [-0.5, -0.5004], [0.25, 0.3], [0, 0], [0, 1e-9], [2, -2], [1, 1 + 3e-10]]
    assert call.each("nudge_explorer", "digits", pairs) == [15, 0, 3, 0, 15, 0, 0, 9]


def test_a_small_step_falls_by_what_was_promised_and_a_large_one_rises(call):
    kept = [
        found["dropped"] / found["promised"] for found in computed(call, *({"rate": rate} for rate in RATES))
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == pytest.approx(1, abs=0.01)
    assert kept[-1] < 0


# --- what is seen -----------------------------------------------------------------------------------------


def readout(w):
    w.settle()
    rows = w.root.locator(".gf-readout tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    return {label: value if value == "all" else number(value) for label, value in rows}


def check(w):
    """Checks that the text, the sentence and the tables show what Python computes."""
    w.saved()
    right, shown = w.widget.computed(), readout(w)
    assert shown["loss at the start"] == pytest.approx(right.loss, abs=5.1e-7)
    assert shown["loss now"] == pytest.approx(right.moved, abs=5.1e-7)
    assert shown["slope, backward pass"] == pytest.approx(right.slope, abs=5.1e-13)
    assert shown["slope, finite difference"] == pytest.approx(
        right.measured, abs=1e-14 / w.widget.h + 5.1e-13
    )
    assert shown["promised, η‖g‖²"] == pytest.approx(right.promised, abs=5.1e-7)
    assert shown["fell by"] == pytest.approx(right.dropped, abs=5.1e-7)
    assert shown["fell ÷ promised"] == pytest.approx(right.dropped / right.promised, abs=5.1e-4)
    return right


def test_a_weight_is_chosen_moved_and_measured_by_keys(mount, call):
    w = mount(NudgeExplorer())
    w.press("Move this one by", *["ArrowRight"] * 4)
    w.press("h of the finite difference", *["ArrowRight"] * 3)
    w.press("both sides", "Space")
    w.press("Learning rate η of a step", "End")
    right = check(w)
    assert w.saved() == {"by": pytest.approx(0.2), "h": 0.001, "sides": "both", "rate": 10}
    said = w.says
    assert f"the loss is {right.moved:.3f}; the tangent says {right.loss + 0.2 * right.slope:.3f}." in said
    assert f"would lower the loss by {-right.slope:.3f}" in said
    assert "h = 0.001" in said
    assert "it rises by" in said
    w.page.keyboard.press("Tab")  # in the drawing, the chosen weight alone
    w.settle()
    assert w.root.locator(":focus").get_attribute("aria-label").startswith("block 0, W_o 1, 1: −0.51")
    w.page.keyboard.press("ArrowRight")
    w.page.keyboard.press("ArrowDown")
    assert (w.get("at"), w.get("by")) == ([2, 2], 0)
    assert w.root.locator(".gf-here").count() == w.root.locator(".gf-map [tabindex='0']").count() == 1

    tables = w.tables()
    for column, sides in ((1, "one"), (3, "both")):
        right = computed(call, *({"at": [2, 2], "h": h, "sides": sides} for h in STEPS))
        shown = [number(row[column]) for row in tables[0][1:]]
        assert shown == pytest.approx([found["measured"] for found in right], abs=5.1e-13)
    right = computed(call, *({"rate": rate} for rate in RATES))
    assert [number(row[2]) for row in tables[1][1:]] == pytest.approx(
        [found["dropped"] for found in right], abs=5.1e-7
    )

    curve = w.root.locator(".gf-panel").first.locator(".gf-loss").get_attribute("d")
    heights = [float(y) for _, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", curve)][::10]
    losses = [found["moved"] for found in computed(call, *({"at": [2, 2], "by": by} for by in range(-2, 3)))]
    scale = (heights[4] - heights[0]) / (losses[4] - losses[0])
    assert heights == pytest.approx([heights[0] + scale * (x - losses[0]) for x in losses], abs=0.12)

    for name, at in ((W_UP, [0, 0]), ("decoder.norm.bias", [0]), ("decoder.positions.weight", [0, 0])):
        w.control("Weights").select_option(str(list(w.widget._data["weights"]).index(name)))
        w.settle()
        assert w.get("at") == at
        slope = np.array(w.widget._data["gradients"][name])[tuple(at)]
        assert readout(w)["slope, backward pass"] == pytest.approx(slope, abs=5.1e-13)
    w.saved()  # Python follows, whatever array that is
    w.set(at=[11, 3], by=1.0)
    assert readout(w)["slope, backward pass"] == 0
    assert "The slope is exactly 0" in w.says
    assert readout(w)["digits that agree"] == "all"


def test_another_array_begins_at_its_first():
    view = NudgeExplorer()
    view.name = "decoder.norm.bias"
    assert view.at == [0]
