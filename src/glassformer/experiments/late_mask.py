"""A mask after the softmax, trained with AdamW: how long does the mistake look harmless?"""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import torch

from glassformer import _checks as checks
from glassformer.bugs import put_in
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.pitfalls import BATCH_SIZE, LENGTH, RIGHT, ROPE, config_of
from glassformer.experiments.training import drawn, plan, text_task
from glassformer.train import Trainer, validation_loss

LATE = "mask-after-softmax"
RATE = 1e-3
STEPS = 1500
AT = (50, 100, 250, 400, 700, 1000, 1500)  # the steps at which the weights are looked at
EARLY = (100, 250)  # the steps of interest of the correct model
SEEDS = (0, 1, 2)


class _Enough(Exception):  # noqa: N818 - no fault
    """Ends a training whose later steps nobody needs."""


def measure(
    bug: str,
    seed: int,
    at: Sequence[int] = AT,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a small GPT with AdamW, with or without the mistake, and looks at its weights several times on the way.

    The model is that of the experiment "pitfalls", but all its weights are drawn at random, and AdamW trains all of
    them. The training is planned for so many `steps`, and ends after the last step in `at`. Returns the steps "at"
    which the weights were looked at, and two validation losses for each, in nats: the one that the code "reported",
    and the one that the "right" code finds for the same weights. `characters` shortens the text.

    Derived in chapter 14.

    Raises:
        ValueError: `bug` is neither this mistake nor "none".
    """
    checks.one_of("bug", bug, (RIGHT, LATE))
    task = text_task(seed, characters, LENGTH, BATCH_SIZE)
    model = drawn(config_of(ROPE), seed)
    training = plan(task, steps=steps, learning_rate=RATE, seed=seed)
    kept: dict[int, dict[str, torch.Tensor]] = {}

    def keep(record: dict[str, Any]) -> None:
        if record["step"] in at:
            kept[record["step"]] = {name: w.detach().clone() for name, w in model.state_dict().items()}
        if record["step"] == max(at):
            raise _Enough

    def losses() -> list[float]:
        found = []
        for weights in kept.values():
            model.load_state_dict(weights)
            found.append(validation_loss(model, task))
        return found

    with nullcontext() if bug == RIGHT else put_in(bug):
        with suppress(_Enough):
            Trainer(model, task, training, progress=False, callback=keep).run()
        reported = losses()
    return {"at": list(kept), "reported": reported, "right": reported if bug == RIGHT else losses()}


EXPERIMENT = Experiment(
    name="late_mask",
    question="How long does a mask after the softmax look harmless?",
    measure=measure,
    runs=(
        *({"bug": LATE, "seed": seed} for seed in SEEDS),
        *({"bug": RIGHT, "seed": seed, "at": list(EARLY)} for seed in SEEDS),
    ),
    short={"steps": 40, "at": (40,), "characters": 30_000},
)
