"""Chapter 04: right answers unlike the book's, and wrong ones that are told without being a classic mistake."""

import cmath
import math
from fractions import Fraction

import numpy as np
import torch

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
    w = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    c, s = torch.cos(k * w), torch.sin(k * w)
    return torch.block_diag(*torch.stack([torch.stack([c, s], -1), torch.stack([-s, c], -1)], -2))


@wrong("positions.shift_matrix", "should have shape (D, D) = (6, 6); yours has shape (3, 2, 2)")
def shifts_as_blocks(k, d_model, base=10_000.0):
    R = by_complex_numbers(k, d_model, base)
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


@wrong(
    "positions.sinusoidal", "should have shape (T, D) = (5, 8); yours has shape (8, 5). It looks transposed"
)
def waves_transposed(positions, d_model, base=10_000.0):
    return waves_by_loop(positions, d_model, base).T


@wrong(
    "positions.sinusoidal",
    "row 0 of sinusoidal([0, 1, 2, 3, 4], 8) should be [0, 1, 0, 1, 0, 1, 0, 1]; yours is all zeros",
)
def waves_of_zeros(positions, d_model, base=10_000.0):
    return np.zeros((len(positions), d_model))


@wrong("positions.sinusoidal", "cuts off the fractions")
def waves_in_whole_numbers(positions, d_model, base=10_000.0):
    return waves_by_loop(positions, d_model, base).astype(int)


# 5 · positions.wavelengths


@right("positions.wavelengths")
def wavelengths_from_frequencies(d_model, base=10_000.0):
    return np.array([2 * math.pi / base ** (-2 * i / d_model) for i in range(d_model // 2)])


@right("positions.wavelengths")
def wavelengths_geometric(d_model, base=10_000.0):
    last = 2 * math.pi * base ** (1 - 2 / d_model)
    return torch.from_numpy(np.geomspace(2 * math.pi, last, d_model // 2))


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


@wrong("positions.learned", "raised IndexError")
def learned_with_an_index_error(x, table):
    return x + table[np.arange(x.shape[-2])]


@wrong("positions.learned", "changed its argument `x` in place")
def learned_in_place(x, table):
    x += table[: x.shape[-2]]
    return x


@wrong("positions.learned", "the message should name 12 and 10")
def learned_with_a_vague_error(x, table):
    if x.shape[-2] > len(table):
        raise ValueError("too long")
    return x + table[: x.shape[-2]]


@wrong("positions.learned", "raised ValueError")
def learned_off_by_one(x, table):
    if x.shape[-2] >= len(table):
        raise ValueError(f"{x.shape[-2]} >= {len(table)}")
    return x + table[: x.shape[-2]]


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


@wrong("positions.layout", "each row of W, sorted, should be as it was")
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


@wrong("positions.alibi_window", "whole number (int); yours is float64 5")
def window_as_a_float(slope):
    return np.floor(np.log(100) / slope) + 1


@wrong("positions.alibi_window", "alibi_window(1/2) should be 10")
def window_for_slope_one(slope):
    return 5


@wrong("positions.alibi_window", "alibi_window(0.3) should be 16")
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


def _shuffled_once(same, moved):
    def sees_order(attention, x):
        order = np.random.default_rng(0).permutation(len(x))
        return not same(attention(x[order]), attention(x)[order] if moved else attention(x))

    return sees_order


for _says, _test in {
    "It moves its outputs with the words": _shuffled_once(np.allclose, moved=False),
    "compare with np.allclose": _shuffled_once(np.array_equal, moved=True),
    "order is in the mask": lambda attention, x: False,
    "True or False": lambda attention, x: "yes",
    "compare them row by row": lambda attention, x: order_by_many_shuffles(
        lambda x: 0 * x + attention(x).sum(axis=0), x
    ),
}.items():
    wrong("positions.sees_order", _says)(_test)


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


@wrong("positions.table_gradient", "holds nan at [n=3, d=0]")
def gradient_that_divides_by_the_count(dx, context_length):
    gradient = gradient_by_adding_up(dx, context_length)
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
