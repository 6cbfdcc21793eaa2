"""Longer runs: what the rate's decay, the optimizer, weight decay and clipping do in two thousand steps."""

import math

import numpy as np

from glassformer import _checks as checks
from glassformer import scratch
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found, thinned
from glassformer.experiments.training import text_task
from glassformer.inside import mean_loss
from glassformer.tasks import NextToken
from glassformer.train import TrainingConfig
from glassformer.train.schedule import rate_share

D_MODEL, N_LAYERS, N_HEADS, LENGTH, BATCH_SIZE = 24, 1, 4, 16, 8
STEPS = 2000
SEEDS = (0, 1, 2)

DECAYS = ("none", "linear", "cosine", "wsd")  # "wsd": constant, then down along a line
LAST = 5  # "wsd" falls in the last fifth
OPTIMIZERS = ("AdamW", "momentum")
MOMENTUM = 0.9
PEAK = 1e-2

DESCRIBED = {"optimizer": "AdamW", "peak": PEAK, "decay": "linear", "weight_decay": 0.1, "clip": 1.0}
CHANGES = {
    "as described": {},
    "constant, then down: WSD": {"decay": "wsd"},
    "the rate stays high": {"decay": "none"},
    "no weight decay": {"weight_decay": 0.0},
    "no clipping": {"clip": 0.0},
    "momentum instead of AdamW": {"optimizer": "momentum", "peak": 0.1},
    "momentum, three times the peak": {"optimizer": "momentum", "peak": 0.3},
}
"""What the runs change in `DESCRIBED`. Both peaks, 0.01 and 0.1, were the best of three in 100 steps (chapter 10)."""

# The schedule of nanoGPT's recipe, and one of the four changes that the ladder of `recipes` makes in it at once.
OF_2019 = {"peak": 1e-3, "decay": "cosine", "final_share": 0.1, "warmup": 100, "beta_v": 0.99}
RATE_ALONE = OF_2019 | {"peak": 3e-3}

NO_LIMIT = 1e9  # longer than any finite gradient here
CURVE = 50  # points of the stored curve, of 40 steps each


def measure(
    seed: int,
    optimizer: str = "AdamW",
    peak: float = PEAK,
    decay: str = "linear",
    final_share: float = 0.0,
    warmup: int = 50,
    beta_v: float = 0.95,
    weight_decay: float = 0.1,
    clip: float = 1.0,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a decoder of one block in NumPy. A `clip` of 0 is none; `weight_decay` and `beta_v` are AdamW's alone.

    Returns the curve of the training loss, each point the mean of neighbouring steps; the longest gradient
    after the warm-up, before clipping; how many steps were made before a loss or gradient was not finite, all
    of them if none was; and the final loss over the whole validation part, None if the run broke off.
    `characters` shortens the text.

    Source: wsd (warm-up, stable, decay): Hu et al. 2024, "MiniCPM", section 4. Derived in chapter 10.

    Raises:
        ValueError: there is no such optimizer or decay, or a number is out of range.
    """
    checks.one_of("optimizer", optimizer, OPTIMIZERS)
    checks.one_of("decay", decay, DECAYS)
    task = text_task(seed, characters, LENGTH, BATCH_SIZE)
    plan = TrainingConfig(
        steps=steps, batch_size=BATCH_SIZE, learning_rate=peak, warmup=warmup, final_share=final_share
    )
    model = new_model(task, seed)
    weights = model.named_parameters()
    vectors = [name for name, weight in weights.items() if weight.ndim < 2]
    adamw = scratch.AdamW(model, betas=(0.9, beta_v), weight_decay=weight_decay, no_decay=vectors)
    memory = {name: np.zeros_like(weight) for name, weight in weights.items()}
    losses, lengths = [], []
    with np.errstate(all="ignore"):  # a run that breaks off says so itself
        for step in range(steps):
            inputs, targets = task.batch(step)
            saved: list = []
            logits = model(**inputs, saved=saved)
            loss = float(scratch.cross_entropy(logits, targets))
            model.zero_gradients()
            model.backward(scratch.cross_entropy_backward(logits, targets), saved)
            length = float(scratch.clip_gradients(model, clip or NO_LIMIT))
            if not math.isfinite(loss + length):
                break
            losses.append(loss)
            lengths.append(length)
            rate = peak * share(plan, decay, step)
            if optimizer == "AdamW":
                adamw.learning_rate = rate
                adamw.step()
            else:
                for name, gradient in model.gradients().items():
                    memory[name] = MOMENTUM * memory[name] + gradient
                    weights[name][...] -= rate * memory[name]
    whole = len(losses) == steps
    return {
        "loss": thinned(losses, CURVE),
        "longest": max(lengths[warmup:], default=None),
        "steps": len(losses),
        "validation_loss": mean_loss(model, task.validation()) if whole else None,
    }


def new_model(task: NextToken, seed: int) -> scratch.Transformer:
    """Makes the smallest GPT of chapter 10: one block, with rotary positions."""
    config = ModelConfig(
        vocab_size=task.vocab_size,
        context_length=LENGTH,
        d_model=D_MODEL,
        n_layers=N_LAYERS,
        n_heads=N_HEADS,
        positions="rope",
    )
    return scratch.Transformer(config, generator=np.random.default_rng(seed))


def share(plan: TrainingConfig, decay: str, step: int) -> float:
    """Returns the fraction of the peak at step 0, 1, …: that of `rate_share`, or "wsd"."""
    if decay != "wsd":
        return rate_share(plan.replace(decay=decay), step)
    falling = plan.steps // LAST
    begins = plan.steps - falling
    if step < begins:
        return rate_share(plan.replace(decay="none"), step)
    return rate_share(plan.replace(steps=falling, warmup=0, decay="linear"), step - begins)


EXPERIMENT = Experiment(
    name="longer",
    question="In two thousand steps, what do the rate's decay, AdamW, weight decay and clipping gain?",
    measure=measure,
    runs=(
        *(DESCRIBED | changes | {"seed": seed} for changes in CHANGES.values() for seed in SEEDS),
        *(schedule | {"seed": seed} for schedule in (OF_2019, RATE_ALONE) for seed in SEEDS),
    ),
    short={"steps": 60, "characters": 60_000},
)
