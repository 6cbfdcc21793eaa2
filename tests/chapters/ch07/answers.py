"""Answers for chapter 07: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


# 1 and 2 · block.block, block.post_block


def layer_of_torch(weights, n_heads, norm_first):
    """Returns PyTorch's own block with these weights; it stores its matrices transposed."""
    w = {name: torch.as_tensor(value) for name, value in weights.items()}
    D, F = w["feedforward.W_up.weight"].shape
    layer = torch.nn.TransformerEncoderLayer(
        D,
        n_heads,
        F,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )
    three = torch.hstack([w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v")])
    given = {
        "self_attn.in_proj_weight": three.T,
        "self_attn.in_proj_bias": torch.zeros(3 * D),
        "self_attn.out_proj.weight": w["attention.W_o.weight"].T,
        "self_attn.out_proj.bias": torch.zeros(D),
        "linear1.weight": w["feedforward.W_up.weight"].T,
        "linear1.bias": w["feedforward.W_up.bias"],
        "linear2.weight": w["feedforward.W_down.weight"].T,
        "linear2.bias": w["feedforward.W_down.bias"],
        **{f"norm1.{part}": w[f"norm_attention.{part}"] for part in ("weight", "bias")},
        **{f"norm2.{part}": w[f"norm_feedforward.{part}"] for part in ("weight", "bias")},
    }
    layer.load_state_dict(given)
    return layer


def through_torch(x, weights, n_heads, norm_first):
    x = torch.as_tensor(x)
    later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    with torch.no_grad():
        return layer_of_torch(weights, n_heads, norm_first)(x[None], src_mask=later)[0]


@right("block.block")
def block_of_torch(x, weights, n_heads):
    return through_torch(x, weights, n_heads, norm_first=True)


@right("block.post_block")
def post_block_of_torch(x, weights, n_heads):
    return through_torch(x, weights, n_heads, norm_first=False)


@wrong("block.block", "changed its argument `weights` in place")
def block_that_eats_its_weights(x, weights, n_heads):
    y = block_of_torch(x, weights, n_heads)
    weights["attention.W_o.weight"] *= 0.5
    return y


@wrong("block.post_block", "second sum begins with the x that entered")
def post_block_that_adds_to_the_old_x(x, weights, n_heads):
    layer = layer_of_torch(weights, n_heads, norm_first=False)
    x = torch.as_tensor(x)
    later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    with torch.no_grad():
        y = layer.norm1(x + layer._sa_block(x[None], later, None)[0])
        return layer.norm2(x + layer._ff_block(y))


@wrong("block.post_block", "(30 of 30 numbers differ)")
def post_block_that_norms_the_batch(x, weights, n_heads):
    y = post_block_of_torch(x, weights, n_heads).numpy()
    return y + y.mean(axis=0) + 1


# 3 · block.stack


@right("block.stack")
def streams_one_after_another(x, blocks, n_heads):
    states = [np.asarray(x)]
    for weights in blocks:
        states += [block_of_torch(states[-1], weights, n_heads).numpy()]
    return states


@wrong("block.stack", "should have shape (1, 4, 6); yours has shape (4, 6)")
def stream_alone_where_there_is_no_block(x, blocks, n_heads):
    return streams_one_after_another(x, blocks, n_heads) if blocks else x


# 4 · block.dropout


@right("block.dropout")
def dropout_by_coins(x, rate, generator, training=True):
    return x * generator.binomial(1, 1 - rate, np.shape(x)) / (1 - rate) if training else x


@right("block.dropout")
def dropout_by_choice(x, rate, generator, training=True):
    factors = generator.choice([0.0, 1 / (1 - rate)], p=[rate, 1 - rate], size=np.shape(x))
    return np.where(training, factors, 1.0) * x


@wrong("block.dropout", "should be near 0.2; yours is 0.07")
def dropout_of_a_third(x, rate, generator, training=True):
    return x * (generator.random(x.shape) >= rate / 3) / (1 - rate) if training and rate else x


@wrong("block.dropout", "all texts of a batch")
def dropout_with_one_mask_for_a_batch(x, rate, generator, training=True):
    return x * (generator.uniform(0, 1, x.shape[-2:]) >= rate) / (1 - rate) if training else x


@wrong("block.dropout", "not enough values to unpack")
def dropout_of_tables_alone(x, rate, generator, training=True):
    if not training:
        return x
    T, D = x.shape
    return x * (generator.random((T, D)) >= rate) / (1 - rate)


@wrong("block.dropout", "two neighbouring columns")
def dropout_two_by_two(x, rate, generator, training=True):
    if not training:
        return x
    draws = generator.random((*x.shape[:-1], (x.shape[-1] + 1) // 2))
    return x * (np.repeat(draws, 2, axis=-1)[..., : x.shape[-1]] >= rate) / (1 - rate)


@wrong("block.dropout", "`rate` is the fraction that is dropped")
def dropout_turned_round(x, rate, generator, training=True):
    return x * (generator.random(x.shape) < rate) / (1 - rate) if training else x


# 5 and 6 · block.one_block, block.block_parameters


@right("block.one_block")
def block_of_torch_counted(attention_bias):
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048)
    sizes = {name: p.numel() for name, p in layer.named_parameters()}
    attention = sum(n for name, n in sizes.items() if name.startswith("self_attn"))
    attention -= 0 if attention_bias else 4 * 512
    feed = sum(n for name, n in sizes.items() if name.startswith("linear"))
    norms = sum(n for name, n in sizes.items() if name.startswith("norm"))
    return attention, feed, norms, attention + feed + norms


@wrong("block.one_block", "not the sum of your other three numbers")
def norms_forgotten_in_the_sum(attention_bias):
    attention, feed, norms, _ = block_of_torch_counted(attention_bias)
    return attention, feed, norms, attention + feed


@right("block.block_parameters")
def arrays_counted(d_model, d_ff, attention_bias=True, feedforward_bias=True, gated=False, rms=False):
    D, F = d_model, d_ff
    shapes = [(D, D)] * 4 + [(D, F)] * (1 + gated) + [(F, D)] + [(D,)] * (2 if rms else 4)
    shapes += [(D,)] * 4 * attention_bias + ([(F,)] * (1 + gated) + [(D,)]) * feedforward_bias
    return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes)


@wrong("block.block_parameters", "should be")
def twelve_and_thirteen(d_model, d_ff, attention_bias=True, feedforward_bias=True, gated=False, rms=False):
    return 12 * d_model**2 + 13 * d_model


# 7 · block.without_head


@right("block.without_head")
def masked(W_o, head, n_heads):
    stays = np.repeat(np.arange(n_heads) != head, len(W_o) // n_heads)
    return np.diag(stays.astype(float)) @ W_o


@wrong("block.without_head", "changed its argument `W_o` in place")
def without_a_copy(W_o, head, n_heads):
    K = len(W_o) // n_heads
    W_o[head * K : (head + 1) * K] = 0
    return W_o


# 8 · block.interaction


@right("block.interaction")
def rises(whole, alone, together):
    return float(np.subtract(together, whole) - np.subtract(alone, whole).sum())


@wrong("block.interaction", "should be")
def for_one_part(whole, alone, together):
    return together - alone[0]


# 9 · block.diagnose


@right("block.diagnose")
def by_comparing(block, x, weights, n_heads):
    """Builds all five models, and returns the name of the one with the same output."""
    w = {name: torch.as_tensor(value) for name, value in weights.items()}
    x = torch.as_tensor(x)
    T, D = x.shape

    def norm(x, name):
        return functional.layer_norm(x, (D,), w[f"{name}.weight"], w[f"{name}.bias"])

    def attend(x):
        q, k, v = (
            (x @ w[f"attention.{n}.weight"]).view(T, n_heads, -1).transpose(0, 1)
            for n in ("W_q", "W_k", "W_v")
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(0, 1).reshape(T, D) @ w["attention.W_o.weight"]

    def feed(x):
        up = functional.gelu(x @ w["feedforward.W_up.weight"] + w["feedforward.W_up.bias"])
        return up @ w["feedforward.W_down.weight"] + w["feedforward.W_down.bias"]

    a, f = "norm_attention", "norm_feedforward"
    read = attend(norm(x, a))
    five = {
        "right": x + read + feed(norm(x + read, f)),
        "no residual": feed(norm(read, f)),
        "post-norm": norm(norm(x + attend(x), a) + feed(norm(x + attend(x), a)), f),
        "no norm": x + attend(x) + feed(x + attend(x)),
        "parallel": x + read + feed(norm(x, f)),
    }
    given = torch.as_tensor(np.asarray(block(x.numpy(), weights, n_heads)))
    return min(five, key=lambda name: float((five[name] - given).abs().max()))


@wrong("block.diagnose", "the size of x changes what it reads")
def by_a_small_stream_twice_as_large(block, x, weights, n_heads):
    quiet = {name: 0 * w if "W_o" in name or "W_down" in name else w for name, w in weights.items()}
    out = np.asarray(block(x, quiet, n_heads))
    if not np.allclose(out, x):
        return "no residual" if np.allclose(out, 0) else "post-norm"
    one, two = (np.asarray(block(by * x, weights, n_heads)) - by * x for by in (10, 20))
    return "right" if np.allclose(one, two) else "no norm"


@wrong("block.diagnose", "W_down has a bias")
def by_weights_without_the_bias(block, x, weights, n_heads):
    quiet = {
        name: 0 * w if name.endswith(("W_o.weight", "W_down.weight")) else w for name, w in weights.items()
    }
    out = np.asarray(block(x, quiet, n_heads))
    return "right" if np.allclose(out, x) else "no residual" if np.allclose(out, 0) else "post-norm"


@wrong("block.diagnose", "should be 'right'")
def suspicious(block, x, weights, n_heads):
    return "parallel"
