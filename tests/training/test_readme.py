"""The README of training: what it shows in Python is run, with fewer steps, one part after the other as a reader would."""

import re

from glassformer import figures

from .small import ROOT

TEXT = (ROOT / "src" / "glassformer" / "train" / "README.md").read_text(encoding="utf-8")
PARTS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


class Shown:
    def __init__(self):
        self.html = ""

    def display(self, item, display_id):
        self.html = item.data
        return self

    def update(self, item):
        self.html = item.data


def test_what_it_shows_in_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = Shown()
    monkeypatch.setattr(figures, "display", shown.display)
    names = {}
    for part in PARTS:
        exec(re.sub(r"steps=\d+", "steps=2", part), names)  # 2 steps say as much as 2000: does it run?
    assert len(PARTS) == 3
    assert (tmp_path / "runs" / "by-hand" / "step-00000002").is_dir()
    assert "The loss falls, in NumPy" in shown.html
    assert len(capsys.readouterr().out) == 1 + 60 + 1  # what it was given, what it wrote, and the end of the line
