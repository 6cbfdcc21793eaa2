"""Tests what the text says about gradients before training, and that the stored numbers can be measured again."""

import math
from statistics import median

import numpy as np
import pytest

from glassformer.experiments import experiment, spread, stored
from glassformer.experiments.norm_gradients import DEPTHS, INITS, PLACEMENTS, SEEDS

EXPERIMENT = experiment("norm_gradients")


def of(placement, init, depth, what="W_down"):
    """Returns the results at that depth, (seeds, blocks)."""
    runs = stored("norm_gradients", placement=placement, init=init)
    return np.array([run.found[str(depth)][what] for run in runs])


def last_block(placement, init, depth):
    return median(of(placement, init, depth)[:, -1])


def last_to_first(placement, init, depth):
    """Returns the ratio of the gradient's length in the last block to that in the first."""
    gradients = of(placement, init, depth)
    return spread(gradients[:, -1] / gradients[:, 0])


@pytest.mark.parametrize("init", ["ours", "xavier"])
def test_pre_norm_the_last_block_has_less_the_deeper_the_model_by_the_root(init):
    """Xiong et al. 2020, theorem 1: in proportion to 1/√L. This holds roughly."""
    by_depth = [last_block("pre", init, depth) for depth in DEPTHS]
    assert by_depth == sorted(by_depth, reverse=True)
    root = math.sqrt(DEPTHS[-1] / DEPTHS[0])
    assert by_depth[0] / by_depth[-1] == pytest.approx(root, rel=0.4)


@pytest.mark.parametrize("init", INITS)
def test_post_norm_the_last_block_has_as_much_at_any_depth(init):
    """The same theorem: independent of L. This holds up to a factor of 2; pre-norm's changes by 4 and more."""
    by_depth = [last_block("post", init, depth) for depth in DEPTHS]
    assert max(by_depth) / min(by_depth) < 2.1


def test_post_norm_grows_towards_the_output_with_the_weights_of_the_paper():
    assert last_to_first("post", "xavier", 2).highest < 1
    for depth in (32, 64):
        assert last_to_first("post", "xavier", depth).median > 5
    assert last_to_first("pre", "xavier", 64).highest < 0.2


def test_and_not_with_others():
    """With our initial weights, it depends on the seed. With GPT-2's, all blocks are alike at any depth."""
    for depth in (32, 64):
        ours = last_to_first("post", "ours", depth)
        assert ours.lowest < 0.75
        assert ours.highest > 2
        assert ours.median == pytest.approx(1.1, abs=0.1)
    for depth in DEPTHS:
        gpt2 = last_to_first("post", "gpt2", depth)
        assert gpt2.lowest > 0.95
        assert gpt2.highest < 1.06


def test_no_gradient_of_a_whole_block_explodes_or_vanishes():
    """The gradients of any two blocks of a model differ by at most a factor of 20."""
    for placement in PLACEMENTS:
        for init in INITS:
            for depth in DEPTHS:
                gradients = of(placement, init, depth, "gradient")
                assert (gradients.max(axis=1) / gradients.min(axis=1)).max() < 20


COLLAPSING = ("ours", "xavier")  # in deep post-norm


@pytest.mark.parametrize("init", COLLAPSING)
def test_queries_and_keys_lose_theirs_in_deep_post_norm(init):
    """Noci et al. 2022: it vanishes when positions become alike, but not for whole blocks and not at 8 blocks."""
    assert of("post", init, 8, "queries_keys")[:, 4].min() > 5e-3
    assert of("post", init, 8, "differ")[:, -1].min() > 0.01
    assert of("post", init, 64, "queries_keys")[:, 32].max() < 1e-7
    assert of("post", init, 64, "differ")[:, -1].max() < 1e-8
    assert of("post", init, 64, "gradient").min() > 0.1


def test_in_pre_norm_and_with_the_weights_of_gpt2_they_keep_it():
    for placement, init in (*(("pre", init) for init in INITS), ("post", "gpt2")):
        assert of(placement, init, 64, "differ")[:, -1].min() > 0.04
        at_8, at_64 = (of(placement, init, depth, "queries_keys") for depth in (8, 64))
        assert np.median(at_64[:, 32]) > np.median(at_8[:, 4]) / 15


def test_the_first_block_of_pre_norm_has_more_than_the_last():
    for init in INITS:
        for depth in DEPTHS:
            gradients = of("pre", init, depth, "gradient")
            assert (gradients[:, 0] > gradients[:, -1]).all()


def test_post_norm_with_the_weights_of_the_paper_has_more_in_the_last_block_than_in_the_first():
    gradients = of("post", "xavier", 64, "gradient")
    assert (gradients[:, 0] < gradients[:, -1]).all()


def test_the_stream_grows_in_pre_norm_alone():
    for depth in DEPTHS:
        np.testing.assert_allclose(of("post", "ours", depth, "stream"), 1, atol=1e-3)
    at_the_end = [median(of("pre", "ours", depth, "stream")[:, -1]) for depth in DEPTHS]
    assert at_the_end == sorted(at_the_end)
    assert at_the_end[-1] > 4 * at_the_end[0]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("init", INITS)
def test_measured_again(placement, init):
    """Before training, only the seed is random, so a repeated run gives the same numbers up to rounding."""
    seed = SEEDS[1]
    again = EXPERIMENT.measure_shortly(placement=placement, init=init, seed=seed)
    [kept] = stored("norm_gradients", placement=placement, init=init, seed=seed)
    assert list(again) == ["2", "16"]
    for depth, found in again.items():
        for what, values in found.items():
            np.testing.assert_allclose(values, kept.found[depth][what], rtol=1e-3, atol=1e-12)
