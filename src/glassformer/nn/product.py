"""Multiplies by a matrix, faster than torch does for a single row and for a large vocabulary. NumPy needs neither."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

LARGE = 2**18  # numbers in a matrix that does not fit in a core's own cache
WIDE = 2**14  # columns, of the heads of large vocabularies alone
PIECE = 2**11  # columns that are multiplied at a time


def times(
    x: Float[Tensor, "*B n_in"],
    weight: Float[Tensor, "n_in n_out"],
    bias: Float[Tensor, " n_out"] | None = None,
) -> Float[Tensor, "*B n_out"]:
    """Computes x @ weight + bias.

    To multiply a single row, torch uses one core. So the upper and the lower half
    of a large matrix are multiplied as a batch, which uses two, and added. And a
    matrix with very many columns is multiplied piece by piece, because torch
    takes a third longer for all columns at once. Both without gradients and on a
    CPU: that is how a model reads a text, and writes, token by token.
    """
    n_in, n_out = weight.shape
    if (
        n_in * n_out < LARGE
        or x.device.type != "cpu"
        or x.dtype not in (torch.float32, torch.float64)
        or torch.is_grad_enabled()
        or torch.compiler.is_compiling()
    ):
        # Torch expects the transposed weight
        return functional.linear(x, weight.T, bias)
    if x.numel() == n_in and n_in % 2 == 0 and weight.is_contiguous():
        rows = x.reshape(2, 1, n_in // 2)
        upper, lower = rows @ weight.view(2, n_in // 2, n_out)
        y = upper + lower
    elif n_out >= WIDE:
        rows = x.reshape(-1, n_in)
        y = x.new_empty(len(rows), n_out)
        pieces = weight.split(PIECE, dim=1), y.split(PIECE, dim=1)
        for columns, into in zip(*pieces, strict=True):
            torch.mm(rows, columns, out=into)
    else:
        return functional.linear(x, weight.T, bias)
    y = y.reshape(*x.shape[:-1], n_out)
    return y if bias is None else y + bias
