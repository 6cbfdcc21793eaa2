"""Mixtures: what experts gain at equal tokens and at equal time, and what becomes of those that a router neglects."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64

from glassformer import _checks as checks
from glassformer import nn
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found, Settings, grid
from glassformer.experiments.long_texts import ROUNDS, SEEDS, seconds_of
from glassformer.experiments.positions import recipe_of
from glassformer.experiments.training import drawn, read_in_windows
from glassformer.layers import Experts
from glassformer.tasks import NextToken
from glassformer.text import corpus
from glassformer.trace import trace
from glassformer.train import Trainer, initialize
from glassformer.train.config import TrainingConfig
from glassformer.train.log import Record

T, BATCH, STEPS = 128, 8, 300
NEURONS = 112  # that work for each character, in every contestant but "wide"
BALANCE = 0.01
BIAS_RATE = 0.003
AFTER = (0, 10, 20, 40, 80, 160)  # steps after which the loads are measured, and at the end
EVERY = 4  # only one in so many windows of held-out text is routed
NEGLECTED = 0.1  # an expert with less than this fraction of its fair share is idle
EQUAL_TIME = {"dense": 475, "wide": 280}  # steps in the time of all those of "experts, loss"


def dense(d_ff: int) -> dict[str, Any]:
    """Returns the fields of a model with one feed-forward network in each layer."""
    return {"d_ff": d_ff}


def sparse(n_experts: int, top_k: int, d_ff: int, **choices: Any) -> dict[str, Any]:
    """Returns the fields of a model with experts in each layer.

    The weight of a single expert is not divided by itself, as it would be 1, and no gradient would reach the router.
    """
    experts = Experts(n_experts=n_experts, top_k=top_k, renormalize=top_k > 1, **choices)
    return {"kinds": {"sparse": {"d_ff": d_ff, "experts": experts}}}


LOSS, BIAS = {"balance": BALANCE}, {"choice_bias": True, "bias_rate": BIAS_RATE}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "dense": dense(NEURONS),
    "wide": dense(4 * NEURONS),
    "experts": sparse(8, 2, NEURONS // 2),
    "experts, loss": sparse(8, 2, NEURONS // 2, **LOSS),
    "experts, bias": sparse(8, 2, NEURONS // 2, **BIAS),
    "table": sparse(8, 2, NEURONS // 2, by_token=True),
    "shared": sparse(7, 1, NEURONS // 2, d_shared=NEURONS // 2, **LOSS),
    "one of 16": sparse(16, 1, NEURONS),
    "one of 16, loss": sparse(16, 1, NEURONS, **LOSS),
    "one of 16, bias": sparse(16, 1, NEURONS, **BIAS),
}
"""The models by name, each as changes to the configuration of one model. "wide" has as many neurons as 8 experts."""

PARTS = ("contestants", "seconds")


def measure(
    part: str,
    seed: int,
    contestant: str = "dense",
    steps: int | None = None,
    every: int = EVERY,
    changes: Sequence[str] = (),
) -> Found:
    """Trains a small model on Shakespeare, in steps of 8 texts of 128 characters.

    "contestants" trains one of them. Results are the validation "loss" in nats per character, the number of
    "parameters" and of those that are "active" for one character. A model with experts also has its "loads", the
    fractions of all choices in held-out text that went to each expert, by step (those "after"), layer and expert. At
    the end, its first choices are compared with guesses, by layer: "guessed" is the fraction of them that is right if
    one guesses, for each character, the expert that it has most often, and "always" if one always guesses the same.

    "seconds" measures, for each contestant, the seconds of the processor for a step of training, and for "reading"
    the texts of one step.

    Derived in chapter 18.

    Raises:
        ValueError: there is no such part or contestant.
    """
    checks.one_of("part", part, PARTS)
    checks.one_of("contestant", contestant, tuple(CONTESTANTS))
    if part == "seconds":
        models: dict[str, Sequence[Any]] = {}
        for name in CONTESTANTS:
            config, task, training = made(name, seed, steps or 4, changes)
            models[name] = drawn(config, seed), task, training
            task.held_out = task.held_out[: T + 1]  # each time ends with a validation, which is not measured
        return {"seconds": seconds_of(models), "reading": reading(models)}
    config, task, training = made(contestant, seed, steps or STEPS, changes)
    model = drawn(config, seed)
    initialize(model, training)
    after = [step for step in AFTER if step < training.steps] + [training.steps]
    routed = "kinds" in CONTESTANTS[contestant]
    windows = np.concatenate([*read_in_windows(task.held_out, T, T, every, at_a_time=64)])
    loads = [loads_of(model, choices(model, windows))] if routed else []

    def note(record: Record) -> None:
        if routed and record["step"] in after:
            loads.append(loads_of(model, choices(model, windows)))

    records = Trainer(model, task, training, callback=note, progress=False).run()
    size = config.parameter_count()
    found = {"loss": records[-1]["validation_loss"], "parameters": size.total, "active": size.active}
    if not routed:
        return found
    return found | {"after": after, "loads": loads} | guesses(model, windows)


def made(
    contestant: str, seed: int, steps: int, changes: Sequence[str] = ()
) -> tuple[ModelConfig, NextToken, TrainingConfig]:
    """Returns a contestant's configuration, its task, and how it is trained."""
    recipe = recipe_of("rope", T, seed, steps, (f"training.batch_size={BATCH}", *changes))
    _, task, config = recipe.made_for(corpus())
    assert isinstance(task, NextToken)
    return config.replace(**CONTESTANTS[contestant]), task, recipe.training


@torch.no_grad()
def choices(model: nn.Transformer, windows: Int64[np.ndarray, "B _"]) -> list[Int64[np.ndarray, "B T A"]]:
    """Returns the experts that each layer chooses for the texts; the model stays in training."""
    model.eval()
    with trace() as seen:
        model(torch.from_numpy(windows[:, :-1]))
    model.train()
    return [chosen.numpy() for chosen in seen.arrays("chosen")]


def loads_of(model: nn.Transformer, chosen: Iterable[Int64[np.ndarray, "B T A"]]) -> list[list[float]]:
    """Returns the fraction of all choices that went to each expert, for each layer."""
    return [(np.bincount(one.ravel(), minlength=n_experts(model)) / one.size).tolist() for one in chosen]


def n_experts(model: nn.Transformer) -> int:
    """Returns how many experts a router can choose."""
    stack: Any = model.decoder
    return len(stack.blocks[0].feedforward.experts)


def guesses(model: nn.Transformer, windows: Int64[np.ndarray, "B _"]) -> dict[str, list[float]]:
    """Returns which fraction of first choices is right if they are "guessed" from the character, or "always" one."""
    ids, found = windows[:, :-1].ravel(), {"guessed": [], "always": []}
    for chosen in choices(model, windows):
        times = np.zeros((ids.max() + 1, n_experts(model)), int)
        np.add.at(times, (ids, chosen[..., 0].ravel()), 1)  # how often each character has each expert first
        found["guessed"].append(float(times.max(axis=1).sum() / ids.size))
        found["always"].append(float(times.sum(axis=0).max() / ids.size))
    return found


def effective(load: Float[np.ndarray, "*L X"]) -> Float[np.ndarray, "*L"]:
    """Returns the effective number of experts: the exponential of the entropy of their loads.

    It is X if all are chosen equally often, and 1 if only one is chosen.
    """
    load = np.asarray(load)
    logs = np.log(load, where=load > 0, out=np.zeros_like(load))
    return np.exp(-(load * logs).sum(axis=-1))


def idle(load: Float[np.ndarray, "*L X"]) -> Int64[np.ndarray, "*L"]:
    """Returns how many experts get less than a tenth of their fair share, 1/X of the choices."""
    load = np.asarray(load)
    return (load < NEGLECTED / load.shape[-1]).sum(axis=-1)


@torch.no_grad()
def reading(models: dict[str, Sequence[Any]]) -> dict[str, float]:
    """Returns the median of the processor's seconds in which each model reads the texts of a step; they take turns."""
    found: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(4 * ROUNDS):
        for name, (model, task, _) in models.items():
            ids = torch.from_numpy(task.batch(0)[0]["ids"])
            model.eval()
            began = time.process_time()
            model(ids)
            found[name].append(time.process_time() - began)
    return {name: float(np.median(each)) for name, each in found.items()}


def run(**choices: Iterable[Any]) -> tuple[Settings, ...]:
    """Returns the settings of runs of contestants, with all seeds."""
    return grid(part=["contestants"], **choices, seed=SEEDS)


EXPERIMENT = Experiment(
    name="mixtures",
    question="What do experts gain, and what becomes of those that a router neglects?",
    measure=measure,
    runs=(
        {"part": "seconds", "seed": 0},
        *run(contestant=CONTESTANTS),
        *(one for name, n in EQUAL_TIME.items() for one in run(contestant=[name], steps=[n])),
    ),
    short={
        "steps": 40,
        "every": 40,
        "changes": ["model.n_layers=1", "training.batch_size=3"],
    },
)
