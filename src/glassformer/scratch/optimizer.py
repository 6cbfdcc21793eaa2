"""The optimizer: from gradients to steps."""

import math
from collections.abc import Collection

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer
from glassformer.shapes import Float

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial in `orthogonalized`: it lifts small numbers fast, and then keeps
them between 0.68 and 1.21."""

EPS = 1e-7  # a matrix of zeros is not divided by 0


class AdamW:
    """Adam with decoupled weight decay, over all weights of a layer, which it changes in place.

    Every weight has two running means, of its gradient (m) and of the gradient's square (v), both made up for
    starting at 0. A step is learning_rate · m / (√v + eps): about as long for a weight with small gradients as
    for one with large ones. Before it, every weight shrinks by learning_rate · weight_decay of itself, except
    those whose names are in `no_decay`.

    Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2. Derived in
    chapter 10.

    Raises:
        ValueError: a number is out of its range, or a name in `no_decay` is not a weight of the layer.
    """

    def __init__(
        self,
        layer: Layer,
        *,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        no_decay: Collection[str] = (),
    ) -> None:
        checks.positive("learning_rate", learning_rate)
        for i, beta in enumerate(betas):
            checks.rate(f"betas[{i}]", beta)
        checks.positive("eps", eps)
        checks.not_negative("weight_decay", weight_decay)
        for name in no_decay:
            checks.one_of("no_decay", name, layer.named_parameters())
        self.layer, self.learning_rate = layer, learning_rate
        self.betas, self.eps = betas, eps
        self.weight_decay, self.no_decay = weight_decay, frozenset(no_decay)
        self.n_steps = 0
        self.means: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def step(self) -> None:
        """Moves every weight that has a gradient."""
        self.n_steps += 1
        beta_m, beta_v = self.betas
        correct_m, correct_v = 1 - beta_m**self.n_steps, 1 - beta_v**self.n_steps
        weights = self.layer.named_parameters()
        for name, gradient in self.layer.gradients().items():
            weight = weights[name]
            if name not in self.means:
                self.means[name] = np.zeros_like(weight), np.zeros_like(weight)
            m, v = self.means[name]
            m += (1 - beta_m) * (gradient - m)
            v *= beta_v
            v += (1 - beta_v) * (gradient * gradient)
            if name not in self.no_decay:
                weight *= 1 - self.learning_rate * self.weight_decay
            size = np.sqrt(v) / math.sqrt(correct_v) + self.eps
            weight -= self.learning_rate / correct_m * m / size


class Muon:
    """Momentum, made orthogonal: every matrix moves as far in each direction as in any other, and changes in place.

    A weight W (n_in, n_out) has a running mean of its gradient, which begins at 0. A
    step is learning_rate · √max(1, n_out/n_in) · `orthogonalized`(the mean, moved
    once more towards the gradient, as Nesterov's momentum is). Before it, every
    weight shrinks by learning_rate · weight_decay of itself. `names` says which of
    the layer's matrices; None: all. Meant for those inside the blocks, whose every
    direction counts; not for embeddings.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
    networks". Derived in chapter 10.

    Raises:
        ValueError: a number is out of its range, or one of `names` is not a matrix of the layer.
        TypeError: a number is of the wrong kind.
    """

    def __init__(
        self,
        layer: Layer,
        *,
        learning_rate: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        iterations: int = 4,
        names: Collection[str] | None = None,
    ) -> None:
        checks.positive("learning_rate", learning_rate)
        checks.rate("momentum", momentum)
        checks.not_negative("weight_decay", weight_decay)
        checks.whole("iterations", iterations)
        weights = layer.named_parameters()
        matrices = [name for name in weights if weights[name].ndim == 2]
        for name in names or ():
            checks.one_of("names", name, matrices)
        self.layer, self.learning_rate = layer, learning_rate
        self.momentum, self.weight_decay = momentum, weight_decay
        self.iterations = iterations
        self.means = {
            name: np.zeros_like(weights[name]) for name in names or matrices
        }

    def step(self) -> None:
        """Moves every one of its matrices that has a gradient."""
        weights, gradients = self.layer.named_parameters(), self.layer.gradients()
        for name, mean in self.means.items():
            if name not in gradients:
                continue
            weight, gradient = weights[name], gradients[name]
            mean += (1 - self.momentum) * (gradient - mean)
            ahead = mean + (1 - self.momentum) * (gradient - mean)
            n_in, n_out = weight.shape
            weight *= 1 - self.learning_rate * self.weight_decay
            length = self.learning_rate * math.sqrt(max(1, n_out / n_in))
            weight -= length * orthogonalized(ahead, self.iterations)


def orthogonalized(
    matrix: Float[np.ndarray, "N M"], iterations: int = 4
) -> Float[np.ndarray, "N M"]:
    """U V^T of U S V^T, nearly: the same directions, and all about equally long.

    No singular value is ever computed. (a I + b Z + c Z²) X, with the square Z =
    X X^T, has the singular vectors of X, and a polynomial of its singular values,
    and every iteration puts them through it once more: small ones rise fast, and
    then stay between 0.68 and 1.21. Dividing by the length of the whole matrix, its
    Frobenius norm, brings all of them between 0 and 1 first.

    Source: Jordan et al. 2024; such iterations: Schulz 1933, "Iterative Berechnung
    der reziproken Matrix". Derived in chapter 10.

    Raises:
        ValueError: `iterations` is below 1, or `matrix` has not two axes.
        TypeError: `matrix` is not floating-point.
    """
    checks.floats("matrix", matrix)
    checks.whole("iterations", iterations)
    if matrix.ndim != 2:
        raise ValueError(
            f"matrix has shape {matrix.shape}, but needs the axes (N, M)"
        )
    if matrix.shape[0] > matrix.shape[1]:  # X X^T: the smaller of the two squares
        return orthogonalized(matrix.T, iterations).T
    a, b, c = COEFFICIENTS
    x = matrix / max(np.linalg.norm(matrix), EPS)
    for _ in range(iterations):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x


def clip_gradients(layer: Layer, max_norm: float) -> float:
    """Scales all gradients together so that their length is at most `max_norm`; gives the length they had.

    Source: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks", algorithm 1.
    Derived in chapter 10.

    Raises:
        ValueError: `max_norm` is not positive.
    """
    checks.positive("max_norm", max_norm)
    gradients = layer.gradients().values()
    length = math.sqrt(sum(float(np.vdot(g, g)) for g in gradients))
    # as torch has it: no division by 0, and never longer
    factor = min(1.0, max_norm / (length + 1e-6))
    for gradient in gradients:
        gradient *= factor
    return length
