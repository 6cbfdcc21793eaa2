"""Tests how PyTorch multiplies a single row, as two halves, and by very many columns, in pieces: only where it may."""

import pytest
import torch
from close import DOUBLE, SINGLE, assert_close

from glassformer import nn
from glassformer.nn.product import LARGE, PIECE, WIDE, times

SHAPE = (512, 600)  # more numbers than LARGE
HEAD = (20, WIDE + 1)  # with a last piece of one column


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
    x, weight, b = arrays(SHAPE, dtype=dtype)
    found = times(x, weight, b if bias else None)
    assert halves()
    wanted = x.double() @ weight.double() + (b.double() if bias else 0)
    assert_close(found, wanted, SINGLE if dtype == torch.float32 else DOUBLE)


@torch.no_grad()
@pytest.mark.parametrize("in_memory", ["by rows", "by columns"])
@pytest.mark.parametrize("bias", [True, False])
def test_many_columns_are_multiplied_piece_by_piece(halves, bias, in_memory):
    x, weight, b = arrays(HEAD, n_rows=3)
    assert HEAD[1] % PIECE == 1
    if in_memory == "by columns":
        weight = weight.T.contiguous().T
    found = times(x, weight, b if bias else None)
    assert halves()
    assert found.shape == (1, 3, HEAD[1])
    assert_close(found, x.double() @ weight.double() + (b.double() if bias else 0), SINGLE)


@torch.no_grad()
@pytest.mark.parametrize(
    "given",
    [
        arrays(SHAPE, n_rows=2),
        arrays((32, 32)),
        arrays((511, 600)),
        arrays(SHAPE, dtype=torch.bfloat16),
        [arrays(SHAPE)[0], arrays(SHAPE[::-1])[1].T, None],
        arrays((20, WIDE - 1), n_rows=3),
    ],
    ids=["two rows", "small", "odd", "bfloat16", "another order in memory", "a column less"],
)
def test_all_else_is_left_to_torch(halves, given):
    times(*given)
    assert not halves()


def test_a_product_that_is_differentiated_is_left_to_torch(halves):
    x, weight, bias = arrays(SHAPE)
    times(x, weight.requires_grad_(), bias).sum().backward()
    assert not halves()


@torch.no_grad()
def test_a_model_writes_with_it(halves):
    linear = nn.Linear(*SHAPE, generator=torch.Generator())
    assert linear.weight.numel() >= LARGE
    linear(torch.ones(1, 1, SHAPE[0]))
    assert halves()
