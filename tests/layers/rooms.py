"""Gives both rooms the same interface, and builds the same models in both."""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
import torch

import glassformer.nn
import glassformer.scratch


@dataclass(frozen=True)
class Room:
    """One of the two implementations, with the functions that feed it NumPy arrays."""

    layers: ModuleType

    @property
    def is_torch(self):
        return self.layers is glassformer.nn

    def array(self, values, dtype=None):
        values = np.asarray(values, dtype=dtype)
        return torch.from_numpy(values.copy()) if self.is_torch else values

    def numpy(self, array):
        return array.detach().numpy() if self.is_torch else array

    def generator(self, seed=0):
        return torch.Generator().manual_seed(seed) if self.is_torch else np.random.default_rng(seed)

    def dtype(self, name):
        return getattr(torch if self.is_torch else np, name)

    def parameters(self, name="float64", seed=0):
        """Returns the arguments of every constructor that draws weights."""
        return {"generator": self.generator(seed), "dtype": self.dtype(name)}

    def load(self, module, **weights):
        """Replaces the weights with those names by NumPy arrays; the name of a Linear means its weight."""
        for name, values in weights.items():
            holder = module
            if hasattr(getattr(module, name), "weight"):
                holder, name = getattr(module, name), "weight"
            assert tuple(getattr(holder, name).shape) == values.shape
            if self.is_torch:
                getattr(holder, name).data = torch.from_numpy(values.copy())
            else:
                setattr(holder, name, values.copy())
        return module

    def weight(self, module, name):
        """Returns the weight of the Linear with that name, as a NumPy array (in, out)."""
        return self.numpy(getattr(module, name).weight)


SCRATCH, NN = Room(glassformer.scratch), Room(glassformer.nn)
both_rooms = pytest.mark.parametrize("room", [SCRATCH, NN], ids=["scratch", "nn"])

CONTEXT = 48  # rows of the learned table in the models below

METHODS = {
    "none": lambda room, D, H: room.layers.NoPositions(),
    "sinusoidal": lambda room, D, H: room.layers.SinusoidalPositions(D),
    "learned": lambda room, D, H: room.layers.LearnedPositions(CONTEXT, D, **room.parameters()),
    "rope": lambda room, D, H: room.layers.RotaryPositions(D // H),
    "rope-interleaved": lambda room, D, H: room.layers.RotaryPositions(
        D // H, base=500.0, layout="interleaved", interpolation=3.0
    ),
    "alibi": lambda room, D, H: room.layers.AlibiPositions(H),
    "t5": lambda room, D, H: room.layers.T5Positions(
        H, bidirectional=False, n_buckets=9, max_distance=20, **room.parameters()
    ),
    "t5-bidirectional": lambda room, D, H: room.layers.T5Positions(
        H, bidirectional=True, n_buckets=10, max_distance=20, **room.parameters()
    ),
}
every_method = pytest.mark.parametrize("method", METHODS)


class Layer:
    """A layer from token vectors to attention: positions are added to the input, rotate vectors or bias the scores.

    It takes and returns NumPy arrays in float64. The weights depend only on the sizes and the seed, never on the room.
    """

    def __init__(self, room, method, D=24, H=3, *, causal=False, seed=0):
        rng = np.random.default_rng(seed)
        self.room = room
        self.method = METHODS[method](room, D, H)
        if hasattr(self.method, "weight"):  # as large as the token vectors, so that it cannot be overlooked
            room.load(self.method, weight=rng.normal(size=tuple(self.method.weight.shape)))
        self.attention = room.layers.MultiHeadAttention(
            D, H, position_encoding=self.method, causal=causal, **room.parameters()
        )
        for name in ("W_q", "W_k", "W_v", "W_o"):
            room.load(self.attention, **{name: rng.normal(0, D**-0.5, (D, D))})

    def _run(self, function, x, positions, mask):
        given = {"position_ids": positions, "mask": mask}
        given = {name: self.room.array(value) for name, value in given.items() if value is not None}
        x = self.method.embed(self.room.array(x), given.get("position_ids"))
        return self.room.numpy(function(x, **given))

    def __call__(self, x, *, position_ids=None, mask=None):
        return self._run(self.attention, x, position_ids, mask)

    def attention_weights(self, x, *, position_ids=None, mask=None):
        return self._run(self.attention.attention_weights, x, position_ids, mask)
