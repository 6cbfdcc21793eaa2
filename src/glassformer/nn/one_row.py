"""Multiplies by a matrix, a single row faster than torch does. Only PyTorch needs it: NumPy uses both cores."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

LARGE = 2**18  # numbers in a matrix that does not fit in a core's own cache


def times(
    x: Float[Tensor, "*B n_in"],
    weight: Float[Tensor, "n_in n_out"],
    bias: Float[Tensor, " n_out"] | None = None,
) -> Float[Tensor, "*B n_out"]:
    """Computes x @ weight + bias.

    To multiply a single row, torch uses one core. So the upper and the lower half
    of a large matrix are multiplied as a batch, which uses two, and added. Without
    gradients, on a CPU: that is how a model writes, token by token.
    """
    n_in, n_out = weight.shape
    if (
        n_in * n_out >= LARGE
        and n_in % 2 == 0
        and x.numel() == n_in
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and weight.is_contiguous()
    ):
        rows = x.reshape(2, 1, n_in // 2)
        upper, lower = rows @ weight.view(2, n_in // 2, n_out)
        y = (upper + lower).reshape(*x.shape[:-1], n_out)
        return y if bias is None else y + bias
    # Torch expects the transposed weight
    return functional.linear(x, weight.T, bias)
