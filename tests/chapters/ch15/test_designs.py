"""Tests the checker with designs and mistakes of many kinds: no right design is accused, and mistakes are named."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.chapters.ch15.capstone import origin
from glassformer.chapters.ch15.capstone.adapter import Told
from glassformer.chapters.ch15.capstone.judge import OPEN, RIGHT, STAGES, WRONG, judge
from glassformer.chapters.ch15.capstone.returned import told_if_averaged
from glassformer.chapters.ch15.capstone.trained import is_table_of_sinusoids
from tests.exercises.test_numpy_alone import LIBRARIES

from .designs.parts import Adapter, design
from .edits import EDITS, edited
from .right import DESIGNS, LEFT_OUT, UNKNOWN, UNSEEN, Attends
from .slips import CAUSES, REMARKED, SLIPS, TOLD

AMPLE = 580.0  # seconds; the machine that tests may be busy
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def on_one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", DESIGNS)
def test_no_right_design_is_accused(name):
    adapter, stages, remarks = DESIGNS[name]
    found = {stage: judge(adapter, stage, AMPLE) for stage in stages}
    assert {stage: one.message for stage, one in found.items() if one.status != RIGHT} == {}
    told = [remark for one in found.values() for remark in one.remarks]
    assert len(told) == len(remarks), told
    assert [part for part in remarks if not any(part in one for one in told)] == []


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_cannot_be_judged_is_no_mistake(name):
    adapter, inside = LEFT_OUT[name]
    found = judge(adapter, "attention", AMPLE)
    assert found.status == OPEN
    assert inside in found.message
    assert "leave `attention` out of the adapter" in found.message


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_found_out_is_no_mistake(name):
    found = judge(UNKNOWN[name], "model", AMPLE)
    assert found.status == OPEN
    assert "or they start at zero" in found.message
    assert "write `weights` or `learn` first" in found.message


@pytest.mark.parametrize("name", UNSEEN)
def test_a_check_with_nothing_to_look_at_has_not_passed(name):
    adapter, stage, title, why = UNSEEN[name]
    found = judge(adapter, stage, AMPLE)
    assert (found.status, found.message) == (RIGHT, "")
    assert why in found.unseen[title]


@pytest.mark.parametrize("name", TOLD)
def test_what_is_no_chapters_mistake_is_told(name):
    adapter, stage, part = TOLD[name]
    found = judge(adapter, stage, AMPLE)
    assert (found.status, found.mistake) == (WRONG, "")
    assert part in found.message


@pytest.mark.parametrize("name", CAUSES)
def test_what_was_done_is_among_the_causes_that_are_told(name):
    adapter, stage, part = CAUSES[name]
    found = judge(adapter, stage, AMPLE)
    assert found.status == WRONG
    assert part in found.message


@pytest.mark.parametrize("name", SLIPS)
def test_a_mistake_is_named(name):
    adapter, stage, mistake = SLIPS[name]
    found = judge(adapter, stage, AMPLE)
    assert (found.status, found.mistake) == (WRONG, mistake), found.message


@pytest.mark.parametrize("name", EDITS)
def test_a_mistake_in_one_line_is_named(name):
    stage, mistake, *changes = EDITS[name]
    found = judge(edited(*changes), stage, AMPLE)
    assert (found.status, found.mistake) == (WRONG, mistake), found.message


def test_the_design_whose_lines_are_changed_is_right():
    found = {stage: judge(edited(), stage, AMPLE) for stage in STAGES}
    assert {stage for stage, one in found.items() if one.status == WRONG} == set()
    assert {stage for stage, one in found.items() if one.status == OPEN} == {"shipped"}


@pytest.mark.parametrize("name", REMARKED)
def test_what_may_be_meant_is_remarked_on(name):
    adapter, stage, part = REMARKED[name]
    found = judge(adapter, stage, AMPLE)
    assert (found.status, found.message) == (RIGHT, "")
    assert any(part in one for one in found.remarks), found.remarks


def test_pytorchs_attention_may_run_a_model_that_has_an_attention_of_its_own():
    class Fast:
        def logits(self, ids):
            q = self.model.embed(ids)[:, None]
            torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            return super().logits(ids)

    found = [judge(one, "model", AMPLE) for one in (design("A", Fast), design("B", Fast, Attends))]
    assert [(one.status, one.mistake) for one in found] == [(WRONG, "borrowed"), (RIGHT, "")]


def test_the_frames_of_the_checker_and_of_texts_are_nobodys_model():
    run = Adapter().encode
    assert origin.borrowed(lambda: run("A horse!")) == []


def test_numpy_stages_need_numpy_and_the_standard_library_alone():
    program = """
import json, sys
blocked = sys.argv[1:]
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ImportError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Blocked())
from glassformer.chapters.ch15.capstone.judge import STAGES, judge
from tests.chapters.ch15.designs import functions
names = [name for name in STAGES if name != "shipped"]  # the book's own model is in a file of safetensors
print(json.dumps({name: judge(functions.Mine, name, 300.0).status for name in names}))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, *LIBRARIES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert json.loads(ran.stdout.splitlines()[-1]) == dict.fromkeys(list(STAGES)[:-1], RIGHT)


def test_a_table_of_sinusoids_is_known_in_every_layout():
    angles = np.arange(24)[:, None] / 10000 ** (np.arange(8) / 8)
    sin, cos = np.sin(angles), np.cos(angles)
    halves = np.concatenate([sin, cos], axis=1)
    neighbors = np.stack([sin, cos], axis=2).reshape(24, 16)
    right = [halves, neighbors, halves.astype(np.float32), 3 * halves[None], cos[:, :4]]
    assert [is_table_of_sinusoids(one) for one in right] == [True] * len(right)
    noise = np.random.default_rng(0).normal(size=halves.shape)
    wrong = [
        noise,
        halves + 0.02 * noise,
        0 * halves,
        1 + 0 * halves,
        noise[0],
        halves[:3],
        np.arange(24.0)[:, None],
    ]
    assert [is_table_of_sinusoids(one) for one in wrong] == [False] * len(wrong)


def falling(by, rng):
    """Returns the losses of seven steps on different batches, in single precision."""
    return (4.18 - by * np.arange(7) + rng.normal(0, 0.003, 7)).astype(np.float32).astype(np.float64)


def faded(losses, kept, corrected):
    average = [losses[0]]
    for loss in losses[1:]:
        average.append(kept * average[-1] + (1 - kept) * loss)
    if corrected:  # one that begins at 0
        average = [
            (1 - kept) * np.sum(losses[: t + 1] * kept ** np.arange(t, -1, -1)) / (1 - kept ** (t + 1))
            for t in range(7)
        ]
    return np.array(average)


AVERAGES = {
    "of the last three": lambda x: np.array([x[max(0, t - 2) : t + 1].mean() for t in range(7)]),
    "of all so far": lambda x: np.cumsum(x) / np.arange(1, 8),
    "the lowest so far": np.minimum.accumulate,
    "running": lambda x: faded(x, 0.9, corrected=False),
    "running, slowly": lambda x: faded(x, 0.99, corrected=False),
    "running, corrected": lambda x: faded(x, 0.98, corrected=True),
}
RANDOM = {  # what may come on top of a loss that is right
    "dropout": lambda right, rng: rng.normal(0, 0.005, 7),
    "much dropout": lambda right, rng: rng.normal(0.02, 0.02, 7),
    "a penalty for large weights": lambda right, rng: 0.05 + rng.normal(0, 1e-6, 7),
    "smoothed targets": lambda right, rng: 0.1 * (4.2 + rng.normal(0, 0.003, 7) - right),
}


@pytest.mark.parametrize(
    "by", [0.0, 0.002, 0.01, 0.05]
)  # a warm-up begins with steps that change next to nothing
def test_averages_of_losses_are_told_and_what_is_random_is_not(by):
    rng = np.random.default_rng(0)
    for _ in range(100):
        right = falling(by, rng)
        for more in RANDOM.values():
            told_if_averaged(right + more(right, rng), right)
        for name, average in AVERAGES.items():
            if np.ptp(average(right) - right) < 1e-3:
                continue  # then the two are the same
            with pytest.raises(Told) as told:
                told_if_averaged(average(right).astype(np.float32), right)
            assert told.value.mistake == "running-average", name
        with pytest.raises(Told) as told:
            told_if_averaged(right / 65, right)
        assert told.value.mistake == "loss-times"
