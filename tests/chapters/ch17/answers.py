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


@right("state.chunk")
def chunk_by_loop(q, k, v, log_decay, state):
    outputs = []
    for t, g in enumerate(log_decay):
        state = math.exp(g) * state + k[t][:, None] * v[t]
        outputs.append(q[t] @ state)
    return outputs, state


@right("state.chunk")
def chunk_by_the_state_as_a_first_position(q, k, v, log_decay, state):
    """Treats each row of the old state as a value that was written before the chunk, under a key of its own."""
    K = len(state)
    q, k, v, g = map(
        torch.as_tensor, (q, np.concatenate([np.eye(K), k]), np.concatenate([state, v]), log_decay)
    )
    total = torch.cat([torch.zeros(K), g.cumsum(dim=0)])
    between = total[K:, None] - total
    between = between.masked_fill(torch.ones_like(between, dtype=torch.bool).triu(K + 1), -math.inf)
    left = (total[-1] - total).exp()
    return (q @ k.T * between.exp()) @ v, torch.einsum("c,ck,cu->ku", left, k, v)


@wrong("state.chunk", "Each position writes first")
def chunk_that_reads_before_it_writes(q, k, v, log_decay, state):
    outputs = []
    for t, g in enumerate(log_decay):
        state = math.exp(g) * state
        outputs.append(q[t] @ state)
        state = state + np.outer(k[t], v[t])
    return np.array(outputs), state


@wrong("state.chunk", "A position's own decay comes before it writes")
def chunk_that_decays_after_the_write(q, k, v, log_decay, state):
    outputs = []
    for t, g in enumerate(log_decay):
        state = math.exp(g) * (state + np.outer(k[t], v[t]))
        outputs.append(q[t] @ state)
    return np.array(outputs), state


@wrong("state.chunk", "A position decays first, then it writes")
def chunk_that_divides_by_its_own_decay(q, k, v, log_decay, state):
    before = np.cumsum(log_decay) - log_decay
    decay = np.tril(np.exp(np.minimum(before[:, None] - np.cumsum(log_decay), 0)))
    outputs = (np.exp(before)[:, None] * q) @ state + (q @ k.T * decay) @ v
    return outputs, chunk_by_loop(q, k, v, log_decay, state)[1]


@right("state.solve")
def writes_by_forward_substitution(k, v, strength, state):
    written = np.zeros(v.shape)
    for t in range(len(k)):
        found = k[t] @ state + (k[:t] @ k[t]) @ written[:t]
        written[t] = strength[t] * (v[t] - found)
    return written


@right("state.solve")
def writes_by_a_triangular_solver(k, v, strength, state):
    k, v, strength, state = map(torch.as_tensor, (k, v, strength, state))
    lower = (strength[:, None] * (k @ k.T)).tril(-1)
    error = strength[:, None] * (v - k @ state)
    return torch.linalg.solve_triangular(lower, error, upper=False, unitriangular=True)


@right("state.solve")
def writes_by_a_product_of_powers(k, v, strength, state):
    """(I + L)⁻¹ = (I − L)(I + L²)(I + L⁴)…, since L to the power C is 0."""
    power, written = -np.tril(strength[:, None] * (k @ k.T), -1), strength[:, None] * (v - k @ state)
    while power.any():
        written, power = written + power @ written, power @ power
    return written


@wrong("state.solve", "Each of your positions sees the old state alone")
def writes_without_looking(k, v, strength, state):
    return np.array([b * (value - state.T @ key) for b, key, value in zip(strength, k, v, strict=True)])


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


@wrong("state.delta_gradient", "should return 5 things")
def step_without_its_query(grad_out, grad_state, state, q, k, v, strength):
    one, _, *others = step_by_its_matrix(grad_out, grad_state, state, q, k, v, strength)
    return one, *others


@wrong("state.delta_gradient", "The key says where to write")
def step_of_plain_attention(grad_out, grad_state, state, q, k, v, strength):
    found = list(step_by_its_matrix(grad_out, grad_state, state, q, k, v, strength))
    found[2] = strength * (grad_state + np.outer(q, grad_out)) @ (v - state.T @ k)
    return found


@right("state.mamba")
def mamba_by_products(x, B, C, dt, A_log, D):
    x, B, C, dt = map(torch.as_tensor, (x, B, C, dt))
    total = (math.exp(A_log) * dt).cumsum(dim=0)
    decay = torch.exp(total - total[:, None]).tril()
    return (C @ B.T * decay * dt) @ x + D * x


@right("state.mamba")
def mamba_with_a_state_the_other_way_round(x, B, C, dt, A_log, D):
    h, y = np.zeros((x.shape[1], B.shape[1])), []
    for row, key, query, step in zip(x, B, C, dt, strict=True):
        h = h / math.exp(math.exp(A_log) * step) + step * row[:, None] * key
        y.append((h * query).sum(axis=1) + D * row)
    return y


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


@wrong("state.parity", 'the readings at "start", "1", "1" should be [1, -1, 1]; yours is [1, -1, -1]')
def parity_that_subtracts_two(token):
    return [1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]][token == "1"], -2.0 if token == "1" else 1.0, 1.0


def _counting():
    ones = 0

    def token_that_counts(token):
        nonlocal ones
        ones += token == "1"
        return [1.0], [1.0], (-1.0) ** ones, 1.0

    return token_that_counts


wrong("state.parity", "It must decide from the token alone")(_counting())


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


@wrong("state.mark", "should be a state; yours is a tuple")
def draft_with_its_number(state, step, draft, accepted):
    state = draft_by_deep_copy(state, step, draft, accepted)
    return state, len(draft)


# The book's answers with a slip
slip("state.chunk", "should return 2 things", ", np.exp(total[-1]) * state + left.T @ v", "")
slip("state.chunk", "changed its argument `state` in place", "    left =", "    state *= 1.5\n    left =")
slip("state.solve", "should have shape (C, U)", "v - k @ state))", "v - k @ state)).T")
slip("state.delta_gradient", "along the key", "k @ to_new", "to_new.sum(axis=0)")
slip("state.mamba", "Mamba-1", "dt[t] * x[t]", "-np.expm1(-np.exp(A_log) * dt[t]) * x[t] / np.exp(A_log)")
slip("state.mamba", "changed its argument `x` in place", "    for t", "    x *= dt[:, None]\n    for t")
slip("state.parity", "yours is [1, -0.5]", "2.0 if", "1.5 if")
slip(
    "state.mark",
    "are enough",
    "    n = accepted()\n",
    "    n = accepted()\n    step(state.copy(), draft[0])\n",
)


# What a learner wrote, and the verdict that it needs
@wrong("state.forget", "You made the whole state fade")
def gated_delta_by_average(q, k, v, strength, log_decay, state):
    read = []
    for t, decay in enumerate(np.exp(log_decay).reshape(len(q), -1, 1)):
        state = (1 - strength[t]) * decay * state + strength[t] * np.outer(k[t], v[t])
        read.append(q[t] @ state)
    return read, state


@wrong("state.chunk", "if you subtract first")
def chunk_with_a_small_number_below(q, k, v, log_decay, state):
    decay = np.exp(np.cumsum(log_decay))
    outputs = decay[:, None] * (q @ state) + (q @ k.T * np.tril(decay[:, None] / (decay + 1e-12))) @ v
    return outputs, chunk_by_loop(q, k, v, log_decay, state)[1]


@wrong("state.chunk", "if you subtract first")
def chunk_without_its_nan(q, k, v, log_decay, state):
    decay = np.exp(np.cumsum(log_decay))
    with np.errstate(all="ignore"):
        between = np.tril(np.nan_to_num(decay[:, None] / decay))
    outputs = decay[:, None] * (q @ state) + (q @ k.T * between) @ v
    return outputs, chunk_by_loop(q, k, v, log_decay, state)[1]


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


@wrong("state.delta_gradient", "the error that is left after the write")
def step_with_the_error_of_the_new_state(grad_out, grad_state, state, q, k, v, strength):
    found = list(step_by_its_matrix(grad_out, grad_state, state, q, k, v, strength))
    new = state + strength * np.outer(k, v - k @ state)
    found[4] = k @ (grad_state + np.outer(q, grad_out)) @ (v - k @ new)
    return found


@wrong("state.mamba", "That is the delta rule")
def mamba_by_habit(x, B, C, dt, A_log, D):
    state, y = np.zeros((B.shape[1], x.shape[1])), []
    for t, decay in enumerate(np.exp(-np.exp(A_log) * dt)):
        state = decay * state
        state = state + dt[t] * np.outer(B[t], x[t] - B[t] @ state)
        y.append(C[t] @ state + D * x[t])
    return y


@wrong("state.parity", "compare with")
def parity_of_numbers(token):
    return [1.0], [1.0], float(token == "start"), {"start": 1.0, 1: 2.0}.get(token, 0.0)


@wrong("state.parity", "compare with")
def parity_that_knows_numbers_alone(token):
    return [1.0], [1.0], float(token not in (0, 1)), 2.0 if token == 1 else float(token != 0)


@wrong("state.parity", "You exchanged the value and the strength")
def parity_with_strength_and_value(token):
    return [1.0], [1.0], {"start": 1.0, "0": 0.0, "1": 2.0}[token], float(token == "start")


@wrong("state.parity", 'does every path end in `return`? (This was for the token "0".)')
def parity_without_zeros(token):
    if token != "0":
        return [1.0], [1.0], float(token == "start"), 1.0 + (token == "1")


def _counting_from_the_start():
    ones = 0

    def token_that_counts_from_the_start(token):
        nonlocal ones
        ones = 0 if token == "start" else ones + (token == "1")
        return [1.0], [1.0], (-1.0) ** ones, 1.0

    return token_that_counts_from_the_start


wrong("state.parity", "It must decide from the token alone")(_counting_from_the_start())


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


@wrong("state.mark", "You made a copy for every token")
def draft_with_a_copy_at_every_token(state, step, draft, accepted):
    states = []
    for token in draft:
        states.append(state.copy())
        state = step(state, token)
    return [*states, state][accepted()]


@wrong("state.mark", "an array: copy a state with state.copy()")
def draft_with_a_copy_of_numpy(state, step, draft, accepted):
    mark = np.copy(state)
    for token in draft:
        state = step(state, token)
    if accepted() == len(draft):
        return state
    for token in draft[: accepted()]:
        mark = step(mark, token)
    return mark


@wrong("state.mark", "yours is a tuple, (a state of 6.25, 4)")
def draft_with_its_length(state, step, draft, accepted):
    return draft_by_deep_copy(state, step, draft, accepted), len(draft)


@wrong("state.mark", "from a state that has already read the whole draft")
def draft_that_reads_on(state, step, draft, accepted):
    for token in draft:
        state = step(state, token)
    for token in draft[: accepted()] if accepted() < len(draft) else ():
        state = step(state, token)
    return state


@wrong("state.mark", "The rejected tokens must leave no trace")
def draft_that_keeps_all(state, step, draft, accepted):
    for token in draft:
        state = step(state, token)
    return state


slip(
    "state.chunk",
    "changed its argument `k` in place",
    "    earlier",
    "    k *= np.exp(total - log_decay[:1])[:, None]\n    earlier",
)
slip(
    "state.chunk",
    "You used the log decay of one position",
    "np.exp(total[-1]) * state",
    "np.exp(log_decay[-1:])[:, None] * state",
)
slip("state.mamba", "changed its argument `C` in place", "    state, y", "    C[1:] *= 2\n    state, y")
slip("state.delta_step", "should have shape (U,) = (2,)", "return q @ state, state", "return state, state")
slip("state.convolution", "(taps−1, E) = (2, 2)", "rows[T:]", "rows[T + 1 :]")
slip(
    "state.gated_norm",
    "You left out eps",
    "np.sqrt((read**2).mean(axis=-1, keepdims=True) + eps)",
    "np.sqrt((read**2).mean(axis=-1, keepdims=True))",
)
