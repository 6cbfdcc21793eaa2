"""Computes the numbers that change from step to step. Each is a pure function of the step, so none has to be saved."""

import math

from glassformer.train.config import TrainingConfig


def rate_share(config: TrainingConfig, step: int) -> float:
    """Returns the fraction of every learning rate at step 0, 1, …: it rises linearly for `warmup` steps, then falls.

    It falls along a line or half a cosine, or stays constant. Just after the last step it would reach
    `final_share`.

    Source: warmup: Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.2; cosine: Loshchilov and
    Hutter 2017, "SGDR", equation 5. Derived in chapter 10.
    """
    if step < config.warmup:
        return (step + 1) / (config.warmup + 1)  # not 0 at the first step, and not 1 before the last
    progress = min(1.0, (step - config.warmup) / max(1, config.steps - config.warmup))
    falling = {"none": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    return config.final_share + (1 - config.final_share) * falling[config.decay]


def muon_momentum(config: TrainingConfig, step: int) -> float:
    """Returns Muon's momentum at step 0, 1, …: linear from `muon_momentum_start` to `muon_momentum`."""
    progress = min(1.0, step / config.muon_momentum_warmup) if config.muon_momentum_warmup else 1.0
    return config.muon_momentum_start + (config.muon_momentum - config.muon_momentum_start) * progress


def ema_share(config: TrainingConfig, step: int) -> float:
    """Returns how much of the weights' average is kept at step 0, 1, …: little at first, while the weights change fast.

    Source: the warm-up (1 + step) / (10 + step) is that of TensorFlow's ExponentialMovingAverage.
    """
    return min(config.ema or 0.0, (1 + step) / (10 + step))


def is_due(every: int, step: int, steps: int) -> bool:
    """Returns whether something that happens every few steps, and at the end, is due after this step."""
    return step == steps or (every > 0 and step % every == 0)
