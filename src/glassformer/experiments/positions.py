"""The position tournament: train on texts of one length, read texts four times as long."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional

from glassformer import _checks as checks
from glassformer import nn
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import WHOLE_TENTH, Experiment, Found
from glassformer.tasks import NextToken
from glassformer.text import corpus, inputs_and_targets
from glassformer.train import Trainer
from glassformer.train.recipe import Recipe

T = 64  # the length that models are trained at
REACH = 4 * T  # the length that they are read at
BIN = 8  # neighbouring positions whose losses are kept as one mean
CHARACTERS = 12 * T  # in one step, whatever the length of its windows

METHODS = ("none", "sinusoidal", "learned", "rope", "alibi", "t5")
SEEDS = (0, 1, 2)
STEPS = 600
MORE_STEPS = (30, 300)  # of further training at REACH

# All of the modern recipe but its size.
CHANGES = (
    "model.d_model=64",
    "model.n_layers=3",
    "model.d_ff=172",
    "model.attention_scale=0.6",  # 2.4 / √d_head, as there
)
T5_OWN = (
    128  # the distance of T5's own models; by default it is T / 2 here, so that training meets all buckets
)

CONTESTANTS = (
    *({"positions": name, "length": T} for name in METHODS),
    {"positions": "t5", "length": T, "t5_max_distance": T5_OWN},
    {"positions": "rope", "length": REACH},
)
"""Who plays: each method, T5 also with its own last bucket, and a yardstick trained at the length it is read at."""

RATES = ("learning_rate", "embedding_rate", "head_rate", "norm_rate")


def measure(
    positions: str,
    length: int,
    seed: int,
    steps: int = STEPS,
    more_steps: Sequence[int] = MORE_STEPS,
    progress: bool = False,
    every: int = 1,
    changes: Sequence[str] = (),
    t5_max_distance: int | None = None,
) -> Found:
    """Train on windows of `length`, then measure the loss at each position of windows of 4T. `progress` shows a bar.

    Gives lists of losses, in nats a character, one for each bin of positions. Most methods have one list, "as
    trained". A RoPE model of length T is also read in two other ways with the very same weights, see `ways_to_reach`;
    and in all three ways again after some further training at 4T. `every` takes only every so many of the windows.
    T5's last bucket begins near `t5_max_distance`, by default near half of T.

    Derived in chapter 04.

    Raises:
        ValueError: there is no such method, or the length does not divide the characters of a step.
    """
    checks.one_of("positions", positions, METHODS)
    checks.divisible("the characters of a step", CHARACTERS, "length", length)
    recipe = recipe_of(positions, length, seed, steps, changes, t5_max_distance)
    _, task, config = recipe.made_for(corpus())
    # Room for 4T from the start. A learned table has rows for all of it, and those beyond `length` never train.
    model = new_model(config.replace(context_length=REACH), seed)
    Trainer(model, task, recipe.training, progress=progress).run()

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
    """A RoPE model trained at T, and what can be done to its angles so that 4T is no news to it.

    "interpolated" turns every hand at a quarter of its speed, and so also those that tell neighbours apart. "larger
    base" leaves the fastest hand alone and slows the slowest to a quarter, the others by something in between.

    Source: interpolation: Chen et al. 2023, section 2.3; the base: Peng et al. 2024, "YaRN", section 3.1.
    """
    factor, K = REACH / T, model.config.d_head
    return {
        "as trained": model,
        "interpolated": copy_with(model, rope_interpolation=factor),
        # The slowest hand turns by base^(−(K − 2)/K) a position: so the base must grow by this for a quarter of that.
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
    """The modern recipe, small, with another way to put order in. A step has equally many characters at any length."""
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
    return Recipe.of_the_book("modern", [*CHANGES, *run, *changes])


def new_model(config: ModelConfig, seed: int) -> nn.Transformer:
    """A model whose token vectors are as large as the waves that sinusoids add to them: neither drowns the other.

    What is added is added before the embeddings' norm, for sinusoids and the learned table alike.
    """
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        model.token_embedding.weight.mul_(50)  # from a standard deviation of 0.02 to 1
    return model


def copy_with(model: nn.Transformer, **changes: object) -> nn.Transformer:
    """The same weights in a model whose configuration is another."""
    copy = nn.Transformer(model.config.replace(**changes), generator=None)
    copy.load_state_dict(model.state_dict())
    return copy


def trained_on(model: nn.Transformer, recipe: Recipe) -> nn.Transformer:
    """A copy of the model, trained further as the recipe says: from the weights it has, at a quarter of the rates."""
    copy, training = copy_with(model), recipe.training
    _, task, _ = recipe.made_for(corpus())
    slower = {name: getattr(training, name) / 4 for name in RATES}
    Trainer(copy, task, training.replace(warmup=10, zero_init=False, **slower), progress=False).run()
    return copy


@torch.no_grad()
def loss_by_position(model: nn.Transformer, task: NextToken, every: int = 1) -> Float[np.ndarray, " _"]:
    """The mean loss at each position of windows of 4T of the validation text, in nats a character.

    The windows begin T apart, so that but for the two ends of the text each character is asked for four times:
    with up to T characters before it, with T to 2T, 2T to 3T, 3T to 4T. The quarters compare like with like.
    """
    model.eval()
    starts = np.arange(0, len(task.held_out) - REACH, T)[::every]
    total = np.zeros(REACH)
    for some in np.array_split(starts, max(1, len(starts) // 12)):
        windows = task.held_out[some[:, None] + np.arange(REACH + 1)]
        inputs, targets = inputs_and_targets(windows)
        logits = model(torch.from_numpy(inputs.astype(np.int64)))  # (B, 4T, V)
        losses = functional.cross_entropy(
            logits.transpose(1, 2), torch.from_numpy(targets.astype(np.int64)), reduction="none"
        )
        total += losses.sum(dim=0, dtype=torch.float64).numpy()
    return total / len(starts)


def binned(losses: Float[np.ndarray, " _"]) -> list[float]:
    """The mean of each bin of neighbouring positions."""
    return losses.reshape(-1, BIN).mean(axis=1).tolist()


EXPERIMENT = Experiment(
    name="positions",
    question="Trained on short texts, which ways to put order in still work on texts four times as long?",
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
