"""Tests the estimate of a run's remaining time, with a simulated clock; printing it must change nothing."""

import re
from itertools import count

import pytest

from glassformer.checkpoints import MODEL, OPTIMIZER, latest
from glassformer.train import trainer as loop
from glassformer.train.estimate import TRIED, in_words, seconds_left

from .small import config, trainer, without_time


def test_steps_and_looks_at_the_validation_part_are_counted():
    given = config(steps=100, evaluate_every=30)
    tried = [9.0, 9.0, 9.0, 2.0, 3.0, 1.0, 2.0, 2.0, 8.0, 2.0]  # the first three, and the one that stuttered
    # 90 steps, and looks after 30, 60, 90 and 100, each of 15 batches that only go forward
    assert seconds_left(given, 10, tried, 15.0) == pytest.approx(2 * (90 + 4 * 5))
    assert seconds_left(given.replace(ema=0.9), 10, tried, 15.0) == pytest.approx(2 * (90 + 2 * 4 * 5))
    assert seconds_left(given.replace(evaluate_every=0), 95, tried, 15.0) == pytest.approx(2 * (5 + 5))
    years = given.replace(steps=10**15, evaluate_every=1)
    assert seconds_left(years, 10, tried, 15.0) == pytest.approx(2 * 6 * 1e15)
    # what was looked at is past
    assert seconds_left(given, 60, tried, 15.0) == pytest.approx(2 * (40 + 2 * 5))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "about 1 second"),
        (1.6, "about 2 seconds"),
        (89.0, "about 89 seconds"),
        (91.0, "about 2 minutes"),
        (200.0, "about 3 minutes"),
        (5399.0, "about 90 minutes"),
        (5401.0, "about 2 hours"),
    ],
)
def test_in_words(seconds, said):
    assert in_words(seconds) == said


@pytest.fixture
def slow(monkeypatch):
    """Provides a clock on which every step takes a minute: it is read when a step begins and when it ends."""
    ticks = count(0.0, 60.0)
    monkeypatch.setattr(loop.time, "perf_counter", lambda: next(ticks))


def said(capsys):
    written = capsys.readouterr()
    return re.findall(r"[\d,]+ more steps: .*", written.out + written.err)


def test_it_is_said_once_after_the_first_steps_of_a_run_and_of_one_that_goes_on(slow, capsys, tmp_path):
    settings = {"steps": 45, "save_every": 20, "folder": tmp_path}

    def stop(record):
        if record["step"] == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(options={"progress": True, "callback": stop}, **settings).run()
    [first] = said(capsys)
    # 35 minutes; and once the 7 windows of validation, 7/4 of a batch: half a minute
    assert first.endswith("35 more steps: about 36 minutes on this machine")
    trainer(resume=True, options={"progress": True}, **settings).run()
    [again] = said(capsys)
    assert again.endswith("15 more steps: about 16 minutes on this machine")


def test_a_run_without_a_bar_or_without_a_rest_says_nothing(capsys):
    trainer(steps=TRIED + 2).run()
    trainer(steps=TRIED, options={"progress": True}).run()
    assert said(capsys) == []


def test_saying_it_changes_nothing(tmp_path):
    """Compares weights, optimizer and losses, with dropout and validation at the same steps."""
    settings = {
        "steps": TRIED + 5,
        "evaluate_every": 4,
        "model_changes": {"dropout": 0.2},
        "optimizer": "muon",
    }
    quiet, loud = (
        trainer(folder=tmp_path / str(shown), options={"progress": shown}, **settings)
        for shown in (False, True)
    )
    assert without_time(quiet.run()) == without_time(loud.run())
    for name in (MODEL, OPTIMIZER):
        assert (latest(tmp_path / "True") / name).read_bytes() == (
            latest(tmp_path / "False") / name
        ).read_bytes()
