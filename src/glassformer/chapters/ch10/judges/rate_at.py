"""Judges "The rate of a step" (chapter 10): the learning rate of each step: a warm-up, then half a cosine."""

import math

from glassformer.exercises.catalogue import exercise


def rate_at(step: int, peak: float, warmup: int, steps: int, final_share: float = 0.1) -> float:
    """The learning rate of step 0, 1, …: up in a line for `warmup` steps, then along half a cosine."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    p = (step - warmup) / (steps - warmup)
    return peak * (final_share + (1 - final_share) * (1 + math.cos(math.pi * p)) / 2)


rated = exercise("training.rate_at", rate_at)

rated.case("the first step has a rate above 0", 0, 0.01, 4, 100, want=0.002)
rated.also(3, 0.01, 4, 100, want=0.008)
rated.case("the peak follows the warm-up", 4, 0.01, 4, 100, want=0.01)
rated.case(
    "halfway through the decay: halfway between the peak and the final rate", 52, 0.01, 4, 100, want=0.0055
)
rated.also(28, 0.01, 4, 100, want=0.01 * (0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2))
rated.case("at the end, a tenth is left", 100, 0.01, 4, 100, want=0.001)
rated.case("or a different fraction", 60, 0.3, 20, 100, final_share=0.5, want=0.225)
rated.also(60, 0.3, 20, 100, final_share=0.0, want=0.15)
rated.case("without a warm-up, the rate starts at the peak", 0, 0.02, 0, 10, want=0.02)
rated.also(5, 0.02, 0, 10, want=0.011)
