import _thread
import sys

import pytest

from glassformer.exercises import commands, own_file
from glassformer.exercises.record import ENVIRONMENT, Record

from .at_a_desk import no_thread


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    """Starts every test as a new reader, whose progress goes to a folder of its own."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv(ENVIRONMENT, str(path))
    monkeypatch.setattr(commands, "_record", Record())
    monkeypatch.setattr(commands, "_hints_given", {})
    return path


@pytest.fixture
def shown(monkeypatch):
    """Returns what the commands displayed, in order."""
    panels = []
    monkeypatch.setattr(commands, "display", panels.append)
    return panels


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns a folder for a desk, and takes the threads away, as in a browser."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(own_file.ENVIRONMENT, "unused")  # the desk sets it; here it is restored after the test
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(_thread, "start_new_thread", no_thread)  # as in a browser
    return tmp_path / "notebooks" / "exercises"
