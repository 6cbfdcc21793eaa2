"""Answers for chapter 09: right ones that differ from the book's, and wrong ones that are not classic mistakes.

Most of the right ones let PyTorch compute the gradient, a method that the book itself does not use there.
"""

import math

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


def autograd(forward, grad, *arrays):
    """Returns the gradients with respect to these arrays."""
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    return torch.autograd.grad(forward(*tensors), tensors, None if grad is None else torch.as_tensor(grad))


# 1 · back.cross_entropy


@right("back.cross_entropy")
def surprise_by_log_softmax(logits, targets):
    return functional.nll_loss(torch.log_softmax(torch.tensor(logits), -1), torch.tensor(targets)).item()


@wrong("back.cross_entropy", "one largest logit from all rows")
def surprise_with_one_largest_logit(logits, targets):
    with np.errstate(all="ignore"):
        top = logits.max()
        total = top + np.log(np.exp(logits - top).sum(axis=1))
        return np.mean(total - logits[np.arange(len(targets)), targets])


# 2 · back.cross_entropy_backward


@right("back.cross_entropy_backward")
def loss_by_autograd(logits, targets):
    return autograd(lambda z: functional.cross_entropy(z, torch.tensor(targets)), None, logits)[0]


@wrong("back.cross_entropy_backward", "should have shape (T, V)")
def loss_back_of_one_row(logits, targets):
    return logits[0]


# 3 · back.gradcheck


@right("back.gradcheck")
def gradcheck_by_unit_vectors(f, x, grad):
    x = np.asarray(x).astype(float)
    if np.shape(grad) != x.shape:
        return False
    flat = x.ravel()
    found = []
    for unit in np.eye(x.size) * 1e-4:
        ends = [f((flat + factor * unit).reshape(x.shape)) for factor in (2, 1, -1, -2)]
        found.append((-ends[0] + 8 * ends[1] - 8 * ends[2] + ends[3]) / 12e-4)
    return np.allclose(np.reshape(found, x.shape), grad, rtol=0, atol=1e-6 * np.linalg.norm(found))


def nudged(f, x):
    slopes = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        unit = np.zeros(x.shape)
        unit[place] = 1e-5
        slopes[place] = (f(x + unit) - f(x - unit)) / 2e-5
    return slopes


@wrong("back.gradcheck", "relative to itself")
def gradcheck_by_elements(f, x, grad):
    slopes = nudged(f, x)
    return grad.shape == x.shape and bool(np.all(abs(slopes - grad) / (abs(slopes) + 1e-30) < 1e-5))


@wrong("back.gradcheck", "at least partly absolute")
def gradcheck_by_allclose(f, x, grad):
    return grad.shape == x.shape and bool(np.allclose(nudged(f, x), grad, rtol=1e-5))


@wrong("back.gradcheck", "at least partly absolute")
def gradcheck_of_the_page(f, x, grad):
    return grad.shape == x.shape and bool(abs(nudged(f, x) - grad).max() < 1e-7)


# 4 · back.linear_backward


@right("back.linear_backward")
def linear_by_autograd(grad, x, W):
    return autograd(torch.matmul, grad, x, W)


@wrong("back.linear_backward", "should return 2 things")
def linear_back_to_x_alone(grad, x, W):
    return grad @ W.T


# 5 · back.layer_norm_backward


@right("back.layer_norm_backward")
def norm_by_autograd(grad, x, weight, bias, eps=1e-5):
    return autograd(lambda x, w, b: functional.layer_norm(x, (len(w),), w, b, eps), grad, x, weight, bias)


@wrong("back.layer_norm_backward", "so a small part remains")
def norm_by_two_projections(grad, x, weight, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    size = np.sqrt(x.var(-1, keepdims=True) + eps)
    g = grad * weight
    g = g - g.mean(-1, keepdims=True)
    g = g - centred * (g * centred).sum(-1, keepdims=True) / (centred**2).sum(-1, keepdims=True)
    return g / size, (grad * centred / size).sum(0), grad.sum(0)


# 6 · back.rms_norm_backward


@right("back.rms_norm_backward")
def rms_by_autograd(grad, x, weight, eps=1e-5):
    return autograd(lambda x, w: functional.rms_norm(x, (len(w),), w, eps), grad, x, weight)


@wrong("back.rms_norm_backward", "That is LayerNorm's gradient")
def rms_as_layer_norm(grad, x, weight, eps=1e-5):
    return norm_by_autograd(grad, x, weight, np.zeros_like(weight), eps)[:2]


@wrong("back.rms_norm_backward", "You subtracted the mean of g")
def rms_with_three_terms(grad, x, weight, eps=1e-5):
    size = np.sqrt((x * x).mean(1, keepdims=True) + eps)
    y, g = x / size, grad * weight
    g = g - g.mean(1, keepdims=True) - y * (g * y).mean(1, keepdims=True)
    return g / size, np.einsum("td,td->d", grad, y)


# 7 · back.gelu_slope


@right("back.gelu_slope")
def bend_by_autograd(x):
    return autograd(functional.gelu, np.ones_like(x), x)[0]


@wrong("back.gelu_slope", "should be")
def bend_of_silu(x):
    s = 1 / (1 + np.exp(-x))
    return s * (1 + x * (1 - s)) + 0.1


# 8 · back.feed_forward_backward


@right("back.feed_forward_backward")
def feed_by_autograd(grad, x, W_up, b_up, W_down, b_down):
    def forward(x, W_up, b_up, W_down, b_down):
        return functional.gelu(x @ W_up + b_up) @ W_down + b_down

    return autograd(forward, grad, x, W_up, b_up, W_down, b_down)


@wrong("back.feed_forward_backward", "should return 5 things")
def feed_back_without_biases(grad, x, W_up, b_up, W_down, b_down):
    found = feed_by_autograd(grad, x, W_up, b_up, W_down, b_down)
    return found[0], found[1], found[3]


# 9 · back.gate_backward


@right("back.gate_backward")
def gate_by_autograd(grad, x, W):
    return autograd(lambda x, W: x * torch.sigmoid(x @ W), grad, x, W)


@wrong("back.gate_backward", "You treated the gate as a constant")
def gate_that_stands_still(grad, x, W):
    _, grad_W = gate_by_autograd(grad, x, W)
    return grad / (1 + np.exp(-x @ W)), grad_W


# 10 · back.softmax_backward


@right("back.softmax_backward")
def softmax_by_its_table(grad, weights):
    table = weights[..., :, None] * (np.eye(weights.shape[-1]) - weights[..., None, :])
    return np.einsum("...i,...ij->...j", grad, table)


@right("back.softmax_backward")
def softmax_by_two_terms(grad, weights):
    both = grad * weights
    return both - weights * both.sum(-1, keepdims=True)


@wrong("back.softmax_backward", "softmax_backward(")
def softmax_back_twice(grad, weights):
    return softmax_by_two_terms(softmax_by_two_terms(grad, weights), weights)


# 11 · back.pool_backward


@right("back.pool_backward")
def pool_by_autograd(grad, x, w):
    return autograd(lambda x, w: (x @ w).softmax(0) @ x, grad, x, w)


def pool_as_printed(grad, x, w, mean=False, both=False, each=False):
    weights = torch.softmax(torch.tensor(x @ w), 0).numpy()
    grad_weights = x @ grad
    grad_scores = weights * (grad_weights - (weights @ grad_weights if mean else grad_weights.mean()))
    grad_x = np.outer(weights, grad) * both + np.outer(grad_scores, w)
    return grad_x, grad_scores @ x if each else grad_scores.sum() * x.sum(axis=0)


@wrong("back.pool_backward", "At least two of the printed bugs")
def pool_copied(grad, x, w):
    return pool_as_printed(grad, x, w)


@wrong("back.pool_backward", "all positions count equally in its mean")
def pool_with_the_plain_mean_and_the_sums(grad, x, w):
    return pool_as_printed(grad, x, w, both=True)


@wrong("back.pool_backward", "the second gradient replaces the first")
def pool_overwritten_and_the_sums(grad, x, w):
    return pool_as_printed(grad, x, w, mean=True)


@wrong("back.pool_backward", "sums over the positions before it multiplies")
def pool_with_the_sums(grad, x, w):
    return pool_as_printed(grad, x, w, mean=True, both=True)


# 12 · back.attention_backward


@right("back.attention_backward")
def attention_by_autograd(grad, q, k, v, *, mask=None):
    def forward(q, k, v):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~torch.tensor(mask), -torch.inf)
        return scores.softmax(-1) @ v

    return autograd(forward, grad, q, k, v)


@wrong("back.attention_backward", "In your grad_k, the scores' gradient is not transposed")
def attention_back_with_keys_not_turned(grad, q, k, v, *, mask=None):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    w = torch.softmax(torch.tensor(scores if mask is None else np.where(mask, scores, -np.inf)), -1).numpy()
    of_w = grad @ v.swapaxes(-1, -2)
    of_scores = w * (of_w - (of_w * w).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return of_scores @ k, of_scores @ q, w.swapaxes(-1, -2) @ grad


# 13 · back.grouped_backward


@right("back.grouped_backward")
def grouped_by_autograd(grad, q, k, v, *, mask=None):
    def forward(q, k, v):
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=None if mask is None else torch.tensor(mask), enable_gqa=True
        )

    return autograd(forward, grad, q, k, v)


@wrong("back.grouped_backward", "should have shape (G, S, K)")
def grouped_with_a_gradient_for_each_head(grad, q, k, v, *, mask=None):
    times = len(q) // len(k)
    return attention_by_autograd(grad, q, np.repeat(k, times, 0), np.repeat(v, times, 0), mask=mask)


@wrong("back.grouped_backward", "neighbouring heads share a group")
def grouped_in_turn(grad, q, k, v, *, mask=None):
    return autograd(
        lambda q, k, v: functional.scaled_dot_product_attention(
            q, *(x.repeat(len(q) // len(k), 1, 1) for x in (k, v)),
            attn_mask=None if mask is None else torch.tensor(mask),
        ),
        grad, q, k, v,
    )  # fmt: skip


# 14 · back.multi_head_backward


def all_heads(x, W_q, W_k, W_v, W_o, n_heads, causal=True):
    K = x.shape[1] // n_heads
    out = 0
    for h in range(n_heads):
        own = slice(h * K, (h + 1) * K)
        q, k, v = (x @ W[:, own] for W in (W_q, W_k, W_v))
        scores = (q @ k.T / K**0.5).masked_fill(torch.ones(len(x), len(x)).triu(1) * causal > 0, -torch.inf)
        out = out + scores.softmax(-1) @ v @ W_o[own]
    return out


@right("back.multi_head_backward")
def heads_one_after_another(grad, x, W_q, W_k, W_v, W_o, n_heads):
    return autograd(lambda *arrays: all_heads(*arrays, n_heads), grad, x, W_q, W_k, W_v, W_o)


@wrong("back.multi_head_backward", "grad_W_q of multi_head_backward(…)")
def heads_with_q_and_k_swapped(grad, x, W_q, W_k, W_v, W_o, n_heads):
    g_x, g_q, g_k, g_v, g_o = heads_one_after_another(grad, x, W_q, W_k, W_v, W_o, n_heads)
    return g_x, 2 * g_q, g_k, g_v, g_o


# 15 · back.block_backward


def whole_block(x, w, n_heads, causal=True):
    def norm(name):
        return functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    x = x + all_heads(
        norm("norm_attention"), *(w[f"attention.W_{n}.weight"] for n in "qkvo"), n_heads, causal
    )
    wide = functional.gelu(
        norm("norm_feedforward") @ w["feedforward.W_up.weight"] + w["feedforward.W_up.bias"]
    )
    return x + wide @ w["feedforward.W_down.weight"] + w["feedforward.W_down.bias"]


@right("back.block_backward")
def block_by_autograd(grad, x, weights, n_heads):
    def forward(x, *arrays):
        return whole_block(x, dict(zip(weights, arrays, strict=True)), n_heads)

    grad_x, *own = autograd(forward, grad, x, *weights.values())
    return grad_x, dict(zip(weights, own, strict=True))


@wrong("back.block_backward", "should be a dictionary")
def block_back_as_a_list(grad, x, weights, n_heads):
    grad_x, own = block_by_autograd(grad, x, weights, n_heads)
    return grad_x, list(own)


@wrong("back.block_backward", "'more' is no weight's name")
def block_back_and_more(grad, x, weights, n_heads):
    grad_x, own = block_by_autograd(grad, x, weights, n_heads)
    return grad_x, own | {"more": grad_x}


@wrong("back.block_backward", "Your names differ from those of the weights")
def block_back_under_full_names(grad, x, weights, n_heads):
    grad_x, own = block_by_autograd(grad, x, weights, n_heads)
    return grad_x, {f"blocks.0.{name}": g for name, g in own.items()}


# 16 · back.tied_gradients


@right("back.tied_gradients")
def tied_by_autograd(ids, targets, E, scale):
    def forward(E, scale):
        return functional.cross_entropy(scale * E[torch.tensor(ids)] @ E.T, torch.tensor(targets))

    return autograd(forward, None, E, np.float64(scale))


@wrong("back.tied_gradients", "keeps only one of its slopes")
def tied_overwritten(ids, targets, E, scale):
    p = torch.softmax(torch.tensor(scale * E[ids] @ E.T), -1).numpy()
    p[np.arange(len(ids)), targets] -= 1
    g = p / len(ids)
    of_E = scale * g.T @ E[ids]
    of_E[ids] += scale * g @ E
    return of_E, (g * (E[ids] @ E.T)).sum()


# 17 · back.gpt_gradients


def whole_model(ids, w, n_heads, stack="decoder"):
    x = w["token_embedding.weight"][torch.as_tensor(ids)] + w[f"{stack}.positions.weight"][: len(ids)]
    i = 0
    while f"{stack}.blocks.{i}.norm_attention.weight" in w:
        at = f"{stack}.blocks.{i}."
        own = {name.removeprefix(at): one for name, one in w.items() if name.startswith(at)}
        x = whole_block(x, own, n_heads, causal=stack == "decoder")
        i += 1
    x = functional.layer_norm(x, x.shape[-1:], w[f"{stack}.norm.weight"], w[f"{stack}.norm.bias"])
    return x @ w["token_embedding.weight"].T


@right("back.gpt_gradients")
def gpt_by_autograd(ids, targets, weights, n_heads):
    loss = None

    def forward(*arrays):
        nonlocal loss
        logits = whole_model(ids, dict(zip(weights, arrays, strict=True)), n_heads)
        loss = functional.cross_entropy(logits, torch.tensor(targets))
        return loss

    found = autograd(forward, None, *weights.values())
    return loss.item(), dict(zip(weights, found, strict=True))


@wrong("back.gpt_gradients", "should return 2 things")
def gpt_gradients_without_the_loss(ids, targets, weights, n_heads):
    return list(gpt_by_autograd(ids, targets, weights, n_heads)[1].values())[:1]


# 18 · back.stream_gradient


@right("back.stream_gradient")
def stream_by_one_matrix(grad, matrices, *, residual=True):
    D = len(grad)
    whole = np.eye(D)
    for A in matrices:
        whole = whole @ (A + residual * np.eye(D))
    return whole @ grad


@wrong("back.stream_gradient", "should be")
def stream_that_returns_its_end(grad, matrices, *, residual=True):
    return grad * 1.5


# 19 · back.work


@right("back.work")
def work_map_by_map(T, sizes):
    forward = back = weights = 0
    for i, (n_in, n_out) in enumerate(sizes):
        forward += T * n_in * n_out
        back += T * n_in * n_out * (1 if i == 0 else 2)
        weights += n_in * n_out
    return [forward, back, forward + weights * forward]


@wrong("back.work", "should return 3 things")
def work_as_a_sum(T, sizes):
    return sum(work_map_by_map(T, sizes))
