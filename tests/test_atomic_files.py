"""Tests atomic writes of files, and the lock that allows one writer at a time."""

import contextlib
import errno
import os
import subprocess
import sys
import threading

import pytest

from glassformer.atomic_files import LOCK, only_writer, replacing, write_whole

WRITER = """
import sys
from pathlib import Path
from glassformer.atomic_files import only_writer
with only_writer(Path(sys.argv[1])):
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_another_program_is_refused_at_once_and_one_that_died_blocks_nobody(tmp_path):
    folder = tmp_path / "run"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with writer:
        try:
            assert writer.stdout.readline() == "writing\n"
            with (
                pytest.raises(BlockingIOError, match="run is in use by another run"),
                only_writer(folder),
            ):
                pass
        finally:
            writer.kill()
    with only_writer(folder):
        pass
    assert list(folder.iterdir()) == []


def test_within_a_run_the_same_thread_may_ask_again_and_no_other(tmp_path):
    said = []

    def other():
        try:
            with only_writer(tmp_path):
                said.append("let in")
        except BlockingIOError:
            said.append("refused")

    def ask():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with only_writer(tmp_path):
        with only_writer(tmp_path):
            ask()
        ask()
        assert (tmp_path / LOCK).exists()
    ask()
    assert said == ["refused", "refused", "let in"]
    assert not (tmp_path / LOCK).exists()


def test_a_full_disk_leaves_the_old_file_and_is_told_by_name(tmp_path, monkeypatch):
    path = tmp_path / "recipe.toml"
    write_whole(path, b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(path, b"new and longer")
    assert caught.value.filename == str(path)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("recipe.toml", b"old")]


def test_an_interruption_leaves_the_old_file(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"old")
    path.chmod(0o640)
    mode = path.stat().st_mode  # Windows knows fewer
    with contextlib.suppress(KeyboardInterrupt), replacing(path) as beside:
        beside.write_bytes(b"ha")
        raise KeyboardInterrupt
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]
    write_whole(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode) == (b"new", mode)
