"""Tests attention in pieces: the numbers of attention in one piece, both ways, in memory linear in the text."""

import numpy as np
import pytest
import torch
from close import assert_close
from ledger import TORCH, largest_difference, record
from memory import peak
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer import nn, scratch
from glassformer.scratch import pieces

from .rooms import SCRATCH, both_rooms

DOUBLE, SINGLE = 1e-12, 2e-6  # of the largest number; 1.5e-15 and 8e-7 were measured

PADDED = np.array([[0, 0, 1, 1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0, 0]], bool)[:, None, None]
A_QUERY_SEES_NOTHING = np.random.default_rng(7).random((2, 3, 7, 9)) < 0.4
A_QUERY_SEES_NOTHING[0, :, 2] = A_QUERY_SEES_NOTHING[1, 1, 5] = A_QUERY_SEES_NOTHING[:, :, :, 4] = False
# Sizes are B, H, T, S, K and U: a size of B or H that is None means that there is no such axis
CASES = {
    "one piece": {"sizes": (2, 3, 5, 5, 4, 4), "piece": 128},
    "pieces that divide": {"sizes": (2, 3, 6, 8, 4, 4), "piece": 2},
    "pieces that do not": {"sizes": (2, 3, 7, 10, 4, 4), "piece": 3},
    "one by one": {"sizes": (1, 1, 3, 4, 2, 2), "piece": 1},
    "no axis but two": {"sizes": (None, None, 7, 9, 4, 4), "piece": 3},
    "more queries than keys": {"sizes": (None, 2, 9, 4, 3, 3), "piece": 2},
    "a value wider than a key": {"sizes": (2, 3, 7, 9, 4, 6), "piece": 3, "causal": True},
    "a value narrower, and a scale": {"sizes": (2, 3, 7, 9, 4, 1), "piece": 4, "scale": 1.3},
    "causal": {"sizes": (2, 3, 7, 7, 4, 4), "piece": 3, "causal": True},
    "causal, going on": {"sizes": (2, 3, 4, 11, 4, 4), "piece": 3, "causal": True},
    "causal, one query": {"sizes": (2, 3, 1, 9, 4, 4), "piece": 2, "causal": True},
    "window": {"sizes": (2, 3, 11, 11, 4, 4), "piece": 3, "causal": True, "window": 4},
    "window of one": {"sizes": (2, 3, 6, 8, 4, 4), "piece": 4, "causal": True, "window": 1},
    "window larger than the text": {"sizes": (None, 3, 6, 8, 4, 4), "piece": 4, "causal": True, "window": 50},
    "window, the future in view": {"sizes": (2, 3, 7, 12, 4, 4), "piece": 2, "window": 3},
    "padding": {"sizes": (2, 3, 7, 9, 4, 4), "piece": 4, "mask": PADDED},
    "padding, causal": {"sizes": (2, 3, 9, 9, 4, 4), "piece": 2, "causal": True, "mask": PADDED},
    "one mask for all": {"sizes": (2, 3, 7, 9, 4, 4), "piece": 4, "mask": A_QUERY_SEES_NOTHING[1, 2]},
    "keys alone": {"sizes": (2, 3, 7, 9, 4, 4), "piece": 4, "mask": PADDED[0, 0, 0]},
    "queries that see nothing": {"sizes": (2, 3, 7, 9, 4, 4), "piece": 3, "mask": A_QUERY_SEES_NOTHING},
    "all that, in a window": {
        "sizes": (2, 3, 7, 9, 4, 5),
        "piece": 3,
        "causal": True,
        "window": 5,
        "mask": A_QUERY_SEES_NOTHING,
    },
    "sinks": {"sizes": (2, 3, 7, 9, 4, 4), "piece": 3, "causal": True, "sinks": True},
    "sinks, and nothing else": {
        "sizes": (2, 3, 7, 9, 4, 4),
        "piece": 3,
        "window": 4,
        "mask": A_QUERY_SEES_NOTHING,
        "sinks": True,
    },
    # exp overflows from 710 on
    "huge scores": {"sizes": (2, 3, 9, 9, 4, 4), "piece": 2, "causal": True, "large": 5e3, "bound": 1e-10},
    "huge scores, sinks": {
        "sizes": (2, 3, 9, 9, 4, 4),
        "piece": 2,
        "sinks": True,
        "large": 5e3,
        "bound": 1e-10,
    },
}
IN_FLOAT32 = [case for case in CASES if "huge" not in case]  # where scores of 1e4 are 1e-3 apart


def drawn(case, dtype="float64"):
    """Returns the inputs by name, the gradients of the output and of lse, the options, and how exact it must be."""
    options = {"large": 1.0, "sinks": False, "bound": DOUBLE, **CASES[case]}
    large, bound, has_sinks = (options.pop(name) for name in ("large", "bound", "sinks"))
    B, H, T, S, K, U = options.pop("sizes")
    batch = tuple(size for size in (B, H) if size is not None)
    rng = np.random.default_rng(0)
    inputs = {
        "q": rng.normal(size=(*batch, T, K)) * large,
        "k": rng.normal(size=(*batch, S, K)),
        "v": rng.normal(size=(*batch, S, U)),
    }
    if has_sinks:
        inputs["sinks"] = rng.normal(size=H) * large
    grads = rng.normal(size=(*batch, T, U)), rng.normal(size=(*batch, T))
    return {n: x.astype(dtype) for n, x in inputs.items()}, [g.astype(dtype) for g in grads], options, bound


def whole_mask(T, S, *, causal=False, window=None, mask=None, **_):
    """Returns what each query may see, (..., T, S), written out position by position."""
    seen = np.ones((T, S), bool) if mask is None else np.broadcast_to(mask, (*mask.shape[:-2], T, S)).copy()
    for t in range(T):
        for s in range(S):
            ago = S - T + t - s
            if (causal and ago < 0) or (window is not None and ago >= window):
                seen[..., t, s] = False
    return seen


def in_one_piece(inputs, grads, options):
    """Returns output, lse and gradients by autograd in float64: one more key is the sink, whose value is zeros."""
    x = {n: torch.from_numpy(a.astype("float64")).requires_grad_() for n, a in inputs.items()}
    T, S, K = x["q"].shape[-2], x["k"].shape[-2], x["q"].shape[-1]
    scores = x["q"] @ x["k"].mT * (options.get("scale") or K**-0.5)
    scores = scores.masked_fill(~torch.from_numpy(whole_mask(T, S, **options)), -torch.inf)
    values = x["v"]
    if "sinks" in x:
        scores = torch.cat([scores, x["sinks"][:, None, None].expand(*scores.shape[:-1], 1)], dim=-1)
        values = torch.cat([values, torch.zeros_like(values[..., :1, :])], dim=-2)
    nothing = (scores == -torch.inf).all(dim=-1, keepdim=True)
    weights = scores.masked_fill(nothing, 0).softmax(dim=-1).masked_fill(nothing, 0)
    lse = torch.logsumexp(scores.masked_fill(nothing, 0), dim=-1).masked_fill(nothing[..., 0], -torch.inf)
    mixed = weights @ values
    kept = torch.where(lse == -torch.inf, 0, lse)  # a gradient of lse means nothing where it is −inf
    (mixed * torch.from_numpy(grads[0])).sum().add((kept * torch.from_numpy(grads[1])).sum()).backward()
    return mixed.detach().numpy(), lse.detach().numpy(), {n: a.grad.numpy() for n, a in x.items()}


def in_pieces(room, inputs, grads, options):
    """Returns the same of a room."""
    x = {n: room.array(a) for n, a in inputs.items()}
    given = {n: room.array(o) if n == "mask" else o for n, o in options.items()}
    if room.is_torch:
        for one in x.values():
            one.requires_grad_()
    mixed, lse = room.layers.attention_in_pieces(**x, **given)
    if room.is_torch:
        torch.autograd.backward([mixed, lse], [torch.from_numpy(g) for g in grads])
        gradients = {n: a.grad.numpy() for n, a in x.items()}
    else:
        sinks = {"sinks": x.pop("sinks")} if "sinks" in x else {}
        kept = [a.copy() for a in (*x.values(), *grads)]
        gave = scratch.attention_in_pieces_backward(
            grads[0], *x.values(), mixed, lse, **given, **sinks, grad_lse=grads[1]
        )
        for a, before in zip((*x.values(), *grads), kept, strict=True):
            np.testing.assert_array_equal(a, before)  # what was handed in is the caller's
        gradients = dict(zip(inputs, gave, strict=True))
    return room.numpy(mixed), room.numpy(lse), gradients


@both_rooms
@pytest.mark.parametrize(
    ("case", "dtype"), [*((one, "float64") for one in CASES), *((one, "float32") for one in IN_FLOAT32)]
)
def test_pieces_give_what_the_whole_gives(room, case, dtype):
    inputs, grads, options, bound = drawn(case, dtype)
    bound = SINGLE if dtype == "float32" else bound
    expected = in_one_piece(inputs, [g.astype("float64") for g in grads], options)
    found = in_pieces(room, inputs, grads, options)
    for ours, theirs in zip(found[:2], expected[:2], strict=True):
        assert ours.dtype == dtype
        np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
        assert_close(ours[np.isfinite(ours)], theirs[np.isfinite(theirs)], bound)
    for name, gradient in expected[2].items():
        assert found[2][name].dtype == dtype
        assert_close(found[2][name], gradient, bound, what=name)


@both_rooms
@pytest.mark.parametrize("case", [n for n, c in CASES.items() if "sinks" not in c])
def test_pieces_and_torchs_own_kernel(room, case):
    """Independent: PyTorch's attention and its gradients, with a mask of our own."""
    inputs, (grad, _), options, bound = drawn(case)
    T, S = inputs["q"].shape[-2], inputs["k"].shape[-2]
    seen = torch.from_numpy(whole_mask(T, S, **options))
    x = [torch.from_numpy(a.copy()).requires_grad_() for a in inputs.values()]
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(*x, attn_mask=seen, scale=options.get("scale"))
    expected.backward(torch.from_numpy(grad))
    found = in_pieces(room, inputs, (grad, np.zeros(grad.shape[:-1])), options)
    pairs = [(found[0], expected.detach()), *zip(found[2].values(), [a.grad for a in x], strict=True)]
    largest = max(float(theirs.abs().max()) for _, theirs in pairs)  # a softmax of one key has no gradient
    for ours, theirs in pairs:
        difference = largest_difference(ours, theirs) / largest
        assert difference <= bound
        if bound == DOUBLE:
            record(
                "attention in pieces, forward and backward",
                TORCH,
                "float64",
                "nn" if room.is_torch else "scratch",
                difference,
                DOUBLE,
                section="Attention and positions",
            )


@both_rooms
def test_the_direct_form_of_the_same_room(room):
    """Also that the mask of rows which see nothing gives zeros in both."""
    inputs, _, options, _ = drawn("queries that see nothing")
    x = [room.array(a) for a in inputs.values()]
    mask = room.array(options["mask"])
    direct, _ = room.layers.scaled_dot_product_attention(*x, mask=mask)
    mixed, lse = room.layers.attention_in_pieces(*x, mask=mask, piece=2)
    assert_close(room.numpy(mixed), room.numpy(direct), DOUBLE)
    nothing = ~options["mask"].any(axis=-1)
    assert nothing.any()
    np.testing.assert_array_equal(room.numpy(mixed)[nothing], 0)
    np.testing.assert_array_equal(room.numpy(lse) == -np.inf, nothing)


@both_rooms
def test_large_scores_would_overflow(room):
    """By hand: of scores 1e4 and −1e4, in either order and in pieces of one, the value of the first is all."""
    q, v = room.array([[1.0]]), room.array([[3.0], [5.0]])
    for k, expected in (([[1e4], [-1e4]], 3), ([[-1e4], [1e4]], 5), ([[1e4], [1e4]], 4)):
        mixed, lse = room.layers.attention_in_pieces(q, room.array(k), v, piece=1)
        assert room.numpy(mixed).item() == expected
        assert room.numpy(lse).item() == pytest.approx(1e4 + (np.log(2) if expected == 4 else 0), rel=1e-15)


@both_rooms
def test_a_sink_takes_its_share_and_gives_nothing(room):
    """Scores of 0 and ln 2 and a sink of 0: the weights are 1/4 and 2/4, and the last quarter is nobody's."""
    q, k = room.array([[[1.0]]]), room.array([[[0.0], [np.log(2)]]])
    v, sinks = room.array([[[8.0], [4.0]]]), room.array([0.0])
    mixed, lse = room.layers.attention_in_pieces(q, k, v, sinks=sinks, piece=1)
    assert room.numpy(mixed).item() == pytest.approx(4, rel=1e-15)
    assert room.numpy(lse).item() == pytest.approx(np.log(4), rel=1e-15)


@pytest.mark.parametrize("case", ["window", "queries that see nothing", "sinks, and nothing else"])
def test_gradcheck(case):
    inputs, _, options, _ = drawn(case)
    names = list(inputs)
    given = {n: torch.from_numpy(o) if n == "mask" else o for n, o in options.items()}

    def attend(*x):
        mixed, lse = nn.attention_in_pieces(**dict(zip(names, x, strict=True)), **given)
        return mixed, torch.where(lse == -torch.inf, 0, lse)

    x = [torch.from_numpy(a).requires_grad_() for a in inputs.values()]
    assert torch.autograd.gradcheck(attend, x, fast_mode=True)


def test_half_precision_is_summed_in_float32():
    inputs, grads, options, _ = drawn("causal, going on")
    inputs = {n: torch.from_numpy(a).bfloat16() for n, a in inputs.items()}
    exact = in_one_piece(
        {n: a.double().numpy() for n, a in inputs.items()}, [grads[0], 0 * grads[1]], options
    )
    x = [a.requires_grad_() for a in inputs.values()]
    mixed, lse = nn.attention_in_pieces(*x, **options)
    mixed.backward(torch.from_numpy(grads[0]).bfloat16())
    assert (mixed.dtype, lse.dtype, x[0].grad.dtype) == (torch.bfloat16, torch.float32, torch.bfloat16)
    assert_close(lse.detach(), exact[1], SINGLE)
    for found, expected in zip(
        (mixed.detach(), *(a.grad for a in x)), (exact[0], *exact[2].values()), strict=True
    ):
        assert_close(found.float(), expected, 2**-7)  # of the output and of the gradient that comes in


# What is skipped


@both_rooms
@pytest.mark.parametrize(
    ("options", "pairs"),
    [
        ({}, 20 * 20),
        ({"causal": True}, 4 * (4 + 8 + 12 + 16 + 20)),
        ({"causal": True, "window": 3}, 4 * (4 + 4 * 6)),
        ({"window": 3}, 4 * (20 + 18 + 14 + 10 + 6)),
    ],
    ids=["all", "causal", "window", "window alone"],
)
def test_what_is_hidden_wholly_is_not_computed(room, options, pairs):
    """Counts the pairs of positions in all pieces of 4, of 20 queries and keys."""
    x = room.array(np.zeros((20, 2)))
    module = pieces if room is SCRATCH else nn.pieces
    options = {"causal": False, "window": None, "mask": None, **options}
    rows = module._cut(0, 20, 4)
    found = [
        (one.stop - one.start) * (keys.stop - keys.start)
        for one in rows
        for keys, _ in module._seen(one, x, x, 4, *options.values())
    ]
    assert sum(found) == pairs
    assert max(found) <= 16


@both_rooms
def test_what_is_not_in_sight_is_not_even_read(room):
    """A NaN would reach everyone who reads its value, even with a weight of 0."""
    q, k, v = (np.random.default_rng(i).normal(size=(12, 4)) for i in range(3))
    expected = room.layers.attention_in_pieces(*map(room.array, (q, k, v)), causal=True, window=2, piece=3)[0]
    v[:2] = np.nan  # positions 3 to 5 see 2 and later
    found = room.layers.attention_in_pieces(*map(room.array, (q, k, v)), causal=True, window=2, piece=3)[0]
    np.testing.assert_array_equal(room.numpy(found)[3:], room.numpy(expected)[3:])


# Merging


@both_rooms
@pytest.mark.parametrize("cut", [1, 4, 8])
@pytest.mark.parametrize("sinks", [False, True])
def test_two_softmaxes_merge_into_one(room, cut, sinks):
    """Some queries see keys of one half only, and some of none. Gradients go through both."""
    inputs, grads, options, _ = drawn("sinks, and nothing else" if sinks else "queries that see nothing")
    options.pop("window", None)
    expected = in_one_piece(inputs, grads, options)
    mask = room.array(options.pop("mask"))
    x = {n: room.array(a) for n, a in inputs.items()}
    if room.is_torch:
        for one in x.values():
            one.requires_grad_()

    def half(keys, **more):
        part = {"q": x["q"], "k": x["k"][..., keys, :], "v": x["v"][..., keys, :], **more}
        return room.layers.attention_in_pieces(**part, mask=mask[..., keys], **options)

    more = {"sinks": x["sinks"]} if sinks else {}
    mixed, lse = room.layers.merge(*half(slice(None, cut), **more), *half(slice(cut, None)))
    assert_close(room.numpy(mixed), expected[0], DOUBLE)
    lse_found = room.numpy(lse)
    np.testing.assert_array_equal(lse_found == -np.inf, expected[1] == -np.inf)
    assert_close(lse_found[lse_found > -np.inf], expected[1][expected[1] > -np.inf], DOUBLE)
    if room.is_torch:
        torch.autograd.backward([mixed, lse], [torch.from_numpy(g) for g in grads])
        for name, gradient in expected[2].items():
            assert_close(x[name].grad, gradient, DOUBLE, what=name)


@both_rooms
def test_merging_in_any_order_and_with_huge_sums(room):
    rng = np.random.default_rng(0)
    a, b, c = ((room.array(rng.normal(size=(5, 2))), room.array(rng.normal(size=5) * 1e4)) for _ in range(3))
    merge = room.layers.merge
    left, right = merge(*merge(*a, *b), *c), merge(*c, *merge(*b, *a))
    for one, other in zip(left, right, strict=True):
        assert np.isfinite(room.numpy(one)).all()
        assert_close(room.numpy(one), room.numpy(other), DOUBLE)


# Memory


def texts(T, K=8):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(T, K)).astype("float32") for _ in range(4)]


def both_ways(T):
    q, k, v, grad = texts(T)
    mixed, lse = scratch.attention_in_pieces(q, k, v, piece=64, causal=True)
    scratch.attention_in_pieces_backward(grad, q, k, v, mixed, lse, piece=64, causal=True)


def test_memory_grows_with_the_text_and_not_with_its_square():
    q, k, v, _ = texts(1024)
    direct = peak(lambda: scratch.scaled_dot_product_attention(q, k, v, causal=True))
    assert direct >= 1024 * 1024 * 4
    short = peak(lambda: both_ways(1024), at_most=direct / 4)
    assert short <= direct / 4
    most = min(4.5 * short, direct / 4)  # for a text four times as long
    assert peak(lambda: both_ways(4096), at_most=most) <= most


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that any operation returns."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, torch.Tensor):
                self.numbers = max(self.numbers, one.numel())
        return found


def test_no_tensor_of_all_pairs_is_made_or_kept_for_training():
    T, kept = 256, []
    q, k, v, grad = map(torch.from_numpy, texts(T))
    x = [one.requires_grad_() for one in (q, k, v)]

    def keep(tensor):
        kept.append(tensor.numel())
        return tensor

    for attend, least, most in (
        (lambda: nn.attention_in_pieces(*x, piece=32, causal=True)[0], 0, T * 8),
        (lambda: nn.scaled_dot_product_attention(*x, causal=True)[0], T * T, T * T),
    ):
        kept.clear()
        with Largest() as largest, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            attend().backward(grad)
        assert least <= largest.numbers <= most
        assert least <= max(kept) <= most


# Arguments


@both_rooms
@pytest.mark.parametrize(
    ("changes", "error", "begins"),
    [
        ({"v": (6, 4)}, ValueError, "v.shape[:-1]=(2, 6) does not match k.shape[:-1]=(2, 7)"),
        ({"k": (7, 3)}, ValueError, "q (2, 5, 4), k (2, 7, 3)"),
        ({"piece": 0}, ValueError, "piece=0 must be at least 1"),
        ({"piece": 2.0}, TypeError, "piece=2.0"),
        ({"window": 0}, ValueError, "window=0 must be at least 1"),
        ({"q": (8, 4), "causal": True}, ValueError, "n_keys=7 must be at least 8"),
        ({"q": (8, 4), "window": 3}, ValueError, "n_keys=7 must be at least 8"),
        ({"sinks": np.zeros(3)}, ValueError, "sinks.shape=(3,) does not match (H,)=(2,)"),
        ({"sinks": np.zeros(2, int)}, TypeError, "sinks must be"),
        ({"mask": np.ones((5, 7))}, TypeError, "mask must be an array of booleans"),
        ({"mask": np.ones((6, 7), bool)}, ValueError, "mask of shape (6, 7)"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("as_readers_run_it")
def test_what_is_wrong_is_refused_by_name(room, changes, error, begins):
    given = {"q": (5, 4), "k": (7, 4), "v": (7, 4), **changes}
    given = {n: np.zeros((2, *a)) if isinstance(a, tuple) else a for n, a in given.items()}
    given = {n: room.array(a) if isinstance(a, np.ndarray) else a for n, a in given.items()}
    with pytest.raises(error) as caught:
        room.layers.attention_in_pieces(**given)
    assert str(caught.value).startswith(begins)


@both_rooms
@pytest.mark.usefixtures("as_readers_run_it")
def test_what_does_not_merge_is_refused_by_name(room):
    mixed, lse = room.array(np.zeros((5, 4))), room.array(np.zeros(5))
    for wrong, error, begins in (
        (
            (mixed, lse, mixed[:4], lse),
            ValueError,
            "mixed_b.shape=(4, 4) does not match that of mixed_a=(5, 4)",
        ),
        ((mixed, lse, mixed, lse[:4]), ValueError, "lse_b.shape=(4,) does not match that of mixed_a=(5,)"),
        ((mixed, room.array(np.zeros(5, int)), mixed, lse), TypeError, "lse_a must be"),
        ((lse, lse, mixed, lse), ValueError, "mixed_a has shape (5,)"),
    ):
        with pytest.raises(error) as caught:
            room.layers.merge(*wrong)
        assert str(caught.value).startswith(begins)
