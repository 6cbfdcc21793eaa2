"""Judges the exercises of chapter 04, "Putting order in"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from a hand-worked number, a closed form, an invariant or another way to compute it. The
axes: B batch, T positions asking, S positions answering, D d_model, H heads, K d_head, N rows of a table.
"""
# ruff: noqa: ANN001, ANN002, ANN202 - a check is read by its title, a mistake by its sentence

import math
from numbers import Real
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_shape, is_tensor, remark
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import causal_mask, scaled_dot_product_attention, softmax
from glassformer.scratch.positions import (
    LearnedPositions,
    alibi_slopes,
    frequencies,
    rotate,
    rotation_angles,
    sinusoidal,
    t5_bucket,
)
from glassformer.shapes import Float, Integer


def _attend(x: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """One head of attention with fixed weights: outputs (T, D) and weights (T, T)."""
    D = x.shape[1]
    q, k, v = (x @ numbers(D, D, seed=seed) for seed in (1, 2, 3))
    return scaled_dot_product_attention(q, k, v, **options)


# Frequencies: what five exercises share, and the mistakes that all of them can meet


def _theta(d: int, base: float = 10_000.0) -> np.ndarray:
    """The frequency of each pair of d dimensions."""
    return base ** (-2 * np.arange(d // 2) / d)


WRONG_FREQUENCIES = {
    "one rate": lambda d, base: np.ones(d // 2),
    "no two": lambda d, base: base ** (-np.arange(d // 2) / d),
    "twice": lambda d, base: _theta(d, base) ** 2,
    "own base": lambda d, base: _theta(d),
    "fencepost": lambda d, base: base ** (-np.arange(d // 2) / max(d // 2 - 1, 1)),
    "times wavelength": lambda d, base: 1 / _theta(d, base),
    "degrees": lambda d, base: np.deg2rad(_theta(d, base)),
}


def _wrong_frequencies(exercise, answer, D="D"):
    """Add these mistakes to an exercise whose `answer` is right, given the right frequencies first."""
    for name, wrong in WRONG_FREQUENCIES.items():
        exercise.mistake(name, lambda *args, wrong=wrong, **kw: answer(wrong, *args, **kw), D=D)


# 1 · What a shuffle does


def shuffled(
    outputs: Float[np.ndarray, "T D"], weights: Float[np.ndarray, "T T"], order: Integer[np.ndarray, " T"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "T T"]]:
    """Returns what attention without positions gives for ``x[order]``, from what it gave for x."""
    return outputs[order], weights[order][:, order]


equivariance = exercise("positions.equivariance", shuffled, parts=("outputs", "weights"), axes=("T D", "T S"))

_o, _w, _order = numbers(4, 3), softmax(numbers(4, 4)), np.array([2, 0, 3, 1])
equivariance.case("the outputs move with their words", _o, _w, _order, part="outputs", want=_o[_order])
equivariance.case(
    "the weights move along both axes", _o, _w, _order, part="weights", want=_w[np.ix_(_order, _order)]
)
_x, _order = numbers(6, 4), np.array([5, 2, 0, 1, 3, 4])
equivariance.case(
    "it is what attention gives when it really runs on the shuffled words",
    *_attend(_x), _order, want=_attend(_x[_order]), what="attention to six random words",
)  # fmt: skip
equivariance.also(
    *_attend(_x), _order[::-1], want=_attend(_x[_order[::-1]]), what="the same, in another order"
)

equivariance.mistake("rows only", lambda o, w, order: (o[order], w[order]))
equivariance.mistake("columns only", lambda o, w, order: (o[order], w[:, order]))
equivariance.mistake("weights untouched", lambda o, w, order: (o[order], w))
equivariance.mistake("invariance", lambda o, w, order: (o, w))
equivariance.mistake("undone", lambda o, w, order: shuffled(o, w, np.argsort(order)))
equivariance.mistake("single cells", lambda o, w, order: (o[order], w[order, order]))
equivariance.mistake("pair", lambda o, w, order: shuffled(o, w, order)[::-1])


# 2 · A step of n is a matrix


def shift_matrix(n: Real, d_model: int, base: float = 10_000.0) -> Float[np.ndarray, "{d_model} {d_model}"]:
    """The matrix R with ``R @ PE(p) = PE(p + n)`` for every position p: a rotation for each pair."""
    R = np.zeros((d_model, d_model))
    for i, angle in enumerate(frequencies(d_model, base=base) * n):
        pair = slice(2 * i, 2 * i + 2)
        R[pair, pair] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return R


def _shift(n: float | int, frequencies: Any) -> np.ndarray:
    """The rotation by n steps, one frequency a pair: the parts of e^(inθ), laid out by hand."""
    D = 2 * len(frequencies)
    matrix = np.zeros((D, D))
    turns = np.exp(1j * n * np.asarray(frequencies))
    even, odd = np.arange(0, D, 2), np.arange(1, D, 2)
    matrix[even, even] = matrix[odd, odd] = turns.real
    matrix[even, odd], matrix[odd, even] = turns.imag, -turns.imag
    return matrix


def _in_halves(x):
    """The columns of x, even ones first."""
    return np.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1)


shift = exercise("positions.shift_matrix", shift_matrix, built_on=(frequencies,), axes="D D")

shift.case(
    "the matrix is (D, D), and a step of 0 changes nothing", 0, 6, want=np.eye(6), being="the identity"
)
_s, _c = math.sin(1), math.cos(1)
shift.case("a step forward from position 0, with one pair", 1, 2, want=[[_c, _s], [-_s, _c]])
shift.case(
    "every pair turns at its own frequency", 3, 6, want=_shift(3, 10_000.0 ** np.array([0, -1 / 3, -2 / 3]))
)


@shift.check("R(n) · PE(p) = PE(p + n), for steps back and for half steps too")
def _(shift_matrix):
    positions = np.arange(20)
    for n in (7, -4, 0.5):
        R = shift_matrix(n, 8)
        expect_shape(R, (8, 8), f"shift_matrix({n}, 8)", axes="D D")
        there, here = sinusoidal(positions + n, 8), sinusoidal(positions, 8)
        expect(here @ np.asarray(R).T, there, f"R({n}) · PE(p) for p = 0 … 19", axes="T D")


shift.case("another base", 2, 4, base=100.0, want=_shift(2, [1, 0.1]))
shift.also(3, 6, base=1000.0, want=_shift(3, [1, 0.1, 0.01]))

shift.mistake("backward", lambda n, d_model, base=1e4: _shift(-n, _theta(d_model, base)))
shift.mistake("sign of n", lambda n, d_model, base=1e4: _shift(abs(n), _theta(d_model, base)))
shift.mistake("whole n", lambda n, d_model, base=1e4: _shift(int(n), _theta(d_model, base)))


@shift.mistake("halves")
def _(n, d_model, base=1e4):
    return _in_halves(_in_halves(_shift(n, _theta(d_model, base))).T).T


_wrong_frequencies(shift, lambda theta, n, d_model, base=1e4: _shift(n, theta(d_model, base)))


# 3 · Only the distance is left


def rope_score(
    q: Float[np.ndarray, " K"], k: Float[np.ndarray, " K"], distance: Real, base: float = 10_000.0
) -> float:
    """The dot product of q rotated to position m and k rotated to n, from m − n alone. Layout half."""
    half = len(q) // 2
    angles = frequencies(len(q), base=base) * distance
    along = q[:half] * k[:half] + q[half:] * k[half:]
    across = q[:half] * k[half:] - q[half:] * k[:half]
    return float(along @ np.cos(angles) + across @ np.sin(angles))


def _turned(x, theta, positions=None):
    """Row t of x turned by ``positions[t] * theta``, pairs in layout half: a product of complex numbers."""
    half = x.shape[-1] // 2
    positions = np.arange(x.shape[-2]) if positions is None else np.asarray(positions)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * positions[:, None] * np.asarray(theta))
    return np.concatenate([z.real, z.imag], axis=-1)


def _score(q, k, distance, theta):
    return _turned(q[None], theta, [distance])[0] @ k


rope = exercise("positions.rope_score", rope_score, built_on=(frequencies,))

_q, _k, _east, _north = numbers(6), numbers(6, seed=1), np.array([1.0, 0.0]), np.array([0.0, 1.0])
rope.case("at distance 0 it is the plain dot product", _q, _k, 0, want=sum(_q * _k))
rope.case(
    "two equal vectors, turned apart by d radians, score cos d",
    _east, _east, 2, want=math.cos(2), being="cos 2",
)  # fmt: skip
rope.case("the sign: distance is m − n, query minus key", _east, _north, 1, want=math.sin(1), being="sin 1")
rope.also(_north, _east, 1, want=-math.sin(1), being="−sin 1")


@rope.check("it equals rotating both vectors, wherever they are")
def _(rope_score):
    for m, n in ((9, 4), (2, 11), (105, 100)):
        turned_q, turned_k = _turned(np.stack([_q, _k]), _theta(6), [m, n])
        expect(rope_score(_q, _k, m - n), turned_q @ turned_k, f"the score of q at {m} and k at {n}")


_second = np.array([0.0, 1.0, 0.0, 0.0])  # only the second pair, whose frequency is 1/√base
rope.case("another base", _second, _second, 5, base=100.0, want=math.cos(0.5), being="cos(5/10)")
rope.also(_q, _k, 5, base=1000.0, want=_score(_q, _k, 5, np.array([1, 0.1, 0.01])))


@rope.mistake("cosines alone")
def _(q, k, distance, base=1e4):
    return (q * k) @ np.tile(np.cos(distance * _theta(len(q), base)), 2)


@rope.mistake("plus")
def _(q, k, distance, base=1e4):
    angles, swapped = distance * _theta(len(q), base), np.roll(k, len(k) // 2)
    return (q * k) @ np.tile(np.cos(angles), 2) + (q * swapped) @ np.tile(np.sin(angles), 2)


rope.mistake("no effect", lambda q, k, distance, base=1e4: q @ k)
rope.mistake("other way", lambda q, k, distance, base=1e4: _score(q, k, -distance, _theta(len(q), base)))
rope.mistake("no sign", lambda q, k, distance, base=1e4: _score(q, k, abs(distance), _theta(len(q), base)))
rope.mistake("root", lambda q, k, distance, base=1e4: rope_score(q, k, distance, base) / math.sqrt(len(q)))


@rope.mistake("neighbours")
def _(q, k, distance, base=1e4):
    return _score(_in_halves(q), _in_halves(k), distance, _theta(len(q), base))


_wrong_frequencies(rope, lambda theta, q, k, m, base=1e4: _score(q, k, m, theta(len(q), base)), D="K")


# 4 · Sinusoids from a blank cell


def _waves(positions, theta):
    angles = np.asarray(positions)[:, None] * np.asarray(theta)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), -1)


sinusoids = exercise("positions.sinusoidal", sinusoidal, axes="T D")

sinusoids.shape("one row for each position, one column for each dimension", np.arange(5), 8, want=(5, 8))
sinusoids.case(
    "position 0: sin 0 = 0 and cos 0 = 1, alternating", np.arange(5), 8, row=0, want=[0.0, 1.0] * 4
)


@sinusoids.check("the two dimensions of a pair share a frequency")
def _(sinusoidal):
    got = sinusoidal(np.arange(5), 8)
    expect_shape(got, (5, 8), "sinusoidal(positions, 8)", axes="T D")
    squares = np.asarray(got) ** 2
    expect(squares[:, 0::2] + squares[:, 1::2], np.ones((5, 4)), "sin² + cos² of each pair", axes="T pair")


sinusoids.case(
    "with two dimensions, position p is (sin p, cos p)",
    np.arange(4), 2, want=[[math.sin(p), math.cos(p)] for p in range(4)],
)  # fmt: skip
sinusoids.case(
    "the frequencies fall from 1 by the same factor, pair after pair",
    np.arange(2), 8, row=1, want=_waves([1], [1, 0.1, 0.01, 0.001])[0],
    being="the sines and cosines of 1, 0.1, 0.01 and 0.001",
)  # fmt: skip
sinusoids.case("another base", np.arange(2), 4, base=100.0, row=1, want=_waves([1], [1, 0.1])[0])
sinusoids.also(np.arange(2), 8, base=16.0, row=1, want=_waves([1], [1, 1 / 2, 1 / 4, 1 / 8])[0])
sinusoids.case(
    "the positions are the ones you were given",
    np.array([7, 3, 1000, 0]), 2, want=[[math.sin(p), math.cos(p)] for p in (7, 3, 1000, 0)],
)  # fmt: skip
sinusoids.also(
    np.array([-2.5, 0.5, 12.0]), 10, want=_waves([-2.5, 0.5, 12.0], 10.0 ** (-4 * np.arange(5) / 5)),
    what="sinusoidal([-2.5, 0.5, 12], 10)",
)  # fmt: skip
sinusoids.refuses(
    "an odd d_model leaves one sine without its cosine: ValueError", np.arange(3), 5, what="d_model=5"
)
sinusoids.also_refuses(np.arange(3), 1, what="d_model=1")


sinusoids.mistake("any width", lambda p, d_model, base=1e4: _waves(p, _theta(d_model, base)))
sinusoids.mistake("any width", lambda p, d_model, base=1e4: _waves(p, _every_second(d_model, base)))
sinusoids.mistake(
    "any width", lambda p, D, base=1e4: np.pad(_waves(p, _theta(D, base)), ((0, 0), (0, D % 2)))
)


@sinusoids.mistake("any width")
def _(positions, d_model, base=1e4):
    return _waves(positions, _every_second(d_model, base))[:, :d_model]


@sinusoids.mistake("by chance")
def _(positions, d_model, base=1e4):
    table, angles = np.empty((len(positions), d_model)), positions[:, None] * _every_second(d_model, base)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)
    return table


def _every_second(d_model, base):
    return base ** (-np.arange(0, d_model, 2) / d_model)


@sinusoids.mistake("swapped")
def _(positions, d_model, base=1e4):
    right = _waves(positions, _theta(d_model, base))
    return right[:, np.arange(right.shape[1]) ^ 1]  # 1, 0, 3, 2, …


@sinusoids.mistake("frequency each")
def _(positions, d_model, base=1e4):
    angles = positions[:, None] * base ** (-np.arange(d_model) / d_model)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angles), np.cos(angles))


@sinusoids.mistake("in turn")
def _(positions, d_model, base=1e4):
    angles = np.tile(positions[:, None] * _theta(d_model, base), 2)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angles), np.cos(angles))


sinusoids.mistake("blocks", lambda p, d_model, base=1e4: _in_halves(_waves(p, _theta(d_model, base))))
_wrong_frequencies(sinusoids, lambda theta, p, d_model, base=1e4: _waves(p, theta(d_model, base)))
sinusoids.mistake("counted", lambda p, d_model, base=1e4: _waves(np.arange(len(p)), _theta(d_model, base)))
sinusoids.mistake("whole", lambda p, d_model, base=1e4: _waves(p.astype(int), _theta(d_model, base)))


# 5 · Fast clocks and slow clocks


def wavelengths(d_model: int, base: float = 10_000.0) -> Float[np.ndarray, " {d_model}//2"]:
    """Returns how many positions each pair of the sinusoidal table needs for one full turn."""
    return 2 * math.pi / frequencies(d_model, base=base)


clocks = exercise("positions.wavelengths", wavelengths, built_on=(frequencies,), axes="D/2")

clocks.shape("one wavelength for each pair of dimensions", 8, want=(4,))
clocks.case(
    "the first pair, which turns by 1 radian at every position", 8, row=0, want=2 * math.pi, being="2π"
)
clocks.case("each pair is slower than the one before", 8, want=2 * math.pi * 10.0 ** np.arange(4))


@clocks.check("after one wavelength, each pair of the table is back where it was")
def _(wavelengths):
    turns = wavelengths(8, base=81.0)
    expect_shape(turns, (4,), "wavelengths(8, base=81)", axes="D/2")
    for pair, turn in enumerate(np.asarray(turns, dtype=np.float64)):
        here, there = sinusoidal(np.array([3.0, 3.0 + turn]), 8, base=81.0)[:, 2 * pair : 2 * pair + 2]
        expect(there, here, f"pair {pair}, one wavelength further on, with base 81,")


clocks.mistake("360", lambda d_model, base=1e4: 360 / _theta(d_model, base))
clocks.mistake("radians", lambda d_model, base=1e4: 1 / _theta(d_model, base))
clocks.mistake("shorter", lambda d_model, base=1e4: 2 * math.pi * _theta(d_model, base))
clocks.mistake("too many", lambda d_model, base=1e4: 2 * math.pi * base ** (np.arange(d_model) / d_model))
clocks.mistake("reversed", lambda d_model, base=1e4: wavelengths(d_model, base)[::-1])
clocks.mistake("rounded", lambda d_model, base=1e4: np.round(wavelengths(d_model, base)))
clocks.mistake("rounded", lambda d_model, base=1e4: np.round(wavelengths(d_model, base), 2))
for _name in ("one rate", "no two", "twice", "own base", "fencepost"):
    _wrong = WRONG_FREQUENCIES[_name]
    clocks.mistake(_name, lambda d_model, base=1e4, wrong=_wrong: 2 * math.pi / wrong(d_model, base), D="D")


# 6 · A table of positions


def add_learned(
    x: Float[np.ndarray, "*B T D"], table: Float[np.ndarray, "N D"]
) -> Float[np.ndarray, "*B T D"]:
    """Adds row t of the table to row t of x; the table's length is the longest x there can be.

    Raises:
        ValueError: x is longer than the table.
    """
    T, context_length = x.shape[-2], len(table)
    if context_length < T:
        raise ValueError(f"T={T} positions do not fit in a table of context_length={context_length}")
    return x + table[:T]


table = exercise("positions.learned", add_learned, built_on=(LearnedPositions,), axes="T D")

_x, _rows = numbers(3, 4), numbers(5, 4, seed=1)
table.case("row t of the table is added to row t of x", _x, _rows, want=_x + _rows[:3])
_x = numbers(14, 3, 4)  # 14 sequences: more than the table has rows
_sums = np.stack([sequence + _rows[:3] for sequence in _x])
table.case("a batch: every sequence gets the same rows", _x[:4], _rows, want=_sums[:4], axes="B T D")
table.also(_x, _rows, want=_sums, axes="B T D")
_x = numbers(5, 4)
table.case("a sequence as long as the table still fits", _x, _rows, want=_x + _rows)
table.also(_x[None], _rows, want=(_x + _rows)[None], axes="B T D")
table.also(_x[None, :1], _rows, want=(_x[:1] + _rows[:1])[None], axes="B T D")
table.refuses(
    "positions past the table's end: ValueError, and the message names both lengths",
    numbers(12, 2), numbers(10, 2), what="12 positions and a table of 10 rows", names=(12, 10),
)  # fmt: skip
table.also_refuses(numbers(11, 2), numbers(10, 2), what="11 positions and a table of 10 rows", names=(11, 10))
table.refuses(
    "in a batch too", numbers(2, 12, 3), numbers(10, 3), names=(12, 10),
    what="two sequences of 12 positions and a table of 10 rows",
)  # fmt: skip
table.refuses(
    "a table of one row is not stretched", numbers(13, 2), numbers(1, 2), names=(13, 1),
    what="13 positions and a table of 1 row",
)  # fmt: skip

table.mistake("stretched", lambda x, table: x + table[: x.shape[-2]])
table.mistake("last rows", lambda x, table: x + table[-x.shape[-2] :])
table.mistake("row 0", lambda x, table: x + table[0])
table.mistake("no words", lambda x, table: np.broadcast_to(table[: x.shape[-2]], x.shape))
table.mistake("sequences", lambda x, table: x + (table[: len(x), None] if x.ndim == 3 else table[: len(x)]))


@table.mistake("sequences")
def _(x, table):
    if len(x) > len(table):
        raise ValueError(f"{len(x)} positions and a table of {len(table)} rows")
    return x + table[: len(x)]


@table.mistake("no batch")
def _(x, table):
    T, _ = x.shape
    if len(table) < T:
        raise ValueError(f"{T} positions and a table of {len(table)} rows")
    return x + table[:T]


table.mistake("wraps", lambda x, table: x + table[np.arange(x.shape[-2]) % len(table)])
table.mistake("clips", lambda x, table: x + table[np.minimum(np.arange(x.shape[-2]), len(table) - 1)])


# 7 · Rotate


def rotary(x: Float[np.ndarray, "*B T K"], base: float = 10_000.0) -> Float[np.ndarray, "*B T K"]:
    """RoPE in layout half: each pair (i, i + K/2) of row t turned by ``t * base**(-2i/K)`` radians."""
    T, K = x.shape[-2:]
    return rotate(x, rotation_angles(np.arange(T), K, base=base))


turn = exercise("positions.rotary", rotary, built_on=(rotation_angles, rotate), axes="T K")

_x, _angle = numbers(5, 6), np.arange(4)
turn.shape("the shape stays", _x, want=(5, 6))
turn.case("position 0 is not turned", _x, row=0, want=_x[0], being="as it was")
turn.case(
    "with one pair, position p turns (1, 0) to (cos p, sin p), and (0, 1) to (−sin p, cos p)",
    np.array([_east] * 4), want=np.stack([np.cos(_angle), np.sin(_angle)], axis=-1),
    what="four rows (1, 0), rotated,",
)  # fmt: skip
turn.also(
    np.array([_north] * 4), want=np.stack([0 - np.sin(_angle), np.cos(_angle)], axis=-1),
    what="four rows (0, 1), rotated,",
)  # fmt: skip


@turn.check("a rotation keeps every row's length")
def _(rotary):
    x = numbers(5, 8)
    got = rotary(x)
    expect_shape(got, (5, 8), "rotary(x)", axes="T K")
    expect(np.linalg.norm(got, axis=-1), np.linalg.norm(x, axis=-1), "the length of each row")


turn.case(
    "dimension i is paired with i + K/2, each pair with its own frequency", _x, want=_turned(_x, _theta(6))
)
_x = numbers(3, 5, 4)
turn.case(
    "heads and batches in front; positions run along the second axis from the end",
    _x, want=_turned(_x, _theta(4)), axes="H T K",
)  # fmt: skip
_x = numbers(2, 3, 5, 10)
turn.also(_x, want=_turned(_x, _theta(10)), axes="B H T K")
turn.also(_x[:1], want=_turned(_x[:1], _theta(10)), axes="B H T K")
_x, _wide = numbers(1100, 2), numbers(6, 20)
turn.case("a long text, a wide head", _x, want=_turned(_x, _theta(2)), what="1,100 positions, rotated,")
turn.also(_wide, want=_turned(_wide, _theta(20)), what="a head of 20 dimensions, rotated,")
turn.case(
    "another base", np.array([_second] * 2), base=100.0, row=1, want=[0.0, math.cos(0.1), 0.0, math.sin(0.1)]
)
_x = numbers(3, 5, 4)
turn.also(_x, base=100.0, want=_turned(_x, [1, 0.1]), axes="H T K")


def _rope_angles(x, base):
    return np.arange(x.shape[-2])[:, None] * _theta(x.shape[-1], base)


def _by_halves(x, cos, sin, signs=(-1, 1)):
    """x·cos + rotate_half(x)·sin, as converters of checkpoints write it."""
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([signs[0] * x[..., half:], signs[1] * x[..., :half]], axis=-1) * sin


def _with_signs(*signs):
    def rotary(x, base=1e4):
        angles = np.tile(_rope_angles(x, base), 2)
        return _by_halves(x, np.cos(angles), np.sin(angles), signs)

    return rotary


turn.mistake("from 1", lambda x, base=1e4: rotate(x, _rope_angles(x, base) + _theta(x.shape[-1], base)))
turn.mistake("other way", lambda x, base=1e4: rotate(x, -_rope_angles(x, base)))
turn.mistake("no minus", _with_signs(1, 1))
turn.mistake("two minuses", _with_signs(-1, -1))
turn.mistake("neighbours", lambda x, base=1e4: rotate(x, _rope_angles(x, base), layout="interleaved"))
turn.mistake("cosines alone", lambda x, base=1e4: _by_halves(x, np.cos(np.tile(_rope_angles(x, base), 2)), 0))
_wrong_frequencies(turn, lambda theta, x, base=1e4: _turned(x, theta(x.shape[-1], base)), D="K")


@turn.mistake("two layouts")
def _(x, base=1e4):
    angles = np.repeat(_rope_angles(x, base), 2, axis=-1)
    return _by_halves(x, np.cos(angles), np.sin(angles))


@turn.mistake("already turned")
def _(x, base=1e4):
    (a, b), angles = np.split(x, 2, axis=-1), _rope_angles(x, base)
    a = a * np.cos(angles) - b * np.sin(angles)
    return np.concatenate([a, a * np.sin(angles) + b * np.cos(angles)], axis=-1)


@turn.mistake("heads")
def _(x, base=1e4):
    rows = x.swapaxes(-2, -3) if x.ndim > 2 else x
    turned = _turned(rows, _theta(x.shape[-1], base))
    return turned.swapaxes(-2, -3) if x.ndim > 2 else turned


@turn.mistake("no batch")
def _(x, base=1e4):
    T, K = x.shape
    return _turned(x, _theta(K, base), np.arange(T))


@turn.mistake("heads")
def _(x, base=1e4):
    angles = np.tile(np.arange(len(x))[:, None] * _theta(x.shape[-1], base), 2)
    return _by_halves(x, np.cos(angles), np.sin(angles))


turn.mistake("heads", lambda x, base=1e4: _turned(x, _theta(x.shape[-1], base), np.arange(len(x))))


# 8 · Change a checkpoint's layout


def interleaved_to_half(W: Float[np.ndarray, "D D"], n_heads: int) -> Float[np.ndarray, "D D"]:
    """Reorders the columns of W_q or W_k, head by head: even ones first, then odd ones."""
    heads = W.reshape(len(W), n_heads, -1)  # (D, H, K)
    return np.concatenate([heads[..., 0::2], heads[..., 1::2]], axis=-1).reshape(W.shape)


layout = exercise("positions.layout", interleaved_to_half, axes="D D")


@layout.check("the columns change seats; no number changes")
def _(interleaved_to_half):
    W = numbers(6, 6)
    got = interleaved_to_half(W, 1)
    expect_shape(got, (6, 6), "interleaved_to_half(W, 1)", axes="D D")
    expect(np.sort(got, axis=1), np.sort(W, axis=1), "each row of W, sorted,", being="as it was", axes="D D")


def _columns(heads, order, title):
    columns = np.arange(float(len(order))) * np.ones((len(order), 1))
    what = f"interleaved_to_half(W, {heads}), where column c of W is all c,"
    layout.case(title, columns, heads, row=0, want=np.array(order, dtype=float), what=what)


_columns(1, [0, 2, 4, 1, 3, 5], "one head of six dimensions")
_columns(2, [0, 2, 1, 3, 4, 6, 5, 7], "every head keeps to its own columns")
_columns(1, [0, 2, 4, 6, 1, 3, 5, 7], "as many columns in fewer heads")


@layout.check("the scores are the same under the other layout")
def _(interleaved_to_half):
    T, K = 5, 6
    for H in (2, 3):
        D = H * K
        x, weights = numbers(T, D), (numbers(D, D, seed=1), numbers(D, D, seed=2))
        new = [interleaved_to_half(W, H) for W in weights]
        for W in new:
            expect_shape(W, (D, D), f"interleaved_to_half(W, {H})", axes="D D")

        def scores(weights, layout, x=x, H=H):
            q, k = ((x @ np.asarray(W)).reshape(T, H, K).swapaxes(0, 1) for W in weights)
            q, k = (rotate(a, rotation_angles(np.arange(T), K), layout=layout) for a in (q, k))
            return q @ k.swapaxes(-1, -2)

        what = f"the scores of {H} heads, your weights under layout half,"
        expect(scores(new, "half"), scores(weights, "interleaved"), what, axes="H T S")


layout.mistake("nothing moved", lambda W, n_heads: W)
layout.mistake("rows", lambda W, n_heads: interleaved_to_half(W.T, n_heads).T)
layout.mistake("way back", lambda W, H: W.reshape(len(W), H, 2, -1).swapaxes(2, 3).reshape(W.shape))
layout.mistake("mixed heads", lambda W, n_heads: _in_halves(W))


@layout.mistake("heads apart")
def _(W, n_heads):
    heads = W.reshape(len(W), -1, n_heads)  # (D, K, H)
    return np.concatenate([heads[:, 0::2], heads[:, 1::2]], axis=1).reshape(W.shape)


# 9 · A slope for every head


def _slopes(heads: int) -> list[float]:
    """ALiBi's slopes as its authors describe them: a recursion on powers of two."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8 * i / heads) for i in range(1, heads + 1)]
    n = 1 << (heads.bit_length() - 1)
    return _slopes(n) + _slopes(2 * n)[0::2][: heads - n]


slopes = exercise("positions.alibi_slopes", alibi_slopes, axes="H")

slopes.case(
    "eight heads: 1/2, 1/4, … 1/256", 8, want=[1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
)
slopes.case("other powers of two end at 1/256 as well", 4, want=[1 / 4, 1 / 16, 1 / 64, 1 / 256])
slopes.also(1, want=[1 / 256])
slopes.case("three heads: two, and one between", 3, want=[1 / 16, 1 / 256, 1 / 4])
slopes.case("any number of heads", 12, want=2.0 ** -np.array([1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]))
for _heads in (2, 5, 7, 16, 25, 71):
    slopes.also(_heads, want=_slopes(_heads))

slopes.mistake("from 1", lambda H: 2.0 ** (-8 * np.arange(H) / H))
slopes.mistake("base e", lambda H: np.exp(-8 * np.arange(1, H + 1) / H))
slopes.mistake("always 1/2", lambda H: 0.5 ** np.arange(1, H + 1))
slopes.mistake("one formula", lambda H: 2.0 ** (-8 * np.arange(1, H + 1) / H))
slopes.mistake("sorted", lambda H: np.sort(_slopes(H))[::-1])
slopes.mistake("next power", lambda H: np.array(_slopes(1 << (H - 1).bit_length())[:H]))


@slopes.mistake("second half")
def _(H):
    n = 1 << (H.bit_length() - 1)
    return np.array(_slopes(n) + _slopes(2 * n)[1::2][: H - n])


@slopes.mistake("first of twice")
def _(H):
    n = 1 << (H.bit_length() - 1)
    return np.array(_slopes(n) + _slopes(2 * n)[: H - n])


slopes.mistake("negative", lambda H: -np.array(_slopes(H)))


# 10 · How far can a head see?


def alibi_window(slope: float) -> int:
    """The first whole distance at which a key gets less than 1 % of an equal, undiscounted key's weight."""
    return math.floor(math.log(100) / slope) + 1


window = exercise("positions.alibi_window", alibi_window)

window.case("slope 1, worked by hand", 1.0, want=5)
window.case("the steepest and the flattest of eight heads", 1 / 2, want=10, what="alibi_window(1/2)")
window.also(1 / 256, want=1179, what="alibi_window(1/256)")
window.case("it is the first distance below 1 %, for any slope", 0.3, want=16)
for _slope in (2.0**-0.5, 2.0**-3.5, 3.0, 5.0):
    window.also(_slope, want=next(d for d in range(1, 1000) if math.exp(-_slope * d) < 0.01))

window.mistake("rounded down", lambda slope: math.floor(math.log(100) / slope))
window.mistake("nearest", lambda slope: round(math.log(100) / slope))
window.mistake("too far", lambda slope: math.ceil(math.log(100) / slope) + 1)
window.mistake("base 2", lambda slope: math.floor(math.log2(100) / slope) + 1)
window.mistake("base 10", lambda slope: math.floor(2 / slope) + 1)
window.mistake("base 10", lambda slope: math.ceil(2 / slope))
window.mistake("times", lambda slope: math.floor(math.log(100) * slope) + 1)
window.mistake("ninety-nine", lambda slope: math.floor(math.log(99) / slope) + 1)
window.mistake("straight line", lambda slope: math.floor(0.99 / slope) + 1)


# 11 · Near is exact, far is vague

buckets = exercise("positions.t5_bucket", t5_bucket, axes="T S")


def _bucket(relative, bidirectional, n_buckets, max_distance):
    """One bucket, in plain Python; None where a distance lies on a bucket's very edge, and rounding decides."""
    first = 0
    if bidirectional:
        n_buckets //= 2
        first, relative = (n_buckets if relative > 0 else 0), -abs(relative)
    distance, exact = max(-relative, 0), n_buckets // 2
    if distance < exact:
        return first + distance
    far = (n_buckets - exact) * math.log(distance / exact, max_distance / exact)
    on_an_edge = exact < distance < max_distance and abs(far - round(far)) < 1e-4
    return None if on_an_edge else first + min(exact + math.floor(far + 1e-9), n_buckets - 1)


def _past(*distances):
    return -np.array(distances)


buckets.case(
    "causal: near distances into the past have a bucket each",
    _past(*range(8)), bidirectional=False, want=np.arange(8), axes="S",
)  # fmt: skip
buckets.case(
    "causal: every future key is in bucket 0",
    np.array([1, 2, 50]),
    bidirectional=False,
    want=[0, 0, 0],
    axes="S",
)
buckets.case(
    "causal: from 16 on, buckets widen logarithmically",
    _past(15, 16, 32, 64, 100), bidirectional=False, want=[15, 16, 21, 26, 30], axes="S",
)  # fmt: skip
buckets.case(
    "causal: everything from max_distance on is in the last bucket",
    _past(127, 128, 1000), bidirectional=False, want=[31, 31, 31], axes="S",
)  # fmt: skip
buckets.case(
    "both directions: past in the lower half of the buckets, future in the upper",
    np.array([-3, -1, 0, 1, 3]), bidirectional=True, want=[3, 1, 0, 17, 19], axes="S",
)  # fmt: skip
buckets.case(
    "both directions: each side has only half of the buckets to spend",
    np.array([-128, -30, -8, 8, 30, 128]),
    bidirectional=True,
    want=[15, 11, 8, 24, 27, 31],
    axes="S",
)  # fmt: skip  8 + 8·ln(30/8)/ln 16 = 11.8


@buckets.check("other sizes, and a whole (T, S) grid")
def _(t5_bucket):
    for both in (False, True):
        for n, far in ((32, 128), (8, 20), (64, 256)):
            sizes = {"bidirectional": both, "n_buckets": n, "max_distance": far}
            named = ", ".join(f"{name}={value}" for name, value in sizes.items())
            clear = [r for r in range(-150, 151) if _bucket(r, **sizes) is not None]
            grid = np.array(clear[:280]).reshape(14, 20)
            want = np.array([_bucket(r, **sizes) for r in clear[:280]])
            got = t5_bucket(grid, **sizes)
            expect_shape(got, (14, 20), f"the buckets of a grid, with {named},", axes="T S")
            got = np.ravel(got)
            first = np.argmax(got != want)  # 0 where none is wrong
            what = f"the bucket of relative position {clear[first]}, with {named},"
            expect(got[first], want[first], what)


def _buckets(
    *, sign=1, future="zero", far="log", rounding=np.floor, last=True, halve=True, upper=1, zero="past"
):
    """T5's buckets with some of its details got wrong."""

    def bucket(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
        r = np.asarray(relative_positions) * sign
        first, n = 0, n_buckets
        if bidirectional:
            first = np.where((r * upper > 0) | ((r == 0) & (zero == "future")), n_buckets // 2, 0) * bool(
                upper
            )
            n = n_buckets // 2 if halve else n_buckets
        d = {"zero": np.maximum(-r, 0), "absolute": np.abs(r), "negative": -r}[future]
        if bidirectional:
            d = np.abs(r)
        exact = n // 2
        d_far = np.maximum(d, exact)
        scale = {
            "log": np.log(d_far / exact) / np.log(max_distance / exact) * (n - exact),
            "line": (d_far - exact) / (max_distance - exact) * (n - exact),
            "exact": d_far - exact,
        }[far]
        wide = exact + rounding(scale + 1e-12).astype(int)
        return first + np.where(d < exact, d, np.minimum(wide, n - 1) if last else wide)

    return bucket


buckets.mistake("absolute", _buckets(future="absolute"))
buckets.mistake("exact", _buckets(far="exact"))
buckets.mistake("evenly", _buckets(far="line"))
buckets.mistake("nearest", _buckets(rounding=np.round))
buckets.mistake("up", _buckets(rounding=lambda scale: np.ceil(scale - 1e-9)))
buckets.mistake("no last", _buckets(last=False))
buckets.mistake("swapped", _buckets(upper=-1))
buckets.mistake("sign", _buckets(sign=-1))
buckets.mistake(
    "sign",
    lambda r, *, bidirectional, **sizes: _buckets(sign=1 if bidirectional else -1)(
        r, bidirectional=bidirectional, **sizes
    ),
)
buckets.mistake("negative", _buckets(future="negative"))
buckets.mistake("shared", _buckets(upper=0))
buckets.mistake("distance 0", _buckets(zero="future"))
buckets.mistake("not halved", _buckets(halve=False))
buckets.mistake("both", lambda r, *, bidirectional, **sizes: _buckets()(r, bidirectional=True, **sizes))
buckets.mistake(
    "both", lambda r, *, bidirectional, **sizes: _buckets(sign=-1)(r, bidirectional=True, **sizes)
)
buckets.mistake("own sizes", lambda r, *, bidirectional, **_: _buckets()(r, bidirectional=bidirectional))


@buckets.mistake("own distance")
def _(r, *, bidirectional, n_buckets=32, max_distance=128):
    return _buckets()(r, bidirectional=bidirectional, n_buckets=n_buckets)


@buckets.mistake("half distance")
def _(r, *, bidirectional, n_buckets=32, max_distance=128):
    far = max_distance // 2 if bidirectional else max_distance
    return _buckets()(r, bidirectional=bidirectional, n_buckets=n_buckets, max_distance=far)


# 12 · Write the test


def sees_order(attention: Any, x: Float[np.ndarray, "T D"]) -> bool:
    """Returns whether a function (T, D) → (T, D) uses the order of its rows: shuffles before or after, and compares."""
    generator = np.random.default_rng(0)
    orders = [generator.permutation(len(x)) for _ in range(5)]
    return not all(np.allclose(attention(x[order]), attention(x)[order], atol=1e-8) for order in orders)


detector = exercise("positions.sees_order", sees_order)


def _judge(sees_order, attention, want, what, advice):
    """The answer for one function. A mistake is recognised by the inputs that it tries: True says too little."""
    tried = []

    def watched(x):
        given = as_numbers(x, "what you hand to `attention`")
        tried.append(np.array(given))
        outputs = attention(given)
        if is_tensor(x):
            remark(
                "You hand tensors to `attention`. The layers of this notebook take NumPy arrays and nothing else."
            )
            return x.new_tensor(outputs)
        return outputs

    got = sees_order(watched, numbers(24, 8))
    try:
        expect(got, want, f"for {what} the answer", advice=advice)
    except Wrong as wrong:
        if not wrong.advice:  # it answers neither yes nor no
            raise
        tried.sort(key=np.ndarray.tobytes)
        raise Wrong(wrong.message, advice=advice, what=what, got=(wrong.got, *tried)) from None


@detector.check("a function of each row alone does not see it")
def _(sees_order):
    advice = (
        "It moves its outputs with the words: shuffle the rows of x, and expect the outputs shuffled in the "
        "same way, attention(x)[order]."
    )
    _judge(sees_order, lambda x: np.maximum(x, 0), False, "np.maximum(x, 0)", advice)


@detector.check("unmasked attention without positions does not see it, nor does a mean")
def _(sees_order):
    advice = "Sums taken in another order differ in the last digits: compare with np.allclose."
    _judge(sees_order, lambda x: _attend(x)[0], False, "unmasked attention without positions", advice)
    _judge(sees_order, lambda x: x + x.mean(axis=0), False, "adding the mean of all rows to each", advice)


@detector.check("a causal mask sees it")
def _(sees_order):
    def causal(x):
        return _attend(x, mask=causal_mask(len(x)))[0]

    advice = "The first row may look at one key and the last at all of them: order is in the mask."
    _judge(sees_order, causal, True, "attention with a causal mask", advice)


@detector.check("positions are seen, whichever way they enter")
def _(sees_order):
    def sinusoids(x):
        return _attend(x + sinusoidal(np.arange(len(x)), x.shape[1]))[0]

    def rope(x):
        q, k = rotary(x @ numbers(8, 8, seed=1)), rotary(x @ numbers(8, 8, seed=2))
        return scaled_dot_product_attention(q, k, x)[0]

    def alibi(x):
        apart = np.abs(np.arange(len(x)) - np.arange(len(x))[:, None])
        return _attend(x, score_bias=-0.5 * apart)[0]

    advice = "Its outputs for shuffled rows are not its outputs shuffled."
    _judge(sees_order, sinusoids, True, "attention over x plus sinusoids", advice)
    _judge(sees_order, rope, True, "attention with RoPE", advice)
    _judge(sees_order, alibi, True, "attention with ALiBi, in both directions,", advice)


@detector.check("order that a careless shuffle misses is seen too")
def _(sees_order):
    advice = "Its outputs for shuffled rows are not its outputs shuffled: compare them row by row, in several orders."
    around = "adding to each row the one before it, round a circle,"
    _judge(sees_order, lambda x: x + np.roll(x, 1, axis=0), True, around, advice)
    _judge(sees_order, _two_exchanged, True, "exchanging rows 8 and 9", advice)
    end = "replacing the last row by the one before it"
    _judge(sees_order, lambda x: np.concatenate([x[:-1], x[-2:][:1]]), True, end, advice)


@detector.check("a little order is order: in one column, or hardly to be seen")
def _(sees_order):
    def one_column(x):
        return np.concatenate([x[:, :5], np.roll(x[:, 5:6], 1, axis=0), x[:, 6:]], axis=1)

    advice = "Its outputs for shuffled rows are not its outputs shuffled: compare all of their columns."
    _judge(sees_order, one_column, True, "moving one column down by a row, round a circle,", advice)
    faint = "adding to each row a thousandth of the one before it, round a circle,"
    advice = (
        "A weak effect is an effect: forgive rounding, which is a billion times smaller, and nothing else."
    )
    _judge(sees_order, lambda x: x + 0.001 * np.roll(x, 1, axis=0), True, faint, advice)


def _two_exchanged(x):
    seats = np.arange(len(x))
    middle = slice(8, 10)
    seats[middle] = seats[middle][::-1]
    return x[seats]


def _one_order(order):
    return lambda attention, x: (
        not np.allclose(attention(x[order(len(x))]), attention(x)[order(len(x))], atol=1e-8)
    )


detector.mistake("reversed", _one_order(lambda n: np.arange(n)[::-1]))
detector.mistake("shifted", _one_order(lambda n: np.roll(np.arange(n), 1)))
detector.mistake("shifted", _one_order(lambda n: np.roll(np.arange(n), -1)))
detector.mistake("two rows", _one_order(lambda n: np.r_[1, 0, 2:n]))
detector.mistake("two rows", _one_order(lambda n: np.r_[n - 1, 1 : n - 1, 0]))


# 13 · What a longer context costs


def context_cost(d_model: int, before: int, after: int) -> tuple[int, float]:
    """Returns what a change of context length adds to the table, and the factor by which a score matrix grows."""
    return (after - before) * d_model, (after / before) ** 2


cost = exercise(
    "positions.context_cost", context_cost, parts=("the extra parameters", "the ratio of score cells")
)

cost.case(
    "the parameters: one row of the table for each new position",
    4,
    64,
    1024,
    part="the extra parameters",
    want=3840,
)
cost.case("the score matrix: queries times keys", 4, 64, 1024, part="the ratio of score cells", want=256.0)
cost.case("other sizes", 768, 1024, 2048, want=(786_432, 4.0))
cost.also(3, 10, 15, want=(15, 2.25))
cost.also(8, 64, 8, want=(-448, 1 / 64))

cost.mistake("whole table", lambda D, old, new: (new * D, (new / old) ** 2))
cost.mistake("rows", lambda D, old, new: (new - old, (new / old) ** 2))
cost.mistake("no square", lambda D, old, new: ((new - old) * D, new / old))
cost.mistake("triangle", lambda D, old, new: ((new - old) * D, new * (new + 1) / (old * (old + 1))))
cost.mistake("difference", lambda D, old, new: ((new - old) * D, float(new**2 - old**2)))
cost.mistake("no fraction", lambda D, old, new: ((new - old) * D, float((new // old) ** 2)))
cost.mistake("no sign", lambda D, old, new: (abs(new - old) * D, (new / old) ** 2))
cost.mistake("no sign", lambda D, old, new: (max(0, new - old) * D, (new / old) ** 2))
cost.mistake("upside down", lambda D, old, new: ((new - old) * D, (old / new) ** 2))
cost.mistake("minus one", lambda D, old, new: ((new - old) * D, (new / old) ** 2 - 1))


# 14 · The gradient of the table


def table_gradient(dx: Float[np.ndarray, "B T D"], context_length: int) -> Float[np.ndarray, "N D"]:
    """The gradient of the position table, from that of its sum with the token vectors."""
    _, T, D = dx.shape
    gradient = np.zeros((context_length, D), dtype=dx.dtype)
    gradient[:T] = dx.sum(axis=0)
    return gradient


backward = exercise("positions.table_gradient", table_gradient, axes="N D")

backward.shape("the gradient has the table's shape", numbers(2, 3, 4), 6, want=(6, 4))
_dx = numbers(4, 3, 2)
backward.case(
    "each row collects from every sequence of the batch", _dx, 3, want=_dx[0] + _dx[1] + _dx[2] + _dx[3]
)
backward.also(_dx[:1], 3, want=_dx[0], advice="Each call begins with zeros of its own.")
_dx = numbers(2, 3, 2)
backward.case(
    "rows that no sequence reached get exactly zero", _dx, 5, want=[*(_dx[0] + _dx[1]), [0, 0], [0, 0]],
    advice="Begin with np.zeros: np.empty keeps whatever lay in memory.",
)  # fmt: skip


@backward.check("it predicts how the loss moves when the table does")
def _(table_gradient):
    tokens, dx = numbers(3, 4, 5), numbers(3, 4, 5, seed=1)
    before, step = numbers(7, 5), numbers(7, 5, seed=2)

    def loss(rows):  # linear in x, so that its gradient is dx everywhere
        return float((dx * (tokens + rows[:4])).sum())

    got = table_gradient(dx, 7)
    expect_shape(got, (7, 5), "table_gradient(dx, 7)", axes="N D")
    moved = float((np.asarray(got) * step).sum())
    expect(
        moved, loss(before + step) - loss(before), "the change of the loss after a step, by your gradient,"
    )


def _gradient(dx, context_length, rows):
    return np.concatenate([rows, np.zeros((context_length - len(rows), dx.shape[2]))])


backward.mistake("mean", lambda dx, N: _gradient(dx, N, dx.mean(axis=0)))
backward.mistake("first", lambda dx, N: _gradient(dx, N, dx[0]))
backward.mistake("last", lambda dx, N: _gradient(dx, N, dx[-1]))
backward.mistake("over positions", lambda dx, N: dx.sum(axis=1))


@backward.mistake("over positions")
def _(dx, N):
    gradient = np.zeros((N, dx.shape[2]))
    gradient[: dx.shape[1]] = dx.sum(axis=1)
    return gradient


backward.mistake("used rows", lambda dx, N: dx.sum(axis=0))
backward.mistake("at the end", lambda dx, N: _gradient(dx, N, dx.sum(axis=0)[::-1])[::-1])


# 15 · Where the table stands in the budget


def table_share(
    vocab_size: int, context_length: int, d_model: int, n_layers: int, *, attention_bias: bool
) -> tuple[int, int]:
    """The parameters of the position table and of the whole GPT, its head tied to the token embedding.

    A block has 12·D² weights (four projections, and a feed-forward network 4·D wide) and 9·D other
    parameters: two norms, and the feed-forward network's biases. Biases in its four projections make that
    13·D.
    """
    table = context_length * d_model
    block = 12 * d_model**2 + (13 if attention_bias else 9) * d_model
    return table, vocab_size * d_model + table + n_layers * block + 2 * d_model


_TABLE, _MODEL = "the parameters of the table", "the parameters of the model"
budget = exercise("positions.table_share", table_share, parts=(_TABLE, _MODEL))

budget.case(
    "the table: a row of d_model numbers for each position",
    4,
    64,
    4,
    2,
    attention_bias=False,
    part=_TABLE,
    want=256,
)
budget.also(50_257, 1024, 768, 12, attention_bias=True, part=_TABLE, want=786_432)
budget.case(
    "the toy with 64 positions: 736 parameters, more than a third of them positions",
    4, 64, 4, 2, attention_bias=False, part=_MODEL, want=736,
)  # fmt: skip
budget.also(4, 8, 4, 2, attention_bias=False, part=_MODEL, want=512)
budget.case(
    "GPT-2 small: 124,439,808", 50_257, 1024, 768, 12, attention_bias=True, part=_MODEL, want=124_439_808
)
# 24,000 + 1,152 + 3 · (6,912 + 13 · 24) + 48
budget.case("models that the page does not show", 1000, 48, 24, 3, attention_bias=True, want=(1152, 46_872))
budget.also(50_257, 1024, 1600, 48, attention_bias=True, part=_MODEL, want=1_557_611_200)  # GPT-2 XL
# 2,400 + 160 + 5 · (768 + 9 · 8) + 16
budget.also(300, 20, 8, 5, attention_bias=False, want=(160, 6_776))


@budget.mistake("each block")
def _(V, N, D, L, *, attention_bias):
    return N * D * L, table_share(V, N, D, L, attention_bias=attention_bias)[1]


@budget.mistake("pair")
def _(*sizes, attention_bias):
    return table_share(*sizes, attention_bias=attention_bias)[::-1]


def _off_by(off):
    """The right table, and a total that is off by so much."""

    def wrong(*sizes, attention_bias):
        table, total = table_share(*sizes, attention_bias=attention_bias)
        return table, total + off(*sizes, attention_bias)

    return wrong


budget.mistake("head", _off_by(lambda V, N, D, L, bias: V * D))
budget.mistake("last norm", _off_by(lambda V, N, D, L, bias: -2 * D))
budget.mistake("matrices", _off_by(lambda V, N, D, L, bias: -2 * D - L * (13 if bias else 9) * D))
budget.mistake("biases always", _off_by(lambda V, N, D, L, bias: 0 if bias else 4 * D * L))
budget.mistake("biases never", _off_by(lambda V, N, D, L, bias: -4 * D * L if bias else 0))
budget.mistake("three biases", _off_by(lambda V, N, D, L, bias: -D * L if bias else 0))
budget.mistake("one block", _off_by(lambda V, N, D, L, bias: -(L - 1) * (12 * D + (13 if bias else 9)) * D))
budget.mistake("wide bias", _off_by(lambda V, N, D, L, bias: 3 * D * L))
budget.mistake("no table", _off_by(lambda V, N, D, L, bias: -N * D))
budget.mistake("no tokens", _off_by(lambda V, N, D, L, bias: -V * D))
budget.mistake("one norm", _off_by(lambda V, N, D, L, bias: -2 * D * L))
budget.mistake("block norms", _off_by(lambda V, N, D, L, bias: -4 * D * L))
budget.mistake("half norms", _off_by(lambda V, N, D, L, bias: -D * (2 * L + 1)))
budget.mistake("no norms", _off_by(lambda V, N, D, L, bias: -D * (4 * L + 2)))
budget.mistake("feed-forward biases", _off_by(lambda V, N, D, L, bias: -5 * D * L))
budget.mistake("narrow bias", _off_by(lambda V, N, D, L, bias: -D * L))
