"""Answers for chapter 00: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


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


# Wrong in one place

slip("start.temperature", "should have shape", "powers / powers.sum()", "float(np.argmax(logits))")
slip("start.temperature", "Subtract the *largest*", "scaled.max()", "scaled.min()")
slip("start.temperature", "Subtract the *largest*", "scaled.max()", "scaled[0]")
slip("start.temperature", "−1000 + ln 3 is nan", " - scaled.max()", "", "/ powers.sum()", "/ sum(powers)")
