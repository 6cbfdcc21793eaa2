"""Chapter 04: right answers unlike the book's, and classic wrong ones."""

import cmath
import math
from fractions import Fraction

import numpy as np
import torch

from glassformer import scratch

from .answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


# 1 · positions.equivariance


@right("positions.equivariance")
def by_permutation_matrix(outputs, weights, order):
    P = np.eye(len(order))[order]
    return P @ outputs, P @ weights @ P.T


@right("positions.equivariance")
def by_loops_in_torch(outputs, weights, order):
    T = len(order)
    new = torch.empty(T, T, dtype=torch.float64)
    for i in range(T):
        for j in range(T):
            new[i, j] = weights[order[i], order[j]]
    return torch.as_tensor(outputs)[torch.as_tensor(order)], new


@wrong("positions.equivariance", "the rows move with the words")
def thinks_it_invariant(outputs, weights, order):
    return outputs, weights


@wrong("positions.equivariance", "undoes the order")
def inverse_order(outputs, weights, order):
    back = np.argsort(order)
    return outputs[back], weights[back][:, back]


@wrong("positions.equivariance", "but not the columns")
def rows_only(outputs, weights, order):
    return outputs[order], weights[order]


@wrong("positions.equivariance", "but not the rows")
def columns_only(outputs, weights, order):
    return outputs[order], weights[:, order]


@wrong("positions.equivariance", "2 things, (outputs, weights)")
def outputs_only(outputs, weights, order):
    return outputs[order]


# 2 · positions.shift_matrix


@right("positions.shift_matrix")
def by_complex_numbers(k, d_model, base=10_000.0):
    R = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        z = cmath.exp(1j * k * base ** (-2 * i / d_model))
        R[2 * i, 2 * i] = R[2 * i + 1, 2 * i + 1] = z.real
        R[2 * i, 2 * i + 1], R[2 * i + 1, 2 * i] = z.imag, -z.imag
    return R


@right("positions.shift_matrix")
def by_block_diag(k, d_model, base=10_000.0):
    w = torch.tensor(base, dtype=torch.float64) ** (-torch.arange(0, d_model, 2) / d_model).double()
    w = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    c, s = torch.cos(k * w), torch.sin(k * w)
    return torch.block_diag(*torch.stack([torch.stack([c, s], -1), torch.stack([-s, c], -1)], -2))


def _shift(k, d_model, frequency, sign=1):
    R = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        c, s = math.cos(k * frequency(i)), sign * math.sin(k * frequency(i))
        R[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[c, s], [-s, c]]
    return R


@wrong("positions.shift_matrix", "steps backward")
def shifts_back(k, d_model, base=10_000.0):
    return _shift(k, d_model, lambda i: base ** (-2 * i / d_model), sign=-1)


@wrong("positions.shift_matrix", "All pairs turn at the same rate")
def shifts_all_alike(k, d_model, base=10_000.0):
    return _shift(k, d_model, lambda i: 1.0)


@wrong("positions.shift_matrix", "the 2 is missing")
def shifts_with_half_the_exponent(k, d_model, base=10_000.0):
    return _shift(k, d_model, lambda i: base ** (-i / d_model))


@wrong("positions.shift_matrix", "neighbours: 2i and 2i+1")
def shifts_in_halves(k, d_model, base=10_000.0):
    w = base ** (-np.arange(0, d_model, 2) / d_model)
    C, S = np.diag(np.cos(k * w)), np.diag(np.sin(k * w))
    return np.block([[C, S], [-S, C]])


@wrong("positions.shift_matrix", "for base 10000: use the argument")
def shifts_with_a_fixed_base(k, d_model, base=10_000.0):
    return _shift(k, d_model, lambda i: 10_000.0 ** (-2 * i / d_model))


@wrong("positions.shift_matrix", "R(-4)")
def shifts_forward_only(k, d_model, base=10_000.0):
    return _shift(abs(k), d_model, lambda i: base ** (-2 * i / d_model))


@wrong("positions.shift_matrix", "R(0.5)")
def shifts_whole_steps_only(k, d_model, base=10_000.0):
    return _shift(int(k), d_model, lambda i: base ** (-2 * i / d_model))


@wrong("positions.shift_matrix", "should have shape (D, D) = (6, 6); yours has shape (3, 2, 2)")
def shifts_as_blocks(k, d_model, base=10_000.0):
    R = _shift(k, d_model, lambda i: base ** (-2 * i / d_model))
    return np.stack([R[i : i + 2, i : i + 2] for i in range(0, d_model, 2)])


# 3 · positions.rope_score


@right("positions.rope_score")
def score_by_complex_product(q, k, distance, base=10_000.0):
    half = len(q) // 2
    z = (q[:half] + 1j * q[half:]) * np.conj(k[:half] + 1j * k[half:])
    return (z * np.exp(1j * distance * base ** (-np.arange(half) / half))).sum().real


@right("positions.rope_score")
def score_by_loop(q, k, distance, base=10_000.0):
    half, total = len(q) // 2, 0.0
    for i in range(half):
        size = math.hypot(q[i], q[i + half]) * math.hypot(k[i], k[i + half])
        between = math.atan2(q[i + half], q[i]) - math.atan2(k[i + half], k[i])
        total += size * math.cos(between + distance * base ** (-i / half))
    return total


def _score(q, k, angles, across=1.0):
    half = len(q) // 2
    a, b, c, d = q[:half], q[half:], k[:half], k[half:]
    return float((a * c + b * d) @ np.cos(angles) + across * (a * d - b * c) @ np.sin(angles))


@wrong("positions.rope_score", "has no effect")
def score_without_rotation(q, k, distance, base=10_000.0):
    return float(q @ k)


@wrong("positions.rope_score", "the other way, n − m")
def score_backwards(q, k, distance, base=10_000.0):
    half = len(q) // 2
    return _score(q, k, -distance * base ** (-np.arange(half) / half))


@wrong("positions.rope_score", "part across is missing")
def score_with_cosines_alone(q, k, distance, base=10_000.0):
    half = len(q) // 2
    return _score(q, k, distance * base ** (-np.arange(half) / half), across=0.0)


@wrong("positions.rope_score", "You paired neighbours")
def score_of_neighbours(q, k, distance, base=10_000.0):
    order = np.r_[0 : len(q) : 2, 1 : len(q) : 2]
    half = len(q) // 2
    return _score(q[order], k[order], distance * base ** (-np.arange(half) / half))


@wrong("positions.rope_score", "All pairs turn at the same rate")
def score_at_one_rate(q, k, distance, base=10_000.0):
    return _score(q, k, np.full(len(q) // 2, float(distance)))


@wrong("positions.rope_score", "for base 10000: use the argument")
def score_with_a_fixed_base(q, k, distance, base=10_000.0):
    half = len(q) // 2
    return _score(q, k, distance * 10_000.0 ** (-np.arange(half) / half))


@wrong("positions.rope_score", "rope_score at distance 0 should be")
def score_divided_by_the_root(q, k, distance, base=10_000.0):
    return score_by_loop(q, k, distance, base) / math.sqrt(len(q))


# 4 · positions.sinusoidal


@right("positions.sinusoidal")
def waves_by_loop(positions, d_model, base=10_000.0):
    if d_model % 2:
        raise ValueError(f"d_model={d_model} is odd")
    table = np.empty((len(positions), d_model))
    for row, p in enumerate(positions):
        for d in range(d_model):
            angle = p / base ** (2 * (d // 2) / d_model)
            table[row, d] = math.sin(angle) if d % 2 == 0 else math.cos(angle)
    return table


@right("positions.sinusoidal")
def waves_in_torch(positions, d_model, base=10_000.0):
    if d_model % 2:
        raise ValueError("d_model must be even")
    w = torch.exp(-math.log(base) * torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.einsum("t,i->ti", torch.as_tensor(positions, dtype=torch.float64), w)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@right("positions.sinusoidal")
def waves_in_single_precision(positions, d_model, base=10_000.0):
    return waves_by_loop(positions, d_model, base).astype(np.float32)


def _waves(positions, frequencies):
    angles = np.asarray(positions)[:, None] * np.asarray(frequencies)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), -1)


def _pairs(d_model):
    return np.arange(d_model // 2)


@wrong(
    "positions.sinusoidal", "should have shape (T, D) = (5, 8); yours has shape (8, 5). It looks transposed"
)
def waves_transposed(positions, d_model, base=10_000.0):
    return _waves(positions, base ** (-2 * _pairs(d_model) / d_model)).T


@wrong("positions.sinusoidal", "row 0 should be [0, 1, 0, 1, 0, 1, 0, 1]; yours is all zeros")
def waves_of_zeros(positions, d_model, base=10_000.0):
    return np.zeros((len(positions), d_model))


@wrong("positions.sinusoidal", "the other way round")
def waves_swapped(positions, d_model, base=10_000.0):
    right = _waves(positions, base ** (-2 * _pairs(d_model) / d_model))
    return right.reshape(len(positions), -1, 2)[..., ::-1].reshape(right.shape)


@wrong("positions.sinusoidal", "stand in two blocks")
def waves_in_blocks(positions, d_model, base=10_000.0):
    right = _waves(positions, base ** (-2 * _pairs(d_model) / d_model))
    return np.concatenate([right[:, 0::2], right[:, 1::2]], axis=1)


@wrong("positions.sinusoidal", "the two of a pair share one")
def waves_with_a_frequency_each(positions, d_model, base=10_000.0):
    angles = positions[:, None] * base ** (-np.arange(d_model) / d_model)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angles), np.cos(angles))


@wrong("positions.sinusoidal", "multiply by the wavelength")
def waves_without_the_minus(positions, d_model, base=10_000.0):
    return _waves(positions, base ** (2 * _pairs(d_model) / d_model))


@wrong("positions.sinusoidal", "the 2 is missing")
def waves_without_the_two(positions, d_model, base=10_000.0):
    return _waves(positions, base ** (-_pairs(d_model) / d_model))


@wrong("positions.sinusoidal", "stops one step short of 1")
def waves_to_the_fencepost(positions, d_model, base=10_000.0):
    return _waves(positions, base ** (-_pairs(d_model) / max(d_model // 2 - 1, 1)))


@wrong("positions.sinusoidal", "All pairs turn at the same rate")
def waves_at_one_rate(positions, d_model, base=10_000.0):
    return _waves(positions, np.ones(d_model // 2))


@wrong("positions.sinusoidal", "for base 10000: use the argument")
def waves_with_a_fixed_base(positions, d_model, base=10_000.0):
    return _waves(positions, 10_000.0 ** (-2 * _pairs(d_model) / d_model))


@wrong("positions.sinusoidal", "instead of reading `positions`")
def waves_that_count_for_themselves(positions, d_model, base=10_000.0):
    return _waves(np.arange(len(positions)), base ** (-2 * _pairs(d_model) / d_model))


@wrong(
    "positions.sinusoidal",
    "d_model=5 should raise ValueError; yours quietly returned an array of shape (3, 4)",
)
def waves_of_any_width(positions, d_model, base=10_000.0):
    return _waves(positions, base ** (-2 * _pairs(d_model) / d_model))


@wrong("positions.sinusoidal", "cuts off the fractions")
def waves_in_whole_numbers(positions, d_model, base=10_000.0):
    table = np.zeros((len(positions), d_model), dtype=int)
    table[:] = _waves(positions, base ** (-2 * _pairs(d_model) / d_model))
    return table


@wrong("positions.sinusoidal", "takes radians")
def waves_in_degrees(positions, d_model, base=10_000.0):
    return _waves(np.deg2rad(positions), base ** (-2 * _pairs(d_model) / d_model))


# 5 · positions.wavelengths


@right("positions.wavelengths")
def wavelengths_from_frequencies(d_model, base=10_000.0):
    return np.array([2 * math.pi / base ** (-2 * i / d_model) for i in range(d_model // 2)])


@right("positions.wavelengths")
def wavelengths_geometric(d_model, base=10_000.0):
    last = 2 * math.pi * base ** (1 - 2 / d_model)
    return torch.from_numpy(np.geomspace(2 * math.pi, last, d_model // 2))


@wrong("positions.wavelengths", "a full turn is 2π radians")
def wavelengths_in_radians(d_model, base=10_000.0):
    return base ** (np.arange(0, d_model, 2) / d_model)


@wrong("positions.wavelengths", "wavelengths grow")
def wavelengths_that_shrink(d_model, base=10_000.0):
    return 2 * math.pi * base ** (-np.arange(0, d_model, 2) / d_model)


@wrong("positions.wavelengths", "should have shape (D/2) = (4,); yours has shape (8,)")
def wavelengths_of_dimensions(d_model, base=10_000.0):
    return 2 * math.pi * base ** (np.arange(d_model) / d_model)


@wrong("positions.wavelengths", "2 is missing in 2i/D")
def wavelengths_without_the_two(d_model, base=10_000.0):
    return 2 * math.pi * base ** (np.arange(d_model // 2) / d_model)


@wrong("positions.wavelengths", "with base 500")
def wavelengths_with_a_fixed_base(d_model, base=10_000.0):
    return 2 * math.pi * 10_000.0 ** (np.arange(0, d_model, 2) / d_model)


# 6 · positions.learned


@right("positions.learned")
def learned_by_indexing(x, table):
    positions = np.arange(x.shape[-2])
    if positions[-1] >= table.shape[0]:
        raise ValueError(
            f"position {len(positions) - 1} is outside a table of {len(table)}; T={len(positions)}"
        )
    return x + np.take(table, positions, axis=0)


@right("positions.learned")
def learned_by_torch_embedding(x, table):
    T, N = x.shape[-2], len(table)
    if T > N:
        raise ValueError(f"{T} > {N}")
    rows = torch.nn.functional.embedding(torch.arange(T), torch.as_tensor(table))
    return torch.as_tensor(x) + rows


@wrong("positions.learned", "started again at row 0")
def learned_that_wraps(x, table):
    return x + table[np.arange(x.shape[-2]) % len(table)]


@wrong("positions.learned", "used row 4 again")
def learned_that_clips(x, table):
    return x + table[np.minimum(np.arange(x.shape[-2]), len(table) - 1)]


@wrong("positions.learned", "table of 1 row")
def learned_that_trusts_numpy(x, table):
    return x + table[: x.shape[-2]]


@wrong("positions.learned", "raised IndexError")
def learned_with_an_index_error(x, table):
    return x + table[np.arange(x.shape[-2])]


@wrong("positions.learned", "the table's last rows")
def learned_from_the_end(x, table):
    if x.shape[-2] > len(table):
        raise ValueError("too long")
    return x + table[-x.shape[-2] :]


@wrong("positions.learned", "row 0 everywhere")
def learned_once(x, table):
    return x + table[0]


@wrong("positions.learned", "a row for each sequence")
def learned_by_batch(x, table):
    return x + (table[: len(x), None] if x.ndim == 3 else table[: len(x)])


@wrong("positions.learned", "changed its argument `x` in place")
def learned_in_place(x, table):
    x += table[: x.shape[-2]]
    return x


@wrong("positions.learned", "name both lengths")
def learned_with_a_vague_error(x, table):
    if x.shape[-2] > len(table):
        raise ValueError("too long")
    return x + table[: x.shape[-2]]


@wrong("positions.learned", "raised ValueError")
def learned_off_by_one(x, table):
    if x.shape[-2] >= len(table):
        raise ValueError(f"{x.shape[-2]} >= {len(table)}")
    return x + table[: x.shape[-2]]


@wrong("positions.learned", "the words are gone")
def learned_without_the_words(x, table):
    return np.broadcast_to(table[: x.shape[-2]], x.shape)


# 7 · positions.rotary


@right("positions.rotary")
def rotary_by_complex_numbers(x, base=10_000.0):
    T, K = x.shape[-2:]
    turns = np.exp(1j * np.outer(np.arange(T), base ** (-np.arange(0, K, 2) / K)))
    z = (x[..., : K // 2] + 1j * x[..., K // 2 :]) * turns
    return np.concatenate([z.real, z.imag], axis=-1)


@right("positions.rotary")
def rotary_by_rotating_half(x, base=10_000.0):
    x = torch.as_tensor(x)
    T, K = x.shape[-2:]
    w = base ** (-torch.arange(0, K, 2, dtype=torch.float64) / K)
    angles = torch.arange(T, dtype=torch.float64)[:, None] * torch.cat([w, w])
    half = torch.cat([-x[..., K // 2 :], x[..., : K // 2]], dim=-1)
    return x * angles.cos() + half * angles.sin()


def _turn(x, angles):
    return scratch.positions.rotate(x, angles)


def _angles(x, base=10_000.0):
    return scratch.positions.rotation_angles(np.arange(x.shape[-2]), x.shape[-1], base=base)


@wrong("positions.rotary", "count positions from 1")
def rotary_from_one(x, base=10_000.0):
    return _turn(x, scratch.positions.rotation_angles(np.arange(1, x.shape[-2] + 1), x.shape[-1], base=base))


@wrong("positions.rotary", "turn the other way")
def rotary_backwards(x, base=10_000.0):
    return _turn(x, -_angles(x, base))


@wrong("positions.rotary", "Only the cosines are there")
def rotary_with_cosines_alone(x, base=10_000.0):
    return x * np.cos(np.concatenate([_angles(x, base)] * 2, axis=-1))


@wrong("positions.rotary", "You paired neighbours")
def rotary_of_neighbours(x, base=10_000.0):
    return scratch.positions.rotate(x, _angles(x, base), layout="interleaved")


@wrong("positions.rotary", "All pairs turn at the same rate")
def rotary_at_one_rate(x, base=10_000.0):
    return _turn(x, np.arange(x.shape[-2])[:, None] * np.ones(x.shape[-1] // 2))


@wrong("positions.rotary", "the 2 is missing")
def rotary_without_the_two(x, base=10_000.0):
    T, K = x.shape[-2:]
    return _turn(x, np.arange(T)[:, None] * base ** (-np.arange(K // 2) / K))


@wrong("positions.rotary", "You counted heads")
def rotary_along_the_heads(x, base=10_000.0):
    if x.ndim < 3:
        return _turn(x, _angles(x, base))
    swapped = x.swapaxes(0, 1)
    return _turn(swapped, _angles(swapped, base)).swapaxes(0, 1)


@wrong("positions.rotary", "for base 10000: use the argument")
def rotary_with_a_fixed_base(x, base=10_000.0):
    return _turn(x, _angles(x))


@wrong("positions.rotary", "the length of each row")
def rotary_of_two_layouts(x, base=10_000.0):
    # Halves are swapped as in one layout, angles repeated as in the other: the classic mix-up.
    K = x.shape[-1]
    angles = np.repeat(_angles(x, base), 2, axis=-1)
    half = np.concatenate([-x[..., K // 2 :], x[..., : K // 2]], axis=-1)
    return x * np.cos(angles) + half * np.sin(angles)


# 8 · positions.layout


@right("positions.layout")
def layout_by_transpose(W_q, n_heads):
    D = W_q.shape[1]
    pairs = W_q.reshape(-1, n_heads, D // n_heads // 2, 2)
    return pairs.swapaxes(2, 3).reshape(W_q.shape)


@right("positions.layout")
def layout_by_index_in_torch(W_q, n_heads):
    W, K = torch.as_tensor(W_q), W_q.shape[1] // n_heads
    order = [h * K + d for h in range(n_heads) for d in [*range(0, K, 2), *range(1, K, 2)]]
    return W[:, order]


@wrong("positions.layout", "Nothing moved")
def layout_untouched(W_q, n_heads):
    return W_q


@wrong("positions.layout", "the way back")
def layout_backwards(W_q, n_heads):
    pairs = W_q.reshape(len(W_q), n_heads, 2, -1)
    return pairs.swapaxes(2, 3).reshape(W_q.shape)


@wrong("positions.layout", "mixed the heads")
def layout_of_one_head(W_q, n_heads):
    return np.concatenate([W_q[:, 0::2], W_q[:, 1::2]], axis=1)


@wrong("positions.layout", "reordered the rows")
def layout_of_rows(W_q, n_heads):
    return layout_by_transpose(W_q.T, n_heads).T


@wrong("positions.layout", "sorted, which should not change")
def layout_that_rotates(W_q, n_heads):
    return -layout_by_transpose(W_q, n_heads)


# 9 · positions.alibi_slopes


@right("positions.alibi_slopes")
def slopes_by_doubling(n_heads):
    n = 1
    while 2 * n <= n_heads:
        n *= 2
    slopes = [math.pow(2, -8 * (i + 1) / n) for i in range(n)]
    slopes += [math.pow(2, -8 * (i + 1) / (2 * n)) for i in range(0, 2 * n, 2)][: n_heads - n]
    return np.array(slopes)


@right("positions.alibi_slopes")
def slopes_by_powers_in_torch(n_heads):
    n = 1 << (n_heads.bit_length() - 1)
    exponents = [2 * i for i in range(1, n + 1)] + [2 * i - 1 for i in range(1, n_heads - n + 1)]
    return torch.tensor(2 ** (-4 / n), dtype=torch.float64) ** torch.tensor(exponents)


@wrong("positions.alibi_slopes", "starts at 1")
def slopes_from_one(n_heads):
    return 2.0 ** (-8 * np.arange(n_heads) / n_heads)


@wrong("positions.alibi_slopes", "slopes are powers of 2")
def slopes_in_base_e(n_heads):
    return np.exp(-8 * np.arange(1, n_heads + 1) / n_heads)


@wrong("positions.alibi_slopes", "not always 1/2")
def slopes_always_halving(n_heads):
    return 0.5 ** np.arange(1, n_heads + 1)


@wrong("positions.alibi_slopes", "does not carry over")
def slopes_by_one_formula(n_heads):
    return 2.0 ** (-8 * np.arange(1, n_heads + 1) / n_heads)


@wrong("positions.alibi_slopes", "other order")
def slopes_sorted(n_heads):
    return np.sort(slopes_by_doubling(n_heads))[::-1]


@wrong("positions.alibi_slopes", "first three of four heads")
def slopes_of_the_next_power(n_heads):
    return slopes_by_doubling(2 ** math.ceil(math.log2(n_heads)))[:n_heads]


@wrong("positions.alibi_slopes", "takes the first slope of the doubled list, not the second")
def slopes_of_the_wrong_half(n_heads):
    n = 1 << (n_heads.bit_length() - 1)
    return np.concatenate([slopes_by_doubling(n), slopes_by_doubling(2 * n)[1::2][: n_heads - n]])


@wrong("positions.alibi_slopes", "yours is a list. Wrap it")
def slopes_in_a_list(n_heads):
    return list(slopes_by_doubling(n_heads))


@wrong("positions.alibi_slopes", "alibi_slopes(12): [h=8] should be")
def slopes_with_the_extra_ones_reversed(n_heads):
    n = 1 << (n_heads.bit_length() - 1)
    right = slopes_by_doubling(n_heads)
    return np.concatenate([right[:n], right[n:][::-1]])


# 10 · positions.alibi_window


@right("positions.alibi_window")
def window_by_counting(slope):
    distance = 0
    while math.exp(-slope * distance) >= 0.01:
        distance += 1
    return distance


@right("positions.alibi_window")
def window_by_softmax(slope):
    scores = -slope * np.arange(2000)
    weights = np.exp(scores) / np.exp(scores).sum()
    return np.argmax(weights < 0.01 * weights[0])


@wrong("positions.alibi_window", "still e⁻⁴ = 1.8 %")
def window_rounded_down(slope):
    return math.floor(math.log(100) / slope)


@wrong("positions.alibi_window", "one too far")
def window_one_too_far(slope):
    return math.ceil(math.log(100) / slope) + 1


@wrong("positions.alibi_window", "not 2, to the score")
def window_in_base_2(slope):
    return math.floor(math.log2(100) / slope) + 1


@wrong("positions.alibi_window", "not 10, to the score")
def window_in_base_10(slope):
    return math.floor(math.log10(100) / slope) + 1


@wrong("positions.alibi_window", "straight line")
def window_of_a_line(slope):
    return math.floor(0.99 / slope) + 1


@wrong("positions.alibi_window", "whole number (int); yours is float64 5")
def window_as_a_float(slope):
    return np.floor(np.log(100) / slope) + 1


@wrong("positions.alibi_window", "alibi_window(1/2) should be 10")
def window_for_slope_one(slope):
    return 5


@wrong("positions.alibi_window", "alibi_window(0.7071) should be 7")
def window_for_whole_inverses(slope):
    return math.floor(math.log(100) * round(1 / slope)) + 1


# 11 · positions.t5_bucket


def _one_bucket(relative, bidirectional, n_buckets, max_distance):
    first = 0
    if bidirectional:
        n_buckets //= 2
        first = n_buckets if relative > 0 else 0
        relative = -abs(relative)
    distance = max(-relative, 0)
    exact = n_buckets // 2
    if distance < exact:
        return first + distance
    far = int(math.log(distance / exact) / math.log(max_distance / exact) * (n_buckets - exact))
    return first + min(exact + far, n_buckets - 1)


@right("positions.t5_bucket")
def bucket_by_loop(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    one = np.vectorize(lambda r: _one_bucket(int(r), bidirectional, n_buckets, max_distance), otypes=[int])
    return one(relative_positions)


@right("positions.t5_bucket")
def bucket_in_torch(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    r = torch.as_tensor(relative_positions)
    n = n_buckets // 2 if bidirectional else n_buckets
    first = (r > 0).long() * n if bidirectional else torch.zeros_like(r)
    d = r.abs() if bidirectional else (-r).clamp(min=0)
    exact = n // 2
    scale = torch.log(d.clamp(min=1).double() / exact) / math.log(max_distance / exact)
    far = (exact + (scale * (n - exact)).long()).clamp(max=n - 1)
    return first + torch.where(d < exact, d, far)


def _bucket_variant(
    sign=-1, future="zero", far="log", rounding=np.floor, last=True, halve=True, upper="future"
):
    def bucket(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
        r = np.asarray(relative_positions) * -sign
        first, n = 0, n_buckets
        if bidirectional:
            half = n_buckets // 2
            first = np.where(r > 0 if upper == "future" else r < 0, half, 0)
            n = half if halve else n_buckets
        d = np.abs(r) if bidirectional or future == "absolute" else np.maximum(-r, 0)
        exact = n // 2
        log = np.log(np.maximum(d, exact) / exact) / np.log(max_distance / exact)
        line = (np.maximum(d, exact) - exact) / (max_distance - exact)
        scale = {"log": log * (n - exact), "line": line * (n - exact), "exact": np.maximum(d, exact) - exact}[
            far
        ]
        wide = exact + rounding(scale).astype(int)
        return first + np.where(d < exact, d, np.minimum(wide, n - 1) if last else wide)

    return bucket


for _says, _options in {
    "Your sign is turned": {"sign": 1},
    "You took |relative|": {"future": "absolute"},
    "exact up to the last bucket": {"far": "exact"},
    "widens evenly": {"far": "line"},
    "Round down": {"rounding": np.round},
    "stop at the last one": {"last": False},
    "swapped the halves": {"upper": "past"},
    "Halve n_buckets": {"halve": False},
}.items():
    wrong("positions.t5_bucket", _says)(_bucket_variant(**_options))


@wrong("positions.t5_bucket", "for both directions")
def bucket_always_bidirectional(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    def swapped(r):
        return _one_bucket(-int(r), True, n_buckets, max_distance)

    return np.vectorize(swapped, otypes=[int])(relative_positions)


@wrong("positions.t5_bucket", "should not share buckets")
def bucket_without_a_direction(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    n = n_buckets // 2 if bidirectional else n_buckets
    r = -np.abs(relative_positions) if bidirectional else relative_positions
    return bucket_by_loop(r, bidirectional=False, n_buckets=n, max_distance=max_distance)


@wrong("positions.t5_bucket", "Distance 0 belongs")
def bucket_with_zero_in_the_future(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    right = bucket_by_loop(
        relative_positions, bidirectional=bidirectional, n_buckets=n_buckets, max_distance=max_distance
    )
    return right + (relative_positions == 0) * (n_buckets // 2) * bidirectional


@wrong("positions.t5_bucket", "n_buckets=8")
def bucket_with_fixed_sizes(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    return bucket_by_loop(relative_positions, bidirectional=bidirectional)


@wrong("positions.t5_bucket", "whole number (int); yours is float64")
def bucket_as_floats(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    return bucket_by_loop(relative_positions, bidirectional=bidirectional).astype(float)


# 12 · positions.sees_order


@right("positions.sees_order")
def order_by_many_shuffles(attention, x):
    def differs(seed):
        order = np.random.default_rng(seed).permutation(len(x))
        return np.abs(attention(x[order]) - attention(x)[order]).max() > 1e-6

    return any(differs(seed) for seed in range(3))


@right("positions.sees_order")
def order_by_swapping_every_pair(attention, x):
    for i in range(len(x)):
        for j in range(i):
            order = np.arange(len(x))
            order[[i, j]] = j, i
            if not torch.allclose(torch.as_tensor(attention(x[order])), torch.as_tensor(attention(x)[order])):
                return True
    return False


def _order(permute, same=lambda a, b: np.allclose(a, b, atol=1e-8), both=True):
    def sees_order(attention, x):
        order = permute(len(x))
        expected = attention(x)[order] if both else attention(x)
        return not same(attention(x[order]), expected)

    return sees_order


def _swap_two(n):
    return np.r_[1, 0, 2:n]


for _says, _test in {
    "It moves its outputs with the words": _order(np.random.default_rng(0).permutation, both=False),
    "compare with np.allclose": _order(np.random.default_rng(0).permutation, np.array_equal),
    "Reversing the rows keeps every distance": _order(lambda n: np.arange(n)[::-1]),
    "Moving a few rows is not enough": _order(_swap_two),
    "order is in the mask": lambda attention, x: False,
    "True or False": lambda attention, x: "yes",
}.items():
    wrong("positions.sees_order", _says)(_test)


@wrong("positions.sees_order", "A cyclic shift keeps neighbours")
def order_by_shifting(attention, x):
    # Rolling catches causal masks and absolute positions, and misses what goes round in a circle.
    return not np.allclose(attention(np.roll(x, 1, axis=0)), np.roll(attention(x), 1, axis=0), atol=1e-8)


# 13 · positions.context_cost


@right("positions.context_cost")
def cost_by_counting(d_model, before, after):
    return np.zeros((after, d_model)).size - np.zeros((before, d_model)).size, Fraction(
        after**2, before**2
    ) + 0.0


@right("positions.context_cost")
def cost_by_logarithms(d_model, before, after):
    ratio = math.exp(2 * math.log(after) - 2 * math.log(before))
    return np.int64(after * d_model - before * d_model), torch.tensor(ratio, dtype=torch.float64)


@wrong("positions.context_cost", "the whole new table")
def cost_of_the_new_table(d_model, before, after):
    return after * d_model, (after / before) ** 2


@wrong("positions.context_cost", "number of new rows")
def cost_in_rows(d_model, before, after):
    return after - before, (after / before) ** 2


@wrong("positions.context_cost", "Both axes grow")
def cost_in_proportion(d_model, before, after):
    return (after - before) * d_model, after / before


@wrong("positions.context_cost", "what a causal mask leaves")
def cost_of_a_triangle(d_model, before, after):
    return (after - before) * d_model, after * (after + 1) / (before * (before + 1))


@wrong("positions.context_cost", "asked is the ratio")
def cost_as_a_difference(d_model, before, after):
    return (after - before) * d_model, float(after**2 - before**2)


@wrong("positions.context_cost", "the extra parameters for d_model=8, 64 to 8 positions, should be -448")
def cost_without_a_sign(d_model, before, after):
    return abs(after - before) * d_model, (after / before) ** 2


# 14 · positions.table_gradient


@right("positions.table_gradient")
def gradient_by_autograd(dx, context_length):
    _, T, D = dx.shape
    table = torch.zeros(context_length, D, dtype=torch.float64, requires_grad=True)
    (torch.as_tensor(dx) * table[:T]).sum().backward()
    return table.grad


@right("positions.table_gradient")
def gradient_by_adding_up(dx, context_length):
    B, T, D = dx.shape
    gradient = np.zeros((context_length, D))
    np.add.at(gradient, np.tile(np.arange(T), B), dx.reshape(B * T, D))
    return gradient


def _gradient(dx, context_length, reduce):
    gradient = np.zeros((context_length, dx.shape[2]))
    gradient[: dx.shape[1]] = reduce(dx)
    return gradient


@wrong("positions.table_gradient", "mean over the batch")
def gradient_as_a_mean(dx, context_length):
    return _gradient(dx, context_length, lambda dx: dx.mean(axis=0))


@wrong("positions.table_gradient", "should have shape (N, D) = (6, 4); yours has shape (3, 4)")
def gradient_of_the_used_rows(dx, context_length):
    return dx.sum(axis=0)


@wrong("positions.table_gradient", "first sequence alone")
def gradient_of_the_first(dx, context_length):
    return _gradient(dx, context_length, lambda dx: dx[0])


@wrong("positions.table_gradient", "overwrote")
def gradient_that_overwrites(dx, context_length):
    gradient = np.zeros((context_length, dx.shape[2]))
    for sequence in dx:
        gradient[: dx.shape[1]] = sequence
    return gradient


@wrong("positions.table_gradient", "yours fills the last")
def gradient_at_the_end(dx, context_length):
    return _gradient(dx[:, ::-1], context_length, lambda dx: dx.sum(axis=0))[::-1]


@wrong("positions.table_gradient", "holds nan at [n=3, d=0]")
def gradient_that_divides_by_the_count(dx, context_length):
    gradient = _gradient(dx, context_length, lambda dx: dx.sum(axis=0))
    gradient[dx.shape[1] :] = np.nan
    return gradient


# 15 · positions.table_share


@right("positions.table_share")
def share_term_by_term(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    norm, square = 2 * d_model, d_model * d_model
    attention = 4 * square + (4 * d_model if attention_bias else 0)
    feedforward = d_model * 4 * d_model + 4 * d_model + 4 * d_model * d_model + d_model
    table = context_length * d_model
    total = vocab_size * d_model + table + norm
    for _ in range(n_layers):
        total += norm + attention + norm + feedforward
    return table, total


@right("positions.table_share")
def share_of_real_arrays(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    D = d_model
    block = [(D,)] * 4 + [(D, D)] * 4 + [(D, 4 * D), (4 * D,), (4 * D, D), (D,)] + [(D,)] * 4 * attention_bias
    shapes = [(vocab_size, D), (context_length, D), *block * n_layers, (D,), (D,)]
    return context_length * D, sum(torch.empty(shape, device="meta").numel() for shape in shapes)


def _share(vocab_size, context_length, d_model, n_layers, *, attention_bias, extra=0, bias=True):
    table = context_length * d_model
    block = 12 * d_model**2 + (13 if attention_bias and bias else 9) * d_model
    return table, vocab_size * d_model + table + n_layers * block + 2 * d_model + extra


@wrong("positions.table_share", "You counted the head")
def share_with_an_untied_head(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    sizes = (vocab_size, context_length, d_model, n_layers)
    return _share(*sizes, attention_bias=attention_bias, extra=vocab_size * d_model)


@wrong("positions.table_share", "norm after the last block")
def share_without_the_last_norm(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    sizes = (vocab_size, context_length, d_model, n_layers)
    return _share(*sizes, attention_bias=attention_bias, extra=-2 * d_model)


@wrong("positions.table_share", "attention's four projections are missing")
def share_without_attention_biases(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    sizes = (vocab_size, context_length, d_model, n_layers)
    return _share(*sizes, attention_bias=attention_bias, bias=False)


@wrong("positions.table_share", "Attention has no biases in this one")
def share_with_biases_always(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    return _share(vocab_size, context_length, d_model, n_layers, attention_bias=True)


@wrong("positions.table_share", "norms and biases are missing")
def share_of_matrices(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    table = context_length * d_model
    return table, vocab_size * d_model + table + n_layers * 12 * d_model**2


@wrong("positions.table_share", "missing from the total")
def share_without_the_table(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    sizes = (vocab_size, context_length, d_model, n_layers)
    return _share(*sizes, attention_bias=attention_bias, extra=-context_length * d_model)


@wrong("positions.table_share", "before the first block, not in each")
def share_of_every_layer(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    table, total = _share(vocab_size, context_length, d_model, n_layers, attention_bias=attention_bias)
    return table * n_layers, total
