"""Tests the training loop: what one step does, how pieces of a batch add up, and what is logged."""

import dataclasses
import json
import math
import os
import re
import signal
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional

from glassformer import nn, scratch, shipped, text, train
from glassformer.bugs import put_in
from glassformer.checkpoints import latest, load, load_model
from glassformer.config import ModelConfig
from glassformer.protocols import OF_A_TASK
from glassformer.tasks import NO_TARGET
from glassformer.text import CharTokenizer
from glassformer.train import Trainer, TrainingConfig, evaluate
from glassformer.train.log import Log
from glassformer.train.recipe import Recipe

from .small import (
    ENOUGH,
    FAMILIES,
    T,
    V,
    config,
    in_two_processes,
    model,
    modest,
    task,
    trainer,
    without_time,
)


def losses(records):
    return [record["loss"] for record in records]


def test_one_step_by_torch_alone():
    """Compares with loss, gradient, clipping and AdamW written out in torch."""
    mine = trainer(steps=1, warmup=0, clip=0.5, learning_rate=0.01, weight_decay=0.0)
    [record] = mine.run()
    other = model()
    inputs, targets = task().batch(0)
    rows = other(torch.from_numpy(inputs["ids"])).reshape(-1, V)
    loss = functional.cross_entropy(rows, torch.from_numpy(targets).reshape(-1))
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(other.parameters(), 0.5)
    torch.optim.AdamW(other.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.0).step()
    assert record["loss"] == pytest.approx(loss.item(), rel=1e-14)
    assert record["gradient_norm"] == pytest.approx(norm.item(), rel=1e-12)
    assert record["gradient_norm"] > 0.5
    assert (record["step"], record["tokens"], record["learning_rate"]) == (1, 4 * T, 0.01)
    for name, weight in mine.model.named_parameters():
        torch.testing.assert_close(weight, other.get_parameter(name), rtol=1e-9, atol=1e-12)


def test_an_evaluation_makes_every_validation_batch_once(monkeypatch):
    """Also if there is an average of the weights, which is evaluated on the same batches."""
    mine, made = trainer(steps=1, warmup=0, ema=0.5, evaluate_every=1), []
    batches = list(mine.task.validation())
    monkeypatch.setattr(mine.task, "validation", lambda: (made.append(1) or batch for batch in batches))
    [record] = mine.run()
    assert len(made) == len(batches)
    with mine._as_used():
        expected = evaluate.validation_loss(mine.model, task())
    assert record["validation_loss_ema"] == pytest.approx(expected, rel=1e-12)


# Nothing but a step changes a weight

SMALLEST = 5e-324  # a configuration refuses 0, with which nothing could be learned; this one moves no float32

OTHERS = {
    "steps": 3, "batch_size": 8, "accumulation": 2, "optimizer": "muon", "learning_rate": SMALLEST,
    "embedding_rate": SMALLEST, "head_rate": SMALLEST, "norm_rate": SMALLEST, "betas": (0.5, 0.5), "eps": 1e-3,
    "weight_decay": 0.9, "embedding_decay": 0.9, "muon_momentum": 0.5, "muon_momentum_start": 0.5,
    "muon_momentum_warmup": 0, "muon_iterations": 1, "warmup": 0, "decay": "cosine", "final_share": 1.0, "clip": 0.0,
    "init": "gpt2", "zero_init": True, "ema": 0.5, "seed": 7, "evaluate_every": 1, "save_every": 1, "sample_every": 1,
    "device": "auto", "dtype": "bfloat16", "compile": True,
}  # fmt: skip
"""Another value than `config` gives for every option of a training."""


def test_every_option_is_among_them():
    assert set(OTHERS) == {field.name for field in dataclasses.fields(train.TrainingConfig)}
    plain = config()
    assert [name for name, value in OTHERS.items() if getattr(plain, name) == value] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("option", OTHERS)
def test_a_step_at_a_rate_of_nothing_leaves_every_weight_as_it_was(option, tmp_path, monkeypatch):
    """With Muon, which leaves all but the matrices of the blocks to AdamW."""
    monkeypatch.setattr(torch, "compile", lambda made: made)
    rates = {"learning_rate": SMALLEST, "steps": 2, "optimizer": "muon"}
    before = model(dtype=torch.float32, head="untied").state_dict()
    settings = config(**rates | {option: OTHERS[option]})
    made = train.Trainer(
        model(dtype=torch.float32, head="untied"),
        task(batch_size=settings.batch_size),
        settings,
        tmp_path,
        sampler=lambda model: "",
        progress=False,
    )
    assert made.run()[-1]["step"] >= 2
    after = {name: weight.detach() for name, weight in made.model.named_parameters()}
    for kept in (after, made.average or after):
        assert all(torch.equal(weight.cpu(), before[name]) for name, weight in kept.items())


def test_a_loaded_model_is_trained_from_the_weights_that_it_has():
    """The book's model, trained further by the very recipe that made it: the first loss is its own."""
    rate = f"training.learning_rate={SMALLEST}"
    rates = [f"training.{part}_rate={SMALLEST}" for part in ("embedding", "head", "norm")]
    recipe = Recipe.of_the_book("shakespeare", [rate, *rates, "training.steps=1", "training.device=cpu"])
    loaded, _ = shipped.load("shakespeare", room="nn")
    before = {key: weight.detach().clone() for key, weight in loaded.named_parameters()}
    _, task, its = recipe.made_for(text.corpus())
    task.held_out = task.held_out[:200]
    task.for_test = task.for_test[:200]
    made = train.Trainer(loaded, task, recipe.training, progress=False)
    [record] = made.run()
    assert record["loss"] < math.log(its.vocab_size) / 2 + 0.5  # far from a model of zeros
    assert all(torch.equal(weight, before[key]) for key, weight in loaded.named_parameters())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_every_family_learns(family, optimizer):
    made = trainer(
        family, steps=ENOUGH[family], batch_size=16, optimizer=optimizer, ema=0.9, dtype=torch.float32
    )
    found = made.run()
    assert np.mean(losses(found[-5:])) < np.mean(losses(found[:5])) - 0.25
    assert found[-1]["validation_loss"] < found[0]["loss"] - 0.25
    assert all(weight.grad is None for weight in made.model.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_add_up_to_the_batch(family):
    """This holds even if they have different numbers of targets: in pairs, padding has none."""
    whole = trainer(family, batch_size=8)
    pieces = trainer(family, batch_size=8, accumulation=4)
    one, other = whole.run(), pieces.run()
    np.testing.assert_allclose(losses(one), losses(other), rtol=1e-12)
    for name, weight in whole.model.named_parameters():
        torch.testing.assert_close(weight, pieces.model.get_parameter(name), rtol=1e-9, atol=1e-11)


def test_without_clipping_the_gradient_is_what_it_is():
    [clipped], [free] = trainer(steps=1, clip=1e-3).run(), trainer(steps=1, clip=0.0).run()
    assert clipped["gradient_norm"] == free["gradient_norm"] > 1e-3


def test_where_it_computes_is_known_before_it_runs():
    assert trainer().device == torch.device("cpu")


def test_the_same_seed_gives_the_same_run_and_leaves_the_world_alone():
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    one = trainer(model_changes={"dropout": 0.3}).run()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(8)
    other = trainer(model_changes={"dropout": 0.3}).run()
    assert without_time(one) == without_time(other)
    assert without_time(one) != without_time(trainer(seed=1, model_changes={"dropout": 0.3}).run())


def test_a_mistake_in_the_loss_is_one_in_training_and_validation():
    """Averaged over padding as well, the loss is too low by the share of padding among the targets."""
    right = trainer("encoder-decoder", steps=2)
    with put_in("loss-over-padding"):
        wrong = trainer("encoder-decoder", steps=2)
        [first, last] = wrong.run()
    [expected, _] = right.run()
    _, targets = right.task.batch(0)
    assert 0 < (counted := np.mean(targets != NO_TARGET)) < 0.9
    assert first["loss"] == pytest.approx(counted * expected["loss"], rel=1e-12)
    with put_in("loss-over-padding"):
        reported = train.validation_loss(wrong.model, wrong.task)
    assert last["validation_loss"] == reported < 0.9 * train.validation_loss(wrong.model, wrong.task)


def test_every_step_and_piece_drops_something_else():
    made = trainer(accumulation=2)
    drawn = []
    made._seed = lambda piece, seed=made._seed: (seed(piece), drawn.append(torch.rand(1).item()))
    made.run()
    assert len(set(drawn)) == 16


# Beside the steps


@pytest.mark.parametrize("family", FAMILIES)
def test_validation_that_takes_long_shows_how_far_it_is(family, monkeypatch, capsys):
    monkeypatch.setattr(evaluate, "A_MOMENT", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    given = task(family, batch_size=3)
    n = sum(1 for _ in given.validation())
    assert n > 1
    shown, silent = (train.validation_loss(model(family), given, progress=seen) for seen in (True, False))
    assert shown == silent
    assert f"/{n} " in capsys.readouterr().err


@pytest.mark.parametrize("family", FAMILIES)
def test_validation_is_the_mean_over_all_targets_without_dropout(family):
    made = trainer(family, steps=1, model_changes={"dropout": 0.5})
    [record] = made.run()
    made.model.eval()
    total = count = 0
    for inputs, targets in made.task.validation():
        for row, target in enumerate(targets):
            logits = made.model(**{name: torch.from_numpy(x[row : row + 1]) for name, x in inputs.items()})[0]
            log_p = logits.log_softmax(-1).detach().numpy()
            for place in np.flatnonzero(target != NO_TARGET):
                total -= log_p[place, target[place]]
                count += 1
    assert record["validation_loss"] == pytest.approx(total / count, rel=1e-12)


def test_when_things_happen():
    asked, seen = [], []

    def sampler(model):
        asked.append(model.training)
        return "a text"

    options = {"sampler": sampler, "callback": lambda record: seen.append(record["step"])}
    made = trainer(steps=7, evaluate_every=3, sample_every=2, options=options)
    records = made.run()
    assert [record["step"] for record in records if "validation_loss" in record] == [3, 6, 7]
    assert [(record["step"], record["sample"]) for record in records if "sample" in record] == [
        (2, "a text"),
        (4, "a text"),
        (6, "a text"),
    ]
    assert asked == [False] * 3  # in evaluation
    assert seen == list(range(1, 8))
    assert made.model.training


def test_looking_changes_nothing():
    sampler = train.continuing(CharTokenizer("abcdefghijklm"), "abc", 12)
    plain = trainer(model_changes={"dropout": 0.3})
    watched = trainer(
        model_changes={"dropout": 0.3},
        evaluate_every=1,
        sample_every=2,  # after an odd step, nothing but the evaluation has looked
        ema=0.9,
        options={"sampler": sampler},
    )
    assert losses(plain.run()) == losses(watched.run())
    samples = [record["sample"] for record in watched.log.records if "sample" in record]
    assert [len(sample) for sample in samples] == [3 + 12] * (len(watched.log.records) // 2)
    for name, weight in plain.model.named_parameters():
        assert torch.equal(weight, watched.model.get_parameter(name))


def test_the_average_is_evaluated_and_its_first_steps_are_by_hand():
    made = trainer(steps=2, ema=0.15)
    start = {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
    kept = []
    made.callback = lambda record: kept.append(
        {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
    )
    records = made.run()
    for name, average in made.average.items():
        # 1/10 of the average stays at the first step, and then 0.15, since 2/11 is more
        wanted = 0.15 * (0.1 * start[name] + 0.9 * kept[0][name]) + 0.85 * kept[1][name]
        torch.testing.assert_close(average, wanted, rtol=1e-12, atol=1e-14)
    with torch.no_grad():
        for name, weight in made.model.named_parameters():
            weight.copy_(made.average[name])
    assert records[-1]["validation_loss_ema"] == train.validation_loss(made.model, made.task)
    assert records[-1]["validation_loss_ema"] != records[-1]["validation_loss"]


@pytest.mark.parametrize("ema", [None, 0.5])
def test_the_test_part_is_looked_at_once_with_the_weights_that_stay(ema):
    settings = config(steps=6, evaluate_every=2, ema=ema)
    made = train.Trainer(model(), task(validation=0.05, test=0.05), settings, progress=False)
    looks, test = [], made.task.test
    made.task.test = lambda: (looks.append(made.step), test())[1]
    records = made.run()
    assert looks == [6]
    assert ["test_loss" in record for record in records] == [False] * 5 + [True]
    with torch.no_grad():
        for name, weight in made.model.named_parameters():
            weight.copy_(weight if ema is None else made.average[name])
    # Another task has the same end of the text for validation, and nothing after it.
    expected = train.validation_loss(made.model, task(validation=0.05))
    assert records[-1]["test_loss"] == pytest.approx(expected, rel=1e-12)


def test_a_loss_that_is_no_number_ends_the_run():
    made = trainer(steps=3)
    with torch.no_grad():
        made.model.token_embedding.weight[:, 0] = math.nan
    with pytest.raises(FloatingPointError, match="step 1: the loss is nan"):
        made.run()


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    made = trainer(steps=3, folder=tmp_path, save_every=1)

    def damage(record):
        if record["step"] == 2:
            with torch.no_grad():
                made.model.token_embedding.weight[0, 0] = math.inf

    made.callback = damage
    with pytest.raises(
        FloatingPointError,
        match=r"step 2: token_embedding\.weight has a number of size inf, .* last checkpoint, \S*step-00000001,",
    ):
        made.run()
    assert latest(tmp_path).name == "step-00000001"


def test_bfloat16_is_nearly_the_same_and_keeps_its_weights_in_float32():
    def run(dtype):
        settings = config(steps=30, batch_size=16, dtype=dtype)
        made = train.Trainer(model(dtype=torch.float32), task(batch_size=16), settings, progress=False)
        return np.array(losses(made.run())), made.model

    (exact, _), (rough, trained) = run("float32"), run("bfloat16")
    assert 0 < abs(exact - rough).max() < 0.03  # 8 bits: about three digits
    assert all(weight.dtype == torch.float32 for weight in trained.parameters())


def test_compiled_it_is_the_same(monkeypatch, as_readers_run_it):
    """torch traces the model into one program; the compiler itself is left out, because it takes a minute."""
    compiled = []
    compile_ = torch.compile
    monkeypatch.setattr(
        torch,
        "compile",
        lambda made: (compiled.append(made), compile_(made, backend="eager", fullgraph=True))[1],
    )
    made = trainer(steps=3, compile=True)
    assert losses(made.run()) == pytest.approx(losses(trainer(steps=3).run()), rel=1e-12)
    assert compiled == [made.model]


@pytest.mark.parametrize("family", FAMILIES)
def test_numpy_trains_the_same(family):
    settings = config(steps=6, clip=0.7)
    twin = scratch.Transformer(model(family).config, generator=None, dtype=np.float64)
    twin.load_state_dict({name: weight.detach().numpy() for name, weight in model(family).named_parameters()})
    found = list(train.train_in_numpy(twin, task(family), settings))
    made = trainer(family, steps=6, clip=0.7)
    np.testing.assert_allclose(found, losses(made.run()), rtol=1e-9)
    assert len(list(train.train_in_numpy(twin, task(family), settings, steps=3))) == 3


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": "muon"}, {"accumulation": 2}, {"ema": 0.9}, {"zero_init": True}, {"norm_rate": 0.1}],
)
def test_numpy_refuses_what_it_cannot_do(changes, as_readers_run_it):
    [(name, value)] = changes.items()
    twin = scratch.Transformer(model().config, generator=None)
    with pytest.raises(ValueError, match=f"{name}={value!r} needs Trainer"):
        train.train_in_numpy(twin, None, config(**changes))


# The log and the checkpoints


def test_the_log_is_what_run_gives(tmp_path):
    records = trainer(folder=tmp_path, evaluate_every=4).run()
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records == train.read_log(tmp_path / "log.jsonl")
    assert [record["step"] for record in records] == list(range(1, 9))
    assert all(record["seconds"] > 0 for record in records)


def test_half_a_line_is_left_out(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert train.read_log(path) == [{"step": 1}, {"step": 2}]
    log = Log(path)
    log.begin(1)
    log.write({"step": 2, "again": True})
    assert train.read_log(path) == [{"step": 1}, {"step": 2, "again": True}]
    path.write_text('{"step": 1}\nno\n{"step": 2}\n')
    with pytest.raises(ValueError, match="line 2 is not JSON"):
        train.read_log(path)


def test_the_last_two_checkpoints_stay_and_are_models(tmp_path):
    tokenizer = CharTokenizer("abcdefghijklm")
    made = trainer(folder=tmp_path, save_every=3, ema=0.9, options={"tokenizer": tokenizer})
    made.run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "step-00000006", "step-00000008"]
    assert load(tmp_path).tokenizer == tokenizer.to_json()
    ids = np.arange(T)[None]
    for room in ("scratch", "nn"):
        loaded = load_model(tmp_path, room=room)
        assert not loaded.training
        found = np.asarray(loaded.state_dict()["token_embedding.weight"])
        np.testing.assert_array_equal(found, made.average["token_embedding.weight"].numpy())
        logits = loaded(torch.from_numpy(ids) if room == "nn" else ids)
        assert logits.shape == (1, T, V)


def test_training_twice_does_nothing_more(tmp_path):
    made = trainer(folder=tmp_path)
    records = made.run()
    assert made.run() == records
    assert trainer(folder=tmp_path, resume=True).run() == records


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer().run()
    assert list(tmp_path.iterdir()) == []


# Ctrl-C


@pytest.fixture
def interruptible():
    """Makes Ctrl-C raise KeyboardInterrupt, even if the parent process ignores it, as `nohup` does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_finishes_the_step_saves_and_says_how_to_go_on(tmp_path, capsys, interruptible):
    def interrupt(record):
        if record["step"] == 3:
            signal.raise_signal(signal.SIGINT)

    options = {"callback": interrupt, "progress": True}
    made = trainer(folder=tmp_path, options=options, model_changes={"dropout": 0.2})
    assert [record["step"] for record in made.run()] == [1, 2, 3]
    assert made.was_interrupted
    assert latest(tmp_path).name == "step-00000003"
    said = "".join(capsys.readouterr())
    assert f"Stopped after step 3 of 8; the run is saved in {tmp_path}." in said
    assert "resume=True" in said
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    rest = trainer(folder=tmp_path, resume=True, model_changes={"dropout": 0.2}).run()
    assert without_time(rest) == without_time(trainer(model_changes={"dropout": 0.2}).run())


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGHUP")
def test_a_closed_terminal_saves_the_run_too(tmp_path, monkeypatch):
    """The terminal is gone: SIGHUP comes, and whatever is printed from then on raises an error."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def close(record):
        if record["step"] == 3:
            signal.raise_signal(signal.SIGHUP)
            monkeypatch.setattr("tqdm.tqdm.write", fail)

    def fail(*_):
        raise OSError(5, "Input/output error")

    try:
        made = trainer(folder=tmp_path, options={"callback": close, "progress": True})
        assert len(made.run()) == 3
        assert latest(tmp_path).name == "step-00000003"
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup asks
        assert len(trainer(options={"callback": close}).run()) == 8
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_a_notebook_ctrl_c_ends_the_cell_once_the_run_is_saved(tmp_path, monkeypatch, interruptible):
    monkeypatch.setattr("glassformer.train.trainer.in_notebook", lambda: True)
    made = trainer(folder=tmp_path)
    made.callback = lambda record: record["step"] == 3 and signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="Stopped after step 3 of 8; the run is saved in") as stopped:
        made.run()
    assert stopped.value._render_traceback_() == [str(stopped.value)]  # what IPython shows
    assert latest(tmp_path).name == "step-00000003"


def test_a_second_ctrl_c_ends_it_at_once(interruptible):
    def interrupt(record):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trainer(options={"callback": interrupt}).run()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_after_ctrl_c_without_a_folder_the_same_trainer_goes_on(capsys):
    made = trainer(options={"progress": True})
    made.callback = lambda record: record["step"] == 5 and signal.raise_signal(signal.SIGINT)
    assert len(made.run()) == 5
    assert "nothing was saved" in "".join(capsys.readouterr())
    assert without_time(made.run()) == without_time(trainer().run())


# What does not fit


def fit(model, its_task=None, **changes):
    train.Trainer(model, its_task or task(), config(**changes))


def in_numpy():
    return scratch.Transformer(model().config, generator=None)


# What is called: how the message goes
WRONG_VALUES = {
    "fit(model('encoder'))": "NextToken is for family='decoder', but the model has 'encoder'",
    "fit(model(context_length=7))": "task.length=8 must be at most context_length=7",
    "fit(model(vocab_size=10))": "the task has ids up to 10, but the model's vocab_size=10",
    "fit(model(), task(batch_size=3))": "task.batch_size=3 does not match config.batch_size=4",
    "fit(model(head='none'))": "no head",
    "fit(model(dtype=torch.bfloat16))": "token_embedding.weight is in torch.bfloat16, in which small steps are lost",
    "fit(model().requires_grad_(False))": "model has no parameter with requires_grad=True",
    "fit(model(), sample_every=1)": "sample_every=1 needs a sampler",
    "trainer(device='warp').run()": "device='warp' is not a device",
    "trainer(device='xpu').run()": "device='xpu' is not available: this machine has cpu",
}
WRONG_KINDS = {
    "fit(in_numpy())": "model must be in PyTorch, not a NumPy Transformer",
    "fit('shakespeare')": "model must be a model, not 'shakespeare': pretrained.load(…).model is one",
    "train.train_in_numpy(model(), task(), config())": "model must be a Transformer of glassformer.scratch, not",
}


@pytest.mark.parametrize("call", [*WRONG_VALUES, *WRONG_KINDS])
def test_what_does_not_fit(call, as_readers_run_it):
    error, message = (ValueError, WRONG_VALUES) if call in WRONG_VALUES else (TypeError, WRONG_KINDS)
    with pytest.raises(error, match=re.escape(message[call])):
        eval(call)


class Counting:
    """A task of one's own, with nothing but what `AnyTask` lists: every id is followed by the next one."""

    family, vocab_size, batch_size, length = "decoder", 9, 4, 5

    def batch(self, step, rank=0, world=1):
        ids = (np.arange(self.length + 1) + np.arange(4)[:, None] + step) % 9
        rows = slice(rank * 4 // world, (rank + 1) * 4 // world)
        return {"ids": ids[rows, :-1]}, ids[rows, 1:]

    def validation(self):
        yield self.batch(0)


def test_a_task_of_ones_own_is_learned_and_goes_on(tmp_path):
    config = ModelConfig(vocab_size=9, context_length=5, d_model=16, n_layers=1, n_heads=2)

    def trainer(steps, **options):
        model = nn.Transformer(config, generator=torch.Generator().manual_seed(0))
        training = TrainingConfig(steps=60, batch_size=4, learning_rate=1e-2, save_every=steps)
        return Trainer(model, Counting(), training, tmp_path, progress=False, **options)

    assert trainer(60).run()[-1]["validation_loss"] < 0.5  # of 2.2
    assert len(trainer(60, resume=True).run()) == 60


@pytest.mark.parametrize("missing", OF_A_TASK)
def test_what_a_task_lacks_is_named(missing):
    names = {name: getattr(Counting, name) for name in OF_A_TASK if name != missing}
    model = nn.Transformer(
        ModelConfig(vocab_size=9, context_length=5, d_model=8, n_layers=1, n_heads=2), generator=None
    )
    with pytest.raises(
        TypeError, match=f"task, a Mine, lacks {missing}: protocols.AnyTask says what it needs"
    ):
        Trainer(model, type("Mine", (), names)(), TrainingConfig(steps=1, batch_size=4))


@pytest.mark.parametrize(
    ("method", "gives", "said"),
    [
        (
            "batch",
            lambda ids, targets: ({"ids": torch.tensor(ids)}, targets),
            "inputs['ids'] is of type Tensor",
        ),
        ("batch", lambda ids, targets: ({"ids": ids}, targets.tolist()), "but targets is of type list"),
        ("batch", lambda ids, targets: (torch.tensor(ids), targets), "but inputs is of type Tensor"),
        ("validation", lambda ids, targets: [(ids, targets)], "but inputs is of type ndarray"),
        (
            "validation",
            lambda ids, targets: [({"ids": ids}, torch.tensor(targets))],
            "targets is of type Tensor",
        ),
    ],
)
def test_batches_of_another_kind_are_named(method, gives, said, as_readers_run_it):
    inputs, targets = Counting().batch(0)
    mine = type("Mine", (Counting,), {method: lambda self, *_: gives(inputs["ids"], targets)})()
    config = ModelConfig(vocab_size=9, context_length=5, d_model=8, n_layers=1, n_heads=2)
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0))
    training = TrainingConfig(steps=1, batch_size=4)
    with pytest.raises(TypeError, match=rf"batch\(\), validation\(\) .* NumPy array.*{re.escape(said)}"):
        Trainer(model, mine, training, progress=False).run()
    mine = type("Mine", (Counting,), {"batch": lambda self, step: None})()
    with pytest.raises(TypeError, match=r"task, a Mine, lacks batch\(step, rank, world\): protocols.AnyTask"):
        Trainer(model, mine, training)


def test_a_folder_with_a_run_is_not_trained_over(tmp_path):
    late = trainer(folder=tmp_path)
    trainer(folder=tmp_path).run()
    with pytest.raises(
        ValueError, match="another run has written to it in the meantime, up to step-00000008"
    ):
        late.run()
    with pytest.raises(
        ValueError, match=r"already has a run, up to step-00000008: continue it with resume=True"
    ):
        trainer(folder=tmp_path)
    with pytest.raises(ValueError, match=r"is from another run: learning_rate was 0.01 and is now 0.02"):
        trainer(folder=tmp_path, resume=True, learning_rate=0.02)
    with pytest.raises(ValueError, match="is from another run: d_ff was 24 and is now 32"):
        trainer(folder=tmp_path, resume=True, model_changes={"d_ff": 32})


# Several processes


def in_parts(folder):
    made = trainer(PADDED, folder=folder, **SHARED)
    modest(made.model)
    made.run()


def test_two_processes_are_one_with_the_whole_batch(tmp_path):
    folder = in_two_processes(in_parts, tmp_path)
    two = train.read_log(folder / "log.jsonl")
    # Two processes with two pieces each drop what four pieces of one process do.
    alone = trainer(PADDED, **SHARED | {"accumulation": 4})
    modest(alone.model)
    one = alone.run()
    assert [record["step"] for record in two] == list(range(1, 9))
    names = ("loss", "auxiliary_size", "gradient_norm", "validation_loss", "validation_loss_ema", "tokens")
    for name in names:
        mine = [record[name] for record in one if name in record]
        np.testing.assert_allclose([r[name] for r in two if name in r], mine, rtol=1e-11, err_msg=name)
    checkpoint = load(folder)
    for name, weight in alone.model.named_parameters():
        np.testing.assert_allclose(checkpoint.weights[name], weight.detach().numpy(), rtol=1e-8, atol=1e-11)


PADDED = "encoder-decoder"  # whose halves of a batch have not equally many targets
SHARED = {
    "batch_size": 8,
    "accumulation": 2,
    "evaluate_every": 4,
    "ema": 0.9,
    "model_changes": {"dropout": 0.2},
}
