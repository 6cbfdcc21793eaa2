"""Answers for chapter 07: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


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


@right("block.stack")
def streams_one_after_another(x, blocks, n_heads):
    states = [np.asarray(x)]
    for weights in blocks:
        states += [block_of_torch(states[-1], weights, n_heads).numpy()]
    return states


@right("block.dropout")
def dropout_by_coins(x, rate, generator, training=True):
    return x * generator.binomial(1, 1 - rate, np.shape(x)) / (1 - rate) if training else x


@right("block.dropout")
def dropout_by_choice(x, rate, generator, training=True):
    factors = generator.choice([0.0, 1 / (1 - rate)], p=[rate, 1 - rate], size=np.shape(x))
    return np.where(training, factors, 1.0) * x


@right("block.one_block")
def block_of_torch_counted(attention_bias):
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048)
    sizes = {name: p.numel() for name, p in layer.named_parameters()}
    attention = sum(n for name, n in sizes.items() if name.startswith("self_attn"))
    attention -= 0 if attention_bias else 4 * 512
    feed = sum(n for name, n in sizes.items() if name.startswith("linear"))
    norms = sum(n for name, n in sizes.items() if name.startswith("norm"))
    return attention, feed, norms, attention + feed + norms


@right("block.block_parameters")
def arrays_counted(d_model, d_ff, attention_bias=True, feedforward_bias=True, gated=False, rms=False):
    D, F = d_model, d_ff
    shapes = [(D, D)] * 4 + [(D, F)] * (1 + gated) + [(F, D)] + [(D,)] * (2 if rms else 4)
    shapes += [(D,)] * 4 * attention_bias + ([(F,)] * (1 + gated) + [(D,)]) * feedforward_bias
    return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes)


@right("block.without_head")
def masked(W_o, head, n_heads):
    stays = np.repeat(np.arange(n_heads) != head, len(W_o) // n_heads)
    return np.diag(stays.astype(float)) @ W_o


@right("block.interaction")
def rises(whole, alone, together):
    return float(np.subtract(together, whole) - np.subtract(alone, whole).sum())


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


# Wrong in one place

slip(
    "block.block", "changed its argument `weights` in place",
    "return", 'w["attention.W_o.weight"] *= 0.5\n    return',
)  # fmt: skip
slip("block.post_block", "(30 of 30 numbers differ)", "return ", "return x.mean(axis=0) + ")
slip("block.stack", "shape (1, 4, 6); yours has shape (4, 6)", "(streams)", "(streams) if blocks else x")
slip(
    "block.dropout", "should be near 0.2; yours is 0.07",
    "if not training", "if not training or not rate", ">= rate", ">= rate / 3",
)  # fmt: skip
slip("block.dropout", "not enough values to unpack", "return x *", "T, D = x.shape\n    return x *")
slip("block.block_parameters", "should be", "attention + feedforward + 2", "12 * D * D + 9 * D + 2")
slip("block.without_head", "changed its argument `W_o` in place", "np.array(W_o)", "W_o")
slip("block.interaction", "should be", "sum(loss - whole for loss in alone)", "(alone[0] - whole)")
slip("block.diagnose", "should be 'right'", '"right"', '"parallel"')
