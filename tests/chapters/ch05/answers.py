"""Answers for chapter 05: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


def tensors(*arrays):
    return [torch.as_tensor(array) for array in arrays]


@right("stream.layer_norm")
def layer_norm_of_torch(x, weight, bias, eps=1e-5):
    return functional.layer_norm(*tensors(x), x.shape[-1:], *tensors(weight, bias), eps)


@right("stream.layer_norm")
def layer_norm_by_moments(x, weight, bias, eps=1e-5):
    mean, square = np.mean(x, axis=-1), np.mean(np.square(x), axis=-1)
    gain = 1 / np.sqrt(square - mean**2 + eps)
    return (x - mean[..., None]) * gain[..., None] * weight + bias


@right("stream.rms_norm")
def rms_norm_of_torch(x, weight, eps=1e-5):
    return functional.rms_norm(*tensors(x), x.shape[-1:], *tensors(weight), eps)


@right("stream.rms_norm")
def rms_norm_by_lengths(x, weight, eps=1e-5):
    D = np.shape(x)[-1]
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return weight * x * math.sqrt(D) / np.sqrt(length**2 + D * eps)


@right("stream.which_norm")
def which_by_two_ratios(norm):
    lively, even = norm(np.array([[3.0, 1.0]])), norm(np.array([[0.0, 0.002]]))
    if not math.isclose(lively[0, 0], 1, rel_tol=1e-3):
        return "unbiased"
    return "outside" if even[0, 1] > 0.9 else "inside"


@right("stream.which_norm")
def which_by_one_row(norm):
    largest = float(abs(norm(np.array([1.0, 1.0, 1.0, 1.01]))).max())
    wanted = {"inside": 1.399, "outside": 1.728, "unbiased": 1.268}
    return min(wanted, key=lambda name: abs(largest - wanted[name]))


@right("stream.ledger")
def ledger_by_loop(x_0, writes):
    streams = [x_0]
    for write in writes:
        streams.append(streams[-1] + write)
    return streams


@right("stream.in_the_end")
def end_by_loop(n_writes, size):
    square, post = 1.0, 1.0
    for _ in range(n_writes):
        square += size * size
        post /= math.hypot(1, size)
    return [square**0.5, square**-0.5, post]


@right("stream.two_sublayers")
def block_by_loop(x, attention, feed_forward, norm_1, norm_2, placement):
    for sublayer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = x + sublayer(norm(x)) if placement == "pre" else norm(x + sublayer(x))
    return x


@right("stream.which_placement")
def placement_by_a_constant_norm(step):
    x = np.array([1.0, -1.0])
    with_it = step(x, lambda read: read * 0, lambda read: read * 0 + 7)
    if (with_it == x).all():
        return "pre"
    lone = step(x, lambda read: read * 0, lambda read: read + 1)
    return "post" if (lone == x + 1).all() else "none"


@right("stream.which_placement")
def placement_by_a_norm_that_works_in_place(step):
    def five(read):
        read *= 5
        return read

    x = np.array([[1.0, 2.0]])
    silent = step(x, lambda read: 0 * read, five)
    if np.array_equal(silent, [[1, 2]]):
        return "pre"
    return "post" if np.array_equal(silent, [[5, 10]]) else "none"


@right("stream.lens")
def lens_stage_by_stage(streams, weight, W, eps=1e-5):
    said = []
    for x in streams:
        normed = functional.rms_norm(*tensors(x), x.shape[-1:], *tensors(weight), eps)
        said.append(normed @ torch.as_tensor(W))
    return said


@right("stream.shares")
def shares_by_logits(writes, weight, W, token, against, eps=1e-5):
    scale = np.sqrt(np.mean(np.sum(writes, axis=0) ** 2) + eps)
    logits = (writes / scale * weight) @ W
    return logits[:, token] - logits[:, against]


# Wrong in one place

slip("stream.layer_norm", "changed its argument `x` in place", "centred = x -", "centred = x; x -=")
slip("stream.rms_norm", "should be [2, 0, 0, 0]; yours is [3, 1, 1, 1]", "* weight", "* weight + 1")
slip("stream.which_norm", "for σ + ε should be 'outside'; yours is 'inside'", '"outside"', '"inside"')
slip("stream.ledger", "changed its argument `x_0` in place", "return", "x_0 += 1\n    return")
slip("stream.in_the_end", "size, share_pre, share_post", ", 1 / np.sqrt(mean_square), (1", " * (1")
slip("stream.which_placement", "should be 'post'; yours is 'pre'", '"post"', '"pre"')
slip(
    "stream.lens",
    "should have shape (L, T, V) = (3, 2, 5)",
    "return ",
    "return np.argmax(",
    "@ W",
    "@ W, -1)",
)
