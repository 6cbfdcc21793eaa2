"""Answers for chapter 18: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math
from collections import Counter

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("experts.active_parameters")
def parameters_layer_by_layer(config):
    """Adds up one layer after another, and then takes away what a token does not use."""
    total = idle = 0
    for i in range(config["num_hidden_layers"]):
        if i < config["first_k_dense_replace"]:
            total += 3 * config["hidden_size"] * config["intermediate_size"]
            continue
        one = 3 * config["hidden_size"] * config["moe_intermediate_size"]
        n_experts = config["n_routed_experts"] + (config.get("n_shared_experts") or 0)
        total += one * n_experts + (config["hidden_size"] + 1) * config["n_routed_experts"]
        idle += one * (config["n_routed_experts"] - config["num_experts_per_tok"])
    return np.array([total, total - idle])


@wrong("experts.active_parameters", "You left out the router's choice bias")
def parameters_without_a_bias(config):
    more = (config["num_hidden_layers"] - config["first_k_dense_replace"]) * config["n_routed_experts"]
    total, active = parameters_layer_by_layer(config)
    return [int(total) - max(0, more), int(active) - max(0, more)]


@wrong("experts.active_parameters", "TypeError")
def parameters_that_always_share(config):
    return parameters_layer_by_layer(config | {"n_shared_experts": 0 + config["n_shared_experts"]})


@right("experts.capacity")
def drops_by_a_sort(chosen, n_experts, factor):
    """Sorts all choices by their expert, and finds out which one each of them is there."""
    flat = torch.as_tensor(chosen).reshape(-1)
    order = torch.argsort(flat, stable=True)
    first = torch.searchsorted(flat[order], flat)
    rank = torch.empty_like(flat)
    rank[order] = torch.arange(len(flat))
    return (rank - first >= factor * len(flat) / n_experts).reshape(chosen.shape)


@right("experts.capacity")
def drops_by_columns(chosen, n_experts, factor):
    """Counts, for each expert, how often it was chosen so far."""
    one_hot = chosen.reshape(-1, 1) == np.arange(n_experts)
    before = np.cumsum(one_hot, axis=0) - one_hot
    late = (one_hot * before).sum(axis=1) >= math.ceil(factor * chosen.size / n_experts)
    return late.reshape(chosen.shape).tolist()


@wrong("experts.capacity", "first choices of all tokens before any second choice")
def drops_column_by_column(chosen, n_experts, factor):
    columns = drops_by_a_sort(chosen.T.reshape(-1, 1), n_experts, factor)
    return columns.reshape(chosen.shape[::-1]).T


@wrong("experts.capacity", "You dropped a token completely")
def drops_a_token_at_once(chosen, n_experts, factor):
    seen, late = Counter(), []
    for row in chosen.tolist():
        late.append([seen[expert] >= math.ceil(factor * chosen.size / n_experts) for expert in row])
        seen.update(row)
    return [[any(row)] * len(row) for row in late]


@right("experts.gate")
def gate_by_torch(h):
    gate, up = torch.as_tensor(h).unflatten(-1, (-1, 2)).unbind(dim=-1)
    gate, up = gate.clamp(max=7), up.clamp(min=-7, max=7)
    return (up + 1) * gate * torch.sigmoid(gate * 1.702)


@wrong("experts.gate", "You took the first half of the columns as gates")
def gate_of_split_halves(h):
    gate, up = np.split(h, 2, axis=1)
    return np.minimum(gate, 7) / (1 + np.exp(-1.702 * np.minimum(gate, 7))) * (np.clip(up, -7, 7) + 1)


@right("experts.mxfp4")
def decode_by_bits(stored, scales):
    """Computes sign, exponent and fraction of each number by themselves."""
    bits = np.stack([stored % 16, stored // 16], axis=-1).reshape(*scales.shape, 32).astype(float)
    sign, e, f = np.where(bits >= 8, -1, 1), bits % 8 // 2, bits % 2 / 2
    size = np.where(e > 0, (1 + f) * np.exp2(e - 1), f)
    decoded = np.ldexp(sign * size, scales.astype(int)[:, :, None] - 127)
    return decoded.reshape(len(scales), -1).tolist()


@right("experts.mxfp4")
def decode_by_torch(stored, scales):
    stored, scales = torch.as_tensor(stored), torch.as_tensor(scales)
    sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    table = torch.cat([sizes, -sizes])
    pairs = torch.stack([table[(stored & 15).long()], table[(stored >> 4).long()]], dim=-1)
    return torch.ldexp(pairs.flatten(2), scales[..., None].int() - 127).flatten(1)


@wrong("experts.mxfp4", "wrapped round")
def decode_with_small_integers(stored, scales):
    wrapped = (scales.astype(int) - 127) % 256 + 127
    return decode_by_bits(stored, wrapped)


# The book's answers with a slip
slip("experts.active_parameters", "should return 2 things", "return total, active", "return active")
slip("experts.active_parameters", "a float", "3 * D * F", "3.0 * D * F")
slip("experts.capacity", "should be True or False", "np.zeros((N, A), bool)", "np.zeros((N, A), int)")
slip("experts.capacity", "changed its argument `chosen` in place", "taken[expert] += 1", "chosen[n, a] = 0")
slip(
    "experts.gate",
    "changed its argument `h` in place",
    "    gate =",
    "    h.clip(None, 7, out=h)\n    gate =",
)
slip("experts.gate", "should have shape (N, F) = (1, 1)", "h[:, 0::2]", "h")
slip("experts.mxfp4", "should have shape (R, C) = (1, 32)", "reshape(R, 32 * G)", "reshape(R, G, 32)")
slip("streams.sinkhorn", "should return 2 things", "return mix, first * (grad - along)", "return (mix,)")
slip("streams.sinkhorn", "should not be zero everywhere", "first * (grad - along)", "0 * first")
slip("streams.sublayer", "changed its argument `streams` in place", "    y =", "    streams *= 2\n    y =")
slip("streams.sublayer", "should have shape (T, M, D) = (1, 2, 3)", "y = sublayer(x)", "return sublayer(x)")


@right("streams.sinkhorn")
def sinkhorn_by_autograd(z, steps, eps, grad):
    z = torch.tensor(z, requires_grad=True)
    mix = torch.softmax(z, dim=-1) + eps
    for step in range(steps):
        if step:
            mix = mix / (mix.sum(dim=1, keepdim=True) + eps)
        mix = mix / (mix.sum(dim=0, keepdim=True) + eps)
    mix.backward(torch.as_tensor(grad))
    return mix.detach(), z.grad


@wrong("streams.sinkhorn", "the sums are constants")
def sinkhorn_with_detached_sums(z, steps, eps, grad):
    z = torch.tensor(z, requires_grad=True)
    mix = torch.softmax(z, dim=-1) + eps
    for step in range(steps):
        if step:
            mix = mix / (mix.sum(dim=1, keepdim=True) + eps).detach()
        mix = mix / (mix.sum(dim=0, keepdim=True) + eps).detach()
    mix.backward(torch.as_tensor(grad))
    return mix.detach(), z.grad


@wrong("streams.sinkhorn", "Your last division is one of rows")
def sinkhorn_that_ends_with_rows(z, steps, eps, grad):
    mix = np.asarray(sinkhorn_by_autograd(z, steps, eps, grad)[0])
    return mix / (mix.sum(axis=1, keepdims=True) + eps), grad


@right("streams.sublayer")
def streams_by_torch(streams, reading, writing, mix, sublayer, eps):
    streams, reading, writing, mix = map(torch.as_tensor, (streams, reading, writing, mix))
    y = sublayer(torch.einsum("tm,tmd->td", reading.sigmoid() + eps, streams))
    return torch.einsum("tmn,tmd->tnd", mix, streams) + 2 * writing.sigmoid()[..., None] * y[:, None]


@right("streams.sublayer")
def streams_one_position_at_a_time(streams, reading, writing, mix, sublayer, eps):
    opened = [(1 + np.tanh(row / 2)) / 2 + eps for row in reading]
    y = sublayer(np.array([a @ x for a, x in zip(opened, streams, strict=True)]))
    return [
        m.T @ x + np.outer(1 + np.tanh(w / 2), f) for m, x, w, f in zip(mix, streams, writing, y, strict=True)
    ]


@wrong("streams.sublayer", "You ran the sublayer on one position at a time")
def streams_with_lonely_positions(streams, reading, writing, mix, sublayer, eps):
    parts = zip(streams, reading, writing, mix, strict=True)
    return [streams_by_torch(*(one[None] for one in part), sublayer, eps)[0] for part in parts]


@wrong("streams.sublayer", "You multiplied by mix without transposing it")
def streams_by_a_product_too_simple(streams, reading, writing, mix, sublayer, eps):
    return streams_by_torch(streams, reading, writing, np.swapaxes(mix, 1, 2), sublayer, eps)
