"""Answers for chapter 01: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("machine.shapes")
def shapes_of_arrays(T, D, H, F, V):
    heads = np.broadcast_to(0, (T, D)).reshape(T, H, -1).swapaxes(0, 1)
    return heads.shape, (H, *np.broadcast_to(0, (T, T)).shape), torch.Size([T, F]), np.array([T, V])


@right("machine.numbers")
def numbers_array_by_array(T, D, H, F, V, n_layers):
    inside = [(T, D)] * 7 + [(H, T, T)] * 2 + [(T, F)]
    outside = [(T, D), (T, D), (T, V)]
    return sum(np.prod(shape) for shape in [*outside, *inside * n_layers])


@right("machine.stack")
def run_as_a_sum(x, sublayers):
    writes = [x]
    for sublayer in sublayers:
        writes.append(sublayer(np.sum(writes, axis=0)))
    return np.sum(writes, axis=0)


@right("machine.agreement")
def agreement_by_loops(views):
    shares = []
    for view in views:
        same = [
            int(np.argmax(row)) == int(np.argmax(last)) for row, last in zip(view, views[-1], strict=True)
        ]
        shares.append(sum(same) / len(same))
    return shares


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


# Wrong in one place

slip("machine.shapes", "4 things", ", (T, V)", "")
slip(
    "machine.peeks", "reads 6 rows at a time, got 1",
    "f(changed)[: t + 1], before[: t + 1]", "f(x[: t + 1])[-1], before[t]",
)  # fmt: skip
slip("machine.peeks", "row 2 sees row 3", "range(len(x) - 1)", "{0, max(0, len(x) - 2)}")
