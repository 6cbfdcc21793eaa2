"""Tests LossWatcher: which points of a run it stores, how rarely it updates the page, and how the run plays."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from glassformer.chapters.ch10 import loss_watcher
from glassformer.chapters.ch10.loss_watcher import LONGEST, PACES, SMOOTH, LossWatcher

ROOT = Path(__file__).parents[3]
LANDMARKS = {"bigram": 2.46, "ln V": math.log(65), "unigram": 3.31}
STEPS = 300


def course(steps=STEPS):
    """Returns a noisy loss that falls past the landmarks."""
    step = np.arange(steps)
    noise = np.random.default_rng(0).normal(0, 0.05, steps)
    return (1.9 + 2.35 * np.exp(-step / 60) + noise).tolist()


def text(step):
    return f"After {step} steps:\nmy kin" + "gdom " * (step // 50)


def a_run(**traits):
    samples = [(step, text(step)) for step in range(0, STEPS, 50)]
    told = {"landmarks": LANDMARKS, "steps": STEPS, "per_step": 512}
    return LossWatcher.recorded(enumerate(course()), samples, **told | traits)


def smoothed(points, over):
    """Returns the average over the last steps, where every step has the average of the point that represents it."""
    steps = [point[0] for point in points]
    per_step = np.concatenate(
        [np.full(1 if i == 0 else steps[i] - steps[i - 1], point[1]) for i, point in enumerate(points)]
    )
    found = []
    for now in steps:
        first = next(i for i, step in enumerate(steps) if step > now - over)
        start = 0 if first == 0 else steps[first - 1] + 1 - steps[0]
        found.append(per_step[start : now + 1 - steps[0]].mean())
    return found


# --- what is kept -----------------------------------------------------------------------------------------


def test_the_first_steps_are_kept_one_by_one_and_later_ones_together():
    losses = course(2000)
    points = LossWatcher.recorded(enumerate(losses)).points
    assert [point[0] for point in points[:97]] == list(range(97))
    ends = [point[0] + 1 for point in points]
    for (step, mean, lowest, highest), start, end in zip(points, [0, *ends], ends, strict=False):
        some = losses[start:end]
        assert end - start <= max(1, math.ceil(step / 96))
        np.testing.assert_allclose(
            [mean, lowest, highest], [np.mean(some), min(some), max(some)], atol=5.1e-5
        )
    assert ends[-1] == 2000  # none is left out
    assert len(points) < 450


def test_a_long_run_with_many_samples_stays_small():
    rare = "\N{GRINNING FACE}" * 1000
    watcher = LossWatcher.recorded(
        ((step, 12.3456 + step % 7) for step in range(10_000)),
        ((step, rare) for step in range(60)),
    )
    assert len(watcher.points) < 96 * (1 + math.log(10_000 / 96)) + 2  # 442 more for 100 times as many steps
    assert len(json.dumps(watcher.get_state(["points", "samples"]))) < 42_000
    assert watcher.samples[0][0] == 0  # the first and the last survive
    assert watcher.samples[-1] == [59, rare[:LONGEST]]


def test_the_page_is_told_a_few_times_a_second(monkeypatch):
    now = 0.0
    monkeypatch.setattr(loss_watcher.time, "monotonic", lambda: now)
    watcher, told = LossWatcher(steps=1000), []
    watcher.observe(lambda change: told.append(len(change["new"])), "points")
    for step in range(1000):
        watcher.add(step, 3.0)
        now += 0.01
    assert 38 <= len(told) <= 41  # ten seconds, every quarter of one, and the end
    assert watcher.points[-1][0] == 999
    watcher.say(999, "my kingdom")  # of a run that is over it is told at once
    assert watcher.samples == [[999, "my kingdom"]]


def test_step_0_begins_another_run():
    watcher = a_run(at=20)
    watcher.add(0, 4.0)
    watcher.finish()
    assert (watcher.points, watcher.samples) == ([[0, 4.0, 4.0, 4.0]], [])
    watcher.say(0, "zq")
    watcher.add(5, math.nan)
    watcher.finish()
    assert watcher.points[1] == [5, None, None, None]
    assert watcher.samples == [[0, "zq"]]
    for step in (5, 3, -1):
        with pytest.raises(ValueError, match=rf"step={step} must come after step 5"):
            watcher.add(step, 1.0)
    watcher.say(0, "before the first loss")
    watcher.add(0, 4.0)
    watcher.finish()
    assert (len(watcher.points), watcher.samples) == (1, [[0, "before the first loss"]])


# --- the numbers ------------------------------------------------------------------------------------------


def test_the_line_is_a_mean_of_what_came_before(call):
    points = a_run().points
    lines = call.each("loss_watcher", "smoothed", [[points, over] for over in SMOOTH])
    for over, line in zip(SMOOTH, lines, strict=True):
        np.testing.assert_allclose(line, smoothed(points, over), rtol=1e-12)
    broken = [*points[:20], [20, None, None, None], *points[21:]]
    line = call("loss_watcher", "smoothed", broken, 10)
    assert [i for i, loss in enumerate(line) if loss is None] == list(range(20, 30))


STATE = {"step": 100, "loss": 3.0, "landmarks": LANDMARKS, "per_step": 0, "steps": 0, "newest": True}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "After 100 steps: loss 3.00, below the unigram’s 3.31: lower than for a model that "
             "knows only how often each character occurs."),
        ({"loss": 2.31, "per_step": 512, "steps": 300}, "After 100 steps, 51,200 characters read: loss 2.31, "
             "below the bigram’s 2.46: lower than for a model that knows only which character follows which. "
             "200 steps to go."),
        ({"loss": 3.9, "newest": False, "steps": 300}, "After 100 steps: loss 3.90, below ln V = 4.17: lower "
             "than for a model that gives every character the same chance."),
        ({"loss": 4.1, "step": 1}, "After 1 step: loss 4.10, near ln V = 4.17: what it costs to give every "
             "character the same chance."),
        ({"loss": 4.6}, "After 100 steps: loss 4.60, above ln V = 4.17: worse than giving every character the "
             "same chance."),
        ({"loss": 4.6, "landmarks": {"yesterday": 2.0}}, "After 100 steps: loss 4.60, above the yesterday’s 2.00."),
        ({"loss": None}, "After 100 steps: the loss is not a number. Training has diverged."),
        ({"landmarks": {}}, "After 100 steps: loss 3.00."),
        ({"step": 298, "steps": 300, "landmarks": {}}, "After 298 steps: loss 3.00. 2 steps to go."),
        ({"step": 299, "steps": 300, "landmarks": {}}, "After 299 steps: loss 3.00."),
        ({"step": 300, "steps": 300, "landmarks": {}}, "After 300 steps: loss 3.00."),
        ({"step": None, "steps": 300}, "No loss yet of 300 steps: the curve grows while the training runs."),
    ],
)  # fmt: skip
def test_a_sentence_says_where_it_is(call, changes, says):
    assert call("loss_watcher", "sentence", STATE | changes) == says


# --- what is seen -----------------------------------------------------------------------------------------


def paper(w):
    w.settle()
    return w.root.locator(".gf-loss-paper").inner_text()


def test_a_recorded_run_by_keyboard(mount, shoot):
    w = mount(a_run())
    points = w.widget.points
    line = smoothed(points, 10)
    assert w.says.startswith(
        f"After 299 steps, {299 * 512:,} characters read: loss {line[-1]:.2f}, below the bigram’s"
    )
    assert paper(w) == text(250)
    assert w.root.locator(".gf-loss-sample").count() == 6
    shoot("losswatcher-900")

    w.press("Step", "Home", "ArrowRight", "ArrowRight")
    assert w.saved()["at"] == 2
    assert w.says.startswith(f"After 2 steps, 1,024 characters read: loss {line[2]:.2f}")
    assert paper(w) == text(0)
    w.root.get_by_role("button", name="Next sample").press("Enter")
    w.settle()
    assert w.says.startswith("After 50 steps")
    assert paper(w) == text(50)
    w.press("Step", "End", "ArrowLeft")
    assert w.get("at") == len(points) - 2
    assert w.says.startswith(f"After {points[-2][0]} steps")

    w.press("Average over", "ArrowRight")
    w.press("log", "Space")
    w.press("Raw losses as well", "Space")
    assert (w.saved() | {"at": 0}) == {"at": 0, "smooth": 20, "axis": "log", "raw": False}
    line = smoothed(points, 20)
    marks, losses = w.tables()
    for name, value, at in marks[1:]:
        below = next(point[0] for point, loss in zip(points, line, strict=True) if loss < LANDMARKS[name])
        assert float(value) == pytest.approx(LANDMARKS[name], abs=5e-5)
        assert int(at) == below
    assert [name for name, *_ in marks[1:]] == ["ln V", "unigram", "bigram"]
    np.testing.assert_allclose([float(row[2]) for row in losses[1:]], line[:-1], atol=5.1e-5)
    assert "Loss by step, up to step" in w.label


def labels(w):
    return w.root.locator(".gf-curve-name").all_text_contents()


def test_a_finished_run_that_begins_at_its_first_step_gives_nothing_away(mount):
    """No landmark is said to be passed, and no later sample is written, until the reader gets there."""
    run = a_run()
    run.add(STEPS, 1.9)  # after the last step
    run.say(STEPS, "after all of them")
    run.finish()
    run.at = 0
    w = mount(run)
    w.settle()
    assert w.says.startswith("After 0 steps")
    assert paper(w) == text(0)
    assert labels(w) == ["ln V 4.17", "unigram 3.31", "bigram 2.46"]
    assert [row[2] for row in w.tables()[0][1:]] == ["not yet"] * 3
    w.press("Step", "End")
    assert w.says.startswith(f"After {STEPS} steps, {STEPS * 512:,} characters read")
    title = w.root.locator(".gf-loss-written .gf-panel-title").inner_text()
    assert title == f"What it writes after {STEPS} steps"
    assert paper(w) == "after all of them"
    assert all("first below at step" in label for label in labels(w))


def test_the_chapters_own_run_is_stored_whole():
    notebook = json.loads((ROOT / "notebooks" / "10-training.ipynb").read_text(encoding="utf-8"))
    [views] = [kind["state"].values() for kind in notebook["metadata"]["widgets"].values()]
    [run] = [view["state"] for view in views if "per_step" in view["state"]]
    assert run["at"] == -1  # at its end
    assert run["points"][-1][0] == run["steps"] == run["samples"][-1][0]


def test_the_curve_is_seen_as_far_as_the_reader_is(mount):
    w = mount(a_run())
    shown = w.root.locator("clipPath rect")
    for at in (0, 60, -1):
        w.set(at=at)
        step = w.widget.points[at][0]
        assert float(shown.get_attribute("width")) == pytest.approx(40 + 310 * step / 300 + 0.5, abs=0.06)
    box = w.root.locator(".gf-loss-chart").bounding_box()
    w.page.mouse.move(box["x"] + box["width"] * (40 + 310 * 60 / 300) / 360, box["y"] + 60)
    assert w.get("at") == -1  # a hand that passes by moves nothing
    w.page.mouse.down()
    w.settle()
    assert w.get("at") == 60
    w.page.mouse.up()


def test_it_grows_with_the_training(mount):
    w = mount(LossWatcher(landmarks=LANDMARKS, steps=STEPS))
    assert w.says.startswith("No loss yet of 300 steps")
    assert w.root.get_by_role("button", name="Play").is_disabled()
    assert paper(w) == "Nothing yet."
    empty = w.root.locator(".gf-widget").bounding_box()["height"]
    for step, loss in enumerate(course()[:120]):
        w.widget.add(step, loss)
    w.widget.say(100, "horse")
    w.widget.finish()
    w.set()
    line = smoothed(w.widget.points, 10)
    assert w.says.startswith(f"After 119 steps: loss {line[-1]:.2f}, below")
    assert w.says.endswith("181 steps to go.")
    assert paper(w) == "horse"
    w.press("Step", "Home")  # whoever looks back is left there
    assert w.saved()["at"] == 0
    w.widget.add(120, 2.0)
    w.widget.finish()
    w.set()
    assert w.says.startswith("After 0 steps")
    assert w.root.locator(".gf-widget").bounding_box()["height"] == pytest.approx(empty, abs=1)


def some_frames(w):
    """As many as a run that plays needs to go on by a step, and more."""
    for _ in range(10):
        w.settle()


def test_it_plays_when_it_is_told_to(mount):
    w = mount(a_run(pace=15))
    some_frames(w)
    assert w.get("at") == -1  # nothing moves by itself
    play = w.root.locator(".gf-loss-player button").first
    play.press("Enter")
    expect(play).to_have_text("Pause")
    w.page.wait_for_function("window.mounted[0].model.get('at') > 3")
    play.press("Enter")
    expect(play).to_have_text("Play")
    there = w.get("at")
    some_frames(w)
    assert w.get("at") == there == w.saved()["at"]
    w.set(at=len(w.widget.points) - 4)
    play.press("Enter")
    w.page.wait_for_function("window.mounted[0].model.get('at') === -1")  # it ends at the end
    expect(play).to_have_text("Play")


def test_with_less_motion_it_goes_from_sample_to_sample(mount):
    w = mount(a_run())
    w.page.emulate_media(reduced_motion="reduce")
    try:
        w.hold_beats()
        w.root.get_by_role("button", name="Play").press("Enter")
        seen = []
        while w.beat():
            seen.append(w.get("at"))
        steps = [w.widget.points[at][0] for at in seen]
        assert steps[:2] == [50, 100]
        assert all(0 <= step - 50 * (i + 1) < 5 for i, step in enumerate(steps[:5]))
        assert seen[5:] == [-1]
    finally:
        w.page.emulate_media(reduced_motion="no-preference")


def test_every_pace_and_mean_can_be_chosen(mount):
    w = mount(LossWatcher())
    w.press("Plays in", "Home")
    w.press("Average over", "End")
    assert w.saved() == {"pace": PACES[0], "smooth": SMOOTH[-1]}
