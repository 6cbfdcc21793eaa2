"""Runs the Python examples in the README of training, and those on the page on parts of one's own."""

import re
import shutil
from types import SimpleNamespace

import pytest

from glassformer import text
from glassformer.experiments import spread, stored
from glassformer.experiments.recipes import LADDER
from glassformer.figures import loss_curve

from .small import ROOT

TEXT = (ROOT / "src" / "glassformer" / "train" / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "book" / "own-parts.md").read_text(encoding="utf-8")
PYTHON = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def ran(tmp_path, monkeypatch, capsys):
    """Provides ran(text, change) -> what its examples define, and what each prints, in an empty folder on a CPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)

    def run(text, change=str):
        names, written = {}, []
        for part in PYTHON.findall(text):
            exec(change(part), names)
            written.append(capsys.readouterr().out.replace('device="auto" has chosen cpu\n', ""))
        return names, written

    return run


def test_what_it_shows_in_python_runs(tmp_path, monkeypatch, ran, as_readers_run_it):
    shown = []
    curve = SimpleNamespace(update=lambda item: shown.append(item.data))
    monkeypatch.setattr(loss_curve, "display", lambda item, display_id: curve)
    corpus = text.corpus()[:20_000]  # no less than all of it, this says whether it runs
    monkeypatch.setattr(text, "corpus", lambda: corpus)
    chapter = "book/chapters/10-training.md"
    (tmp_path / chapter).parent.mkdir(parents=True)
    shutil.copy(ROOT / chapter, tmp_path / chapter)
    # 2 steps say as much as 2000: does it run?
    names, written = ran(TEXT, lambda part: re.sub(r"steps=\d+", "steps=2", part))
    assert len(written) == 10
    assert (tmp_path / "runs" / "by-hand" / "step-00000002").is_dir()
    assert "The loss falls, in NumPy" in shown[-1]
    assert len(written[5]) == 1 + 60 + 1  # what it was given, what it wrote, and the end of the line
    assert re.fullmatch(r"before: \d\.\d\d\nall weights: \d\.\d\d\n", written[6])
    counted, adapters, merged = written[7].splitlines()
    assert counted in TEXT.replace("`", "")
    assert adapters.split()[1] == merged.split()[1]  # to two decimals
    assert names["adapted"] is not names["fresh"]
    assert written[8] == "GlassMachine()\nLiveWriter()\n"
    assert len(written[9].splitlines()) == 5
    stored = names["pretrained"].load("runs/merged.safetensors").model
    assert stored.config == names["fresh"].config


@pytest.mark.weekly
def test_the_page_on_parts_of_ones_own_says_what_its_examples_print(ran, as_readers_run_it):
    names, written = ran(PAGE)
    printed = [float(loss) for loss in re.findall(r"^runs/\w+: (.*)$", "".join(written), re.M)]
    said = [float(loss) for loss in re.findall(r"\b\d\.\d\d\b", PYTHON.sub("", PAGE))]
    *_, of_reversal = printed
    assert printed == pytest.approx([*said, of_reversal], abs=0.06)  # another CPU rounds otherwise
    plain, experts, fading, recurrent = said
    assert experts < plain - 0.06
    assert max(fading, recurrent) < experts - 0.06
    line, *by_expert = written[2].splitlines()
    assert len(line) == len("First") + 20
    assert sorted("".join(one.partition(": ")[2] for one in by_expert)) == sorted(names["line"])
    weights = names["weights"]
    assert sum(row[max(0, t - 3) : t + 1].sum() for t, row in enumerate(weights)) / len(weights) > 0.5
    assert written[6].splitlines()[-1] == "abc>cba fee>eef had>dah"


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
