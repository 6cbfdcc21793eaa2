"""Tests the training of routed experts: in both rooms, in pieces, in processes, and what no optimizer may move."""

import numpy as np
import pytest
import torch

from glassformer import checkpoints, model_files, scratch, train
from glassformer.layers import Experts
from glassformer.nn.adapters import add_adapters, merge_adapters
from glassformer.text import CharTokenizer
from glassformer.train.optimizers import kind_of
from glassformer.train.ram import bytes_of_a_text

from .small import config, in_two_processes, model, model_config, task, trainer

GAMMA = 0.02
WITH_EXPERTS = {
    "feedforward": "swiglu",
    "kinds": {
        "sparse": {
            "d_ff": 8,
            "experts": Experts(n_experts=4, top_k=2, scores="sigmoid", choice_bias=True, bias_rate=GAMMA),
        },
        "listed": {"d_ff": 8, "experts": Experts(n_experts=4, top_k=1, by_token=True, renormalize=False)},
    },
    "order": "sparse listed",
}
ROUTER, TABLE = "decoder.blocks.0.feedforward.router", "decoder.blocks.1.feedforward.router.table"
BIAS = f"{ROUTER}.choice_bias"


def balanced(factor):
    """Returns the same with a balance term in the loss of the first layer."""
    experts = Experts(n_experts=4, top_k=2, choice_bias=True, bias_rate=GAMMA, balance=factor)
    kinds = WITH_EXPERTS["kinds"]
    return WITH_EXPERTS | {"kinds": kinds | {"sparse": kinds["sparse"] | {"experts": experts}}}


def losses(records):
    return [record["loss"] for record in records]


def values(made):
    return {name: weight.detach().clone() for name, weight in made.named_parameters()}


def run_shared(folder):
    """Is what each of two processes does."""
    trainer(folder=folder, batch_size=4, accumulation=2, steps=4, ema=0.9, model_changes=WITH_EXPERTS).run()


@pytest.mark.parametrize("factor", [0.0, 0.1])
def test_numpy_trains_the_same(factor):
    changes = balanced(factor)
    made = trainer(steps=6, clip=0.7, model_changes=changes)
    twin = scratch.in_numpy(made.model)
    found = list(train.train_in_numpy(twin, task(), config(steps=6, clip=0.7)))
    records = made.run()
    np.testing.assert_allclose(found, losses(records), rtol=1e-9)
    assert all(("auxiliary_balance" in record) == (factor > 0) for record in records)
    for name, weight in made.model.named_parameters():
        np.testing.assert_allclose(twin.named_parameters()[name], weight.detach(), rtol=1e-7, atol=1e-10)


def test_a_step_moves_the_choice_bias_towards_those_chosen_less_and_nothing_else_of_a_router():
    made = trainer(steps=1, accumulation=2, weight_decay=0.5, ema=0.5, model_changes=WITH_EXPERTS)
    before = values(made.model)
    router = made.model.get_submodule(ROUTER)
    loads = []
    router.register_forward_hook(
        lambda module, given, found: loads.append(found[0].flatten().bincount(minlength=4))
    )
    made.run()
    after, load = values(made.model), sum(loads[:2]).double()  # of the two pieces
    assert len(set(load.tolist())) > 1
    torch.testing.assert_close(after[BIAS], GAMMA * torch.sign(load.mean() - load))
    assert torch.equal(made.average[BIAS].sign(), after[BIAS].sign())
    assert torch.equal(after[TABLE], before[TABLE])
    assert torch.equal(made.average[TABLE], before[TABLE])
    moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert set(after) - moved == {TABLE}


def test_without_a_rate_neither_gradient_nor_decay_moves_the_choice_bias():
    still = Experts(n_experts=4, top_k=2, scores="sigmoid", choice_bias=True)
    changes = WITH_EXPERTS | {"kinds": {"sparse": {"experts": still}}, "order": None}
    made = trainer(steps=2, weight_decay=0.5, model_changes=changes)
    with torch.no_grad():
        made.model.get_parameter(BIAS).copy_(torch.arange(4))
    made.run()
    assert made.model.get_parameter(BIAS).tolist() == [0, 1, 2, 3]


def test_two_processes_are_one_with_the_whole_batch(tmp_path):
    stored = checkpoints.load(in_two_processes(run_shared, tmp_path))
    alone = trainer(batch_size=4, accumulation=4, steps=4, ema=0.9, model_changes=WITH_EXPERTS)
    alone.run()
    for name, weight in alone.model.named_parameters():
        np.testing.assert_allclose(stored.weights[name], weight.detach().numpy(), rtol=1e-8, atol=1e-11)


def test_a_run_goes_on_bit_for_bit_and_its_checkpoint_opens_in_both_rooms(tmp_path):
    whole = trainer(steps=4, decay="none", model_changes=WITH_EXPERTS)
    whole.run()
    trainer(folder=tmp_path, steps=2, decay="none", model_changes=WITH_EXPERTS).run()
    resumed = trainer(folder=tmp_path, resume=True, steps=4, decay="none", model_changes=WITH_EXPERTS)
    assert losses(resumed.run()) == losses(whole.log.records)
    for name, weight in whole.model.named_parameters():
        assert torch.equal(resumed.model.get_parameter(name), weight)
    stored, ids = checkpoints.load(tmp_path), np.arange(8)[None]
    expected = whole.model.eval()(torch.from_numpy(ids)).detach().numpy()
    for room in ("scratch", "nn"):
        opened = checkpoints.model_of(stored.model_config, stored.weights, room=room)
        assert opened.eval()(ids if room == "scratch" else torch.from_numpy(ids)).shape == expected.shape
    np.testing.assert_allclose(scratch.in_numpy(whole.model)(ids), expected, rtol=1e-12)


def test_a_model_in_a_single_file_is_opened_and_a_table_of_others_is_refused(tmp_path):
    made, tokenizer = model(dtype=torch.float32, **WITH_EXPERTS), CharTokenizer("abcdefghijklm")
    model_files.save(tmp_path / "one.safetensors", made, tokenizer)
    stored = model_files.load(tmp_path / "one.safetensors")
    opened = checkpoints.model_of(stored.config, stored.weights)
    ids = np.arange(8)[None]
    assert opened.token_embedding.weight.dtype == np.float32
    np.testing.assert_allclose(opened(ids), made.eval()(torch.from_numpy(ids)).detach(), rtol=1e-5, atol=1e-6)
    opened.named_parameters()[TABLE][3] = 4
    with pytest.raises(
        ValueError, match=r"table\[0, 3, 0\]=4 is outside 0\.\.3|table\[3, 0\]=4 is outside 0\.\.3"
    ):
        opened(ids)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "changes",
    [{"optimizer": "muon"}, {"dtype": "bfloat16"}, {"compile": True}],
    ids=["muon", "bfloat16", "compiled"],
)
def test_other_ways_to_train(monkeypatch, changes, as_readers_run_it):
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda made: compile_(made, backend="eager"))
    plain, other = (
        train.Trainer(
            model(dtype=torch.float32, **WITH_EXPERTS), task(), config(steps=3, **given), progress=False
        ).run()
        for given in ({}, changes)
    )
    assert losses(other) == pytest.approx(losses(plain), rel=0.03)
    if "compile" in changes:
        assert losses(other) == pytest.approx(losses(plain), rel=1e-6)


def test_a_new_model_is_drawn_as_gpt2_and_experts_write_nothing_with_zero_init():
    made = model(n_layers=2, **WITH_EXPERTS)
    table = made.get_parameter(TABLE).clone()
    train.initialize(made, config(init="gpt2", zero_init=True))
    assert torch.equal(made.get_parameter(TABLE), table)
    assert not made.decoder.blocks[0].feedforward(torch.ones(1, 3, 16, dtype=torch.float64)).any()
    assert float(made.get_submodule(ROUTER).W.weight.detach().std()) == pytest.approx(0.02, rel=0.5)
    kinds = {name: kind_of(name, weight) for name, weight in made.named_parameters()}
    assert (
        kinds[f"{ROUTER}.W.weight"]
        == kinds["decoder.blocks.0.feedforward.experts.0.W_up.weight"]
        == "matrices"
    )
    assert kinds[BIAS] == "norms"


def test_merged_adapters_leave_what_has_no_gradient():
    made = model(**WITH_EXPERTS)
    learns = {name: weight.requires_grad for name, weight in made.named_parameters()}
    add_adapters(made, rank=1, names=("W_q", "W_down"), generator=None)
    merge_adapters(made)
    assert {name: weight.requires_grad for name, weight in made.named_parameters()} == learns
    assert [name for name, learnt in learns.items() if not learnt] == [BIAS, TABLE]


def test_what_chosen_experts_save_for_the_backward_pass_is_counted():
    dense = model_config(feedforward="swiglu", d_ff=8, n_layers=1)
    sparse = dense.replace(kinds={"all": {"experts": Experts(n_experts=9, top_k=3, d_shared=5)}})
    more = bytes_of_a_text(sparse, config()) - bytes_of_a_text(dense, config())
    assert more == 4 * 8 * (3 * (8 + 2 * 16) + 5 - 8)  # float32, of 8 positions
