"""Builds the same model in both rooms, with the same weights, and texts to read for any family."""

from functools import cache

import numpy as np
import torch

from .grid import GRID
from .rooms import NN, SCRATCH

B, T, S = 2, 5, 4  # texts, their ids, and the ids of the texts that an encoder–decoder reads


def draw(names_and_shapes, seed=0):
    """Draws weights that hide nothing: biases and shifts are not 0, gains are not 1, embeddings have size 1."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for name, shape in sorted(names_and_shapes.items()):
        values = rng.normal(size=shape)
        if name.endswith("router.table"):  # different experts, the largest of which is number 2 · top_k − 1
            drawn[name] = (values > 0) + 2 * np.arange(shape[1])
            continue
        if len(shape) == 1:
            is_gain = "norm" in name and name.endswith("weight")
            drawn[name] = 1 + 0.3 * values if is_gain else 0.3 * values
        elif ("embedding" in name and ".W" not in name) or "positions" in name:
            drawn[name] = values
        else:
            drawn[name] = values * shape[0] ** -0.5
    return drawn


def build(room, config, dtype="float64", seed=0):
    """Returns the model of that configuration in that room; its weights depend only on the seed."""
    model = room.layers.Transformer(config, generator=None, dtype=room.dtype(dtype))
    weights = draw({name: tuple(w.shape) for name, w in dict(model.state_dict()).items()}, seed)
    model.load_state_dict({name: room.array(values) for name, values in weights.items()})
    return model


@cache
def twins(name):
    """Returns both rooms' models of that entry of the grid, in float64. Tests share them and must not change them."""
    return build(SCRATCH, GRID[name]), build(NN, GRID[name])


def texts(config, kind="plain", seed=1):
    """Returns what the model of that configuration reads, as NumPy arrays.

    "plain" texts are full and use the default positions. "padded" texts have padding, on the right in the first row and
    on the left in the second, and each row has its own positions. Models that compress blocks have none on the left.
    """
    rng = np.random.default_rng(seed)
    read = {"ids": rng.integers(0, config.vocab_size, (B, T))}
    if config.n_segments:
        read["segments"] = rng.integers(0, config.n_segments, (B, T))
    if config.family == "encoder-decoder":
        read["source"] = rng.integers(0, config.vocab_size, (B, S))
    if kind == "padded":
        read["mask"] = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], bool)
        read["position_ids"] = np.array([[0, 1, 2, 3, 4], [0, 0, 0, 2, 3]])
        if config.compresses:
            read["mask"] = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
            read["position_ids"] = np.array([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]])
        if "source" in read:
            read["source_mask"] = np.array([[1, 1, 1, 0], [0, 1, 1, 1]], bool)
    return read


def given(room, read):
    """Returns the same texts in the form that room needs, without entries that are None."""
    return {name: room.array(values) for name, values in read.items() if values is not None}


def run(room, function, read):
    """Returns what a model, or one of its methods, computes for the texts: NumPy in, NumPy out."""
    read = dict(read)
    ids = room.array(read.pop("ids"))
    with torch.no_grad():
        return room.numpy(function(ids, **given(room, read)))


def gradients(room, model, read, grad):
    """Returns the gradient of sum(grad · output) for every weight that has one, by name."""
    read = given(room, read)
    ids = read.pop("ids")
    if room.is_torch:
        model.zero_grad()
        (model(ids, **read) * room.array(grad)).sum().backward()
        return {name: w.grad.numpy() for name, w in model.named_parameters() if w.grad is not None}
    model.zero_gradients()
    saved = []
    model(ids, **read, saved=saved)
    model.backward(grad, saved)
    assert saved == []  # every layer has taken what it saved, and no other's
    return model.gradients()
