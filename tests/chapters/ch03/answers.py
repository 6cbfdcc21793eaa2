"""Answers for chapter 03: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import math

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


def tensors(*arrays):
    return [torch.as_tensor(array) for array in arrays]


@right("attention.scores")
def scores_by_einsum(query, keys):
    return np.einsum("k,sk->s", query / len(query) ** 0.25, keys / len(query) ** 0.25)


@right("attention.softmax")
def softmax_of_torch(x):
    return torch.softmax(torch.as_tensor(x), dim=-1)


@right("attention.causal_mask")
def mask_by_comparing(n_queries, n_keys=None):
    n_keys = n_queries if n_keys is None else n_keys
    places = np.arange(n_keys)
    return places[None] <= places[n_keys - n_queries :, None]


@right("attention.attend_one")
def one_by_torch(query, keys, values):
    q, k, v = tensors(query, keys, values)
    weights = torch.softmax(k @ q / len(q) ** 0.5, dim=0)
    return weights, (weights[:, None] * v).sum(dim=0)


@right("attention.attention")
def attention_by_einsum(q, k, v, *, mask=None):
    scores = np.einsum("...tk,...sk->...ts", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + np.where(mask, 0.0, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return np.einsum("...ts,...sk->...tk", weights, v), weights


@right("attention.attention")
def attention_of_torch(q, k, v, *, mask=None):
    q, k, v = tensors(q, k, v)
    hidden = None if mask is None else torch.as_tensor(mask)
    outputs = functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
    eye = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:-2], -1, -1)
    return outputs, functional.scaled_dot_product_attention(q, k, eye, attn_mask=hidden)


@right("attention.attention")
def attention_with_a_large_number_for_minus_infinity(q, k, v, *, mask=None):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    weights = softmax_of_torch(scores if mask is None else np.where(mask, scores, -1e9)).numpy()
    return weights @ v, weights


@right("attention.split_heads")
def split_by_slices(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide {x.shape[-1]}")
    return np.stack(np.split(x, n_heads, axis=-1), axis=-3)


@right("attention.merge_heads")
def merge_by_concatenating(x):
    return np.concatenate(list(np.moveaxis(x, -3, 0)), axis=-1)


@right("attention.multi_head")
def heads_of_torch(x, W_q, W_k, W_v, W_o, n_heads):
    x, W_q, W_k, W_v, W_o = tensors(x, W_q, W_k, W_v, W_o)
    heads = [(x @ W).unflatten(1, (n_heads, -1)).transpose(0, 1) for W in (W_q, W_k, W_v)]
    mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
    return mixed.transpose(0, 1).flatten(1) @ W_o


@right("attention.grouped")
def groups_by_broadcasting(q, k, v):
    H, T, K = q.shape
    in_groups = q.reshape(len(k), H // len(k), T, K)
    return attention_by_einsum(in_groups, k[:, None], v[:, None])[0].reshape(H, T, K)


@right("attention.cross_attention")
def crossed_in_torch(x, memory, W_q, W_k, W_v):
    x, memory, W_q, W_k, W_v = tensors(x, memory, W_q, W_k, W_v)
    return functional.scaled_dot_product_attention(
        (x @ W_q)[None], (memory @ W_k)[None], (memory @ W_v)[None]
    )[0]


@right("attention.cells")
def cells_counted(n_tokens, n_heads=1):
    return n_heads * n_tokens * n_tokens, n_heads * sum(range(n_tokens + 1))


@right("attention.variance")
def variance_by_parts(d_head, query_variance, key_variance, scaled):
    a_term = query_variance * key_variance
    return sum([a_term] * d_head) / (math.sqrt(d_head) ** 2 if scaled else 1)


# Wrong in one place

slip("attention.scores", "(S) = (3,); yours has shape (1, 3)", "keys @ query", "query[None] @ keys.T")
slip("attention.causal_mask", "yours is 9 numbers. Make it one with `dtype=bool`.", ", dtype=bool", "")
slip("attention.causal_mask", "(T, S) = (2, 5); yours has shape (5, 5)", "np.tri(n_queries", "np.tri(n_keys")
slip("attention.causal_mask", "True", "np.tri(", "np.where(np.tri(", "bool)", "bool), 0.0, -np.inf)")
slip("attention.attend_one", "2 things, (weights, output)", "return weights, ", "return ")
slip("attention.attention", "mismatch", "k.swapaxes(-1, -2)", "k.T")
slip(
    "attention.multi_head", "is a pair of arrays, of shapes (5, 6) and (2, 5, 5). Return only one.",
    "mixed, _ =", "mixed, weights =", "@ W_o", "@ W_o, weights",
)  # fmt: skip
slip("attention.cells", "but it is a float. Convert it with `int(…)`, or divide with `//`.", "// 2", "/ 2")
