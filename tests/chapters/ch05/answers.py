"""Answers for chapter 05: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


def tensors(*arrays):
    return [torch.as_tensor(array) for array in arrays]


# 1 · stream.layer_norm


@right("stream.layer_norm")
def layer_norm_of_torch(x, weight, bias, eps=1e-5):
    return functional.layer_norm(*tensors(x), x.shape[-1:], *tensors(weight, bias), eps)


@right("stream.layer_norm")
def layer_norm_by_moments(x, weight, bias, eps=1e-5):
    mean, square = np.mean(x, axis=-1), np.mean(np.square(x), axis=-1)
    gain = 1 / np.sqrt(square - mean**2 + eps)
    return (x - mean[..., None]) * gain[..., None] * weight + bias


@wrong("stream.layer_norm", "changed its argument `x` in place")
def layer_norm_in_place(x, weight, bias, eps=1e-5):
    x -= x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight + bias


# 2 · stream.rms_norm


@right("stream.rms_norm")
def rms_norm_of_torch(x, weight, eps=1e-5):
    return functional.rms_norm(*tensors(x), x.shape[-1:], *tensors(weight), eps)


@right("stream.rms_norm")
def rms_norm_by_lengths(x, weight, eps=1e-5):
    D = np.shape(x)[-1]
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return weight * x * math.sqrt(D) / np.sqrt(length**2 + D * eps)


@wrong("stream.rms_norm", "should be [2, 0, 0, 0]; yours is [3, 1, 1, 1]")
def rms_norm_with_a_shift(x, weight, eps=1e-5):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight + 1


# 3 · stream.which_norm


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


@wrong("stream.which_norm", "for σ + ε should be 'outside'; yours is 'inside'")
def always_inside(norm):
    return "inside"


# 4 · stream.ledger


@right("stream.ledger")
def ledger_by_loop(x_0, writes):
    streams = [x_0]
    for write in writes:
        streams.append(streams[-1] + write)
    return streams


@right("stream.ledger")
def ledger_by_a_triangle(x_0, writes):
    each = np.concatenate([x_0[None], writes])
    return np.einsum("mn,ntd->mtd", np.tri(len(each)), each)


@wrong("stream.ledger", "changed its argument `x_0` in place")
def ledger_in_place(x_0, writes):
    streams = [x_0.copy()]
    for write in writes:
        x_0 += write
        streams.append(x_0.copy())
    return streams


# 5 · stream.in_the_end


@right("stream.in_the_end")
def end_by_loop(n_writes, size):
    square, post = 1.0, 1.0
    for _ in range(n_writes):
        square += size * size
        post /= math.hypot(1, size)
    return [square**0.5, square**-0.5, post]


@wrong("stream.in_the_end", "size, share_pre, share_post")
def end_as_one_number(n_writes, size):
    return math.sqrt(1 + n_writes * size**2)


# 6 · stream.two_sublayers


@right("stream.two_sublayers")
def block_by_loop(x, attention, feed_forward, norm_1, norm_2, placement):
    for sublayer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = x + sublayer(norm(x)) if placement == "pre" else norm(x + sublayer(x))
    return x


@wrong("stream.two_sublayers", "should be")
def block_that_adds_twice(x, attention, feed_forward, norm_1, norm_2, placement):
    return x + block_by_loop(x, attention, feed_forward, norm_1, norm_2, placement)


# 7 · stream.which_placement


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


@wrong("stream.which_placement", "should be 'post'; yours is 'pre'")
def always_pre(step):
    return "pre"


# 8 · stream.lens


@right("stream.lens")
def lens_stage_by_stage(streams, weight, W, eps=1e-5):
    said = []
    for x in streams:
        normed = functional.rms_norm(*tensors(x), x.shape[-1:], *tensors(weight), eps)
        said.append(normed @ torch.as_tensor(W))
    return said


@wrong("stream.lens", "should have shape (L, T, V) = (3, 2, 5)")
def lens_of_likeliest(streams, weight, W, eps=1e-5):
    return lens_logits(streams, weight, W, eps).argmax(axis=-1)


def lens_logits(streams, weight, W, eps):
    return streams / np.sqrt((streams**2).mean(axis=-1, keepdims=True) + eps) * weight @ W


# 9 · stream.shares


@right("stream.shares")
def shares_by_logits(writes, weight, W, token, against, eps=1e-5):
    scale = np.sqrt(np.mean(np.sum(writes, axis=0) ** 2) + eps)
    logits = (writes / scale * weight) @ W
    return logits[:, token] - logits[:, against]


@wrong("stream.shares", "should be")
def shares_of_all(writes, weight, W, token, against, eps=1e-5):
    found = shares_by_logits(writes, weight, W, token, against, eps)
    return found / found.sum()
