"""Pre-norm or post-norm, shallow and deep: which of these models train without a warm-up?"""

from itertools import chain

from glassformer.experiments.experiment import Experiment, Found, grid
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
DEEP = {"n_layers": DEPTHS[-1:], "learning_rate": RATES[:1]}


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


EXPERIMENT = Experiment(
    name="norm_placement",
    question="Which models train without a warm-up: pre-norm or post-norm, shallow or deep?",
    measure=measure,
    runs=(
        *grid(seed=SEEDS, n_layers=DEPTHS, learning_rate=RATES, warmup=(0, WARMUP), placement=PLACEMENTS),
        *chain.from_iterable(
            grid(n_layers=[depth], learning_rate=[rate], seed=SEEDS, warmup=(0, WARMUP), placement=PLACEMENTS)
            for depth, rate in ((DEEPEST, RATES[0]), (DEPTHS[-1], LOWER), (DEEPEST, LOWER))
        ),
        # What might help a deep post-norm model: sublayers that add nothing at first, and more time
        *grid(placement=["post"], **DEEP, zero_init=[True], seed=SEEDS, warmup=(0, WARMUP)),
        *grid(placement=["post"], **DEEP, steps=[LONGER * STEPS], seed=SEEDS, warmup=(0, LONGER * WARMUP)),
        # and where pre-norm is by then
        *grid(placement=["pre"], **DEEP, steps=[LONGER * STEPS], seed=SEEDS, warmup=[0]),
    ),
    short={"steps": 60, "characters": 20_000},
)
