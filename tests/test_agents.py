"""Tests that the page for assistants names existing files, and that its commands run."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
ATTEMPT = "from glassformer.exercises import *\n\n\ndef scores(query, keys):\n    return keys @ query\n\n\n"
SAID = ["attention.scores: not yet, 1 of 4 checks pass", "attention.scores: hint 1 of 3", " tried\n"]


def test_the_pages_are_short():
    assert len(TEXT.splitlines()) <= 70
    assert len((ROOT / "book" / "asking-an-assistant.md").read_text(encoding="utf-8").split()) <= 500


def test_every_file_that_the_page_names_exists():
    named = re.findall(r"\]\(([\w./-]+)\)|`(\w[\w./-]*(?:/|\.py))`", TEXT)
    files = {link or path for link, path in named} - {"notebooks/my_transformer.py"}  # which a reader makes
    places = (ROOT, ROOT / "src" / "glassformer")
    assert len(files) > 10
    assert [one for one in files if not any((place / one).exists() for place in places)] == []


def test_the_judge_runs_as_the_page_says(tmp_path):
    calls, shell = (re.search(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)[1] for kind in ("python", "sh"))
    (tmp_path / "attempt.py").write_text(ATTEMPT + calls, encoding="utf-8")
    command = shell.replace("../../.venv/bin/python", Path(sys.executable).as_posix())
    command = command.replace("/tmp/attempt", tmp_path.as_posix())
    run = subprocess.run(["sh", "-ec", command], cwd=ROOT, capture_output=True, text=True)
    assert [said for said in SAID if said not in run.stdout] == [], run.stdout + run.stderr


def test_the_other_commands_run():
    commands = re.findall(r"`(?:\.venv/bin/python -m glassformer )?((?:params|trace) [\w -]+)`", TEXT)
    assert len(commands) == 2
    for one in commands:
        subprocess.run([sys.executable, "-m", "glassformer", *one.split()], check=True, capture_output=True)
