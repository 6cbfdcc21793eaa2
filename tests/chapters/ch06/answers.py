"""Answers for chapter 06: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


def tensors(*arrays):
    return [torch.as_tensor(array) for array in arrays]


# 1 · feedforward.relu


@right("feedforward.relu")
def relu_by_where(x):
    return np.where(x > 0, x, 0)


@wrong("feedforward.relu", "should have shape (5,); yours has shape ()")
def relu_with_the_wrong_max(x):
    return np.max(x, 0)


# 2 · feedforward.gelu


@right("feedforward.gelu")
def gelu_number_by_number(x):
    return np.vectorize(lambda n: n * (1 + math.erf(n / math.sqrt(2))) / 2)(x)


@right("feedforward.gelu")
def gelu_by_the_other_tail(x):
    from scipy.special import erfc

    return 0.5 * x * erfc(-x / np.sqrt(2))


@wrong("feedforward.gelu", "gelu([1, -1])")
def gelu_of_the_magnitude(x):
    return gelu_number_by_number(np.abs(x))


# 3 · feedforward.gelu_tanh


@right("feedforward.gelu_tanh")
def gelu_tanh_by_powers(x):
    inner = (2 / math.pi) ** 0.5 * x * (1 + 0.044715 * x * x)
    return 0.5 * x * (1 + np.tanh(inner))


@right("feedforward.gelu_tanh")
def gelu_tanh_as_a_sigmoid(x):
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@wrong("feedforward.gelu_tanh", "float64")
def gelu_tanh_in_double_precision(x):
    return gelu_tanh_by_powers(np.asarray(x, dtype=np.float64))


# 4 · feedforward.silu


@right("feedforward.silu")
def silu_by_tanh(x):
    return x * (1 + np.tanh(x / 2)) / 2


@wrong("feedforward.silu", "silu([1000, -1000])")
def silu_that_stops(x):
    return np.where(np.abs(x) > 500, 0, silu_by_tanh(x))


# 5 · feedforward.feed_forward


@right("feedforward.feed_forward")
def network_by_einsum(x, W_up, b_up, W_down, b_down):
    neurons = gelu_number_by_number(np.einsum("...d,df->...f", x, W_up) + b_up)
    return np.einsum("...f,fd->...d", neurons, W_down) + b_down


@right("feedforward.feed_forward")
def network_as_a_sum_over_neurons(x, W_up, b_up, W_down, b_down):
    y = np.zeros(x.shape) + b_down
    for key, b, value in zip(W_up.T, b_up, W_down, strict=True):
        y = y + gelu_number_by_number(x @ key + b)[..., None] * value
    return y


@wrong("feedforward.feed_forward", "should have shape")
def network_summed_over_positions(x, W_up, b_up, W_down, b_down):
    return network_by_einsum(x, W_up, b_up, W_down, b_down).sum(axis=0)


# 6 · feedforward.swiglu


@right("feedforward.swiglu")
def gated_in_one_product(x, W_gate, W_up, W_down):
    gate, up = np.split(x @ np.hstack([W_gate, W_up]), 2, axis=-1)
    return np.einsum("...f,...f,fd->...d", silu_by_tanh(gate), up, W_down)


@wrong("feedforward.swiglu", "matmul")
def gated_by_a_matrix_product(x, W_gate, W_up, W_down):
    return (silu_by_tanh(x @ W_gate) @ (x @ W_up)) @ W_down


# 7 · feedforward.hidden_width


@right("feedforward.hidden_width")
def width_by_steps(d_model, multiple=1):
    width = multiple
    while 3 * width < 8 * d_model:
        width += multiple
    return width


@right("feedforward.hidden_width")
def width_of_numpy(d_model, multiple=1):
    return int(np.ceil(8 / 3 * d_model / multiple) * multiple)


@wrong("feedforward.hidden_width", "float")
def width_as_a_float(d_model, multiple=1):
    return np.ceil(8 * d_model / 3 / multiple) * multiple


# 8 · feedforward.count


@right("feedforward.count")
def count_by_shapes(d_model, d_ff, gated=False, bias=True):
    shapes = [(d_model, d_ff)] * (1 + gated) + [(d_ff, d_model)]
    return sum(math.prod(shape) + bias * shape[1] for shape in shapes)


@wrong("feedforward.count", "17")
def count_of_biases_alone(d_model, d_ff, gated=False, bias=True):
    return d_model + d_ff


# 9 · feedforward.share


@right("feedforward.share")
def share_with_the_block_as_it_is_known(d_model, n_layers, vocab_size, context_length):
    D = d_model
    whole = D * (vocab_size + context_length) + n_layers * (12 * D**2 + 13 * D) + 2 * D
    return n_layers * (8 * D**2 + 5 * D) / whole


@wrong("feedforward.share", "should be 13/45, 0.2889; yours is 0.2222. The biases are missing")
def share_without_biases(d_model, n_layers, vocab_size, context_length):
    D = d_model
    whole = D * (vocab_size + context_length) + n_layers * (12 * D**2 + 4 * D) + 2 * D
    return n_layers * 8 * D**2 / whole


# 10 · feedforward.looks_sideways


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


@wrong("feedforward.looks_sideways", "You counted the rows that move")
def sideways_by_counting_rows(f, x):
    y = f(x)
    for t in range(len(x)):
        z = x.copy()
        z[t] += [1.0, -2, 0.5]
        if (abs(f(z) - y).max(axis=1) > 1e-9).sum() > 1:
            return True
    return False


def _seen_when_added(by):
    def looks_sideways(f, x):
        for t in range(len(x)):
            z = x.copy()
            z[t] += by
            if not np.allclose(np.delete(f(z), t, axis=0), np.delete(f(x), t, axis=0)):
                return True
        return False

    return looks_sideways


wrong("feedforward.looks_sideways", "as a norm does")(_seen_when_added(1))
wrong("feedforward.looks_sideways", "You changed one feature")(_seen_when_added(np.array([1, 0, 0])))


@wrong("feedforward.looks_sideways", "rows on one side alone")
def sideways_into_the_future_alone(f, x):
    for t in range(len(x)):
        z = x.copy()
        z[t] += [1.0, -2, 0.5]
        if abs(f(z) - f(x))[:t].max(initial=0) > 1e-9:
            return True
    return False


@wrong("feedforward.looks_sideways", "A row need not move")
def sideways_unless_one_row_moves(f, x):
    for t in range(len(x)):
        z = x.copy()
        z[t] += [1.0, -2, 0.5]
        if (abs(f(z) - f(x)).max(axis=1) > 1e-9).sum() != 1:
            return True
    return False


# 11 · feedforward.promoted


@right("feedforward.promoted")
def promoted_by_sorting(row, gain, head, n, sign=1):
    logits = [sign * sum(r * g * h for r, g, h in zip(row, gain, column, strict=True)) for column in head.T]
    return sorted(range(len(logits)), key=lambda i: -logits[i])[:n]


@right("feedforward.promoted")
def promoted_backwards(row, gain, head, n, sign=1):
    return np.argsort(sign * (head.T @ (gain * row)))[::-1][:n]


@wrong("feedforward.promoted", "The gain of the last norm is missing")
def promoted_backwards_without_the_gain(row, gain, head, n, sign=1):
    return np.argsort(sign * (row @ head))[::-1][:n]


@wrong("feedforward.promoted", "gain's absolute value")
def promoted_by_a_gain_without_its_sign(row, gain, head, n, sign=1):
    return np.argsort(-sign * ((row * np.abs(gain)) @ head))[:n]


@wrong("feedforward.promoted", "should have shape (n) = (3,); yours has shape (5,)")
def promoted_all(row, gain, head, n, sign=1):
    return np.argsort(-sign * ((row * gain) @ head))


# 12 · feedforward.stream_variance


@right("feedforward.stream_variance")
def variance_block_by_block(n_blocks, d_ff, deviation):
    variance = 1.0
    for _ in range(n_blocks):
        variance += d_ff * 0.5 * deviation**2
    return variance


@wrong("feedforward.stream_variance", "should be 1")
def variance_of_one_more(n_blocks, d_ff, deviation):
    return variance_block_by_block(n_blocks + 1, d_ff, deviation)
