"""Tests batches: each text once per epoch, none from the validation part, the same for any number of processes."""

import re

import numpy as np
import pytest
import torch

from glassformer.tasks import NO_TARGET, Epochs, MaskedToken, NextToken, Pairs

from .small import FAMILIES, IDS, MASK, PAD, SOURCES, START, STOP, TARGETS, T, task

# Ids that say where they are: a window is then known by its content.
PLACES = np.arange(1000)


def rows_of(task, steps):
    return [row for step in steps for row in task.batch(step)[0]["ids"]]


def test_by_hand():
    inputs, targets = NextToken(np.arange(10), 3, 1, 0, validation=0.2).batch(0)
    # 8 ids to train on: one window fewer than the two that fit, so it can start at 0 to 4
    [row] = inputs["ids"]
    assert 0 <= row[0] <= 4
    assert row.tolist() == [row[0], row[0] + 1, row[0] + 2]
    assert targets.tolist() == [[row[0] + 1, row[0] + 2, row[0] + 3]]
    held_out = list(NextToken(np.arange(10), 3, 1, 0, validation=0.4).validation())
    assert [(i["ids"].tolist(), t.tolist()) for i, t in held_out] == [([[6, 7, 8]], [[7, 8, 9]])]


@pytest.mark.parametrize("kind", ["next", "masked"])
def test_every_window_once_an_epoch_in_a_new_order_and_place(kind):
    if kind == "next":
        made = NextToken(PLACES, 16, 5, 3)
    else:
        made = MaskedToken(PLACES, 16, 5, 3, mask_id=1000)
        made._asked = lambda windows, use, number: (windows, windows)
    n = made.epochs.n
    assert n == (900 // 16 - 1 if kind == "next" else 901 // 16 - 1)
    rows = rows_of(made, range(2 * n))  # ten epochs
    starts = np.array([row[0] for row in rows]).reshape(10, n)
    for epoch in starts:
        assert (np.diff(np.sort(epoch)) == 16).all()  # side by side
    offsets = [epoch.min() for epoch in starts]
    assert len(set(offsets)) > 5
    assert len({tuple(epoch.argsort()) for epoch in starts}) == 10
    assert max(row[-1] for row in rows) < 900


def test_every_place_can_be_a_target():
    made = NextToken(PLACES[:60], 4, 5, 0)
    seen = {target for step in range(400) for target in made.batch(step)[1].flat}
    assert seen == set(range(1, 54))


@pytest.mark.parametrize("n", range(2, 30))
@pytest.mark.parametrize("length", [1, 2, 5])
def test_short_texts(n, length):
    ids = np.arange(n)
    try:
        made = NextToken(ids, length, 2, 0, validation=0.4)
    except ValueError as error:
        assert "validation=0.4" in str(error)  # noqa: PT017
        return
    for step in range(20):
        inputs, targets = made.batch(step)
        assert (inputs["ids"] + 1 == targets).all()
        assert targets.max() < len(made.ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_is_a_pure_function_of_the_step(family):
    one, other = task(family), task(family)
    wanted = [one.batch(step) for step in range(40)]
    for step in np.random.default_rng(0).permutation(40):
        inputs, targets = other.batch(int(step))
        assert (targets == wanted[step][1]).all()
        assert all((inputs[name] == wanted[step][0][name]).all() for name in inputs)
    different = task(family, seed=1).batch(0)[1]
    assert different.shape != wanted[0][1].shape or (different != wanted[0][1]).any()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("world", [1, 2, 4])
def test_processes_share_a_batch(family, world):
    made = task(family)
    for step in range(10):
        inputs, targets = made.batch(step)
        shares = [made.batch(step, rank, world) for rank in range(world)]
        assert (np.concatenate([share[1] for share in shares]) == targets).all()
        for name, array in inputs.items():
            assert (np.concatenate([share[0][name] for share in shares]) == array).all()


# Validation


@pytest.mark.parametrize("length", [1, 7, 16, 99, 100, 300])
def test_validation_has_every_target_once(length):
    made = NextToken(PLACES, length, 3, 0)
    targets = np.concatenate([targets.ravel() for _, targets in made.validation()])
    assert targets.tolist() == list(range(901, 1000))
    for inputs, targets in made.validation():
        assert (inputs["ids"] + 1 == targets).all()


def test_validation_of_masked_text_has_every_window_and_covers_the_same_positions():
    made = MaskedToken(PLACES, 16, 3, 0, mask_id=1000)
    once, again = list(made.validation()), list(made.validation())
    for (inputs, targets), (inputs_again, targets_again) in zip(once, again, strict=True):
        assert (inputs["ids"] == inputs_again["ids"]).all()
        assert (targets == targets_again).all()
    seen = [np.where(targets != NO_TARGET, targets, inputs["ids"]).ravel() for inputs, targets in once]
    assert np.concatenate(seen).tolist() == list(range(900, 1000))


def test_validation_of_pairs_has_every_pair_once():
    made = task("encoder-decoder")
    read = [
        tuple(row[mask])
        for inputs, _ in made.validation()
        for row, mask in zip(inputs["source"], inputs["source_mask"], strict=True)
    ]
    assert read == [tuple(source) for source in SOURCES[54:]]


# The third part


def both_parts(made):
    """Returns what validation and the test ask for; pairs are identified by their sources."""

    def asked(batches):
        if made.family == "encoder-decoder":
            return [tuple(row[row != PAD]) for inputs, _ in batches for row in inputs["source"]]
        return [i for _, targets in batches for i in targets[targets != NO_TARGET].tolist()]

    return asked(made.validation()), asked(made.test())


@pytest.mark.parametrize("family", ["decoder", "encoder", "encoder-decoder"])
def test_nothing_has_to_be_held_out(family):
    whole, tested = task(family, validation=0.0), task(family, validation=0.0, test=0.1)
    assert both_parts(whole) == ([], [])
    none, for_test = both_parts(tested)
    assert (none, len(for_test) > 0) == ([], True)
    assert whole.steps_per_epoch > tested.steps_per_epoch


def test_the_end_is_for_validation_and_the_very_end_for_the_test():
    made = NextToken(PLACES, 16, 3, 0, validation=0.06, test=0.04)
    assert both_parts(made) == (list(range(901, 960)), list(range(961, 1000)))
    made = MaskedToken(PLACES, 4, 3, 0, mask_id=1000, share=1.0, validation=0.06, test=0.04)
    assert both_parts(made) == (list(range(900, 960)), list(range(960, 1000)))
    made = pairs(validation=0.05, test=0.1)
    whole = [tuple(source) for source in SOURCES]
    assert both_parts(made) == (whole[51:54], whole[54:])


@pytest.mark.parametrize("family", FAMILIES)
def test_two_parts_learn_from_what_three_parts_learn_from(family):
    """Batches are the same as long as the same share is held out, so no shipped model has to be trained again."""
    two, three = task(family), task(family, validation=0.05, test=0.05)
    for step in range(20):
        (inputs, targets), (others, other_targets) = two.batch(step), three.batch(step)
        assert (targets == other_targets).all()
        assert all((inputs[name] == others[name]).all() for name in inputs)
    assert np.array_equal(np.concatenate([three.held_out, three.for_test]), two.held_out)
    assert len(two.for_test) == 0
    assert list(two.test()) == []


# Masks


def test_masks_are_those_of_bert():
    made = MaskedToken(np.arange(100_000) % 50, 40, 100, 0, mask_id=50)
    fates = {"covered": 0, "other": 0, "as it was": 0}
    for step in range(20):
        inputs, targets = made.batch(step)
        chosen = targets != NO_TARGET
        assert (chosen.sum(axis=1) == 6).all()  # 15 % of 40
        ids, truth = inputs["ids"][chosen], targets[chosen]
        fates["covered"] += (ids == 50).sum()
        fates["as it was"] += (ids == truth).sum()
        fates["other"] += ((ids != 50) & (ids != truth)).sum()
        whole = np.where(chosen, targets, inputs["ids"])
        assert (np.diff(whole, axis=1) % 50 == 1).all()  # the rest of the text is untouched
    # of 12,000; another id is the same one by chance in 1 of 50
    assert fates["covered"] / 12_000 == pytest.approx(0.8, abs=0.015)
    assert fates["other"] / 12_000 == pytest.approx(0.098, abs=0.012)
    assert fates["as it was"] / 12_000 == pytest.approx(0.102, abs=0.012)


@pytest.mark.parametrize("mask_id", [3, 2])
def test_another_id_is_never_the_mask(mask_id):
    """This holds even if the text has that id: a draw from all ids would cover 3 % more."""
    made = MaskedToken(np.random.default_rng(0).integers(0, 3, 20_000), 40, 1000, 0, mask_id=mask_id)
    inputs, targets = (np.concatenate(them) for them in zip(
        *((inputs["ids"], targets) for inputs, targets in map(made.batch, range(5))), strict=True
    ))  # fmt: skip
    asked = (targets != NO_TARGET) & (targets != mask_id)
    read, truth = inputs[asked], targets[asked]
    five_standard_errors = 5 * (0.8 * 0.2 / asked.sum()) ** 0.5
    assert five_standard_errors < 0.1 / 3 / 2
    assert (read == mask_id).mean() == pytest.approx(0.8, abs=five_standard_errors)
    # Of the rest half are another id that was drawn, any of the text's, the true one too.
    kinds = sorted({0, 1, 2} - {mask_id})
    changed = (read != mask_id) & (read != truth)
    assert changed.mean() == pytest.approx(0.1 * (len(kinds) - 1) / len(kinds), abs=five_standard_errors)
    assert {*zip(truth[changed], read[changed], strict=True)} == {
        (one, other) for one in {0, 1, 2} - {mask_id} for other in kinds if one != other
    }


def test_at_least_one_position_is_chosen():
    made = MaskedToken(np.arange(50) % 5, 2, 4, 0, mask_id=5)
    assert ((made.batch(0)[1] != NO_TARGET).sum(axis=1) == 1).all()


# Pairs


def test_pairs_by_hand():
    made = Pairs([np.array([3, 4]), np.array([5]), np.array([6])], [np.array([7]), np.array([8, 9]), np.array([1])],
                 2, 0, start_id=10, stop_id=11, pad_id=0, validation=0.3)  # fmt: skip
    inputs, targets = made.batch(0)
    order = [0, 1] if inputs["source"][0, 0] == 3 else [1, 0]
    assert inputs["source"].tolist() == [[[3, 4], [5, 0]][i] for i in order]
    assert inputs["source_mask"].tolist() == [[[True, True], [True, False]][i] for i in order]
    assert inputs["ids"].tolist() == [[[10, 7, 0], [10, 8, 9]][i] for i in order]
    assert targets.tolist() == [[[7, 11, NO_TARGET], [8, 9, 11]][i] for i in order]


def test_every_pair_once_an_epoch():
    made = task("encoder-decoder", batch_size=6)
    read = []
    for step in range(9):
        inputs, _ = made.batch(step)
        read += [tuple(row[mask]) for row, mask in zip(inputs["source"], inputs["source_mask"], strict=True)]
    assert sorted(read) == sorted(tuple(source) for source in SOURCES[:54])


def test_sizes_that_a_model_needs():
    assert (task("decoder").length, task("decoder").vocab_size) == (T, 11)
    assert (task("encoder").length, task("encoder").vocab_size) == (T, MASK + 1)
    assert task("encoder-decoder").length == max(map(len, SOURCES)) + 1
    assert task("encoder-decoder").vocab_size == START + 1


def other_ids():
    changed = IDS.copy()
    changed[300] += 1
    return changed


# Everything that batches depend on, changed once
ALIKE = {
    "decoder": [
        lambda: NextToken(other_ids(), T, 4, 0),
        lambda: NextToken(IDS, T - 1, 4, 0),
        lambda: NextToken(IDS, T, 2, 0),
        lambda: NextToken(IDS, T, 4, 1),
        lambda: NextToken(IDS, T, 4, 0, validation=0.2),
        lambda: NextToken(IDS, T, 4, 0, validation=0.05, test=0.05),
        lambda: NextToken(IDS, T, 4, 0, validation=0.06, test=0.04),
        lambda: MaskedToken(IDS, T, 4, 0, mask_id=MASK),
    ],
    "encoder": [
        lambda: MaskedToken(IDS, T, 4, 0, mask_id=MASK + 1),
        lambda: MaskedToken(IDS, T, 4, 0, mask_id=MASK, share=0.3),
    ],
    "encoder-decoder": [
        lambda: pairs(sources=[SOURCES[0][::-1], *SOURCES[1:]]),
        lambda: pairs(targets=[TARGETS[0][:-1], *TARGETS[1:]]),
        lambda: pairs(stop_id=10),
        lambda: pairs(validation=0.5),
        lambda: pairs(validation=0.05, test=0.05),
    ],
}


def pairs(sources=SOURCES, targets=TARGETS, **changes):
    ids = {"start_id": START, "stop_id": STOP, "pad_id": PAD}
    return Pairs(sources, targets, 4, 0, **ids | changes)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checksum_tells_tasks_apart(family):
    tasks = [task(family), *(make() for make in ALIKE[family])]
    assert len({made.checksum() for made in tasks}) == len(tasks)
    assert task(family).checksum() == task(family).checksum()


# As they were written in checkpoints before there was a part for the test
OF_TWO_PARTS = {
    "decoder": "ddf949414617f9b42fe7b8231c7ea4f1acf456be0dae84fe10e5ace821871b0f",
    "encoder": "7f91f2dbeec304c00afa7d5278f4cfcd8f83f37a398e34037ac951d7db95d62a",
    "encoder-decoder": "13da31690d96a74e613b93255c5970793826af592a6fe4f3a805aa028bab85ee",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_runs_from_before_the_test_part_go_on(family):
    """A task without a test part is unchanged, so the checkpoints of older runs still match it."""
    assert task(family).checksum() == OF_TWO_PARTS[family]


def test_epochs_change_order():
    epochs = Epochs(7, 0)
    orders = [[epochs[7 * epoch + i] for i in range(7)] for epoch in range(5)]
    assert all(sorted(order) == [(epoch, i) for i in range(7)] for epoch, order in enumerate(orders))
    assert len({tuple(place for _, place in order) for order in orders}) > 1


# Bad input

IT = {"batch_size": 2, "seed": 0, "start_id": START, "stop_id": STOP, "pad_id": PAD}
# What is called: how the message goes
WRONG_VALUES = {
    "NextToken(IDS, 0, 2, 0)": "length=0",
    "NextToken(IDS, T, 0, 0)": "batch_size=0",
    "NextToken(IDS, T, 2, -1)": "seed=-1 must be at least 0",
    "NextToken(IDS[:8], T, 2, 0)": "ids has 7 ids to train on, of 8 in all with validation=0.1",
    "NextToken(IDS[:40], T, 2, 0, test=0.02)": "ids has 1 ids for the test, of 40 in all with",
    "NextToken(IDS, T, 2, 0, test=-0.1)": "test=-0.1",
    "NextToken(IDS, T, 2, 0, validation=0.5, test=0.5)": "leaves a part",
    "NextToken(IDS, T, 2, 0, validation=-0.1)": "validation=-0.1 must be zero or more",
    "NextToken(IDS[:T], T, 2, 0, validation=0.0)": "needs at least",
    "pairs(test=0.001)": "test=0.001 leaves a part of the 60 ids empty",
    "NextToken(IDS[:12], T, 2, 0, validation=0.01)": "ids has 1 ids for validation",
    "NextToken(IDS - 1, T, 2, 0)": "=-1 is negative",
    "MaskedToken(IDS, T, 2, 0, mask_id=9, share=1.5)": "share=1.5 must be at most",
    "MaskedToken(IDS, T, 2, 0, mask_id=9, share=0)": "share=0 must be positive",
    "MaskedToken(IDS, T, 2, 0, mask_id=-1)": "mask_id=-1 must be at least 0",
    "MaskedToken(IDS * 0 + 9, T, 2, 0, mask_id=9)": "ids has no id except mask_id=9, but a chosen id is",
    "Pairs(SOURCES, TARGETS[1:], **IT)": "len(targets)=59 does not match",
    "Pairs([*SOURCES[:9], SOURCES[0][:0]], TARGETS[:10], **IT)": "len(sources[9])=0",
    "Pairs(SOURCES[:1], TARGETS[:1], **IT)": "leaves a part",
    "task().batch(-1)": "step=-1 must be at least 0",
    "task().batch(0, 2, 2)": "rank=2 must be below world=2",
    "task().batch(0, 0, 3)": "batch_size=4 is not divisible by world=3",
}


@pytest.mark.parametrize("call", WRONG_VALUES)
def test_bad_input(call, as_readers_run_it):
    with pytest.raises(ValueError, match=re.escape(WRONG_VALUES[call])):
        eval(call)


def test_ids_that_are_no_integers(as_readers_run_it):
    with pytest.raises(TypeError, match="ids must be an array of integers"):
        NextToken(IDS * 1.0, T, 2, 0)


@pytest.mark.parametrize("given", [list, torch.tensor, tuple], ids=["list", "tensor", "tuple"])
def test_ids_may_be_given_as_any_sequence_of_numbers(given, as_readers_run_it):
    ids = np.arange(200) % 7
    task, same = (NextToken(some, 8, 2, 0) for some in (ids, given(ids.tolist())))
    assert task.checksum() == same.checksum()
