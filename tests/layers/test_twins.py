"""Tests that scratch and nn have the same names, the same signatures and the same numbers."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from glassformer.config import ModelConfig

from .rooms import NN, SCRATCH, both_rooms

FILES = [
    "linear",
    "embedding",
    "positions",
    "rotary",
    "relative",
    "encodings",
    "norm",
    "output_norm",
    "soft_cap",
    "position_scale",
    "scores",
    "attention",
    "pieces",
    "multi_head",
    "sinks",
    "output_gate",
    "key_value_sharing",
    "latent",
    "indexer",
    "attentions",
    "compressed",
    "recurrence",
    "short_convolution",
    "state_cache",
    "linear_attention",
    "mamba2",
    "feedforward",
    "experts",
    "block",
    "hyper_connections",
    "layer_embeddings",
    "head",
    "cache",
    "model",
    "loss",
]
# PyTorch brings its own: nn.Module, nn.Dropout, torch.optim.AdamW, clip_grad_norm_, autograd;
# its Muon, glassformer.train has of its own
SCRATCH_FILES = ["layer", "dropout", "optimizer", "twin"]
NN_FILES = ["product", "adapters"]
SCRATCH_NAMES = {
    "Layer",
    "Dropout",
    "AdamW",
    "Muon",
    "orthogonalized",
    "clip_gradients",
    "add_at",
    "of_each_head",
    "in_numpy",
}
ELSEWHERE = {"normal", "plus"}  # scratch has them in layer.py, nn in linear.py


def defined(room, file):
    module = import_module(f"{room.layers.__name__}.{file}")
    return {n: v for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__}


def is_shared(name):
    """Returns whether a name must be in both rooms; backward functions are only in one, because nn uses autograd."""
    return name not in SCRATCH_NAMES | ELSEWHERE and not name.endswith(("backward", "_slope"))


def shared(room, file):
    """Returns the public names of a file that the other room must have too, in their order."""
    return [name for name in defined(room, file) if name[0] != "_" and is_shared(name)]


def methods(cls):
    """Returns the methods that the class itself defines, in order, without backward; properties count as functions."""
    functions = {n: getattr(v, "fget", v) for n, v in vars(cls).items() if n[0] != "_" or n[:2] == "__"}
    return {n: f for n, f in functions.items() if inspect.isfunction(f) and is_shared(n)}


def parameters(function):
    """Returns names, kinds and defaults, without what differs between rooms: dtype defaults, devices and `saved`."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found if p.name not in ("dtype", "device", "saved")]


def test_both_rooms_have_the_same_files():
    def files(room):
        return {path.stem for path in Path(room.layers.__file__).parent.glob("*.py")} - {"__init__"}

    assert files(NN) == {*FILES, *NN_FILES}
    assert files(SCRATCH) == {*FILES, *SCRATCH_FILES}


@pytest.mark.parametrize("file", FILES)
def test_a_reader_can_lay_the_two_files_side_by_side(file):
    assert shared(SCRATCH, file) == shared(NN, file)
    assert len(shared(NN, file)) > 0


@pytest.mark.parametrize("file", FILES)
def test_signatures_agree(file):
    for name in shared(SCRATCH, file):
        one, other = defined(SCRATCH, file)[name], defined(NN, file)[name]
        if not inspect.isclass(one):
            assert parameters(one) == parameters(other), name
            continue
        assert list(methods(one)) == list(methods(other)), name
        for label, ours in methods(one).items():
            assert parameters(ours) == parameters(methods(other)[label]), (name, label)


def documented(file):
    """Yields what both rooms document in a file: its name as a reader can look it up, scratch's docstring and nn's."""
    for name in shared(SCRATCH, file):
        one, other = defined(SCRATCH, file)[name], defined(NN, file)[name]
        where = name if name in SCRATCH.layers.__all__ else f"{file}.{name}"
        if callable(one):
            yield where, one.__doc__, other.__doc__
        if inspect.isclass(one):
            for label, method in methods(one).items():
                yield f"{where}.{label}", method.__doc__, methods(other)[label].__doc__


@pytest.mark.parametrize("file", FILES)
def test_what_scratch_explains_nn_does_not_explain_again(file):
    """A docstring of one line is the same in both; of a longer one, nn says where it is and what differs."""
    for name, explained, pointer in documented(file):
        if explained and "\n" in explained:
            assert re.match(rf"As `scratch\.{re.escape(name)}`[.,;]", pointer), name
            assert "\n" not in pointer, name
        else:
            assert explained == pointer, name


def test_what_draws_the_weights_is_the_same():
    one, other = import_module("glassformer.scratch.layer"), import_module("glassformer.nn.linear")
    assert parameters(one.normal) == parameters(other.normal)
    assert other.normal.__doc__.startswith("As `scratch.layer.normal`")


def test_both_rooms_offer_the_same_names():
    offered = {room.layers: room.layers.__all__ for room in (SCRATCH, NN)}
    assert [name for name in offered[SCRATCH.layers] if is_shared(name)] == offered[NN.layers]
    for names in offered.values():
        assert names == sorted(names)
    for room in (SCRATCH, NN):
        layers = {
            name
            for file in (*FILES, *(SCRATCH_FILES if room is SCRATCH else ()))
            for name, value in defined(room, file).items()
            if inspect.isclass(value) and not name.startswith("_")
        }
        assert layers <= set(room.layers.__all__)
        assert all(hasattr(room.layers, name) for name in room.layers.__all__)


@both_rooms
def test_files_that_keep_wrote_for_readers_find_what_has_moved(room):
    """They may import from the module where a function was: all of it was in these two."""
    for old, files in {"positions": ("rotary", "relative"), "attention": ("multi_head",)}.items():
        module = import_module(f"{room.layers.__name__}.{old}")
        for name in (name for file in files for name in shared(room, file)):
            assert getattr(module, name) is getattr(room.layers, name)


@both_rooms
def test_weights_are_drawn_by_the_generator_in_the_dtype_asked_for(room):
    L = room.layers

    def draw(**asked):
        attention = L.MultiHeadAttention(12, 3, generator=room.generator(5), **asked)
        return [
            L.TokenEmbedding(300, 20, generator=room.generator(5), **asked).weight,
            L.LearnedPositions(300, 20, generator=room.generator(5), **asked).weight,
            L.T5Positions(200, bidirectional=True, generator=room.generator(5), **asked).weight,
            *(getattr(attention, W).weight for W in ("W_q", "W_k", "W_v", "W_o")),
        ]

    for weight in draw():
        assert weight.dtype == room.dtype("float32")
    for weight, again in zip(
        draw(dtype=room.dtype("float64")), draw(dtype=room.dtype("float64")), strict=True
    ):
        assert weight.dtype == room.dtype("float64")
        np.testing.assert_array_equal(room.numpy(weight), room.numpy(again))
    for weight in draw()[:3]:
        weight = room.numpy(weight)
        assert abs(weight.std() - 0.02) < 0.001  # over 6,000 draws: five standard errors
        assert abs(weight.mean()) < 0.0013
    assert len({float(room.numpy(weight)[0, 0]) for weight in draw()[3:]}) == 4


@both_rooms
def test_matrices_keep_the_variance_of_what_comes_in(room):
    """No matrix is square, so initialization by n_out differs from initialization by n_in."""
    L, drawn = room.layers, room.parameters("float32", seed=5)
    attention = L.MultiHeadAttention(40, 6, n_kv_heads=2, d_head=15, **drawn)
    feedforward = L.FeedForward(40, 130, activation="swiglu", **drawn)
    sizes = {"vocab_size": 90, "context_length": 4, "d_model": 40, "n_layers": 1, "n_heads": 2}
    head = L.Unembedding(ModelConfig(**sizes, head="untied"), **drawn)
    weights = {
        (40, 90): [attention.W_q.weight, head.weight],
        (40, 30): [attention.W_k.weight, attention.W_v.weight],
        (90, 40): [attention.W_o.weight, L.Linear(90, 40, **drawn).weight],
        (40, 130): [feedforward.W_up.weight, feedforward.W_gate.weight, L.Linear(40, 130, **drawn).weight],
        (130, 40): [feedforward.W_down.weight],
    }
    for shape, drawn_so in weights.items():
        for weight in map(room.numpy, drawn_so):
            n_in, n = shape[0], weight.size
            assert weight.shape == shape
            # A standard deviation has an error of 1/√2n of itself, a mean of 1/√n: five of them, 10 % of it at most.
            assert abs(weight.std() * n_in**0.5 - 1) < 5 / (2 * n) ** 0.5 < 0.11
            assert abs(weight.mean() * n_in**0.5) < 5 / n**0.5
