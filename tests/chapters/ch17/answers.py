"""Answers for chapter 17: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

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


@right("state.reorder")
def linear_attention_by_running_sum(q, k, v, state):
    states = torch.as_tensor(state) + torch.einsum("tk,tu->tku", *map(torch.as_tensor, (k, v))).cumsum(dim=0)
    return torch.einsum("tk,tku->tu", torch.as_tensor(q), states), states[-1]


@wrong("state.reorder", "You applied softmax")
def linear_attention_by_softmax(q, k, v, state):
    scores = torch.as_tensor(np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf))
    return scores.softmax(dim=-1).numpy() @ v + q @ state, state + k.T @ v


@wrong("state.reorder", "read before their own position has written")
def linear_attention_of_the_past_alone(q, k, v, state):
    return np.tril(q @ k.T, -1) @ v + q @ state, state + k.T @ v


@wrong("state.reorder", "what later positions have written")
def linear_attention_both_ways(q, k, v, state):
    state = state + k.T @ v
    return q @ state, state


@right("state.delta_step")
def delta_step_by_matrix(state, q, k, v, strength):
    state = (np.eye(len(k)) - strength * np.outer(k, k)) @ state + strength * np.outer(k, v)
    return state.T @ q, state


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
def gated_delta_by_matrices(q, k, v, strength, log_decay, state):
    T, K = q.shape
    decay = np.exp(log_decay if log_decay.ndim == 2 else np.tile(log_decay[:, None], K))
    read = []
    for t in range(T):
        state = (np.eye(K) - strength[t] * np.outer(k[t], k[t])) @ np.diag(decay[t]) @ state
        state = state + strength[t] * np.outer(k[t], v[t])
        read.append(state.T @ q[t])
    return read, state


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


@wrong("state.forget", "(np.exp(log_decay[t])[:, None]")
def gated_delta_of_channels_alone(q, k, v, strength, log_decay, state):
    read = []
    for t in range(len(q)):
        state = np.asarray(np.exp(log_decay[t])[:, None]) * state
        state = state + strength[t] * np.outer(k[t], v[t] - k[t] @ state)
        read.append(q[t] @ state)
    return read, state


@right("state.convolution")
def convolution_by_torch(x, weight, past):
    rows = torch.as_tensor(np.concatenate([past, x]).T)
    y = functional.conv1d(rows[None], torch.as_tensor(weight.T)[:, None], groups=len(rows))
    return y[0].T, rows[:, -len(past) :].T


@right("state.convolution")
def convolution_position_by_position(x, weight, past):
    window, y = list(past), []
    for row in x:
        window.append(row)
        y.append((np.array(window) * weight).sum(axis=0))
        window.pop(0)
    return y, window


@right("state.convolution")
def convolution_by_numpy(x, weight, past):
    rows = np.concatenate([past, x])
    y = [np.convolve(a, w[::-1], mode="valid") for a, w in zip(rows.T, weight.T, strict=True)]
    return np.array(y).T, rows[-len(past) :]


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


@right("state.gated_norm")
def gated_norm_by_length(read, z, gain, eps, order):
    """Uses lengths for sizes, and halves of tanh for the sigmoid."""
    T, H, U = read.shape
    gate = z * (1 + np.tanh(z / 2)) / 2
    wide = read.reshape(T * H, U) if order == "norm first" else (read * gate).reshape(T, H * U)
    width = wide.shape[1]
    wide = wide * math.sqrt(width) / np.sqrt((wide**2).sum(axis=1) + width * eps)[:, None]
    normed = wide.reshape(T, H, U) * gain
    return normed * gate if order == "norm first" else normed


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


@wrong("state.bytes", "Your states have 2 bytes")
def bytes_in_bfloat16(config, length):
    states = sum(
        config["linear_num_value_heads"] * config["linear_key_head_dim"] * config["linear_value_head_dim"] * 2
        for i in range(config["num_hidden_layers"])
        if (config.get("layer_types") or "")[i : i + 1] == ["linear_attention"]
        or (not config.get("layer_types") and (i + 1) % config["full_attention_interval"])
    )
    return bytes_layer_by_layer(config, length) - states


# The book's answers with a slip
slip("state.reorder", "changed its argument `state` in place", "state = state + np", "state += np")
slip("state.reorder", "should return 2 things", "return read, state", "return read")
slip(
    "state.delta_step",
    "changed its argument `state` in place",
    "state = state + strength",
    "state += strength",
)
slip("state.delta_step", "should return 2 things", "return q @ state, state", "return state")
slip("state.forget", "in place", "state = decay[t] * state", "state *= decay[t]")
slip("state.forget", "multiply the columns", ".reshape(len(q), -1, 1)", "")
slip("state.convolution", "should have shape", "rows[T:]", "rows[T + 1 :]")
slip("state.convolution", "in place", "    y = np", "    past[-1:] = x[-1:]\n    y = np")
slip("state.gated_norm", "gate first", "axis=(-2, -1)", "axis=-2")
slip(
    "state.gated_norm",
    "You applied silu to what was read",
    "z / (1 + np.exp(-z))",
    "z * (1 / (1 + np.exp(-read)))",
)
slip("state.bytes", "a float", "n_states * (4", "n_states * (4.0")
slip("state.bytes", "KeyError", 'config.get("layer_types")', 'config["layer_types"]')
