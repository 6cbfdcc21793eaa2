"""The position tournament: train on texts of one length, read texts four times as long."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import WHOLE_TENTH, Experiment, Found
from glassformer.experiments.training import SMALL_MODERN, losses_in, read_in_windows, trainer_of
from glassformer.tasks import NextToken
from glassformer.text import corpus
from glassformer.train import Trainer
from glassformer.train.recipe import Recipe

T = 64  # the length that models are trained at
REACH = 4 * T  # the length that they are tested at
BIN = 8  # neighbouring positions whose losses are averaged
CHARACTERS = 12 * T  # characters per step, for any window length

METHODS = ("none", "sinusoidal", "learned", "rope", "alibi", "t5")
SEEDS = (0, 1, 2)
STEPS = 600
MORE_STEPS = (30, 300)  # steps of further training at REACH

T5_OWN = 128  # that of T5's own models; here the default is T / 2, so that training covers all buckets

CONTESTANTS = (
    *({"positions": name, "length": T} for name in METHODS),
    {"positions": "t5", "length": T, "t5_max_distance": T5_OWN},
    {"positions": "rope", "length": REACH},
)
"""The contestants: each encoding, T5 also with its original last bucket, and a yardstick trained at the test length."""

RATES = ("learning_rate", "embedding_rate", "head_rate", "norm_rate")


def measure(
    positions: str,
    length: int,
    seed: int,
    steps: int = STEPS,
    more_steps: Sequence[int] = MORE_STEPS,
    every: int = 1,
    changes: Sequence[str] = (),
    t5_max_distance: int | None = None,
) -> Found:
    """Trains on windows of `length`, then measures the loss at each position of windows of 4T.

    Returns lists of losses, in nats per character, with one entry per bin of positions. Most encodings have
    one list, "as trained". A RoPE model of length T is also tested in two other ways with the same weights
    (see `ways_to_reach`), and in all three ways again after some further training at 4T. With `every`, only
    one in so many windows is used. T5's last bucket begins near `t5_max_distance`, by default near half of T.

    Derived in chapter 04.

    Raises:
        ValueError: there is no such method, or the length does not divide the characters of a step.
    """
    checks.one_of("positions", positions, METHODS)
    checks.divisible("the characters of a step", CHARACTERS, "length", length)
    recipe = recipe_of(positions, length, seed, steps, changes, t5_max_distance)
    # Room for 4T from the start. A learned table has rows for all positions, but those beyond `length` are
    # never trained.
    trainer = trainer_of(recipe, context_length=REACH)
    model, task = as_large_as_sinusoids(trainer.model), trainer.task
    trainer.run()

    def losses_of(models: Mapping[str, nn.Transformer]) -> Found:
        return {way: binned(loss_by_position(model, task, every)) for way, model in models.items()}

    if positions != "rope" or length == REACH:
        return {"losses": losses_of({"as trained": model})}
    models = ways_to_reach(model)
    found = {"losses": losses_of(models)}
    for more in more_steps:
        longer = recipe_of(positions, REACH, seed + 1, more, changes)
        further = {way: trained_on(model, longer) for way, model in models.items()}
        found[f"losses after {more} more steps"] = losses_of(further)
    return found


def ways_to_reach(model: nn.Transformer) -> dict[str, nn.Transformer]:
    """Returns a RoPE model trained at T, and versions whose angles are adapted to 4T.

    "interpolated" rotates every pair at a quarter of its speed, including those that distinguish neighbours.
    "larger base" keeps the fastest pair and slows the slowest to a quarter, and the others by something in
    between.

    Source: interpolation: Chen et al. 2023, section 2.3; the base: Peng et al. 2024, "YaRN", section 3.1.
    """
    factor, K = REACH / T, model.config.d_head
    return {
        "as trained": model,
        "interpolated": copy_with(model, rope_interpolation=factor),
        # The slowest pair rotates by base^(−(K − 2)/K) per position; for a quarter of that, the base must
        # grow by this.
        "larger base": copy_with(model, rope_base=model.config.rope_base * factor ** (K / (K - 2))),
    }


def recipe_of(
    positions: str,
    length: int,
    seed: int,
    steps: int,
    changes: Sequence[str] = (),
    t5_max_distance: int | None = None,
) -> Recipe:
    """Returns a small modern recipe with another position encoding. A step has as many characters at any length."""
    run = (
        *WHOLE_TENTH,
        f"model.t5_max_distance={t5_max_distance or T // 2}",
        f"model.positions={positions}",
        f"data.length={length}",
        f"training.batch_size={CHARACTERS // length}",
        f"training.seed={seed}",
        f"training.steps={steps}",
        "training.evaluate_every=0",
    )
    return Recipe.of_the_book("modern", [*SMALL_MODERN, *run, *changes])


@torch.no_grad()
def as_large_as_sinusoids(model: nn.Transformer) -> nn.Transformer:
    """Makes a new model's token vectors as large as the sinusoids added to them, so neither drowns the other.

    Sinusoids and the learned table are both added before the norm of the embeddings.
    """
    model.token_embedding.weight.mul_(50)  # from a standard deviation of 0.02 to 1
    return model


def copy_with(model: nn.Transformer, **changes: object) -> nn.Transformer:
    """Copies the weights into a model with another configuration."""
    copy = nn.Transformer(model.config.replace(**changes), generator=None)
    copy.load_state_dict(model.state_dict())
    return copy


def trained_on(model: nn.Transformer, recipe: Recipe) -> nn.Transformer:
    """Returns a copy of the model, trained further by the recipe from its current weights, at a quarter of the rate."""
    copy, training = copy_with(model), recipe.training
    _, task, _ = recipe.made_for(corpus())
    slower = {name: getattr(training, name) / 4 for name in RATES}
    Trainer(copy, task, training.replace(warmup=10, **slower), progress=False).run()
    return copy


def loss_by_position(model: nn.Transformer, task: NextToken, every: int = 1) -> Float[np.ndarray, " _"]:
    """Returns the mean loss at each position of windows of 4T of the validation text, in nats per character.

    The windows begin T apart, so except at the two ends of the text each character is predicted four times:
    with up to T characters before it, with T to 2T, 2T to 3T, and 3T to 4T. The quarters are therefore
    comparable.
    """
    total, n_windows = np.zeros(REACH), 0
    for windows in read_in_windows(task.held_out, REACH, T, every, at_a_time=12):
        losses, _ = losses_in(model, windows)
        total += losses.sum(dim=0, dtype=torch.float64).numpy()
        n_windows += len(windows)
    return total / n_windows


def binned(losses: Float[np.ndarray, " _"]) -> list[float]:
    """Returns the mean of each bin of neighbouring positions."""
    return losses.reshape(-1, BIN).mean(axis=1).tolist()


EXPERIMENT = Experiment(
    name="positions",
    question="Which ways to add order still work on texts four times as long as those in training?",
    measure=measure,
    runs=tuple({**contestant, "seed": seed} for seed in SEEDS for contestant in CONTESTANTS),
    short={
        "steps": 120,
        "more_steps": [15],
        "every": 6,
        "changes": [
            "model.n_layers=1",
            "model.d_model=48",
            "model.n_heads=2",
            "model.d_ff=96",
            "data.validation=0.01",
        ],
    },
)
