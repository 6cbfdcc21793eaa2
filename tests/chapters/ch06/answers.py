"""Answers for chapter 06: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


def tensors(*arrays):
    return [torch.as_tensor(array) for array in arrays]


@right("feedforward.relu")
def relu_by_where(x):
    return np.where(x > 0, x, 0)


@right("feedforward.gelu")
def gelu_number_by_number(x):
    return np.vectorize(lambda n: n * (1 + math.erf(n / math.sqrt(2))) / 2)(x)


@right("feedforward.gelu")
def gelu_by_the_other_tail(x):
    from scipy.special import erfc

    return 0.5 * x * erfc(-x / np.sqrt(2))


@right("feedforward.gelu_tanh")
def gelu_tanh_by_powers(x):
    inner = (2 / math.pi) ** 0.5 * x * (1 + 0.044715 * x * x)
    return 0.5 * x * (1 + np.tanh(inner))


@right("feedforward.gelu_tanh")
def gelu_tanh_as_a_sigmoid(x):
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@right("feedforward.silu")
def silu_by_tanh(x):
    return x * (1 + np.tanh(x / 2)) / 2


@right("feedforward.feed_forward")
def network_as_a_sum_over_neurons(x, W_up, b_up, W_down, b_down):
    y = np.zeros(x.shape) + b_down
    for key, b, value in zip(W_up.T, b_up, W_down, strict=True):
        y = y + gelu_number_by_number(x @ key + b)[..., None] * value
    return y


@right("feedforward.swiglu")
def gated_in_one_product(x, W_gate, W_up, W_down):
    gate, up = np.split(x @ np.hstack([W_gate, W_up]), 2, axis=-1)
    return np.einsum("...f,...f,fd->...d", silu_by_tanh(gate), up, W_down)


@right("feedforward.hidden_width")
def width_by_steps(d_model, multiple=1):
    width = multiple
    while 3 * width < 8 * d_model:
        width += multiple
    return width


@right("feedforward.count")
def count_by_shapes(d_model, d_ff, gated=False, bias=True):
    shapes = [(d_model, d_ff)] * (1 + gated) + [(d_ff, d_model)]
    return sum(math.prod(shape) + bias * shape[1] for shape in shapes)


@right("feedforward.share")
def share_with_the_block_as_it_is_known(d_model, n_layers, vocab_size, context_length):
    D = d_model
    whole = D * (vocab_size + context_length) + n_layers * (12 * D**2 + 13 * D) + 2 * D
    return n_layers * (8 * D**2 + 5 * D) / whole


@right("feedforward.looks_sideways")
def sideways_by_another_row(f, x):
    before = np.array(f(x))
    moved = np.zeros((len(x), len(x)), dtype=bool)
    for t in range(len(x)):
        changed = np.array(x)
        changed[t] = 3.1 * x[t] + np.linspace(1, 2, x.shape[1])
        moved[t] = (abs(np.array(f(changed)) - before) > 1e-6).any(axis=1)
    return bool((moved & ~np.eye(len(x), dtype=bool)).any())


@right("feedforward.looks_sideways")
def sideways_by_changing_all_others(f, x):
    rng = np.random.default_rng(0)
    for t in range(len(x)):
        others = rng.normal(size=x.shape)
        others[t] = x[t]
        if not np.allclose(np.asarray(f(others))[t], np.asarray(f(x))[t]):
            return True
    return False


@right("feedforward.promoted")
def promoted_backwards(row, gain, head, n, sign=1):
    return np.argsort(sign * (head.T @ (gain * row)))[::-1][:n]


@right("feedforward.stream_variance")
def variance_block_by_block(n_blocks, d_ff, deviation):
    variance = 1.0
    for _ in range(n_blocks):
        variance += d_ff * 0.5 * deviation**2
    return variance


# Wrong in one place

slip("feedforward.relu", "should have shape (5,); yours has shape ()", "np.maximum", "np.max")
slip("feedforward.gelu", "gelu([1, -1])", "return", "x = np.abs(x)\n    return")
slip("feedforward.gelu_tanh", "float64", "return", "x = np.asarray(x, dtype=np.float64)\n    return")
slip("feedforward.silu", "silu([1000, -1000])", "return x", "return (np.abs(x) < 500) * x")
slip("feedforward.feed_forward", "should have shape", "return ", "return sum(", "+ b_down", "+ b_down)")
slip("feedforward.swiglu", "matmul", "* (x @ W_up)", "@ (x @ W_up)")
slip("feedforward.hidden_width", "float", "return ", "return 1.0 * ")
slip("feedforward.promoted", "should have shape (n) = (3,); yours has shape (5,)", "[:n]", "")
slip("feedforward.stream_variance", "should be 1", "1 + n_blocks", "1 + (n_blocks + 1)")
