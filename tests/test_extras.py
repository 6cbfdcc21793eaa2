"""Tests that the package works without its extras, and says which of them is missing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from glassformer._checks.extras import EXTRAS

WITHOUT = f"import sys\nsys.modules |= dict.fromkeys({list(EXTRAS)})\n"  # importing them raises an error


def without(program):
    """Runs a program for which no library of `EXTRAS` is installed."""
    return subprocess.run([sys.executable, "-c", WITHOUT + program], capture_output=True, text=True)


def test_the_extras_are_those_of_the_package():
    path = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    extras = {name: project["optional-dependencies"][name] for name in set(EXTRAS.values())}
    listed = {re.match(r"\w+", one)[0].lower(): name for name, them in extras.items() for one in them}
    assert listed == {library.lower(): name for library, name in EXTRAS.items()}


def test_models_in_numpy_files_and_commands_need_no_extra():
    program = """
from importlib import import_module
import glassformer
for name in dir(glassformer):
    if name not in ("__version__", "figures", "nn"):
        import_module(f"glassformer.{name}")
print(glassformer.scratch.gelu(0.0))
from glassformer.cli import app
app(["generate", "--n-new", "5"])
"""
    run = without(program)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("0.0\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from glassformer import nn", "PyTorch, which is not installed: pip install 'glassformer[torch]'"),
        ("from glassformer.nn import Transformer", "pip install 'glassformer[torch]'"),
        ("from glassformer.train import Trainer", "pip install 'glassformer[torch]'"),
        ("from glassformer.figures import attention_map", "pip install 'glassformer[views]'"),
        ("from glassformer.widgets import GlassMachine", "pip install 'glassformer[views]'"),
        (
            "from glassformer.exercises import hint; hint('attention.mask')",
            "pip install 'glassformer[views]'",
        ),
        ("from glassformer import shipped; shipped.load('words')", "pip install 'glassformer[bytepairs]'"),
    ],
)
def test_what_is_missing_is_told_with_its_extra(line, said):
    last = without(line).stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: this needs ")
    assert last.endswith(said)
