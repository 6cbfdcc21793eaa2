"""Tests the page that says how models and stored runs were made."""

import json

from glassformer import shipped
from glassformer.experiments import NAMES
from tools import made


def test_the_page_is_what_the_program_writes():
    assert made.PAGE.read_text(encoding="utf-8") == made.page()


def test_it_has_a_row_for_every_model_and_every_experiment():
    rows = [line.split(" | ")[0] for line in made.page().splitlines() if line.startswith("| ")]
    for name in shipped.NAMES:
        assert f"| {name}" in rows
    for name in NAMES:
        assert any(row.startswith(f"| [{name}](") for row in rows), name


def test_minutes_count_every_seed_and_admit_what_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(made, "AGAIN", tmp_path / "again.json")
    run = made.stored("stuck")[0]
    repeated = [{"name": "stuck", "settings": run.settings, "seconds": 600}]
    made.AGAIN.write_text(json.dumps(repeated), encoding="utf-8")
    n_seeds = sum(made._kind(each.settings) == made._kind(run.settings) for each in made.stored("stuck"))
    assert made.minutes("stuck") == f"at least {10 * n_seeds}"
    made.AGAIN.write_text("[]", encoding="utf-8")
    assert made.minutes("stuck") == "–"
