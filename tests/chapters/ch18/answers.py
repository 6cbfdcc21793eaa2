"""Answers for chapter 18: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math
from collections import Counter

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


def softmax(z):
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@right("experts.router")
def route_by_torch(z, top_k, renormalize):
    """Chooses first, and applies softmax to the chosen scores or to all."""
    z = torch.as_tensor(z)
    best, chosen = (one[:, :top_k] for one in torch.sort(z, dim=-1, descending=True, stable=True))
    if renormalize:
        return chosen, best.softmax(dim=-1)
    return chosen, torch.exp(best - z.logsumexp(dim=-1, keepdim=True))


@right("experts.router")
def route_one_after_the_other(z, top_k, renormalize):
    """Takes the best expert that is left, A times."""
    chosen, weights = [], []
    for row in z:
        s = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        left, own = s.copy(), []
        for _ in range(top_k):
            own.append(int(np.argmax(left)))
            left[own[-1]] = -1.0
        chosen.append(own)
        weights.append(s[own] / s[own].sum() if renormalize else s[own])
    return chosen, weights


@wrong("experts.router", "A softmax over the chosen logits alone would renormalize")
def route_with_softmax_after_the_choice(z, top_k, renormalize):
    chosen = np.argsort(-z, axis=-1, kind="stable")[:, :top_k]
    powers = np.exp(np.take_along_axis(z, chosen, axis=-1) - z.max(axis=-1, keepdims=True))
    return chosen, powers / powers.sum(axis=-1, keepdims=True)


@right("experts.mixture")
def mixture_by_sorting(x, chosen, weights, experts):
    """Sorts all choices by expert, and cuts them where the next expert begins."""
    A = chosen.shape[1]
    order = np.argsort(chosen.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(chosen.ravel(), minlength=len(experts)))[:-1]
    y = np.zeros(x.shape)
    for expert, own in zip(experts, np.split(order, ends), strict=True):
        found = expert(x[own // A])  # perhaps no rows at all
        np.add.at(y, own // A, weights.ravel()[own, None] * found)
    return torch.as_tensor(y)


@right("experts.mixture")
def mixture_by_masks(x, chosen, weights, experts):
    y = 0 * x
    for i, expert in enumerate(experts):
        share = np.where(chosen == i, weights, 0).sum(axis=1)
        mine = (chosen == i).any(axis=1)
        if mine.any():
            y[mine] = y[mine] + share[mine][:, None] * np.asarray(expert(x[mine]))
    return y.tolist()


@wrong("experts.mixture", "You let your experts work on tokens that have not chosen them")
def mixture_of_everything(x, chosen, weights, experts):
    table = np.zeros((len(x), len(experts)))
    np.put_along_axis(table, chosen, weights, axis=1)
    return np.einsum("nx,xnd->nd", table, np.stack([expert(x) for expert in experts]))


@wrong("experts.mixture", "You called the experts with one token at a time")
def mixture_of_vectors(x, chosen, weights, experts):
    return [
        sum(w * experts[i](row) for i, w in zip(own, share, strict=True))
        for row, own, share in zip(x, chosen, weights, strict=True)
    ]


@right("experts.choice_bias")
def biased_route_by_torch(z, bias, top_k, rate):
    s, bias = torch.sigmoid(torch.as_tensor(z)), torch.as_tensor(bias)
    chosen = torch.sort(s + bias, dim=-1, descending=True, stable=True).indices[:, :top_k]
    weights = s.gather(-1, chosen)
    load = (chosen[..., None] == torch.arange(len(bias))).sum(dim=(0, 1)).double()
    return chosen, weights / weights.sum(dim=-1, keepdim=True), bias + rate * torch.sign(load.mean() - load)


@wrong("experts.choice_bias", "The bias is part of your weights")
def biased_route_whose_scores_are_replaced(z, bias, top_k, rate):
    s = 1 / (1 + np.exp(-z)) + bias
    chosen = np.argsort(-s, axis=-1, kind="stable")[:, :top_k]
    weights = np.take_along_axis(s, chosen, axis=-1)
    load = np.bincount(chosen.ravel(), minlength=len(bias))
    return chosen, weights / weights.sum(axis=-1, keepdims=True), bias + rate * np.sign(load.mean() - load)


@right("experts.balance")
def balance_by_autograd(p, chosen):
    p = torch.tensor(p, requires_grad=True)
    hits = torch.nn.functional.one_hot(torch.as_tensor(chosen), p.shape[1]).double()
    loss = p.shape[1] * (hits.mean(dim=(0, 1)) * p.mean(dim=0)).sum()
    loss.backward()
    return loss.detach(), p.grad


@wrong("experts.balance", "You treated f as if it changed")
def balance_by_autograd_through_a_soft_count(p, chosen):
    """Adds p − p to the counts, so that autograd takes them for probabilities."""
    p = torch.tensor(p, requires_grad=True)
    hits = torch.nn.functional.one_hot(torch.as_tensor(chosen), p.shape[1]).double().mean(dim=(0, 1))
    P = p.mean(dim=0)
    loss = p.shape[1] * ((hits + P - P.detach()) * P).sum()
    loss.backward()
    return loss.detach(), p.grad


@right("experts.router_gradient")
def router_gradient_by_autograd(grad, z, chosen, renormalize):
    z = torch.tensor(z, requires_grad=True)
    weights = z.softmax(dim=-1).gather(-1, torch.as_tensor(chosen))
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    weights.backward(torch.as_tensor(grad))
    return z.grad


@right("experts.router_gradient")
def router_gradient_of_two_softmaxes(grad, z, chosen, renormalize):
    """Renormalized, the weights are a softmax over the chosen logits: the others have no part in it."""
    found = np.zeros(z.shape)
    for row, g, scores, own in zip(found, grad, z, chosen, strict=True):
        powers = np.exp(scores - scores.max())
        w = powers[own] / (powers[own] if renormalize else powers).sum()
        if not renormalize:
            row -= powers / powers.sum() * (g @ w)
            row[own] += w * g
        else:
            row[own] = w * (g - g @ w)
    return found


@wrong("experts.router_gradient", "You treated the sum of the chosen probabilities as a constant")
def router_gradient_with_a_detached_sum(grad, z, chosen, renormalize):
    z = torch.tensor(z, requires_grad=True)
    weights = z.softmax(dim=-1).gather(-1, torch.as_tensor(chosen))
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True).detach()
    weights.backward(torch.as_tensor(grad))
    return z.grad


@right("experts.groups")
def groups_by_masks_of_torch(s, n_groups, top_groups, top_k):
    s = torch.as_tensor(s)
    grouped = s.unflatten(-1, (n_groups, -1))
    best = grouped.topk(2, dim=-1).values.sum(dim=-1)
    groups = torch.sort(best, dim=-1, descending=True, stable=True).indices[:, :top_groups]
    out = torch.ones_like(best, dtype=torch.bool).scatter(-1, groups, False)
    kept = grouped.masked_fill(out[..., None], -torch.inf).flatten(1)
    return torch.sort(kept, dim=-1, descending=True, stable=True).indices[:, :top_k]


@wrong("experts.groups", "A kept score may be below 0")
def groups_by_a_product(s, n_groups, top_groups, top_k):
    grouped = s.reshape(len(s), n_groups, -1)
    best = np.sort(grouped, axis=-1)[..., -2:].sum(axis=-1)
    mask = np.zeros(best.shape)
    np.put_along_axis(mask, np.argsort(-best, axis=-1, kind="stable")[:, :top_groups], 1.0, axis=-1)
    return np.argsort(-(grouped * mask[..., None]).reshape(s.shape), axis=-1, kind="stable")[:, :top_k]


# The book's answers with a slip
slip("experts.router", "changed its argument `z` in place", "    powers", "    z -= z.max()\n    powers")
slip("experts.router", "should have shape (N, A)", "take_along_axis(s, chosen, axis=-1)", "sort(s)[:, ::-1]")
slip("experts.mixture", "changed its argument `x` in place", "np.zeros(x.shape)", "x")
slip(
    "experts.choice_bias", "changed its argument `bias` in place", "    return", "    bias += 0.1\n    return"
)
slip("experts.choice_bias", "should return 3 things", ", bias + rate * np.sign(load.mean() - load)", "")
slip("experts.balance", "should return 2 things", ", np.tile(X * f / N, (N, 1))", "")
slip("experts.balance", "should be a single number", "(f * P).sum()", "(f * P)")
slip(
    "experts.router_gradient", "changed its argument `grad` in place",
    "grad = (grad - along) / total", "grad -= along",
)  # fmt: skip
slip("experts.router_gradient", "should have shape (N, X)", "return s *", "return grad * 1 if True else s *")
slip(
    "experts.groups",
    "changed its argument `s` in place",
    "    kept = np",
    "    grouped.sort()\n    kept = np",
)


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


# Wrong answers that an earlier judge accepted, or told something that misleads
@wrong("experts.router", 'kind="stable"')
def route_by_an_unstable_sort(z, top_k, renormalize):
    s = softmax(z)
    chosen = np.argsort(-s, axis=-1)[:, :top_k]
    weights = np.take_along_axis(s, chosen, axis=-1)
    return chosen, weights / weights.sum(axis=-1, keepdims=True) if renormalize else weights


@wrong("experts.router", "np.argpartition finds the best experts but does not sort them")
def route_by_a_partition(z, top_k, renormalize):
    s = softmax(z)
    chosen = np.argpartition(-s, top_k - 1, axis=-1)[:, :top_k]
    weights = np.take_along_axis(s, chosen, axis=-1)
    return chosen, weights / weights.sum(axis=-1, keepdims=True) if renormalize else weights


@wrong("experts.choice_bias", 'kind="stable"')
def biased_route_by_an_unstable_sort(z, bias, top_k, rate):
    s = 1 / (1 + np.exp(-z))
    chosen = np.argsort(-(s + bias), axis=-1)[:, :top_k]
    weights = np.take_along_axis(s, chosen, axis=-1)
    load = np.bincount(chosen.ravel(), minlength=len(bias))
    return chosen, weights / weights.sum(axis=-1, keepdims=True), bias + rate * np.sign(load.mean() - load)


@wrong("experts.groups", 'kind="stable"')
def groups_by_an_unstable_sort(s, n_groups, top_groups, top_k):
    grouped = s.reshape(len(s), n_groups, -1)
    best = np.argsort(-np.sort(grouped, axis=-1)[..., -2:].sum(axis=-1), axis=-1, kind="stable")
    kept = (best[:, :top_groups, None] == np.arange(n_groups)).any(axis=1)
    return np.argsort(-np.where(kept[..., None], grouped, -np.inf).reshape(s.shape), axis=-1)[:, :top_k]


slip(
    "experts.groups", "kind=\"stable\"", "np.argsort(-best, axis=-1, kind=\"stable\")",
    "np.argsort(-best, axis=-1)",
)  # fmt: skip


@wrong("experts.mixture", "from all A places")
def mixture_by_places(x, chosen, weights, experts):
    y = np.zeros(x.shape)
    for a in range(chosen.shape[1]):
        for i, expert in enumerate(experts):
            own = chosen[:, a] == i
            if own.any():
                y[own] += weights[own, a, None] * expert(x[own])
    return y


@wrong("experts.balance", "Your P leaves out the tokens")
def balance_of_the_chosen(p, chosen):
    hits = np.zeros(p.shape)
    np.put_along_axis(hits, chosen, 1.0, axis=1)
    N, X = p.shape
    f = hits.sum(axis=0) / hits.sum()
    return X * (f * (p * hits).mean(axis=0)).sum(), np.tile(X * f / N, (N, 1))


@wrong("experts.balance", "You took the gradient on to the logits")
def balance_back_to_the_logits(p, chosen):
    p = torch.as_tensor(p)
    z = (p + 1e-300).log().requires_grad_()
    hits = torch.nn.functional.one_hot(torch.as_tensor(chosen), p.shape[1]).double()
    loss = p.shape[1] * (hits.mean(dim=(0, 1)) * z.softmax(dim=1).mean(dim=0)).sum()
    loss.backward()
    return loss.detach(), z.grad


@wrong("experts.router_gradient", "You chose the experts again")
def router_gradient_of_the_best(grad, z, chosen, renormalize):
    best = np.argsort(-z, axis=-1, kind="stable")[:, : chosen.shape[1]]
    return router_gradient_by_autograd(grad, z, best, renormalize)


def _drops(chosen, n_experts, room):
    one_hot = chosen.reshape(-1, 1) == np.arange(n_experts)
    before = np.cumsum(one_hot, axis=0) - one_hot
    return ((one_hot * before).sum(axis=1) >= room).reshape(chosen.shape)


@wrong("experts.capacity", "You rounded before the end")
def drops_with_a_product_cut_off(chosen, n_experts, factor):
    return _drops(chosen, n_experts, -(-int(factor * chosen.size) // n_experts))


@wrong("experts.capacity", "You rounded before the end")
def drops_with_a_share_rounded_up(chosen, n_experts, factor):
    return _drops(chosen, n_experts, int(math.ceil(chosen.size / n_experts) * factor))


@wrong("experts.capacity", "You rounded before the end")
def drops_with_a_share_rounded_up_twice(chosen, n_experts, factor):
    return _drops(chosen, n_experts, math.ceil(math.ceil(chosen.size / n_experts) * factor))


@wrong("streams.sublayer", "you called the sublayer 2 times")
def streams_whose_sublayer_runs_twice(streams, reading, writing, mix, sublayer, eps):
    return streams_by_torch(streams, reading, writing, mix, lambda x: (sublayer(x) + sublayer(x)) / 2, eps)


@wrong("streams.sublayer", "Once is enough: all streams use the same y")
def streams_whose_sublayer_runs_for_each(streams, reading, writing, mix, sublayer, eps):
    after = [
        np.asarray(streams_by_torch(streams, reading, writing, mix, sublayer, eps))[:, m]
        for m in range(streams.shape[1])
    ]
    return np.stack(after, axis=1)


slip("experts.router", "You returned the weights first", "return chosen, weights", "return weights, chosen")
slip(
    "experts.router_gradient", "You put the gradients in the order of the experts' numbers",
    "    powers", "    chosen = np.sort(chosen, axis=-1)\n    powers",
)  # fmt: skip
slip(
    "experts.choice_bias", "You used the scores of each expert",
    "load.mean() - load", "s.mean() - s.mean(axis=0)",
)  # fmt: skip
slip("experts.capacity", "[False], [False], [True], [False]]; yours is", "np.ceil(", "np.floor(")
