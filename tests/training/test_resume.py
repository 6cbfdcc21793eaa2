"""Tests a run that was killed during a save and started again: it is bit for bit as if nothing had happened."""

import os
import signal
import sys

import pytest
import torch

from glassformer.checkpoints import AVERAGE, MODEL, OPTIMIZER, latest, load
from glassformer.tasks import NextToken
from glassformer.train import Trainer, read_log
from tools.shared.browser import PATIENCE

from .small import IDS, PROCESSES, T, config, model, trainer, without_time

RUN = {
    "steps": 20,
    "save_every": 5,
    "evaluate_every": 4,
    "ema": 0.95,
    "warmup": 4,
    "model_changes": {"dropout": 0.2, "positions": "rope", "qk_norm": True, "n_layers": 1},
}


def run_and_kill(folder, settings, threads):
    """Starts a run that is killed at the save of step 15, when half of the optimizer's file is written."""
    torch.set_num_threads(threads)  # as many as there, for the same bits
    made, fsync = trainer(folder=folder, **settings), os.fsync

    def kill(handle):
        if made.step == 15 and (folder / ".unfinished-step-00000015" / OPTIMIZER).exists():
            os.ftruncate(handle, 1000)
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    os.fsync = kill
    made.run()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_kill_minus_nine_in_mid_write(tmp_path):
    settings = RUN | {"optimizer": "muon", "decay": "cosine"}  # and AdamW, for all but matrices
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    trainer(folder=whole, **settings).run()

    process = PROCESSES.Process(
        target=run_and_kill, args=(broken, settings, torch.get_num_threads()), daemon=True
    )
    process.start()
    process.join(timeout=PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    assert latest(broken).name == "step-00000010"
    assert (broken / ".unfinished-step-00000015").exists()
    assert len(read_log(broken / "log.jsonl")) == 15

    trainer(folder=broken, resume=True, **settings).run()
    for name in (MODEL, OPTIMIZER, AVERAGE):
        same = (latest(broken) / name).read_bytes() == (latest(whole) / name).read_bytes()
        assert same, name  # to show where many bytes differ, pytest would take minutes
    assert load(broken).step == 20
    mine, its = read_log(broken / "log.jsonl"), read_log(whole / "log.jsonl")
    assert [record["step"] for record in mine] == list(range(1, 21))
    assert without_time(mine) == without_time(its)


def test_where_it_was_saved_makes_no_difference(tmp_path):
    """The run is interrupted after every third step, and settings that may change do change."""
    settings = RUN | {"steps": 12}
    trainer(folder=tmp_path / "whole", **settings).run()

    def stop(record):
        if record["step"] % 3 == 0:
            signal.raise_signal(signal.SIGINT)

    broken = tmp_path / "broken"
    for i in range(5):
        made = trainer(folder=broken, resume=True, options={"callback": stop}, **settings | {"save_every": i})
        made.run()
    for name in (MODEL, OPTIMIZER, AVERAGE):
        same = (latest(broken) / name).read_bytes() == (latest(tmp_path / "whole") / name).read_bytes()
        assert same, name


def test_a_run_that_saved_nothing_yet_begins_again(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 9}\n{"step": 2')
    records = trainer(folder=tmp_path, resume=True).run()
    assert without_time(records) == without_time(trainer().run())
    assert read_log(tmp_path / "log.jsonl") == records


def test_damage_is_told_before_anything_is_done(tmp_path):
    trainer(folder=tmp_path).run()
    path = latest(tmp_path) / MODEL
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"model\.safetensors does not contain what was written"):
        trainer(folder=tmp_path, resume=True)


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    trainer(folder=tmp_path).run()
    other = NextToken(IDS[::-1].copy(), T, 4, 0)  # another text of the same characters
    with pytest.raises(
        ValueError,
        match="is from another run: it learned from different data, or from different batches of it",
    ):
        Trainer(model(), other, config(), tmp_path, resume=True)


def test_more_steps_are_those_of_a_longer_run(tmp_path, capsys):
    """Without decay, a run that ended and was given more steps is bit for bit the longer one."""
    settings = RUN | {"steps": 12, "decay": "none"}
    whole, folder = tmp_path / "whole", tmp_path / "run"
    trainer(folder=whole, **settings).run()
    trainer(folder=folder, **settings | {"steps": 7}).run()
    trainer(folder=folder, resume=True, **settings, options={"progress": True}).run()
    assert (latest(folder) / MODEL).read_bytes() == (latest(whole) / MODEL).read_bytes()
    assert (
        "12 steps instead of 7: from step 8 on, learning rates follow the schedule of 12 steps, so the next one is "
        "0.01 and not 0.01"
    ) in capsys.readouterr().out


def test_a_rate_that_had_fallen_to_zero_rises_again(tmp_path):
    trainer(folder=tmp_path, steps=6).run()
    records = trainer(folder=tmp_path, resume=True, steps=10).run()
    rates = [record["learning_rate"] for record in records]
    assert rates[5] == pytest.approx(0.01 * (1 - 3 / 4))
    assert rates[6] == pytest.approx(0.01 * (1 - 4 / 8))


@pytest.mark.parametrize("steps", [3, 6])
def test_fewer_steps_than_were_done_are_refused(tmp_path, steps):
    trainer(folder=tmp_path, steps=6).run()
    made = trainer(folder=tmp_path, resume=True, steps=9, options={"callback": _stop})
    made.run()  # interrupted after step 7
    with pytest.raises(
        ValueError, match=f"steps={steps} must be above 7, the number of steps that the run in"
    ):
        trainer(folder=tmp_path, resume=True, steps=steps)
    assert trainer(folder=tmp_path, resume=True, steps=8).run()[-1]["step"] == 8


def _stop(record):
    signal.raise_signal(signal.SIGINT)
