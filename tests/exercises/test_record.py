"""Tests that progress survives restarts, crashes during a write, damaged files, two kernels and failing disks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glassformer.exercises import check, commands, hint, progress, reveal
from glassformer.exercises.record import ENVIRONMENT, Record


def right(d_model, base=10_000.0):
    return 2 * np.pi * base ** (np.arange(0, d_model, 2) / d_model)


def wrong(d_model, base=10_000.0):
    return 1


def restart(monkeypatch):
    monkeypatch.setattr(commands, "_record", Record())


def on_disk(path):
    return json.loads(path.read_text(encoding="utf-8"))["exercises"]


def test_tried_done_and_revealed_are_remembered_across_a_restart(progress_file, shown, monkeypatch):
    check("positions.wavelengths", wrong)
    assert on_disk(progress_file) == {"positions.wavelengths": {"tried": True}}
    check("positions.wavelengths", right)
    reveal("positions.rotary")
    restart(monkeypatch)
    assert commands._record.load() == {
        "positions.wavelengths": {"tried": True, "done": True},
        "positions.rotary": {"revealed": True},
    }


def test_looking_and_stubs_leave_no_trace(progress_file, shown):
    check("positions.wavelengths", lambda d_model, base=1e4: None)
    check("positions.wavelength", right)
    check("positions.wavelengths", 3)
    hint("positions.wavelengths")
    progress()
    assert not progress_file.exists()


def test_done_stays_done(progress_file, shown):
    check("positions.wavelengths", right)
    check("positions.wavelengths", wrong)
    assert on_disk(progress_file)["positions.wavelengths"]["done"]


@pytest.mark.parametrize(
    "damage",
    [b"", b"null", b"\xff\xfe\x00", b"[" * 100_000, b'{"exercises": {"positions.rotary": 1}}'],
)
def test_a_damaged_file_is_set_aside_whole_and_said_so(damage, progress_file, shown):
    progress_file.write_bytes(damage)
    check("positions.wavelengths", right)
    assert on_disk(progress_file) == {"positions.wavelengths": {"done": True}}
    assert progress_file.with_name("progress.json.corrupt").read_bytes() == damage
    (notice,) = shown[1:]
    assert repr(notice) == (
        "Your progress file was damaged. It was renamed to progress.json.corrupt, and a new one was started."
    )


def test_a_second_damaged_file_does_not_overwrite_the_first(progress_file, shown):
    for damage in (b"one", b"two", b"three"):
        progress_file.write_bytes(damage)
        progress()
    kept = sorted(progress_file.parent.glob("*.corrupt*"))
    assert [path.read_bytes() for path in kept] == [b"one", b"two", b"three"]


def test_what_is_known_is_not_written_again(monkeypatch):
    writes = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda *args: (writes.append(args), real(*args)))
    for _ in range(3):
        Record().mark("a", "done")
    assert len(writes) == 1


def test_a_failed_write_leaves_no_litter(progress_file, monkeypatch):
    record = Record()
    record.mark("a", "done")

    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    record.mark("b", "done")
    assert on_disk(progress_file) == {"a": {"done": True}}
    assert os.listdir(progress_file.parent) == ["progress.json"]
    assert record.load() == {"a": {"done": True}, "b": {"done": True}}
    assert "No space left on device" in record.take_notices()[0]


def test_two_kernels_keep_each_others_marks(progress_file):
    one, two = Record(), Record()
    one.load(), two.load()
    one.mark("a", "done")
    two.mark("b", "tried")
    one.mark("c", "revealed")
    two.mark("a", "tried")
    assert on_disk(progress_file) == {
        "a": {"done": True, "tried": True},
        "b": {"tried": True},
        "c": {"revealed": True},
    }


KERNEL = """
import os, sys
from pathlib import Path
from glassformer.exercises import record
folder, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print(flush=True)
for number in range(rounds):
    os.environ[record.ENVIRONMENT] = str(folder / f"{number}.json")
    sys.stdin.readline()  # all kernels begin a round together
    record.Record().mark(name, "done")
    print(flush=True)
"""


def test_four_processes_that_mark_at_once_keep_all_four_marks(tmp_path):
    names, old, damaged = "abcd", b'{"exercises": {"old": {"done": true}}}', b"damaged"
    there = [None, old, damaged] * 4
    rounds = len(there)
    for number, data in enumerate(there):
        if data is not None:
            (tmp_path / f"{number}.json").write_bytes(data)
    kernels = [
        subprocess.Popen(
            [sys.executable, "-c", KERNEL, str(tmp_path), name, str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for _ in range(rounds):
        for kernel in kernels:
            kernel.stdout.readline()
        for kernel in kernels:
            kernel.stdin.write("\n")
            kernel.stdin.flush()
    for kernel in kernels:
        kernel.communicate()
        assert kernel.returncode == 0
    for number, data in enumerate(there):
        assert set(on_disk(tmp_path / f"{number}.json")) == {*names, *(["old"] if data == old else [])}
        aside = [path.read_bytes() for path in tmp_path.glob(f"{number}.json.*")]
        assert aside == ([damaged] if data == damaged else [])


def test_a_file_that_cannot_be_read_is_not_replaced(progress_file, monkeypatch):
    progress_file.write_text('{"exercises": {"a": {"done": true}}}')
    record = Record()

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        record.mark("b", "done")
    assert record.take_notices() == [
        "Your progress cannot be read (Permission denied); what you do now is remembered only until this kernel ends."
    ]
    assert on_disk(progress_file) == {"a": {"done": True}}
    record.mark("c", "done")
    assert set(on_disk(progress_file)) == {"a", "b", "c"}


@pytest.mark.parametrize("content", ['{"exercises": {}}', "damaged"])
def test_a_link_stays_a_link(content, progress_file, tmp_path):
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(content)
    progress_file.symlink_to(elsewhere)
    Record().mark("a", "done")
    assert progress_file.is_symlink()
    assert on_disk(elsewhere) == {"a": {"done": True}}
    aside = tmp_path / "elsewhere.json.corrupt"
    assert (aside.read_text() if aside.exists() else "{") in content


def test_a_byte_order_mark_is_no_damage(progress_file):
    progress_file.write_text('{"exercises": {"a": {"done": true}}}', encoding="utf-8-sig")
    assert Record().load() == {"a": {"done": True}}
    Record().mark("b", "done")
    assert on_disk(progress_file) == {"a": {"done": True}, "b": {"done": True}}


def test_a_mark_lost_to_another_kernel_is_written_again(progress_file):
    one = Record()
    one.mark("a", "done")
    progress_file.write_text('{"exercises": {}}')  # another kernel read before we wrote, and wrote after
    one.mark("b", "done")
    assert set(on_disk(progress_file)) == {"a", "b"}


def test_marks_of_a_newer_book_are_kept(progress_file):
    progress_file.write_text('{"version": 2, "exercises": {"loss.entropy": {"done": true, "framed": true}}}')
    Record().mark("a", "done")
    assert on_disk(progress_file)["loss.entropy"] == {"done": True, "framed": True}


@pytest.mark.parametrize("kind", ["folder is a file", "file is a folder"])
def test_a_disk_that_refuses_is_said_once_and_survived(kind, tmp_path, monkeypatch, shown):
    blocked = tmp_path / "blocked"
    if kind == "folder is a file":
        blocked.write_text("in the way")
        monkeypatch.setenv(ENVIRONMENT, str(blocked / "progress.json"))
    else:
        blocked.mkdir()
        monkeypatch.setenv(ENVIRONMENT, str(blocked))
    assert check("positions.wavelengths", right) is right
    check("positions.context_cost", lambda *sizes: (1, 1.0))
    check("positions.rotary", lambda *sizes: 1)
    progress()
    notices = [repr(panel) for panel in shown if "remembered only until this kernel ends" in repr(panel)]
    assert len(notices) == 1
    assert str(tmp_path) not in notices[0]
    rows = {row[0]: row[-1] for panel in shown for row in getattr(panel, "rows", ())}
    assert rows["positions.wavelengths"] == "done"
    assert rows["positions.rotary"] == "tried"


def test_without_the_environments_word_it_is_the_users_data_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setattr("platformdirs.user_data_path", lambda *args: tmp_path / "data" / "glassformer")
    Record().mark("a", "done")
    assert on_disk(tmp_path / "data" / "glassformer" / "progress.json") == {"a": {"done": True}}
