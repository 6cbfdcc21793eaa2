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


def _course(up=lambda s, w: (s + 1) / (w + 1), p=lambda s, w, n: (s - w) / (n - w), fall=None, share=None):
    """A wrong answer: another way up or down."""

    def wrong(step, peak, warmup, steps, final_share=0.1):
        if step < warmup:
            return peak * up(step, warmup)
        left = final_share if share is None else share
        down = (fall or (lambda p: (1 + math.cos(math.pi * p)) / 2))(p(step, warmup, steps))
        return peak * (left + (1 - left) * down)

    return wrong


rated.mistake("from zero", _course(up=lambda s, w: s / w))
rated.mistake("from zero", _course(up=lambda s, w: s / (w + 1)))
rated.mistake("peak early", _course(up=lambda s, w: (s + 1) / w))
rated.mistake("from the start", _course(p=lambda s, w, n: s / n))
rated.mistake("from the start", _course(p=lambda s, w, n: (s - w) / n))
rated.mistake("end early", _course(p=lambda s, w, n: (s - w) / (n - w - 1)))
rated.mistake("line", _course(fall=lambda p: 1 - p))
rated.mistake("whole wave", _course(fall=lambda p: (1 + math.cos(2 * math.pi * p)) / 2))
rated.mistake("degrees", _course(fall=lambda p: (1 + math.cos(180 * p)) / 2))
rated.mistake("quarter wave", _course(fall=lambda p: math.cos(math.pi * p / 2)))
rated.mistake("to zero", _course(share=0.0))
rated.mistake("upwards", _course(fall=lambda p: (1 - math.cos(math.pi * p)) / 2))
rated.mistake("no warm-up", _course(up=lambda s, w: 1.0))


@rated.mistake("cut off")
def _(step, peak, warmup, steps, final_share=0.1):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    p = (step - warmup) / (steps - warmup)
    return peak * max(final_share, (1 + math.cos(math.pi * p)) / 2)


@rated.mistake("share added")
def _(step, peak, warmup, steps, final_share=0.1):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    p = (step - warmup) / (steps - warmup)
    return peak * (final_share + (1 + math.cos(math.pi * p)) / 2)
