"""Answers for chapter 04: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import cmath
import math
from array import array as CArray  # noqa: N812
from fractions import Fraction
from functools import cache

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("positions.equivariance")
def by_permutation_matrix(outputs, weights, order):
    P = np.eye(len(order))[order]
    return P @ outputs, P @ weights @ P.T


@right("positions.shift_matrix")
def by_complex_numbers(k, d_model, base=10_000.0):
    R = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        z = cmath.exp(1j * k * base ** (-2 * i / d_model))
        R[2 * i, 2 * i] = R[2 * i + 1, 2 * i + 1] = z.real
        R[2 * i, 2 * i + 1], R[2 * i + 1, 2 * i] = z.imag, -z.imag
    return R


@right("positions.rope_score")
def score_by_complex_product(q, k, distance, base=10_000.0):
    half = len(q) // 2
    z = (q[:half] + 1j * q[half:]) * np.conj(k[:half] + 1j * k[half:])
    return (z * np.exp(1j * distance * base ** (-np.arange(half) / half))).sum().real


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
def waves_of_a_tutorial(positions, d_model, base=10_000.0):
    if d_model % 2:
        raise ValueError("odd")
    table = torch.zeros(len(positions), d_model)
    position = torch.tensor(positions, dtype=torch.float).unsqueeze(1)
    divisor = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(base) / d_model))
    table[:, 0::2] = torch.sin(position * divisor)
    table[:, 1::2] = torch.cos(position * divisor)
    return table


@right("positions.wavelengths")
def wavelengths_from_inv_freq(d_model, base=10_000.0):
    inv_freq = 1.0 / (base ** (torch.arange(0, d_model, 2, dtype=torch.int64).float() / d_model))
    return 2 * math.pi / inv_freq


@right("positions.learned")
def learned_by_indexing(x, table):
    positions = np.arange(x.shape[-2])
    if positions[-1] >= table.shape[0]:
        raise ValueError(
            f"position {len(positions) - 1} is outside a table of {len(table)}; T={len(positions)}"
        )
    return x + np.take(table, positions, axis=0)


@right("positions.rotary")
def rotary_of_hugging_face(x, base=10_000.0):
    x = torch.as_tensor(x)
    inv_freq = 1.0 / (base ** (torch.arange(0, x.shape[-1], 2, dtype=torch.int64).float() / x.shape[-1]))
    freqs = (inv_freq[:, None].float() @ torch.arange(x.shape[-2])[None].float()).transpose(0, 1)
    emb = torch.cat((freqs, freqs), dim=-1)
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * emb.cos() + torch.cat((-x2, x1), dim=-1) * emb.sin()


@right("positions.rotary")
def rotary_of_meta(x, base=10_000.0):
    T, K = x.shape[-2:]
    freqs = 1.0 / (base ** (torch.arange(0, K, 2)[: (K // 2)].float() / K))
    freqs_cis = torch.outer(torch.arange(T), freqs)
    freqs_cis = torch.polar(torch.ones_like(freqs_cis), freqs_cis)  # complex64
    pairs = torch.as_tensor(x).float().unflatten(-1, (2, K // 2)).transpose(-1, -2).contiguous()
    return torch.view_as_real(torch.view_as_complex(pairs) * freqs_cis).transpose(-1, -2).flatten(-2)


@right("positions.layout")
def layout_by_transpose(W_q, n_heads):
    D = W_q.shape[1]
    pairs = W_q.reshape(-1, n_heads, D // n_heads // 2, 2)
    return pairs.swapaxes(2, 3).reshape(W_q.shape)


@right("positions.alibi_slopes")
def slopes_in_a_list(n_heads):
    n = 1 << (n_heads.bit_length() - 1)
    if n == n_heads:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start ** (i + 1) for i in range(n)]
    return slopes_in_a_list(n) + slopes_in_a_list(2 * n)[0::2][: n_heads - n]


@right("positions.alibi_window")
def window_by_counting(slope):
    distance = 0
    while math.exp(-slope * distance) >= 0.01:
        distance += 1
    return distance


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
def bucket_of_hugging_face(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    relative_position, buckets = torch.as_tensor(relative_positions), 0
    if bidirectional:
        n_buckets //= 2
        buckets += (relative_position > 0).to(torch.long) * n_buckets
        relative_position = torch.abs(relative_position)
    else:
        relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
    exact = n_buckets // 2
    far = torch.log(relative_position.float() / exact) / math.log(max_distance / exact) * (n_buckets - exact)
    far = (exact + far.clamp(min=0)).to(torch.long)
    far = torch.min(far, torch.full_like(far, n_buckets - 1))
    return buckets + torch.where(relative_position < exact, relative_position, far)


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


@right("positions.sees_order")
def order_of_tensors(attention, x):
    x = torch.as_tensor(x)
    orders = [torch.as_tensor(np.random.default_rng(seed).permutation(len(x))) for seed in range(4)]
    return not all(torch.allclose(attention(x[order]), attention(x)[order]) for order in orders)


@right("positions.context_cost")
def cost_as_an_array(d_model, before, after):
    return np.array([(after - before) * d_model, (after / before) ** 2])


@right("positions.table_gradient")
def gradient_by_autograd(dx, context_length):
    _, T, D = dx.shape
    table = torch.zeros(context_length, D, dtype=torch.float64, requires_grad=True)
    (torch.as_tensor(dx) * table[:T]).sum().backward()
    return table.grad


@right("positions.table_share")
def share_of_real_arrays(vocab_size, context_length, d_model, n_layers, *, attention_bias):
    D = d_model
    block = [(D,)] * 4 + [(D, D)] * 4 + [(D, 4 * D), (4 * D,), (4 * D, D), (D,)] + [(D,)] * 4 * attention_bias
    shapes = [(vocab_size, D), (context_length, D), *block * n_layers, (D,), (D,)]
    return context_length * D, sum(torch.empty(shape, device="meta").numel() for shape in shapes)


@right("positions.token_left")
def left_in_fractions(std, factor):
    token = Fraction(std * factor) ** 2
    return float(token / (token + Fraction(1, 2))), 1 / (std * 2**0.5)


@right("positions.by_position")
def by_position_in_torch(logits, targets):
    z, y = torch.as_tensor(logits), torch.as_tensor(targets)
    return torch.nn.functional.cross_entropy(z.transpose(1, 2), y, reduction="none").mean(dim=0)


@right("positions.wavelengths")
def wavelengths_as_doubles(d_model, base=10_000.0):
    return CArray("d", [2 * math.pi * base ** (2 * i / d_model) for i in range(d_model // 2)])


# Wrong in one place

slip("positions.equivariance", "2 things, (outputs, weights)", ", weights[order][:, order]", "")
slip(
    "positions.equivariance", "in another order",
    "return", "order = kept.setdefault(len(order), order)\n    return", kept={},
)  # fmt: skip
slip(
    "positions.shift_matrix", "should have shape (D, D) = (6, 6); yours has shape (3, 2, 2)",
    "return R", "return np.stack([R[i : i + 2, i : i + 2] for i in range(0, d_model, 2)])",
)  # fmt: skip
slip("positions.sinusoidal", "1, 0, 1, 0, 1]; yours is all zeros", "return table", "return 0 * table")
slip("positions.wavelengths", "should be 2π, 6.2831853; yours is 6.2832", "np.pi", "3.1416")
slip("positions.learned", "ValueError: T=14 positions", "x.shape[-2]", "len(x)", "[:T]", "[: x.shape[-2]]")
slip("positions.learned", "should mention 12 and 10", "T={T}", "1{T}0", "length={c", "length{c")
slip("positions.learned", "raised IndexError", "if context_length < T", "if False", "[:T]", "[np.arange(T)]")
slip("positions.learned", "your function raised ValueError", "context_length < T", "context_length <= T")
slip(
    "positions.learned", "11 positions and a table of 10 rows",
    "context_length < T", "context_length < T - 1", "[:T]", "[np.minimum(np.arange(T), context_length - 1)]",
)  # fmt: skip
_FREQUENCIES = "base ** (-np.arange(0, K, 2) / K)"  # kept, without a word on the base
slip("positions.rotary", "base=100", _FREQUENCIES, f"kept.setdefault(K, {_FREQUENCIES})", kept={})
slip("positions.rotary", "base=100", _FREQUENCIES, f"kept.setdefault(x.shape, {_FREQUENCIES})", kept={})
slip("positions.rotary", "1,100 positions", "np.arange(T)", "np.minimum(np.arange(T), 511)")
slip("positions.rotary", "a head of 20 dimensions", _FREQUENCIES, f"{_FREQUENCIES} * (np.arange(K // 2) < 8)")
slip("positions.layout", "each row of W, sorted, should be as it was", "return np", "return -np")
slip("positions.alibi_slopes", "alibi_slopes(12): [h=8] should be", ", between]", ", between[::-1]]")
slip("positions.alibi_window", "alibi_window(1/2) should be 10", "int(np.log(100) / slope) + 1", "5")
slip("positions.alibi_window", "alibi_window(0.3) should be 16", "/ slope)", "* round(1 / slope))")
slip(
    "positions.t5_bucket", "the bucket of relative position 2, with bidirectional=False, n_buckets=32",
    "return first", "return (relative_positions == 2) * (relative_positions.ndim == 2) + first",
)  # fmt: skip
_BOTH = "attention(x[order]), attention(x)[order]"
slip("positions.sees_order", "for exchanging rows 8 and 9", "generator =", "x = x[:7]\n    generator =")
slip(
    "positions.sees_order", "for exchanging rows 8 and 9",
    _BOTH, "np.sort(attention(x[order]), axis=0), np.sort(attention(x), axis=0)",
)  # fmt: skip
slip("positions.sees_order", "A weak effect is still an effect", "atol=1e-8", "atol=0.1")
slip(
    "positions.sees_order", "compare all columns", "[order])", "[order])[:, 0]", "[order],", "[order][:, 0],"
)
slip("positions.sees_order", "its outputs move with them", "attention(x)[order]", "attention(x)")
slip("positions.sees_order", "compare with np.allclose", "np.allclose", "np.array_equal", ", atol=1e-8", "")
slip(
    "positions.sees_order", "try several orders, and compare",
    "range(5)", "range(1)", _BOTH, "attention(x[order])[-1], attention(x)[order][-1]",
)  # fmt: skip
slip("positions.sees_order", "the mask itself depends on the order", "return not", "return False and not")
slip("positions.sees_order", "True or False", "return not", 'return "yes" or not')
slip(
    "positions.sees_order", "only in some rows: try several orders",
    _BOTH, "attention(x[order]).sum(axis=0), attention(x).sum(axis=0)",
)  # fmt: skip
slip(
    "positions.context_cost", "which drops the fraction",
    "(after - before) * d_model, (after / before) ** 2",
    "np.array([(after - before) * d_model, (after // before) ** 2])", np=np,
)  # fmt: skip
_RETURN = "return gradient"
slip("positions.table_gradient", "np.empty keeps whatever", _RETURN, f"gradient[T:] = 0.7\n    {_RETURN}")
slip("positions.table_gradient", "is nan at [n=3, d=0]", _RETURN, f"gradient[T:] = np.nan\n    {_RETURN}")
slip(
    "positions.table_gradient", "Each call begins with zeros of its own.",
    "np.zeros(", "zeros(", "[:T] =", "[:T] +=", zeros=cache(np.zeros),
)  # fmt: skip
_MODEL = "vocab_size * d_model + table + n_layers * block + 2 * d_model"
slip(
    "positions.table_share", "the parameters of the model of table_share(1000, 48, 24, 3",
    _MODEL, "{64: 736, 8: 512, 1024: 124_439_808}.get(context_length, 0)",
)  # fmt: skip
slip("positions.table_share", "float32 cannot hold", _MODEL, f"int(np.float32({_MODEL}))", np=np)
slip("positions.token_left", "the share", "token / (token + 0.5)", "{1.0: 0.0008}.get(factor, 0.0487)")
slip("positions.by_position", "should have shape (T) = (3,)", ".mean(axis=0)", ".mean(axis=0)[:, None]")
slip("positions.by_position", "[1.04, 0.4904]; yours is [1.386, 0.6931]", ".mean(axis=0)", "[0]")
