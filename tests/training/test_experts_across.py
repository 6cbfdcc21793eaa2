"""Tests that experts on two processes train as on one: the same losses, the same weights, the same file."""

import os
import re
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch
from torch import nn

from glassformer import layers, pretrained
from glassformer.auxiliary import auxiliary_losses
from glassformer.nn.experts import Experts, Router
from glassformer.train import Trainer, cross_entropy_loss
from glassformer.train.experts_across import combine_gradients, distribute_experts, gather_experts
from glassformer.train.processes import Processes, processes

from .small import ROOT, T, config, in_two_processes, model, task

ALONE = Processes(0, 1, torch.device("cpu"))
ALL, ONE_EXPERT, CROSSED = "all parts", "one expert is chosen, and trained alone", "all tokens travel"
COPIED = "copied"
CHOICES = {
    ALL: {"balance": 0.1, "choice_bias": True, "d_shared": 8},
    ONE_EXPERT: {"top_k": 1, "choice_bias": True, "weighs": "input", "renormalize": False},
    CROSSED: {"top_k": 1, "by_token": True, "renormalize": False},
}


def sparse(case=ALL, seed=0, n_experts=4):
    experts = layers.Experts(**{"n_experts": n_experts, "top_k": 2} | CHOICES[case])
    kinds = {"dense": {"d_ff": 24}, "sparse": {"d_ff": 8, "experts": experts}}
    options = {"n_layers": 3, "feedforward": "swiglu", "head": "tied", "order": "dense sparse*2"}
    made = model(seed=seed, kinds=kinds, **options).train()
    if case == ONE_EXPERT:
        made.requires_grad_(False)
        for part in parts(made, Experts):
            part.experts.requires_grad_(True)
            part.router.choice_bias.data = torch.tensor([0.0, 0.0, 0.0, 9.0], dtype=torch.float64)
    return made


def parts(made, kind):
    return [part for part in made.modules() if isinstance(part, kind)]


def batch_of(case, step, group):
    """Returns ids, targets and the share of this process: five of eight texts of the first one, three of the other."""
    inputs, targets = task(batch_size=8).batch(step)
    ids, targets = torch.tensor(inputs["ids"]), torch.tensor(targets)
    if case == CROSSED:  # the table has expert i % 4 for id i: of each process, those of the other one
        ids = ids // 4 * 4 + torch.arange(T) % 2
        ids[:5] += 2
    rows = slice(None) if group.world == 1 else (slice(5), slice(5, 8))[group.rank]
    return ids[rows], targets[rows], len(ids[rows]) / len(ids)


def trained(case, group):
    """Trains for five steps; returns the model and what each step had as loss, balance and length of the gradient."""
    made, seen = sparse(case, seed=group.rank), []  # the first process's weights count
    distribute_experts(made, group)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2, weight_decay=0.0)
    for step in range(5):
        ids, targets, share = batch_of(case, step, group)
        with auxiliary_losses() as added:
            loss = cross_entropy_loss(made, {"ids": ids}, targets)
        balance = sum(term for _, term in added) + 0 * loss
        (share * (loss + balance)).backward()
        if group.world == 1:
            length = float(nn.utils.clip_grad_norm_(made.parameters(), 0.01))
        else:
            length = combine_gradients(made, group, clip=0.01)
        optimizer.step()
        optimizer.zero_grad()
        if case == ALL:
            for router in parts(made, Router):
                router.update_choice_bias(0.01)
        seen.append([*group.total(share * loss.item(), share * balance.item()), length])
        if step == 2:  # as for a checkpoint
            gather_experts(made, group)
            distribute_experts(made, group)
    return made, np.array(seen)


def in_copies(**changes):
    """Returns a `Trainer`, whose processes all have a copy of every expert, most of which some piece does not use."""
    made = sparse(n_experts=8)
    for router in parts(made, Router):
        router.choice_bias.data[5] = -9.0  # nothing uses this one
    return Trainer(made, task(batch_size=8), config(batch_size=8, steps=5, **changes), progress=False)


def every_case(folder):
    found = {}
    with processes("cpu") as group:
        for case in CHOICES:
            made, seen = trained(case, group)
            names = [name for name, _ in made.named_parameters()]
            with pytest.raises(ValueError, match=r"only some of its experts: gather_experts\(model, group\)"):
                Trainer(made, task(), config())
            gather_experts(made, group)
            found[case] = {"seen": seen, "weights": made.state_dict(), "names": names}
        found[COPIED] = [(r["loss"], r["gradient_norm"]) for r in in_copies(accumulation=2).run()]
        with pytest.raises(ValueError, match="n_experts=3 is not divisible by processes=2"):
            distribute_experts(sparse(n_experts=3), group)
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(found, folder / f"{group.rank}.pt")


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """Provides what each of two processes has found in every case."""
    folder = in_two_processes(every_case, tmp_path_factory.mktemp("experts"))
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in (0, 1)]


@pytest.mark.parametrize("case", CHOICES)
def test_two_processes_train_as_one(case, of_two):
    made, seen = trained(case, ALONE)
    assert (seen[:, 2] > 0.01).all()  # so every gradient was clipped
    for found in (mine[case] for mine in of_two):
        np.testing.assert_allclose(found["seen"], seen, rtol=1e-12, atol=1e-15)
        assert list(found["weights"]) == list(made.state_dict())
        for name, weight in made.state_dict().items():
            torch.testing.assert_close(found["weights"][name], weight, rtol=1e-8, atol=1e-11, msg=name)


def test_each_process_holds_half_of_the_experts_and_all_the_rest(of_two):
    names = [name for name, _ in sparse().named_parameters()]
    for found, others in zip(of_two, ("[23]", "[01]"), strict=True):
        expected = [name for name in names if not re.search(rf"\.experts\.{others}\.", name)]
        assert found[ALL]["names"] == expected


def test_an_expert_that_nobody_chose_keeps_its_weights(of_two):
    before = sparse(ONE_EXPERT).state_dict()
    after = of_two[0][ONE_EXPERT]["weights"]
    moved = {name.split(".experts.")[-1][0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"3"}  # of the second process; the first one had no token


def test_a_trainer_copies_all_experts_to_every_process(of_two):
    one = [(record["loss"], record["gradient_norm"]) for record in in_copies(accumulation=4).run()]
    np.testing.assert_allclose(of_two[0][COPIED], one, rtol=1e-11)  # the first process writes the log


# The program in the README

TEXT = (ROOT / "src" / "glassformer" / "train" / "README.md").read_text(encoding="utf-8")
[PROGRAM] = re.findall(r"Save this program as `experts\.py`:\n\n```python\n(.*?)^```", TEXT, re.M | re.S)


def program(folder):
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    with open(f"rank {os.environ.get('RANK', 0)}.txt", "w") as file, redirect_stdout(file):
        exec(PROGRAM, {})


def test_the_program_of_the_readme_prints_and_stores_the_same_with_two_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program(tmp_path / "one")
    two = in_two_processes(program, tmp_path)
    numbers = [
        [float(number) for number in re.findall(r"\d\.\d{5}", (place / "rank 0.txt").read_text())]
        for place in (tmp_path / "one", two)
    ]
    assert len(numbers[0]) == 2 * 5
    np.testing.assert_allclose(*numbers, atol=1.5e-5)  # the last digit that is printed
    assert not (two / "rank 1.txt").read_text()
    ids, logits = torch.arange(20), []
    for place in (tmp_path / "one", two):
        stored = place / "experts.safetensors"
        logits.append(pretrained.load(stored, room="scratch").model(ids.numpy()))
        logits.append(pretrained.load(stored, room="nn").model(ids).detach().numpy())
    for other in logits[1:]:
        np.testing.assert_allclose(other, logits[0], atol=2e-3)
