"""Answers for chapter 17: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import copy
import math

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("state.reorder")
def linear_attention_by_scores(q, k, v, state):
    return np.tril(q @ k.T) @ v + q @ state, state + k.T @ v


@wrong("state.reorder", "read before their own position has written")
def linear_attention_of_the_past_alone(q, k, v, state):
    return np.tril(q @ k.T, -1) @ v + q @ state, state + k.T @ v


@right("state.delta_step")
def delta_step_as_gradient_descent(state, q, k, v, strength):
    """Goes one step down the squared difference between what the key finds and the value."""
    state, q, k, v = (torch.tensor(one) for one in (state, q, k, v))
    state.requires_grad_()
    (((k @ state - v) ** 2).sum() / 2).backward()
    state = (state - strength * state.grad).detach()
    return q @ state, state


@wrong("state.delta_step", "You made the whole state fade")
def delta_step_by_average(state, q, k, v, strength):
    state = state + strength * (np.outer(k, v) - state)
    return state.T @ q, state


@right("state.forget")
def gated_delta_by_torch(q, k, v, strength, log_decay, state):
    q, k, v, strength, log_decay, state = map(torch.as_tensor, (q, k, v, strength, log_decay, state))
    if log_decay.ndim == 1:
        log_decay = log_decay.unsqueeze(1)
    read = torch.zeros_like(v)
    for t, (key, value) in enumerate(zip(k, v, strict=True)):
        state = state * log_decay[t].exp().unsqueeze(1)
        found = (state * key.unsqueeze(1)).sum(dim=0)
        state = state + key.unsqueeze(1) * (strength[t] * (value - found))
        read[t] = (state * q[t].unsqueeze(1)).sum(dim=0)
    return read, state


@wrong("state.forget", "before it decayed")
def gated_delta_in_one_line(q, k, v, strength, log_decay, state):
    decay, read = np.exp(log_decay).reshape(len(q), -1, 1), []
    for t in range(len(q)):
        state = decay[t] * state + strength[t] * np.outer(k[t], v[t] - k[t] @ state)
        read.append(q[t] @ state)
    return read, state


@right("state.convolution")
def convolution_by_torch(x, weight, past):
    rows = torch.as_tensor(np.concatenate([past, x]).T)
    y = functional.conv1d(rows[None], torch.as_tensor(weight.T)[:, None], groups=len(rows))
    return y[0].T, rows[:, -len(past) :].T


@wrong("state.convolution", "in the opposite order")
def convolution_that_numpy_turns(x, weight, past):
    rows = np.concatenate([past, x])
    y = [np.convolve(a, w, mode="valid") for a, w in zip(rows.T, weight.T, strict=True)]
    return np.array(y).T, rows[-len(past) :]


@right("state.gated_norm")
def gated_norm_by_torch(read, z, gain, eps, order):
    read, z, gain = map(torch.as_tensor, (read, z, gain))
    if order == "norm first":
        return functional.rms_norm(read, read.shape[-1:], gain, eps) * functional.silu(z)
    return functional.rms_norm(read * functional.silu(z), read.shape[1:], gain, eps)


@right("state.bytes")
def bytes_layer_by_layer(config, length):
    found = 0
    for i in range(config["num_hidden_layers"]):
        if config.get("layer_types") is not None:
            full = config["layer_types"][i].startswith("full")
        else:
            full = (i + 1) % config["full_attention_interval"] == 0
        if full:
            found += 2 * length * config["num_key_value_heads"] * (config["head_dim"] + config["head_dim"])
            continue
        K, U = config["linear_key_head_dim"], config["linear_value_head_dim"]
        G, H = config["linear_num_key_heads"], config["linear_num_value_heads"]
        found += 4 * H * K * U + 2 * (G * K + G * K + H * U) * (config["linear_conv_kernel_dim"] - 1)
    return np.array(found)


# The book's answers with a slip
slip("state.reorder", "changed its argument `state` in place", "state = state + np", "state += np")
slip("state.delta_step", "should have shape (U,) = (2,)", "return q @ state, state", "return state, state")
slip("state.forget", "multiply the columns", ".reshape(len(q), -1, 1)", "")
slip("state.convolution", "(taps−1, E) = (2, 2)", "rows[T:]", "rows[T + 1 :]")
slip("state.gated_norm", "gate first", "axis=(-2, -1)", "axis=-2")
slip("state.bytes", "a float", "n_states * (4", "n_states * (4.0")
slip("state.chunk", "should return 2 things", ", np.exp(total[-1]) * state + left.T @ v", "")
slip("state.solve", "should have shape (C, U)", "v - k @ state))", "v - k @ state)).T")
slip("state.mamba", "changed its argument `x` in place", "    for t", "    x *= dt[:, None]\n    for t")
slip("state.parity", "yours is [1, -0.5]", "2.0 if", "1.5 if")
slip("state.mark", "are enough", "    n = acc", "    step(state.copy(), draft[0])\n    n = acc")


@right("state.chunk")
def chunk_by_loop(q, k, v, log_decay, state):
    outputs = []
    for t, g in enumerate(log_decay):
        state = math.exp(g) * state + k[t][:, None] * v[t]
        outputs.append(q[t] @ state)
    return outputs, state


@wrong("state.chunk", "A position's own decay comes before it writes")
def chunk_that_decays_after_the_write(q, k, v, log_decay, state):
    outputs = []
    for t, g in enumerate(log_decay):
        state = math.exp(g) * (state + np.outer(k[t], v[t]))
        outputs.append(q[t] @ state)
    return np.array(outputs), state


@right("state.solve")
def writes_by_forward_substitution(k, v, strength, state):
    written = np.zeros(v.shape)
    for t in range(len(k)):
        found = k[t] @ state + (k[:t] @ k[t]) @ written[:t]
        written[t] = strength[t] * (v[t] - found)
    return written


@right("state.delta_gradient")
def step_by_autograd(grad_out, grad_state, state, q, k, v, strength):
    leaves = [
        torch.tensor(one, requires_grad=True, dtype=torch.float64) for one in (state, q, k, v, strength)
    ]
    state, q, k, v, strength = leaves
    new = state + torch.outer(k, strength * (v - state.T @ k))
    loss = (new * torch.as_tensor(grad_state)).sum() + (new.T @ q) @ torch.as_tensor(grad_out)
    return torch.autograd.grad(loss, leaves)


@right("state.delta_gradient")
def step_by_its_matrix(grad_out, grad_state, state, q, k, v, strength):
    """S' = A S + β k vᵀ with A = I − β k kᵀ, so that k appears three times."""
    A = np.eye(len(k)) - strength * np.outer(k, k)
    g = grad_state + np.outer(q, grad_out)
    to_A, to_kv = g @ state.T, g
    return (
        A.T @ g,
        (A @ state + strength * np.outer(k, v)) @ grad_out,
        -strength * (to_A + to_A.T) @ k + strength * to_kv @ v,
        strength * k @ to_kv,
        k @ to_kv @ v - k @ to_A @ k,
    )


@right("state.mamba")
def mamba_by_products(x, B, C, dt, A_log, D):
    x, B, C, dt = map(torch.as_tensor, (x, B, C, dt))
    total = (math.exp(A_log) * dt).cumsum(dim=0)
    decay = torch.exp(total - total[:, None]).tril()
    return (C @ B.T * decay * dt) @ x + D * x


@right("state.parity")
def parity_with_a_constant(token):
    """Keeps a 1 under one key, and 0 or 1 under another: the value ½ with a strength of 2 exchanges these."""
    q, constant, count = [1.0, -2.0], [1.0, 0.0], [0.0, 1.0]
    return {
        "start": (q, constant, 1.0, 1.0), "0": (q, constant, 1.0, 1.0), "1": (q, count, 0.5, 2.0)
    }[token]  # fmt: skip


@right("state.parity")
def parity_with_a_slanted_key(token):
    k = torch.tensor([0.6, 0.0, -0.8], dtype=torch.float64)
    other = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    if token == "start":
        return 2 * k, -k, torch.tensor(-0.5), 1
    return 2 * k, (other if token == "0" else k), np.zeros(1), 2


@wrong("state.parity", 'the length of the key of "1"')
def parity_by_a_long_key(token):
    k = np.array([math.sqrt(2) if token == "1" else 1.0])
    return np.ones(1), k, float(token == "start"), float(token != "0")


@wrong("state.parity", "should be between 0 and 2")
def parity_with_a_strong_zero(token):
    return [1.0], [1.0], float(token == "start"), {"start": 1.0, "0": -0.5, "1": 2.0}[token]


@right("state.mark")
def draft_by_deep_copy(state, step, draft, accepted):
    mark, tokens = copy.deepcopy(state), list(draft)
    while tokens:
        state = step(state, tokens.pop(0))
    n = accepted()
    if n < len(draft):
        state = mark.copy()
        for i in range(n):
            state = step(state, draft[i])
    return state


@wrong("state.mark", "called accepted() after 1 of 4 tokens")
def draft_that_asks_after_each_token(state, step, draft, accepted):
    for n, token in enumerate(draft, start=1):
        mark = state.copy()
        state = step(state, token)
        if accepted() < n:
            return mark
    return state


# What a learner wrote, and the verdict that it needs
@wrong("state.chunk", "Subtract first")
def chunk_whose_state_alone_is_cured(q, k, v, log_decay, state):
    decay = np.exp(np.cumsum(log_decay))
    left = decay[-1] / (decay + 1e-12)
    return chunk_by_loop(q, k, v, log_decay, state)[0], decay[-1] * state + (left[:, None] * k).T @ v


@wrong("state.bytes", "There is room for taps − 1 inputs from the start")
def bytes_that_grow_at_first(config, length):
    taps = min(config["linear_conv_kernel_dim"], length + 1)
    return bytes_layer_by_layer(config | {"linear_conv_kernel_dim": taps}, length)


@wrong("state.solve", "You multiplied only the values by the strengths")
def writes_of_a_loop_with_strong_values(k, v, strength, state):
    written = []
    for key, value, beta in zip(k, v, strength, strict=True):
        written.append(beta * value - key @ state)
        state = state + np.outer(key, written[-1])
    return written


@wrong("state.delta_gradient", "in the part from the prediction")
def step_with_a_weak_prediction(grad_out, grad_state, state, q, k, v, strength):
    found = list(step_by_its_matrix(grad_out, grad_state, state, q, k, v, strength))
    g = grad_state + np.outer(q, grad_out)
    found[2] = strength * (g @ (v - k @ state)) - state @ (k @ g)
    return found


@wrong("state.parity", "does every path end in `return`?")
def parity_without_zeros(token):
    if token != "0":
        return [1.0], [1.0], float(token == "start"), 1.0 + (token == "1")


@right("state.mark")
def draft_that_asks_twice(state, step, draft, accepted):
    mark = copy.copy(state)
    for token in draft:
        state = step(state, token)
    if accepted() == len(draft):
        return state
    for token in draft[: accepted()]:
        mark = step(mark, token)
    return mark


@wrong("state.mark", "`step` needs what state.copy() or `step` has returned; yours has one number")
def draft_with_a_copy_of_numpy(state, step, draft, accepted):
    mark = np.copy(state)
    for token in draft:
        state = step(state, token)
    for token in draft[: accepted()]:
        mark = step(mark, token)
    return mark


@wrong("state.mark", "yours is a tuple, (a state of 6.25, 4)")
def draft_with_its_length(state, step, draft, accepted):
    return draft_by_deep_copy(state, step, draft, accepted), len(draft)
