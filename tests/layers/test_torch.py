"""Tests what only the PyTorch room has: parameters, gradients and state dicts."""

import numpy as np
import pytest
import torch

import glassformer.nn as gnn
from glassformer.config import ModelConfig
from glassformer.trace import trace

from .rooms import METHODS, NN, Layer, every_method


@every_method
def test_gradients_reach_every_weight_and_agree_with_finite_differences(method):
    layer = Layer(NN, method, D=4, H=2, causal=True)
    x = torch.randn(3, 4, generator=NN.generator(), dtype=torch.float64, requires_grad=True)
    weights = dict(layer.attention.named_parameters()) | dict(layer.method.named_parameters())
    names = {f"{W}.weight" for W in ("W_q", "W_k", "W_v", "W_o")}
    if method in ("learned", "t5", "t5-bidirectional"):
        names |= {"weight", "position_encoding.weight"}  # one weight: the attention holds the method too
    assert set(weights) == names
    torch.autograd.gradcheck(lambda x: layer.attention(layer.method.embed(x)), x)
    layer.attention(layer.method.embed(x)).square().sum().backward()
    for name, weight in weights.items():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 1e-3, name


def test_a_query_that_sees_no_key_has_no_gradient_and_spoils_no_other():
    x = torch.randn(3, 8, generator=NN.generator(), dtype=torch.float64, requires_grad=True)
    attention = gnn.MultiHeadAttention(8, 2, **NN.parameters())
    mask = torch.tensor([[False, False, False], [True, True, False], [True, True, True]])
    output = attention(x, mask=mask)
    assert (output[0] == 0).all()
    output.sum().backward()
    assert torch.isfinite(x.grad).all()
    for weight in attention.parameters():
        assert torch.isfinite(weight.grad).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_state_dict_carries_all_that_was_learned(method):
    one = Layer(NN, method, causal=True, seed=0)
    other = Layer(NN, method, causal=True, seed=1)
    x = np.random.default_rng(0).normal(size=(5, 24))
    assert np.abs(one(x) - other(x)).max() > 1e-3
    other.attention.load_state_dict(one.attention.state_dict())
    np.testing.assert_array_equal(one(x), other(x))


def test_attentions_that_share_a_method_share_its_weights():
    """As in T5: one table of biases for all layers."""
    shared = gnn.T5Positions(2, bidirectional=True, **NN.parameters())
    layers = torch.nn.ModuleList(
        gnn.MultiHeadAttention(8, 2, position_encoding=shared, **NN.parameters()) for _ in range(3)
    )
    assert sum(p.numel() for p in layers.parameters()) == 3 * 4 * 64 + 32 * 2


# Dropout

RATE = 0.4


def what_was_dropped(found, whole):
    """Returns where numbers were replaced by zeros. All others must be the numbers of `whole`, divided by 1 − RATE."""
    zero = found == 0
    torch.testing.assert_close(found[~zero], whole[~zero] / (1 - RATE), rtol=1e-9, atol=1e-12)
    five_standard_errors = 5 * (RATE * (1 - RATE) / zero.numel()) ** 0.5
    assert abs(zero.double().mean() - RATE) < five_standard_errors
    for axis in (-1, 1):  # number by number, and not a whole position or feature at once
        assert 0 < zero.sum(axis).min() <= zero.sum(axis).max() < zero.shape[axis]
    return zero


def places_of(stack, streams, memory):
    """Returns, for each place with dropout, in order, what was added to the stream and what it is without dropout."""
    parts = []
    for block in stack.blocks:
        parts += [(block.norm_attention, block.attention)]
        if block.cross_attention is not None:
            parts += [(block.norm_cross_attention, lambda x, b=block: b.cross_attention(x, memory=memory))]
        parts += [(block.norm_feedforward, block.feedforward)]
    for (norm, part), before, after in zip(parts, streams[:-1], streams[1:], strict=True):
        yield after - before, part(norm(before))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("family", ["decoder", "encoder", "encoder-decoder"])
def test_in_training_it_drops_embeddings_and_what_each_sublayer_adds_and_nothing_else(family, placement):
    """Compares each place with a twin without dropout; everything between and after must be the same."""
    config = ModelConfig(
        vocab_size=50, context_length=24, d_model=32, n_layers=2, n_heads=4, family=family, positions="learned",
        norm_placement=placement, dropout=RATE,
    )  # fmt: skip
    twin = gnn.Transformer(config.replace(dropout=0.0), **NN.parameters())
    model = gnn.Transformer(config, **NN.parameters())
    model.load_state_dict(twin.state_dict())
    if placement == "post":  # what is added can be told again where no norm follows
        for block in (part for it in (model, twin) for part in it.modules() if isinstance(part, gnn.Block)):
            for norm in ("norm_attention", "norm_cross_attention", "norm_feedforward"):
                setattr(block, norm, torch.nn.Identity())
    ids = torch.randint(50, (4, 24), generator=NN.generator())
    inputs = {"source": ids.flip(-1)} if family == "encoder-decoder" else {}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        with trace() as seen:
            logits = model(ids, **inputs)
        with trace() as whole:
            twin(ids, **inputs)
    zeros, memory = [], None
    for name in ("encoder", "decoder"):
        if (stack := getattr(twin, name)) is None:
            continue
        streams, undropped = (
            [it.array for it in given if it.name == "stream" and it.part.startswith(name)]
            for given in (seen, whole)
        )
        zeros.append(what_was_dropped(streams[0], undropped[0]))
        with torch.no_grad():
            zeros += [what_was_dropped(*place) for place in places_of(stack, streams, memory)]
            memory = streams[-1] if stack.norm is None else stack.norm(streams[-1])
    torch.testing.assert_close(logits, twin.head(memory), rtol=1e-9, atol=1e-12)
    assert len(zeros) == {"decoder": 5, "encoder": 5, "encoder-decoder": 12}[family]
    for i, one in enumerate(zeros):  # each place draws for itself
        for other in zeros[:i]:
            assert abs((one & other).double().mean() - RATE**2) < 0.05
