"""Answers for chapter 17: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import copy
import math

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


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


@wrong("state.parity", "the readings at start 1 1 should be [1, -1, 1]; yours is [1, -1, -1]")
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
