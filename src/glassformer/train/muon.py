"""Muon, the optimizer of the matrices inside the blocks: its steps are as long in every direction."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from glassformer import _checks as checks

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial in `orthogonalized`: it lifts small numbers fast, and then keeps them between 0.68 and 1.21."""

EPS = 1e-7  # a gradient of zeros is not divided by 0


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal: every matrix moves by one whose singular values are all near 1.

    A weight W (n_in, n_out) has a running mean M of its gradient G, which begins at 0:

        M ← momentum · M + (1 − momentum) · G
        U = orthogonalized(momentum · M + (1 − momentum) · G)
        W ← (1 − lr · weight_decay) · W − lr · √max(1, n_out/n_in) · U

    Its second line looks ahead, as Nesterov's momentum does. The root makes a step change what comes out about as
    much whether the matrix leads to more features or to fewer. All matrices of one shape go through `orthogonalized`
    together, whichever way round they are.

    PyTorch's own, `torch.optim.Muon`, takes one matrix after the other, (n_out, n_in), and always in bfloat16: see
    `precision_of` for why not here.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks". Derived in chapter 10.

    Raises:
        ValueError: a parameter is not a matrix, or a number is out of its range.
        TypeError: a number is of the wrong kind.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        iterations: int = 5,
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
    def step(self) -> None:
        """Moves every weight that has a gradient."""
        for group in self.param_groups:
            alike = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    alike[tuple(sorted(weight.shape))].append(weight)
            for weights in alike.values():
                wanted = torch.stack(
                    [_wide(self._direction(weight, group["momentum"])) for weight in weights]
                )
                for weight, update in zip(weights, orthogonalized(wanted, group["iterations"]), strict=True):
                    n_in, n_out = weight.shape
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.sub_(
                        update if n_in <= n_out else update.mT,
                        alpha=group["lr"] * math.sqrt(max(1, n_out / n_in)),
                    )

    def _direction(self, weight: Tensor, momentum: float) -> Tensor:
        """Where the running mean points, once more moved towards the gradient; the mean is moved first."""
        state = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(
                weight
            )  # by PyTorch's name: its checkpoints go on here
        mean = state["momentum_buffer"].lerp_(weight.grad, 1 - momentum)
        return weight.grad.lerp(mean, momentum)


def orthogonalized(matrices: Tensor, iterations: int = 5) -> Tensor:
    """U V^T of U S V^T, nearly, for each of the matrices (k, n, m): the same directions, all about equally long.

    No singular value is ever computed. a X + b (X X^T) X + c (X X^T)² X has the singular vectors of X, and a
    polynomial of its singular values, and each of the `iterations` puts them through it once more: from anywhere
    between 0 and 1 towards 1. Dividing by the length of the whole matrix first, its Frobenius norm, brings all of
    them there.

    It costs least where n ≤ m: X X^T is then the smaller of the two squares.

    Source: Jordan et al. 2024; such iterations: Schulz 1933, "Iterative Berechnung der reziproken Matrix". Derived
    in chapter 10.
    """
    a, b, c = COEFFICIENTS
    x = matrices.to(precision_of(matrices))
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=EPS)
    for _ in range(iterations):
        square = x @ x.mT
        # Product and sum in one pass over the memory: b S + c S S, then a X + (…) X
        factor = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, factor, x, beta=a)
    return x.to(matrices.dtype)


def precision_of(matrices: Tensor) -> torch.dtype:
    """In which numbers to iterate: in bfloat16 on NVIDIA's GPUs, elsewhere in those that the matrices have.

    Half as many digits would do, since a singular value of 0.9 serves as well as 1, and units made for bfloat16
    multiply several times as fast. GPUs have them. Of CPUs only some do, and the others emulate them: there, a
    product in bfloat16 takes thirty to fifty times as long as in float32, and a step of training ten times.
    """
    return torch.bfloat16 if matrices.is_cuda else matrices.dtype


def _wide(matrix: Tensor) -> Tensor:
    """The matrix or its transpose, whichever has no more rows than columns."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
