"""Compares Muon with torch's own, the NumPy room's, a hand calculation, and the definition of orthogonal."""

import numpy as np
import pytest
import torch

from glassformer import scratch
from glassformer.train import Muon, muon
from glassformer.train.muon import orthogonalized, precision_of

SHAPES = (
    (8, 8),
    (6, 16),
    (16, 6),
    (1, 5),
    (16, 6),
)  # square, to more, to fewer, a single row, one shape twice


@pytest.fixture
def in_full(monkeypatch):
    """Makes torch's Muon iterate in the dtype that it is given, instead of in bfloat16."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def parameters(shapes=SHAPES, **kind):
    return [torch.nn.Parameter(drawn(*shape, seed=i, **kind)) for i, shape in enumerate(shapes)]


# The update


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lr": 0.3, "weight_decay": 0.2},
        {"momentum": 0.0, "iterations": 1},
        {"momentum": 0.6, "iterations": 3},
        {"iterations": 6},
    ],
    ids=str,
)
def test_it_moves_as_torchs_own_does_with_matrices_the_other_way_round(settings, in_full):
    """torch uses (n_out, n_in) and one matrix at a time."""
    mine = parameters()
    theirs = [torch.nn.Parameter(weight.detach().T.clone()) for weight in mine]
    ours = Muon(mine, **settings)
    settings = {"lr": 0.02, "weight_decay": 0.0, "iterations": 4} | settings
    reference = torch.optim.Muon(theirs, ns_steps=settings.pop("iterations"), **settings)
    for step in range(4):
        for i, (weight, turned) in enumerate(zip(mine, theirs, strict=True)):
            weight.grad = drawn(*weight.shape, seed=10 * step + i)
            turned.grad = weight.grad.T.clone()
        ours.step()
        reference.step()
    for weight, turned in zip(mine, theirs, strict=True):
        torch.testing.assert_close(weight, turned.T, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "settings", [{}, {"learning_rate": 0.3, "momentum": 0.5, "weight_decay": 0.2, "iterations": 2}], ids=str
)
def test_the_numpy_rooms_moves_alike(settings):
    layer = scratch.FeedForward(6, 10, generator=np.random.default_rng(0), dtype=np.float64)
    matrices = {name: weight for name, weight in layer.named_parameters().items() if weight.ndim == 2}
    mine = {name: torch.nn.Parameter(torch.tensor(weight)) for name, weight in matrices.items()}
    in_torch = {{"learning_rate": "lr"}.get(name, name): value for name, value in settings.items()}
    ours, theirs = scratch.Muon(layer, **settings), Muon(mine.values(), **in_torch)
    for step in range(4):
        layer.zero_gradients()
        gradients = {name: drawn(*weight.shape, seed=step) for name, weight in mine.items()}
        layer.gradients = lambda given=gradients: {name: gradient.numpy() for name, gradient in given.items()}
        for name, weight in mine.items():
            weight.grad = gradients[name]
        ours.step()
        theirs.step()
    assert len(matrices) == 2
    for name, weight in mine.items():
        np.testing.assert_allclose(matrices[name], weight.detach().numpy(), rtol=1e-12, atol=1e-13)


def test_the_numpy_rooms_moves_the_named_matrices_and_nothing_else():
    layer = scratch.FeedForward(6, 10, generator=np.random.default_rng(0), dtype=np.float64)
    before = {name: weight.copy() for name, weight in layer.named_parameters().items()}
    layer.gradients = lambda: {name: np.ones_like(weight) for name, weight in before.items()}
    scratch.Muon(layer, names=["W_down.weight"]).step()
    after = layer.named_parameters()
    assert [name for name in before if not np.array_equal(before[name], after[name])] == ["W_down.weight"]


def test_all_matrices_of_a_shape_go_together_whichever_way_round(monkeypatch):
    asked = []
    monkeypatch.setattr(
        muon, "orthogonalized", lambda x, n: asked.append((tuple(x.shape), n)) or orthogonalized(x, n)
    )
    weights = parameters()
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    Muon(weights, iterations=3).step()
    assert asked == [((1, 8, 8), 3), ((3, 6, 16), 3), ((1, 1, 5), 3)]


def test_what_has_no_gradient_stays():
    weights = parameters()
    before = [weight.detach().clone() for weight in weights]
    weights[1].grad = torch.ones_like(weights[1])
    Muon(weights, weight_decay=0.5).step()
    assert [torch.equal(a, b) for a, b in zip(weights, before, strict=True)] == [
        True,
        False,
        True,
        True,
        True,
    ]


# What it moves by


@pytest.fixture(params=["train", "scratch"])
def both(request):
    """Returns `orthogonalized` of both rooms for one NumPy matrix."""
    if request.param == "scratch":
        return scratch.orthogonalized
    return lambda matrix, *rest: orthogonalized(torch.tensor(matrix)[None], *rest)[0].numpy()


def test_by_hand(both):
    """One iteration of singular values 0.6 and 0.8, whose squares sum to 1: 3.4445 s − 4.775 s³ + 2.0315 s⁵."""
    found = both(np.array([[0.0, 0.6], [0.8, 0.0]]), 1)
    np.testing.assert_allclose(found, [[0, 1.19326944], [0.97648192, 0]], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("shape", [(12, 12), (8, 40)])
def test_the_directions_stay_and_their_lengths_are_all_near_1(both, shape):
    u, _, v = np.linalg.svd(drawn(*shape).numpy(), full_matrices=False)
    lengths = np.geomspace(0.03, 1, len(u))  # the longest is thirty times the shortest
    found = u.T @ both(u * lengths @ v, 5) @ v.T
    np.testing.assert_allclose(found, np.diag(np.diag(found)), atol=1e-13)  # five iterations of rounding
    assert np.diag(found).min() > 0.68
    assert np.diag(found).max() < 1.21


def lacking():
    """Returns a matrix of rank 3, so thirteen of its singular values are 0."""
    return drawn(16, 3) @ drawn(3, 40, seed=1)


def test_squares_alone_are_as_precise(both):
    n = muon.OF_SQUARES
    exact, single = scratch.orthogonalized(lacking().numpy(), n), both(lacking().float().numpy(), n)
    np.testing.assert_allclose(single, exact, rtol=0, atol=5e-5)


@pytest.mark.parametrize("iterations", [muon.OF_SQUARES, 12])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_rounding_leads_to_no_infinity(iterations, precision, monkeypatch):
    """Squares that rounding makes negative would diverge: in float32 after ten iterations, in bfloat16 after five."""
    monkeypatch.setattr(muon, "precision_of", lambda matrices: precision)
    found = orthogonalized(lacking().float()[None], iterations)[0]
    assert torch.linalg.matrix_norm(found, 2) < 1.3


def test_the_length_of_a_gradient_says_nothing(both):
    matrix = drawn(4, 6).numpy()
    np.testing.assert_allclose(both(1e5 * matrix), both(matrix), rtol=1e-12)


def test_a_matrix_of_zeros_stays_one(both):
    assert not both(np.zeros((3, 4))).any()


def test_either_way_round():
    matrix = drawn(7, 3).numpy()
    np.testing.assert_array_equal(scratch.orthogonalized(matrix), scratch.orthogonalized(matrix.T).T)


# In which numbers


def test_on_a_cpu_it_iterates_in_the_matrices_own_numbers(both):
    """In bfloat16 the two would differ by a hundredth."""
    matrix = drawn(16, 24).numpy()
    single = both(matrix.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, both(matrix), rtol=0, atol=2e-6)


class OnCuda(torch.Tensor):
    is_cuda = True  # so it says


def test_on_a_gpu_in_bfloat16():
    assert precision_of(torch.ones(1)) is torch.float32
    assert precision_of(torch.ones(1).as_subclass(OnCuda)) is torch.bfloat16


# What is refused


def linear():
    return scratch.Linear(3, 2, generator=None)


# What is called: how the message begins
WRONG_VALUES = {
    "Muon([torch.nn.Parameter(torch.ones(3))])": "a parameter of shape (3,) is not a matrix",
    "Muon(parameters(), lr=-0.1)": "lr=-0.1",
    "Muon(parameters(), momentum=1.0)": "momentum=1.0",
    "Muon(parameters(), weight_decay=-1.0)": "weight_decay=-1.0",
    "Muon(parameters(), iterations=0)": "iterations=0",
    "scratch.Muon(linear(), learning_rate=0.0)": "learning_rate=0.0",
    "scratch.Muon(linear(), momentum=-0.1)": "momentum=-0.1",
    "scratch.Muon(linear(), weight_decay=-0.1)": "weight_decay=-0.1",
    "scratch.Muon(linear(), names=['bias'])": "names='bias' is not one of 'weight'",
    "scratch.orthogonalized(np.ones((2, 2, 2)))": "matrix has shape (2, 2, 2), but needs the axes (N, M)",
}
WRONG_KINDS = {
    "scratch.Muon(linear(), iterations=1.5)": "iterations=1.5",
    "scratch.orthogonalized(np.ones((2, 2), int))": "matrix must be an array of floating-point numbers",
}


@pytest.mark.parametrize("call", [*WRONG_VALUES, *WRONG_KINDS])
@pytest.mark.usefixtures("as_readers_run_it")
def test_refused(call):
    error, begins = (ValueError, WRONG_VALUES) if call in WRONG_VALUES else (TypeError, WRONG_KINDS)
    with pytest.raises(error) as caught:
        eval(call)
    assert str(caught.value).startswith(begins[call])
