"""The arrows between the rooms, held by import-linter; each is broken once in a copy, to see that it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
CONFIG = str(ROOT / "pyproject.toml")


def test_the_arrows_point_one_way(capsys):
    status = lint_imports(config_filename=CONFIG, no_cache=True, no_logo=True)
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("scratch/positions.py", "import torch"),
        ("scratch/attention.py", "from glassformer.nn.attention import softmax as other"),
        ("nn/attention.py", "import glassformer.scratch"),
        ("text.py", "import torch"),
        ("text.py", "import glassformer.scratch.embedding"),
        ("config.py", "import glassformer.published"),
        ("scratch/model.py", "import glassformer.generate"),
        ("generate/loop.py", "import glassformer.exercises"),
        ("huggingface/folders.py", "import glassformer.generate"),
        ("published.py", "import torch"),
        ("nn/embedding.py", "import glassformer.widgets"),
        ("_checks.py", "import numpy"),
        ("_checks.py", "import glassformer.text"),
        ("figures.py", "import transformers"),
        ("widgets/__init__.py", "import glassformer.exercises"),
        ("inside/lens.py", "import torch"),
        ("dates.py", "import glassformer.tasks"),
        ("train/trainer.py", "import glassformer.experiments"),
        ("shipped.py", "import glassformer.train"),
    ],
)
def test_a_broken_arrow_is_found(tmp_path, file, line):
    for source in (ROOT / "src").rglob("*.py"):
        copy = tmp_path / source.relative_to(ROOT / "src")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    broken = tmp_path / "glassformer" / file
    broken.write_text(broken.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    # import-linter looks in the working folder first; a fresh interpreter has not imported the package yet
    lint = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(sys.argv[1], no_cache=True))"
    run = subprocess.run([sys.executable, "-c", lint, CONFIG], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Broken contracts" in run.stdout
    module = "glassformer." + file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    assert module in run.stdout


@pytest.mark.parametrize(
    "module",
    [
        "text",
        "scratch",
        "published",
        "generate",
        "huggingface",
        "bugs",
        "tasks",
        "checkpoints",
        "shipped",
        "inside",
        "experiments",
        "train",
        "cli",
    ],
)
def test_the_numpy_half_runs_without_torch(module):
    silent = f"import sys, glassformer.{module}; raise SystemExit('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", silent], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_importing_prints_nothing_and_seeds_nothing():
    program = """
import random, numpy, torch
before = random.getstate(), repr(numpy.random.get_state()), torch.random.get_rng_state().tolist()
import glassformer, glassformer.text, glassformer.scratch, glassformer.nn
assert before == (random.getstate(), repr(numpy.random.get_state()), torch.random.get_rng_state().tolist())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
