"""Tests NormPlacementExplorer: it shows the stored runs with all their seeds, and its sentences about them are true."""

import re

import numpy as np
import pytest
from traitlets import TraitError

from glassformer.chapters.ch05.norm_placement_explorer import PLAIN
from glassformer.experiments import spread, stored
from glassformer.experiments.norm_gradients import DEPTHS, INITS
from glassformer.widgets import NormPlacementExplorer

RUNS = [run for run in stored("norm_placement") if set(run.settings) == PLAIN]
[UNIGRAM] = {run.found["unigram"] for run in RUNS}


def number(text):
    return float(text.replace("−", "-"))


def finals(depth, rate, warmup):
    """Returns the validation losses: those of pre-norm's seeds, then those of post-norm's."""
    at = {"n_layers": depth, "learning_rate": rate}
    return [
        run.found["validation_loss"]
        for placement in ("pre", "post")
        for run in RUNS
        if run.settings.items() >= (at | {"placement": placement}).items()
        and (run.settings["warmup"] > 0) == warmup
    ]


def gradients(depth, init):
    """Returns (2 · seeds, blocks): the gradients of pre-norm, then those of post-norm."""
    return np.array(
        [
            run.found[str(depth)]["gradient"]
            for placement in ("pre", "post")
            for run in stored("norm_gradients", placement=placement, init=init)
        ]
    )


def curves(w, kind):
    """Returns the points of every curve in the first drawing, in pixels."""
    w.settle()
    paths = w.root.locator(f".gf-panel-cell path.gf-norms-{kind}").evaluate_all(
        "paths => paths.map((p) => p.getAttribute('d'))"
    )
    return [np.array(re.findall(r"[ML](\S+) ([^ML]+)", path), float) for path in paths]


def marks(w, kind):
    w.settle()
    return w.root.locator(f".gf-panel-cell .gf-norms-mark.gf-norms-{kind}").count()


def test_where_every_run_ends(mount):
    w = mount(NormPlacementExplorer())
    for warmup in (False, True):
        w.set(warmup=warmup)
        table = w.table()
        settings = sorted({(run.settings["n_layers"], run.settings["learning_rate"]) for run in RUNS})
        assert [(int(cells[0]), float(cells[1])) for cells in table[1:]] == settings
        for cells, (depth, rate) in zip(table[1:], settings, strict=True):
            np.testing.assert_allclose(
                [number(cell) for cell in cells[2:]], finals(depth, rate, warmup), atol=6e-4
            )
    at_usual = {run.settings["n_layers"] for run in RUNS if run.settings["learning_rate"] == 1e-3}
    assert marks(w, "pre") == marks(w, "post") == 3 * len(at_usual)


def test_the_curves_are_those_of_the_runs(mount):
    w = mount(NormPlacementExplorer(trained_depth=4, learning_rate=3e-3))
    at = {"n_layers": 4, "learning_rate": 3e-3, "warmup": 0}
    drawn = [*curves(w, "pre"), *curves(w, "post")]
    runs = [
        run.found["loss"]
        for name in ("pre", "post")
        for run in stored("norm_placement", placement=name, **at)
    ]
    runs = [np.reshape(loss, (20, 2)).mean(axis=1) for loss in runs]  # in half as many points
    assert len(drawn) == len(runs) == 6
    pixels, losses = np.concatenate([points[:, 1] for points in drawn]), np.concatenate(runs)
    slope, start = np.polyfit(losses, pixels, 1)  # an axis is a straight line
    assert slope < -50
    np.testing.assert_allclose(slope * losses + start, pixels, atol=1.2)
    plateau = w.root.locator(".gf-guide").first.get_attribute("y1")
    assert slope * UNIGRAM + start == pytest.approx(float(plateau), abs=1)


@pytest.mark.parametrize(
    ("depth", "rate", "warmup", "words"),
    [
        (2, 1e-3, False, r"Every run of post-norm ends below every run of pre-norm\.$"),
        (
            8,
            1e-3,
            True,
            r"In all 3 runs, post-norm is stuck at 3\.35: it has learned little more than .* each character occurs\.$",
        ),
        (24, 1e-3, False, r"\. In all 3 runs, post-norm is stuck at 3\.35: .* occurs\.$"),
        (4, 1e-3, True, r"The results of the two overlap\.$|Every run of .*\.$"),
    ],
)
def test_the_sentence_says_what_is_so(mount, depth, rate, warmup, words):
    w = mount(NormPlacementExplorer(trained_depth=depth, learning_rate=rate, warmup=warmup))
    found = finals(depth, rate, warmup)
    pre, post = spread(found[:3]), spread(found[3:])
    for name, of in (("pre", pre), ("post", post)):
        assert f"{name}-norm ends at {of:.2f}" in w.says
    assert re.search(words, w.says)
    if "stuck" not in w.says:
        assert ("below every run of pre" in w.says) == (post.highest < pre.lowest)
        assert ("below every run of post" in w.says) == (pre.highest < post.lowest)


ENDS = {
    "pre wins": (
        [2.0, 2.1, 2.2],
        [2.3, 2.4, 2.5],
        "Every run of pre-norm ends below every run of post-norm.",
    ),
    "overlap": ([2.0, 2.4, 2.2], [2.3, 2.4, 2.5], "The results of the two overlap."),
    "overlap, post lower": ([2.3, 2.4, 2.5], [2.0, 2.4, 2.2], "The results of the two overlap."),
    "one stuck": ([2.0, 2.1, 2.2], [2.3, 3.3, 2.5], "In 1 of 3 runs, post-norm is stuck at 3.35:"),
    "both stuck": ([3.3, 3.3, 3.3], [3.3, 3.3, 3.3], "In all 3 runs, pre-norm is stuck"),
    "no number": (
        [2.0, 2.1, 2.2],
        [2.3, None, 2.5],
        "at least one post-norm run has no final loss. In 1 of 3",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_verdicts_that_the_runs_do_not_show(call, case):
    pre, post, words = ENDS[case]
    state = {"depth": 4, "rate": 0.1, "warmup": True, "unigram": 3.347, "ends": {"pre": pre, "post": post}}
    assert words in call("norm_placement_explorer", "trainingSentence", state)


def test_by_keyboard(mount):
    w = mount(NormPlacementExplorer())
    w.press("Learning rate", "ArrowRight", "ArrowRight")
    w.press("Warm-up (60 steps)", " ")
    w.press("Blocks", "Home")
    assert w.saved() == {"learning_rate": 0.01, "warmup": True, "trained_depth": 2}
    assert w.says.startswith("2 blocks, learning rate 0.01, with a warm-up: ")
    w.press("Gradients before training", " ")
    w.press("Blocks, untrained", "End")
    w.press("GPT-2’s", " ")
    assert w.saved() | {"view": "gradients", "untrained_depth": 64, "init": "gpt2"} == w.saved()
    assert w.says.startswith("64 blocks before any training, with GPT-2’s initial weights, ")


@pytest.fixture
def low():
    """Returns a view as if the models with 2 blocks had been trained at lower rates."""
    view = NormPlacementExplorer()
    for run in view._data["runs"]:
        if run["depth"] == 2:
            run["rate"] /= 10
    return view


def test_a_rate_that_was_not_measured_at_a_depth_goes_to_the_nearest(low):
    low.learning_rate = 0.003
    low.trained_depth = 2
    assert low.learning_rate == 0.001
    low.learning_rate = 0.0001
    low.trained_depth = 4
    assert low.learning_rate == 0.001
    with pytest.raises(TraitError, match=r"learning_rate=0.0003 is not one of 0.001, 0.003, 0.01"):
        low.learning_rate = 0.0003


def test_in_the_view_too(mount, low):
    w = mount(low)
    w.press("Learning rate", "End")
    w.press("Blocks", "Home")
    assert w.saved() == {"trained_depth": 2, "learning_rate": 0.001}
    assert w.says.startswith("2 blocks, learning rate 0.001,")
    assert w.root.get_by_text("not run").count() == 0
    w.press("Learning rate", "Home")
    assert w.root.get_by_text("not run").count() == len({run.settings["n_layers"] for run in RUNS}) - 1


@pytest.mark.parametrize("init", INITS)
def test_gradients(mount, init):
    w = mount(NormPlacementExplorer(view="gradients", init=init, untrained_depth=16))
    blocks, ratios = w.tables()
    found = gradients(16, init)
    np.testing.assert_allclose(
        [[float(cell) for cell in cells[1:]] for cells in blocks[1:]], found.T, rtol=6e-3
    )
    over = np.array([gradients(depth, init)[:, 0] / gradients(depth, init)[:, -1] for depth in DEPTHS])
    np.testing.assert_allclose(
        [[float(cell) for cell in cells[1:]] for cells in ratios[1:]], over, rtol=0.01, atol=0.006
    )
    pre, post = over[DEPTHS.index(16), :3], over[DEPTHS.index(16), 3:]
    said = [float(n) for n in re.findall(r"\d+\.\d\d", w.says)]
    np.testing.assert_allclose(
        said, [*(f(of) for of in (pre, post) for f in (np.median, np.min, np.max))], atol=0.011
    )
    drawn = np.concatenate([points[:, 1] for points in (*curves(w, "pre"), *curves(w, "post"))])
    slope, start = np.polyfit(np.log(found.ravel()), drawn, 1)
    np.testing.assert_allclose(slope * np.log(found.ravel()) + start, drawn, atol=0.5)
    assert marks(w, "pre") == marks(w, "post") == 3 * len(DEPTHS)
