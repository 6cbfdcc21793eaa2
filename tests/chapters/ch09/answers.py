"""Answers for chapter 09: right ones that differ from the book's, and wrong ones that are not classic mistakes.

Most of the right ones let PyTorch compute the gradient, a method that the book itself does not use there.
"""

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, slip = ANSWERS.right, ANSWERS.slip


def autograd(forward, grad, *arrays):
    """Returns the gradients with respect to these arrays."""
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    return torch.autograd.grad(forward(*tensors), tensors, None if grad is None else torch.as_tensor(grad))


@right("back.cross_entropy")
def surprise_by_log_softmax(logits, targets):
    return functional.nll_loss(torch.log_softmax(torch.tensor(logits), -1), torch.tensor(targets)).item()


@right("back.cross_entropy_backward")
def loss_by_autograd(logits, targets):
    return autograd(lambda z: functional.cross_entropy(z, torch.tensor(targets)), None, logits)[0]


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


@right("back.linear_backward")
def linear_by_autograd(grad, x, W):
    return autograd(torch.matmul, grad, x, W)


@right("back.layer_norm_backward")
def norm_by_autograd(grad, x, weight, bias, eps=1e-5):
    return autograd(lambda x, w, b: functional.layer_norm(x, (len(w),), w, b, eps), grad, x, weight, bias)


@right("back.rms_norm_backward")
def rms_by_autograd(grad, x, weight, eps=1e-5):
    return autograd(lambda x, w: functional.rms_norm(x, (len(w),), w, eps), grad, x, weight)


@right("back.gelu_slope")
def bend_by_autograd(x):
    return autograd(functional.gelu, np.ones_like(x), x)[0]


@right("back.feed_forward_backward")
def feed_by_autograd(grad, x, W_up, b_up, W_down, b_down):
    def forward(x, W_up, b_up, W_down, b_down):
        return functional.gelu(x @ W_up + b_up) @ W_down + b_down

    return autograd(forward, grad, x, W_up, b_up, W_down, b_down)


@right("back.gate_backward")
def gate_by_autograd(grad, x, W):
    return autograd(lambda x, W: x * torch.sigmoid(x @ W), grad, x, W)


@right("back.softmax_backward")
def softmax_by_its_table(grad, weights):
    table = weights[..., :, None] * (np.eye(weights.shape[-1]) - weights[..., None, :])
    return np.einsum("...i,...ij->...j", grad, table)


@right("back.pool_backward")
def pool_by_autograd(grad, x, w):
    return autograd(lambda x, w: (x @ w).softmax(0) @ x, grad, x, w)


@right("back.attention_backward")
def attention_by_autograd(grad, q, k, v, *, mask=None):
    def forward(q, k, v):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~torch.tensor(mask), -torch.inf)
        return scores.softmax(-1) @ v

    return autograd(forward, grad, q, k, v)


@right("back.grouped_backward")
def grouped_by_autograd(grad, q, k, v, *, mask=None):
    def forward(q, k, v):
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=None if mask is None else torch.tensor(mask), enable_gqa=True
        )

    return autograd(forward, grad, q, k, v)


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


@right("back.tied_gradients")
def tied_by_autograd(ids, targets, E, scale):
    def forward(E, scale):
        return functional.cross_entropy(scale * E[torch.tensor(ids)] @ E.T, torch.tensor(targets))

    return autograd(forward, None, E, np.float64(scale))


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


@right("back.stream_gradient")
def stream_by_one_matrix(grad, matrices, *, residual=True):
    D = len(grad)
    whole = np.eye(D)
    for A in matrices:
        whole = whole @ (A + residual * np.eye(D))
    return whole @ grad


@right("back.work")
def work_map_by_map(T, sizes):
    forward = back = weights = 0
    for i, (n_in, n_out) in enumerate(sizes):
        forward += T * n_in * n_out
        back += T * n_in * n_out * (1 if i == 0 else 2)
        weights += n_in * n_out
    return [forward, back, forward + weights * forward]


# The book's answers with a slip
slip("back.cross_entropy_backward", "should have shape (T, V)", "grad / len(targets)", "logits[0]")
slip("back.linear_backward", "should return 2 things", ", x.T @ grad", "")
slip("back.gelu_slope", "should be", "below + x", "0.1 + below + x")
slip(
    "back.feed_forward_backward", "should return 5 things",
    "grad_up.sum(axis=0), grad_W_down, grad.sum(axis=0)", "grad_W_down",
)  # fmt: skip
slip(
    "back.softmax_backward", "softmax_backward(",
    "return ", "grad = weights * (grad - (grad * weights).sum(axis=-1, keepdims=True))\n    return ",
)  # fmt: skip
SUMS_FIRST = ("grad_scores @ x", "grad_scores.sum() * x.sum(axis=0)")
slip(  # of two bugs that are left, the first is told
    "back.pool_backward", "all positions count equally in its mean",
    "weights @ grad_weights", "grad_weights.mean()", *SUMS_FIRST,
)  # fmt: skip
slip(
    "back.pool_backward", "the second gradient replaces the first",
    "np.outer(weights, grad) + ", "", *SUMS_FIRST,
)  # fmt: skip
slip(
    "back.multi_head_backward", "grad_W_q of multi_head_backward(…)",
    "grad_q, grad_k, grad_v, grad_o", "2 * grad_q, grad_k, grad_v, grad_o",
)  # fmt: skip
slip("back.block_backward", "should be a dictionary", "dict(zip", "list(zip")
slip("back.block_backward", "'more'", "strict=True))", 'strict=True)) | {"more": grad}')
slip("back.gpt_gradients", "should return 2 things", "cross_entropy(logits, targets), grads", "grads")
slip("back.stream_gradient", "should be", "return grad", "return 1.5 * grad")
slip("back.work", "should return 3 things", "return sum(each), 2 * sum(each) - each[0], ", "return ")
