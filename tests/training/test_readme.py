"""Runs the Python examples in the README of training, with fewer steps, one after the other."""

import re
import shutil
from types import SimpleNamespace

from glassformer import text
from glassformer.experiments import spread, stored
from glassformer.experiments.recipes import LADDER
from glassformer.figures import loss_curve

from .small import ROOT

TEXT = (ROOT / "src" / "glassformer" / "train" / "README.md").read_text(encoding="utf-8")
PARTS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_what_it_shows_in_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    shown = []
    curve = SimpleNamespace(update=lambda item: shown.append(item.data))
    monkeypatch.setattr(loss_curve, "display", lambda item, display_id: curve)
    corpus = text.corpus()[:20_000]  # no less than all of it, this says whether it runs
    monkeypatch.setattr(text, "corpus", lambda: corpus)
    chapter = "book/chapters/10-training.md"
    (tmp_path / chapter).parent.mkdir(parents=True)
    shutil.copy(ROOT / chapter, tmp_path / chapter)
    names, written = {}, []
    for part in PARTS:
        exec(re.sub(r"steps=\d+", "steps=2", part), names)  # 2 steps say as much as 2000: does it run?
        written.append(capsys.readouterr().out.replace('device="auto" has chosen cpu\n', ""))
    assert len(PARTS) == 8
    assert (tmp_path / "runs" / "by-hand" / "step-00000002").is_dir()
    assert "The loss falls, in NumPy" in shown[-1]
    assert len(written[4]) == 1 + 60 + 1  # what it was given, what it wrote, and the end of the line
    assert re.fullmatch(r"before: \d\.\d\d\nall weights: \d\.\d\d\n", written[5])
    counted, adapters, merged = written[6].splitlines()
    assert counted in TEXT.replace("`", "")
    assert adapters.split()[1] == merged.split()[1]  # to two decimals
    assert names["adapted"] is not names["fresh"]
    assert written[7] == "GlassMachine()\nLiveWriter()\n"


def test_its_table_says_what_was_measured():
    """It has a row for each recipe: the loss at three seeds, and the median gain of that step."""
    found = {
        name: spread(run.found["validation_loss"] for run in stored("recipes", part="ladder", recipe=name))
        for name in LADDER
    }
    rows, before = [], None
    for name, losses in found.items():
        gained = "" if before is None else f"{before.median - losses.median:+.3f}".replace("-", "−")
        rows.append(
            f"| {name} | {losses.median:.3f} | {losses.lowest:.3f} to {losses.highest:.3f} | {gained} |"
        )
        before = losses
    in_text = [line for line in TEXT.splitlines() if line.startswith("| ")][1:]
    assert [line for line in in_text if not line.startswith("| :")] == rows
