"""Tests that judges need only NumPy and the standard library, and that a page gives the verdicts of a notebook."""

import io
import json
import math
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf

from glassformer.exercises import exercises, own_file
from glassformer.exercises.record import ENVIRONMENT
from tools.extensions import browser_package

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    "torch", "scipy", "IPython", "jaxtyping", "transformers", "matplotlib", "traitlets", "ipywidgets", "anywidget",
    "platformdirs", "filelock", "safetensors", "tqdm",
)  # fmt: skip
EVERY = 30
AT_RANDOM = {"draw_of_its_own"}  # draws numbers of its own, so its verdict differs each time


def unpack(folder):
    """Unpacks into this folder what is packed for a page."""
    for data in (browser_package.package(), *map(browser_package.data, browser_package.loads())):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(folder, filter="data")


def judging(every, blocked, source, folder):
    """Starts a process that prints verdicts of the package in `source`; the reader's files go to `folder`."""
    own = {
        ENVIRONMENT: str(folder / "progress.json"),
        own_file.ENVIRONMENT: str(folder / "my_transformer.py"),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.exercises.judged", str(every), *blocked],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(source)} | own,
    )


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Returns verdicts from two processes: a notebook's, with all libraries, and a page's.

    The page's process has only NumPy, no threads, and of the package only what is packed for the page. Real Python in a
    page, `tests/site/test_real_python.py`, judges every answer.
    """
    packed = tmp_path_factory.mktemp("packed")
    unpack(packed)
    running = [judging(EVERY, (), ROOT / "src", packed), judging(EVERY, LIBRARIES, packed, packed)]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    return [json.loads(output) for output in outputs]


def test_a_page_with_nothing_but_numpy_gives_every_verdict_that_a_notebook_gives_word_for_word(judged):
    whole, alone = (one["verdicts"] for one in judged)
    assert alone.keys() <= whole.keys()
    assert len(alone) > 200
    compared = {label for label in alone if label.split()[-1] not in AT_RANDOM}
    assert {label: (alone[label], whole[label]) for label in compared if alone[label] != whole[label]} == {}


def test_only_exercises_about_a_library_need_it(judged):
    whole, alone = (one["exercises"] for one in judged)
    assert set(whole) - set(alone) == {one.name for one in exercises() if one.needs}
    assert {one.name for one in exercises() if one.needs} == {"training.gpt_torch"}
    assert {f"{name}: {what}" for name in alone for what in ("reference", "mistake 0")} <= set(
        judged[1]["verdicts"]
    )


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_gelu_without_scipy_takes_pythons_erf_which_is_scipys_but_for_two_units_in_the_last_place(kind):
    program = """
import sys
import numpy as np
sys.modules["scipy"] = None  # importing it raises ImportError
from glassformer.scratch import feedforward
x = np.frombuffer(bytes.fromhex(sys.stdin.read()), sys.argv[1])
y = feedforward.gelu(x)
assert [name for name in sys.modules if name.startswith("scipy")] == ["scipy"]
print(y.dtype, y.tobytes().hex())
"""
    x = np.concatenate([np.linspace(-7, 7, 20001), [0.0, -0.0, 1e-30, 40.0, -40.0]]).astype(kind)
    told = subprocess.run(
        [sys.executable, "-c", program, x.dtype.name], input=x.tobytes().hex(), capture_output=True, text=True
    )
    assert told.stderr == ""
    dtype, found = told.stdout.split()
    assert dtype == x.dtype.name
    u = x / math.sqrt(2)
    pythons = np.array([math.erf(one) for one in u], kind)
    np.testing.assert_array_equal(np.frombuffer(bytes.fromhex(found), kind), x * ((1 + pythons) / 2))
    np.testing.assert_array_max_ulp(pythons, erf(u), maxulp=2)  # 2 in double precision, 0 in single: measured
