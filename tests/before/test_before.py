"""Files that a reader had before version 0.2 still open, and mean what they meant then."""

import importlib
import json
import shutil

import numpy as np
import pytest
from close import DOUBLE, assert_close

from glassformer import checkpoints
from glassformer.exercises import commands, progress
from glassformer.exercises.catalogue import catalogue, find
from glassformer.exercises.record import Record

from . import write

BEFORE = write.BEFORE
THEN = json.loads(write.EXPECTED.read_text())


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The reader's own file and record, where tests may write to them."""
    path, record = tmp_path / "my_transformer.py", tmp_path / "progress.json"
    shutil.copy(write.MINE, path)
    shutil.copy(write.PROGRESS, record)
    monkeypatch.setenv("GLASSFORMER_MINE", str(path))
    monkeypatch.setenv("GLASSFORMER_PROGRESS", str(record))
    monkeypatch.setattr(commands, "_record", Record())
    return path, record


@pytest.mark.parametrize("room", ["scratch", "nn"])
@pytest.mark.parametrize("run", write.RUNS)
def test_a_stored_model_gives_the_same_logits(run, room):
    assert_close(write.logits(BEFORE / run, run, room), THEN["logits"][run], DOUBLE)


@pytest.mark.parametrize("run", write.RUNS)
def test_an_interrupted_training_goes_on_as_it_would_have(run, tmp_path):
    shutil.copytree(BEFORE / run, tmp_path / run)
    now, then = write.losses(write.trainer(run, tmp_path / run, resume=True).run()), THEN["losses"][run]
    assert [record.keys() for record in now] == [record.keys() for record in then]
    for name in then[-1]:
        found, wanted = ([record[name] for record in records if name in record] for records in (now, then))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)
    finished = write.logits(tmp_path / run, run, "scratch")
    assert_close(finished, THEN["logits"][f"{run}, finished"], DOUBLE)


@pytest.mark.parametrize(
    ("run", "name"), [("adamw", "decoder.positions.weight"), ("muon", "encoder.positions.weight")]
)
def test_weights_keep_their_stored_names(run, name):
    """A reader's functions ask for them: `weights["decoder.positions.weight"]`."""
    stored = checkpoints.load(BEFORE / run).weights
    assert name in stored
    assert set(checkpoints.load_model(BEFORE / run).state_dict()) == set(stored)


def test_functions_in_the_readers_file_get_the_same_verdicts(mine):
    assert "right" in THEN["verdicts"].values()
    assert "wrong" in THEN["verdicts"].values()
    assert write.verdicts() == THEN["verdicts"]


def test_mine_hands_over_the_readers_functions(mine):
    for name in THEN["verdicts"]:
        assert commands.mine(name).__module__ == "my_transformer", name


def test_progress_is_what_it_was(mine, monkeypatch):
    assert THEN["progress"][write.REVEALED] == {"revealed": True}
    assert Record().load() == THEN["progress"]
    shown = []
    monkeypatch.setattr(commands, "display", shown.append)
    progress("03")
    states = {row[0]: row[-1] for row in shown[-1].rows}
    done = {name for name, flags in THEN["progress"].items() if flags.get("done") and name in states}
    assert len(done) == 4
    assert {name for name, state in states.items() if state == "done"} == done
    assert shown[-1].closing.startswith(f"4 of {len(states)} done")


def test_a_new_mark_leaves_the_old_ones(mine):
    """The file is written again in its format, with all that was in it."""
    _, record = mine
    Record().mark("attention.grouped", "done")
    now = json.loads(record.read_text())
    assert now == {"version": 1, "exercises": THEN["progress"] | {"attention.grouped": {"done": True}}}


@pytest.mark.parametrize("name", catalogue())
def test_the_books_functions_are_where_keep_once_found_them(name):
    """`keep` wrote `from glassformer.exercises.chapter05 import layer_norm` for a function that uses the book's."""
    exercise = find(name)
    if exercise.reference.__module__.startswith("glassformer.chapters."):
        module = importlib.import_module(f"glassformer.exercises.chapter{exercise.prose.chapter}")
        assert getattr(module, exercise.reference.__name__) is exercise.reference


def test_a_readers_file_that_uses_the_books_functions_still_opens(mine):
    path, _ = mine
    path.write_text(
        "from glassformer.exercises.chapter05 import layer_norm\n\n\n"
        "def rms_norm(x, weight, eps=1e-5):\n"
        "    shifted = layer_norm(x, weight, 0 * weight, eps)\n"
        "    return shifted if x.mean() == 0 else None\n"
    )
    x = np.array([[1.0, -1.0, 2.0, -2.0]])
    expected = x / np.sqrt(2.5 + 1e-5)
    own = commands.mine("stream.rms_norm")
    # and not the book's, which takes its place if the file does not open
    assert own.__module__ == "my_transformer"
    np.testing.assert_allclose(own(x, np.ones(4)), expected, rtol=1e-12)


def test_there_is_no_module_of_a_chapter_that_does_not_exist():
    with pytest.raises(ModuleNotFoundError, match="chapter77"):
        importlib.import_module("glassformer.exercises.chapter77")
