"""Order without positions: how much order a causal mask lets in, by the number of blocks."""

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.positions import METHODS, SEEDS, STEPS, as_large_as_sinusoids, recipe_of
from glassformer.experiments.training import trainer_of
from glassformer.text import windows
from glassformer.train import validation_loss

LENGTH = 24  # length of a window
N_WINDOWS = 2000  # windows whose last character is predicted


def measure(
    n_layers: int, positions: str, seed: int, steps: int = STEPS, changes: tuple[str, ...] = ()
) -> Found:
    """Trains a decoder with so many blocks, and measures how much it gains from the order of the past.

    Returns the "loss" on the validation text and "worth", both in nats: "worth" is how much the loss of a
    window's last character rises when all inputs but the last are shuffled. With learned positions it also
    returns "cosines" (T, T), between all rows of the table.

    Derived in chapter 04.

    Raises:
        ValueError: there is no such method.
    """
    checks.one_of("positions", positions, METHODS)
    recipe = recipe_of(positions, LENGTH, seed, steps, (f"model.n_layers={n_layers}", *changes))
    trainer = trainer_of(recipe)
    model, task = as_large_as_sinusoids(trainer.model), trainer.task
    trainer.run()
    found = {"loss": validation_loss(model, task), "worth": worth_of_the_order(model, task.held_out)}
    if positions == "learned":
        found["cosines"] = cosines(model.state_dict()["decoder.positions.weight"].numpy()).tolist()
    return found


@torch.no_grad()
def worth_of_the_order(model: nn.Transformer, held_out: np.ndarray) -> float:
    """Returns how much the loss of the last character rises when all inputs but the last one are shuffled."""
    model.eval()
    straight = windows(held_out, LENGTH, N_WINDOWS, np.random.default_rng(0)).astype(np.int64)
    shuffled = straight.copy()
    past = np.random.default_rng(1).permutation(LENGTH - 1)
    shuffled[:, : LENGTH - 1] = straight[:, past]
    logits = (model(torch.from_numpy(each[:, :-1]))[:, -1] for each in (straight, shuffled))
    before, after = (functional.cross_entropy(z, torch.from_numpy(straight[:, -1])).item() for z in logits)
    return after - before


def cosines(rows: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N N"]:
    """Returns the cosine of every row with every other."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


EXPERIMENT = Experiment(
    name="leak",
    question="How much order does a decoder without positions find in its mask, and does depth help?",
    measure=measure,
    runs=tuple(
        {"n_layers": n_layers, "positions": positions, "seed": seed}
        for seed in SEEDS
        for n_layers, positions in ((1, "none"), (2, "none"), (4, "none"), (2, "learned"))
    ),
    short={
        "steps": 150,
        "changes": ("model.d_model=32", "model.n_heads=2", "model.d_ff=64", "data.validation=0.005"),
    },
)
