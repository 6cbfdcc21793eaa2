"""Answers for chapter 00: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


@right("start.temperature")
def by_torch(logits, temperature):
    return torch.softmax(torch.as_tensor(logits) / temperature, dim=-1)


@right("start.temperature")
def by_loops(logits, temperature):
    most = max(logits)
    powers = [math.exp((logit - most) / temperature) for logit in logits]
    return [power / sum(powers) for power in powers]


@right("start.temperature")
def as_differences(logits, temperature):
    z = np.asarray(logits) / temperature
    return np.array([1 / np.exp(np.clip(z - one, -700, 700)).sum() for one in z])


@wrong("start.temperature", "should have shape")
def the_likeliest(logits, temperature):
    return float(np.argmax(logits))


@wrong("start.temperature", "Subtract the *largest*")
def smallest_subtracted(logits, temperature):
    with np.errstate(all="ignore"):
        e = np.exp((np.asarray(logits) - min(logits)) / temperature)
        return e / e.sum()


@wrong("start.temperature", "Subtract the *largest*")
def first_subtracted(logits, temperature):
    with np.errstate(all="ignore"):
        e = np.exp((np.asarray(logits) - logits[0]) / temperature)
        return e / e.sum()


@wrong("start.temperature", "−1000 + ln 3 is nan")
def divided_by_a_sum_of_its_own(logits, temperature):
    with np.errstate(all="ignore"):
        powers = [np.exp(logit / temperature) for logit in logits]
        return [power / sum(powers) for power in powers]
