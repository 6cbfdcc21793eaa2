"""Judges "The gate of gpt-oss" (chapter 18): a clamped gate, from columns that alternate.

Axes: N tokens, F neurons of an expert.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.experts import Expert
from glassformer.shapes import Float


def clamped_gate(h: Float[np.ndarray, "N 2F"]) -> Float[np.ndarray, "N F"]:
    """Returns gate · σ(1.702 · gate) · (up + 1), with a gate of at most 7 and up within ±7."""
    gate = np.minimum(h[:, 0::2], 7)
    up = np.clip(h[:, 1::2], -7, 7)
    return gate / (1 + np.exp(-1.702 * gate)) * (up + 1)


clamped = exercise("experts.gate", clamped_gate, built_on=(Expert.forward,), axes="N F")


def _by_hand(h):
    """Computes one neuron at a time."""
    rows = []
    for row in h.tolist():
        pairs = [(min(row[i], 7.0), max(-7.0, min(row[i + 1], 7.0))) for i in range(0, len(row), 2)]
        rows.append([g * (1 + math.tanh(0.851 * g)) / 2 * (u + 1) for g, u in pairs])
    return np.array(rows)


_G = math.log(3) / 1.702  # σ(1.702 · G) = ¾, and σ(−1.702 · G) = ¼


def _sigmoid(gate):
    return 1 / (1 + math.exp(-1.702 * gate))


_TOP = 7 * _sigmoid(7)
clamped.case(
    "σ(1.702 · gate) = ¾: the gate opens to ¾ of its size, and meets up + 1 = 4",
    np.array([[_G, 3.0]]), want=[[3 * _G]], what="one neuron, with up = 3,",
)  # fmt: skip
clamped.also(np.array([[-_G, 0.0]]), want=[[-_G / 4]], what="one neuron, with a negative gate and up = 0,")
clamped.case(
    "columns alternate: gate, up, gate, up",
    np.array([[_G, 3.0, -_G, 1.0, _G, -3.0]]), want=[[3 * _G, -_G / 2, -1.5 * _G]], what="three neurons",
)  # fmt: skip
clamped.case(
    "a gate is at most 7", np.array([[9.0, 1.0, 7.5, 0.0]]), want=[[2 * _TOP, _TOP]], what="two wide gates"
)
clamped.case(
    "but it may be as negative as it likes: σ(1.702 · −9) is about 0.0000002",
    np.array([[-9.0, 7.0], [-7.5, 5.0]]), want=[[-72 * _sigmoid(-9)], [-45 * _sigmoid(-7.5)]],
    what="two closed gates",
)  # fmt: skip
clamped.case(
    "up stays within −7 and 7, and then 1 is added",
    np.array([[_G, 50.0, _G, -50.0]]), want=[[6 * _G, -4.5 * _G]], what="two neurons with up = ±50",
)  # fmt: skip
clamped.case("any numbers", 6 * numbers(5, 8, seed=18), want=_by_hand, what="N = 5 and F = 4")
clamped.also(6 * numbers(1, 14, seed=19), want=_by_hand, what="N = 1 and F = 7")
clamped.also(6 * numbers(3, 2, seed=20), want=_by_hand, what="N = 3 and F = 1")
