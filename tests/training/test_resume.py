"""Killed while it saves, and started again: bit for bit what it would have been."""

import signal
import subprocess
import sys

import pytest

from glassformer.checkpoints import AVERAGE, MODEL, OPTIMIZER, latest, load
from glassformer.tasks import NextToken
from glassformer.train import Trainer, read_log

from .small import ENVIRONMENT, IDS, T, config, model, trainer, without_time

RUN = {
    "steps": 200,
    "save_every": 50,
    "evaluate_every": 40,
    "ema": 0.95,
    "warmup": 20,
    "model_changes": {"dropout": 0.2, "positions": "rope", "qk_norm": True, "n_layers": 1},
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_kill_minus_nine_in_mid_write(tmp_path, optimizer):
    settings = RUN | {"optimizer": optimizer, "decay": "cosine"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    trainer(folder=whole, **settings).run()

    program = f"""
import os, signal
import torch
torch.set_num_threads(1)
from tests.training.small import trainer
made = trainer(folder={str(broken)!r}, **{settings!r})
fsync = os.fsync
def kill(handle):
    # Step 150: the weights are written, and the optimizer's file half
    if made.step == 150 and os.path.exists({str(broken / ".unfinished-step-00000150" / OPTIMIZER)!r}):
        os.ftruncate(handle, 1000)
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(handle)
os.fsync = kill
made.run()
"""
    run = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, timeout=100)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert latest(broken).name == "step-00000100"
    assert (broken / ".unfinished-step-00000150").exists()
    assert len(read_log(broken / "log.jsonl")) == 150

    trainer(folder=broken, resume=True, **settings).run()
    for name in (MODEL, OPTIMIZER, AVERAGE):
        assert (latest(broken) / name).read_bytes() == (latest(whole) / name).read_bytes()
    assert load(broken).step == 200
    mine, its = read_log(broken / "log.jsonl"), read_log(whole / "log.jsonl")
    assert [record["step"] for record in mine] == list(range(1, 201))
    assert without_time(mine) == without_time(its)


def test_where_it_was_saved_makes_no_difference(tmp_path):
    """Interrupted after every third step, and with things that may change."""
    settings = RUN | {"steps": 12, "save_every": 5}
    trainer(folder=tmp_path / "whole", **settings).run()

    def stop(record):
        if record["step"] % 3 == 0:
            signal.raise_signal(signal.SIGINT)

    broken = tmp_path / "broken"
    for i in range(5):
        made = trainer(folder=broken, resume=True, options={"callback": stop}, **settings | {"save_every": i})
        made.run()
    for name in (MODEL, OPTIMIZER, AVERAGE):
        assert (latest(broken) / name).read_bytes() == (latest(tmp_path / "whole") / name).read_bytes()


def test_a_run_that_saved_nothing_yet_begins_again(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 9}\n{"step": 2')
    records = trainer(folder=tmp_path, resume=True).run()
    assert without_time(records) == without_time(trainer().run())
    assert read_log(tmp_path / "log.jsonl") == records


def test_damage_is_told_before_anything_is_done(tmp_path):
    trainer(folder=tmp_path).run()
    path = latest(tmp_path) / MODEL
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"model\.safetensors is not what was written"):
        trainer(folder=tmp_path, resume=True)


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    trainer(folder=tmp_path).run()
    other = NextToken(IDS[::-1].copy(), T, 4, 0)  # another text of the same characters
    with pytest.raises(ValueError, match="is from another run: it learned from other data"):
        Trainer(model(), other, config(), tmp_path, resume=True)
