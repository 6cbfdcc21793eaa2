"""Answers for chapter 18: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


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


@wrong("experts.router", "A softmax over the chosen scores alone would renormalize")
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
    """Renormalized, the weights are a softmax over the chosen scores: the others have no part in it."""
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
