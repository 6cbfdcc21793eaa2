"""My own Transformer: what I wrote and Glassformer's exercises accepted. Mine to edit, import and show."""

import numpy as np
import math
from glassformer.scratch import causal_mask
from glassformer.scratch import merge_heads
from glassformer.scratch import RotaryPositions
from glassformer.scratch import silu


def softmax(x, axis=-1):
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def scaled_dot_product_attention(q, k, v, *, mask=None):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    weights = softmax(scores if mask is None else np.where(mask, scores, -np.inf))
    return weights @ v, weights


def split_heads(x, n_heads):
    *B, T, D = x.shape
    return x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def multi_head(x, W_q, W_k, W_v, W_o, n_heads):
    q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
    mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x)))
    return merge_heads(mixed) @ W_o


def shakespeare(ids, weights, n_heads, scale):
    x = rms_norm(weights["token_embedding.weight"][ids], weights["decoder.embedding_norm.weight"])
    for i in range(sum(name.endswith("norm_attention.weight") for name in weights)):
        own = f"decoder.blocks.{i}."
        w = {name.removeprefix(own): value for name, value in weights.items() if name.startswith(own)}
        y = rms_norm(x, w["norm_attention.weight"])
        q, k, v = (split_heads(y @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
        rotation = RotaryPositions(q.shape[-1])
        q = rotation.rotate(rms_norm(q, w["attention.norm_q.weight"]), np.arange(len(x)))
        k = rotation.rotate(rms_norm(k, w["attention.norm_k.weight"]), np.arange(len(x)))
        q = q * (scale * math.sqrt(q.shape[-1]))
        mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x)))
        x = x + merge_heads(mixed) @ w["attention.W_o.weight"]
        y = rms_norm(x, w["norm_feedforward.weight"])
        gate, up, down = (w[f"feedforward.W_{name}.weight"] for name in ("gate", "up", "down"))
        x = x + (silu(y @ gate) * (y @ up)) @ down
    return rms_norm(x, weights["decoder.norm.weight"]) @ weights["unembedding.weight"]


def silu_by_hand(x):
    return x / (1 + np.exp(-x))


def gelu(x):  # not exact
    return silu_by_hand(1.702 * x) / 1.702
