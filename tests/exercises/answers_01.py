"""Chapter 01: right answers unlike the book's, and wrong ones that are told without being a classic mistake."""

import numpy as np
import torch

from .answers import Answers

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


@wrong("machine.numbers", "")
def numbers_without_neurons(T, D, H, F, V, n_layers):
    return numbers_array_by_array(T, D, H, 0, V, n_layers)


# 3 · machine.operations


@right("machine.operations")
def operations_product_by_product(T, D, F, V, n_layers):
    products = [(T, D, D)] * 4 + [(T, D, T), (T, T, D), (T, D, F), (T, F, D)]
    return 2 * sum(m * n * p for m, n, p in [*products * n_layers, (T, D, V)])


# 4 · machine.stack


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


@wrong("machine.stack", "argument")
def run_in_place(x, sublayers):
    for sublayer in sublayers:
        x += sublayer(x)
    return x


# 5 · machine.agreement


@right("machine.agreement")
def agreement_by_loops(views):
    shares = []
    for view in views:
        same = [
            int(np.argmax(row)) == int(np.argmax(last)) for row, last in zip(view, views[-1], strict=True)
        ]
        shares.append(sum(same) / len(same))
    return shares


@right("machine.agreement")
def agreement_in_torch(views):
    best = torch.as_tensor(views).argmax(dim=-1)
    return (best == best[-1]).double().mean(dim=-1)


# 6 · machine.peeks


@right("machine.peeks")
def peeks_by_cutting(f, x):
    """What a row says must not depend on whether anything follows."""
    return any(not np.allclose(f(x[: t + 1])[-1], f(x)[t]) for t in range(len(x)))


@right("machine.peeks")
def peeks_by_slopes(f, x):
    before, T = np.asarray(f(x)), len(x)
    for s in range(T):
        changed = np.array(x)
        changed[s] -= 3.0
        moved = np.abs(np.asarray(f(changed)) - before).max(axis=-1) > 1e-9
        if moved[:s].any():
            return True
    return False


@wrong("machine.peeks", "")
def peeks_halfway(f, x):
    changed = x.copy()
    changed[3:] += 1
    return not np.allclose(f(changed)[:3], f(x)[:3])
