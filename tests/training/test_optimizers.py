"""Compares the update of each weight with our own AdamW in NumPy."""

import math

import numpy as np
import pytest
import torch

from glassformer import scratch
from glassformer.layers import LayerEmbeddings, Streams
from glassformer.train import initialize, rate_share
from glassformer.train.optimizers import kind_of, optimizers_of, set_schedule

from .small import config, model, model_config


def give_gradients(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = torch.empty_like(weight).copy_(
            torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        )


def steps(model, given, n=3):
    optimizers = optimizers_of(model, given)
    for step in range(n):
        set_schedule(optimizers, given, step)
        give_gradients(model, step)
        for optimizer in optimizers:
            optimizer.step()


def test_kinds():
    built = model(
        "encoder",
        positions="learned",
        n_segments=2,
        head="untied",
        head_transform=True,
        head_bias=True,
        pooler=True,
        qk_norm=True,
    )
    kinds = {name: kind_of(name, weight) for name, weight in built.named_parameters()}
    assert {name for name, kind in kinds.items() if kind == "embeddings"} == {
        "token_embedding.weight",
        "segment_embedding.weight",
        "encoder.positions.weight",
    }
    assert {name for name, kind in kinds.items() if kind == "head"} == {
        "unembedding.weight",
        "unembedding.transform.weight",
        "pooler.linear.weight",
    }
    matrices = {name for name, kind in kinds.items() if kind == "matrices"}
    assert len(matrices) == 2 * 6
    assert all("blocks" in name and built.get_parameter(name).ndim == 2 for name in matrices)
    norms = {name for name, kind in kinds.items() if kind == "norms"}
    assert all(built.get_parameter(name).ndim == 1 for name in norms)
    assert len(kinds) == len(matrices) + len(norms) + 6


@pytest.mark.parametrize("part", ["streams", "layer_embeddings"])
def test_kinds_of_what_is_beside_blocks_and_around_sublayers(part):
    own = {"streams": Streams(n_streams=2), "layer_embeddings": LayerEmbeddings(d_layer=3)}
    built = model(**{part: own[part]})
    kinds = {name: kind_of(name, weight) for name, weight in built.named_parameters()}
    vectors = {name for name, weight in built.named_parameters() if weight.ndim == 1}
    assert {name for name, kind in kinds.items() if kind == "norms"} == vectors
    embeddings = {name for name, kind in kinds.items() if kind == "embeddings"}
    assert all(name.endswith(("embedding.weight", "positions.weight", "table.weight")) for name in embeddings)
    initialize(built, config(init="gpt2"))  # it knows which matrices write to the stream


@pytest.mark.parametrize("head", ["tied", "untied"])
def test_adamw_moves_as_the_numpy_one_does(head):
    """This includes the tied table, which is stored column by column."""
    given = config(optimizer="adamw", weight_decay=0.2, betas=(0.8, 0.9), decay="none")
    mine = model(head=head)
    twin = scratch.Transformer(model_config(head=head), generator=None, dtype=np.float64)
    twin.load_state_dict({name: weight.detach().numpy() for name, weight in mine.named_parameters()})
    no_decay = [name for name, weight in twin.named_parameters().items() if weight.ndim < 2]
    adamw = scratch.AdamW(twin, betas=(0.8, 0.9), weight_decay=0.2, no_decay=no_decay)
    steps(mine, given)
    for step in range(3):
        gradients = model(head=head)
        give_gradients(gradients, step)
        twin.gradients = lambda g=gradients: {name: w.grad.numpy() for name, w in g.named_parameters()}
        adamw.learning_rate = given.learning_rate * rate_share(given, step)
        adamw.step()
    for name, weight in mine.named_parameters():
        np.testing.assert_allclose(
            weight.detach().numpy(), twin.named_parameters()[name], rtol=1e-13, atol=1e-15
        )


def test_rates_and_decay_by_kind():
    given = config(embedding_rate=0.1, head_rate=0.2, norm_rate=0.3, weight_decay=0.4, embedding_decay=0.5)
    built = model(head="untied")
    [adamw] = optimizers_of(built, given)
    set_schedule([adamw], given, 0)  # a third, on the way up
    names = {weight: name for name, weight in built.named_parameters()}
    found = {
        kind_of(names[weight], weight): (group["lr"] * 3, group["weight_decay"])
        for group in adamw.param_groups
        for weight in group["params"]
    }
    wanted = {"matrices": (0.01, 0.4), "embeddings": (0.1, 0.5), "head": (0.2, 0.4), "norms": (0.3, 0.0)}
    assert found == {kind: pytest.approx(numbers) for kind, numbers in wanted.items()}
    assert sum(len(group["params"]) for group in adamw.param_groups) == len(names)


def test_muon_has_the_schedules_rate_and_momentum_and_the_matrices_decay():
    given = config(optimizer="muon", weight_decay=0.1, embedding_decay=0.5, muon_iterations=4, warmup=0)
    built = model()
    _, muon = optimizers_of(built, given)
    set_schedule([muon], given, 4)
    [group] = muon.param_groups
    found = {name: value for name, value in group.items() if name != "params"}
    momentum = 0.85 + 0.1 * 4 / 200
    wanted = {"rate": 0.01, "lr": 0.005, "momentum": momentum, "weight_decay": 0.1, "iterations": 4}
    assert found == pytest.approx(wanted)
    matrices = [w for name, w in built.named_parameters() if kind_of(name, w) == "matrices"]
    assert [id(weight) for weight in group["params"]] == [id(weight) for weight in matrices]


def test_muon_leaves_the_rest_to_adamw():
    given = config(optimizer="muon")
    with_muon, with_adamw = model(), model()
    steps(with_muon, given)
    steps(with_adamw, given.replace(optimizer="adamw"))
    for name, weight in with_muon.named_parameters():
        same = torch.equal(weight, with_adamw.get_parameter(name))
        assert same == (kind_of(name, weight) != "matrices"), name


# Where the weights start


def test_gpt2s_beginning():
    built = model(d_model=64, n_layers=8, n_heads=4, d_ff=256, positions="learned", dtype=torch.float64)
    initialize(built, config(init="gpt2"))
    for name, weight in built.named_parameters():
        if weight.ndim < 2:
            assert torch.equal(weight, torch.full_like(weight, float(name.endswith("weight"))))
            continue
        wanted = 0.02 / math.sqrt(16) if name.endswith(("W_o.weight", "W_down.weight")) else 0.02
        # Of n numbers, the deviation is off by 1 / √(2n): four times that at most
        assert weight.std().item() == pytest.approx(wanted, rel=4 / math.sqrt(2 * weight.numel())), name


def test_gpt2s_beginning_depends_on_the_seed_alone():
    built, again, other = model(seed=0), model(seed=1), model(seed=0)
    initialize(built, config(init="gpt2", seed=5))
    initialize(again, config(init="gpt2", seed=5))
    initialize(other, config(init="gpt2", seed=6))
    assert torch.equal(built.token_embedding.weight, again.token_embedding.weight)
    assert not torch.equal(built.token_embedding.weight, other.token_embedding.weight)


def test_every_stack_counts_its_own_sublayers():
    built = model("encoder-decoder", d_model=64, n_heads=4, n_layers=1, n_decoder_layers=3, d_ff=256)
    initialize(built, config(init="gpt2"))
    found = (
        built.encoder.blocks[0].attention.W_o.weight.std()
        / built.decoder.blocks[0].attention.W_o.weight.std()
    )
    assert found.item() == pytest.approx(math.sqrt(9 / 2), rel=0.06)


@pytest.mark.parametrize("family", ["decoder", "encoder-decoder"])
def test_zero_init_leaves_the_stream_alone(family):
    built, before = model(family), model(family)
    initialize(built, config(zero_init=True))
    for name, weight in built.named_parameters():
        if name.endswith(("W_o.weight", "W_down.weight")):
            assert not weight.any()
        else:
            assert torch.equal(weight, before.get_parameter(name))
