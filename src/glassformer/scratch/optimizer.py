"""The optimizers, which turn gradients into steps."""

import math
from collections.abc import Collection

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer
from glassformer.shapes import Float

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial in `orthogonalized`, which raises small numbers fast, to between 0.68 and 1.21."""

EPS = 1e-7  # avoids dividing a matrix of zeros by 0


class AdamW:
    """Adam with decoupled weight decay, for all weights of a layer; it changes them in place.

    Every weight has two running means, of its gradient (m) and of the gradient's square (v), both corrected
    for starting at 0. A step is learning_rate · m / (√v + eps), so it is about equally long for small and for
    large gradients. Before the step, every weight is multiplied by 1 − learning_rate · weight_decay, except
    those whose names are in `no_decay`.

    Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2. Derived in
    chapter 10.

    Raises:
        ValueError: a number is out of range, or a name in `no_decay` is not a weight of the layer.
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
        """Updates every weight that has a gradient."""
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
    """Orthogonalized momentum: moves every matrix equally far in all directions, and changes it in place.

    A weight W (n_in, n_out) has a running mean of its gradient, which starts at
    0. A step is learning_rate · √max(1, n_out/n_in) · `orthogonalized`(the mean,
    moved once more towards the gradient, as in Nesterov's momentum). Before the
    step, every weight is multiplied by 1 − learning_rate · weight_decay. `names`
    lists the layer's matrices to train; None means all. Muon is meant for the
    matrices inside the blocks, where every direction matters, and not for
    embeddings.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
    networks". Derived in chapter 10.

    Raises:
        ValueError: a number is out of range, or one of `names` is not a matrix of the layer.
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
        """Updates every one of its matrices that has a gradient."""
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
    """Returns approximately U V^T for a matrix U S V^T: the same directions, all about equally long.

    No singular value is ever computed. With the square matrix Z = X X^T, (a I + b
    Z + c Z²) X has the same singular vectors as X, and each singular value is
    replaced by a polynomial of itself. Every iteration applies this polynomial
    again: small singular values rise fast, then stay between 0.68 and 1.21.
    First, dividing the whole matrix by its length, the Frobenius norm, brings all
    of them between 0 and 1.

    Source: Jordan et al. 2024; such iterations: Schulz 1933, "Iterative Berechnung
    der reziproken Matrix". Derived in chapter 10.

    Raises:
        ValueError: `iterations` is below 1, or `matrix` does not have two axes.
        TypeError: `matrix` is not floating-point.
    """
    checks.floats("matrix", matrix)
    checks.whole("iterations", iterations)
    if matrix.ndim != 2:
        raise ValueError(
            f"matrix has shape {matrix.shape}, but needs the axes (N, M)"
        )
    if matrix.shape[0] > matrix.shape[1]:  # X X^T: the smaller square
        return orthogonalized(matrix.T, iterations).T
    a, b, c = COEFFICIENTS
    x = matrix / max(np.linalg.norm(matrix), EPS)
    for _ in range(iterations):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x


def clip_gradients(layer: Layer, max_norm: float) -> float:
    """Scales all gradients together so that their length is at most `max_norm`; returns their original length.

    Source: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks", algorithm 1.
    Derived in chapter 10.

    Raises:
        ValueError: `max_norm` is not positive.
    """
    checks.positive("max_norm", max_norm)
    gradients = layer.gradients().values()
    length = math.sqrt(sum(float(np.vdot(g, g)) for g in gradients))
    # as in torch: avoids division by 0, and never lengthens
    factor = min(1.0, max_norm / (length + 1e-6))
    for gradient in gradients:
        gradient *= factor
    return length
