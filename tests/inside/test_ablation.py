"""Compares ablations with the other room, where torch's hooks remove the same parts."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

from glassformer import inside
from glassformer.inside import ablated, ablations, mean_loss, without
from glassformer.tasks import NextToken

from .models import COMPRESSED, DECODERS, GATED, GPT2, MODERN, build, in_torch, some_ids

PARTS = {
    "attention": (1, "attention", None),
    "a head": (1, "attention", [1]),
    "feed-forward": (0, "feed-forward", None),
    "neurons": (0, "feed-forward", [4, 0, 7]),
}
every_decoder = pytest.mark.parametrize(
    "name", [name for name in DECODERS if name not in ("gated", "compressed", "experts")]
)
every_part = pytest.mark.parametrize("part", PARTS)


def place_of(name, part):
    """Returns the place of the part in the last block."""
    block, sublayer, which = PARTS[part]
    return min(block, DECODERS[name].n_layers - 1), sublayer, which


def without_in_torch(model, ids, block, sublayer, which, reference=None):
    """Returns the other room's output with a hook that changes the input of the last matrix, or drops its output."""
    twin = in_torch(model)
    layer = twin.decoder.blocks[block]
    linear = layer.attention.W_o if sublayer == "attention" else layer.feedforward.W_down
    size = linear.n_in // model.config.n_heads if sublayer == "attention" else 1
    columns = slice(None) if which is None else [i * size + j for i in which for j in range(size)]
    means = []
    with torch.no_grad():
        if reference is not None:
            hook = linear.register_forward_pre_hook(lambda _, x: means.append(x[0].flatten(0, -2).mean(0)))
            twin(torch.from_numpy(reference))
            hook.remove()

        def replace(_, inputs):
            changed = inputs[0].clone()
            changed[..., columns] = means[0][columns] if means else 0
            return changed

        if which is None and reference is None:
            linear.register_forward_hook(lambda _, inputs, output: torch.zeros_like(output))
        else:
            linear.register_forward_pre_hook(replace)
        return twin(torch.from_numpy(ids)).numpy()


@every_part
@every_decoder
def test_what_is_removed_writes_nothing(name, part):
    model, ids = build(DECODERS[name]), some_ids(DECODERS[name])
    intact, place = model(ids), place_of(name, part)
    with ablated(model, *place):
        logits = model(ids)
    assert_close(logits, without_in_torch(model, ids, *place), DOUBLE)
    assert np.abs(logits - intact).max() > 1e-3


@every_part
@every_decoder
def test_what_is_removed_writes_its_mean(name, part):
    model, ids = build(DECODERS[name]), some_ids(DECODERS[name])
    reference, place = some_ids(DECODERS[name], (3, 5), seed=2), place_of(name, part)
    with ablated(model, *place, mean_over=reference):
        logits = model(ids)
    assert_close(logits, without_in_torch(model, ids, *place, reference), DOUBLE)


@pytest.mark.parametrize("config", [GPT2, MODERN], ids=["with biases", "without"])
@every_part
def test_the_model_gets_its_weights_back(config, part):
    model = build(config, np.float32)
    before, state = model.named_parameters(), model.state_dict()
    with ablated(model, *PARTS[part], mean_over=some_ids(config)):
        pass
    with pytest.raises(KeyboardInterrupt), ablated(model, *PARTS[part]):
        raise KeyboardInterrupt
    after = model.named_parameters()
    assert after.keys() == before.keys()
    for name, weight in after.items():
        assert weight is before[name]
        np.testing.assert_array_equal(weight, state[name])


@pytest.mark.parametrize("config", [GATED, COMPRESSED], ids=["gated", "compressed"])
def test_heads_that_cannot_be_taken_apart_are_not_removed(config):
    with (
        pytest.raises(ValueError, match="cannot be taken apart"),
        ablated(build(config), 0, "attention", [0]),
    ):
        pass


def test_a_model_in_single_precision_stays_so():
    model, ids = build(MODERN, np.float32), some_ids(MODERN)
    with ablated(model, 0, "attention", [0], mean_over=ids):
        assert model(ids).dtype == np.float32


def test_ablations_nest():
    model, ids = build(GPT2), some_ids(GPT2)
    with ablated(model, 0, "attention", [0, 1]):
        both = model(ids)
    with ablated(model, 0, "attention", [0]), ablated(model, 0, "attention", [1]):
        assert_close(model(ids), both, DOUBLE)


@pytest.mark.parametrize("config", [GPT2, MODERN], ids=["with biases", "without"])
def test_several_parts_go_by_name_and_come_back(config):
    model, ids = build(config), some_ids(config)
    intact = model(ids)
    with (
        ablated(model, 0, "attention", [1]),
        ablated(model, 1, "feed-forward"),
        ablated(model, 1, "attention"),
    ):
        wanted = model(ids)
    parts = ["block 1: attention", "block 0: head 1", "block 1: feed-forward"]
    with without(model, iter(parts)) as changed:
        assert_close(changed(ids), wanted, DOUBLE)
    np.testing.assert_array_equal(model(ids), intact)
    assert np.abs(wanted - intact).max() > 1e-3
    with ablated(model, 1, "attention", mean_over=ids):
        wanted = model(ids)
    with without(model, parts[:1], mean_over=ids):
        np.testing.assert_array_equal(model(ids), wanted)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("attention", "part='attention' is not named as"),
        ("block 0: neuron 3", "part='block 0: neuron 3' is not named as"),
        ("block 2: attention", r"block\[\]=2 is outside"),
        ("block 0: head 2", r"which\[0\]=2 is outside"),
    ],
)
def test_a_part_that_is_not_there_takes_none_out(part, words):
    model, ids = build(GPT2), some_ids(GPT2)
    intact = model(ids)
    with pytest.raises(ValueError, match=words), without(model, ["block 0: attention", part]):
        pass
    np.testing.assert_array_equal(model(ids), intact)


def test_all_heads_gone_leave_the_bias_that_the_whole_sublayer_takes_with_it():
    model, ids = build(GPT2), some_ids(GPT2)
    with ablated(model, 0, "attention", [0, 1]):
        heads = inside.writes(model, ids)
    with ablated(model, 0, "attention"):
        whole = inside.writes(model, ids)
    assert heads["block 0: attention bias"].any()
    assert not whole["block 0: attention bias"].any()


def test_the_loss_without_each_part():
    task = NextToken(np.arange(200) % 11, length=8, batch_size=3, seed=0)
    model = build(GPT2)
    losses = ablations(model, task.validation())
    one = ["attention", "head 0", "head 1", "feed-forward"]
    assert list(losses) == ["nothing", *(f"block {i}: {part}" for i in (0, 1) for part in one)]
    assert losses["nothing"] == mean_loss(model, task.validation())
    with ablated(model, 1, "attention", [0]):
        assert losses["block 1: head 0"] == mean_loss(model, task.validation())
    means = ablations(model, task.validation(), mean_over=task.batch(0)[0]["ids"])
    assert means.keys() == losses.keys()
    with ablated(model, 0, "feed-forward", mean_over=task.batch(0)[0]["ids"]):
        assert means["block 0: feed-forward"] == mean_loss(model, task.validation())


def test_the_mean_loss_counts_every_target_once():
    model, ids = build(GPT2), some_ids(GPT2, (3, 8))
    whole = mean_loss(model, [({"ids": ids[:, :-1]}, ids[:, 1:])])
    pieces = [({"ids": ids[:1, :-1]}, ids[:1, 1:]), ({"ids": ids[1:, :-1]}, ids[1:, 1:])]
    assert whole == pytest.approx(mean_loss(model, pieces), rel=DOUBLE)
    covered = np.where(np.arange(7) < 3, ids[:, 1:], -100)
    assert mean_loss(model, [({"ids": ids[:, :-1]}, covered)]) == pytest.approx(
        mean_loss(model, [({"ids": ids[:, :3]}, ids[:, 1:4])]), rel=DOUBLE
    )
    with pytest.raises(ValueError, match="number of targets in batches=0 must be at least 1"):
        mean_loss(model, [])


@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        ((2, "attention"), ValueError, r"block\[\]=2 is outside 0\.\.1 \(n_layers=2\)"),
        ((-1, "attention"), ValueError, r"block\[\]=-1 is outside"),
        ((0.0, "attention"), TypeError, "block must be an array of integers"),
        ((0, "feedforward"), ValueError, "sublayer='feedforward' is not one of 'attention', 'feed-forward'"),
        ((0, "attention", [0, 2]), ValueError, r"which\[1\]=2 is outside 0\.\.1 \(n_heads=2\)"),
        ((0, "feed-forward", [32]), ValueError, r"which\[0\]=32 is outside 0\.\.31 \(d_ff=32\)"),
        ((0, "feed-forward", []), ValueError, r"len\(which\)=0 must be at least 1"),
        ((0, "attention", 1), ValueError, "which has shape"),
        ((0, "attention", [True, False]), TypeError, "which must be an array of integers"),
    ],
)
def test_what_is_not_there_is_refused(place, error, words):
    with pytest.raises(error, match=words), ablated(build(GPT2), *place):
        pass


def test_only_decoders_of_this_room():
    with pytest.raises(ValueError, match="'encoder' is not one of 'decoder'"):
        ablations(build(GPT2.replace(family="encoder")), [])
    with (
        pytest.raises(TypeError, match="must be a Transformer"),
        ablated(in_torch(build(GPT2)), 0, "attention"),
    ):
        pass
