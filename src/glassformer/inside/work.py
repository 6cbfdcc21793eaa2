"""Computes a decoder's work and memory: multiply–adds, by formula and by counting, and the bytes of a cache.

Only matrix products are counted, which make up all but a few per cent of the work: a product of (n, m) with
(m, k) takes n·m·k multiplications and as many additions. Norms, softmax, rotations, activations and short
convolutions are left out. The axes: T positions that are read, S positions that they attend to.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.inside.look import check_in_numpy
from glassformer.inside.reporting import reporting
from glassformer.scratch import Transformer


def multiply_adds(config: ModelConfig, n_read: int, n_past: int = 0, *, n_logits: int = 1) -> int:
    """Returns the multiply–adds of a pass that reads `n_read` positions after `n_past` cached ones.

    Every score counts, including those that the mask then hides. A state is read and written step by step, also where
    `scratch` goes through chunks. `n_logits` of the positions go through the
    head: one is enough to generate text, and `generate` computes one; `model(ids)` computes all.

    Derived in chapter 11.

    Raises:
        ValueError: the configuration is not that of a decoder or has no head, or a number is below 0 or too
            large.
    """
    _check_decoder(config)
    checks.whole("n_read", n_read)
    checks.whole("n_past", n_past, at_least=0)
    checks.whole("n_logits", n_logits, at_least=0)
    if n_logits > n_read:
        raise ValueError(f"n_logits={n_logits} must be at most n_read={n_read}")
    D = config.d_model
    work = n_logits * D * config.vocab_size
    if config.head_transform:
        work += n_logits * D * D
    for layer, n_layers in config.layers(config.n_layers).values():
        attention = layer.attention.multiply_adds(D, n_read, n_past)
        work += n_layers * (attention + layer.feedforward.multiply_adds(D, n_read))
        if config.streams is not None:
            work += n_layers * config.streams.around(D, layer.n_sublayers, n_read)
    if config.streams is not None:
        work += config.streams.multiply_adds(D, n_read)
    if config.layer_embeddings is not None:
        work += config.layer_embeddings.multiply_adds(D, config.n_layers, n_read)
    return work


def generation_work(config: ModelConfig, n_prompt: int, n_new: int, *, cache: bool) -> int:
    """Returns the multiply–adds of writing `n_new` ids after a prompt: `n_new` passes, as the last id is never read.

    With a cache, the first pass reads the prompt and every other pass one id. Without, every pass reads the
    whole text.

    Derived in chapter 11.

    Raises:
        ValueError: as for `multiply_adds`.
    """
    checks.whole("n_prompt", n_prompt)
    checks.whole("n_new", n_new)
    if not cache:
        return sum(multiply_adds(config, n_prompt + i) for i in range(n_new))
    return multiply_adds(config, n_prompt) + sum(
        multiply_adds(config, 1, n_prompt + i) for i in range(n_new - 1)
    )


@runtime_checkable
class Keeps(Protocol):
    """What `anatomy.read` returns of a config.json, whether or not our code runs the model."""

    def kept(self, positions: int) -> Mapping[str, tuple[int, int] | None]:
        """Returns for each kind of layer how many numbers are kept, and how many more in float32, if it is known."""
        ...


def cache_bytes(model: ModelConfig | Keeps, n_positions: int, *, bytes_per_number: int = 4) -> int:
    """Returns the bytes of what all layers keep of `n_positions` of one text; a float32 has 4 bytes.

    A layer with a window keeps only what the window can still see, and a state is in float32 at least.

    Derived in chapter 11.

    Raises:
        ValueError: the configuration is not that of a decoder or has no head, a number is below 1, or it is not known
            what a kind of layer keeps.
    """
    checks.whole("n_positions", n_positions)
    checks.whole("bytes_per_number", bytes_per_number)
    if isinstance(model, ModelConfig):
        _check_decoder(model)
        layers = model.layers(model.n_layers).values()
        numbers = sum(n * layer.attention.cached(n_positions) for layer, n in layers)
        in_states = sum(n * layer.attention.state for layer, n in layers)
        return bytes_per_number * numbers + max(0, 4 - bytes_per_number) * in_states
    found = 0
    for word, kept in model.kept(n_positions).items():
        if kept is None:
            raise ValueError(f"it is not known what layers of the kind {word} keep")
        found += bytes_per_number * kept[0] + 4 * kept[1]
    return found


@dataclass
class Count:
    """The number of multiply–adds that `counting` has counted so far."""

    multiply_adds: int = 0


@contextmanager
def counting(model: Transformer) -> Iterator[Count]:
    """Counts every matrix product of a NumPy model as it is computed, from the shapes of the factors.

    `with counting(model) as count: model(ids)` leaves the number in `count.multiply_adds`. No formula is
    used: inside the `with` block, the model's weights are arrays that report every product of themselves or
    of anything computed from them. Where a layer with a state goes through chunks, it takes more of them than its
    steps, and the systems of equations that it solves are not counted.

    Derived in chapter 11.

    Raises:
        TypeError: `model` is not a NumPy Transformer.
    """
    check_in_numpy(model)
    count = Count()

    def report(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], result: Any) -> None:
        if ufunc is np.matmul:
            count.multiply_adds += result.size * inputs[0].shape[-1]

    arrays = [
        (layer, name, array)
        for _, layer in model.layers()
        for name, array in vars(layer).items()
        if isinstance(array, np.ndarray)
    ]
    for layer, name, array in arrays:
        setattr(layer, name, reporting(array, report))
    try:
        yield count
    finally:
        for layer, name, array in arrays:
            setattr(layer, name, array)


def _check_decoder(config: ModelConfig) -> None:
    checks.instance("config", config, ModelConfig)
    checks.one_of("config.family", config.family, ("decoder",))
    if config.head == "none":
        raise ValueError('config.head="none": a model without a head cannot generate text')
