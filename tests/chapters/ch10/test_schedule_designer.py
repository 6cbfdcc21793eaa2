"""Tests ScheduleDesigner: it draws the schedule that training uses, and shows only measured losses of stored runs."""

import itertools
import json
import re
import statistics

import numpy as np
import pytest

from glassformer.chapters.ch10.schedule_designer import DECAYS, ScheduleDesigner
from glassformer.experiments import stored
from glassformer.train.config import TRAINING_CHOICES
from glassformer.widgets.kit.modules import read

STATE = {"peak": 3e-3, "warmup": 30, "decay": "cosine", "final_share": 0.0, "steps": 300, "table": True}


def run(seed, end, *, steps=300, loss=(4.0, 3.0)):
    return {"seed": seed, "steps": steps, "end": end, "loss": list(loss)}


BROKEN = [run(0, None, steps=17), run(1, 3.5), run(2, None, steps=250, loss=())]
# Two peaks, with a warm-up and without, of which the highest breaks off without one
MADE_UP = {
    "steps": 300,
    "choices": [
        {"peak": 0.01, "warmup": 0, "decay": "linear", "runs": [run(0, 2.5), run(1, 2.6), run(2, 2.4)]},
        {"peak": 0.1, "warmup": 0, "decay": "linear", "runs": BROKEN},
        {"peak": 0.01, "warmup": 30, "decay": "linear", "runs": [run(0, 2.7), run(1, 2.8), run(2, 2.75)]},
        {"peak": 0.1, "warmup": 30, "decay": "linear", "runs": [run(0, 3.0), run(1, 3.1), run(2, 2.9)]},
    ],
}


def end_losses():
    """Returns the final losses of every stored choice."""
    found = {}
    for each in stored("schedules"):
        chosen = tuple(each.settings[name] for name in ("peak", "warmup", "decay"))
        found.setdefault(chosen, []).append(each.found["validation_loss"])
    return found


# --- the numbers ------------------------------------------------------------------------------------------


def test_every_decay_of_training_can_be_chosen():
    assert set(DECAYS) == set(TRAINING_CHOICES["decay"]), "add to DECAYS of schedule_designer.py"
    [in_javascript] = re.findall(r"^const DECAYS = (.*);$", read("schedule_designer"), re.M)
    assert [name for name, _ in json.loads(in_javascript)] == [*DECAYS], (
        "add to DECAYS of schedule_designer.js"
    )


def test_the_course_is_the_one_that_training_takes(call):
    states = [
        {"peak": 3e-3, "warmup": warmup, "decay": decay, "final_share": share, "steps": steps}
        for warmup, decay, share, steps in itertools.product((0, 1, 30, 200), DECAYS, (0.0, 0.35), (1, 100))
    ]
    drawn = call.each("schedule_designer", "rates", [[state] for state in states])
    for state, rates in zip(states, drawn, strict=True):
        np.testing.assert_allclose(
            rates, ScheduleDesigner(_data=MADE_UP, **state).rates(), rtol=1e-12, atol=1e-18
        )


@pytest.mark.parametrize(
    ("changes", "choice", "same"),
    [
        ({}, 2, False),  # a cosine is nearer to the line that has a warm-up, too
        ({"peak": 0.01, "decay": "linear"}, 2, True),
        ({"peak": 0.01, "decay": "linear", "steps": 2000}, 0, False),  # a small part of them
        ({"peak": 0.01, "decay": "linear", "steps": 400}, 2, False),
        ({"peak": 0.01, "decay": "linear", "final_share": 0.1}, 2, False),
        ({"peak": 0.033, "decay": "linear", "warmup": 0}, 1, False),  # peaks are compared by ratio
        ({"peak": 0.031, "decay": "linear", "warmup": 0}, 0, False),
    ],
)
def test_the_nearest_is_nearest_by_peak_then_by_shape(call, changes, choice, same):
    assert call("schedule_designer", "nearest", STATE | changes, MADE_UP) == {"index": choice, "same": same}


@pytest.mark.parametrize(
    ("peak", "top"),
    [(3e-3, 3e-3), (4e-3, 5e-3), (1e-3, 1e-3), (0.07, 0.1), (0.15, 0.2), (1.0, 1.0), (1e-4, 1e-4)],
)
def test_an_axis_ends_in_a_round_rate(call, peak, top):
    assert call("schedule_designer", "ceiling", peak) == top


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"peak": 0.01, "decay": "linear"}, "Your rate rises to 0.01 at step 30 and falls along a line to 0 at step "
         "300. It was measured: peak 0.01, warm-up 30, linear. Its 3 runs end at a validation loss of 2.75 (2.70 to "
         "2.80). Judged by the median, 1 of the other 3 choices ends lower, the lowest at 2.50: peak 0.01, no warm-up, "
         "linear."),
        ({"peak": 0.2, "warmup": 0, "decay": "none"}, "Your rate starts at 0.2 and stays there. The nearest that was "
         "measured: peak 0.1, no warm-up, linear. 2 of its 3 runs broke off, after 17 and 250 steps: the loss was not "
         "a number."),
        ({"warmup": 0, "final_share": 0.5, "steps": 1000}, "Your rate starts at 0.003 and falls along half a cosine to "
         "0.0015 at step 1,000. The nearest that was measured: peak 0.01, no warm-up, linear, in 300 steps. Its 3 runs "
         "end at a validation loss of 2.50 (2.40 to 2.60). Judged by the median, none of the other 3 choices ends "
         "lower."),
        ({"warmup": 300}, "Your rate is still rising when the run ends, at step 300. The nearest that was measured: "
         "peak 0.01, warm-up 30, linear. Its 3 runs end at a validation loss of 2.75 (2.70 to 2.80). Judged by the "
         "median, 1 of the other 3 choices ends lower, the lowest at 2.50: peak 0.01, no warm-up, linear."),
    ],
)  # fmt: skip
def test_a_sentence_says_what_was_measured(call, changes, says):
    assert call("schedule_designer", "sentence", STATE | changes, MADE_UP) == says


def test_what_is_stored_is_all_that_was_measured_and_small():
    data = ScheduleDesigner()._data
    assert len(json.dumps(data)) < 40_000
    kept = {
        (each["peak"], each["warmup"], each["decay"]): [run["end"] for run in each["runs"]]
        for each in data["choices"]
    }
    assert kept == end_losses()


# --- what is seen -----------------------------------------------------------------------------------------


def framed(w):
    w.settle()
    return w.root.locator(".gf-course[aria-pressed=true]").get_attribute("aria-label")


def test_the_table_waits_until_the_reader_opens_it(call, mount):
    said = call("schedule_designer", "sentence", STATE | {"table": False}, MADE_UP)
    assert "Its 3 runs end at" in said
    assert "Judged by the median" not in said
    w = mount(ScheduleDesigner())
    assert not w.root.locator(".gf-course").first.is_visible()
    assert len(w.tables()) == 1
    w.root.get_by_role("button", name="Show the results of all 30 schedules").click()
    w.settle()
    assert w.saved() == {"table": True}
    assert w.root.locator(".gf-course").first.is_visible()
    assert "Judged by the median" in w.says


def test_a_course_by_keyboard(mount, shoot):
    w = mount(ScheduleDesigner(table=True))
    measured = end_losses()
    shoot("schedules-900")
    w.press("Warm-up", "ArrowRight", "ArrowRight")
    w.press("linear", "Space")
    w.press("Final share", "ArrowRight")
    w.press("Peak", "ArrowRight")
    assert w.saved() == {"warmup": 40, "decay": "linear", "final_share": 0.05, "peak": 0.005}
    assert w.says.startswith(
        "Your rate rises to 0.005 at step 40 and falls along a line to 0.00025 at step 300. The nearest that was "
    )
    assert framed(w).startswith("peak 0.003, warm-up 30, linear")
    mine, all_ends = w.tables()
    expected = w.widget.rates()
    for step, share, rate in mine[1:]:
        assert float(rate) == pytest.approx(expected[int(step)], rel=6e-4)
        assert float(share) == pytest.approx(expected[int(step)] / 0.005, abs=5.1e-5)
    assert len(all_ends) == 1 + len(measured)
    for decay, warmup, peak, *seeds, median in all_ends[1:]:
        right = measured[float(peak), int(warmup), decay]
        shown = [None if text == "broke off" else float(text) for text in seeds]
        assert shown == [None if end is None else round(end, 4) for end in right]
        if None not in right:
            assert float(median) == pytest.approx(statistics.median(right), abs=5.1e-5)

    w.root.locator(".gf-course[aria-pressed=true]").focus()  # every course of the table can be chosen
    for key in ("ArrowRight", "ArrowUp", "ArrowLeft"):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved() == {"peak": 0.003, "warmup": 0, "decay": "linear", "final_share": 0.0}
    losses = measured[0.003, 0, "linear"]
    spread = f"{statistics.median(losses):.2f} ({min(losses):.2f} to {max(losses):.2f})"
    assert framed(w) == f"peak 0.003, no warm-up, linear: {spread}"
    assert f"peak 0.003, no warm-up, linear. Its 3 runs end at a validation loss of {spread}" in w.says
    assert w.root.locator(".gf-loss-chosen").count() == 3
    assert w.root.locator(".gf-course").count() == len(measured)


def test_runs_that_broke_off_say_so(mount, shoot):
    w = mount(ScheduleDesigner(_data=MADE_UP, peak=0.1, warmup=0, decay="linear", table=True))
    assert w.root.locator(".gf-course-broken").count() == 1
    assert framed(w) == "peak 0.1, no warm-up, linear: 2 of 3 runs broke off"
    assert w.root.locator(".gf-loss-broken").count() == 2
    assert w.root.locator(".gf-loss-end").count() == 1
    ends = [row[3:] for row in w.tables()[1][1:]]
    assert ends[1] == ["broke off", "3.5000", "broke off", "–"]
    shoot("schedules-broken")
