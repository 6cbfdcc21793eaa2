import pytest

from glassformer.exercises import commands
from glassformer.exercises.record import ENVIRONMENT, Record


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
