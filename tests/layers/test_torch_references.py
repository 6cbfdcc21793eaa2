"""Compares each layer, a whole block and the optimizer with PyTorch's own, in float64."""

import numpy as np
import pytest
import torch
from ledger import TORCH, largest_difference, largest_relative_difference, record
from numpy.testing import assert_allclose
from torch.nn import functional as F  # noqa: N812 (its usual name)

from glassformer import scratch
from glassformer.config import GATED
from glassformer.scratch.feedforward import SLOPES

from .grid import SYSTEMS
from .rooms import NN, SCRATCH, both_rooms
from .twins import build, draw, gradients, texts

DOUBLE = 1e-13  # float64 rounding of short sums of numbers of size one
ATTENTION = "Attention and positions"


def torch64(array):
    return torch.from_numpy(np.asarray(array, np.float64).copy())


def normal(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


def load(room, layer, seed=0):
    """Draws a layer's weights, and returns them in torch's layout."""
    weights = draw({name: tuple(w.shape) for name, w in dict(layer.state_dict()).items()}, seed)
    layer.load_state_dict({name: room.array(values) for name, values in weights.items()})
    return {name: torch64(values) for name, values in weights.items()}


def compare(component, room, ours, theirs, bound=DOUBLE, *, section="Layers", difference=largest_difference):
    """Compares ours with torch's, and notes the result in the parity ledger."""
    ours, theirs = np.asarray(room.numpy(ours)), theirs.detach().numpy()
    name = "nn" if room.is_torch else "scratch"
    record(component, TORCH, str(ours.dtype), name, difference(ours, theirs), bound, section=section)


# Layers

# What each is without, and torch's own
NORMS = {
    "LayerNorm": ((), F.layer_norm),
    "RMSNorm": ((), F.rms_norm),
    "LayerNorm without a bias": (("bias",), F.layer_norm),
    "LayerNorm without gain and bias": (("gain", "bias"), F.layer_norm),
    "RMSNorm without a gain": (("gain",), F.rms_norm),
}


@both_rooms
def test_linear(room):
    linear, x = room.layers.Linear(5, 3, **room.parameters()), normal(2, 4, 5)
    W = load(room, linear)
    compare("linear layer", room, linear(room.array(x)), F.linear(torch64(x), W["weight"].T, W["bias"]))


@both_rooms
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.1])
def test_norms(room, eps):
    x = 3 + normal(2, 4, 6)
    for name, (without, theirs) in NORMS.items():
        options = dict.fromkeys(without, False)
        norm = getattr(room.layers, name.split()[0])(6, eps=eps, **options, dtype=room.dtype("float64"))
        W = load(room, norm)
        compare(name, room, norm(room.array(x)), theirs(torch64(x), (6,), **W, eps=eps))


@both_rooms
def test_sigma_norm_is_torch_std_with_epsilon_beside(room):
    norm, x = room.layers.SigmaNorm(6, eps=0.1, dtype=room.dtype("float64")), 3 + normal(2, 4, 6)
    W = load(room, norm)
    deviation, mean = torch.std_mean(torch64(x), -1, correction=0, keepdim=True)
    expected = (torch64(x) - mean) / (deviation + 0.1) * W["weight"] + W["bias"]
    compare("LayerNorm that divides by σ + ε", room, norm(room.array(x)), expected)


@both_rooms
@pytest.mark.parametrize("axis", [0, -1])
def test_softmax(room, axis):
    x = 30 * normal(4, 6, 5)
    compare("softmax", room, room.layers.softmax(room.array(x), axis=axis), torch64(x).softmax(axis), 1e-15)


# In words, and torch's own; and for each gated network, the activation of its gate
ACTIVATIONS = {
    "relu": ("ReLU", F.relu),
    "relu2": ("ReLU²", lambda x: F.relu(x).square()),
    "gelu": ("GELU, exact", F.gelu),
    "gelu_tanh": ("GELU, tanh", lambda x: F.gelu(x, approximate="tanh")),
    "silu": ("SiLU", F.silu),
    "sigmoid": ("sigmoid", torch.sigmoid),
}
GATES = {
    "swiglu": ("SwiGLU", "silu"),
    "geglu": ("GEGLU, exact", "gelu"),
    "geglu_tanh": ("GEGLU, tanh", "gelu_tanh"),
}


def test_every_activation_is_compared():
    assert set(ACTIVATIONS) == {*(activation.__name__ for activation in SLOPES), "sigmoid"}, (
        "add to ACTIVATIONS"
    )
    assert set(GATES) == set(GATED), "add to GATES"


@both_rooms
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(room, name):
    x = np.linspace(-40, 40, 2001)
    in_words, theirs = ACTIVATIONS[name]
    compare(
        f"{in_words} (relative to size + 0.001)",
        room,
        getattr(room.layers, name)(room.array(x)),
        theirs(torch64(x)),
        1e-12,  # where GELU is nearly 0, it is the difference of two numbers that are nearly 1
        difference=lambda ours, theirs: largest_relative_difference(ours, theirs, floor=1e-3),
    )


@both_rooms
def test_xielu(room):
    activation, x = room.layers.XIeLU(dtype=room.dtype("float64")), np.linspace(-8, 8, 400)
    assert_allclose(
        [F.softplus(torch64(room.numpy(w)))[0] for w in dict(activation.state_dict()).values()], [0.8, 0.3]
    )
    W = load(room, activation)
    ours, x = activation(room.array(x)), torch64(x)
    right = F.softplus(W["alpha_p"]) * x**2
    left = (0.5 + F.softplus(W["alpha_n"])) * (torch.exp(x) - 1 - x)
    compare("xIELU", room, ours, torch.where(x > 0, right, left) + 0.5 * x, 1e-13)


@both_rooms
@pytest.mark.parametrize("gated", GATES)
def test_gated_feedforward(room, gated):
    in_words, activation = GATES[gated]
    _, theirs = ACTIVATIONS[activation]
    network, x = room.layers.FeedForward(4, 5, activation=gated, **room.parameters()), normal(2, 3, 4)
    W = load(room, network)
    gate, up = (F.linear(torch64(x), W[f"{name}.weight"].T, W[f"{name}.bias"]) for name in ("W_gate", "W_up"))
    expected = F.linear(theirs(gate) * up, W["W_down.weight"].T, W["W_down.bias"])
    compare(f"feed-forward, {in_words}", room, network(room.array(x)), expected)


@both_rooms
def test_embedding(room):
    embedding, ids = room.layers.TokenEmbedding(5, 3, **room.parameters()), np.array([[4, 0], [1, 1]])
    W = load(room, embedding)
    expected = F.embedding(torch.from_numpy(ids), W["weight"])
    for integers in (np.int64, np.uint8):  # torch takes bytes for a mask
        compare("token embedding", room, embedding(room.array(ids, integers)), expected, 0)


@both_rooms
@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_cross_entropy(room, ignore_index):
    logits, targets = 3 * normal(4, 6, 5), np.random.default_rng(0).integers(0, 5, (4, 6))
    targets[1, :3] = ignore_index
    theirs = torch64(logits).requires_grad_()
    loss = F.cross_entropy(theirs.mT, torch.from_numpy(targets), ignore_index=ignore_index)
    ours = room.layers.cross_entropy(room.array(logits), room.array(targets), ignore_index=ignore_index)
    compare("cross-entropy", room, ours, loss, 1e-14)
    if room is SCRATCH:
        loss.backward()
        gradient = scratch.cross_entropy_backward(logits, targets, ignore_index=ignore_index)
        compare("cross-entropy: gradient", room, gradient, theirs.grad, 1e-16)


# Attention with all its options


@both_rooms
@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_with_biases_padding_and_memory(room, crossing, masked):
    attention = room.layers.MultiHeadAttention(12, 3, bias="all", **room.parameters())
    W, x, memory = load(room, attention), normal(2, 5, 12), normal(2, 7, 12, seed=2)
    read = memory if crossing else x
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    load_attention(theirs, W, "")
    real = np.arange(read.shape[1]) < np.array([[3], [5]])
    expected, _ = theirs(
        torch64(x), *[torch64(read)] * 2, key_padding_mask=torch.from_numpy(~real) if masked else None
    )
    given = {"mask": room.array(real[:, None, None])} if masked else {}
    given |= {"memory": room.array(memory)} if crossing else {}
    component = "multi-head attention, across two texts" if crossing else "multi-head attention"
    compare(component, room, attention(room.array(x), **given), expected, section=ATTENTION)


@both_rooms
def test_grouped_heads(room):
    """In torch, too, query head h uses key head h // (H/G)."""
    q, k, v = normal(2, 6, 4, 5), normal(2, 3, 4, 5, seed=2), normal(2, 3, 4, 5, seed=3)
    repeated = [room.layers.repeat_heads(room.array(x), 2) for x in (k, v)]
    ours, _ = room.layers.scaled_dot_product_attention(room.array(q), *repeated, scale=0.3)
    expected = F.scaled_dot_product_attention(*map(torch64, (q, k, v)), enable_gqa=True, scale=0.3)
    compare("attention, grouped queries", room, ours, expected, section=ATTENTION)


# Whole blocks


def load_attention(theirs, W, prefix):
    """Copies our weights into torch's attention, which uses (out, in) and one matrix for all three projections."""
    qkv = [f"{prefix}W_{letter}" for letter in "qkv"]
    theirs.in_proj_weight.data = torch.cat([W[f"{name}.weight"].T for name in qkv])
    theirs.in_proj_bias.data = torch.cat([W[f"{name}.bias"] for name in qkv])
    theirs.out_proj.weight.data = W[f"{prefix}W_o.weight"].T
    theirs.out_proj.bias.data = W[f"{prefix}W_o.bias"]


def load_block(theirs, W, norms):
    for name, ours in (("linear1", "feedforward.W_up"), ("linear2", "feedforward.W_down")):
        getattr(theirs, name).weight.data = W[f"{ours}.weight"].T
        getattr(theirs, name).bias.data = W[f"{ours}.bias"]
    for number, ours in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").weight.data = W[f"{ours}.weight"]
        getattr(theirs, f"norm{number}").bias.data = W[f"{ours}.bias"]
    load_attention(theirs.self_attn, W, "attention.")


every_block = pytest.mark.parametrize("placement", ["pre", "post"])
every_activation = pytest.mark.parametrize("activation", ["relu", "gelu"])


def block_and_settings(room, placement, activation, **asked):
    config = SYSTEMS["GPT-2"].replace(
        norm_placement=placement, feedforward=activation, d_ff=20, norm_eps=1e-3
    )
    settings = {"dropout": 0, "layer_norm_eps": 1e-3, "batch_first": True, "dtype": torch.float64}
    settings |= {"activation": activation, "norm_first": placement == "pre"}
    return room.layers.Block(config, **asked, **room.parameters()), (8, 2, 20), settings


@both_rooms
@every_block
@every_activation
@pytest.mark.parametrize("causal", [False, True])
def test_a_block_is_torch_transformer_encoder_layer(room, placement, activation, causal):
    block, sizes, settings = block_and_settings(room, placement, activation, causal=causal)
    theirs = torch.nn.TransformerEncoderLayer(*sizes, **settings)
    load_block(theirs, load(room, block), ["norm_attention", "norm_feedforward"])
    x, real = normal(2, 5, 8), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    expected = theirs(torch64(x), src_mask=hidden, src_key_padding_mask=torch.from_numpy(~real))
    ours = block(room.array(x), mask=room.array(real[:, None, None]))
    compare(f"block, {placement}-norm (TransformerEncoderLayer)", room, ours, expected)


@both_rooms
@every_block
@every_activation
def test_a_block_that_crosses_is_torch_transformer_decoder_layer(room, placement, activation):
    block, sizes, settings = block_and_settings(room, placement, activation, causal=True, crossing=True)
    theirs = torch.nn.TransformerDecoderLayer(*sizes, **settings)
    W = load(room, block)
    load_block(theirs, W, ["norm_attention", "norm_cross_attention", "norm_feedforward"])
    load_attention(theirs.multihead_attn, W, "cross_attention.")
    x, memory = normal(2, 5, 8), normal(2, 4, 8, seed=2)
    real = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)
    expected = theirs(
        torch64(x),
        torch64(memory),
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        memory_key_padding_mask=torch.from_numpy(~real),
    )
    given = {"memory": room.array(memory), "memory_mask": room.array(real[:, None, None])}
    ours = block(room.array(x), **given)
    compare(f"block, {placement}-norm, with cross-attention (TransformerDecoderLayer)", room, ours, expected)


# Training


ADAMW = {
    "as it comes": {},
    "other numbers": {"learning_rate": 0.03, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.2},
    "no decay": {"weight_decay": 0.0},
    "little memory": {"betas": (0.0, 0.5)},
    "some without decay": {"weight_decay": 0.3, "learning_rate": 0.01, "no_decay": True},
}


@pytest.mark.parametrize("settings", ADAMW)
def test_adamw_takes_torch_steps(settings):
    """Takes 50 steps of a small network in each room, with the same gradients."""
    settings = dict(ADAMW[settings])
    ours, theirs = (room.layers.FeedForward(4, 5, **room.parameters()) for room in (SCRATCH, NN))
    theirs.load_state_dict({name: torch64(weight) for name, weight in ours.state_dict().items()})
    if settings.pop("no_decay", False):
        settings["no_decay"] = ["W_up.bias", "W_down.bias"]
    optimizer = scratch.AdamW(ours, **settings)
    weights, without = dict(theirs.named_parameters()), settings.pop("no_decay", [])
    groups = [
        {"params": [weight for name, weight in weights.items() if name not in without]},
        {"params": [weights[name] for name in without], "weight_decay": 0.0},
    ]
    in_torch = {"learning_rate": "lr"}
    reference = torch.optim.AdamW(groups, **{in_torch.get(n, n): v for n, v in settings.items()})
    for step in range(50):
        ours.zero_gradients()
        saved = []
        y = ours(normal(2, 3, 4, seed=step), saved)
        ours.backward(y - normal(2, 3, 4, seed=step + 1), saved)
        for name, weight in weights.items():
            weight.grad = torch64(ours.gradients()[name])
        optimizer.step()
        reference.step()
    for name, weight in weights.items():
        largest = weight.detach().abs().max()
        compare(
            "AdamW, 50 steps: weights (relative to the largest)",
            SCRATCH,
            ours.named_parameters()[name] / largest.item(),
            weight / largest,
            section="Training",
        )


def test_adamw_leaves_alone_what_has_no_gradient():
    linear = scratch.Linear(3, 2, **SCRATCH.parameters())
    linear.bias[...] = 1
    weight = linear.weight.copy()
    linear.accumulate(weight=np.ones((3, 2)))
    scratch.AdamW(linear, learning_rate=0.1, weight_decay=0.5).step()
    np.testing.assert_array_equal(linear.bias, [1, 1])
    np.testing.assert_allclose(linear.weight, weight * 0.95 - 0.1, rtol=1e-7)  # 1e-8: eps


@pytest.mark.parametrize("max_norm", [0.01, 1.0, 1e6])
def test_clipping(max_norm):
    model = build(SCRATCH, SYSTEMS["GPT-2"])
    gradients(SCRATCH, model, texts(model.config), normal(2, 5, 11))
    parameters = [torch.nn.Parameter(torch64(g)) for g in model.gradients().values()]
    for parameter in parameters:
        parameter.grad = parameter.data.clone()
    expected = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    length = scratch.clip_gradients(model, max_norm)
    exactly = {"section": "Training", "difference": largest_relative_difference}
    compare("gradient clipping: length (relative)", SCRATCH, length, expected, 1e-13, **exactly)
    for ours, theirs in zip(model.gradients().values(), parameters, strict=True):
        compare("gradient clipping: gradients (relative)", SCRATCH, ours, theirs.grad, **exactly)


def test_clipping_without_gradients():
    assert scratch.clip_gradients(build(SCRATCH, SYSTEMS["GPT-2"]), 1.0) == 0


# Dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_that_share_and_keeps_the_mean(rate):
    dropout, x = scratch.Dropout(rate, generator=np.random.default_rng(0)), np.ones((100, 1000), np.float32)
    saved = []
    y = dropout(x, saved)
    n, deviation = x.size, (rate * (1 - rate)) ** 0.5
    assert abs((y == 0).mean() - rate) < 5 * deviation / n**0.5
    np.testing.assert_array_equal(y[y != 0], np.float32(1) / np.float32(1 - rate))
    assert abs(y.mean() - 1) < 5 * deviation / (1 - rate) / n**0.5
    np.testing.assert_array_equal(dropout.backward(2 * x, saved), 2 * y)  # the same numbers, scaled alike
    assert (dropout(x) != y).any()  # and others the next time


def test_dropout_does_nothing_in_evaluation_or_at_rate_0():
    x = normal(3, 4)
    for dropout in (
        scratch.Dropout(0.5, generator=np.random.default_rng(0)).eval(),
        scratch.Dropout(0.0, generator=None),
    ):
        saved = []
        y = dropout(x, saved)
        assert y is x
        assert dropout.backward(x, saved) is x


@both_rooms
def test_a_model_drops_in_training_only(room):
    config = SYSTEMS["GPT-2"].replace(dropout=0.5)
    model = room.layers.Transformer(config, **room.parameters())
    ids = room.array(np.arange(10)[None])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        one, other = (room.numpy(model(ids)) for _ in range(2))
    assert np.abs(one - other).max() > 1e-3
    model.eval()
    np.testing.assert_array_equal(room.numpy(model(ids)), room.numpy(model(ids)))
    assert not any(part.training for part in modules(room, model))
    model.train()
    assert all(part.training for part in modules(room, model))


def modules(room, model):
    return list(model.modules()) if room.is_torch else [layer for _, layer in model.layers()]
