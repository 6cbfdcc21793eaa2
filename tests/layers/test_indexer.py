"""Tests the indexer: what it chooses, how it learns, and that nothing leads from one loss into the other."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close
from huggingface.models import all_in_double
from ledger import TRANSFORMERS, largest_difference, record

from glassformer.auxiliary import auxiliary_losses
from glassformer.trace import trace

from .rooms import NN, SCRATCH, both_rooms
from .test_gradients import check
from .test_latent import (
    NAMES,
    SIZES,
    causal_and,
    drawn,
    in_our_room,
    run,
    theirs_in_double,
)

QUERY, HEADS, K, TOP = 6, 16, 8, 3
X = np.random.default_rng(8).normal(size=(2, 9, 12))
RIGHT = np.arange(9) < np.array([[9], [6]])
PADDING = {"full": None, "right": RIGHT[:, None, None], "left": RIGHT[:, None, None, ::-1].copy()}


def indexer(room, seed=1, **options):
    rotation = room.layers.RotaryPositions(K, base=50.0, share=0.5)
    options = {"n_heads": HEADS, "d_head": K, "top_k": TOP, "position_encoding": rotation} | options
    return drawn(room, room.layers.Indexer(QUERY, 12, **options, **room.parameters()), seed)


def build(room, seed=0, warm_up=False, borrows_choice=False, **options):
    """Returns latent attention with an indexer, or with the choice of another."""
    options = SIZES | {"d_query_latent": QUERY, "causal": True} | options
    chooses = {"borrows_choice": True} if borrows_choice else {"indexer": indexer(room)}
    rotation = room.layers.RotaryPositions(SIZES["d_rotated"], base=50.0)
    layer = room.layers.LatentAttention(**options, **chooses, position_encoding=rotation, **room.parameters())
    if not borrows_choice:
        layer.indexer.warm_up = warm_up
    return drawn(room, layer, seed)


def seen_by(layer, x, room, **given):
    with trace() as seen:
        run(room, layer, x, **given)
    return {name: room.numpy(seen.arrays(name)[0]) for name in ("chosen", "weights")}


def scores_by_definition(layer, query, x):
    """Computes DeepSeek-V3.2's equation 1, key by key."""
    W = layer.named_parameters()
    scores = np.zeros((len(x), len(x)))

    def turned(z, position):
        z = z.copy()
        for i in range(2):  # of 8 features, the first 4 turn, in two pairs
            pair = (z[..., i] + 1j * z[..., i + 2]) * np.exp(1j * position * 50.0 ** (-2 * i / 4))
            z[..., i], z[..., i + 2] = pair.real, pair.imag
        return z

    k = x @ W["W_k.weight"]
    k = (k - k.mean(1, keepdims=True)) / np.sqrt(k.var(1, keepdims=True) + 1e-6)
    k = k * W["norm_k.weight"] + W["norm_k.bias"]
    for t in range(len(x)):
        w = x[t] @ W["W_w.weight"] / HEADS**0.5
        q = turned((query[t] @ W["W_q.weight"]).reshape(HEADS, K), t)
        for s in range(len(x)):
            scores[t, s] = w @ np.maximum(q @ turned(k[s], s) / K**0.5, 0.0)
    return scores


@both_rooms
def test_scores_are_the_equation_of_the_paper(room):
    query, x = np.random.default_rng(0).normal(size=(9, QUERY)), X[0]
    ours = indexer(room)
    with torch.no_grad():
        keys = ours.keys(room.array(x))
        scores = room.numpy(ours(room.array(query), room.array(x), keys))
    assert_close(scores[0], scores_by_definition(indexer(SCRATCH), query, x), DOUBLE)


@both_rooms
def test_the_largest_scores_are_chosen_and_of_equal_ones_the_earlier(room):
    choose = indexer(room).choose
    scores = np.array(
        [[5.0, 1, 1, 1, 1], [0, 0, 0, 0, 9], [-1, -2, -3, -4, -5], [1, 2, 3, 4, 5], [7, 7, 7, 7, 7]]
    )
    visible = np.array(
        [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 1, 1, 0], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]], bool
    )
    chosen = np.array(
        [[1, 1, 1, 0, 0], [1, 1, 0, 0, 1], [0, 0, 1, 1, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]], bool
    )
    got = choose(room.array(scores[None]), room.array(visible))
    np.testing.assert_array_equal(room.numpy(got), chosen[None])
    few = choose(room.array(scores[None, :, :TOP]), room.array(visible[:, :TOP]))
    np.testing.assert_array_equal(room.numpy(few), visible[None, :, :TOP])


@both_rooms
@pytest.mark.parametrize("padding", PADDING)
def test_attention_reads_what_is_chosen_and_nothing_else(room, padding):
    mask, layer, twin = PADDING[padding], build(room), build(SCRATCH)
    seen = seen_by(layer, X, room, mask=mask)
    visible = np.tri(9, dtype=bool) & (True if mask is None else mask)
    visible = np.broadcast_to(visible, (2, 1, 9, 9))
    query = twin.norm_q(twin.W_q_down(X))
    for b in range(2):
        scores = scores_by_definition(twin.indexer, query[b], X[b])
        for t in range(9):
            keys = np.flatnonzero(visible[b, 0, t])
            best = sorted(keys[np.argsort(-scores[t, keys])][:TOP])
            assert list(np.flatnonzero(seen["chosen"][b, 0, t])) == best
    assert not seen["weights"][~np.broadcast_to(seen["chosen"], seen["weights"].shape)].any()
    dense = build(SCRATCH)
    dense.indexer = None
    for absorbed in (False, True):
        expected = run(SCRATCH, dense, X, mask=seen["chosen"])
        assert_close(run(room, layer, X, mask=mask, absorbed=absorbed), expected, DOUBLE)
    assert np.abs(expected - run(SCRATCH, dense, X, mask=mask)).max() > 0.1 * np.abs(expected).max()
    layer.indexer.warm_up = True
    assert_close(run(room, layer, X, mask=mask), run(SCRATCH, dense, X, mask=mask), DOUBLE)
    assert (seen_by(layer, X, room, mask=mask)["chosen"] == visible).all()


@both_rooms
@pytest.mark.parametrize("warm_up", [False, True])
def test_a_layer_that_borrows_reads_what_the_last_one_chose(room, warm_up):
    lender, borrower, shared = build(room, warm_up=warm_up), build(room, borrows_choice=True, seed=2), {}
    run(room, lender, X, shared=shared)
    chosen = seen_by(lender, X, room)["chosen"]
    np.testing.assert_array_equal(room.numpy(shared["chosen"]), chosen)
    got = run(room, borrower, X, shared=shared)
    assert_close(got, run(room, borrower, X, shared={"chosen": room.array(chosen)}), DOUBLE)
    dense = build(SCRATCH, seed=2)
    dense.load_state_dict(
        dense.state_dict() | {n: room.numpy(w) for n, w in dict(borrower.state_dict()).items()}
    )
    dense.indexer = None
    assert_close(got, run(SCRATCH, dense, X, mask=chosen), DOUBLE)
    mask = np.arange(9) != 1
    assert_close(
        run(room, borrower, X, mask=mask, shared=shared), run(SCRATCH, dense, X, mask=mask & chosen), DOUBLE
    )


@both_rooms
@pytest.mark.parametrize("seed", range(3))
def test_reading_in_steps_going_back_and_reordering_is_reading_at_once(room, seed):
    """Also for a second layer, which borrows the choice of the first."""
    layer, borrower, rng = (
        build(room, seed=seed),
        build(room, borrows_choice=True),
        np.random.default_rng(seed),
    )
    caches, x, real, marked = (
        [one.new_cache(3, 12) for one in (layer, borrower)],
        np.zeros((3, 0, 12)),
        np.ones((3, 0), bool),
        0,
    )
    assert caches[0].nbytes == 3 * 12 * (7 + 4 + K) * 8
    assert caches[1].nbytes == 3 * 12 * (7 + 4) * 8

    def both(x, mask, caches=(None, None)):
        shared = {}
        return [
            run(room, one, x, cache, mask=mask, shared=shared)
            for one, cache in zip((layer, borrower), caches, strict=True)
        ]

    for _ in range(8):
        n_new = int(rng.integers(1, 5))
        if x.shape[1] + n_new > 12:
            for cache in caches:
                cache.rewind(marked)
            x, real = x[:, :marked], real[:, :marked]
        marked = int(rng.integers(0, min(8, x.shape[1]) + 1))
        x = np.concatenate([x, rng.normal(size=(3, n_new, 12))], axis=1)
        real = np.concatenate([real, rng.random((3, n_new)) < 0.8], axis=1)
        real[:, -n_new] = True
        got = both(x[:, -n_new:], real[:, None, None], caches)
        for one, other in zip(got, both(x, real[:, None, None]), strict=True):
            assert_close(one, other[:, -n_new:], DOUBLE)
        rows = rng.integers(0, 3, 3)
        for cache in caches:
            cache.reorder(room.array(rows))
        x, real = x[rows], real[rows]
    for cache in caches:
        cache.reset()
    assert_close(both(x[:, :5], None, caches)[0], both(x[:, :5], None)[0], DOUBLE)


# How it learns


def divergence_by_definition(layer, x, mask):
    """Computes DeepSeek-V3.2's equations 3 and 4 with what the layer shows, query by query."""
    seen = seen_by(layer, x, SCRATCH, mask=mask)
    query = layer.norm_q(layer.W_q_down(x))
    total = 0.0
    for b in range(2):
        scores = scores_by_definition(layer.indexer, query[b], x[b])
        for t in range(9):
            keys = np.flatnonzero(seen["chosen"][b, 0, t])
            if len(keys):
                p = seen["weights"][b, :, t, keys].mean(axis=-1)
                q = np.exp(scores[t, keys]) / np.exp(scores[t, keys]).sum()
                total += (p * np.log(p / q)).sum()
    return total / 18


@both_rooms
@pytest.mark.parametrize("warm_up", [False, True])
@pytest.mark.parametrize("padding", PADDING)
def test_the_term_is_the_divergence_from_the_attention(room, warm_up, padding):
    mask = PADDING[padding]
    layer, expected = build(room, warm_up=warm_up), build(SCRATCH, warm_up=warm_up)
    with auxiliary_losses() as terms:
        run(room, layer, X, mask=mask)
    [(name, term)] = terms
    assert name == "indexer"
    assert_close(room.numpy(term), divergence_by_definition(expected, X, mask), DOUBLE)
    assert term > 0.05


def gradients(room, layer, x, grad, mask=None, collect=True):
    """Returns the output, and the gradients of ⟨grad, output⟩ plus, if collected, the term."""
    with auxiliary_losses() if collect else nullcontext([]) as terms:
        if room is SCRATCH:
            layer.zero_gradients()
            saved = []
            y = layer(x, mask=mask, saved=saved)
            grad_x, _, _ = layer.backward(grad, saved)
            assert saved == []
            return y, {"x": grad_x} | layer.gradients()
        x = torch.from_numpy(x).requires_grad_()
        y = layer(x, mask=None if mask is None else torch.from_numpy(mask))
        loss = (y * torch.from_numpy(grad)).sum() + sum(term for _, term in terms)
    layer.zero_grad()
    loss.backward()
    weights = {n: w.grad.numpy() for n, w in layer.named_parameters() if w.grad is not None}
    return y.detach().numpy(), {"x": x.grad.numpy()} | weights


@pytest.mark.parametrize("warm_up", [False, True])
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("collect", [False, True])
def test_gradients_are_those_of_autograd(warm_up, padding, collect):
    grad = np.random.default_rng(5).normal(size=X.shape)
    found = [
        gradients(room, build(room, warm_up=warm_up), X, grad, PADDING[padding], collect)
        for room in (SCRATCH, NN)
    ]
    assert_close(found[0][0], found[1][0], DOUBLE)
    assert set(found[0][1]) == set(found[1][1])
    for name, gradient in found[0][1].items():
        assert_close(gradient, found[1][1][name], DOUBLE, what=name)
    of_indexer = {name for name in found[0][1] if name.startswith("indexer")}
    assert len(of_indexer) == (5 if collect else 0)


@both_rooms
def test_neither_loss_reaches_the_other(room):
    """The term moves the indexer's weights alone, and the output moves all others alone."""
    grad = np.random.default_rng(5).normal(size=X.shape)
    _, both = gradients(room, build(room), X, grad)
    _, output = gradients(room, build(room), X, grad, collect=False)
    _, term = gradients(room, build(room), X, 0 * grad)
    for name, gradient in both.items():
        if name.startswith("indexer"):
            assert name not in output
            np.testing.assert_array_equal(gradient, term[name])
            assert np.abs(gradient).max() > 1e-4
        else:
            assert_close(gradient, output[name], DOUBLE, what=name)
            assert not term.get(name, np.zeros(1)).any()


@pytest.mark.parametrize("warm_up", [False, True])
def test_the_slope_of_the_term(warm_up):
    """Compares it with finite differences; where the choice stays the same, the attention is a constant."""
    layer = build(SCRATCH, warm_up=warm_up)
    mask = PADDING["left"]
    _, found = gradients(SCRATCH, layer, X, 0 * X, mask)
    weights = {n: w for n, w in layer.named_parameters().items() if n.startswith("indexer")}
    chosen = seen_by(layer, X, SCRATCH, mask=mask)["chosen"]

    def term():
        with auxiliary_losses() as terms:
            assert (seen_by(layer, X, SCRATCH, mask=mask)["chosen"] == chosen).all()
        return terms[0][1]

    check(term, weights, {name: found[name] for name in weights}, np.random.default_rng(0))


def test_learning_makes_the_choice_that_of_the_attention():
    """Of the attention's weight, what is chosen holds more and more."""
    layer = build(NN, warm_up=True)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(8, 9, 12)))
    optimizer, measured = torch.optim.Adam(layer.indexer.parameters(), 0.02), []
    for _ in range(30):
        with auxiliary_losses() as terms:
            layer(x)
        optimizer.zero_grad()
        terms[0][1].backward()
        optimizer.step()
        measured.append(float(terms[0][1].detach()))
    assert measured[-1] < 0.5 * measured[0]


# What is refused


@both_rooms
def test_what_does_not_fit_is_refused(room):
    L = room.layers
    for message, wrong in {
        "top_k=0 must be at least 1": {"top_k": 0},
        "n_heads=0 must be at least 1": {"n_heads": 0},
        "position_encoding.d_head=6 does not match d_head=8": {"position_encoding": L.RotaryPositions(6)},
        "position_encoding, a AlibiPositions, acts on the scores": {
            "position_encoding": L.AlibiPositions(HEADS)
        },
    }.items():
        with pytest.raises(ValueError, match=message):
            indexer(room, **wrong)
    given = {"d_query_latent": QUERY, "indexer": indexer(room)}
    for message, wrong in {
        "an indexer needs d_query_latent": {"d_query_latent": None},
        "either has an indexer or borrows_choice": {"borrows_choice": True},
        "indexer.d_query=6 does not match d_query_latent=5": {"d_query_latent": 5},
        "indexer.d_model=12 does not match d_model=13": {"d_model": 13},
    }.items():
        with pytest.raises(ValueError, match=message):
            L.LatentAttention(**SIZES | given | wrong, **room.parameters())
    one = indexer(room)
    with pytest.raises(ValueError, match=r"query.shape\[-1\]=12 does not match d_query=6"):
        one(room.array(X), room.array(X), one.keys(room.array(X)))


# The library's

LIBRARY = {
    "DeepSeek-V3.2": ("deepseek_v32", "half", {}),
    "GLM-5": ("glm_moe_dsa", "interleaved", {"indexer_types": ["full", "shared"]}),
}
SPARSE = {"q_lora_rank": 8, "index_n_heads": 16, "index_head_dim": 10, "index_topk": 9}
OF_INDEXER = {
    "indexer.W_q": "indexer.wq_b",
    "indexer.W_k": "indexer.wk",
    "indexer.norm_k": "indexer.k_norm",
    "indexer.W_w": "indexer.weights_proj",
}


def indexer_of(room, layout, rotation):
    """Returns an indexer of the library's sizes, of whose features 6 of 10 are rotated."""
    L = room.layers
    turns = L.RotaryPositions(10, **rotation | {"share": 6 / 10, "layout": layout})
    options = {"generator": None, "dtype": room.dtype("float64")}
    return L.Indexer(8, 24, n_heads=16, d_head=10, top_k=9, position_encoding=turns, **options)


@pytest.mark.parametrize("case", LIBRARY)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("padded", [False, True])
def test_the_library(case, seed, padded):
    """All keys that the library chooses are compared; then, for GLM-5, a layer that borrows the choice."""
    family, layout, settings = LIBRARY[case]
    T = 33
    seen, added = causal_and(np.arange(T) >= np.array([[0], [5]]) if padded else np.ones((2, T), bool))
    x = np.random.default_rng(seed).normal(size=(2, T, 24))
    with all_in_double(), torch.no_grad():
        theirs, rotary = theirs_in_double(family, seed=seed, **SPARSE, **settings)
        x_torch = torch.from_numpy(x)
        turns = rotary(x_torch, torch.arange(T)[None])
        expected = [theirs(x_torch, turns, added)[0].numpy()]
        query = theirs.q_a_layernorm(theirs.q_a_proj(x_torch))
        best = theirs.indexer(x_torch, query, turns, added[:, 0], None).long()
        if case == "GLM-5":
            second, _ = theirs_in_double(family, 1, seed=seed + 7, **SPARSE, **settings)
            expected.append(second(x_torch, turns, added, prev_topk_indices=best)[0].numpy())
    wanted = torch.zeros(2, T, T, dtype=torch.bool).scatter(-1, best, True).numpy() & seen[:, 0]
    for room, name in ((SCRATCH, "scratch"), (NN, "nn")):
        make = partial(indexer_of, room, layout)
        ours = [in_our_room(room, theirs, rotary, "interleaved", NAMES | OF_INDEXER, indexer=make)]
        if case == "GLM-5":
            ours.append(in_our_room(room, second, rotary, "interleaved", borrows_choice=lambda _: True))
        assert (seen_by(ours[0], x, room, mask=seen)["chosen"][:, 0] != wanted).sum() == 0
        for absorbed in (False, True):
            shared = {}
            for layer, output in zip(ours, expected, strict=True):
                got = run(room, layer, x, mask=seen, absorbed=absorbed, shared=shared)
                record(
                    f"latent attention with an indexer, {case}",
                    TRANSFORMERS,
                    "float64",
                    name,
                    largest_difference(got, output) / np.abs(output).max(),
                    1e-12,
                    section="Attention and positions",
                )
