"""Tests losses that tasks have and terms that layers add: what is trained, what is reported, what is left alone."""

import math
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch.nn import functional

from glassformer import scratch, tasks, train
from glassformer.auxiliary import add_to_loss, auxiliary_losses
from glassformer.layers import Indexer, KeyValueSharing, LatentAttention, OutputGate
from glassformer.scratch import cross_entropy, cross_entropy_backward
from glassformer.tasks import NO_TARGET
from glassformer.train import cross_entropy_loss

from .small import (
    FAMILIES,
    IDS,
    PAD,
    SOURCES,
    START,
    STOP,
    TARGETS,
    T,
    config,
    model,
    model_config,
    modest,
    task,
    without_time,
)

LAST = "encoder-decoder"  # the pieces of its batches have not equally many targets


class Distilled(tasks.Pairs):
    """Learns what a teacher says instead of what is right."""

    def __init__(self, teacher, batch_size=8):
        super().__init__(SOURCES, TARGETS, batch_size, 0, start_id=START, stop_id=STOP, pad_id=PAD)
        self.teacher = teacher

    def loss(self, model, inputs, targets):
        counted = targets != NO_TARGET
        with torch.no_grad():
            wanted = self.teacher(**inputs)[counted].log_softmax(-1)
        said = model(**inputs)[counted].log_softmax(-1)
        return functional.kl_div(said, wanted, log_target=True, reduction="batchmean")


class Preferred(tasks.NextToken):
    """Prefers a text to the same one backwards, more than a reference does: one target for each pair."""

    def __init__(self, reference, batch_size=4):
        super().__init__(IDS, T, batch_size, 0)
        self.reference = reference

    def _asked(self, windows, use, number):
        return np.concatenate([windows, windows[:, ::-1]]).astype(np.int64), np.ones(len(windows))

    def batch(self, step, rank=0, world=1):
        ids, targets = self._asked(self._windows(step)[self._share(step, rank, world)], 0, step)
        return {"ids": ids}, targets

    def loss(self, model, inputs, targets):
        def log_p(model):
            each = model(inputs["ids"][:, :-1]).log_softmax(-1)
            return each.gather(-1, inputs["ids"][:, 1:, None]).sum((1, 2))

        with torch.no_grad():
            before = log_p(self.reference)
        better, worse = (log_p(model) - before).chunk(2)
        return -functional.logsigmoid(better - worse).mean()


def run(its_model, its_task, **changes):
    made = train.Trainer(
        its_model, its_task, config(batch_size=its_task.batch_size, **changes), progress=False
    )
    return made, made.run()


def gradients(its_model):
    return {name: weight.grad for name, weight in its_model.named_parameters()}


def in_tensors(inputs, targets):
    return {name: torch.from_numpy(array) for name, array in inputs.items()}, torch.from_numpy(targets)


# Losses of tasks


def test_a_student_learns_its_teacher():
    """Whole, in pieces and by torch alone: the mean over all targets of the batch, and of the validation part."""
    its_task = Distilled(model(LAST, seed=1))
    [first], [piecewise] = (run(model(LAST), its_task, steps=1, accumulation=n)[1] for n in (1, 4))
    student = model(LAST)
    loss = its_task.loss(student, *in_tensors(*its_task.batch(0)))
    loss.backward()
    norm = torch.linalg.vector_norm(torch.stack([grad.norm() for grad in gradients(student).values()]))
    for record in (first, piecewise):
        assert record["loss"] == pytest.approx(loss.item(), rel=1e-12)
        assert record["gradient_norm"] == pytest.approx(norm.item(), rel=1e-10)
    trained, records = run(model(LAST), its_task, steps=20)
    assert records[-1]["validation_loss"] < 0.5 * first["validation_loss"]
    [whole] = Distilled(its_task.teacher, batch_size=1000).validation()
    expected = its_task.loss(trained.model, *in_tensors(*whole)).item()
    assert records[-1]["validation_loss"] == pytest.approx(expected, rel=1e-12)


def test_a_loss_may_count_other_things_than_tokens():
    """A pair of texts has one target, and what it begins with is known: ln 2, as nothing is preferred yet."""
    _, [first, *rest] = run(model(), Preferred(model()), steps=12, accumulation=2)
    assert first["loss"] == pytest.approx(math.log(2), rel=1e-12)
    assert rest[-1]["validation_loss"] < 0.3
    assert rest[-1]["tokens"] == 12 * 8 * (T + 1)


def test_the_test_part_is_measured_with_the_loss_of_the_task():
    class Weighed(tasks.NextToken):
        def loss(self, model, inputs, targets):
            return 3 * cross_entropy_loss(model, inputs, targets)

    [plain], [weighed] = (
        run(model(), kind(IDS, T, 4, 0, test=0.1), steps=1)[1] for kind in (tasks.NextToken, Weighed)
    )
    for name in ("loss", "validation_loss", "test_loss"):
        assert weighed[name] == pytest.approx(3 * plain[name], rel=1e-12)


class Bare:
    """What a `Trainer` asks of a task, and nothing else: this is how a reader may have written one."""

    family, length, vocab_size, batch_size = "decoder", T, 11, 4

    def __init__(self):
        self.of = task()

    def batch(self, step, rank=0, world=1):
        return self.of.batch(step, rank, world)

    def validation(self):
        return self.of.validation()


def test_a_task_without_a_loss_has_the_cross_entropy():
    records = [run(model(), its_task, evaluate_every=4)[1] for its_task in (task(), Bare())]
    assert without_time(records[0]) == without_time(records[1])


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (torch.zeros(4, 8), r"a tensor of shape \(4, 8\)"),
        (0.5, "0.5"),
        (None, "None"),
    ],
)
def test_a_loss_is_one_number(returned, found, as_readers_run_it):
    its_task = Bare()
    its_task.loss = lambda model, inputs, targets: returned
    with pytest.raises(ValueError, match=f"loss returned {found}, but must return a tensor with one number"):
        run(model(), its_task)


def test_numpy_refuses_the_loss_of_a_task(as_readers_run_it):
    twin = scratch.Transformer(model_config(LAST), generator=None)
    with pytest.raises(ValueError, match="Distilled has a loss of its own, which needs Trainer and PyTorch"):
        train.train_in_numpy(twin, Distilled(model(LAST)), config(batch_size=8))


# Terms that layers add


@pytest.mark.parametrize("family", FAMILIES)
def test_the_terms_of_layers_are_trained_and_logged_apart(family):
    """Each piece's loss and terms, weighted by its targets, are what torch alone differentiates."""
    its_task = task(family, batch_size=8)
    _, [record] = run(modest(model(family)), its_task, steps=1, accumulation=4, clip=0.0, evaluate_every=1)
    alone, plain = modest(model(family)), model(family)
    pieces = [in_tensors(*its_task.batch(0, i, 4)) for i in range(4)]
    n_all = sum((targets != NO_TARGET).sum().item() for _, targets in pieces)
    losses = sizes = 0.0
    for inputs, targets in pieces:
        share = (targets != NO_TARGET).sum().item() / n_all
        with auxiliary_losses() as terms:
            losses += cross_entropy_loss(alone, inputs, targets) * share
        assert [name for name, _ in terms] == ["size"] * (4 if family == LAST else 2)
        sizes += sum(term for _, term in terms) * share
    (losses + sizes).backward()
    norm = math.sqrt(sum((grad**2).sum().item() for grad in gradients(alone).values()))
    assert record["loss"] == pytest.approx(losses.item(), rel=1e-12)
    assert record["auxiliary_size"] == pytest.approx(sizes.item(), rel=1e-12)
    assert record["gradient_norm"] == pytest.approx(norm, rel=1e-10)
    _, [without] = run(plain, its_task, steps=1, accumulation=4, clip=0.0)
    assert abs(without["gradient_norm"] - norm) > 1e-3 * norm  # they matter


def test_validation_leaves_the_terms_out_unless_the_task_counts_them():
    class Counts(tasks.NextToken):
        def loss(self, model, inputs, targets):
            with auxiliary_losses() as terms:
                loss = cross_entropy_loss(model, inputs, targets)
            return loss + sum(term for _, term in terms)

    plain, counting = task(), Counts(IDS, T, 4, 0)
    found = train.validation_loss(modest(model()), plain)
    assert found == train.validation_loss(model(), plain)
    assert train.validation_loss(modest(model()), counting) > found + 0.01
    (one, [apart, *_]), (other, [within, *_]) = (run(modest(model()), kind) for kind in (plain, counting))
    assert within["loss"] == pytest.approx(apart["loss"] + apart["auxiliary_size"], rel=1e-12)
    assert "auxiliary_size" not in within
    for name, weight in one.model.named_parameters():
        torch.testing.assert_close(weight, other.model.get_parameter(name), rtol=1e-9, atol=1e-12)


def test_the_terms_of_a_teacher_are_nobodys():
    plain, adding = (
        run(model(LAST), Distilled(of(model(LAST, seed=1))))[1] for of in (lambda it: it, modest)
    )
    assert without_time(plain) == without_time(adding)


def test_compiled_the_terms_are_the_same(monkeypatch, as_readers_run_it):
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda made: compile_(made, backend="eager", fullgraph=True))
    eager, compiled = (
        run(modest(model()), task(), steps=3, evaluate_every=1, compile=given)[1] for given in (False, True)
    )
    for name in ("loss", "auxiliary_size", "validation_loss"):
        assert [record[name] for record in compiled] == pytest.approx([r[name] for r in eager], rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_numpy_trains_the_terms_too(family):
    settings = config(steps=6, clip=0.7)
    twin = modest(scratch.Transformer(model_config(family), generator=None, dtype=np.float64))
    twin.load_state_dict({name: weight.detach().numpy() for name, weight in model(family).named_parameters()})
    found = list(train.train_in_numpy(twin, task(family), settings))
    made, records = run(modest(model(family)), task(family), steps=6, clip=0.7)
    np.testing.assert_allclose(found, [record["loss"] for record in records], rtol=1e-9)
    for name, weight in twin.named_parameters().items():
        np.testing.assert_allclose(weight, made.model.get_parameter(name).detach(), rtol=1e-6, atol=1e-9)


INDEXED = LatentAttention(
    d_latent=5, d_rotated=2, d_value=3, d_query_latent=7, indexer=Indexer(n_heads=16, d_head=4, top_k=3)
)
LENDS, BORROWS = KeyValueSharing(values="keys", norm_values=True), KeyValueSharing(borrows="lender")
ROTATED = {"positions": "rope", "attention_bias": "none", "n_kv_heads": 4, "d_head": 6}


@pytest.mark.parametrize(
    "changes",
    [
        ROTATED | {"kinds": {"all": {"form": INDEXED}}},
        {
            "kinds": {"lender": {"sharing": LENDS, "gate": OutputGate()}, "borrower": {"sharing": BORROWS}},
            "order": "lender borrower",
        },
    ],
    ids=["an indexer learns", "keys are borrowed"],
)
def test_numpy_trains_newer_attention_the_same(changes):
    settings = config(steps=6, clip=0.7)
    made, records = run(model(**changes), task(), steps=6, clip=0.7)
    twin = scratch.in_numpy(model(**changes))
    found = list(train.train_in_numpy(twin, task(), settings))
    np.testing.assert_allclose(found, [record["loss"] for record in records], rtol=1e-9)
    assert ("auxiliary_indexer" in records[0]) == ("positions" in changes)
    for name, weight in twin.named_parameters().items():
        np.testing.assert_allclose(weight, made.model.get_parameter(name).detach(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("collected", [True, False])
def test_the_slope_of_a_term_is_in_numpys_gradient_if_it_is_collected(collected):
    """Along a random direction, by finite differences."""
    rng = np.random.default_rng(0)
    its_model = modest(scratch.Transformer(model_config(), generator=rng, dtype=np.float64))
    inputs, targets = task().batch(0)

    def objective():
        with auxiliary_losses() as terms:
            loss = cross_entropy(its_model(**inputs), targets)
        return loss + collected * sum(term for _, term in terms)

    saved = []
    if collected:
        with auxiliary_losses():
            logits = its_model(**inputs, saved=saved)
    else:
        logits = its_model(**inputs, saved=saved)
    its_model.backward(cross_entropy_backward(logits, targets), saved)
    weights, found = its_model.named_parameters(), its_model.gradients()
    direction = {name: rng.normal(size=weight.shape) for name, weight in weights.items()}

    def at(step):
        for name, weight in weights.items():
            weight += step * direction[name]
        value = objective()
        for name, weight in weights.items():
            weight -= step * direction[name]
        return value

    measured = (8 * (at(1e-5) - at(-1e-5)) - (at(2e-5) - at(-2e-5))) / 12e-5
    assert measured == pytest.approx(sum(np.vdot(found[name], direction[name]) for name in found), rel=1e-7)


def test_a_term_is_one_number_and_is_collected_once():
    assert not add_to_loss(balance=np.float64(1))
    with auxiliary_losses() as outer:
        assert add_to_loss(balance=np.float64(1))
        with suppress(ZeroDivisionError), auxiliary_losses() as inner:
            assert add_to_loss(balance=2.0, size=3.0)
            raise ZeroDivisionError
        add_to_loss(balance=4.0)
    assert not add_to_loss(balance=5.0)
    assert (outer, inner) == ([("balance", 1), ("balance", 4)], [("balance", 2), ("size", 3)])
    with pytest.raises(
        ValueError, match=r"balance has shape \(2,\), but a term of the loss must be one number"
    ):
        add_to_loss(balance=np.zeros(2))
