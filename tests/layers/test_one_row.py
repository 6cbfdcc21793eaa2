"""Tests how PyTorch multiplies a single row: as two halves of a large matrix, and only where that is allowed."""

import pytest
import torch
from close import DOUBLE, SINGLE, assert_close

from glassformer import nn
from glassformer.nn.one_row import LARGE, times

WIDE = (512, 600)  # more numbers than LARGE


@pytest.fixture
def halves(monkeypatch):
    """Returns a function that tells whether all was computed by halves, without torch's own `linear`."""
    usual, found = torch.nn.functional.linear, []
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda *given: (found.append("whole"), usual(*given))[1]
    )
    return lambda: "whole" not in found


def arrays(shape, n_rows=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    given = ((1, n_rows, shape[0]), shape, shape[1:])
    return [torch.randn(one, generator=generator, dtype=torch.float64).to(dtype) for one in given]


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
def test_the_halves_add_up(halves, dtype, bias):
    x, weight, b = arrays(WIDE, dtype=dtype)
    found = times(x, weight, b if bias else None)
    assert halves()
    wanted = x.double() @ weight.double() + (b.double() if bias else 0)
    assert_close(found, wanted, SINGLE if dtype == torch.float32 else DOUBLE)


@torch.no_grad()
@pytest.mark.parametrize(
    "given",
    [
        arrays(WIDE, n_rows=2),
        arrays((32, 32)),
        arrays((511, 600)),
        arrays(WIDE, dtype=torch.bfloat16),
        [arrays(WIDE)[0], arrays(WIDE[::-1])[1].T, None],
    ],
    ids=["two rows", "small", "odd", "bfloat16", "another order in memory"],
)
def test_all_else_is_left_to_torch(halves, given):
    times(*given)
    assert not halves()


def test_a_product_that_is_differentiated_is_left_to_torch(halves):
    x, weight, bias = arrays(WIDE)
    times(x, weight.requires_grad_(), bias).sum().backward()
    assert not halves()


@torch.no_grad()
def test_a_model_writes_with_it(halves):
    linear = nn.Linear(*WIDE, generator=torch.Generator())
    assert linear.weight.numel() >= LARGE
    linear(torch.ones(1, 1, WIDE[0]))
    assert halves()
