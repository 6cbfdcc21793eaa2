"""Tests the checker with designs of many kinds: no right one is accused, and what is wrong in another is named."""

import json
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pytest

from glassformer.chapters.ch15.capstone.judge import OPEN, RIGHT, STAGES, WRONG, judge
from glassformer.chapters.ch15.capstone.measures import ownership
from glassformer.chapters.ch15.capstone.measures.trained import is_fixed
from glassformer.chapters.ch15.capstone.template import adapter_source
from glassformer.chapters.ch15.capstone.words import mistakes
from glassformer.exercises.source import MODULE
from tests.exercises.test_machine import all_written
from tests.exercises.test_numpy_alone import LIBRARIES

from .designs.parts import Adapter
from .right import DESIGNS, OPEN_YET, UNSEEN, InItsOwnWay
from .wrong import EDITS, SLIPS, TOLD, edited

AMPLE = 580.0  # seconds; the machine that tests may be busy
ROOT = Path(__file__).parents[3]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", DESIGNS)
def test_no_right_design_is_accused(name):
    adapter, stages, remarks = DESIGNS[name]
    found = {stage: judge(adapter, stage, AMPLE) for stage in stages}
    assert {stage: one.message for stage, one in found.items() if one.status != RIGHT} == {}
    told = [remark for one in found.values() for remark in one.remarks]
    assert len(told) == len(remarks), told
    assert [part for part in remarks if not any(part in one for one in told)] == []


def from_the_readers_own_file():
    """Returns the adapter that `start` writes for a reader's own file after chapter 11."""
    own = types.ModuleType(MODULE)
    exec(all_written(), vars(own))
    own.decode = lambda ids, characters: "".join(characters[i] for i in ids)
    sys.modules[MODULE] = own
    try:
        exec(adapter_source(vars(own)), vars(own))
    finally:
        del sys.modules[MODULE]
    return own.Mine


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("made", "left_out"),
    [
        (lambda: InItsOwnWay, set()),
        (lambda: DESIGNS["learned positions, tied"][0], {"shipped"}),
        (from_the_readers_own_file, set()),
    ],
    ids=["in its own way", "parts", "own"],
)
def test_a_design_of_someone_else_passes_every_stage_that_it_has(made, left_out):
    found = {stage: judge(made(), stage, AMPLE) for stage in STAGES}
    assert {stage: one.message for stage, one in found.items() if one.status == WRONG} == {}
    assert {stage for stage, one in found.items() if one.status == OPEN} == left_out


@pytest.mark.parametrize("name", OPEN_YET)
def test_what_cannot_be_found_out_is_no_mistake(name):
    adapter, stage, parts = OPEN_YET[name]
    found = judge(adapter, stage, AMPLE)
    assert found.status == OPEN
    assert [part for part in parts if part not in found.message] == []


@pytest.mark.parametrize("name", UNSEEN)
def test_a_check_with_nothing_to_look_at_has_not_passed(name):
    adapter, stage, title, why = UNSEEN[name]
    found = judge(adapter, stage, AMPLE)
    assert (found.status, found.message) == (RIGHT, "")
    assert why in found.unseen[title]


@pytest.mark.parametrize("name", TOLD)
def test_what_the_message_says(name):
    adapter, stage, part = TOLD[name]
    found = judge(adapter, stage, AMPLE)
    assert found.status == WRONG
    assert part in found.message


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SLIPS)
def test_a_mistake_is_named(name):
    adapter, stage, mistake = SLIPS[name]
    found = judge(adapter, stage, AMPLE)
    assert (found.status, found.mistake) == (WRONG, mistake), found.message


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", EDITS)
def test_a_mistake_in_a_line_is_named(name):
    stage, mistake, *changes = EDITS[name]
    found = judge(edited(*changes), stage, AMPLE)
    assert (found.status, found.mistake) == (WRONG, mistake), found.message
    assert not mistake or mistakes()[mistake].says in found.message


def test_pytorchs_attention_may_run_a_model_that_has_an_attention_of_its_own():
    fast, _, _ = TOLD["PyTorch's attention in a model"]
    found = judge(type("Mine", (fast,), {"attention": attention}), "model", AMPLE)
    assert (found.status, found.mistake) == (RIGHT, "")


def attention(self, q, k, v, causal):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    hidden = np.triu(np.ones(scores.shape[-2:]), 1) > 0
    return (scores.masked_fill(scores.new_tensor(hidden) > 0, -np.inf) if causal else scores).softmax(-1) @ v


def test_the_frames_of_the_checker_and_of_texts_are_nobodys_model():
    run = Adapter().encode
    assert ownership.borrowed(lambda: run("A horse!")) == []


MODEL = """
class Model:
    def run(self, ids):
        table = [0]
        return table[ids[0] + 99]
"""


def test_an_error_in_a_file_of_the_readers_own_quotes_its_line(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a_gpt_of_mine.py").write_text(MODEL, encoding="utf-8")
        monkeypatch.syspath_prepend(folder)
        from a_gpt_of_mine import Model

        class Mine:
            vocab_size, context_length = 65, 32

            def logits(self, ids):
                return Model().run(ids)

        found = judge(Mine, "model", AMPLE)
    assert "(line 5 of a_gpt_of_mine.py: `return table[ids[0] + 99]`)" in found.message


def test_an_error_in_another_cell_quotes_its_line():
    names = {}
    exec(compile(MODEL, "/tmp/ipykernel_7/123.py", "exec"), names)

    class Mine:
        vocab_size, context_length = 65, 32

        def logits(self, ids):
            return names["Model"]().run(ids)

    assert (
        "raised IndexError: list index out of range (line 5 of another cell"
        in judge(Mine, "model", AMPLE).message
    )


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
from tests.chapters.ch15.designs import llama
names = [name for name in STAGES if name != "shipped"]  # the book's own model is in a file of safetensors
print(json.dumps({name: judge(llama.Mine, name, 300.0).status for name in names}))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, *LIBRARIES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert json.loads(ran.stdout.splitlines()[-1]) == dict.fromkeys(list(STAGES)[:-1], RIGHT)


def test_a_table_of_sinusoids_is_known_in_every_layout():
    angles = np.arange(24)[:, None] / 10000 ** (np.arange(8) / 8)
    sin, cos = np.sin(angles), np.cos(angles)
    halves, neighbors = np.concatenate([sin, cos], axis=1), np.stack([sin, cos], axis=2).reshape(24, 16)
    right = [halves, neighbors, halves.astype(np.float32), 3 * halves[None]]
    assert [is_fixed(one) for one in right] == [True] * len(right)
    noise = np.random.default_rng(0).normal(size=halves.shape)
    wrong = [noise, halves + 0.02 * noise, 0 * halves, noise[0]]
    assert [is_fixed(one) for one in wrong] == [False] * len(wrong)
