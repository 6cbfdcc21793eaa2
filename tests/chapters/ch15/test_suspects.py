"""Tests the tables of suspects: each mistake changes something, and is told by its own name and no other."""

from functools import cache

import numpy as np
import pytest

from glassformer.chapters.ch15.capstone.adapter import Told
from glassformer.chapters.ch15.capstone.diagnosis.engine import Suspect, logits_with, tell
from glassformer.chapters.ch15.capstone.diagnosis.formula import of_scores
from glassformer.chapters.ch15.capstone.diagnosis.losses import of_losses
from glassformer.chapters.ch15.capstone.diagnosis.suspects import suspects
from glassformer.chapters.ch15.capstone.measures.comparing import close
from glassformer.chapters.ch15.capstone.measures.formula import KEYS, Q, V, mixed
from glassformer.chapters.ch15.capstone.measures.texts import log_softmax
from glassformer.chapters.ch15.capstone.stages.loss import where_it_begins
from glassformer.chapters.ch15.capstone.stages.weights import IDS, LINE
from glassformer.chapters.ch15.capstone.weights import KINDS, STAR, made, the_books
from glassformer.chapters.ch15.capstone.words import mistakes

from .wrong import EDITS, SLIPS

# Two mistakes that return the same: which of the two it is, nobody can see.
SAME = {
    ("not-loaded", "scores-lost"), ("not-loaded", "no-feedforward"), ("not-loaded", "positions-left-out"),
    ("residual-from-x", "no-feedforward"), ("norm-root", "norm-of-batch"), ("loaded-scale", "no-scale"),
    ("loaded-scale", "usual-scale"),
}  # fmt: skip


@cache
def loaded(kind):
    """Returns the right logits of a model, and those of each mistake that it can have."""
    model, ids = made(kind) if kind != STAR else the_books()[0], IDS
    if kind == STAR:
        ids = the_books()[1].encode(LINE)
    found = []
    for one in suspects(model.config, len(ids), model.named_parameters()):
        try:
            found.append(Suspect(one.mistake, logits_with(one, model, ids), one.detail))
        except (TypeError, ValueError, KeyError):
            continue  # this model has no such part
    return model(ids), found


def told(got, table):
    with pytest.raises(Told) as failure:
        tell(got, "", table)
    return failure.value.mistake


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [*KINDS, STAR])
def test_a_mistake_in_loading_is_told_by_its_own_name(kind):
    right, table = loaded(kind)
    with np.errstate(all="ignore"):
        for one in table:
            if close(one.value, right) or not np.isfinite(one.value).all():
                continue
            name = told(one.value, table)
            assert name == one.mistake or (one.mistake, name) in SAME, (name, one.mistake, one.detail)


def test_every_mistake_in_loading_changes_some_model():
    every, seen = {}, set()
    for kind in (*KINDS, STAR):
        right, table = loaded(kind)
        for one in table:
            every[one.mistake, one.detail] = None
            if not close(one.value, right):
                seen.add((one.mistake, one.detail))
    # The usual scale is another one in a single model, and nothing in the others.
    assert set(every) - seen == {("loaded-scale", "")}


def test_a_mistake_in_attention_is_told_by_its_own_name():
    rows = list(of_scores())
    for one in rows:
        assert told(one.value, rows) == one.mistake
        assert not close(one.value, mixed(Q, KEYS, V)), one.mistake


def test_a_mistake_in_the_loss_is_told_by_its_own_name():
    rng = np.random.default_rng(0)
    logits, (ids, targets) = rng.normal(size=(12, 65)), rng.integers(65, size=(2, 12))
    targets[3] = 0
    rows = [Suspect(*one) for one in of_losses(logits, ids, targets, 32)]
    assert [told(one.value, rows) for one in rows] == [one.mistake for one in rows]
    right = -log_softmax(logits)[np.arange(12), targets].mean()
    assert not any(close(one.value, right, 1e-5) for one in rows)


def test_every_sentence_is_one_that_a_mistake_is_told_and_no_two_are_alike():
    names = {mistake for _, mistake, *_ in EDITS.values()} | {mistake for *_, mistake in SLIPS.values()}
    names |= {one.mistake for kind in (*KINDS, STAR) for one in loaded(kind)[1]}
    names |= {one.mistake for one in of_scores()}
    logits = np.random.default_rng(0).normal(size=(3, 5))
    names |= {mistake for mistake, _ in of_losses(logits, np.arange(3), np.arange(3), 9)}
    assert names - {""} == set(mistakes())
    assert all(one.says and one.instead for one in mistakes().values())
    assert len({one.says for one in mistakes().values()}) == len(mistakes())


def test_where_a_backward_pass_goes_wrong_is_told():
    names = [f"blocks.{i}.{one}" for i in range(2) for one in ("q", "o", "up")]
    said = where_it_begins(
        ["blocks.1.q", "blocks.0.q", "blocks.0.up", "table"], ["blocks.1.o", "blocks.1.up"]
    )
    assert said == (
        "Wrong in block 1, the last block that has any: `blocks.1.q`. Right there: `blocks.1.o`, `blocks.1.up`."
    )
    assert where_it_begins(["table"], names) == "Wrong: `table`."
