"""Muon, the optimizer for the matrices inside the blocks; its steps are equally long in all directions."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from glassformer import _checks as checks

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial in `orthogonalized`, which raises small numbers fast, to between 0.68 and 1.21."""

EPS = 1e-7  # avoids dividing a gradient of zeros by 0
OF_SQUARES = 5  # up to this many iterations use only the square matrices: see `_from_the_square`


class Muon(torch.optim.Optimizer):
    """Orthogonalized momentum: every matrix moves by a matrix whose singular values are all near 1.

    A weight W (n_in, n_out) has a running mean M of its gradient G, which starts at 0:

        M ← momentum · M + (1 − momentum) · G
        U = orthogonalized(momentum · M + (1 − momentum) · G)
        W ← (1 − lr · weight_decay) · W − lr · √max(1, n_out/n_in) · U

    The second line looks ahead, as in Nesterov's momentum. The root makes a step change the output by about
    the same amount, whether the matrix maps to more features or to fewer. All matrices of one shape go
    through `orthogonalized` together, transposed or not.

    PyTorch's own `torch.optim.Muon` processes one matrix (n_out, n_in) after another, and always in bfloat16;
    `precision_of` explains why we do not. `scratch.optimizer.Muon` is the same algorithm in NumPy, and the two make
    the same steps.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks". Derived in chapter 10.

    Raises:
        ValueError: a parameter is not a matrix, or a number is out of range.
        TypeError: a number is of the wrong kind.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        iterations: int = 4,
    ) -> None:
        given = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "iterations": iterations}
        super().__init__(params, given)
        for group in self.param_groups:
            checks.not_negative("lr", group["lr"])
            checks.rate("momentum", group["momentum"])
            checks.not_negative("weight_decay", group["weight_decay"])
            checks.whole("iterations", group["iterations"])
            for weight in group["params"]:
                if weight.ndim != 2:
                    raise ValueError(f"a parameter of shape {tuple(weight.shape)} is not a matrix")

    @torch.no_grad()
    def step(self) -> None:  # pyrefly: ignore[bad-override]
        """Updates every weight that has a gradient. It takes no closure, because nothing is computed twice."""
        for group in self.param_groups:
            alike = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    direction = self._direction(weight, weight.grad, group["momentum"])
                    alike[tuple(sorted(weight.shape))].append((weight, _wide(direction)))
            for moved in alike.values():
                weights, directions = zip(*moved, strict=True)
                wanted = torch.stack(directions)
                for weight, update in zip(weights, orthogonalized(wanted, group["iterations"]), strict=True):
                    n_in, n_out = weight.shape
                    if group["weight_decay"]:
                        weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.sub_(
                        update if n_in <= n_out else update.mT,
                        alpha=group["lr"] * math.sqrt(max(1, n_out / n_in)),
                    )

    def _direction(self, weight: Tensor, gradient: Tensor, momentum: float) -> Tensor:
        """Updates the running mean, and returns it moved once more towards the gradient."""
        state = self.state[weight]
        if not state:
            # PyTorch's name, so that its checkpoints can be resumed here
            state["momentum_buffer"] = torch.zeros_like(weight)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(mean, momentum)


def orthogonalized(matrices: Tensor, iterations: int = 4) -> Tensor:
    """Returns approximately U V^T for each matrix U S V^T of (k, n, m): the same directions, all about equally long.

    No singular value is ever computed. With the square matrix Z = X X^T, (a I + b Z + c Z²) X has the same
    singular vectors as X, and each singular value is replaced by a polynomial of itself. Each of the
    `iterations` applies this polynomial again and moves the singular values from anywhere between 0 and 1
    towards 1. Dividing the whole matrix by its length, the Frobenius norm, first brings all of them into this
    range.

    It costs least if n < m. X X^T is then the smaller of the two square products, and X itself is not needed
    in between, which saves a fifth to a quarter of the time: see `_from_the_square`.

    Source: Jordan et al. 2024; such iterations: Schulz 1933, "Iterative Berechnung der reziproken Matrix". Derived
    in chapter 10.
    """
    x = matrices.to(precision_of(matrices))
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=EPS)
    n, m = x.shape[-2:]
    if n < m and iterations <= OF_SQUARES and x.dtype != torch.bfloat16:
        x = _from_the_square(x @ x.mT, iterations) @ x
    else:
        for _ in range(iterations):
            x = _factor(x @ x.mT) @ x
    return x.to(matrices.dtype)


def _factor(square: Tensor) -> Tensor:
    """Returns aI + bZ + cZ² for a square Z."""
    a, b, c = COEFFICIENTS
    factor = torch.baddbmm(square, square, square, beta=b, alpha=c)  # in a single pass over the memory
    factor.diagonal(dim1=-2, dim2=-1).add_(a)
    return factor


def _from_the_square(square: Tensor, iterations: int) -> Tensor:
    """Returns the product of the factors of all iterations: if F X replaces X, then F Z F replaces its square Z.

    A singular value of 0 has a square near 0, which rounding may make negative. Every F Z F multiplies it by
    a² = 12, and far below 0 the polynomial diverges. In float32 this happens at the tenth iteration; after
    five, the result is as precise as without squares, to 1e-5. In bfloat16 it happens too early.
    """
    product = factor = _factor(square)
    for _ in range(iterations - 1):
        square = factor @ square @ factor
        factor = _factor(square)
        product = factor @ product
    return product


def precision_of(matrices: Tensor) -> torch.dtype:
    """Returns the dtype to iterate in: bfloat16 on NVIDIA's GPUs, elsewhere that of the matrices.

    Half the digits are enough, since a singular value of 0.9 serves as well as 1, and units made for bfloat16
    multiply several times as fast. GPUs have such units. Only some CPUs do, and the others emulate them:
    there, a product in bfloat16 takes thirty to fifty times as long as in float32, and a training step ten
    times as long.
    """
    return torch.bfloat16 if matrices.is_cuda else matrices.dtype


def _wide(matrix: Tensor) -> Tensor:
    """Returns the matrix or its transpose, whichever has no more rows than columns."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
