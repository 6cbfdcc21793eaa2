"""Tests every mistake of the gallery: its tests pass without it and fail with it, and it is removed completely."""

import inspect
import math
import sys
import textwrap
import traceback
from contextlib import suppress
from functools import cache, partial
from types import FunctionType

import numpy as np
import pytest
import test_text as text
import torch
from close import DOUBLE, assert_close
from huggingface import models as published
from huggingface import test_experts as files
from layers import test_by_hand as by_hand
from layers import test_cache
from layers import test_experts as experts
from layers import test_model_properties as properties
from layers import test_parity as parity
from layers import test_recurrence as recurrence
from layers import test_torch_references as torch_references
from layers.grid import GRID
from layers.rooms import NN, SCRATCH, both_rooms
from layers.twins import build, gradients, run, texts

from glassformer import nn, scratch
from glassformer.bugs import BUGS, ROOMS, Bug, Edit, bug, lines, put_in
from glassformer.config import ModelConfig
from glassformer.generate import generate
from glassformer.huggingface import config_from_hf, state_from_hf
from glassformer.layers import Experts, KeyValueSharing, LatentAttention, LinearAttention
from glassformer.text import inputs_and_targets
from glassformer.trace import trace

ROOM = {"scratch": SCRATCH, "nn": NN}
every_bug = pytest.mark.parametrize("name", BUGS)


# The tests that catch them, the cheapest of this project

ENCODER_LAYER = torch_references.test_a_block_is_torch_transformer_encoder_layer
THE_2017_ONE = by_hand.test_the_post_norm_transformer_is_what_its_formulas_say


CAUGHT_BY = {
    "no-scale": [by_hand.test_attention],
    "softmax-axis": [by_hand.test_attention],
    "softmax-overflow": [by_hand.test_softmax_of_large_numbers_does_not_overflow],
    "mask-after-softmax": [by_hand.test_attention],
    "mask-transposed": [by_hand.test_causal_mask],
    "mask-one-ahead": [by_hand.test_causal_mask],
    "padding-on-queries": [properties.test_a_text_is_read_as_alone_beside_a_longer_one],
    "padding-attended": [properties.test_a_text_is_read_as_alone_beside_a_longer_one],
    "heads-not-swapped": [by_hand.test_heads_are_runs_of_neighbouring_dimensions],
    "heads-tiled": [torch_references.test_grouped_heads],
    "no-positions": [THE_2017_ONE, by_hand.test_rotary_attention],
    "positions-late": [THE_2017_ONE],
    "tokens-unscaled": [properties.test_the_first_block_can_tell_tokens_apart_beside_sinusoids],
    "rope-on-values": [by_hand.test_rotary_attention],
    "rope-layout": [by_hand.test_rotary_attention],
    "t5-sign": [by_hand.test_relative_positions],
    "residual-dropped": [partial(ENCODER_LAYER, placement="post", activation="relu", causal=False)],
    "post-norm": [partial(ENCODER_LAYER, placement="pre", activation="gelu", causal=True)],
    "eps-outside": [partial(torch_references.test_norms, eps=0.1)],
    "sigma-unbiased": [partial(torch_references.test_norms, eps=1e-5)],
    "seeded-anew": [properties.test_no_two_matrices_begin_with_the_same_numbers],
    "tied-reshaped": [properties.test_the_tied_head_is_the_embedding],
    "labels-unshifted": [text.test_at_each_place_the_target_is_the_next_id],
    "labels-shifted-twice": [text.test_at_each_place_the_target_is_the_next_id],
    "loss-over-padding": [partial(torch_references.test_cross_entropy, ignore_index=-100)],
    "tied-gradient-overwritten": [
        partial(properties.test_a_tied_weight_has_the_gradients_of_both_its_uses, name="GPT-2")
    ],
    "gradients-kept": [lambda: test_gradients_that_are_set_to_zero_do_not_add_up()],
    "gradients-unclipped": [partial(torch_references.test_clipping, max_norm=0.01)],
    "adam-uncorrected": [torch_references.test_adamw_leaves_alone_what_has_no_gradient],
    "dropout-in-evaluation": [torch_references.test_a_model_drops_in_training_only],
    "cache-off-by-one": [partial(parity.test_with_a_cache_the_same_comes_out, name="GPT-2", kind="plain")],
    "window-one-more": [by_hand.test_window_mask],
    "cache-not-reset": [partial(test_cache.test_after_a_reset_it_is_as_new, name="GPT-2")],
    "stretched-for-short-texts": [
        partial(properties.test_without_dropout_training_and_evaluation_are_alike, name="the modern one")
    ],
    "latent-rotated": [
        partial(
            parity.test_with_a_cache_the_same_comes_out, name="latents and a borrowed choice", kind="plain"
        )
    ],
    "values-after-rotation": [
        properties.test_values_that_are_keys_are_those_of_a_matrix_equal_to_that_of_the_keys
    ],
    "keys-without-norm": [
        partial(
            recurrence.test_a_layer_is_what_the_papers_write_and_padding_is_as_if_it_were_not_there,
            variant="gated delta",
        )
    ],
    "state-not-reset": [
        partial(test_cache.test_after_a_reset_it_is_as_new, name="states and attention"),
        recurrence.test_a_cache_goes_back_only_to_nothing_or_to_where_it_was_marked,
    ],
    "decay-after-write": [
        partial(
            recurrence.test_two_positions_worked_by_hand_with_a_decay_for_each_feature,
            name=name,
            delta=True,
            read=[3, 6],
            state=[1, 5],
        )
        for name in recurrence.FUNCTIONS
    ],
    "weights-not-renormalized": [
        partial(experts.test_two_tokens_and_three_experts_by_hand, name="renormalized")
    ],
    "bias-in-the-weights": [experts.test_a_choice_bias_chooses_and_does_not_weigh_and_a_table_chooses_by_ids],
    "router-in-bfloat16": [
        experts.test_half_precision_routes_as_float32_does,
        partial(experts.test_two_tokens_and_three_experts_by_hand, name="softmax"),
    ],
    "gate-and-up-halved": [files.test_gate_and_up_alternate_in_a_file_of_gpt_oss],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a softmax that overflows says so
@pytest.mark.parametrize(("name", "test"), [(n, test) for n, tests in CAUGHT_BY.items() for test in tests])
def test_a_named_test_passes_without_the_bug_and_fails_with_it(name, test):
    in_rooms = "room" in inspect.signature(test).parameters
    for given in [{"room": ROOM[room]} for room in BUGS[name].rooms] if in_rooms else [{}]:
        test(**given)
        with put_in(name), pytest.raises(AssertionError):
            test(**given)


def test_every_bug_has_a_test():
    assert list(CAUGHT_BY) == list(BUGS)
    assert all(CAUGHT_BY.values())


# In both rooms, in one, and in none

ROUNDING = 1e-12  # float64, numbers of size 1
SHOWS = 1e-6  # ε outside the root changes logits by about that much

A_SHARED_ONE = "experts with groups and a shared one"

# Where a mistake shows in the logits: a model of the grid and its texts
SEEN_IN = {
    "no-scale": ("GPT-2", "plain"),
    "softmax-axis": ("GPT-2", "plain"),
    "mask-after-softmax": ("GPT-2", "plain"),
    "mask-transposed": ("GPT-2", "plain"),
    "mask-one-ahead": ("GPT-2", "plain"),
    "padding-on-queries": ("BERT", "padded"),
    "padding-attended": ("BERT", "padded"),
    "heads-not-swapped": ("GPT-2", "plain"),
    "heads-tiled": ("the modern one", "plain"),
    "no-positions": ("GPT-2", "plain"),
    "positions-late": ("GPT-2", "plain"),
    "tokens-unscaled": ("2017", "plain"),
    "rope-on-values": ("the modern one", "plain"),
    "rope-layout": ("the modern one", "plain"),
    "t5-sign": ("T5", "plain"),
    "residual-dropped": ("2017", "plain"),
    "post-norm": ("GPT-2", "plain"),
    "eps-outside": ("GPT-2", "plain"),
    "sigma-unbiased": ("BERT", "plain"),
    "tied-reshaped": ("GPT-2", "plain"),
    "window-one-more": ("near and far", "plain"),
    "latent-rotated": ("latents and a borrowed choice", "plain"),
    "keys-without-norm": ("states and attention", "plain"),
    "decay-after-write": ("states and attention", "plain"),
    "weights-not-renormalized": ("experts", "plain"),
    "bias-in-the-weights": (A_SHARED_ONE, "plain"),
    "router-in-bfloat16": (A_SHARED_ONE, "plain"),
}
# Those that do not, each with a test of its own below
ELSEWHERE = {
    "softmax-overflow",
    "seeded-anew",
    "labels-unshifted",
    "labels-shifted-twice",
    "loss-over-padding",
    "tied-gradient-overwritten",
    "gradients-kept",
    "gradients-unclipped",
    "adam-uncorrected",
    "dropout-in-evaluation",
    "cache-off-by-one",
    "cache-not-reset",
    "stretched-for-short-texts",
    "values-after-rotation",
    "state-not-reset",
    "gate-and-up-halved",
}


def test_every_bug_is_seen_somewhere():
    assert set(SEEN_IN) | ELSEWHERE == set(BUGS)
    assert not set(SEEN_IN) & ELSEWHERE


def difference(a, b):
    return np.abs(a - b).max()


@cache
def twins(system):
    return build(SCRATCH, GRID[system]), build(NN, GRID[system])


def outputs(name):
    """Returns the logits in NumPy, in PyTorch, and in PyTorch with an open trace, which uses the slow attention."""
    system, kind = SEEN_IN[name]
    read = texts(GRID[system], kind)
    ours, theirs = twins(system)
    numpy, torch = run(SCRATCH, ours, read), run(NN, theirs, read)
    with trace():
        return numpy, torch, run(NN, theirs, read)


@pytest.mark.parametrize("name", SEEN_IN)
def test_both_rooms_make_the_same_mistake(name):
    right, *others = outputs(name)
    for other in others:
        assert_close(other, right, DOUBLE)
    with put_in(name):
        wrong, *others = outputs(name)
    assert difference(wrong, right) > SHOWS
    for other in others:
        assert_close(other, wrong, DOUBLE)


@pytest.mark.parametrize("room", ROOMS)
def test_in_one_room_alone_the_other_gives_it_away(room):
    right, *_ = outputs("rope-layout")
    with put_in("rope-layout", rooms=[room]):
        ours, theirs, traced = outputs("rope-layout")
    there, here = (ours, theirs) if room == "nn" else (theirs, ours)
    assert_close(there, right, DOUBLE)
    assert difference(here, right) > SHOWS
    assert_close(traced, theirs, DOUBLE)


def everything():
    """Returns every function of the package with its code, and every class and module with its contents."""
    found = {}
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "glassformer"]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    for owner in (*modules, *classes):
        for name, value in vars(owner).items():
            written = value.fget if isinstance(value, property) else value
            function = inspect.unwrap(written) if callable(written) else written
            code = function.__code__ if isinstance(function, FunctionType) else None
            found[owner.__module__ if isinstance(owner, type) else "", owner.__name__, name] = value, code
    return found


def assert_untouched(before):
    after = everything()
    assert set(after) == set(before)
    for place, (value, code) in before.items():
        assert after[place][0] is value, place
        assert after[place][1] is code, place


@pytest.mark.sampled(8)
@every_bug
def test_nothing_of_it_stays(name):
    """Nor of the same bug if it is put in twice, which is refused."""
    before = everything()
    with suppress(ZeroDivisionError), put_in(name):
        inside = everything()
        with pytest.raises(RuntimeError, match=f"cannot put '{name}' in: "), put_in(name):
            pass
        assert_untouched(inside)
        raise ZeroDivisionError
    assert [place for place, it in inside.items() if it[1] is not before[place][1]]
    assert_untouched(before)


def test_a_line_that_is_not_there_is_asked_for_by_name(monkeypatch):
    edit = Edit("nn.attention.merge_heads", "x.permute(0, 2, 1, 3).reshape(*B, T, H * K)", "x")
    monkeypatch.setitem(BUGS, "new", Bug(name="new", title="", symptom="", edits=(edit,)))
    before = everything()
    with pytest.raises(RuntimeError) as caught:
        put_in("new").__enter__()
    assert str(caught.value) == (
        "cannot put 'new' in: nn.attention.merge_heads does not contain 'x.permute(0, 2, 1, 3).reshape(*B, T, H * K)'; "
        "nearest is 'return x.transpose(-3, -2).reshape(*B, T, H * K)'"
    )
    assert_untouched(before)


def test_two_bugs_at_once():
    q = torch.tensor([[2.0, 0.0]])
    k = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    mask = torch.tensor([[False, True]])

    def weights():
        return nn.scaled_dot_product_attention(q, k, k, mask=mask)[1].tolist()

    e = math.exp(2.0)
    with put_in("mask-after-softmax") as outer:
        assert outer is BUGS["mask-after-softmax"]
        with put_in("no-scale") as inner:
            assert inner is BUGS["no-scale"]
            assert weights() == [[0, pytest.approx(1 / (1 + e))]]
        assert weights() == [[0, pytest.approx(1 / (1 + math.exp(2 / math.sqrt(2))))]]
    assert weights() == [[0, 1]]


def test_the_source_that_is_shown_is_the_one_that_runs():
    wrong, right = BUGS["tied-reshaped"].what
    forward = nn.Unembedding.forward
    source = textwrap.dedent(inspect.getsource(forward))
    with put_in("tied-reshaped"):
        assert inspect.getsource(forward) == source.replace(right, wrong) != source
        with pytest.raises(TypeError) as caught:
            inspect.unwrap(forward)(nn.Unembedding(TINY, generator=None), "no array", None)
        assert 'checks.vectors("x", x, ' in "".join(traceback.format_tb(caught.tb))
    assert textwrap.dedent(inspect.getsource(forward)) == source


def test_the_lines_of_a_mistake_are_whole():
    line = "torch.ones(size, dtype=torch.bool).{}(n_keys - n_queries)"
    assert lines("mask-transposed") == (line.format("triu"), line.format("tril"))
    wrong, right = lines("mask-after-softmax")
    assert (right, wrong.splitlines()[0]) == ("weights = softmax(scores)", "weights = softmax(scores)")
    with pytest.raises(ValueError, match="not a known bug"):
        lines("mask")


def test_the_entries():
    for name, known in BUGS.items():
        assert name == known.name
        assert bug(name) is known
        assert name == name.lower()
        assert known.title[0].isupper()
        assert not known.title.endswith(".")
        assert known.symptom.endswith((".", ".)"))
        assert "  " not in known.symptom
        assert known.what == (known.edits[0].wrong, known.edits[0].right)
        assert len(set(known.edits)) == len(known.edits)
        assert set(known.rooms) <= set(ROOMS)
        assert bool(known.caught_by) == (known.chapter > "14")
    assert len({known.title for known in BUGS.values()}) == len(BUGS)
    in_numpy_only = {name for name, known in BUGS.items() if known.rooms == ("scratch",)}
    assert in_numpy_only == {
        "tied-gradient-overwritten",
        "gradients-kept",
        "gradients-unclipped",
        "adam-uncorrected",
    }


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: bug("mask-before-softmax"),
            ValueError,
            "name='mask-before-softmax' is not a known bug. Did you mean 'mask-after-softmax'? Known are "
            + ", ".join(BUGS)
            + ".",
        ),
        (
            lambda: put_in("").__enter__(),
            ValueError,
            "name='' is not a known bug. Known are " + ", ".join(BUGS) + ".",
        ),
        (lambda: put_in(3).__enter__(), TypeError, "name=3 must be a str"),
        (
            lambda: put_in("no-scale", rooms=["numpy"]).__enter__(),
            ValueError,
            "rooms='numpy' is not one of 'scratch', 'nn'",
        ),
        (
            lambda: put_in("gradients-kept", rooms=["nn"]).__enter__(),
            ValueError,
            "rooms=['nn'] cannot have 'gradients-kept', which needs scratch",
        ),
    ],
)
def test_the_message_names_argument_value_and_rule(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


# Training with them

TINY = ModelConfig(vocab_size=11, context_length=8, d_model=8, n_layers=2, n_heads=2)


@pytest.mark.sampled(2)
@every_bug
def test_a_model_can_be_trained_with_it(name):
    """In PyTorch, a mistake changes the gradient together with the forward pass, so a step still lowers the loss."""
    model = nn.Transformer(TINY, generator=torch.Generator().manual_seed(0)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    windows = np.random.default_rng(0).integers(0, 11, (4, 9))
    losses = []
    with put_in(name):
        for _ in range(20):
            inputs, targets = map(torch.from_numpy, inputs_and_targets(windows))
            loss = nn.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    without = {n for n, w in model.named_parameters() if w.grad is None or not w.grad.any()}
    assert without == ({"decoder.positions.weight"} if name == "no-positions" else set())
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


@every_bug
def test_in_numpy_the_way_back_is_open_too(name):
    """Whatever each layer saves is used again, and every weight that had a gradient still gets one."""
    for system in ("GPT-2", "the modern one", "2017", "T5", "states and attention", "experts", A_SHARED_ONE):
        with put_in(name):
            wrong = way_back(system)
        assert {n: g.shape for n, g in wrong.items()} == {
            n: g.shape for n, g in right_way_back(system).items()
        }
        assert all(np.isfinite(g).all() for g in wrong.values())


def way_back(system):
    it, read = twins(system)[0], texts(GRID[system])
    return dict(gradients(SCRATCH, it, read, np.ones((2, 5, 11))))


right_way_back = cache(way_back)


# What the gallery says of them


def model(room, config=TINY, seed=0):
    """Returns a model with weights large enough that attention matters."""
    return build(room, config, seed=seed).eval()


def logits(room, it, ids, **given):
    return run(room, it, {"ids": np.asarray(ids), **given})


IDS = np.random.default_rng(0).integers(0, 11, (2, 6))


@both_rooms
def test_no_scale_makes_scores_as_many_times_larger_as_the_root_of_d_head(room):
    q, k = np.random.default_rng(0).normal(size=(2, 5, 64))
    with trace() as seen:
        room.layers.scaled_dot_product_attention(*map(room.array, (q, k, k)))
        with put_in("no-scale"):
            room.layers.scaled_dot_product_attention(*map(room.array, (q, k, k)))
    right, wrong = map(room.numpy, seen.arrays("scores"))
    np.testing.assert_allclose(wrong, 8 * right, rtol=1e-15)


@both_rooms
@pytest.mark.parametrize(
    "name", ["softmax-axis", "mask-after-softmax", "mask-transposed", "mask-one-ahead", "heads-not-swapped"]
)
def test_these_let_the_future_in(room, name):
    it, changed = model(room), np.array(IDS)
    changed[:, -1] = (changed[:, -1] + 1) % 11
    assert_close(logits(room, it, IDS)[:, :-1], logits(room, it, changed)[:, :-1], DOUBLE)
    with put_in(name):
        assert difference(logits(room, it, IDS)[:, :-1], logits(room, it, changed)[:, :-1]) > SHOWS


@both_rooms
def test_softmax_axis_makes_columns_sum_to_1_and_mask_after_softmax_makes_rows_too_small(room):
    q, k = np.random.default_rng(0).normal(size=(2, 5, 8))

    def weights():
        attend = room.layers.scaled_dot_product_attention
        return room.numpy(attend(*map(room.array, (q, k, k)), mask=room.layers.causal_mask(5))[1])

    with put_in("softmax-axis"):
        np.testing.assert_allclose(weights().sum(axis=0), 1, rtol=1e-15)
    with put_in("mask-after-softmax"):
        sums = weights().sum(axis=1)
        assert (sums[:-1] < 1 - SHOWS).all()
        assert sums[-1] == pytest.approx(1, abs=ROUNDING)
        assert not np.triu(weights(), 1).any()


@both_rooms
def test_softmax_overflow_is_nan_beyond_88_and_right_before(room):
    small, large = (room.array(np.float32([[0, x]])) for x in (88, 89))
    right = room.numpy(room.layers.softmax(small))
    with put_in("softmax-overflow"), np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_allclose(room.numpy(room.layers.softmax(small)), right, rtol=1e-6)
        assert np.isnan(room.numpy(room.layers.softmax(large))).any()


@both_rooms
@pytest.mark.parametrize("name", ["padding-attended", "padding-on-queries"])
def test_padding_counts(room, name):
    """Compares the same text alone and in a batch with longer texts."""
    encoder = TINY.replace(family="encoder")
    it, padded = model(room, encoder), np.array(IDS[:1])
    padded[:, 4:] = 0
    mask = np.array([[True] * 4 + [False] * 2])
    alone, together = logits(room, it, IDS[:1, :4]), logits(room, it, padded, mask=mask)
    assert_close(alone, together[:, :4], DOUBLE)
    with put_in(name):
        assert difference(alone, logits(room, it, padded, mask=mask)[:, :4]) > SHOWS
        it = model(room)  # a causal model, with padding on the right
        alone = logits(room, it, padded[:, :4])
        assert_close(logits(room, it, padded, mask=mask)[:, :4], alone, DOUBLE)


@both_rooms
def test_seeded_anew_makes_every_block_alike_and_still_follows_the_seed(room):
    def drawn(seed):
        it = room.layers.Transformer(TINY, generator=room.generator(seed), dtype=room.dtype("float64"))
        return room_state(room, it)

    with put_in("seeded-anew"):
        state = drawn(3)
        other = drawn(4)
    first, second = (
        [w for name, w in state.items() if name.startswith(f"decoder.blocks.{i}.")] for i in (0, 1)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(state["token_embedding.weight"], other["token_embedding.weight"])
    table = np.ravel(state["token_embedding.weight"])
    query = np.ravel(state["decoder.blocks.0.attention.W_q.weight"])
    np.testing.assert_allclose(query * 0.02, table[: query.size] * TINY.d_model**-0.5, rtol=1e-12)


@both_rooms
def test_heads_that_are_not_swapped_are_right_for_one_head_and_for_one_token(room):
    for config, ids in ((TINY.replace(n_heads=1), IDS), (TINY, IDS[:, :1])):
        it = model(room, config)
        right = logits(room, it, ids)
        with put_in("heads-not-swapped"):
            assert_close(logits(room, it, ids), right, DOUBLE)


GROUPED = TINY.replace(d_model=16, n_heads=4, n_kv_heads=2, positions="rope")


@both_rooms
def test_heads_tiled_is_another_numbering_of_the_queries(room):
    """With the query heads renumbered, 0 2 1 3, the wrong layout gives what the right one gave."""
    it = model(room, GROUPED)
    right, state = logits(room, it, IDS), {n: np.array(w) for n, w in room_state(room, it).items()}
    K, order = 4, [0, 2, 1, 3]
    columns = np.concatenate([np.arange(K * h, K * h + K) for h in order])
    for block in range(2):
        attention = f"decoder.blocks.{block}.attention"
        state[f"{attention}.W_q.weight"] = state[f"{attention}.W_q.weight"][:, columns]
        state[f"{attention}.W_q.bias"] = state[f"{attention}.W_q.bias"][columns]
        state[f"{attention}.W_o.weight"] = state[f"{attention}.W_o.weight"][columns]
    it.load_state_dict({name: room.array(weight) for name, weight in state.items()})
    with put_in("heads-tiled"):
        assert_close(logits(room, it, IDS), right, DOUBLE)


def room_state(room, it):
    return {name: room.numpy(weight) for name, weight in it.state_dict().items()}


@both_rooms
def test_no_positions_shuts_every_door(room):
    for positions in ("learned", "sinusoidal", "rope", "alibi", "t5"):
        encoder = TINY.replace(family="encoder", positions=positions)
        it, order = model(room, encoder), np.random.default_rng(1).permutation(6)
        assert difference(logits(room, it, IDS[:, order]), logits(room, it, IDS)[:, order]) > SHOWS
        with put_in("no-positions"):
            assert_close(logits(room, it, IDS[:, order]), logits(room, it, IDS)[:, order], DOUBLE)


@both_rooms
def test_positions_late_leaves_the_first_block_blind(room):
    it = model(room, TINY.replace(positions="sinusoidal"))
    with put_in("positions-late"), trace() as seen:
        logits(room, it, np.full((1, 6), 3))
    first, second = (room.numpy(scores) for scores in seen.arrays("scores"))
    allowed = np.isfinite(first[0, 0])
    assert np.ptp(first[0, 0][allowed]) <= ROUNDING  # one token six times: nothing tells the places apart
    assert np.ptp(second[0, 0][allowed]) > SHOWS


@both_rooms
def test_rope_on_values_makes_it_matter_where_the_text_begins(room):
    it = model(room, GROUPED)
    here, there = ({"position_ids": np.arange(6) + shift} for shift in (0, 2))
    assert_close(logits(room, it, IDS, **here), logits(room, it, IDS, **there), DOUBLE)
    with put_in("rope-on-values"):
        assert difference(logits(room, it, IDS, **here), logits(room, it, IDS, **there)) > SHOWS


@both_rooms
def test_rope_layout_is_right_for_the_first_token_alone(room):
    it, ids = model(room, GROUPED), np.arange(6)[None]
    right = logits(room, it, ids)
    with put_in("rope-layout"):
        wrong = logits(room, it, ids)
        assert_close(wrong[:, 0], right[:, 0], DOUBLE)
        assert (np.abs(wrong - right)[:, 1:].max(axis=-1) > SHOWS).all()
    it = model(room, GROUPED.replace(rope_layout="interleaved"))
    right = logits(room, it, IDS)
    with put_in("rope-layout"):
        assert difference(logits(room, it, IDS), right) == 0


@both_rooms
def test_t5_sign_puts_all_the_past_in_bucket_0(room):
    places = room.array(np.arange(6))
    method = room.layers.T5Positions(1, bidirectional=False, n_buckets=8, **room.parameters())
    room.load(method, weight=np.arange(8.0)[:, None])
    past = np.tri(6, dtype=bool)
    assert set(room.numpy(method.score_bias(places, places))[0][past]) == {0, 1, 2, 3, 4}
    alibi = room.layers.AlibiPositions(2)
    right = room.numpy(alibi.score_bias(places, places))
    with put_in("t5-sign"):
        assert set(room.numpy(method.score_bias(places, places))[0][past]) == {0}
        np.testing.assert_array_equal(room.numpy(alibi.score_bias(places, places)), right)


@both_rooms
def test_post_norm_and_a_dropped_residual_leave_no_path_around(room):
    """Sublayers that write 0: in a pre-norm model, the output is the input."""
    it = model(room, TINY)
    zeros = {
        n: np.zeros_like(w) if ".W_o." in n or ".W_down." in n else w for n, w in room_state(room, it).items()
    }
    it.load_state_dict({name: room.array(weight) for name, weight in zeros.items()})

    def stream():
        with trace() as seen:
            logits(room, it, IDS)
        return [room.numpy(x) for x in seen.arrays("stream")]

    first, *_, last = stream()
    assert difference(first, last) == 0
    with put_in("residual-dropped"):
        assert not stream()[-1].any()
    with put_in("post-norm"):
        assert difference(first, stream()[-1]) > SHOWS


@both_rooms
def test_eps_outside_enlarges_what_is_nearly_equal(room):
    norm = room.layers.LayerNorm(4, dtype=room.dtype("float64"))
    x = 1e-4 * room.array([[1.0, -1.0, 1.0, -1.0]])
    assert difference(np.abs(room.numpy(norm(x))), 1e-4 / math.sqrt(1e-8 + 1e-5)) <= ROUNDING
    with put_in("eps-outside"):
        assert difference(np.abs(room.numpy(norm(x))), 1e-4 / (1e-4 + 1e-5)) <= ROUNDING


def test_eps_outside_has_no_gradient_where_all_features_are_equal():
    x = torch.ones(1, 4, requires_grad=True)
    norm = nn.LayerNorm(4)
    norm(x).sum().backward()
    assert torch.isfinite(x.grad).all()
    with put_in("eps-outside"):
        norm(x).sum().backward()
    assert torch.isnan(x.grad).all()


@both_rooms
def test_sigma_unbiased_makes_everything_smaller_by_little(room):
    norm = room.layers.LayerNorm(768, eps=1e-300, dtype=room.dtype("float64"))
    x = room.array(np.random.default_rng(0).normal(size=(2, 768)))
    right = room.numpy(norm(x))
    with put_in("sigma-unbiased"):
        np.testing.assert_allclose(room.numpy(norm(x)), right * math.sqrt(1 - 1 / 768), rtol=1e-12)
    assert f"{1 - math.sqrt(1 - 1 / 768):.2%}" == "0.07%"


@both_rooms
def test_tied_reshaped_mixes_tokens(room):
    """The table has one row of ones: one logit sees it if transposed, but as many as there are features if reshaped."""
    config = TINY.replace(vocab_size=8)  # V = D, where even a forgotten transpose raises no error
    it = model(room, config)
    room.load(it.token_embedding, weight=np.eye(8)[:, [2]] * np.ones(8))
    hidden = room.array(np.ones((1, 8)))
    assert np.flatnonzero(room.numpy(it.head(hidden))).tolist() == [2]
    with put_in("tied-reshaped"):
        assert np.count_nonzero(room.numpy(it.head(hidden))) == 8


def test_labels():
    windows = np.arange(5)
    right = inputs_and_targets(windows)
    assert [x.tolist() for x in right] == [[0, 1, 2, 3], [1, 2, 3, 4]]
    with put_in("labels-unshifted"):
        assert [x.tolist() for x in inputs_and_targets(windows)] == [[0, 1, 2, 3], [0, 1, 2, 3]]
    with put_in("labels-shifted-twice", rooms=["scratch"]):
        assert [x.tolist() for x in inputs_and_targets(windows)] == [[0, 1, 2], [2, 3, 4]]


@both_rooms
def test_loss_over_padding_is_too_low_in_proportion(room):
    scores = room.array(np.random.default_rng(0).normal(size=(2, 4, 11)))
    targets = np.array(IDS[:, :4])
    targets[:, 2:] = -100
    right = float(room.layers.cross_entropy(scores, room.array(targets)))
    with put_in("loss-over-padding"):
        assert float(room.layers.cross_entropy(scores, room.array(targets))) == pytest.approx(
            right / 2, rel=1e-12
        )
        equal = room.array(np.zeros((2, 4, 11)))
        assert float(room.layers.cross_entropy(equal, room.array(targets))) < math.log(11)


def test_a_tied_gradient_that_is_overwritten_is_that_of_the_lookup():
    it = model(SCRATCH).train()
    grad = np.random.default_rng(0).normal(size=(2, 6, 11))

    def gradient():
        it.zero_gradients()
        saved = []
        it(IDS, saved=saved)
        it.backward(grad, saved)
        return it.gradients()

    right = gradient()
    with put_in("tied-gradient-overwritten"):
        wrong = gradient()
    assert {n for n in right if difference(right[n], wrong[n]) > SHOWS} == {"token_embedding.weight"}
    unused = np.setdiff1d(np.arange(11), IDS)  # not looked up: all they had came from predicting
    assert np.abs(right["token_embedding.weight"][unused]).min() > 0
    assert not wrong["token_embedding.weight"][unused].any()


def test_gradients_that_are_set_to_zero_do_not_add_up():
    linear = scratch.Linear(2, 3, generator=np.random.default_rng(0))
    for _ in range(3):
        linear.zero_gradients()
        saved = []
        linear(np.ones((1, 2), np.float32), saved)
        linear.backward(np.ones((1, 3), np.float32), saved)
    np.testing.assert_array_equal(linear.gradients()["weight"], 1)


def test_gradients_that_are_not_clipped_are_still_measured():
    linear = scratch.Linear(1, 2, bias=False, generator=np.random.default_rng(0))
    linear.accumulate(weight=np.array([[30.0, 40.0]]))
    with put_in("gradients-unclipped"):
        assert scratch.clip_gradients(linear, 1.0) == 50
    np.testing.assert_array_equal(linear.gradients()["weight"], [[30, 40]])


def test_adam_uncorrected_begins_with_steps_three_times_too_long_or_half_too_short():
    def first_step(betas):
        linear = scratch.Linear(1, 1, bias=False, generator=None, dtype=np.float64)
        linear.accumulate(weight=np.array([[-5.0]]))
        scratch.AdamW(linear, learning_rate=0.01, betas=betas, weight_decay=0.0).step()
        return linear.weight.item()

    assert first_step((0.9, 0.999)) == pytest.approx(0.01)
    with put_in("adam-uncorrected"):
        assert first_step((0.9, 0.999)) == pytest.approx(0.01 * 0.1 / math.sqrt(0.001))  # 3.16 times
        assert first_step((0.9, 0.95)) == pytest.approx(0.01 * 0.1 / math.sqrt(0.05))  # and 0.45 times


@both_rooms
def test_dropout_in_evaluation_gives_another_output_every_time(room):
    it = room.layers.Transformer(TINY.replace(dropout=0.2), **room.parameters()).eval()
    right = logits(room, it, IDS)
    assert difference(logits(room, it, IDS), right) == 0
    with put_in("dropout-in-evaluation"):
        one, other = logits(room, it, IDS), logits(room, it, IDS)
    assert difference(one, right) > SHOWS
    assert difference(one, other) > SHOWS
    it = model(room)  # without dropout there is nothing to forget
    right = logits(room, it, IDS)
    with put_in("dropout-in-evaluation"):
        assert difference(logits(room, it, IDS), right) == 0


@both_rooms
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "alibi", "t5"])
def test_cache_off_by_one_puts_all_that_is_new_where_the_last_of_the_prompt_stands(room, positions):
    it = model(room, TINY.replace(positions=positions, context_length=9, t5_max_distance=40))
    ids = np.random.default_rng(0).integers(0, 11, (2, 9))
    right = logits(room, it, ids)
    with put_in("cache-off-by-one"):
        assert difference(logits(room, it, ids), right) == 0
        cache = it.new_cache(2, 9)
        new = np.split(ids, [6, 7, 8], axis=1)
        with torch.no_grad():
            wrong = [room.numpy(it(room.array(some), cache=cache)) for some in new]
        assert room.numpy(cache.position_ids).tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5]
    wrong = np.concatenate(wrong, axis=1)
    assert_close(wrong[:, :6], right[:, :6], DOUBLE)
    assert (np.abs(wrong - right)[:, 6:].max(axis=(0, 2)) > SHOWS).all()


@both_rooms
def test_cache_off_by_one_is_right_for_the_first_new_token_alone(room):
    it = model(room, TINY.replace(context_length=40))
    right = generate(it, IDS, 20, temperature=0)
    with put_in("cache-off-by-one"):
        np.testing.assert_array_equal(generate(it, IDS, 20, temperature=0, cache=False), right)
        wrong = np.array(generate(it, IDS, 20, temperature=0))
    np.testing.assert_array_equal(wrong[:, :7], np.array(right)[:, :7])
    assert (wrong != right).any()


# Those of chapter 16, each with what `caught_by` says of it


def in_steps(room, it, ids, cache, n=1):
    """Returns the logits of texts that are read with a cache, `n` ids at a time."""
    pieces = np.split(ids, range(n, ids.shape[1], n), axis=1)
    return np.concatenate([logits(room, partial(it, cache=cache), piece) for piece in pieces], axis=1)


@both_rooms
def test_window_one_more_shows_beyond_the_window_and_never_in_steps(room):
    it = model(room, TINY.replace(sliding_window=3))
    right = logits(room, it, IDS)
    with put_in("window-one-more"):
        wrong, stepwise = logits(room, it, IDS), in_steps(room, it, IDS, it.new_cache(2, 6))
    assert_close(wrong[:, :3], right[:, :3], DOUBLE)
    assert (np.abs(wrong - right)[:, 3:].max(axis=(0, 2)) > SHOWS).all()
    assert_close(stepwise, right, DOUBLE)


@both_rooms
def test_a_cache_that_is_not_reset_lets_the_old_text_in_until_it_is_full(room):
    it = model(room)
    cache, right = it.new_cache(2, 12), logits(room, it, IDS)
    both = {"ids": np.tile(IDS, 2), "position_ids": np.tile(np.arange(6), 2)}
    for _ in range(2):
        assert_close(in_steps(room, it, IDS, cache), right, DOUBLE)
        cache.reset()
    with put_in("cache-not-reset"):
        in_steps(room, it, IDS, cache)
        cache.reset()
        again = in_steps(room, it, IDS, cache)
        cache.reset()
        with pytest.raises(ValueError, match="it already holds 12"):
            in_steps(room, it, IDS, cache)
    assert (np.abs(again - right).max(axis=(0, 2)) > SHOWS).all()
    assert_close(again, run(room, it, both)[:, 6:], DOUBLE)


@both_rooms
def test_windows_forget_the_old_text_even_so(room):
    it = model(room, TINY.replace(sliding_window=2))  # two blocks see two positions back
    cache, right = it.new_cache(2, 12), logits(room, it, IDS)
    in_steps(room, it, IDS, cache)
    with put_in("cache-not-reset"):
        cache.reset()
    off = np.abs(in_steps(room, it, IDS, cache) - right).max(axis=(0, 2))
    assert (off[:2] > SHOWS).all()
    assert off[2:].max() < ROUNDING


@both_rooms
def test_stretched_for_short_texts_is_yarn_in_evaluation_alone(room):
    config = TINY.replace(d_head=12, positions="rope", context_length=64)
    yarn = config.replace(rope_scaling="yarn", rope_interpolation=4.0)
    it, stretched = model(room, config), model(room, yarn)
    right = logits(room, it, IDS)
    with put_in("stretched-for-short-texts"):
        assert difference(logits(room, it.train(), IDS), right) == 0
        wrong = logits(room, it.eval(), IDS)
    assert_close(wrong, logits(room, stretched, IDS), DOUBLE)
    assert difference(wrong, right) > SHOWS


LATENTS = TINY.replace(
    d_head=8,
    positions="rope",
    attention_bias="none",
    kinds={"latent": {"form": LatentAttention(d_latent=6, d_rotated=4, d_value=4)}},
)


@both_rooms
def test_latent_rotated_is_a_matter_of_distances_until_what_is_new_comes_from_the_cache(room):
    it = model(room, LATENTS)
    with put_in("latent-rotated"):
        at_once = logits(room, it, IDS)
        assert_close(logits(room, it, IDS, position_ids=np.arange(6) + 2), at_once, DOUBLE)
        off = np.abs(in_steps(room, it, IDS, it.new_cache(2, 6), 3) - at_once).max(axis=(0, 2))
    assert off[:3].max() < ROUNDING
    assert (off[3:] > SHOWS).all()


@both_rooms
@pytest.mark.parametrize("values", ["keys", "own"])
def test_values_after_rotation_make_it_matter_where_the_text_begins(room, values):
    """Both rooms make the same mistake, and none where values are no keys."""
    config = GROUPED.replace(kinds={"one": {"sharing": KeyValueSharing(values=values)}})
    it, twin = model(room, config), model(SCRATCH, config)
    here, there = ({"position_ids": np.arange(6) + shift} for shift in (0, 2))
    with put_in("values-after-rotation"):
        wrong = logits(room, it, IDS, **here)
        moved = difference(wrong, logits(room, it, IDS, **there)) > SHOWS
        assert_close(wrong, logits(SCRATCH, twin, IDS, **here), DOUBLE)
    assert moved == (values == "keys")


# Those of chapter 17

ONE_STATE = LinearAttention(n_heads=1, n_key_heads=1, d_key=4, d_value=3)
STATES = TINY.replace(positions="none", attention_bias="none", kinds={"state": {"form": ONE_STATE}})


@both_rooms
def test_keys_without_norm_write_the_same_again_and_again_and_it_grows(room):
    """Each time, 1 − β|k|² is left of the error: that is between 0 and 1 if |k| is 1, and here below −1."""
    sizes = {"n_key_heads": 1, "d_key": 4, "d_value": 3, "decay": "none", "taps": 1}
    layer = room.layers.LinearAttention(4, 1, **sizes, **room.parameters())
    room.load(layer, W_k=3 * np.eye(4), W_write=np.zeros((4, 1)))
    room.load(layer.convolution_k, weight=np.ones((1, 4)))
    x, cache = np.tile([1.0, -1.0, 2.0, 0.5], (1, 20, 1)), layer.new_cache(1, 20)
    with trace() as seen, put_in("keys-without-norm"):
        layer(room.array(x), cache=cache)
    k, v = (room.numpy(seen.arrays(name)[0])[0, 0, :1] for name in "kv")
    length = (k * k).sum()
    assert length / 2 > 2  # W_write of 0 makes β 1/2
    assert_close(room.numpy(cache.keys)[0, 0], (1 - (1 - length / 2) ** 20) / length * k.T @ v, DOUBLE)


@both_rooms
def test_a_state_that_is_not_reset_makes_two_texts_one(room):
    it = model(room, STATES)
    cache, right = it.new_cache(2, 6), logits(room, it, IDS)
    for _ in range(2):
        assert_close(in_steps(room, it, IDS, cache), right, DOUBLE)
        cache.reset()
    with put_in("state-not-reset"):
        in_steps(room, it, IDS, cache)
        cache.reset()
        again = in_steps(room, it, IDS, cache)
    assert (np.abs(again - right).max(axis=(0, 2)) > SHOWS).all()
    assert_close(again, logits(room, it, np.tile(IDS, 2))[:, 6:], DOUBLE)


@both_rooms
@pytest.mark.parametrize("name", recurrence.FUNCTIONS)
def test_decay_after_write_gives_back_less_than_was_written(room, name):
    """With β = 1, a query that is equal to its key reads the value, whatever the decay."""
    given = recurrence.inputs("head")
    given |= {"q": given["k"], "strength": np.ones((2, 7, 1))}
    right, _ = recurrence.apply(room, name, given)
    assert_close(right, given["v"], DOUBLE)
    with put_in("decay-after-write"):
        wrong, _ = recurrence.apply(room, name, given)
    assert_close(wrong, np.exp(given["log_decay"]) * given["v"], DOUBLE)


@both_rooms
@recurrence.every_form
def test_decay_after_write_is_the_same_mistake_in_steps_and_in_chunks(room, delta, per):
    given = recurrence.inputs(per)
    with put_in("decay-after-write"):
        steps = recurrence.apply(SCRATCH, "recurrent_steps", given, delta=delta)
        for chunk in (1, 3, 7):
            chunks = recurrence.apply(room, "recurrent_chunks", given, delta=delta, chunk=chunk)
            for ours, theirs in zip(chunks, steps, strict=True):
                assert_close(ours, theirs, DOUBLE)


# Those of chapter 18


def with_experts(**choices):
    own = {"d_ff": 6, "experts": Experts(n_experts=8, top_k=2, **choices)}
    return TINY.replace(feedforward="swiglu", feedforward_bias=False, kinds={"sparse": own})


def routed(room, it, ids):
    """Returns which experts each layer has chosen for each token, and their weights."""
    with trace() as seen:
        logits(room, it, ids)
    return [[room.numpy(one) for one in seen.arrays(name)] for name in ("chosen", "shares")]


@both_rooms
def test_weights_that_are_not_renormalized_are_shares_of_all_experts(room):
    it = model(room, with_experts())
    for router in (block.feedforward.router for block in it.decoder.blocks):
        room.load(router, W=np.zeros((8, 8)))  # all experts are alike
    for shares in routed(room, it, IDS)[1]:
        np.testing.assert_allclose(shares, 1 / 2, rtol=1e-14)
    with put_in("weights-not-renormalized"):
        for shares in routed(room, it, IDS)[1]:
            np.testing.assert_allclose(shares, 1 / 8, rtol=1e-14)
        it = model(room, with_experts(scores="chosen"))
        for shares in routed(room, it, IDS)[1]:  # a softmax over the chosen ones needs no division
            np.testing.assert_allclose(shares.sum(axis=-1), 1, rtol=1e-14)


@both_rooms
def test_a_bias_in_the_weights_changes_nothing_before_it_has_moved(room):
    it = model(room, with_experts(scores="sigmoid", choice_bias=True))
    routers = [block.feedforward.router for block in it.decoder.blocks]
    for bias in (np.zeros(8), np.linspace(-0.1, 0.1, 8)):
        for router in routers:
            room.load(router, choice_bias=bias)
        (chosen, *_), (right, *_) = routed(room, it, IDS)
        with put_in("bias-in-the-weights"):
            (same, *_), (wrong, *_) = routed(room, it, IDS)
        np.testing.assert_array_equal(same, chosen)
        assert (difference(right, wrong) > SHOWS) == bias.any()
        np.testing.assert_allclose(wrong.sum(axis=-1), 1, rtol=1e-14)
    further = bias[chosen] - bias[chosen].mean(axis=-1, keepdims=True)
    apart = np.abs(further[..., 0]) > 0.01  # the one with the larger bias gains where scores are alike
    alike = np.abs(right[..., 0] - 1 / 2) < 0.02
    assert (np.sign((wrong - right)[..., 0]) == np.sign(further[..., 0]))[apart & alike].all()


@both_rooms
def test_a_router_in_bfloat16_gives_the_first_of_two_experts_that_are_nearly_alike(room):
    made = experts.router(room, 3, 1, renormalize=False)
    x = np.array([[1, 1 + 2**-9, 0], [1, 1 + 2**-7, 0]])
    assert experts.route(room, made, x)[0].tolist() == [[1], [1]]
    with put_in("router-in-bfloat16"):
        assert experts.route(room, made, x)[0].tolist() == [[0], [1]]
        between = 1 + np.arange(2**9) / 2**9
        rounded = {float(room.numpy(made.W(room.array(np.eye(3) * z)))[0, 0]) for z in between}
        assert len(rounded) == 2**9  # the matrix is right, and only what the router makes of it is rounded


@both_rooms
def test_a_router_in_bfloat16_changes_few_choices(room):
    it = model(room, with_experts())
    ids = np.random.default_rng(0).integers(0, 11, (200, 8))
    right, _ = routed(room, it, ids)
    with put_in("router-in-bfloat16"):
        wrong, _ = routed(room, it, ids)
    other = np.mean([np.sort(a) != np.sort(b) for a, b in zip(right, wrong, strict=True)])
    assert 0 < other < 0.03


@torch.no_grad()
def test_halves_of_gate_and_up_fit_and_are_wrong_where_columns_alternate():
    for case in ("gpt_oss", "qwen3_moe", "qwen3_next-moe"):
        theirs = published.make(case)
        given = theirs.config.to_dict() | {"architectures": [published.CASES[case].architecture]}
        config, kind = config_from_hf(given), theirs.config.model_type
        right = state_from_hf(config, theirs.state_dict(), model_type=kind)
        with put_in("gate-and-up-halved"):
            wrong = state_from_hf(config, theirs.state_dict(), model_type=kind)
        assert {name: w.shape for name, w in wrong.items()} == {name: w.shape for name, w in right.items()}
        changed = {name for name, w in right.items() if not torch.equal(w, wrong[name])}
        gates = {name for name in right if ".experts." in name and ("W_gate" in name or "W_up" in name)}
        assert changed & gates == (gates if case == "gpt_oss" else set())
        assert bool(changed - gates) == (case == "qwen3_next-moe")
        if case == "gpt_oss":
            F = config.layer(0).feedforward.d_ff
            for name in (name for name in gates if "W_gate" in name):
                up = right[name.replace("W_gate", "W_up")]
                turns = torch.stack([right[name], up], dim=-1).flatten(-2)
                assert torch.equal(wrong[name], turns[..., :F])
