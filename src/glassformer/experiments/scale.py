"""Scores with and without the division by √d_head: what do narrow and wide heads learn?"""

import math

import numpy as np
import torch

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found, grid
from glassformer.experiments.training import curve, new_model, plan, text_task, trained
from glassformer.tasks import NextToken
from glassformer.text import windows
from glassformer.trace import trace

N_HEADS, N_LAYERS = 2, 2
D_HEADS = (4, 16, 64, 256)  # the model keeps its width; only the vectors that a head compares grow
STEPS = 500
RATES = (1e-3, 3e-3)  # two, so that the answer does not depend on a rate that suits only one of them
SEEDS = (0, 1, 2)

N_WINDOWS = 64  # of held-out text, for measuring attention weights


def measure(
    d_head: int,
    scaled: bool,
    learning_rate: float,
    seed: int,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a small decoder whose scores are divided by √d_head, or not, and measures how sharp its weights are.

    Returns the curve of the training loss; the final loss on the whole validation text; and, before and after
    training, the "share" of the strongest key, averaged over the queries in the last half of each window, and
    the "slope" of softmax there, 1 − Σ weights², which is 0 if one key has all the weight.

    Derived in chapter 03.

    Raises:
        TypeError: `scaled` is not a boolean.
    """
    checks.flag("scaled", scaled)
    task = text_task(seed, characters)
    scale = 1 / math.sqrt(d_head) if scaled else 1.0
    model = new_model("pre", N_LAYERS, task, seed, n_heads=N_HEADS, d_head=d_head, attention_scale=scale)
    before = sharpness(model, task)
    records = trained(model, task, plan(task, steps=steps, learning_rate=learning_rate, seed=seed))
    return {
        "loss": curve(records),
        "validation_loss": records[-1]["validation_loss"],
        "before": before,
        "after": sharpness(model, task),
    }


@torch.no_grad()
def sharpness(model: nn.Transformer, task: NextToken) -> Found:
    """Returns means over all heads' weights: the strongest key's share, and softmax's slope, 1 − Σ weights²."""
    ids = windows(task.held_out, task.length, N_WINDOWS, np.random.default_rng(0))[:, :-1].astype(np.int64)
    model.eval()
    with trace() as seen:
        model(torch.from_numpy(ids))
    weights = torch.stack(seen.arrays("weights", "attention"))[..., task.length // 2 :, :]
    return {
        "share": weights.max(dim=-1).values.mean().item(),
        "slope": 1 - (weights**2).sum(dim=-1).mean().item(),
    }


EXPERIMENT = Experiment(
    name="scale",
    question="What does a model lose whose scores are not divided by √d_head?",
    measure=measure,
    runs=grid(seed=SEEDS, d_head=D_HEADS, learning_rate=RATES, scaled=(True, False)),
    short={"steps": 60, "characters": 60_000},
)
