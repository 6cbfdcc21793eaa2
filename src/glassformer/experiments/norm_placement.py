"""Pre-norm or post-norm, shallow and deep: which of these models train without a warm-up?"""

from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.training import curve, new_model, plan, text_task, trained, unigram_loss

STEPS = 200
WARMUP = 60

PLACEMENTS = ("pre", "post")
DEPTHS = (2, 4, 8)
# Several, so that the answer does not depend on a rate that suits only one of the two
RATES = (1e-3, 3e-3, 1e-2)
DEEPEST = 24  # only low rates: even at 4 blocks, the others suit post-norm less
LOWER = 3e-4  # for deep models, which may need less
LONGER = 3  # times as many steps, to see whether a stuck model recovers
SEEDS = (0, 1, 2)


def measure(
    placement: str,
    n_layers: int,
    warmup: int,
    learning_rate: float,
    seed: int,
    zero_init: bool = False,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains one model with AdamW; the rate rises for `warmup` steps and then falls to 0.

    Returns the curves of the loss and of the gradient's length, and the final loss over the whole validation
    part; a run whose loss becomes NaN stops there and has no final loss. `unigram` is the validation loss
    from character frequencies alone, the plateau of a model that has learned nothing else. `zero_init` makes
    every sublayer add nothing at first. `characters` shortens the text.

    Derived in chapter 05.
    """
    task = text_task(seed, characters)
    config = plan(
        task, steps=steps, learning_rate=learning_rate, warmup=warmup, zero_init=zero_init, seed=seed
    )
    records = trained(new_model(placement, n_layers, task, seed), task, config, may_diverge=True)
    return {
        "loss": curve(records),
        "gradient_norm": curve(records, "gradient_norm"),
        "steps": len(records),
        "validation_loss": records[-1].get("validation_loss"),
        "unigram": unigram_loss(task),
    }


def settings(placement: str, n_layers: int, warmup: int, rate: float, **others: object) -> dict:
    """Returns the settings of a run by name."""
    return {"placement": placement, "n_layers": n_layers, "warmup": warmup, "learning_rate": rate} | others


EXPERIMENT = Experiment(
    name="norm_placement",
    question="Which models train without a warm-up: pre-norm or post-norm, shallow or deep?",
    measure=measure,
    runs=(
        *(
            settings(placement, n_layers, warmup, rate, seed=seed)
            for seed in SEEDS
            for n_layers in DEPTHS
            for rate in RATES
            for warmup in (0, WARMUP)
            for placement in PLACEMENTS
        ),
        *(
            settings(placement, n_layers, warmup, rate, seed=seed)
            for n_layers, rate in ((DEEPEST, RATES[0]), (DEPTHS[-1], LOWER), (DEEPEST, LOWER))
            for seed in SEEDS
            for warmup in (0, WARMUP)
            for placement in PLACEMENTS
        ),
        # What might help a deep post-norm model: sublayers that add nothing at first, and more time
        *(
            settings("post", DEPTHS[-1], warmup, RATES[0], seed=seed, zero_init=True)
            for seed in SEEDS
            for warmup in (0, WARMUP)
        ),
        *(
            settings("post", DEPTHS[-1], warmup, RATES[0], seed=seed, steps=LONGER * STEPS)
            for seed in SEEDS
            for warmup in (0, LONGER * WARMUP)
        ),
        # and where pre-norm is by then
        *(settings("pre", DEPTHS[-1], 0, RATES[0], seed=seed, steps=LONGER * STEPS) for seed in SEEDS),
    ),
    short={"steps": 60, "characters": 20_000},
)
