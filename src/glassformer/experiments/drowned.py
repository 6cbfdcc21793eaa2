"""Sinusoids added to small token vectors: how large must the vectors be before a model can read them?"""

from collections.abc import Sequence

import torch

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.training import trainer_of
from glassformer.train import validation_loss
from glassformer.train.recipe import Recipe

METHODS = ("sinusoidal", "none", "learned")
D_MODEL = 64
ROOT = D_MODEL**0.5  # the factor of the 2017 paper, whose token vectors were drawn at 1/ROOT
# Factors on the token vectors, which are drawn at 0.02: at 32 they begin about as large as the sinusoids, at 50 as
# large as in 2017.
SCALES = (1.0, 4.0, ROOT, 32.0, 50.0)
OTHERS = (("none", 1.0), ("learned", 1.0))
STEPS = {
    400: (*(("sinusoidal", scale) for scale in SCALES), *OTHERS),
    2000: (*(("sinusoidal", scale) for scale in (1.0, ROOT, 32.0)), OTHERS[0]),
}
SEEDS = (0, 1, 2)


def measure(positions: str, scale: float, steps: int, seed: int, changes: Sequence[str] = ()) -> Found:
    """Trains a small GPT whose token vectors are multiplied by `scale` before positions are added to them.

    Returns the "loss" on the recipe's validation text, in nats, and "size" and "grown", the root mean square of
    the scaled token vectors before and after training. The sinusoids added to them have a root mean square of
    √½, about 0.71.

    Derived in chapter 04.

    Raises:
        ValueError: there is no such method.
    """
    checks.one_of("positions", positions, METHODS)
    run = (
        f"model.positions={positions}",
        f"model.embedding_scale={scale}",
        f"model.d_model={D_MODEL}",
        "model.n_layers=2",
        f"training.steps={steps}",
        f"training.seed={seed}",
        "training.evaluate_every=0",
    )
    trainer = trainer_of(Recipe.of_the_book("baseline", [*run, *changes]))
    model, before = trainer.model, size(trainer.model)
    trainer.run()
    return {"loss": validation_loss(model, trainer.task), "size": before, "grown": size(model)}


@torch.no_grad()
def size(model: nn.Transformer) -> float:
    """Returns the root mean square of a model's token vectors, as they reach the positions."""
    return model.token_embedding.weight.square().mean().sqrt().item() * model.config.embedding_scale


EXPERIMENT = Experiment(
    name="drowned",
    question="How large must token vectors be before a model can read them through the sinusoids added to them?",
    measure=measure,
    runs=tuple(
        {"positions": positions, "scale": scale, "steps": steps, "seed": seed}
        for steps, kinds in STEPS.items()
        for seed in SEEDS
        for positions, scale in kinds
    ),
    short={"steps": 150, "changes": ("data.validation=0.005", "data.test=0.005")},
)
