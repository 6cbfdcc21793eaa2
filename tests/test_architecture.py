"""Tests that import-linter enforces the arrows between rooms: each is broken once, in memory."""

import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

import glassformer

PACKAGE = Path(glassformer.__file__).parent
CONFIG = str(Path(__file__).parents[1] / "pyproject.toml")


@pytest.fixture(scope="module")
def graph():
    """Returns the graph of imports in the package, read from its source once."""
    return grimp.build_graph("glassformer", include_external_packages=True, cache_dir=None)


@pytest.fixture
def lint(graph, monkeypatch):
    """Runs import-linter as the commit hook does, but on a graph that the test provides."""

    def lint(graph):
        monkeypatch.setattr(grimp, "build_graph", lambda *_, **__: graph)
        return lint_imports(config_filename=CONFIG, no_cache=True, no_logo=True)

    return lint


def test_the_arrows_point_one_way(lint, graph, capsys):
    assert len(graph.modules) > 70
    assert lint(graph) == 0, capsys.readouterr().out


BROKEN = [
    ("scratch.positions", "torch"),
    ("scratch.attention", "glassformer.nn.attention"),
    ("nn.attention", "glassformer.scratch"),
    ("text", "torch"),
    ("text", "glassformer.scratch.embedding"),
    ("config", "glassformer.published"),
    ("scratch.model", "glassformer.generate"),
    ("generate.loop", "glassformer.exercises"),
    ("huggingface.folders", "glassformer.generate"),
    ("published", "torch"),
    ("nn.embedding", "glassformer.widgets"),
    ("_checks", "numpy"),
    ("_checks", "glassformer.text"),
    ("figures", "transformers"),
    ("widgets", "glassformer.exercises"),
    ("inside.lens", "torch"),
    ("dates", "glassformer.tasks"),
    ("train.trainer", "glassformer.experiments"),
    ("shipped", "glassformer.train"),
]


def test_every_broken_arrow_is_found(lint, graph, capsys):
    broken = deepcopy(graph)
    for importer, imported in BROKEN:
        importer = f"glassformer.{importer}"
        assert importer in broken.modules
        if imported not in broken.modules:  # a library that the package does not import yet
            broken.add_module(imported, is_squashed=True)
        broken.add_import(importer=importer, imported=imported, line_number=1, line_contents="")
    assert lint(broken) == 1
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    missing = [pair for pair in BROKEN if f"glassformer.{pair[0]} -> {pair[1]} (l.1)" not in said]
    assert missing == []


def between_chapters(graph):
    """The imports from one chapter to another, unless a judge takes from an earlier chapter's judge."""
    start = "glassformer.chapters.ch"
    for importer in sorted(one for one in graph.modules if one.startswith(start)):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            own, *room = importer.removeprefix(start).split(".")
            other, *theirs = imported.removeprefix(start).split(".")
            earlier = own > other and room[:1] == theirs[:1] == ["judges"]
            if imported.startswith(start) and own != other and not earlier:
                yield importer, imported


def test_chapters_share_nothing_but_the_judges_of_earlier_ones(graph):
    theirs = graph.find_modules_directly_imported_by("glassformer.chapters.ch07.judges.block")
    assert "glassformer.chapters.ch03.judges.multi_head" in theirs
    assert list(between_chapters(graph)) == []


def test_an_arrow_between_chapters_is_found(graph):
    start, broken = "glassformer.chapters", deepcopy(graph)
    arrows = {
        (f"{start}.ch03.judges.scores", f"{start}.ch04.judges.rotary"),
        (f"{start}.ch06.judges.gelu", f"{start}.ch05.norm_comparer"),
        (f"{start}.ch06.neuron_explorer", f"{start}.ch05.judges.rms_norm"),
        (f"{start}.ch15.capstone.report", f"{start}.ch14.judges.cover"),
    }
    for importer, imported in arrows:
        assert {importer, imported} <= broken.modules
        broken.add_import(importer=importer, imported=imported, line_number=1, line_contents="")
    assert set(between_chapters(broken)) == arrows


def test_the_numpy_half_runs_without_torch():
    program = """
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(f"glassformer.{module}")
    if "torch" in sys.modules:
        sys.exit(f"glassformer.{module} imports torch")
"""
    rooms = (
        "text scratch published generate huggingface bugs tasks checkpoints shipped inside experiments train cli "
        "onepage figures exercises"
    )
    # Views, judges and the capstone are found by name: nothing above imports them, so all files there are listed.
    files = [
        file for folder in ("widgets", "chapters") for file in sorted((PACKAGE / folder).rglob("[!_]*.py"))
    ]
    listed = [".".join(file.relative_to(PACKAGE).with_suffix("").parts) for file in files]
    assert {"widgets.quiz", "chapters.ch04.judges.rotary", "chapters.ch05.norm_comparer"} <= set(listed)
    modules = [*rooms.split(), *listed]
    run = subprocess.run([sys.executable, "-c", program, *modules], capture_output=True, text=True)
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
