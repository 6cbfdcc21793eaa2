"""What chapters 03, 05, 06 and 07 say of the book's model holds in the stored runs, and in short ones made now."""

from functools import cache

import numpy as np
import pytest

from glassformer import shipped
from glassformer.experiments import experiment, stored
from glassformer.experiments.inside import PARTS, sample

short = cache(experiment("inside").measure_shortly)


def of(part):
    """What the stored run found, and a short one."""
    [run] = stored("inside", part=part)
    return run.found, short(part=part)


def config():
    return shipped.load()[0].config


def test_the_stored_runs_are_of_the_model_that_is_shipped():
    kept, now = of("lens")
    np.testing.assert_allclose(now["first window"], kept["first window"], rtol=0, atol=1e-3)


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


def test_contexts_and_promoted_characters_belong_together_and_in_late_blocks_more():
    for found in of("memories"):
        blocks = found["blocks"]
        for block in blocks:
            assert block["agreement"] > 1.5 * max(block["chance"], block["agreement with another's"])
        assert blocks[-1]["agreement"] > 1.3 * blocks[0]["agreement"]


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


def test_an_unknown_part_is_refused(as_readers_run_it):
    with pytest.raises(ValueError, match="part='lense' is not one of 'lens'"):
        experiment("inside").measure(part="lense")
    assert [run["part"] for run in experiment("inside").runs] == list(PARTS)
