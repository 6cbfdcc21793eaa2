"""Leads from the recipe of 2019 to the modern one, one ingredient at a time."""

import statistics
from collections.abc import Sequence

from glassformer import _checks as checks
from glassformer.experiments.experiment import TINY, WHOLE_TENTH, Experiment, Found, grid
from glassformer.experiments.training import curve, trainer_of, validations
from glassformer.train.recipe import Recipe

LADDER: dict[str, tuple[str, ...]] = {
    "the recipe of 2019": (),
    "a tuned schedule": (
        "training.learning_rate=3e-3",
        "training.decay=linear",
        "training.final_share=0.0",
        "training.warmup=50",
        "training.betas=[0.9, 0.95]",
    ),
    "sublayers that start at 0": ("training.zero_init=true", "training.init=ours"),
    "RoPE": ("model.positions=rope",),
    "RMSNorm": ("model.norm=rmsnorm",),
    "SwiGLU": ("model.feedforward=swiglu", "model.d_ff=344"),
    "norms of q and k": ("model.qk_norm=true", "model.attention_scale=0.4243"),
    "a head and rates of their own": (
        "model.head=untied",
        "model.embedding_norm=true",
        "training.embedding_rate=1e-2",
        "training.head_rate=4e-3",
        "training.norm_rate=4e-3",
        "training.weight_decay=0.0",
    ),
    "Muon": ("training.optimizer=muon", "training.learning_rate=0.02"),
}
"""The steps of the ladder, each with its changes to the step before. The last is the recipe "modern"."""

FIRST, SCHEDULE, *_, LAST = LADDER

FIRST_WEIGHTS: dict[str, tuple[str, ...]] = {
    "zeros": ("training.zero_init=true",),
    "1/√n": ("training.init=ours",),
}
"""The two changes of the step that follows `SCHEDULE`, each without the other."""

SCHEDULE_CHANGES: dict[str, tuple[str, ...]] = {
    "a rate three times as high": ("training.learning_rate=3e-3",),
    "a linear decay to 0": ("training.decay=linear", "training.final_share=0.0"),
    "a warm-up of 50 steps": ("training.warmup=50",),
    "β₂ = 0.95": ("training.betas=[0.9, 0.95]",),
}
"""The four changes of the step `SCHEDULE`, each without the others."""


PARTS = ("ladder", "schedule", "first weights", "fewer characters", "the same time")
STEPS = 2000
SEEDS = (0, 1, 2)
FEWER = (200, 300, 400, 500)  # steps in which the modern recipe may reach the old one's result after STEPS


def rung(name: str, changes: Sequence[str] = ()) -> Recipe:
    """Returns the recipe at that step of the ladder, with further changes.

    Raises:
        ValueError: the ladder has no such step.
    """
    checks.one_of("name", name, tuple(LADDER))
    names = list(LADDER)
    so_far = [change for step in names[: names.index(name) + 1] for change in LADDER[step]]
    return Recipe.of_the_book("baseline", [*so_far, *changes])


def measure(
    part: str,
    seed: int,
    recipe: str = LAST,
    steps: int = STEPS,
    changes: Sequence[str] = (),
) -> Found:
    """Performs one training run on Shakespeare; its loss is over the whole validation part in windows of its length.

    The parts: "ladder", a step of the ladder; "schedule" and "first weights", a step with further changes; "fewer
    characters", the last step of the ladder with fewer training steps; "the same time", the last step of the
    ladder, trained for as long as the first takes for `steps`, with both timed in this process.

    Derived in chapter 10.

    Raises:
        ValueError: there is no such part or recipe, or a change breaks a rule.
    """
    checks.one_of("part", part, PARTS)
    found: Found = {}
    if part == "the same time":
        found["time_of_a_step"] = time_of_a_step(recipe, changes)
        steps = int(steps / found["time_of_a_step"])
    run = (*WHOLE_TENTH, "training.evaluate_every=1000", f"training.steps={steps}", f"training.seed={seed}")
    trainer = trainer_of(rung(recipe, [*run, *changes]))
    records = trainer.run()
    return found | {
        "parameters": trainer.model.config.parameter_count().total,
        "characters": trainer.tokens,
        "validation_loss": records[-1]["validation_loss"],
        "course": curve(records),
        "validations": validations(records),
    }


def time_of_a_step(recipe: str, changes: Sequence[str], rounds: int = 5) -> float:
    """Measures the time of a recipe's step relative to the first recipe: medians over short, alternating runs."""
    seconds: dict[str, list[float]] = {FIRST: [], recipe: []}
    for _ in range(rounds):
        for name, measured in seconds.items():
            short = rung(name, [*changes, "training.steps=12", "data.validation=0.001", "data.test=0.0"])
            measured += [record["seconds"] for record in trainer_of(short).run()[2:]]
    return statistics.median(seconds[recipe]) / statistics.median(seconds[FIRST])


EXPERIMENT = Experiment(
    name="recipes",
    question="How much does each ingredient of a modern recipe gain, at equal characters and equal size?",
    measure=measure,
    runs=(
        *grid(part=["fewer characters"], steps=FEWER, seed=SEEDS),
        *grid(part=["the same time"], seed=SEEDS),
        *grid(
            part=["first weights"], recipe=[SCHEDULE], changes=map(list, FIRST_WEIGHTS.values()), seed=SEEDS
        ),
        *grid(part=["ladder"], seed=SEEDS, recipe=reversed(LADDER)),
        *grid(part=["schedule"], recipe=[FIRST], changes=map(list, SCHEDULE_CHANGES.values()), seed=SEEDS),
    ),
    short={"steps": 120, "changes": [*TINY, "data.validation=0.005"]},
)
