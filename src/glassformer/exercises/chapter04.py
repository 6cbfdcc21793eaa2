"""The exercises of chapter 04, "Putting order in".

Each begins with its reference, where the package has none; then what the learner is told; then its checks, in
teaching order. What is right comes from a hand-worked number, a closed form or an invariant wherever there is
one, and from the package where there is none. The axes: B batch, T positions asking, S positions answering, D
d_model, H heads, K d_head.
"""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from glassformer.scratch.attention import causal_mask, scaled_dot_product_attention
from glassformer.scratch.positions import (
    LearnedPositions,
    alibi_slopes,
    frequencies,
    rotate,
    rotation_angles,
    sinusoidal,
    t5_bucket,
)

from .exercise import Exercise
from .expect import Wrong, expect, expect_error, expect_parts, expect_shape

Learner = Callable[..., Any]

# Mistakes that more than one exercise can meet.
ONE_RATE = "All pairs turn at the same rate. Pair i has the frequency base**(-2i/D)."
NO_TWO = "The frequency of pair i is base**(-2i/D); the 2 is missing."
NEIGHBOURS = "You paired neighbours, 2i and 2i+1. Layout half pairs i with i + K/2."
OWN_BASE = "That is for base 10000: use the argument."


# 1 · What a shuffle does


def shuffled(
    outputs: Float[np.ndarray, "T D"], weights: Float[np.ndarray, "T T"], order: Integer[np.ndarray, " T"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "T T"]]:
    """What attention without positions gives for ``x[order]``, from what it gave for x."""
    return outputs[order], weights[order][:, order]


equivariance = Exercise(
    name="positions.equivariance",
    chapter=4,
    title="What a shuffle does",
    source="the proof behind section 3.5 of Vaswani et al. (2017)",
    difficulty=2,
    minutes=15,
    hints=(
        "Row i of x[order] is row order[i] of x. Which old query is new query i? Which old key is new key j?",
        "The new score between i and j is the old score between order[i] and order[j]. Softmax works along "
        "a row, and a sum does not care in which order its terms come.",
        "outputs[order] moves the rows. The weights have two axes that know about words, so both must move: "
        "rows, then columns.",
    ),
    reference=shuffled,
    why=(
        "P(softmax(S))Pᵀ·PV = P(softmax(S)V): the P in the middle cancels, the one in front stays. That is "
        "equivariance."
    ),
)


@equivariance.check("the outputs move with their words")
def _(shuffled: Learner) -> None:
    outputs, weights, order = _numbers(4, 3), _numbers(4, 4), np.array([2, 0, 3, 1])
    got, _ = expect_parts(shuffled(outputs, weights, order), ("outputs", "weights"))
    expect(
        got,
        outputs[order],
        "outputs",
        (
            outputs,
            "They stayed where they were. That would be invariance; attention is equivariant: the rows "
            "move with the words.",
        ),
        (
            outputs[np.argsort(order)],
            "That undoes the order instead of applying it: row i of x[order] is row order[i] of x.",
        ),
        axes="T D",
    )


@equivariance.check("the weights move along both axes")
def _(shuffled: Learner) -> None:
    outputs, weights, order = _numbers(4, 3), _numbers(4, 4), np.array([2, 0, 3, 1])
    _, got = expect_parts(shuffled(outputs, weights, order), ("outputs", "weights"))
    expect(
        got,
        weights[order][:, order],
        "weights",
        (weights, "They stayed where they were."),
        (weights[order], "You moved the rows (who asks) but not the columns (who answers)."),
        (weights[:, order], "You moved the columns (who answers) but not the rows (who asks)."),
        axes="T S",
    )


@equivariance.check("it is what attention gives when it really runs on the shuffled words")
def _(shuffled: Learner) -> None:
    x, order = _numbers(6, 4), np.array([5, 2, 0, 1, 3, 4])
    want_outputs, want_weights = _attend(x[order])
    outputs, weights = expect_parts(shuffled(*_attend(x), order), ("outputs", "weights"))
    expect(outputs, want_outputs, "outputs for six random words", axes="T D")
    expect(weights, want_weights, "weights for six random words", axes="T S")


# 2 · A step of k is a matrix


def shift_matrix(k: Real, d_model: int, base: float = 10_000.0) -> Float[np.ndarray, "{d_model} {d_model}"]:
    """The matrix R with ``R @ PE(p) = PE(p + k)`` for every position p: a rotation for each pair."""
    R = np.zeros((d_model, d_model))
    for i, angle in enumerate(k * frequencies(d_model, base=base)):
        pair = slice(2 * i, 2 * i + 2)
        R[pair, pair] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return R


shift = Exercise(
    name="positions.shift_matrix",
    chapter=4,
    title="A step of k is a matrix",
    source="Vaswani et al. (2017), section 3.5: the reason they give for choosing sinusoids",
    difficulty=3,
    minutes=20,
    hints=(
        "Take one pair of dimensions: sin(pθ) and cos(pθ). You want sin((p+k)θ) and cos((p+k)θ). Which "
        "school formula splits a sum inside a sine?",
        "sin((p+k)θ) = cos(kθ)·sin(pθ) + sin(kθ)·cos(pθ), and cos((p+k)θ) = −sin(kθ)·sin(pθ) + "
        "cos(kθ)·cos(pθ). Read the 2 × 2 matrix off: p is not in it.",
        "Put [[cos kθ, sin kθ], [−sin kθ, cos kθ]] on the diagonal for each pair, at rows and columns 2i "
        "and 2i+1, with θ = base**(-2i/D). Everything else is zero.",
    ),
    reference=shift_matrix,
    built_on=(frequencies,),
    why="The addition formulas are linear in (sin pθ, cos pθ), with coefficients that hold k but not p.",
)


@shift.check("the matrix is (D, D), and a step of 0 changes nothing")
def _(shift_matrix: Learner) -> None:
    got = shift_matrix(0, 6)
    expect_shape(got, (6, 6), "shift_matrix(0, 6)", axes="D D")
    expect(got, np.eye(6), "shift_matrix(0, 6), which should be the identity,", axes="D D")


@shift.check("a step forward from position 0, with one pair")
def _(shift_matrix: Learner) -> None:
    s, c = math.sin(1), math.cos(1)
    expect(
        shift_matrix(1, 2),
        [[c, s], [-s, c]],
        "shift_matrix(1, 2)",
        (
            [[c, -s], [s, c]],
            "That steps backward: it takes PE(p) to PE(p − 1). Look at the signs of the two sines.",
        ),
        axes="D D",
    )


@shift.check("every pair turns at its own frequency")
def _(shift_matrix: Learner) -> None:
    want = _shift(3, frequencies(6))
    expect(
        shift_matrix(3, 6),
        want,
        "shift_matrix(3, 6)",
        (_shift(3, [1, 1, 1]), ONE_RATE),
        (
            want[np.ix_([0, 2, 4, 1, 3, 5], [0, 2, 4, 1, 3, 5])],
            "You paired dimension i with i + D/2. In the sinusoidal table sine and cosine are "
            "neighbours: 2i and 2i+1.",
        ),
        (_shift(3, frequencies(6) ** 0.5), NO_TWO),
        axes="D D",
    )


@shift.check("R(k) · PE(p) = PE(p + k), for steps back and for half steps too")
def _(shift_matrix: Learner) -> None:
    positions = np.arange(20)
    for k in (7, -4, 0.5):
        R = shift_matrix(k, 8)
        expect_shape(R, (8, 8), f"shift_matrix({k}, 8)", axes="D D")
        expect(
            sinusoidal(positions, 8) @ R.T,
            sinusoidal(positions + k, 8),
            f"R({k}) · PE(p) for p = 0 … 19",
            axes="T D",
        )


@shift.check("another base")
def _(shift_matrix: Learner) -> None:
    expect(
        shift_matrix(2, 4, base=100.0),
        _shift(2, [1, 0.1]),
        "shift_matrix(2, 4, base=100.0)",
        (_shift(2, [1, 0.01]), OWN_BASE),
        axes="D D",
    )


# 3 · Only the distance is left


def rope_score(
    q: Float[np.ndarray, " K"], k: Float[np.ndarray, " K"], distance: Real, base: float = 10_000.0
) -> float:
    """The dot product of q rotated to position m and k rotated to n, from m − n alone. Layout half."""
    half = len(q) // 2
    angles = distance * frequencies(len(q), base=base)
    along = q[:half] * k[:half] + q[half:] * k[half:]
    across = q[:half] * k[half:] - q[half:] * k[:half]
    return float(along @ np.cos(angles) + across @ np.sin(angles))


rope = Exercise(
    name="positions.rope_score",
    chapter=4,
    title="Only the distance is left",
    source="Su et al. (2021), section 3.2: the equation that RoPE was designed to satisfy",
    difficulty=3,
    minutes=25,
    hints=(
        "Start in two dimensions. R(a) rotates by angle a, and a dot product is (R(mθ)q)ᵀ(R(nθ)k). What is "
        "R(a)ᵀR(b)?",
        "R(mθ)ᵀR(nθ) = R((n−m)θ). So the score of one pair is qᵀR(−dθ)k with d = m − n. Multiply it out for "
        "q = (q₁, q₂) and k = (k₁, k₂).",
        "One pair gives (q₁k₁ + q₂k₂)·cos(dθ) + (q₁k₂ − q₂k₁)·sin(dθ). In layout half the pair is (i, i + "
        "K/2), and its frequency is base**(-2i/K). Add up the pairs.",
    ),
    reference=rope_score,
    built_on=(frequencies,),
    why="Rᵀ(m)R(n) = R(n − m): both positions are gone, and only their distance is left.",
)


@rope.check("at distance 0 it is the plain dot product")
def _(rope_score: Learner) -> None:
    q, k = _numbers(6), _numbers(6, seed=1)
    expect(rope_score(q, k, 0), float(q @ k), "rope_score at distance 0")


@rope.check("two equal vectors, turned apart by d radians, score cos d")
def _(rope_score: Learner) -> None:
    east = np.array([1.0, 0.0])
    expect(
        rope_score(east, east, 2),
        math.cos(2),
        "rope_score([1, 0], [1, 0], 2), which should be cos 2,",
        (1.0, "The distance has no effect on it yet."),
    )


@rope.check("the sign: distance is m − n, query minus key")
def _(rope_score: Learner) -> None:
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    expect(
        rope_score(east, north, 1),
        math.sin(1),
        "rope_score([1, 0], [0, 1], 1), which should be sin 1,",
        (-math.sin(1), "Your distance runs the other way, n − m."),
        (0.0, "The part across is missing: turning q brings it closer to a k at its side."),
    )


@rope.check("it equals rotating both vectors, wherever they are")
def _(rope_score: Learner) -> None:
    q, k = _numbers(6), _numbers(6, seed=1)
    for m, n in ((9, 4), (2, 11), (105, 100)):
        angles = rotation_angles(np.array([m, n]), 6)
        turned_q, turned_k = rotate(np.stack([q, k]), angles)
        neighbours_q, neighbours_k = rotate(np.stack([q, k]), angles, layout="interleaved")
        single = np.repeat(angles[:, :1], 3, axis=1)
        same_q, same_k = rotate(np.stack([q, k]), single)
        expect(
            rope_score(q, k, m - n),
            float(turned_q @ turned_k),
            f"the score of q at {m} and k at {n}",
            (neighbours_q @ neighbours_k, NEIGHBOURS),
            (same_q @ same_k, ONE_RATE),
        )


@rope.check("another base")
def _(rope_score: Learner) -> None:
    q = np.array([0.0, 1.0, 0.0, 0.0])  # only the second pair, whose frequency is 1/√base
    expect(
        rope_score(q, q, 5, base=100.0),
        math.cos(0.5),
        "rope_score([0, 1, 0, 0], [0, 1, 0, 0], 5, base=100.0), which should be cos(5/10),",
        (math.cos(0.05), OWN_BASE),
    )


# 4 · Sinusoids from a blank cell

sinusoids = Exercise(
    name="positions.sinusoidal",
    chapter=4,
    title="Sinusoids from a blank cell",
    source="Vaswani et al. (2017), section 3.5",
    difficulty=2,
    minutes=15,
    hints=(
        "Make the (T, D/2) table of angles first: every position times every frequency. `positions[:, "
        "None]` turns the positions into a column.",
        "The frequencies are base ** (-np.arange(0, d_model, 2) / d_model). Each serves two neighbouring "
        "dimensions.",
        "Make np.empty((T, D)); its columns 0::2 are np.sin(angles), its columns 1::2 are np.cos(angles).",
    ),
    reference=sinusoidal,
    why="Each pair of dimensions is the hand of a clock, and each clock runs slower than the one before.",
)


@sinusoids.check("one row for each position, one column for each dimension")
def _(sinusoidal: Learner) -> None:
    got = sinusoidal(np.arange(5), 8)
    expect_shape(got, (5, 8), "sinusoidal(positions, 8) for 5 positions", axes="T D")


@sinusoids.check("position 0: sin 0 = 0 and cos 0 = 1, alternating")
def _(sinusoidal: Learner) -> None:
    got = np.asarray(sinusoidal(np.arange(5), 8))
    expect(
        got[0],
        [0.0, 1.0] * 4,
        "row 0",
        ([1.0, 0.0] * 4, "Even dimensions are sines and odd ones cosines; yours are the other way round."),
        ([0.0] * 4 + [1.0] * 4, "Sines and cosines alternate; yours stand in two blocks."),
    )


@sinusoids.check("the two dimensions of a pair share a frequency")
def _(sinusoidal: Learner) -> None:
    got = np.asarray(sinusoidal(np.arange(5), 8))
    expect_shape(got, (5, 8), "sinusoidal(positions, 8)", axes="T D")
    own = np.arange(5)[:, None] * 10_000.0 ** (
        -np.arange(8) / 8
    )  # angles, were each dimension to have its own
    expect(
        got[:, 0::2] ** 2 + got[:, 1::2] ** 2,
        np.ones((5, 4)),
        "sin² + cos² of each pair",
        (
            np.sin(own[:, 0::2]) ** 2 + np.cos(own[:, 1::2]) ** 2,
            "Each of your dimensions has a frequency of its own; the two of a pair share one.",
        ),
        axes="T pair",
    )


@sinusoids.check("with two dimensions, position p is (sin p, cos p)")
def _(sinusoidal: Learner) -> None:
    want = [[math.sin(p), math.cos(p)] for p in range(4)]
    degrees = np.deg2rad(np.arange(4.0))
    expect(
        sinusoidal(np.arange(4), 2),
        want,
        "sinusoidal(positions, 2)",
        (
            np.stack([np.sin(degrees), np.cos(degrees)], axis=-1),
            "np.sin takes radians, and so does the formula.",
        ),
        axes="T D",
    )


@sinusoids.check("the frequencies fall from 1 by the same factor, pair after pair")
def _(sinusoidal: Learner) -> None:
    want = [math.sin(1), math.cos(1), math.sin(0.1), math.cos(0.1), math.sin(0.01), math.cos(0.01)]
    want += [math.sin(0.001), math.cos(0.001)]
    pair = np.arange(4)
    expect(
        np.asarray(sinusoidal(np.arange(2), 8))[1],
        want,
        "row 1, whose angles should be 1, 0.1, 0.01 and 0.001,",
        (_row(10.0**pair), "You multiply by the wavelength where you should divide: the exponent is −2i/D."),
        (_row(10.0 ** (-pair / 2)), NO_TWO),
        (
            _row(10_000.0 ** (-pair / 3)),
            "Your slowest pair turns at 1/base. The exponent is 2i/D, and stops one step short of 1.",
        ),
        (_row(pair * 0.0 + 1), ONE_RATE),
    )


@sinusoids.check("another base")
def _(sinusoidal: Learner) -> None:
    expect(
        np.asarray(sinusoidal(np.arange(2), 4, base=100.0))[1],
        _row([1, 0.1]),
        "row 1 of sinusoidal(positions, 4, base=100.0)",
        (_row([1, 0.01]), OWN_BASE),
    )


@sinusoids.check("the positions are the ones you were given")
def _(sinusoidal: Learner) -> None:
    given = np.array([7, 3])
    want = [[math.sin(7), math.cos(7)], [math.sin(3), math.cos(3)]]
    counted = [[math.sin(0), math.cos(0)], [math.sin(1), math.cos(1)]]
    expect(
        sinusoidal(given, 2),
        want,
        "sinusoidal([7, 3], 2)",
        (counted, "You counted 0, 1, 2 … instead of reading `positions`."),
        axes="T D",
    )


@sinusoids.check("an odd d_model leaves one sine without its cosine: ValueError")
def _(sinusoidal: Learner) -> None:
    expect_error(lambda: sinusoidal(np.arange(3), 5), ValueError, "d_model=5")


# 5 · Fast clocks and slow clocks


def wavelengths(d_model: int, base: float = 10_000.0) -> Float[np.ndarray, " {d_model}//2"]:
    """How many positions each pair of the sinusoidal table needs for one full turn."""
    return 2 * math.pi / frequencies(d_model, base=base)


clocks = Exercise(
    name="positions.wavelengths",
    chapter=4,
    title="Fast clocks and slow clocks",
    source="Vaswani et al. (2017), section 3.5: “from 2π to 10000 · 2π”, looked at closely",
    difficulty=1,
    minutes=5,
    hints=(
        "A pair turns by its frequency, in radians, at every position. How far is a full turn?",
        "Frequency times wavelength is 2π. The frequency of pair i is base**(-2i/D).",
        "2π · base ** (np.arange(0, d_model, 2) / d_model): note the plus sign.",
    ),
    reference=wavelengths,
    built_on=(frequencies,),
    why=(
        "Frequency times wavelength is one full turn, 2π radians. The longest wavelength stays short of "
        "2π·base."
    ),
)


@clocks.check("one wavelength for each pair of dimensions")
def _(wavelengths: Learner) -> None:
    expect_shape(wavelengths(8), (4,), "wavelengths(8)", axes="D/2")


@clocks.check("the first pair, which turns by 1 radian at every position")
def _(wavelengths: Learner) -> None:
    expect(
        np.asarray(wavelengths(8))[0],
        2 * math.pi,
        "the first wavelength, which should be 2π,",
        (1.0, "1 radian a position is a frequency: a full turn is 2π radians."),
    )


@clocks.check("each pair is slower than the one before")
def _(wavelengths: Learner) -> None:
    right = 2 * math.pi * 10.0 ** np.arange(4)
    expect(
        wavelengths(8),
        right,
        "wavelengths(8)",
        (2 * math.pi * 10.0 ** -np.arange(4), "Yours become shorter. Frequencies fall, so wavelengths grow."),
        (2 * math.pi * 10.0 ** (np.arange(4) / 2), "The 2 is missing in 2i/D."),
    )


@clocks.check("after one wavelength, each pair of the table is back where it was")
def _(wavelengths: Learner) -> None:
    turns = np.asarray(wavelengths(6, base=500.0))
    expect_shape(turns, (3,), "wavelengths(6, base=500.0)", axes="D/2")
    for pair, turn in enumerate(turns):
        here, there = sinusoidal(np.array([3.0, 3.0 + turn]), 6, base=500.0)[:, 2 * pair : 2 * pair + 2]
        expect(there, here, f"pair {pair} one wavelength further on, with base 500,")


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


table = Exercise(
    name="positions.learned",
    chapter=4,
    title="A table of positions",
    source="Gehring et al. (2017), then BERT and GPT-2: a learned vector for each position",
    difficulty=1,
    minutes=10,
    hints=(
        "The first T rows of the table belong to the T rows of x. Slicing a table never complains: what does "
        "`table[:8]` give when the table has 5 rows?",
        "T is x.shape[-2], whether or not there is a batch axis in front. Compare it with len(table) before "
        "you add.",
        "if T > len(table): raise ValueError(…) with both numbers in the message; then return x + table[:T].",
    ),
    reference=add_learned,
    built_on=(LearnedPositions,),
    why=(
        "Broadcasting adds the same T rows to every sequence of a batch; past the last row there is nothing "
        "to add."
    ),
)


@table.check("row t of the table is added to row t of x")
def _(add_learned: Learner) -> None:
    x, rows = _numbers(3, 4), _numbers(5, 4, seed=1)
    expect(
        add_learned(x, rows),
        x + rows[:3],
        "x plus the table",
        (x + rows[-3:], "You added the table's last rows; position 0 is its first."),
        (x + rows[0], "You added row 0 everywhere."),
        (rows[:3], "That is the table alone; the words are gone. Add the two."),
        axes="T D",
    )


@table.check("a batch: every sequence gets the same rows")
def _(add_learned: Learner) -> None:
    x, rows = _numbers(4, 3, 2), _numbers(5, 2, seed=1)
    by_sequence = np.stack([x[b] + rows[b] for b in range(4)])
    expect(
        add_learned(x, rows),
        x + rows[:3],
        "x plus the table, for a batch",
        (by_sequence, "You took a row for each sequence of the batch: T is x.shape[-2]."),
        axes="B T D",
    )


@table.check("a sequence as long as the table still fits")
def _(add_learned: Learner) -> None:
    x, rows = _numbers(5, 2), _numbers(5, 2, seed=1)
    expect(add_learned(x, rows), x + rows, "x plus the table, both of 5 rows,", axes="T D")


@table.check("one position more than the table has: ValueError")
def _(add_learned: Learner) -> None:
    x, rows = _numbers(6, 2), _numbers(5, 2, seed=1)

    def call() -> Any:
        got = add_learned(x, rows)
        if np.shape(got) == (6, 2):
            last = np.asarray(got)[5] - x[5]
            if np.allclose(last, rows[0]):
                raise Wrong("position 5 of a 5-row table silently started again at row 0. Raise ValueError.")
            if np.allclose(last, rows[4]):
                raise Wrong("position 5 of a 5-row table silently used row 4 again. Raise ValueError.")
        return got

    expect_error(call, ValueError, "6 positions and a table of 5 rows")


@table.check("a table of one row is not stretched, and the message names both lengths")
def _(add_learned: Learner) -> None:
    what = "3 positions and a table of 1 row (which NumPy would stretch to fit)"
    error = expect_error(lambda: add_learned(_numbers(3, 2), _numbers(1, 2)), ValueError, what)
    if not ("3" in str(error) and "1" in str(error)):
        raise Wrong(
            f"the message should name both lengths, 3 and 1, for whoever reads it: {str(error)[:100]!r}"
        )


# 7 · Rotate


def rotary(x: Float[np.ndarray, "*B T K"], base: float = 10_000.0) -> Float[np.ndarray, "*B T K"]:
    """RoPE in layout half: each pair (i, i + K/2) of row t turned by ``t * base**(-2i/K)`` radians."""
    T, K = x.shape[-2:]
    return rotate(x, rotation_angles(np.arange(T), K, base=base))


turn = Exercise(
    name="positions.rotary",
    chapter=4,
    title="Rotate",
    source="Su et al. (2021), section 3.4, equation 34; the layout is LLaMA's",
    difficulty=2,
    minutes=20,
    hints=(
        "Split x into its two halves, a = x[..., :K/2] and b = x[..., K/2:]. Entry i of a and entry i of b "
        "are the two coordinates of pair i.",
        "Turning (a, b) by an angle gives (a·cos − b·sin, a·sin + b·cos). The angles have shape (T, K/2): "
        "position times frequency.",
        "angles = np.arange(T)[:, None] * base ** (-np.arange(0, K, 2) / K), then join the two new halves "
        "with np.concatenate(…, axis=-1). T is x.shape[-2].",
    ),
    reference=rotary,
    built_on=(rotation_angles, rotate),
    why=(
        "A rotation keeps lengths, and the angle between two rotated vectors depends only on how far apart "
        "they stand."
    ),
)


@turn.check("the shape stays, and position 0 is not turned")
def _(rotary: Learner) -> None:
    x = _numbers(4, 6)
    got = rotary(x)
    expect_shape(got, (4, 6), "rotary(x)", axes="T K")
    started_at_1 = rotate(x, rotation_angles(np.arange(1, 5), 6))[0]
    expect(
        np.asarray(got)[0],
        x[0],
        "row 0, which should be as it was,",
        (started_at_1, "You count positions from 1; they start at 0."),
    )


@turn.check("with one pair, position p turns (1, 0) to (cos p, sin p)")
def _(rotary: Learner) -> None:
    angles = np.arange(4)
    expect(
        rotary(np.array([[1.0, 0.0]] * 4)),
        np.stack([np.cos(angles), np.sin(angles)], axis=-1),
        "four rows (1, 0), rotated,",
        (
            np.stack([np.cos(angles), -np.sin(angles)], axis=-1),
            "You turn the other way: the first coordinate is a·cos − b·sin, the second a·sin + b·cos.",
        ),
        (
            np.stack([np.cos(angles), 0 * angles], axis=-1),
            "Only the cosines are there; the part that turns into the other coordinate is missing.",
        ),
        axes="T K",
    )


@turn.check("a rotation keeps every row's length")
def _(rotary: Learner) -> None:
    x = _numbers(5, 8)
    got = rotary(x)
    expect_shape(got, (5, 8), "rotary(x)", axes="T K")
    expect(np.linalg.norm(got, axis=-1), np.linalg.norm(x, axis=-1), "the length of each row")


@turn.check("dimension i is paired with i + K/2, each pair with its own frequency")
def _(rotary: Learner) -> None:
    x = _numbers(5, 6)
    angles = rotation_angles(np.arange(5), 6)
    expect(
        rotary(x),
        rotate(x, angles),
        "rotary(x)",
        (rotate(x, angles, layout="interleaved"), NEIGHBOURS),
        (rotate(x, np.repeat(angles[:, :1], 3, axis=1)), ONE_RATE),
        (rotate(x, np.arange(5)[:, None] * frequencies(6) ** 0.5), NO_TWO),
        axes="T K",
    )


@turn.check("heads and batches in front; positions run along the second axis from the end")
def _(rotary: Learner) -> None:
    x = _numbers(3, 3, 4)
    angles = rotation_angles(np.arange(3), 4)
    expect(
        rotary(x),
        rotate(x, angles),
        "rotary of three heads",
        (
            rotate(x.swapaxes(0, 1), angles).swapaxes(0, 1),
            "You counted heads instead of positions: T is x.shape[-2].",
        ),
        axes="H T K",
    )


@turn.check("another base")
def _(rotary: Learner) -> None:
    x = np.array([[0.0, 1.0, 0.0, 0.0]] * 2)  # only the second pair, whose frequency is 1/√base
    expect(
        np.asarray(rotary(x, base=100.0))[1],
        [0.0, math.cos(0.1), 0.0, math.sin(0.1)],
        "row 1 for base 100",
        ([0.0, math.cos(0.01), 0.0, math.sin(0.01)], OWN_BASE),
    )


# 8 · Change a checkpoint's layout


def interleaved_to_half(W: Float[np.ndarray, "D D"], n_heads: int) -> Float[np.ndarray, "D D"]:
    """Reorders the columns of W_q or W_k, head by head: even ones first, then odd ones."""
    heads = W.reshape(len(W), n_heads, -1)  # (D, H, K)
    return np.concatenate([heads[..., 0::2], heads[..., 1::2]], axis=-1).reshape(W.shape)


layout = Exercise(
    name="positions.layout",
    chapter=4,
    title="Change a checkpoint's layout",
    source="what every converter of LLaMA checkpoints does, and what fails in silence when it is forgotten",
    difficulty=3,
    minutes=20,
    hints=(
        "Column c of W makes dimension c of the query. Write down, for one head with K = 6, which "
        "dimensions are partners in each layout.",
        "Interleaved partners are (0,1), (2,3), (4,5). Half partners are (0,3), (1,4), (2,5). So the new "
        "columns 0, 1, 2 are the old 0, 2, 4. And the rest?",
        "For one head the new order is 0, 2, 4, …, 1, 3, 5, …. Reshape W to (D, H, K), so that each head "
        "does this among its own K columns, then shape it back.",
    ),
    reference=interleaved_to_half,
    why=(
        "A pair's first members go to the first half and its second members to the second: same numbers, "
        "other seats."
    ),
)


@layout.check("the columns change seats; no number changes")
def _(interleaved_to_half: Learner) -> None:
    W = _numbers(6, 6)
    got = interleaved_to_half(W, 1)
    expect_shape(got, (6, 6), "interleaved_to_half(W, 1)", axes="D D")
    if np.array_equal(np.sort(got, axis=0), np.sort(W, axis=0)) and not np.array_equal(got, W):
        raise Wrong(
            "you reordered the rows (the inputs). With x @ W, each column makes one dimension of the query."
        )
    expect(
        np.sort(got, axis=1),
        np.sort(W, axis=1),
        "each row of W, sorted, which should not change,",
        axes="D D",
    )


@layout.check("one head of six dimensions")
def _(interleaved_to_half: Learner) -> None:
    columns = np.arange(6.0) * np.ones((6, 1))
    order = [0, 2, 4, 1, 3, 5]
    expect(
        np.asarray(interleaved_to_half(columns, 1))[0],
        np.array(order, dtype=float),
        "the old columns in their new order",
        (columns[0], "Nothing moved."),
        (np.argsort(order), "That is the way back, from half to interleaved."),
    )


@layout.check("every head keeps to its own columns")
def _(interleaved_to_half: Learner) -> None:
    columns = np.arange(8.0) * np.ones((8, 1))
    expect(
        np.asarray(interleaved_to_half(columns, 2))[0],
        [0.0, 2, 1, 3, 4, 6, 5, 7],
        "the old columns of two heads in their new order",
        ([0.0, 2, 4, 6, 1, 3, 5, 7], "You mixed the heads. Each has K = D/H columns of its own."),
    )


@layout.check("the scores are the same under the other layout")
def _(interleaved_to_half: Learner) -> None:
    T, D, H = 5, 12, 2
    x, W_q, W_k = _numbers(T, D), _numbers(D, D, seed=1), _numbers(D, D, seed=2)

    def scores(W_q: np.ndarray, W_k: np.ndarray, layout: str) -> np.ndarray:
        angles = rotation_angles(np.arange(T), D // H)
        q, k = (
            rotate((x @ W).reshape(T, H, D // H).swapaxes(0, 1), angles, layout=layout) for W in (W_q, W_k)
        )
        return q @ k.swapaxes(-1, -2)

    new_q, new_k = interleaved_to_half(W_q, H), interleaved_to_half(W_k, H)
    for W in (new_q, new_k):
        expect_shape(W, (D, D), "interleaved_to_half(W, 2)", axes="D D")
    expect(
        scores(new_q, new_k, "half"),
        scores(W_q, W_k, "interleaved"),
        "the scores of your weights under layout half",
        axes="H T S",
    )


# 9 · A slope for every head

slopes = Exercise(
    name="positions.alibi_slopes",
    chapter=4,
    title="A slope for every head",
    source="Press et al. (2022), section 3, and the rule in their code for other head counts",
    difficulty=2,
    minutes=15,
    hints=(
        "For 8 heads the slopes are 1/2, 1/4, …, 1/256. What is the common factor, and where does the "
        "sequence start?",
        "With n heads, n a power of two, head i (from 1) has 2**(-8·i/n). For another count, begin with the "
        "largest power of two below it.",
        "The heads left over take slopes from the list for 2n heads: its first, third, fifth, … In numbers: "
        "2**(-8·(j − ½)/n) for j = 1, 2, ….",
    ),
    reference=alibi_slopes,
    why=(
        "Geometric slopes give some heads a short sight and some a long one; the extra heads fall between "
        "those."
    ),
)


@slopes.check("eight heads: 1/2, 1/4, … 1/256")
def _(alibi_slopes: Learner) -> None:
    expect(
        alibi_slopes(8),
        [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256],
        "alibi_slopes(8)",
        (0.5 ** np.arange(8), "Yours starts at 1: the first slope is already one factor down."),
        (
            np.exp(-np.arange(1, 9)),
            "Those are the exponents' logarithm in base e: the slopes are powers of 2.",
        ),
    )


@slopes.check("other powers of two end at 1/256 as well")
def _(alibi_slopes: Learner) -> None:
    expect(
        alibi_slopes(4),
        [1 / 4, 1 / 16, 1 / 64, 1 / 256],
        "alibi_slopes(4)",
        (
            [1 / 2, 1 / 4, 1 / 8, 1 / 16],
            "The factor is 2**(-8/H), not always 1/2: four heads cover the same range as eight.",
        ),
    )
    expect(alibi_slopes(1), [1 / 256], "alibi_slopes(1)")


@slopes.check("three heads: two, and one between")
def _(alibi_slopes: Learner) -> None:
    expect(
        alibi_slopes(3),
        [1 / 16, 1 / 256, 1 / 4],
        "alibi_slopes(3)",
        (
            2.0 ** (-8 * np.arange(1, 4) / 3),
            "The rule for powers of two does not carry over: begin with the slopes of 2 heads, then add "
            "from those of 4.",
        ),
        (
            [1 / 4, 1 / 16, 1 / 256],
            "Right slopes, other order: the first power of two comes first, the extra heads after it.",
        ),
        (
            [1 / 4, 1 / 16, 1 / 64],
            "Those are the first three of four heads. Begin with the slopes of 2 heads instead.",
        ),
        (
            [1 / 16, 1 / 256, 1 / 16],
            "The extra head takes the first slope of the doubled list, not the second.",
        ),
    )


@slopes.check("any number of heads")
def _(alibi_slopes: Learner) -> None:
    twelve = [2.0**-i for i in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]
    expect(alibi_slopes(12), twelve, "alibi_slopes(12)", axes="H")
    for heads in (2, 5, 7, 16, 25, 71):
        expect(alibi_slopes(heads), _slopes(heads), f"alibi_slopes({heads})", axes="H")


# 10 · How far can a head see?


def alibi_window(slope: float) -> int:
    """The first whole distance at which a key gets less than 1 % of an equal, undiscounted key's weight."""
    return math.floor(math.log(100) / slope) + 1


window = Exercise(
    name="positions.alibi_window",
    chapter=4,
    title="How far can a head see?",
    source="our own; it makes a number of what Press et al. (2022) draw",
    difficulty=2,
    minutes=10,
    hints=(
        "Two keys of equal content have the same score before the penalty. After it, what is the ratio of "
        "their weights? The softmax's denominator cancels.",
        "The ratio is exp(−slope · distance). You want the first whole distance for which that is below "
        "0.01.",
        "exp(−m·d) < 0.01 means d > ln(100)/m. The first whole number above a number is floor + 1.",
    ),
    reference=alibi_window,
    why="A ratio of softmax weights is exp of the difference of scores, here exp(−slope · distance).",
)


@window.check("slope 1, worked by hand")
def _(alibi_window: Learner) -> None:
    expect(
        alibi_window(1.0),
        5,
        "alibi_window(1.0)",
        (4, "At distance 4 the weight is still e⁻⁴ = 1.8 %."),
        (6, "At distance 5 it is already e⁻⁵ = 0.7 %; yours goes one too far."),
        (7, "Softmax raises e, not 2, to the score."),
        (3, "Softmax raises e, not 10, to the score."),
        (
            1,
            "The penalty is taken off the score, and softmax comes after: the weight does not fall in a "
            "straight line.",
        ),
    )


@window.check("the steepest and the flattest of eight heads")
def _(alibi_window: Learner) -> None:
    expect(alibi_window(1 / 2), 10, "alibi_window(1/2)")
    expect(alibi_window(1 / 256), 1179, "alibi_window(1/256)")


@window.check("it is the first distance below 1 %, for any slope")
def _(alibi_window: Learner) -> None:
    for slope in (2.0**-0.5, 0.3, 2.0**-3.5, 3.0, 5.0):
        want = next(d for d in range(1, 1000) if math.exp(-slope * d) < 0.01)
        expect(alibi_window(slope), want, f"alibi_window({slope:.4g})")


# 11 · Near is exact, far is vague

buckets = Exercise(
    name="positions.t5_bucket",
    chapter=4,
    title="Near is exact, far is vague",
    source="Raffel et al. (2020), section 2.1, and the released code, which holds the details",
    difficulty=3,
    minutes=30,
    hints=(
        "Do the causal case first. The distance into the past is max(−relative, 0). Half of the buckets are "
        "exact: bucket = distance while distance < n/2.",
        "Beyond that, how far along the logarithmic scale is it? log(distance / exact) / log(max_distance / "
        "exact) runs from 0 to 1. Spread the other half of the buckets over it, round down, and stop at "
        "the last bucket.",
        "Bidirectional: halve n_buckets first, take the distance as |relative|, do the same, and add n (the "
        "halved count) where relative > 0. np.where chooses; np.maximum(distance, exact) keeps log away "
        "from 0.",
    ),
    reference=t5_bucket,
    why=(
        "The next word and the one after differ in kind; the 90th and the 91st do not. Buckets spend detail "
        "where it pays."
    ),
)


@buckets.check("causal: near distances into the past have a bucket each")
def _(t5_bucket: Learner) -> None:
    distance = np.arange(8)
    expect(
        t5_bucket(-distance, bidirectional=False),
        distance,
        "the buckets of 0, −1, … −7",
        (distance * 0, "Your sign is turned: relative positions are key − query, so the past is negative."),
        (
            np.where(distance > 0, distance + 16, 0),
            "That is for both directions: here the past has all the buckets.",
        ),
    )


@buckets.check("causal: every future key is in bucket 0")
def _(t5_bucket: Learner) -> None:
    expect(
        t5_bucket(np.array([1, 2, 50]), bidirectional=False),
        [0, 0, 0],
        "the buckets of +1, +2, +50",
        (
            _bucket([1, 2, 50]),
            "You took |relative|. The causal mask hides the future; T5 files it all under bucket 0.",
        ),
    )


@buckets.check("causal: from 16 on, buckets widen logarithmically")
def _(t5_bucket: Learner) -> None:
    expect(
        t5_bucket(-np.array([15, 16, 32, 64, 100]), bidirectional=False),
        [15, 16, 21, 26, 30],
        "the buckets of −15, −16, −32, −64, −100",
        (
            [15, 16, 31, 31, 31],
            "Yours are exact up to the last bucket. Only half of the buckets are; the rest widen.",
        ),
        ([15, 16, 21, 27, 30], "Round down, not to the nearest."),
        ([15, 16, 18, 22, 28], "The far half should widen logarithmically; yours widens evenly."),
    )


@buckets.check("causal: everything from max_distance on is in the last bucket")
def _(t5_bucket: Learner) -> None:
    expect(
        t5_bucket(-np.array([127, 128, 1000]), bidirectional=False),
        [31, 31, 31],
        "the buckets of −127, −128, −1000",
        ([31, 32, 47], "There are 32 buckets, 0 to 31: stop at the last one."),
    )


@buckets.check("both directions: past in the lower half of the buckets, future in the upper")
def _(t5_bucket: Learner) -> None:
    expect(
        t5_bucket(np.array([-3, -1, 0, 1, 3]), bidirectional=True),
        [3, 1, 0, 17, 19],
        "the buckets of −3, −1, 0, +1, +3",
        ([19, 17, 0, 1, 3], "You swapped the halves: the past has the lower one."),
        ([3, 1, 16, 17, 19], "Distance 0 belongs to the past's half."),
        ([3, 1, 0, 1, 3], "Past and future should not share buckets."),
    )


@buckets.check("both directions: each side has only half of the buckets to spend")
def _(t5_bucket: Learner) -> None:
    relative = np.array([-128, -32, -8, 8, 32, 128])
    expect(
        t5_bucket(relative, bidirectional=True),
        [15, 12, 8, 24, 28, 31],  # 8 + 8·ln(32/8)/ln 16 = 12
        "the buckets of −128, −32, −8, +8, +32, +128",
        (
            np.where(relative > 0, 16, 0) + _bucket(np.abs(relative)),
            "Halve n_buckets before anything else: 16 on each side, of which 8 are exact.",
        ),
    )


@buckets.check("other sizes, and a whole (T, S) grid")
def _(t5_bucket: Learner) -> None:
    grid = np.arange(300) - np.arange(150, 155)[:, None]
    for both in (False, True):
        for n, far in ((32, 128), (8, 20), (64, 256)):
            expect(
                t5_bucket(grid, bidirectional=both, n_buckets=n, max_distance=far),
                buckets.reference(grid, bidirectional=both, n_buckets=n, max_distance=far),
                f"the buckets of a grid, bidirectional={both}, n_buckets={n}, max_distance={far}",
                axes="T S",
            )


# 12 · Write the test


def sees_order(attention: Callable, x: Float[np.ndarray, "T D"]) -> bool:
    """Whether a function (T, D) → (T, D) uses the order of its rows: shuffle before or after, and compare."""
    generator = np.random.default_rng(0)
    orders = [generator.permutation(len(x)) for _ in range(5)]
    return not all(np.allclose(attention(x[order]), attention(x)[order], atol=1e-8) for order in orders)


detector = Exercise(
    name="positions.sees_order",
    chapter=4,
    title="Write the test",
    source="our own; it is the test that would have caught a model whose positions were never added",
    difficulty=2,
    minutes=15,
    hints=(
        "Two things you can do: shuffle the rows and then call attention, or call it and then shuffle. When "
        "are they equal?",
        "Compare attention(x[order]) with attention(x)[order]. Sums in another order differ in the last "
        "digits: compare with np.allclose, not ==.",
        "Which order you choose matters. Reversing keeps every distance, a cyclic shift keeps neighbours, a "
        "swap of two rows leaves most alone. Use random permutations, several of them.",
    ),
    reference=sees_order,
    why=(
        "Equivariance says that the two paths round the square meet. One order for which they do not "
        "refutes it."
    ),
)


@detector.check("a function of each row alone does not see it")
def _(sees_order: Learner) -> None:
    advice = (
        "It moves its outputs with the words: shuffle the rows of x, and expect the outputs shuffled in the "
        "same way, attention(x)[order]."
    )
    _judge(sees_order, lambda x: np.maximum(x, 0), False, "np.maximum(x, 0)", advice)


@detector.check("unmasked attention without positions does not see it, nor does a mean")
def _(sees_order: Learner) -> None:
    advice = "Sums taken in another order differ in the last digits: compare with np.allclose."
    _judge(sees_order, lambda x: _attend(x)[0], False, "unmasked attention without positions", advice)
    _judge(sees_order, lambda x: x + x.mean(axis=0), False, "adding the mean of all rows to each", advice)


@detector.check("a causal mask sees it")
def _(sees_order: Learner) -> None:
    _judge(
        sees_order,
        lambda x: _attend(x, mask=causal_mask(len(x)))[0],
        True,
        "attention with a causal mask",
        "The first row may look at one key and the last at all of them: order is in the mask.",
    )


@detector.check("positions at each of the three doors are seen")
def _(sees_order: Learner) -> None:
    def sinusoids(x: np.ndarray) -> np.ndarray:
        return _attend(x + sinusoidal(np.arange(len(x)), x.shape[1]))[0]

    def rope(x: np.ndarray) -> np.ndarray:
        q, k = rotary(x @ _numbers(8, 8, seed=1)), rotary(x @ _numbers(8, 8, seed=2))
        return scaled_dot_product_attention(q, k, x)[0]

    def alibi(x: np.ndarray) -> np.ndarray:
        apart = np.abs(np.arange(len(x)) - np.arange(len(x))[:, None])
        return _attend(x, bias=-0.5 * apart)[0]

    advice = "Its outputs for shuffled rows are not its outputs shuffled."
    _judge(sees_order, sinusoids, True, "attention over x plus sinusoids", advice)
    _judge(sees_order, rope, True, "attention with RoPE", advice)
    _judge(
        sees_order,
        alibi,
        True,
        "attention with ALiBi, in both directions,",
        "Reversing the rows keeps every distance, and ALiBi looks at nothing else: try an order that "
        "changes distances.",
    )


@detector.check("order that shows only here or there is seen too")
def _(sees_order: Learner) -> None:
    def neighbours(x: np.ndarray) -> np.ndarray:
        return x + np.roll(x, 1, axis=0)

    def end(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[:-1], x[-2:-1]])

    _judge(
        sees_order,
        neighbours,
        True,
        "adding to each row the one before it, round a circle,",
        "A cyclic shift keeps neighbours together: use a random order.",
    )
    _judge(
        sees_order,
        end,
        True,
        "replacing the last row by the one before it",
        "Moving a few rows is not enough: use random orders of all of them, more than one.",
    )


# 13 · What a longer context costs


def context_cost(d_model: int, before: int, after: int) -> tuple[int, float]:
    """What a change of context length adds to the table, and by what factor it grows a score matrix."""
    return (after - before) * d_model, (after / before) ** 2


cost = Exercise(
    name="positions.context_cost",
    chapter=4,
    title="What a longer context costs",
    source="our own: what someone who lengthens a model's context has to pay",
    difficulty=1,
    minutes=10,
    hints=(
        "The table has one row of D numbers for each position. The score matrix has one cell for each query "
        "and key.",
        "The table grows by (after − before) rows. A score matrix of length T has T · T cells.",
        "Return ((after − before) · d_model, (after / before)²).",
    ),
    reference=context_cost,
    why=(
        "Parameters grow with the length, score cells with its square. Neither asks for more text, only for "
        "longer pieces."
    ),
)


@cost.check("the parameters: one row of the table for each new position")
def _(context_cost: Learner) -> None:
    got, _ = expect_parts(context_cost(4, 64, 1024), ("extra parameters", "score ratio"))
    expect(
        got,
        3840,
        "the extra parameters, from 64 to 1024 positions of 4 numbers,",
        (4096, "That is the whole new table. 64 of its rows were there before."),
        (960, "That is the number of new rows; each has d_model numbers."),
    )


@cost.check("the score matrix: queries times keys")
def _(context_cost: Learner) -> None:
    _, got = expect_parts(context_cost(4, 64, 1024), ("extra parameters", "score ratio"))
    causal = (1024 * 1025) / (64 * 65)
    expect(
        got,
        256.0,
        "the ratio of score cells, 1024 positions to 64,",
        (16.0, "Both axes grow, queries and keys: the cells grow with the square."),
        (
            causal,
            "That counts what a causal mask leaves. Count the cells that are computed, before the mask.",
        ),
        (1024.0**2 - 64.0**2, "That is the new count minus the old; asked is the ratio."),
    )


@cost.check("other sizes")
def _(context_cost: Learner) -> None:
    names = ("extra parameters", "score ratio")
    for d_model, before, after in ((768, 1024, 2048), (3, 10, 15), (8, 64, 8)):
        parameters, ratio = expect_parts(context_cost(d_model, before, after), names)
        where = f"for d_model={d_model}, {before} to {after} positions,"
        expect(parameters, after * d_model - before * d_model, f"the extra parameters {where}")
        expect(ratio, after * after / (before * before), f"the ratio of score cells {where}")


# 14 · The gradient of the table


def table_gradient(dx: Float[np.ndarray, "B T D"], context_length: int) -> Float[np.ndarray, "N D"]:
    """The gradient of the position table, from that of its sum with the token vectors."""
    _, T, D = dx.shape
    gradient = np.zeros((context_length, D), dtype=dx.dtype)
    gradient[:T] = dx.sum(axis=0)
    return gradient


backward = Exercise(
    name="positions.table_gradient",
    chapter=4,
    title="The gradient of the table",
    source="our own: the table is a weight like any other, and the chain rule reaches it",
    difficulty=2,
    minutes=15,
    hints=(
        "x = tokens + table[:T]. Change one number of the table a little: which numbers of x change, and by "
        "how much?",
        "Row t of the table is added to row t of every sequence in the batch. What one number does in B "
        "places adds up.",
        "Start from zeros of shape (context_length, D), and put dx.sum(axis=0) into the first T rows.",
    ),
    reference=table_gradient,
    why=(
        "A number used in B places gets the sum of B gradients; a row that no sequence reached gets none, "
        "and learns nothing."
    ),
)


@backward.check("the gradient has the table's shape")
def _(table_gradient: Learner) -> None:
    expect_shape(table_gradient(_numbers(2, 3, 4), 6), (6, 4), "table_gradient(dx, 6)", axes="N D")


@backward.check("each row collects from every sequence of the batch")
def _(table_gradient: Learner) -> None:
    dx = _numbers(4, 3, 2)
    got = np.asarray(table_gradient(dx, 3))
    expect(
        got,
        dx[0] + dx[1] + dx[2] + dx[3],
        "the gradient of a 3-row table",
        (
            dx.mean(axis=0),
            "That is the mean over the batch. The chain rule adds; a mean belongs to the loss, if at all.",
        ),
        (dx[0], "That is the first sequence alone: all of them used the table."),
        (dx[-1], "That is the last sequence alone: each one overwrote what the one before had added."),
        axes="N D",
    )


@backward.check("rows that no sequence reached get exactly zero")
def _(table_gradient: Learner) -> None:
    dx = _numbers(2, 3, 2)
    used, unused = dx.sum(axis=0), np.zeros((2, 2))
    expect(
        table_gradient(dx, 5),
        np.concatenate([used, unused]),
        "the gradient of a 5-row table after 3 positions",
        (np.concatenate([unused, used]), "Position 0 is the table's first row; yours fills the last."),
        axes="N D",
    )


@backward.check("it predicts how the loss moves when the table does")
def _(table_gradient: Learner) -> None:
    B, T, D, N = 3, 4, 5, 7
    tokens, dx, before, step = (
        _numbers(B, T, D),
        _numbers(B, T, D, seed=1),
        _numbers(N, D),
        _numbers(N, D, seed=2),
    )

    def loss(rows: np.ndarray) -> float:  # linear in x, so that its gradient is dx everywhere
        return float((dx * (tokens + rows[:T])).sum())

    got = table_gradient(dx, N)
    expect_shape(got, (N, D), "table_gradient(dx, 7)", axes="N D")
    expect(
        float((got * step).sum()),
        loss(before + step) - loss(before),
        "the change of the loss after a step, by your gradient,",
    )


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


budget = Exercise(
    name="positions.table_share",
    chapter=4,
    title="Where the table stands in the budget",
    source="Radford et al. (2019): the smallest GPT-2, counted to the last parameter",
    difficulty=2,
    minutes=20,
    hints=(
        "Five terms: the token table, the position table, the blocks, the last norm, and a head that is "
        "tied and costs nothing. A norm has 2·D parameters.",
        "A block's matrices: four of D × D in attention, and D × 4D and 4D × D after it, 12·D² in all. Its "
        "vectors: two norms are 4·D, and the feed-forward biases 4·D + D.",
        "Block = 12·D² + 9·D, and 4·D more with attention biases. Total = V·D + N·D + n_layers · block + "
        "2·D.",
    ),
    reference=table_share,
    why=(
        "The table grows with N·D, the blocks with 12·D² each: in a tiny model positions dominate, in a "
        "large one they vanish."
    ),
)

_PARTS = ("parameters of the table", "parameters of the model")


@budget.check("the table: a row of d_model numbers for each position")
def _(table_share: Learner) -> None:
    for sizes, want in (((4, 64, 4, 2), 256), ((50_257, 1024, 768, 12), 786_432)):
        got, _ = expect_parts(table_share(*sizes, attention_bias=False), _PARTS)
        expect(
            got,
            want,
            f"the table of a model with context_length={sizes[1]}, d_model={sizes[2]}",
            (want * sizes[3], "The table is added once, before the first block, not in each."),
        )


@budget.check("the toy with 64 positions: 736 parameters, more than a third of them positions")
def _(table_share: Learner) -> None:
    _, got = expect_parts(table_share(4, 64, 4, 2, attention_bias=False), _PARTS)
    expect(
        got,
        736,
        "all parameters of the model with V=4, N=64, D=4 and two layers",
        (752, "You counted the head. It is tied: the token table, used a second time."),
        (728, "The norm after the last block is missing (2·D)."),
        (656, "Those are its matrices' weights and tables only; norms and biases are missing."),
        (768, "Attention has no biases in this one."),
        (480, "The position table is missing from the total."),
    )
    _, got = expect_parts(table_share(4, 8, 4, 2, attention_bias=False), _PARTS)
    expect(got, 512, "all parameters of the same model with 8 positions")


@budget.check("GPT-2 small: 124,439,808")
def _(table_share: Learner) -> None:
    _, got = expect_parts(table_share(50_257, 1024, 768, 12, attention_bias=True), _PARTS)
    expect(
        got,
        124_439_808,
        "all parameters of GPT-2 small",
        (124_402_944, "The biases of attention's four projections are missing (4·D in each block)."),
    )


EXERCISES = (
    equivariance,
    shift,
    rope,
    sinusoids,
    clocks,
    table,
    turn,
    layout,
    slopes,
    window,
    buckets,
    detector,
    cost,
    backward,
    budget,
)


# What the checks share


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """The same normal numbers each time."""
    return np.random.default_rng(seed).normal(size=shape)


def _attend(x: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """One head of attention with fixed weights: outputs (T, D) and weights (T, T)."""
    D = x.shape[1]
    q, k, v = (x @ _numbers(D, D, seed=seed) for seed in (1, 2, 3))
    return scaled_dot_product_attention(q, k, v, **options)


def _row(angles: Any) -> np.ndarray:
    """The sine and cosine of each angle, alternating."""
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).ravel()


def _shift(k: Real, frequencies: Any) -> np.ndarray:
    """The rotation by k steps, one frequency a pair: the parts of e^(ikθ), laid out by hand."""
    D = 2 * len(frequencies)
    matrix = np.zeros((D, D))
    turns = np.exp(1j * k * np.asarray(frequencies))
    even, odd = np.arange(0, D, 2), np.arange(1, D, 2)
    matrix[even, even] = matrix[odd, odd] = turns.real
    matrix[even, odd], matrix[odd, even] = turns.imag, -turns.imag
    return matrix


def _slopes(heads: int) -> list[float]:
    """ALiBi's slopes as its authors describe them: a recursion on powers of two."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8 * i / heads) for i in range(1, heads + 1)]
    n = 1 << (heads.bit_length() - 1)
    return _slopes(n) + _slopes(2 * n)[0::2][: heads - n]


def _bucket(distance: Any) -> np.ndarray:
    """The causal bucket of distances into the past, with T5's own sizes."""
    return t5_bucket(-np.asarray(distance), bidirectional=False)


def _judge(sees_order: Learner, attention: Callable, want: bool, what: str, advice: str) -> None:
    got = sees_order(attention, _numbers(24, 8))
    expect(got, want, f"for {what} the answer", (not want, advice))
