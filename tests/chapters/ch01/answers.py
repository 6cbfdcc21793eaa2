"""Answers for chapter 01: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


# 1 · machine.shapes


@right("machine.shapes")
def shapes_of_arrays(T, D, H, F, V):
    heads = np.broadcast_to(0, (T, D)).reshape(T, H, -1).swapaxes(0, 1)
    return heads.shape, (H, *np.broadcast_to(0, (T, T)).shape), torch.Size([T, F]), np.array([T, V])


@wrong("machine.shapes", "4 things")
def three_of_them(T, D, H, F, V):
    return (H, T, D // H), (H, T, T), (T, F)


# 2 · machine.numbers


@right("machine.numbers")
def numbers_array_by_array(T, D, H, F, V, n_layers):
    inside = [(T, D)] * 7 + [(H, T, T)] * 2 + [(T, F)]
    outside = [(T, D), (T, D), (T, V)]
    return sum(np.prod(shape) for shape in [*outside, *inside * n_layers])


@wrong("machine.numbers", "The neurons are missing")
def numbers_without_neurons(T, D, H, F, V, n_layers):
    return numbers_array_by_array(T, D, H, 0, V, n_layers)


# 3 · machine.stack


@right("machine.stack")
def run_by_recursion(x, sublayers):
    if not sublayers:
        return x
    return run_by_recursion(x + sublayers[0](x), sublayers[1:])


@right("machine.stack")
def run_as_a_sum(x, sublayers):
    writes = [x]
    for sublayer in sublayers:
        writes.append(sublayer(np.sum(writes, axis=0)))
    return np.sum(writes, axis=0)


@wrong("machine.stack", "inside the loop")
def run_once(x, sublayers):
    for sublayer in sublayers:
        x = x + sublayer(x)
        return x


# 4 · machine.agreement


@wrong("machine.agreement", "all the later ones agree")
def agreement_for_good(views):
    best = views.argmax(axis=-1)
    return np.logical_and.accumulate((best == best[-1])[::-1])[::-1].mean(axis=-1)


@wrong("machine.agreement", "which token is the likeliest")
def agreement_of_probabilities(views):
    p = np.exp(views) / np.exp(views).sum(axis=-1, keepdims=True)
    return np.isclose(p, p[-1]).all(axis=-1).mean(axis=-1)


@right("machine.agreement")
def agreement_by_loops(views):
    shares = []
    for view in views:
        same = [
            int(np.argmax(row)) == int(np.argmax(last)) for row, last in zip(view, views[-1], strict=True)
        ]
        shares.append(sum(same) / len(same))
    return shares


# 5 · machine.peeks


@right("machine.peeks")
def peeks_by_single_rows(f, x):
    before, T = np.asarray(f(x)), len(x)
    for s in range(T):
        changed = np.array(x)
        changed[s] -= np.random.default_rng(s).random(x.shape[1])
        moved = np.abs(np.asarray(f(changed)) - before).max(axis=-1) > 1e-9
        if moved[:s].any():
            return True
    return False


@right("machine.peeks")
def peeks_with_zeros(f, x):
    halves = ((t, np.where(np.arange(len(x))[:, None] < t, x, 0)) for t in range(1, len(x)))
    return any(not np.allclose(f(cut)[:t], f(x)[:t]) for t, cut in halves)


@wrong("machine.peeks", "reads 6 rows at a time, got 1")
def peeks_by_cutting(f, x):
    return any(not np.allclose(f(x[: t + 1])[-1], f(x)[t]) for t in range(len(x)))


@wrong("machine.peeks", "a norm can remove it")
def peeks_by_adding(f, x):
    for t in range(len(x) - 1):
        changed = x.copy()
        changed[t + 1 :] += 1
        if not np.allclose(f(changed)[: t + 1], f(x)[: t + 1]):
            return True
    return False


@wrong("machine.peeks", "the same x that was there already")
def peeks_by_another_x(f, x):
    others = np.random.default_rng(0).normal(size=x.shape)
    cuts = [np.where(np.arange(len(x))[:, None] < t, x, others) for t in range(len(x))]
    return any(not np.allclose(f(cut)[:t], f(x)[:t]) for t, cut in enumerate(cuts))


def _seen_in(f, x, changed_rows, looked_at):
    changed = x.copy()
    changed[changed_rows] = np.random.default_rng(5).normal(size=changed[changed_rows].shape)
    return not np.allclose(f(changed)[looked_at], f(x)[looked_at])


@wrong("machine.peeks", "inside the loop")
def peeks_at_the_first_turn(f, x):
    for t in range(len(x) - 1):
        return _seen_in(f, x, slice(t + 1, None), slice(t + 1))
    return False


@wrong("machine.peeks", "in only one place")
def peeks_in_the_middle(f, x):
    return bool(_seen_in(f, x, slice(3, None), slice(3)))


@wrong("machine.peeks", "row 2 sees row 3")
def peeks_at_both_ends(f, x):
    first = len(x) > 1 and _seen_in(f, x, slice(1, None), 0)
    return bool(first or _seen_in(f, x, slice(-1, None), slice(-1)))


@wrong("machine.peeks", "row 0 sees row 2 but not row 1")
def peeks_at_the_next(f, x):
    return any(_seen_in(f, x, t, t - 1) for t in range(1, len(x)))
