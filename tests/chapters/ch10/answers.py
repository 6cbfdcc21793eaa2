"""Answers for chapter 10: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch

from tests.chapters.ch09.answers import whole_model
from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


# 1 · training.batches


@right("training.batches")
def batches_window_by_window(ids, size, length, generator):
    while True:
        pairs = []
        for _ in range(size):
            start = int(generator.integers(0, len(ids) - length))
            pairs.append((ids[start : start + length].tolist(), ids[start + 1 : start + length + 1].tolist()))
        yield [one for one, _ in pairs], [other for _, other in pairs]


@right("training.batches")
def batches_by_choice(ids, size, length, generator):
    windows = np.lib.stride_tricks.sliding_window_view(ids, length + 1)
    while True:
        some = torch.tensor(windows[generator.choice(len(windows), size)])
        yield some[:, :-1], some[:, 1:]


@wrong("training.batches", "should be a generator")
def batches_returned(ids, size, length, generator):
    starts = generator.integers(len(ids) - length, size=size)
    windows = ids[starts[:, None] + np.arange(length + 1)]
    return windows[:, :-1], windows[:, 1:]


@wrong("training.batches", "Does a window run past the end of the text?")
def batches_past_the_end(ids, size, length, generator):
    while True:
        starts = generator.integers(0, len(ids) - length + 1, size=size)
        windows = np.stack([ids[start : start + length + 1] for start in starts])
        yield windows[:, :-1], windows[:, 1:]


@wrong("training.batches", "inputs of a batch of 3 windows of 5 should have shape (B, T) = (3, 5)")
def batches_with_targets_inside(ids, size, length, generator):
    while True:
        starts = generator.integers(len(ids) - length, size=size)
        windows = ids[starts[:, None] + np.arange(length + 1)]
        yield windows, windows[:, 1:]


# 2 · training.clip


@right("training.clip")
def clip_only_if_long(gradients, max_norm):
    norm = np.linalg.norm(np.concatenate([np.ravel(g) for g in gradients.values()]))
    if norm <= max_norm:
        return dict(gradients), float(norm)
    return {name: (g * max_norm / norm).tolist() for name, g in gradients.items()}, norm


@right("training.clip")
def clip_by_torch(gradients, max_norm):
    weights = {
        name: torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)) for name, g in gradients.items()
    }
    for name, weight in weights.items():
        weight.grad = torch.tensor(gradients[name])
    norm = torch.nn.utils.clip_grad_norm_(list(weights.values()), max_norm)
    return {name: weight.grad for name, weight in weights.items()}, norm


@wrong("training.clip", "should be a pair")
def clip_without_length(gradients, max_norm):
    return {name: g / 5 for name, g in gradients.items()}


@wrong("training.clip", "should be a dictionary")
def clip_as_a_list(gradients, max_norm):
    return list(gradients.values()), 0.5


# 3 · training.rate_at


@right("training.rate_at")
def rate_as_the_smaller_of_two(step, peak, warmup, steps, final_share=0.1):
    up = (step + 1) / (warmup + 1)
    p = max(0, step - warmup) / (steps - warmup)
    return np.float64(peak * min(up, final_share + (1 - final_share) * math.cos(math.pi * p / 2) ** 2))


@wrong("training.rate_at", "should be 0.0055")
def rate_by_roots(step, peak, warmup, steps, final_share=0.1):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    return peak * final_share ** ((step - warmup) / (steps - warmup))


# 4 · training.adamw


@right("training.adamw")
def adamw_by_lerp(weight, grad, m, v, step, rate, betas=(0.9, 0.95), eps=1e-8, decay=0.1):
    one, other = betas
    m, v = m + (1 - one) * (grad - m), v + (1 - other) * (grad * grad - v)
    size = np.sqrt(v) / math.sqrt(1 - other**step) + eps
    return weight * (1 - rate * decay) - rate / (1 - one**step) * m / size, m, v


@wrong("training.adamw", "should be [-0.25, 0.25, -0.25]")
def adamw_with_signs_wrong(weight, grad, m, v, step, rate, betas=(0.9, 0.95), eps=1e-8, decay=0.1):
    m, v = betas[0] * m + (1 - betas[0]) * grad, betas[1] * v + (1 - betas[1]) * grad**2
    return weight - 2 * rate * np.sign(m), m, v


# 5 · training.accumulated


@right("training.accumulated")
def accumulated_by_average(pieces):
    return np.average([g for g, _ in pieces], axis=0, weights=[n for _, n in pieces])


@wrong("training.accumulated", "accumulated of two pieces of 5 targets, should be [2, 2]")
def accumulated_largest(pieces):
    return np.max([g for g, _ in pieces], axis=0)


# 6 · training.train


@right("training.train")
def train_array_by_array(weights, n_heads, batches, steps, *, peak=1e-2, warmup=20, max_norm=1.0):
    from glassformer.chapters.ch09.judges.gpt_gradients import gpt_gradients

    means = {name: np.zeros_like(w) for name, w in weights.items()}
    squares = {name: np.zeros_like(w) for name, w in weights.items()}
    source = iter(batches)
    for t in range(1, steps + 1):
        inputs, targets = next(source)
        loss, total = 0.0, {name: np.zeros_like(w) for name, w in weights.items()}
        for x, y in zip(inputs, targets, strict=True):
            one, found = gpt_gradients(x, y, weights, n_heads)
            loss += one / len(inputs)
            for name in total:
                total[name] += found[name] / len(inputs)
        long = math.sqrt(sum((g**2).sum() for g in total.values()))
        left = (t - 1 - warmup) / (steps - warmup)
        rate = peak * (t / (warmup + 1) if t <= warmup else 0.1 + 0.9 * (1 + math.cos(math.pi * left)) / 2)
        for name, w in weights.items():
            g = total[name] * min(1, max_norm / (long + 1e-6))
            means[name] = 0.9 * means[name] + 0.1 * g
            squares[name] = 0.95 * squares[name] + 0.05 * g * g
            size = np.sqrt(squares[name] / (1 - 0.95**t)) + 1e-8
            w *= 1 - rate * 0.1 * (w.ndim > 1)
            w -= rate * means[name] / (1 - 0.9**t) / size
        yield loss


@right("training.train")
def train_clipped_exactly(weights, n_heads, batches, steps, *, peak=1e-2, warmup=20, max_norm=1.0):
    from glassformer.chapters.ch09.judges.gpt_gradients import gpt_gradients
    from glassformer.chapters.ch10.judges.adamw import adamw
    from glassformer.chapters.ch10.judges.rate_at import rate_at

    memory = {name: (0.0, 0.0) for name in weights}
    for step, (inputs, targets) in zip(range(steps), batches, strict=False):
        found = [gpt_gradients(x, y, weights, n_heads) for x, y in zip(inputs, targets, strict=True)]
        mean = {name: sum(g[name] for _, g in found) / len(found) for name in weights}
        mean, _ = clip_only_if_long(mean, max_norm)
        rate = rate_at(step, peak, warmup, steps)
        for name, grad in mean.items():
            grad = np.asarray(grad)
            decay = 0.1 * (grad.ndim == 2)
            weights[name], *memory[name] = adamw(
                weights[name], grad, *memory[name], step + 1, rate, decay=decay
            )
        yield sum(loss for loss, _ in found) / len(found)


@wrong("training.train", "should be a generator")
def train_says_the_end(weights, n_heads, batches, steps, *, peak=1e-2, warmup=20, max_norm=1.0):
    return 3.0


@wrong("training.train", "`inputs, targets = batches[step]`")
def train_takes_by_index(weights, n_heads, batches, steps, *, peak=1e-2, warmup=20, max_norm=1.0):
    for step in range(steps):
        inputs, targets = batches[step]
        yield float(len(inputs) + len(targets))


# 7 · training.diagnose


@right("training.diagnose")
def diagnose_by_a_table(first, one_batch, training, validation, vocab_size, unigram):
    table = {
        "start": first - np.log(vocab_size) > 0.5,
        "broken": one_batch > 0.1,
        "targets": unigram - training < 0.05,
        "leak": validation < 0.5,
        "overfitting": validation - training > 0.3,
    }
    return np.array([*[name for name, holds in table.items() if holds], "fine"])[0]


@wrong("training.diagnose", "should be 'fine'")
def diagnose_all(first, one_batch, training, validation, vocab_size, unigram):
    return "broken"


# 8 · training.restore


@right("training.restore")
def restore_by_partition(arrays):
    found = {"weights": {}, "m": {}, "v": {}}
    for name, array in arrays.items():
        part, slash, own = name.partition("/")
        if slash:
            found[part][own] = np.array(array)
    return [*found.values(), arrays["step"].item()]


@wrong("training.restore", "should be a whole number")
def restore_with_an_array(arrays):
    weights, m, v, _ = restore_by_partition(arrays)
    return weights, m, v, arrays["step"].copy()


@wrong("training.restore", "should return four things")
def restore_weights_alone(arrays):
    return restore_by_partition(arrays)[0]


# 9 · training.gpt_torch


right("training.gpt_torch")(whole_model)


@wrong("training.gpt_torch", "should be a tensor")
def gpt_in_numpy(ids, weights, n_heads):
    from glassformer.chapters.ch08.judges.gpt import gpt

    return gpt(ids.numpy(), {name: w.detach().numpy() for name, w in weights.items()}, n_heads)


# 10 · training.orthogonal


@right("training.orthogonal")
def orthogonal_from_the_other_side(G, iterations=4):
    X = G / (G**2).sum() ** 0.5
    for _ in range(iterations):
        Z = X.T @ X
        X = X @ (3.4445 * np.eye(len(Z)) - 4.7750 * Z + 2.0315 * np.linalg.matrix_power(Z, 2))
    return X


@right("training.orthogonal")
def orthogonal_in_single_precision(G, iterations=4):
    X = torch.tensor(G, dtype=torch.float32)
    X = X / X.norm()
    for _ in range(iterations):
        Z = X @ X.T
        X = 3.4445 * X + (-4.7750 * Z + 2.0315 * Z @ Z) @ X
    return X


@wrong("training.orthogonal", "should be [[0.701]]; yours is [[2]]")
def orthogonal_signs(G, iterations=4):
    return 2 * np.sign(G)
