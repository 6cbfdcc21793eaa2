"""Answers for chapter 10: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch

from tests.chapters.ch09.answers import whole_model
from tests.exercises.answers import Answers, edited

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("training.batches")
def batches_by_choice(ids, size, length, generator):
    windows = np.lib.stride_tricks.sliding_window_view(ids, length + 1)
    while True:
        some = windows[generator.choice(len(windows), size)]
        yield some[:, :-1], some[:, 1:]


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


@right("training.rate_at")
def rate_as_the_smaller_of_two(step, peak, warmup, steps, final_share=0.1):
    up = (step + 1) / (warmup + 1)
    p = max(0, step - warmup) / (steps - warmup)
    return np.float64(peak * min(up, final_share + (1 - final_share) * math.cos(math.pi * p / 2) ** 2))


@right("training.adamw")
def adamw_by_lerp(weight, grad, m, v, step, rate, betas=(0.9, 0.95), eps=1e-8, decay=0.1):
    one, other = betas
    m, v = m + (1 - one) * (grad - m), v + (1 - other) * (grad * grad - v)
    size = np.sqrt(v) / math.sqrt(1 - other**step) + eps
    return weight * (1 - rate * decay) - rate / (1 - one**step) * m / size, m, v


@right("training.accumulated")
def accumulated_by_average(pieces):
    return np.average([g for g, _ in pieces], axis=0, weights=[n for _, n in pieces])


@wrong("training.accumulated", "accumulated of two pieces of 5 targets, should be [2, 2]")
def accumulated_largest(pieces):
    return np.max([g for g, _ in pieces], axis=0)


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


right("training.train")(  # without the 1e-6 that PyTorch adds to the length
    edited(
        "training.train", "mean, _ = clip(mean, max_norm)",
        "long = math.sqrt(sum((g * g).sum() for g in mean.values()))\n"
        "        mean = {name: g * min(1.0, max_norm / long) for name, g in mean.items()}",
    )
)  # fmt: skip


@wrong("training.train", "`inputs, targets = batches[step]`")
def train_takes_by_index(weights, n_heads, batches, steps, *, peak=1e-2, warmup=20, max_norm=1.0):
    for step in range(steps):
        inputs, targets = batches[step]
        yield float(len(inputs) + len(targets))


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


@right("training.restore")
def restore_by_partition(arrays):
    found = {"weights": {}, "m": {}, "v": {}}
    for name, array in arrays.items():
        part, slash, own = name.partition("/")
        if slash:
            found[part][own] = np.array(array)
    return [*found.values(), arrays["step"].item()]


right("training.gpt_torch")(whole_model)


@wrong("training.gpt_torch", "should be a tensor")
def gpt_in_numpy(ids, weights, n_heads):
    from glassformer.chapters.ch08.judges.gpt import gpt

    return gpt(ids.numpy(), {name: w.detach().numpy() for name, w in weights.items()}, n_heads)


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


# The book's answers with a slip
slip("training.batches", "should be a generator", "while True", "if True", "yield", "return")
slip(
    "training.batches", "Does a window run past the end of the text?",
    "len(ids) - length,", "len(ids) - length + 1,",
)  # fmt: skip
slip(
    "training.batches", "inputs of a batch of 3 windows of 5 should have shape (B, T) = (3, 5)",
    "yield windows[:, :-1]", "yield windows",
)  # fmt: skip
slip("training.clip", "should return 2 things", "}, norm", "}")
slip("training.clip", "should be a dictionary", "}, norm", "}.items(), norm")
slip(
    "training.rate_at", "should be 0.0055",
    "(final_share + (1 - final_share) * (1 + math.cos(math.pi * p)) / 2)", "final_share**p",
)  # fmt: skip
slip(
    "training.adamw", "should be [-0.25, 0.25, -0.25]",
    "rate * mean / (np.sqrt(square) + eps)", "2 * rate * np.sign(m)",
)  # fmt: skip
slip("training.train", "should be a generator", "yield", "return")
slip("training.diagnose", "should be 'fine'", 'return "fine"', 'return "broken"')
slip("training.restore", "should be a whole number", 'int(arrays["step"])', 'arrays["step"].copy()')
slip("training.restore", "should return 4 things", ', m, v, int(arrays["step"])', "")
slip("training.orthogonal", "should be [[0.701]]; yours is [[2]]", "return X", "return 2 * np.sign(G)")
