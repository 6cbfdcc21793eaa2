"""The base of all NumPy layers: names weights, collects gradients, saves and loads. PyTorch has `nn.Module`."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks

AnyLayer = TypeVar("AnyLayer", bound="Layer")
Shape = tuple[int, ...]

if sys.platform == "linux":
    # Making and freeing one large array shows the C library's allocator that such
    # arrays come and go. From then on, it keeps what arrays of up to 32 MB leave
    # behind for those of the next step, which would otherwise spend a quarter of
    # its time on getting the same memory from the system again.
    np.empty(2**25 - 2**16, np.uint8)

Saved = list[tuple]
"""Values that a forward pass saves for the backward pass: a stack to which each layer adds one tuple."""


def save_for_backward(saved: Saved | None, *values: Any) -> None:
    """Puts `values` on the stack. Without a stack, it does nothing: there will be no backward pass."""
    if saved is not None:
        saved.append(values)


class Layer:
    """Holds weights and sublayers by name, and the gradients of the weights.

    A subclass writes two functions that mirror each other line by line:

        def forward(self, x, saved=None):
            x = self.first(x, saved)
            return self.second(x, saved)

        def backward(self, grad, saved):
            grad = self.second.backward(grad, saved)
            return self.first.backward(grad, saved)

    `forward` returns the output. If it is given a list, `saved`, it appends what
    the backward pass will need. `backward` takes the gradient of the loss with
    respect to the output, adds to the gradient of every weight, and returns the
    gradient with respect to the input: the chain rule, one layer at a time. It
    goes through the layers from last to first, so each layer finds its own values
    at the end of the list and takes them off. Functions with a gradient come in
    pairs as well: `f` and `f_backward`. No gradient flows through a cache.
    Calling the layer calls `forward`.

    Every attribute that is an array is a weight, and every attribute that is a
    layer or a list of layers is a sublayer. Attributes whose names start with an
    underscore are neither.

    Derived in chapter 09.
    """

    training = True  # as in torch: dropout is active
    _gradients: dict[str, np.ndarray]  # of this layer's own weights, by name

    def __new__(cls: type[AnyLayer], *args: Any, **kwargs: Any) -> AnyLayer:
        """Creates the dictionary of gradients, so that subclasses need not call `super().__init__`."""
        layer = object.__new__(cls)
        layer._gradients = {}
        return layer

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The output."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def backward(self, grad: Any, saved: Saved) -> Any:
        """Maps the gradient of the output to that of the input."""
        raise NotImplementedError(f"{type(self).__name__} has no backward")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """The output of `forward`."""
        return self.forward(*inputs, **options)

    def layers(self, prefix: str = "") -> Iterator[tuple[str, "Layer"]]:
        """Yields this layer and all its sublayers, each with its path, such as `decoder.blocks.0.attention`."""
        yield prefix, self
        for name, value in vars(self).items():
            if name[0] == "_":
                continue
            children = (
                enumerate(value) if isinstance(value, list) else [(None, value)]
            )
            for i, child in children:
                if isinstance(child, Layer):
                    path = name if i is None else f"{name}.{i}"
                    yield from child.layers(
                        f"{prefix}.{path}" if prefix else path
                    )

    def _places(self) -> Iterator[tuple[str, "Layer", str]]:
        """Yields every weight once: its first path, the layer that holds it, and its name in that layer."""
        seen = set()
        for path, layer in self.layers():
            for name, value in vars(layer).items():
                if (
                    isinstance(value, np.ndarray)
                    and name[0] != "_"
                    and id(value) not in seen
                ):
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, layer, name

    def named_parameters(self) -> dict[str, np.ndarray]:
        """Returns every weight by its path. These are the arrays themselves: change them in place to train."""
        return {
            path: getattr(layer, name) for path, layer, name in self._places()
        }

    def gradients(self) -> dict[str, np.ndarray]:
        """Returns the gradient of every weight that has one, under the names of `named_parameters`."""
        return {
            path: layer._gradients[name]
            for path, layer, name in self._places()
            if name in layer._gradients
        }

    def accumulate(self, **gradients: np.ndarray) -> None:
        """Adds to the gradients of this layer's own weights, by name; every `backward` calls it.

        The gradients are added because a weight that is used twice gets the sum
        of both gradients.
        """
        so_far = self._gradients
        for name, gradient in gradients.items():
            so_far[name] = so_far[name] + gradient if name in so_far else gradient

    def zero_gradients(self) -> None:
        """Clears all gradients before the next batch."""
        for _, layer in self.layers():
            layer._gradients.clear()

    def train(self: AnyLayer, mode: bool = True) -> AnyLayer:
        """Sets this layer and all its sublayers to training or, with False, to evaluation; returns the layer."""
        for _, layer in self.layers():
            layer.training = mode
        return self

    def eval(self: AnyLayer) -> AnyLayer:
        """Sets this layer and all its sublayers to evaluation: no dropout."""
        return self.train(False)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Returns a copy of every weight by its path, ready to be saved."""
        return {
            path: weight.copy()
            for path, weight in self.named_parameters().items()
        }

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Replaces the weights by the values in `state`. If anything does not fit, nothing is changed.

        Raises:
            ValueError: a weight is missing or has another shape, or the layer has
                no weight of that name.
        """
        weights = self.named_parameters()
        checks.state_dict(
            {name: weight.shape for name, weight in weights.items()},
            {name: tuple(values.shape) for name, values in state.items()},
        )
        for name, weight in weights.items():
            weight[...] = state[name]


def normal(
    generator: np.random.Generator | None,
    deviation: float,
    shape: Shape,
    dtype: DTypeLike,
) -> np.ndarray:
    """Draws an initial weight from a normal distribution with mean 0 and that standard deviation.

    Returns zeros if `generator` is None, because weights that are about to be
    loaded need not be drawn. In memory, the longer axis of such a matrix comes
    last: so NumPy multiplies one row by it faster, which is how a model writes.
    """
    if generator is None:
        is_tall = len(shape) == 2 and shape[0] > shape[1]
        return np.zeros(shape, dtype, order="F" if is_tall else "C")
    if not isinstance(generator, np.random.Generator):
        raise TypeError(
            "generator must be a np.random.Generator, such as np.random.default_rng(0), or None, "
            f"not {generator!r}"
        )
    return generator.normal(0, deviation, shape).astype(dtype)


def sum_to(gradient: np.ndarray, shape: Shape) -> np.ndarray:
    """Undoes broadcasting: for each number, sums the gradients from everywhere it was used."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    repeated = tuple(
        i for i, size in enumerate(shape) if size == 1 and gradient.shape[i] != 1
    )
    return gradient.sum(axis=repeated, keepdims=True) if repeated else gradient


def plus(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    """Adds two arrays, either of which may be None."""
    if a is None or b is None:
        return b if a is None else a
    return a + b
