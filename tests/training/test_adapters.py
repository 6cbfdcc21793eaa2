"""Tests low-rank adapters: what they compute, what is trained, what is saved, and what is refused."""

import json

import pytest
import torch

from glassformer.nn.adapters import AdaptedLinear, adapted, add_adapters, merge_adapters
from glassformer.nn.linear import Linear
from glassformer.train import Trainer
from glassformer.train.adapters import load_adapters, save_adapters

from .small import FAMILIES, IDS, T, config, model, task

IDS_IN = torch.from_numpy(IDS[: 2 * T].reshape(2, T))
RANK = 2


def generator():
    return torch.Generator().manual_seed(5)


def with_adapters(trained=True, **options):
    """Returns a model with adapters; their B, and so what they add, is not 0 if they are trained."""
    made = model()
    add_adapters(made, **{"rank": RANK, "alpha": 3.0, "generator": generator()} | options)
    if trained:
        for layer in adapted(made).values():
            torch.nn.init.normal_(layer.B, generator=generator())
    return made.eval()


@pytest.mark.parametrize("names", [("W_q", "W_v"), ("W_o", "W_up", "W_down", "W_k")])
def test_at_first_nothing_changes_and_only_the_adapters_are_trained(names):
    before, made = model().eval(), with_adapters(trained=False, names=names)
    assert torch.equal(made(IDS_IN), before(IDS_IN))
    layers = adapted(made)
    assert len(layers) == 2 * len(names)  # in two blocks
    made(IDS_IN).sum().backward()
    with_gradient = {name for name, weight in made.named_parameters() if weight.grad is not None}
    assert with_gradient == {f"{name}.{side}" for name in layers for side in "AB"}
    sizes = {name: tuple(weight.shape) for name, weight in before.named_parameters()}
    n = sum(RANK * sum(sizes[f"{name}.weight"]) for name in layers)
    assert add_adapters(model(), rank=RANK, names=names, generator=None) == n
    for name, layer in layers.items():
        assert (layer.n_in, layer.n_out) == sizes[f"{name}.weight"]


def test_the_gradients_are_those_of_the_formula():
    """With y = x W + s · x A B and the slope G of y: A has s · xᵀ G Bᵀ, and B has s · Aᵀ xᵀ G."""
    linear = Linear(5, 4, generator=generator(), dtype=torch.float64)
    layer = AdaptedLinear(linear, rank=RANK, alpha=3.0, generator=generator())
    torch.nn.init.normal_(layer.B, generator=generator())
    x, G = (torch.randn(7, n, generator=generator(), dtype=torch.float64) for n in (5, 4))
    y = layer(x)
    A, B, s = layer.A.detach(), layer.B.detach(), 3.0 / RANK
    torch.testing.assert_close(y, x @ (linear.weight + s * A @ B) + linear.bias, rtol=0, atol=1e-12)
    y.backward(G)
    torch.testing.assert_close(layer.A.grad, s * x.T @ G @ B.T, rtol=0, atol=1e-12)
    torch.testing.assert_close(layer.B.grad, s * A.T @ x.T @ G, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_merged_weights_compute_the_same(dtype, close):
    made = with_adapters(names=("W_q", "W_k", "W_up")).to(dtype)
    wanted = made(IDS_IN)
    assert (wanted - model(dtype=dtype).eval()(IDS_IN)).abs().max() > 0.1
    merge_adapters(made)
    torch.testing.assert_close(made(IDS_IN), wanted, rtol=0, atol=close)
    assert [*made.state_dict()] == [*model().state_dict()]
    assert not adapted(made)
    assert all(weight.requires_grad for weight in made.parameters())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_training_moves_the_adapters_alone_and_resumes(tmp_path, optimizer):
    settings = {"optimizer": optimizer, "weight_decay": 0.5, "ema": 0.9}

    def trained(folder, steps, resume=False):
        made = with_adapters(trained=False)
        options = {"resume": resume, "progress": False}
        records = Trainer(
            made, task(), config(steps=steps, decay="none", **settings), folder, **options
        ).run()
        return made, records

    made, records = trained(tmp_path / "whole", 30)
    assert records[-1]["loss"] < records[0]["loss"]
    now, before = dict(made.named_parameters()), dict(with_adapters(trained=False).named_parameters())
    moved = {name for name, weight in now.items() if not torch.equal(weight, before[name])}
    assert moved == {f"{name}.{side}" for name in adapted(made) for side in "AB"}
    trained(tmp_path / "run", 20)
    again, _ = trained(tmp_path / "run", 30, resume=True)
    assert all(torch.equal(weight, now[name]) for name, weight in again.named_parameters())


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_saved_adapters_come_back_onto_the_same_model(tmp_path, family):
    made = model(family)
    n = add_adapters(made, rank=RANK, alpha=3.0, names=["W_v", "W_down"], generator=generator())
    for layer in adapted(made).values():
        torch.nn.init.normal_(layer.B, generator=generator())
    save_adapters(made, tmp_path / "mine")
    numbers = sum(path.stat().st_size for path in (tmp_path / "mine").iterdir())
    assert numbers < 8 * n + 5000  # no weight of the model
    again = model(family)
    assert load_adapters(again, tmp_path / "mine") == n
    assert {layer.scale for layer in adapted(again).values()} == {3.0 / RANK}
    wanted = made.state_dict()
    assert all(torch.equal(weight, wanted[name]) for name, weight in again.state_dict().items())
    merge_adapters(again)
    merge_adapters(made)
    wanted = made.state_dict()
    assert all(torch.equal(weight, wanted[name]) for name, weight in again.state_dict().items())


def test_what_cannot_be_added_is_refused():
    for options, said in (
        ({"rank": 0}, "rank=0 must be at least 1"),
        ({"rank": 9}, r"rank=9 must be at most 8, the largest rank of .*W_v \(16, 8\)"),
        ({"alpha": 0.0}, "alpha=0.0 must be"),
        ({"names": ["W_x"]}, "names='W_x' is not one of 'W_q', 'W_k', 'W_v', 'W_o'"),
        ({"names": []}, "names is empty: choose from W_q"),
    ):
        made = model()
        with pytest.raises(ValueError, match=said):
            add_adapters(made, **{"rank": RANK, "generator": None} | options)
        assert all(weight.requires_grad for weight in made.parameters())
        assert not adapted(made)
    with pytest.raises(TypeError, match="names='W_q' must be a list of names"):
        add_adapters(model(), rank=RANK, names="W_q", generator=None)
    with pytest.raises(ValueError, match="model has adapters already"):
        add_adapters(with_adapters(), rank=RANK, generator=None)
    with pytest.raises(ValueError, match="model has no adapters that could be merged"):
        merge_adapters(model())


def test_what_cannot_be_saved_or_loaded_is_refused(tmp_path):
    with pytest.raises(ValueError, match="model has no adapters to save"):
        save_adapters(model(), tmp_path)
    save_adapters(with_adapters(), tmp_path)
    with pytest.raises(FileExistsError, match="has adapters already: choose another"):
        save_adapters(with_adapters(), tmp_path)
    other = model(seed=1)
    with pytest.raises(ValueError, match="has adapters of another model"):
        load_adapters(other, tmp_path)
    assert not adapted(other)
    with pytest.raises(ValueError, match="model has adapters already"):
        load_adapters(with_adapters(), tmp_path)
    path = tmp_path / "adapters.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps(described | {"alpha": 4.0}))
    with pytest.raises(ValueError, match=r"adapters\.json does not contain what was written"):
        load_adapters(model(), tmp_path)
    path.write_text(json.dumps(described))
    weights = tmp_path / "adapters.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"adapters\.safetensors does not contain what was written"):
        load_adapters(model(), tmp_path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="does not describe adapters"):
        load_adapters(model(), tmp_path)
