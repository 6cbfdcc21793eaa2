"""What only the PyTorch room has: parameters, gradients, state dicts."""

import numpy as np
import pytest
import torch

import glassformer.nn as gnn

from .rooms import METHODS, NN, Layer, every_method


@every_method
def test_gradients_reach_every_weight_and_agree_with_finite_differences(method):
    layer = Layer(NN, method, D=4, H=2, causal=True)
    x = torch.randn(3, 4, generator=NN.generator(), dtype=torch.float64, requires_grad=True)
    weights = dict(layer.attention.named_parameters()) | dict(layer.method.named_parameters())
    names = {f"{W}.weight" for W in ("W_q", "W_k", "W_v", "W_o")}
    if method in ("learned", "t5", "t5-bidirectional"):
        names |= {"weight", "positions.weight"}  # one weight: the attention holds the method too
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
    """As T5 does: one table of biases for all layers."""
    shared = gnn.T5Positions(2, bidirectional=True, **NN.parameters())
    layers = torch.nn.ModuleList(
        gnn.MultiHeadAttention(8, 2, positions=shared, **NN.parameters()) for _ in range(3)
    )
    assert sum(p.numel() for p in layers.parameters()) == 3 * 4 * 64 + 32 * 2
