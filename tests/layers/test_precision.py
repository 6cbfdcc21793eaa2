"""Tests that every NumPy operation keeps float32, and that numbers of 1e4 stay finite without a warning."""

import re

import numpy as np
import pytest
import torch

from glassformer import scratch
from glassformer.scratch.feedforward import SLOPES, relu2, sigmoid

from .grid import GRID, SYSTEMS
from .rooms import NN, SCRATCH, both_rooms
from .twins import B, build, given, texts


class Watched(np.ndarray):
    """A float32 array that tracks itself through every ufunc and notes where float64 comes out.

    Under NumPy 2 one np.float64, such as what np.sqrt(2) gives, turns a float32 array into a float64 one.
    """

    promoted: list[str] = []  # noqa: RUF012 (shared on purpose)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **settings):
        def plain(value):
            return value.view(np.ndarray) if isinstance(value, Watched) else value

        if out is not None:
            settings["out"] = tuple(plain(array) for array in out)
        result = getattr(ufunc, method)(*map(plain, inputs), **settings)
        results = result if isinstance(result, tuple) else (result,)
        if any(getattr(r, "dtype", None) == np.float64 for r in results):
            of = ", ".join(str(getattr(i, "dtype", type(i).__name__)) for i in inputs)
            Watched.promoted.append(f"{ufunc.__name__}.{method}({of})")
        if out is not None:
            return out[0] if len(out) == 1 else out
        return result.view(Watched) if isinstance(result, np.ndarray) else result


@pytest.fixture
def promoted():
    Watched.promoted.clear()
    return Watched.promoted


def watch(layer):
    for _, part in layer.layers():
        for name, value in vars(part).items():
            if isinstance(value, np.ndarray) and name not in ("table", "_load"):
                assert value.dtype == np.float32, name
                setattr(part, name, value.view(Watched))
    return layer


def watched(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32).view(Watched)


def test_the_watch_sees_a_float64_that_slips_in(promoted):
    x = watched(3)
    x * 2.0
    x @ x
    assert promoted == []
    (x * np.sqrt(2)).sum()
    np.add(x, np.ones(3), out=np.empty(3))
    assert promoted == [
        "multiply.__call__(float32, float64)",
        "add.reduce(float64)",
        "add.__call__(float32, float64)",
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GRID)
@pytest.mark.parametrize("kind", ["plain", "padded"])
def test_float32_all_the_way_through_a_model_and_back(promoted, name, kind):
    config = GRID[name].replace(dropout=0.1)
    model = watch(build(SCRATCH, config, "float32"))
    for _, part in model.layers():
        if isinstance(part, scratch.Dropout):
            part.generator = np.random.default_rng(0)
    read = given(SCRATCH, texts(config, kind))
    saved = []
    y = model(**read, saved=saved)
    assert isinstance(y, Watched)
    assert y.dtype == np.float32
    model.backward(watched(*y.shape), saved)
    gradients = model.gradients()
    without = re.compile(r"^pooler|\.indexer\.|\.choice_bias$|\.table$")
    assert set(gradients) == {n for n in model.named_parameters() if not without.search(n)}
    assert {g.dtype for g in gradients.values()} == {np.dtype(np.float32)}
    assert promoted == []


@pytest.mark.parametrize("name", [n for n, c in SYSTEMS.items() if c.family != "encoder"])
def test_float32_with_a_cache(promoted, name):
    model = watch(build(SCRATCH, SYSTEMS[name], "float32")).eval()
    read = given(SCRATCH, texts(SYSTEMS[name]))
    ids, cache = read.pop("ids"), model.new_cache(B, 5)
    for t in range(5):
        assert model(ids[:, t : t + 1], cache=cache, **read).dtype == np.float32
    kept = [block for block in cache.blocks if block.nbytes]  # not those that borrow keys and values
    assert {array.dtype for block in kept for array in (block.keys, block.values)} == {np.dtype("f4")}
    assert promoted == []


def test_float32_in_training(promoted):
    model = watch(build(SCRATCH, SYSTEMS["BERT"], "float32"))
    read = given(SCRATCH, texts(model.config))
    optimizer = scratch.AdamW(model)
    for _ in range(2):
        model.zero_gradients()
        saved = []
        logits = model(**read, saved=saved)
        targets = read["ids"].copy()
        targets[0, 0] = -100
        assert scratch.cross_entropy(logits, targets).dtype == np.float32
        model.backward(scratch.cross_entropy_backward(logits, targets), saved)
        scratch.clip_gradients(model, 0.1)
        optimizer.step()
    arrays = [*model.named_parameters().values(), *model.gradients().values()]
    arrays += [mean for pair in optimizer.means.values() for mean in pair]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    pooled = model.pooler(model.hidden(**read), saved)
    assert model.pooler.backward(pooled, saved).dtype == np.float32
    assert promoted == []


@pytest.mark.parametrize("function", [*SLOPES, *SLOPES.values(), sigmoid])
def test_float32_activations(promoted, function):
    assert function(watched(4)).dtype == np.float32
    assert promoted == []


@both_rooms
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_model_answers_in_its_own_precision(room, dtype, name):
    model = build(room, SYSTEMS[name], dtype)
    weights = dict(model.state_dict()).items()
    assert all(w.dtype == room.dtype(dtype) for name, w in weights if not name.endswith(".table"))
    assert model(**given(room, texts(SYSTEMS[name], "padded"))).dtype == room.dtype(dtype)


# Large numbers


LARGE = np.array([-1e4, -100, -20, -1, -0.0, 0, 1e-6, 1, 20, 100, 1e4], np.float32)


@pytest.fixture
def strict():
    """Turns every floating-point warning into an error, except underflow, which only replaces tiny numbers by 0."""
    with np.errstate(over="raise", divide="raise", invalid="raise", under="ignore"):
        yield


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("activation", SLOPES.keys() - {relu2})
def test_activations_of_large_numbers(activation):
    """Far from 0, each activation is 0 or x, and its slope is 0 or 1."""
    y, slope = activation(LARGE), SLOPES[activation](LARGE)
    far = abs(LARGE) >= 100
    np.testing.assert_allclose(y[far], LARGE[far] * (LARGE[far] > 0), rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(slope[far], LARGE[far] > 0, rtol=1e-6, atol=1e-30)
    assert np.isfinite(y).all()
    assert np.isfinite(slope).all()
    theirs = torch.from_numpy(LARGE).requires_grad_()
    getattr(NN.layers, activation.__name__)(theirs).sum().backward()
    np.testing.assert_allclose(slope, theirs.grad.numpy(), rtol=0, atol=1e-6)


@pytest.mark.usefixtures("strict")
def test_softmax_and_loss_of_large_numbers():
    logits = np.stack([LARGE, LARGE[::-1], np.full_like(LARGE, 1e4), np.full_like(LARGE, -1e4)])
    weights = scratch.softmax(logits)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)
    assert weights[0, -1] == 1
    np.testing.assert_array_equal(scratch.softmax_backward(LARGE[None], weights[:1]), np.zeros((1, 11)))
    targets = np.array([0, 0, 3, 3])
    loss = scratch.cross_entropy(logits, targets)
    assert loss == pytest.approx((2e4 + 0 + 2 * np.log(11)) / 4, rel=1e-6)
    gradient = scratch.cross_entropy_backward(logits, targets)
    assert np.isfinite(gradient).all()
    assert gradient[0, 0] == -0.25
    theirs = torch.from_numpy(logits).requires_grad_()
    nn_loss = NN.layers.cross_entropy(theirs, torch.from_numpy(targets))
    nn_loss.backward()
    assert nn_loss.item() == pytest.approx(float(loss), rel=1e-6)
    np.testing.assert_allclose(theirs.grad.numpy(), gradient, rtol=0, atol=1e-7)


ROWS = {
    "large": LARGE,
    "equal": np.full(11, 1e4, np.float32),
    "zero": np.zeros(11, np.float32),
    "nearly equal": 1e4 + np.arange(11, dtype=np.float32) / 100,
    "tiny": LARGE * 1e-20,
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("norm", ["LayerNorm", "SigmaNorm", "RMSNorm"])
@pytest.mark.usefixtures("strict")
def test_norms_of_large_and_of_flat_rows(norm, row):
    x = ROWS[row][None]
    layer = getattr(scratch, norm)(11)
    saved = []
    y = layer(x, saved)
    gradient = layer.backward(LARGE[None] / 1e4, saved)
    for array in (y, gradient, *layer.gradients().values()):
        assert array.dtype == np.float32
        assert np.isfinite(array).all()
    assert np.abs(y).max() <= 11**0.5 * 1.001  # one feature cannot be more than √D deviations away
    theirs = torch.from_numpy(x.copy()).requires_grad_()
    other = getattr(NN.layers, norm)(11)(theirs)
    other.backward(torch.from_numpy(LARGE[None] / 1e4))
    if row != "nearly equal":  # there the mean itself is rounded by as much as the features differ
        np.testing.assert_allclose(y, other.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert torch.isfinite(theirs.grad).all()
    if row == "large":
        np.testing.assert_allclose(gradient, theirs.grad.numpy(), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.usefixtures("strict")
def test_a_model_with_embeddings_of_1e4(name):
    models = [build(room, SYSTEMS[name], "float32") for room in (SCRATCH, NN)]
    for model in models:
        state = dict(model.state_dict())
        state["token_embedding.weight"] = 1e4 * state["token_embedding.weight"]
        model.load_state_dict(state)
    read = texts(SYSTEMS[name], "padded")
    saved = []
    y = models[0](**given(SCRATCH, read), saved=saved)
    models[0].backward(np.full_like(y, 1e4), saved)
    for array in (y, *models[0].gradients().values()):
        assert np.isfinite(array).all()
    other = models[1](**given(NN, read))
    other.sum().backward()
    assert torch.isfinite(other).all()
    assert all(torch.isfinite(w.grad).all() for w in models[1].parameters() if w.grad is not None)


@both_rooms
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_row_that_sees_nothing_gives_zeros_in_every_precision(room, dtype):
    rows = room.array(np.array([[-np.inf, -np.inf], [0.0, -np.inf]]), np.dtype(dtype))
    weights = room.layers.softmax(rows)
    assert weights.dtype == room.dtype(dtype)
    np.testing.assert_array_equal(room.numpy(weights), [[0, 0], [1, 0]])
