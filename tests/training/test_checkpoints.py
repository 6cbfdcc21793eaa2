"""Tests checkpoints: they are complete or absent, whatever happens during a write, and others are not read."""

import builtins
import dataclasses
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from glassformer import checkpoints
from glassformer.checkpoints import (
    AVERAGE,
    DESCRIPTION,
    MODEL,
    OPTIMIZER,
    TOKENIZER,
    Checkpoint,
    latest,
    load,
    load_model,
    save,
)

from .small import model_config, trainer


def checkpoint(step, **changes):
    rng = np.random.default_rng(step)
    given = {
        "step": step,
        "model_config": model_config(),
        "training": {"steps": 9, "betas": [0.9, 0.95]},
        "tokens": step * 10,
        "weights": {"a.weight": rng.normal(size=(3, 4)).astype(np.float32), "a.bias": rng.normal(size=4)},
        "optimizer": {"a.weight/step": np.array(step, np.float32), "a.weight/mean": rng.normal(size=(3, 4))},
        "average": {"a.weight": rng.normal(size=(3, 4)), "a.bias": rng.normal(size=4)},
        "tokenizer": '{"characters": "é"}',
    }
    return Checkpoint(**given | changes)


def assert_same(found, wanted):
    for field in dataclasses.fields(Checkpoint):
        mine, its = getattr(found, field.name), getattr(wanted, field.name)
        if isinstance(its, dict) and field.name != "training":
            assert mine.keys() == its.keys()
            for name, values in its.items():
                assert mine[name].dtype == values.dtype
                np.testing.assert_array_equal(mine[name], values)
        else:
            assert mine == its


def test_what_is_saved_is_loaded(tmp_path):
    place = save(tmp_path / "new" / "run", checkpoint(7))
    assert place == tmp_path / "new" / "run" / "step-00000007" == latest(tmp_path / "new" / "run")
    for folder in (place, place.parent, str(place)):
        assert_same(load(folder), checkpoint(7))
    assert sorted(path.name for path in place.iterdir()) == sorted(
        [AVERAGE, DESCRIPTION, MODEL, OPTIMIZER, TOKENIZER]
    )


def test_what_is_not_there_is_none(tmp_path):
    save(tmp_path, checkpoint(1, average=None, tokenizer=None))
    assert_same(load(tmp_path), checkpoint(1, average=None, tokenizer=None))


def test_the_description_is_for_people_too(tmp_path):
    described = json.loads((save(tmp_path, checkpoint(7)) / DESCRIPTION).read_text())
    assert described["step"] == 7
    assert described["model"]["d_model"] == 16
    assert described["versions"].keys() == {"python", "glassformer", "numpy", "torch", "safetensors"}


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_last_ones_stay(tmp_path, keep):
    for step in (1, 5, 20, 100):
        save(tmp_path, checkpoint(step), keep=keep)
    steps = sorted(int(path.name.removeprefix("step-")) for path in tmp_path.iterdir())
    assert steps == [1, 5, 20, 100][-keep:]
    assert_same(load(tmp_path), checkpoint(100))


def test_other_things_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "step-notes").mkdir()
    (tmp_path / "step-00000099").write_text("a file")
    (tmp_path / "log.jsonl").write_text("")
    for step in (1, 2, 3):
        save(tmp_path, checkpoint(step), keep=1)
    assert latest(tmp_path).name == "step-00000003"
    assert len(list(tmp_path.iterdir())) == 4


# Interrupted


class Killed(BaseException):
    """Simulates the end of the process at that point: nothing catches it."""


class Operations:
    """Counts operations on files and ends the process at number `last`; a write is then half done."""

    def __init__(self, monkeypatch, last):
        self.last, self.done = last, 0
        for holder, name in (
            (os, "fsync"),
            (os, "replace"),
            (os, "open"),
            (Path, "mkdir"),
            (os, "unlink"),
            (os, "rmdir"),
        ):
            monkeypatch.setattr(holder, name, self.counted(getattr(holder, name)))
        monkeypatch.setattr(checkpoints, "open", self.open, raising=False)

    def count(self, before_the_end=lambda: None):
        self.done += 1
        if self.done == self.last:
            before_the_end()
        if self.done >= self.last:
            raise Killed

    def counted(self, function):
        def operation(*args, **options):
            self.count()
            return function(*args, **options)

        return operation

    def open(self, path, mode):
        self.count()
        file = builtins.open(path, mode)  # noqa: SIM115
        write = file.write

        class Half:
            def __enter__(half):  # noqa: N805
                return half

            def __exit__(half, *_):  # noqa: N805
                file.close()

            def write(half, content):  # noqa: N805
                self.count(lambda: write(content[: len(content) // 2]))
                return write(content)

            flush, fileno = file.flush, file.fileno

        return Half()


def test_killed_at_any_operation_the_last_whole_one_is_found(tmp_path):
    """Kills the process at every write, sync, rename and removal of a third save, which also drops the first."""
    last, found = 0, []
    while not found or found[-1] != "done":
        last += 1
        folder = tmp_path / str(last)
        save(folder, checkpoint(1))
        save(folder, checkpoint(2))
        with pytest.MonkeyPatch.context() as monkeypatch:
            operations = Operations(monkeypatch, last)
            try:
                save(folder, checkpoint(3))
                found.append("done")
            except Killed:
                pass
        if operations.done < last:
            assert_same(load(folder), checkpoint(3))
            break
        step = load(folder).step
        assert step in (2, 3)
        assert_same(load(folder), checkpoint(step))
        found.append(step)
        for path in folder.glob("step-*"):  # nothing under its own name is less than whole
            load(path)
        # And the next save clears up.
        save(folder, checkpoint(4))
        assert not list(folder.glob(".unfinished*"))
        assert len(list(folder.iterdir())) == 2
        assert_same(load(folder), checkpoint(4))
        shutil.rmtree(folder)
    steps = found[:-1]
    assert steps == sorted(steps)
    assert {2, 3} == set(steps)
    assert len(steps) > 20


def test_a_disk_that_is_full_leaves_the_last_one(tmp_path, monkeypatch):
    save(tmp_path, checkpoint(1))
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        with pytest.raises(OSError, match="No space left"):
            save(tmp_path, checkpoint(2))
    assert_same(load(tmp_path), checkpoint(1))
    save(tmp_path, checkpoint(2))
    assert_same(load(tmp_path), checkpoint(2))


# Damaged


@pytest.mark.parametrize("name", [MODEL, OPTIMIZER, AVERAGE, TOKENIZER, DESCRIPTION])
def test_every_damage_is_found(tmp_path, name):
    path = save(tmp_path, checkpoint(1)) / name
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    places = rng.choice(len(whole), 60, replace=False) if len(whole) > 60 else range(len(whole))
    damaged = [whole[:size] for size in {0, 1, len(whole) // 2, len(whole) - 2}] + [whole + b"x"]
    damaged += [whole[:i] + bytes([whole[i] ^ 1 << rng.integers(8)]) + whole[i + 1 :] for i in places]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises((ValueError, FileNotFoundError), match=str(path.parent)) as caught:
            load(tmp_path)
        assert name in str(caught.value) or name == DESCRIPTION
    path.write_bytes(whole)
    load(tmp_path)


def redescribed(place, **changes):
    """Changes training.json as its own author might, with a matching checksum."""
    described = json.loads((place / DESCRIPTION).read_text())
    del described["checksum"]
    described |= changes
    described = {name: value for name, value in described.items() if value is not None}
    checksum = checkpoints.own_checksum_of(described)
    (place / DESCRIPTION).write_text(json.dumps(described | {"checksum": checksum}))


def replaced(place, name, content):
    (place / name).write_bytes(content)
    files = json.loads((place / DESCRIPTION).read_text())["files"]
    redescribed(place, files=files | {name: checkpoints.checksum_of(content)})


def test_a_damaged_last_one_names_the_one_before_it_that_is_whole(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, checkpoint(step), keep=3)
    for step in (2, 3):
        (tmp_path / f"step-{step:08d}" / OPTIMIZER).write_bytes(b"")
    message = (
        r"step-00000003.optimizer\.safetensors does not contain what was written: .*\. "
        r"An earlier checkpoint, \S*step-00000001, is intact; to use it, move step-00000003 out of the folder"
    )
    with pytest.raises(ValueError, match=message):
        load(tmp_path)
    for step in (2, 3):
        shutil.move(tmp_path / f"step-{step:08d}", tmp_path / f"damaged-{step}")
    assert_same(load(tmp_path), checkpoint(1))


def with_weights(**changes):
    """Returns a change of a checkpoint's weights, with a matching checksum."""

    def change(place):
        name, values = next(iter(changes.items()))
        weights = {key: np.array(value) for key, value in checkpoints.load(place).weights.items()}
        first = next(iter(weights))
        weights[first] = weights[first].astype(values.dtype) if name == "dtype" else weights[first]
        if name == "number":
            weights[first].flat[0] = values
        replaced(place, MODEL, checkpoints.bytes_of(weights))

    return change


# What is done to a checkpoint: how the message goes
FOREIGN = {
    "redescribed(place, format='glassformer checkpoint 2')": "training.json has the format 'glassformer checkpoint 2', "
    "which another version of Glassformer wrote: this one reads 'glassformer checkpoint 1'",
    **{
        f"with_weights(number=np.float64('{number}'))(place)": r"model\.safetensors: \S+ contains \S+ at [0-9, ]+: "
        r"every weight must be finite and smaller than 1e\+19"
        for number in ("nan", "inf", "-inf", "3e38")
    },
    **{
        f"with_weights(dtype=np.zeros(1, '{dtype}'))(place)": rf"model\.safetensors: \S+ has dtype {dtype}, but "
        "weights must be floating-point numbers"
        for dtype in ("int64", "uint8", "bool")
    },
    '(place / DESCRIPTION).write_text(\'{"model_type": "gpt2"}\')': "training.json was not written by this version "
    "of Glassformer: it lacks format='glassformer checkpoint 1'",
    "(place / DESCRIPTION).write_text('[]')": "must be a JSON object",
    "(place / DESCRIPTION).write_text('{')": "training.json is not JSON",
    r"(place / DESCRIPTION).write_bytes(b'\xff')": "training.json is not in UTF-8",
    "redescribed(place, step=None)": "training.json lacks 'step'",
    "redescribed(place, model={'d_model': 3})": r"training\.json: .* needs the field 'vocab_size'",
    "redescribed(place, files={})": "training.json lacks 'model.safetensors' among its files",
    "redescribed(place, files=[MODEL])": r"training.json: files=\['model.safetensors'\] must be an object of fields",
    "redescribed(place, step='one')": "training.json: step='one' must be a whole number",
    "redescribed(place, files={'../../secret': '0'})": "training.json lists '../../secret', which is not",
}
if hasattr(os, "mkfifo"):  # not on Windows
    FOREIGN["(place / DESCRIPTION).unlink(), os.mkfifo(place / DESCRIPTION)"] = (
        "training.json is not a file: it is a pipe or a device"
    )


@pytest.mark.parametrize("damage", FOREIGN)
def test_foreign_ones_are_refused(tmp_path, damage):
    eval(damage, globals() | {"place": save(tmp_path, checkpoint(1))})
    with pytest.raises(ValueError, match=FOREIGN[damage]):
        load(tmp_path / "step-00000001")


def test_a_file_that_is_missing_is_named(tmp_path):
    (save(tmp_path, checkpoint(1)) / MODEL).unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors is missing"):
        load(tmp_path / "step-00000001")


def test_a_pickle_is_never_opened(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "was run",))

    place = save(tmp_path, checkpoint(1))
    replaced(place, MODEL, pickle.dumps(Evil()))
    with pytest.raises(ValueError, match="not a safetensors file"):
        load(tmp_path)
    assert not (tmp_path / "was run").exists()


def test_nothing_there(tmp_path):
    assert latest(tmp_path) is None
    assert latest(tmp_path / "nowhere") is None
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="is not a checkpoint and contains none"):
            load(folder)


def test_weights_of_another_model(tmp_path):
    save(tmp_path, checkpoint(1))
    for room in ("scratch", "nn"):
        with pytest.raises(ValueError, match=r"the state does not fit: token_embedding.weight is missing"):
            load_model(tmp_path, room=room)
    with pytest.raises(ValueError, match="room='jax' is not one of 'scratch', 'nn'"):
        load_model(tmp_path, room="jax")


def test_a_model_far_larger_than_its_weights_is_not_built():
    config = model_config(n_layers=10**9)
    with pytest.raises(ValueError, match="it has 16 numbers, but the model's sizes need"):
        checkpoints.model_of(config, {"a.weight": np.zeros(16)})


def test_bad_arguments(tmp_path):
    save(tmp_path, checkpoint(1))
    with pytest.raises(FileExistsError, match="step-00000001 exists already"):
        save(tmp_path, checkpoint(1))
    with pytest.raises(ValueError, match="keep=0 must be at least 1"):
        save(tmp_path, checkpoint(2), keep=0)


def test_two_runs_in_one_folder_are_not_taken_for_one(tmp_path):
    save(tmp_path, checkpoint(1))
    other = checkpoint(5)
    save(tmp_path / "other", dataclasses.replace(other, model_config=model_config(d_ff=32)))
    shutil.copytree(tmp_path / "other" / "step-00000005", tmp_path / "step-00000005")
    with pytest.raises(
        ValueError, match="has checkpoints of two runs, step-00000001 and step-00000005, with different"
    ):
        load(tmp_path)
    assert load(tmp_path / "step-00000005").step == 5
    assert_same(load(tmp_path / "step-00000001"), checkpoint(1))


@pytest.mark.parametrize("name", ["step-00000005", ".unfinished-x"])
@pytest.mark.parametrize("kind", ["a file", "a link to a folder", "a link to nothing"])
def test_what_is_in_the_way_of_checkpoints_is_found_before_the_first_step(tmp_path, name, kind):
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "elsewhere").mkdir()
    if kind == "a file":
        (run / name).write_bytes(b"mine")
    else:
        (run / name).symlink_to(tmp_path / ("elsewhere" if "folder" in kind else "nowhere"))
    with pytest.raises(
        ValueError, match=f"{name} is in the way of checkpoints, whose folders have such names"
    ):
        trainer(folder=run)
    assert os.path.lexists(run / name)
    (run / name).unlink()
    assert len(trainer(folder=run).run()) == 8
