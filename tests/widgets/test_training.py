"""Tests a whole training in the page: its batches, its optimizers, its losses, and what a reader may ask of it.

The same initial weights and batches go to `scratch`, and to PyTorch with the optimizers of `glassformer.train`.
"""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from close import SINGLE, assert_close
from linking import array_of, arrays_of, fields, opened

from glassformer import nn, text
from glassformer.config import ModelConfig
from glassformer.generate import generate
from glassformer.scratch import (
    AdamW,
    Transformer,
    clip_gradients,
    cross_entropy,
    cross_entropy_backward,
)
from glassformer.trace import trace
from glassformer.train import TrainingConfig, rate_share
from glassformer.train.optimizers import optimizers_of, set_schedule
from glassformer.train.recipe import Recipe

TEXT = text.corpus()[:20_000]
SMALL = {"d_model": 32, "n_layers": 2, "length": 24, "batch_size": 6, "steps": 100, "seed": 5}
ONE_RATE = {
    "optimizer": "adamw",
    "learning_rate": 5e-3,
    "embedding_rate": None,
    "head_rate": None,
    "norm_rate": None,
    "weight_decay": 0.1,
    "warmup": 10,
}
MUON = {"warmup": 10, "weight_decay": 0.01}

MODERN = Recipe.of_the_book("modern")
RECIPE = {
    "model": fields(MODERN.made_for(TEXT)[2]),
    "training": dataclasses.asdict(MODERN.training),
}

# Trains from new weights, and returns them with all batches, losses and the weights afterwards.
TRAIN = """({ settings, kind, steps }) => {
  const training = drained(js.Training.of(settings, kind));
  const start = packed(training.model.read());
  const batches = [];
  for (let i = 0; i < steps; i++) {
    const { inputs, targets } = training.text.batch(i);
    batches.push([[...inputs], [...targets]]);
    drained(training.train());
  }
  const { config, losses, gradients } = training;
  return { config, start, batches, losses, gradients, end: packed(training.model.read()) };
}"""


@pytest.fixture(scope="module")
def page(browser):
    page = opened(browser, "training", "learned_text", "optimizers", "training_worker", "training_server")
    yield page
    page.close()


def settings(**changes):
    """Returns the settings of a small training."""
    return {"recipe": RECIPE, "text": TEXT, **SMALL, **changes}


def trained(page, *, kind, steps, **changes):
    return page.evaluate(
        "(asked) => train(asked)".replace("train", f"({TRAIN})"),
        {"settings": settings(**changes), "kind": kind, "steps": steps},
    )


def batches_of(run):
    shape = (SMALL["batch_size"], SMALL["length"])
    for inputs, targets in run["batches"]:
        yield np.array(inputs).reshape(shape), np.array(targets).reshape(shape)


def config_of(run):
    return ModelConfig(**run["config"])


# --- losses ---


def losses_of_scratch(run, training):
    """Trains scratch, in double precision, with the weights and batches of a run."""
    model = Transformer(config_of(run), generator=None, dtype=np.float64)
    weights = model.named_parameters()
    for name, array in arrays_of(run["start"]).items():
        weights[name][:] = array
    no_decay = [name for name, weight in weights.items() if weight.ndim < 2]
    optimizer = AdamW(model, betas=training.betas, weight_decay=training.weight_decay, no_decay=no_decay)
    for step, (inputs, targets) in enumerate(batches_of(run)):
        saved = []
        logits = model(inputs, saved=saved)
        model.zero_gradients()
        model.backward(cross_entropy_backward(logits, targets), saved)
        length = clip_gradients(model, training.clip)
        optimizer.learning_rate = training.learning_rate * rate_share(training, step)
        optimizer.step()
        yield float(cross_entropy(logits, targets)), length


def losses_of_pytorch(run, training):
    """Trains PyTorch, in double precision, with the optimizers of `glassformer.train`."""
    model = nn.Transformer(config_of(run), generator=None, dtype=torch.float64)
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, array in arrays_of(run["start"]).items():
            weights[name].copy_(torch.tensor(array))
    optimizers = optimizers_of(model, training)
    for step, (inputs, targets) in enumerate(batches_of(run)):
        loss = nn.cross_entropy(model(torch.tensor(inputs)), torch.tensor(targets))
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        set_schedule(optimizers, training, step)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        yield loss.item(), length.item()


def training_of(changes, steps=SMALL["steps"]):
    recipe = dataclasses.asdict(MODERN.training)
    sizes = {"steps": steps, "batch_size": SMALL["batch_size"], "seed": SMALL["seed"]}
    return TrainingConfig(**{**recipe, **sizes, **changes})


CASES = {"adamw": (ONE_RATE, losses_of_scratch, losses_of_pytorch), "muon": (MUON, losses_of_pytorch)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_a_hundred_steps_have_the_losses_of_the_reference(page, case):
    changes, *references = CASES[case]
    run = trained(page, kind={"double": True}, steps=100, changes=changes)
    # In 32 bits, rounding grows from step to step, Muon's most of all.
    rounded = [trained(page, kind=kind, steps=100, changes=changes) for kind in ({}, {"plain": True})]
    for reference in references:
        losses, lengths = zip(*reference(run, training_of(changes)), strict=True)
        assert losses[-1] < losses[0] - 1
        np.testing.assert_allclose(run["losses"], losses, rtol=1e-7)
        np.testing.assert_allclose(run["gradients"], lengths, rtol=1e-5)
        for found in rounded:
            np.testing.assert_allclose(found["losses"], losses, rtol=0, atol=1e-3)
            assert found["losses"] != run["losses"]


@pytest.mark.parametrize("decay", ["none", "linear", "cosine"])
def test_the_schedule_is_that_of_the_package(page, decay):
    changes = {"decay": decay, "warmup": 7, "muon_momentum_warmup": 20}
    training = training_of(changes, steps=50)
    found = page.evaluate(
        "(settings) => Array.from({ length: 50 }, (_, step) => js.rateShare(settings, step))",
        dataclasses.asdict(training),
    )
    np.testing.assert_allclose(found, [rate_share(training, step) for step in range(50)], rtol=1e-12)


# --- the text ---


def test_every_window_is_read_once_in_an_epoch_with_new_cuts_in_the_next(page):
    source = "".join(chr(0x4E00 + i) for i in range(2000))  # every character tells where it stands
    found = page.evaluate(
        """async (text) => {
          const learned = drained(js.LearnedText.of(text, { length: 10, rows: 4, seed: 3 }));
          const batches = Array.from({ length: 100 }, (_, i) => learned.batch(i));
          const again = learned.batch(1);
          return {
            windows: learned.windows, learned: learned.ids.length, held: learned.heldOut.length,
            inputs: batches.map(({ inputs }) => [...inputs]), targets: batches.map(({ targets }) => [...targets]),
            again: [...again.inputs],
          };
        }""",
        source,
    )
    assert (found["learned"], found["held"], found["windows"]) == (1800, 200, 178)
    inputs = np.array(found["inputs"]).reshape(-1, 10)
    np.testing.assert_array_equal(np.array(found["targets"]).reshape(-1, 10), inputs + 1)
    assert (np.diff(inputs, axis=1) == 1).all()
    first, second = inputs[:178, 0], inputs[178:356, 0]
    for starts in (first, second):
        assert len(set(starts)) == 178
        assert len(set(starts % 10)) == 1
        assert starts.max() + 10 < 1800
    assert list(first) != sorted(first)
    assert list(first // 10) != list(second // 10)
    assert first[0] % 10 != second[0] % 10
    assert found["again"] == found["inputs"][1]


def test_the_landmarks_are_those_of_chapter_10(page):
    found = page.evaluate(
        "(text) => drained(drained(js.LearnedText.of(text, { length: 24, rows: 6, seed: 0 })).landmarks())",
        TEXT,
    )
    tokenizer = text.CharTokenizer.from_text(TEXT)
    V = tokenizer.vocab_size
    learned, held_out = text.split(np.array(tokenizer.encode(TEXT)), 0.1)
    ones, pairs = np.bincount(learned, minlength=V) + 1.0, np.ones((V, V))
    np.add.at(pairs, (learned[:-1], learned[1:]), 1)
    first, second = held_out[:-1], held_out[1:]
    expected = {
        "ln V": np.log(V),
        "unigram": -np.log(ones / ones.sum())[second].mean(),
        "bigram": -np.log(pairs / pairs.sum(axis=1)[:, None])[first, second].mean(),
    }
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_text_of_any_characters_can_be_learned(page):
    source = "Ünïcödé 😀 ⟨x⟩ 🎉\n" * 300
    known, ids = page.evaluate(
        """(text) => {
          const learned = drained(js.LearnedText.of(text, { length: 8, rows: 2, seed: 0 }));
          return [learned.known, [...learned.ids, ...learned.heldOut]];
        }""",
        source,
    )
    tokenizer = text.CharTokenizer.from_text(source)
    assert known == list(tokenizer.characters)
    assert ids == list(tokenizer.encode(source))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"text": "too short"},
            "The text has 9 characters, but it needs at least 1930, a tenth of which is held out to "
            "judge the model.",
        ),
        ({"text": "a" * 5000}, "The text consists of a single character, so there is nothing to learn."),
        ({"d_model": 40}, "d_model=40 is not a multiple of 32."),
        ({"changes": {"ema": 0.99}}, "This model cannot be trained here: ema=0.99 is not null."),
        (
            {"changes": {"optimizer": "sgd"}},
            'This model cannot be trained here: optimizer="sgd" is none of adamw, muon.',
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_sentence(page, changes, why):
    found = page.evaluate(
        """(settings) => {
          try { drained(js.Training.of(settings)); } catch (error) { return error.message; }
        }""",
        settings(**changes),
    )
    assert found == why


# --- what a reader may ask ---

ASK = """({ settings, weight }) => {
  const training = drained(js.Training.of(settings));
  for (let i = 0; i < 100; i++) drained(training.train());
  const { inputs, targets } = training.text.heldOutBatch(0);
  const T = training.text.length;
  return {
    config: training.config,
    weights: packed(training.tensors()),
    inputs: [...inputs.subarray(0, T)],
    targets: [...targets.subarray(0, T)],
    heldOut: drained(training.heldOut()),
    held: [...training.text.heldOut],
    slopes: drained(training.slopes(weight)),
    head: doublesOf(drained(training.head(1, 0))),
    text: drained(training.write({ length: 60, temperature: 0, seed: 0 })),
    known: training.text.known,
  };
}"""
WEIGHT = {"name": "decoder.blocks.0.feedforward.W_up.weight", "i": 3, "j": 7}


@pytest.fixture(scope="module")
def asked(page):
    found = page.evaluate(ASK, {"settings": settings(), "weight": WEIGHT})
    model = Transformer(ModelConfig(**found["config"]), generator=None, dtype=np.float64)
    for name, array in arrays_of(found["weights"]).items():
        model.named_parameters()[name][:] = array
    return found, model


def test_the_held_out_text_is_judged_as_by_scratch(asked):
    found, model = asked
    held, T = np.array(found["held"]), SMALL["length"]
    n = (len(held) - 1) // T
    inputs, targets = held[: n * T].reshape(n, T), held[1 : n * T + 1].reshape(n, T)
    assert n % SMALL["batch_size"], "the last batch is not whole"
    assert found["heldOut"] == pytest.approx(float(cross_entropy(model(inputs), targets)), rel=SINGLE)


def test_both_slopes_are_that_of_scratch(asked):
    found, model = asked
    inputs, targets = np.array([found["inputs"]]), np.array([found["targets"]])
    saved = []
    logits = model(inputs, saved=saved)
    model.zero_gradients()
    model.backward(cross_entropy_backward(logits, targets), saved)
    expected = model.gradients()[WEIGHT["name"]][WEIGHT["i"], WEIGHT["j"]]
    slopes = found["slopes"]
    assert slopes["value"] == model.named_parameters()[WEIGHT["name"]][WEIGHT["i"], WEIGHT["j"]]
    assert slopes["loss"] == pytest.approx(float(cross_entropy(logits, targets)), rel=1e-12)
    assert slopes["gradient"] == pytest.approx(expected, rel=1e-10)
    assert slopes["difference"] == pytest.approx(expected, rel=1e-5)
    assert slopes["losses"][0] != slopes["losses"][1]


def test_a_head_is_shown_as_scratch_traces_it(asked):
    found, model = asked
    with trace() as seen:
        model(np.array([found["inputs"]]))
    [expected] = [one.array for one in seen if one.name == "weights"][1:2]
    assert_close(array_of(found["head"], (SMALL["length"],) * 2), expected[0, 0], SINGLE)


def test_it_writes_what_scratch_would_write(asked):
    found, model = asked
    prompt = found["known"].index("\n")
    [ids] = generate(model, [prompt], 60, temperature=0, past_context="half")
    assert found["text"] == "".join(found["known"][id] for id in ids[1:])
    assert len(set(found["text"])) > 4


def test_back_at_a_checkpoint_the_same_losses_follow(page):
    found = page.evaluate(
        """(settings) => {
          const training = drained(js.Training.of(settings));
          for (let i = 0; i < 40; i++) {
            drained(training.train());
            if (training.step === 20) training.keep();
          }
          const first = [...training.losses];
          training.goBack(20);
          const between = [training.step, training.losses.length, training.checkpoints.map(({ step }) => step)];
          for (let i = 0; i < 20; i++) drained(training.train());
          let why;
          try { training.goBack(7); } catch (error) { why = error.message; }
          return { first, between, again: training.losses, why };
        }""",
        settings(),
    )
    assert found["between"] == [20, 20, [0, 20]]
    assert found["again"] == found["first"]
    assert found["why"] == "there is no checkpoint of step 7"


def test_of_many_checkpoints_some_are_kept(page):
    steps = page.evaluate(
        """(settings) => {
          const training = drained(js.Training.of(settings));
          for (let step = 1; step <= 40; step++) { training.step = step; training.keep(); }
          return training.checkpoints.map(({ step }) => step);
        }""",
        settings(),
    )
    assert 6 <= len(steps) <= 12
    assert (steps[0], steps[-1]) == (0, 40)


# --- the server ---

SERVE = """async ({ messages, until, inWorker }) => {
  const told = [];
  const missing = new Set(until);
  let done;
  const over = new Promise((resolve) => (done = resolve));
  const hear = (message) => {
    const { tensors, shares, ...rest } = message;
    told.push({ ...rest, tensors: tensors && Object.keys(tensors).length, shares: shares && shares.length });
    missing.delete(message.told);
    if (!missing.size) done();
  };
  let training;
  if (inWorker) training = js.startTraining(hear);
  else {
    const server = new js.TrainingServer(hear, 4);
    training = { send: (message) => server.receive(message), stop: () => server.stop(), inWorker: false };
  }
  for (const message of messages) training.send(message);
  await over;
  const where = await training.inWorker;
  training.stop();
  return { told, where };
}"""


@pytest.mark.parametrize("in_worker", [True, False], ids=["worker", "page"])
def test_a_server_trains_and_answers_in_between(page, in_worker):
    short = settings(steps=12, text=TEXT[:8000])
    messages = [
        {"do": "begin", "settings": short},
        {"do": "follow", "weight": WEIGHT},
        {"do": "look", "block": 0, "head": 0},
        {"do": "run", "to": 5},
        {"do": "run"},
        {"do": "nudge", "weight": WEIGHT},
        {"do": "fetch"},
    ]
    found = page.evaluate(SERVE, {"messages": messages, "until": ["judged", "model"], "inWorker": in_worker})
    told = found["told"]
    assert found["where"] is in_worker
    assert {one["told"] for one in told} == {
        "begun", "progress", "sample", "numbers", "head", "slopes", "model", "judged",
    }  # fmt: skip
    progress = [one for one in told if one["told"] == "progress"]
    losses = list(itertools.chain.from_iterable(one["losses"] for one in progress))
    assert [one["from"] for one in progress][1:] == [one["step"] for one in progress][:-1]
    plain = page.evaluate(f"(asked) => ({TRAIN})(asked)", {"settings": short, "kind": {}, "steps": 12})
    assert losses == plain["losses"]
    followed = list(itertools.chain.from_iterable(one["followed"] for one in progress))
    assert [step for step, _, _ in followed] == list(range(1, 13))
    end = arrays_of(plain["end"])[WEIGHT["name"]][WEIGHT["i"], WEIGHT["j"]]
    assert followed[-1][1] == end
    assert not progress[-1]["isRunning"]
    assert progress[-1]["checkpoints"] == [0, 12]
    assert [step for step, _ in progress[-1]["held"]] == [0, 12]
    [judged] = [one for one in told if one["told"] == "judged"]
    assert judged["step"] == 12


def test_a_pause_ends_after_the_step_that_is_under_way(page):
    found = page.evaluate(
        """(settings) => new Promise((resolve) => {
          let at = null;
          const server = new js.TrainingServer(({ told, step, isRunning }) => {
            if (told !== "progress" || step < 3) return;
            if (at === null) server.receive({ do: "pause" });
            else if (!isRunning) resolve({ at, step });
            at ??= step;
          }, 4);
          server.receive({ do: "begin", settings });
          server.receive({ do: "run" });
        })""",
        settings(steps=100_000),
    )
    assert found["at"] <= found["step"] <= found["at"] + 1


def test_what_goes_wrong_is_told_and_the_server_goes_on(page):
    messages = [
        {"do": "begin", "settings": settings(text="short")},
        {"do": "begin", "settings": settings(text=TEXT[:8000], steps=2)},
        {"do": "run"},
    ]
    told = page.evaluate(SERVE, {"messages": messages, "until": ["judged"], "inWorker": True})["told"]
    assert [one["why"][:18] for one in told if one["told"] == "failed"] == ["The text has 5 cha"]


def test_a_loss_that_is_no_number_ends_the_training(page):
    wild = settings(text=TEXT[:8000], steps=50, changes={"clip": 0, "learning_rate": 1e30, "norm_rate": 1e30})
    messages = [{"do": "begin", "settings": wild}, {"do": "run"}]
    told = page.evaluate(SERVE, {"messages": messages, "until": ["diverged"], "inWorker": True})["told"]
    assert 0 < told[-1]["step"] < 50
    assert not [one for one in told if one["told"] == "progress"][-1]["isRunning"]
