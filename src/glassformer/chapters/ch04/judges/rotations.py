"""Frequencies and rotations, which five judges of chapter 04 share, with the mistakes that all can meet."""

import numpy as np


def pair_frequencies(d: int, base: float = 10_000.0) -> np.ndarray:
    """The frequency of each pair of d dimensions."""
    return base ** (-2 * np.arange(d // 2) / d)


WRONG_FREQUENCIES = {
    "one rate": lambda d, base: np.ones(d // 2),
    "no two": lambda d, base: base ** (-np.arange(d // 2) / d),
    "twice": lambda d, base: pair_frequencies(d, base) ** 2,
    "own base": lambda d, base: pair_frequencies(d),
    "fencepost": lambda d, base: base ** (-np.arange(d // 2) / max(d // 2 - 1, 1)),
    "times wavelength": lambda d, base: 1 / pair_frequencies(d, base),
    "degrees": lambda d, base: np.deg2rad(pair_frequencies(d, base)),
}


def add_wrong_frequencies(exercise, answer, D="D"):
    """Add these mistakes to an exercise whose `answer` is right, given the right frequencies first."""
    for name, wrong in WRONG_FREQUENCIES.items():
        exercise.mistake(name, lambda *args, wrong=wrong, **kw: answer(wrong, *args, **kw), D=D)


def in_halves(x):
    """The columns of x, even ones first."""
    return np.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1)


def turned_rows(x, theta, positions=None):
    """Row t of x turned by ``positions[t] * theta``, pairs in layout half: a product of complex numbers."""
    half = x.shape[-1] // 2
    positions = np.arange(x.shape[-2]) if positions is None else np.asarray(positions)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * positions[:, None] * np.asarray(theta))
    return np.concatenate([z.real, z.imag], axis=-1)


EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 1.0])


SECOND_PAIR = np.array([0.0, 1.0, 0.0, 0.0])  # only the second pair, whose frequency is 1/√base
