"""Tests what chapters 03, 05, 06 and 07 say about the book's model, on the stored runs and on short ones."""

from functools import cache

import numpy as np
import pytest
from close import SINGLE, assert_close

from glassformer import inside, shipped
from glassformer.experiments import experiment, stored
from glassformer.experiments.inside import DIRECTIONS, DRAWS, sample, with_listeners
from glassformer.text import corpus


@cache
def short(part):
    """Makes a run on even fewer characters than usual; its annotations are enforced in the tests of `inside`."""
    return experiment("inside").measure_shortly(part=part, n_targets=640)


def of(part):
    """Returns what the stored run found, and what a short one finds."""
    [run] = stored("inside", part=part)
    return run.found, short(part=part)


def config():
    return shipped.load()[0].config


def test_the_stored_runs_are_of_the_model_that_is_shipped():
    kept, now = of("lens")
    assert_close(
        now["first window"], kept["first window"], SINGLE, beside=5.1e-5
    )  # stored with four decimals


def test_every_block_comes_nearer_to_the_truth_and_to_what_is_said_in_the_end():
    for found in of("lens"):
        loss, agreement = np.array(found["loss"]), np.array(found["agreement"])
        assert (np.diff(loss) < 0).all()
        assert loss[0] - loss[-1] > 1
        assert (np.diff(agreement) > 0).all()
        assert agreement[0] < 0.4
        assert agreement[-1] == 1


def test_the_last_feed_forward_writes_more_of_the_answer_than_any_other_part():
    for found in of("attribution"):
        assert max(found, key=found.get) == f"block {config().n_layers - 1}: feed-forward"
        assert len(found) == 2 + config().n_layers * (config().n_heads + 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", ["ablations", "mean ablations"])
def test_every_sublayer_is_missed_and_the_first_attention_most_of_all_attentions(part):
    for found in of(part):
        blocks = range(config().n_layers)
        for sublayer in ("attention", "feed-forward"):
            for i in blocks:
                assert found[f"block {i}: {sublayer}"] - found["nothing"] > 0.01
        assert found["block 0: attention"] - found["nothing"] > 0.1
        assert max(blocks, key=lambda i: found[f"block {i}: attention"]) == 0


@pytest.mark.parametrize("part", ["ablations", "mean ablations"])
def test_a_head_is_missed_less_than_all_heads_of_its_block(part):
    for found in of(part):
        for i in range(config().n_layers):
            for h in range(config().n_heads):
                assert found[f"block {i}: head {h}"] < found[f"block {i}: attention"]


@pytest.mark.weekly
def test_contexts_and_promoted_characters_belong_together_and_in_late_blocks_more():
    for found in of("memories"):
        blocks = found["blocks"]
        for block in blocks:
            assert block["agreement"] > 1.5 * max(block["chance"], block["agreement with another's"])
        assert blocks[-1]["agreement"] > 1.3 * blocks[0]["agreement"]


@pytest.mark.weekly
def test_the_best_memories_know_what_comes():
    for found in of("memories"):
        for block in found["blocks"]:
            for memory in block["missed most"]:
                assert memory["agreement"] > 0.8
                assert memory["chance"] < 0.2


def test_one_neuron_can_be_missed_right_after_its_contexts():
    [run] = stored("inside", part="memories")
    missed = [block["missed most"][0] for block in run.found["blocks"]]
    felt = [memory["loss without"] - memory["loss"] for memory in missed]
    assert min(felt) > 0
    assert max(felt) > 0.2


def random_memories():
    """Returns the blocks of each stored draw, and those of a short run."""
    kept = stored("inside", part="random memories")
    assert [run.settings["draw"] for run in kept] == list(DRAWS)
    return [run.found["blocks"] for run in kept], short(part="random memories")["blocks"]


@pytest.mark.weekly
def test_contexts_of_random_directions_are_nearly_as_much_alike():
    kept, now = random_memories()
    for i in range(config().n_layers):
        for blocks in (*kept, now):
            block = blocks[i]
            for double in block["random keys"].values():
                assert 0.03 < block["neurons"]["same end"] - double["same end"] < 0.15
                assert double["same end"] > 0.5
            assert block["random places"]["same end"] < 0.2
    for blocks in kept:
        for block in blocks:
            for double in block["random keys"].values():
                assert 0.06 < block["neurons"]["same end"] - double["same end"] < 0.135
                assert 0.03 < block["neurons"]["same word"] - double["same word"] < 0.15
            assert block["random places"]["same word"] < 0.1


@pytest.mark.weekly
def test_half_a_pair_does_what_chance_does_and_a_whole_one_at_least_three_times_as_well():
    kept, now = random_memories()
    for blocks in kept:
        for block in blocks:
            pair = block["neurons"]
            assert 3 < pair["agreement"] / pair["chance"] < 5.5
            for half in (block["random keys"], block["random values"]):
                for found in half.values():
                    assert abs(found["agreement"] - found["chance"]) < 0.02
        whole = [block["neurons"]["agreement"] for block in blocks]
        assert whole == sorted(whole)
    for block in now:
        assert block["neurons"]["agreement"] > 2.5 * block["random keys"]["matched"]["agreement"]
        assert block["neurons"]["agreement"] > 2.5 * block["random values"]["matched"]["agreement"]


def test_the_doubles_listen_and_say_nothing():
    model, tokenizer = shipped.load()
    wide = with_listeners(model, np.random.default_rng(0))
    ids = np.asarray(tokenizer.encode(corpus()[:258]))
    assert_close(wide(ids[None, :128]), model(ids[None, :128]), SINGLE)
    F, D = model.config.d_ff, model.config.d_model
    for block, as_it_was in zip(wide.decoder.blocks, model.decoder.blocks, strict=True):
        for name in ("W_gate", "W_up"):
            columns, own = (getattr(one.feedforward, name).weight for one in (block, as_it_was))
            assert columns.shape == (D, (1 + len(DIRECTIONS)) * F)
            lengths = np.linalg.norm(columns, axis=0).reshape(-1, F)
            np.testing.assert_allclose(lengths, np.tile(lengths[0], (3, 1)), rtol=1e-5)
            anywhere, matched = columns[:, F : 2 * F], columns[:, 2 * F :]
            unit = own / np.linalg.norm(own, axis=0)
            for drawn in (anywhere, matched):  # no double points where its neuron does
                assert abs(np.vecdot(unit.T, (drawn / np.linalg.norm(drawn, axis=0)).T)).mean() < 0.15
    both = {(m.block, m.neuron, m.sign): m for m in inside.memories(wide, ids, n_contexts=5)}
    for m in inside.memories(model, ids, n_contexts=5):
        assert sorted(both[m[:3]].places) == sorted(m.places)
        assert both[m[:3]].agreement == m.agreement


@pytest.mark.weekly
def test_a_few_heads_look_back_one_character_and_none_finds_what_came_the_last_time():
    for found in of("induction"):
        for name, text in found.items():
            assert np.max(text["previous"]) > 4 * text["even"]["previous"], name
            assert np.max(text["induction"]) < 5 * text["even"]["induction"], name
            losses = text["losses"]
            assert losses["again"] > losses["after_another"] - 0.1, name


def test_the_sample_is_from_all_of_the_text():
    ids = np.arange(1001)
    batches = list(sample(ids, T=10, n_targets=200))
    inputs = np.concatenate([inputs["ids"] for inputs, _ in batches])
    targets = np.concatenate([targets for _, targets in batches])
    assert inputs.shape == (20, 10)
    np.testing.assert_array_equal(targets, inputs + 1)
    assert (inputs[0, 0], targets[-1, -1]) == (0, 1000)
    assert np.ptp(np.diff(inputs[:, 0])) <= 1
    assert [len(targets) for _, targets in sample(ids, T=10, n_targets=5)] == [1]
