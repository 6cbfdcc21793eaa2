"""Compares what the book says about stored runs with those runs or, on request, with repeated ones."""

import json
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from glassformer.experiments import NAMES, stored
from glassformer.experiments.experiment import Experiment

AGAIN = "--made-again"
PLACE = "glassformer.experiments.experiment"


def pytest_addoption(parser):
    parser.addoption(
        AGAIN,
        metavar="FILE",
        help="put the runs in a file such as book/again.json into the places of the stored ones; tests that make a "
        "run are skipped",
    )


def pytest_configure(config):
    file = config.getoption(AGAIN, default=None)
    if file is None:
        return
    again = json.loads(Path(file).read_text(encoding="utf-8"))
    made = {(one["name"], str(one["settings"])): one["found"] for one in again if one["name"] in NAMES}
    if unknown := made.keys() - {(name, str(run.settings)) for name in NAMES for run in stored(name)}:
        raise pytest.UsageError(f"{AGAIN} {file}: no such run is stored: {min(unknown)}")
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    for name in NAMES:
        runs = [
            run._replace(found=made.get((name, str(run.settings)), run.found))._asdict()
            for run in stored(name)
        ]
        (Path(folder.name) / name).write_text(json.dumps({"runs": runs}), encoding="utf-8")
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(sys.modules[PLACE], "place", lambda name: Path(folder.name) / name)
    patch.setattr(Experiment, "measure_shortly", lambda *_, **__: pytest.skip("it makes a run"))


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Uses one thread, like the stored runs: sums are then identical, and small arrays gain nothing from a second."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
