"""Tests attention to compressed tokens: both rooms, gradients, caches, padding, and DeepSeek-V4 of transformers."""

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close
from ledger import TRANSFORMERS, record

from .rooms import NN, SCRATCH, both_rooms
from .test_gradients import check_layer
from .twins import draw

D, H, T = 24, 4, 37
SIZES = {"d_head": 8, "d_rotated": 4, "d_query_latent": 10, "window": 5, "n_groups": 2, "d_group": 3}
KINDS = {
    "window": {},
    "all": {"compress": 8},
    "overlapping": {"compress": 3, "overlapping": True},
    "chosen": {"compress": 4, "overlapping": True, "top_k": 2, "index_heads": 16, "d_index": 6},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
chosen_or_all = pytest.mark.parametrize("kind", ["all", "overlapping", "chosen"])


def built(room, kind, seed=0, **changes):
    """Returns an attention of that kind in float64; its weights depend only on the seed, and none is 0 or 1."""
    drawn = {"generator": None, "dtype": room.dtype("float64")}
    layer = room.layers.CompressedAttention(D, H, **SIZES | KINDS[kind] | changes, **drawn)
    weights = draw({name: tuple(w.shape) for name, w in dict(layer.state_dict()).items()}, seed)
    layer.load_state_dict({name: room.array(values) for name, values in weights.items()})
    return layer


def text(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


def run(room, layer, x, *, cache=None, **read):
    given = {name: room.array(values) for name, values in read.items()}
    with torch.no_grad():
        return room.numpy(layer(room.array(x), cache=cache, **given))


# Both rooms


@every_kind
@pytest.mark.parametrize("length", [1, 4, T])
def test_both_rooms_compute_the_same(kind, length):
    x, ours = text(2, length, D), [built(room, kind) for room in (SCRATCH, NN)]
    read = {"position_ids": np.arange(2 * length).reshape(2, length), "mask": np.arange(length) < T - 4}
    one, other = (run(room, layer, x, **read) for room, layer in zip((SCRATCH, NN), ours, strict=True))
    assert_close(one, other, DOUBLE)
    weights = [
        room.numpy(layer.attention_weights(room.array(x)))
        for room, layer in zip((SCRATCH, NN), ours, strict=True)
    ]
    assert_close(*weights, DOUBLE)
    assert weights[0].shape == (2, H, length, length + length // KINDS[kind].get("compress", length + 1))
    assert (weights[0].sum(axis=-1) < 1).all()  # the rest is the sink's


@every_kind
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_are_those_of_autograd(kind, batch):
    x, grad = text(*batch, 23, D), text(*batch, 23, D, seed=2)
    mask = np.arange(23) < 20
    ours, theirs = built(SCRATCH, kind), built(NN, kind)
    saved = []
    y = ours(x, mask=mask, saved=saved)
    grad_x, *others = ours.backward(grad, saved)
    assert others == [None, None]
    assert saved == []
    x_in_torch = torch.from_numpy(x).requires_grad_()
    y_in_torch = theirs(x_in_torch, mask=torch.from_numpy(mask))
    y_in_torch.backward(torch.from_numpy(grad))
    assert_close(y, y_in_torch.detach().numpy(), DOUBLE)
    assert_close(grad_x, x_in_torch.grad.numpy(), DOUBLE)
    found = ours.gradients()
    for name, weight in theirs.named_parameters():
        if name.startswith("indexer"):  # a choice has no gradient
            assert name not in found
            assert weight.grad is None
        else:
            assert_close(found[name], weight.grad.numpy(), DOUBLE, what=name)
            assert np.abs(found[name]).max() > 1e-3, name


@pytest.mark.parametrize("kind", ["window", "overlapping"])
def test_gradients_are_finite_differences(kind):
    layer, x = built(SCRATCH, kind), text(11, D)
    check_layer(
        layer,
        lambda saved: layer(x, saved=saved),
        {"x": x},
        back=lambda gave: {"x": gave[0]},
    )


# What a query sees


@both_rooms
@every_kind
def test_no_query_sees_what_follows_it(room, kind):
    layer, x = built(room, kind), text(1, T, D)
    whole = run(room, layer, x)
    for t in (3, 4, 5, 7, 8, 20):
        changed = x.copy()
        changed[:, t:] = text(1, T - t, D, seed=3)
        assert_close(run(room, layer, changed)[:, :t], whole[:, :t], DOUBLE)


@both_rooms
@pytest.mark.parametrize(("kind", "m"), [("all", 8), ("chosen", 4)])
def test_a_block_is_seen_from_its_last_row_on(room, kind, m):
    layer = built(room, kind)
    seen = room.numpy(layer.attention_weights(room.array(text(T, D))))[..., T:].max(axis=0) > 0
    complete = np.arange(T)[:, None] >= np.arange(1, T // m + 1) * m - 1
    if kind == "all":
        np.testing.assert_array_equal(seen, complete)
    else:
        assert not (seen & ~complete).any()
        np.testing.assert_array_equal(seen.sum(axis=-1), np.minimum(complete.sum(axis=-1), 2))


@both_rooms
@every_kind
def test_only_distances_count(room, kind):
    layer, x = built(room, kind), text(2, T, D)
    shifted = np.arange(T) + np.array([[0], [70]])
    assert_close(run(room, layer, x, position_ids=shifted), run(room, layer, x), 1e-12)


@both_rooms
def test_the_indexer_prefers_the_earlier_of_equal_tokens(room):
    layer, x = built(room, "chosen"), text(T, D)
    room.load(layer.indexer, W_w=np.zeros((D, 16)))
    weights = room.numpy(layer.attention_weights(room.array(x)))[..., T:]
    assert (weights[:, 12:, :2] > 0).all()
    assert not weights[..., 2:].any()


# Padding


@both_rooms
@every_kind
def test_padding_on_the_right_changes_nothing(room, kind):
    layer, x, lengths = built(room, kind), text(3, T, D), [T, 29, 6]
    mask = np.arange(T) < np.array(lengths)[:, None]
    padded = run(room, layer, x, mask=mask[:, None, None])
    for row, length in enumerate(lengths):
        assert_close(padded[row, :length], run(room, layer, x[row, :length]), DOUBLE)


@both_rooms
def test_padding_on_the_left_is_for_layers_that_compress_nothing(room):
    x, n = text(1, T, D), 6
    read = {"mask": np.arange(T) >= n, "position_ids": np.maximum(np.arange(T) - n, 0)}
    layer = built(room, "window")
    assert_close(run(room, layer, x, **read)[:, n:], run(room, layer, x[:, n:]), DOUBLE)
    with pytest.raises(ValueError, match="mask hides positions before others that it shows"):
        run(room, built(room, "all"), x, **read)


# The cache


@pytest.mark.sampled(3)
@both_rooms
@every_kind
@pytest.mark.parametrize("seed", range(2))
def test_reading_in_steps_going_back_and_reordering_is_reading_at_once(room, kind, seed):
    layer, rng, most_back = built(room, kind), np.random.default_rng(seed), 4
    cache = layer.new_cache(3, T, rewindable=most_back)
    size = cache.nbytes
    for capacity in (20, T):  # two texts, with a reset between them
        x, farthest = np.zeros((3, 0, D)), 0
        while x.shape[1] < capacity:
            n_new = min(int(rng.integers(1, 10)), capacity - x.shape[1])
            x = np.concatenate([x, rng.normal(size=(3, n_new, D))], axis=1)
            got = run(room, layer, x[:, -n_new:], cache=cache)
            assert_close(got, run(room, layer, x)[:, -n_new:], DOUBLE)
            farthest = max(farthest, x.shape[1])
            length = int(rng.integers(max(farthest - most_back, 0), x.shape[1] + 1))
            if rng.random() < 0.5 and length < x.shape[1]:  # in two steps, with another row in between
                cache.rewind(length)
                run(room, layer, rng.normal(size=(3, 1, D)), cache=cache)
                cache.rewind(length)
                x = x[:, :length]
            rows = rng.integers(0, 3, 3)
            cache.reorder(room.array(rows))
            x = x[rows]
            assert cache.length == x.shape[1]
        cache.reset()
        assert (cache.length, cache.capacity, cache.nbytes, len(cache.keys)) == (0, T, size, 3)


@both_rooms
@every_kind
@pytest.mark.parametrize("rewindable", [0, 3])
def test_it_keeps_the_window_the_tokens_and_what_blocks_to_come_need(room, kind, rewindable):
    layer, K = built(room, kind), SIZES["d_head"]
    numbers = K * (SIZES["window"] - 1 + rewindable)
    m, n = KINDS[kind].get("compress", 1), 2 if KINDS[kind].get("overlapping") else 1
    for width in (K, KINDS[kind].get("d_index", 0)):
        if m > 1:
            numbers += T // m * width + (n * m - 1 + rewindable) * 2 * n * width
    assert layer.new_cache(3, T, rewindable=rewindable).nbytes == 3 * numbers * 8


@both_rooms
@chosen_or_all
def test_a_token_that_was_taken_back_is_made_anew(room, kind):
    layer, x, m = built(room, kind), text(1, 24, D), KINDS[kind]["compress"]
    cache = layer.new_cache(1, 24, rewindable=2)
    run(room, layer, x[:, : 2 * m], cache=cache)
    cache.rewind(2 * m - 1)
    other = np.concatenate([x[:, : 2 * m - 1], text(1, 2, D, seed=4)], axis=1)
    again = run(room, layer, other[:, 2 * m - 1 :], cache=cache)
    assert_close(again, run(room, layer, other)[:, 2 * m - 1 :], DOUBLE)


@both_rooms
@every_kind
@pytest.mark.usefixtures("as_readers_run_it")
def test_what_is_refused_changes_nothing(room, kind):
    layer, x = built(room, kind), text(2, T, D)
    cache = layer.new_cache(2, 20, rewindable=2)
    run(room, layer, x[:, :14], cache=cache)
    for wrong, message in [
        (lambda: cache.rewind(11), "length=11 is too far back: the cache has read 14 positions"),
        (lambda: cache.rewind(15), "length=15 must be at most 14"),
        (lambda: run(room, layer, x[:, :7], cache=cache), "capacity=20 positions: it already holds 14"),
        (lambda: run(room, layer, x[:1, :2], cache=cache), r"the keys have shape \(1, 1, 2, 8\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
    cache.rewind(13)
    with pytest.raises(ValueError, match="length=11 is too far back"):
        cache.rewind(11)
    assert_close(run(room, layer, x[:, 13:20], cache=cache), run(room, layer, x)[:, 13:20], DOUBLE)


# Wrong arguments

CHOOSING = {"compress": 4, "top_k": 2, "index_heads": 2, "d_index": 4}
WRONG = {
    "n_heads=4 is not divisible by n_groups=3": {"n_groups": 3},
    "window=0 must be at least 1": {"window": 0},
    "d_rotated=3 is odd|d_head=3 is odd": {"d_rotated": 3},
    "d_rotated=10 must be at most d_head=8": {"d_rotated": 10},
    "d_rotated=4 must be at most d_index=2": CHOOSING | {"d_index": 2},
    "compress=0 must be at least 1": {"compress": 0},
    "causal=False must be True": {"causal": False},
    "overlapping=True needs compress above 1": {"overlapping": True},
    "top_k=2 needs compress above 1": CHOOSING | {"compress": 1},
    "top_k=0 must be at least 1": CHOOSING | {"top_k": 0},
    "index_heads=2 needs top_k": {"compress": 4, "index_heads": 2},
    "d_index=4 needs top_k": {"compress": 4, "d_index": 4},
    "index_heads=0 must be at least 1": CHOOSING | {"index_heads": 0},
    "position_encoding.d_head=6 does not match d_rotated=4": {"position_encoding": 6},
}


@both_rooms
@pytest.mark.parametrize("message", WRONG)
def test_wrong_choices_are_refused(room, message):
    changes = dict(WRONG[message])
    if "position_encoding" in changes:
        changes["position_encoding"] = room.layers.RotaryPositions(6)
    with pytest.raises(ValueError, match=message):
        room.layers.CompressedAttention(D, H, **SIZES | changes, generator=None)


@both_rooms
@pytest.mark.usefixtures("as_readers_run_it")
def test_wrong_inputs_are_refused(room):
    layer, x, true = built(room, "all"), text(2, 9, D), np.ones
    for given, message in [
        ({"memory": x}, "memory must be None"),
        ({"score_bias": x}, "score_bias must be None"),
        ({"position_ids": np.arange(8)}, "position_ids has 8 entries"),
        ({"mask": true((2, 1, 9, 9), bool)}, "differs from query to query"),
        ({"mask": true((2, 1, 1, 8), bool)}, r"mask.shape\[-1\]=8 does not match positions so far=9"),
        ({"mask": true((3, 1, 1, 9), bool)}, r"mask of shape \(3, 1, 1, 9\) does not broadcast"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(room, layer, x, **given)
    for kind in ("window", "all"):
        with pytest.raises(TypeError, match="mask must be an array of booleans"):
            run(room, built(room, kind), x, mask=true(9))
    with pytest.raises(ValueError, match=r"x.shape\[-1\]=23"):
        run(room, layer, x[..., :-1])
    with pytest.raises(ValueError, match="n_out=5 is not divisible by n_groups=2"):
        room.layers.GroupedLinear(4, 5, n_groups=2, generator=None)


@pytest.mark.usefixtures("as_readers_run_it")
def test_no_gradient_flows_through_the_cache():
    layer = built(SCRATCH, "all")
    with pytest.raises(ValueError, match="no gradient flows through a cache"):
        layer(text(1, 3, D), cache=layer.new_cache(1, 3), saved=[])


# DeepSeek-V4 of transformers

LIBRARY = {"window": "sliding_attention"}
LIBRARY |= {"all": "heavily_compressed_attention", "chosen": "compressed_sparse_attention"}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 9}
LIBRARY_SIZES = {
    "vocab_size": 11,
    "hidden_size": D,
    "num_hidden_layers": 3,
    "num_attention_heads": H,
    "head_dim": 8,
    "partial_rotary_factor": 0.5,
    "q_lora_rank": 10,
    "sliding_window": 5,
    "o_groups": 2,
    "o_lora_rank": 3,
    "index_n_heads": 16,
    "index_head_dim": 6,
    "index_topk": 2,
    "max_position_embeddings": 36,
    "layer_types": list(LIBRARY.values()),
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
    "rope_parameters": YARN,
    "rope_theta": 50.0,
    "compress_rope_theta": 200.0,
    "rms_norm_eps": 0.01,
}
THEIR_NAMES = {
    "q_a_proj.weight": "W_q_down.weight",
    "q_a_norm.weight": "norm_q.weight",
    "q_b_proj.weight": "W_q_up.weight",
    "kv_proj.weight": "W_kv.weight",
    "kv_norm.weight": "norm_kv.weight",
    "sinks": "sinks",
    "o_a_proj.weight": "W_o_down.weight",
    "o_b_proj.weight": "W_o_up.weight",
    "compressor.indexer.q_b_proj.weight": "indexer.W_q.weight",
    "compressor.indexer.scorer.weights_proj.weight": "indexer.W_w.weight",
}
for theirs, ours in {"compressor": "compressor", "compressor.indexer": "indexer.compressor"}.items():
    THEIR_NAMES |= {
        f"{theirs}.kv_proj.weight": f"{ours}.W_kv.weight",
        f"{theirs}.gate_proj.weight": f"{ours}.W_gate.weight",
        f"{theirs}.position_bias": f"{ours}.position_bias",
        f"{theirs}.kv_norm.weight": f"{ours}.norm.weight",
    }


class DoubleTorch:
    """The module torch, except that its float32 is float64."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextmanager
def all_in_double():
    """Makes the library's attention compute in float64 what it casts to float32."""
    from transformers import modeling_rope_utils  # here, because it takes seconds
    from transformers.models.deepseek_v4 import modeling_deepseek_v4

    with pytest.MonkeyPatch.context() as patch:
        for module in (modeling_rope_utils, modeling_deepseek_v4):
            patch.setattr(module, "torch", DoubleTorch())
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        torch.set_default_dtype(torch.float64)
        try:
            yield modeling_deepseek_v4
        finally:
            torch.set_default_dtype(torch.float32)


class Theirs:
    """An attention layer of the library, with random weights."""

    def __init__(self, library, kind, seed):
        self.library = library
        self.config = library.DeepseekV4Config(**LIBRARY_SIZES)
        self.config._attn_implementation = "eager"
        index = list(LIBRARY).index(kind)
        self.layer = library.DeepseekV4Attention(self.config, index).eval()
        self.rotary = library.DeepseekV4RotaryEmbedding(self.config)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in self.layer.named_parameters():
                if name.endswith("norm.weight"):
                    weight.normal_(1, 0.3, generator=generator)
                else:
                    weight.normal_(
                        0, weight.shape[-1] ** -0.5 if "proj" in name else 1.0, generator=generator
                    )
        self.chosen = []
        if kind == "chosen":
            self.layer.compressor.indexer.register_forward_hook(
                lambda module, given, found: self.chosen.append(found)
            )

    @torch.no_grad()
    def __call__(self, x, past=0, cache=None):
        x = torch.from_numpy(x)
        ids = torch.arange(past, past + x.shape[1])[None].expand(len(x), -1)
        n_keys = x.shape[1] + min(past, self.config.sliding_window - 1)
        distance = ids[0][:, None] - torch.arange(past + x.shape[1] - n_keys, past + x.shape[1])
        seen = (distance >= 0) & (distance < self.config.sliding_window)
        mask = torch.where(seen, 0.0, -torch.inf)[None, None].expand(len(x), 1, -1, -1)
        angles = {kind: self.rotary(x, ids, kind) for kind in ("main", "compress")}
        return self.layer(x, angles, ids, mask, cache)[0].numpy()

    def weights_for(self, room, layer):
        """Returns its weights under the names of ours, as they lie in ours."""
        found = {}
        for name, weight in self.layer.state_dict().items():
            values = weight.numpy()
            if name == "o_a_proj.weight":
                values = values.reshape(SIZES["n_groups"], SIZES["d_group"], -1).swapaxes(1, 2)
            elif "proj" in name:
                values = values.T
            found[THEIR_NAMES[name]] = room.array(np.ascontiguousarray(values))
        return found


def ours_like(room, theirs, kind):
    stretched = {"scaling": "yarn", "interpolation": 4.0, "original_context": 9}
    options = {"base": 50.0} if kind == "window" else {"base": 200.0, **stretched}
    encoding = room.layers.RotaryPositions(SIZES["d_rotated"], layout="interleaved", **options)
    layer = built(room, kind, position_encoding=encoding, norm_eps=0.01)
    layer.load_state_dict(theirs.weights_for(room, layer))
    return layer


@pytest.fixture(scope="module")
def library():
    with all_in_double() as module:
        yield module


@both_rooms
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", LIBRARY)
def test_it_is_the_attention_of_deepseek_v4(room, library, kind, seed):
    theirs, x = Theirs(library, kind, seed), text(2, T, D, seed=seed)
    ours, expected = ours_like(room, theirs, kind), theirs(x)
    name, largest = "nn" if room.is_torch else "scratch", np.abs(expected).max()
    record(
        f"DeepSeek-V4's attention, {kind} (relative to the largest)",
        TRANSFORMERS,
        "float64",
        name,
        np.abs(run(room, ours, x) - expected).max() / largest,
        1e-12,
        section="Attention and positions",
    )
    if kind == "chosen":  # and they choose the same tokens
        weights = room.numpy(ours.attention_weights(room.array(x)))[..., T:]
        chosen = np.zeros((2, T, T // 4 + 1), bool)
        np.put_along_axis(chosen, theirs.chosen[0].numpy(), True, axis=-1)  # −1 stands for none
        n_different = ((weights > 0).any(axis=1) != chosen[..., :-1]).sum()
        assert n_different == 0
    # In steps, the library's cache against ours
    from transformers import DynamicCache

    cache, their_cache = ours.new_cache(2, T), DynamicCache(config=theirs.config)
    for begin, end in pairwise([0, 1, 6, 7, 8, 19, 23, 24, T]):
        step = x[:, begin:end]
        stepped = theirs(step, begin, their_cache)
        assert_close(run(room, ours, step, cache=cache), stepped, 1e-12)


def neutral(theirs, kind, monkeypatch):
    """Yields what takes one part at a time away from the library's layer, by the part's name."""
    layer, library = theirs.layer, theirs.library

    def fill(weight, value):
        return lambda: weight.data.fill_(value)

    yield "sinks", fill(layer.sinks, -1e9)
    yield "norm_q", fill(layer.q_a_norm.weight, 1.0)
    yield "norm_kv", fill(layer.kv_norm.weight, 1.0)
    yield "norm_heads", lambda: monkeypatch.setattr(layer, "q_b_norm", torch.nn.Identity())
    yield "groups", lambda: layer.o_a_proj.weight.data.copy_(layer.o_a_proj.weight.data.roll(3, dims=0))
    yield "window", lambda: monkeypatch.setattr(theirs.config, "sliding_window", 6)
    turn = library.apply_rotary_pos_emb
    still = lambda x, *angles, **kw: x  # noqa: E731
    yield "rotation", lambda: monkeypatch.setattr(library, "apply_rotary_pos_emb", still)
    calls = []

    def not_back(x, cos, sin, **kw):
        """Leaves out the layer's last rotation: the first two here are of queries and keys, the last goes back."""
        calls.append(sin)
        back = len(calls) > 1 and torch.equal(sin, -calls[0])
        return x if back else turn(x, cos, sin, **kw)

    yield "rotation back", lambda: monkeypatch.setattr(library, "apply_rotary_pos_emb", not_back)
    if kind != "window":
        compressor = layer.compressor
        yield "compressed tokens", lambda: monkeypatch.setattr(layer, "compressor", None)
        yield "gate", fill(compressor.gate_proj.weight, 0.0)
        yield "position_bias", fill(compressor.position_bias, 0.0)
        yield "norm of tokens", fill(compressor.kv_norm.weight, 1.0)
    if kind == "chosen":
        indexer = compressor.indexer
        yield "the block before", lambda: compressor.position_bias.data[:, :8].fill_(-1e9)
        yield "choice", lambda: monkeypatch.setattr(indexer, "index_topk", T)
        yield "votes", fill(indexer.scorer.weights_proj.weight, 1.0)
        yield "queries of the indexer", lambda: indexer.q_b_proj.weight.data.neg_()
        yield "gate of the indexer", fill(indexer.gate_proj.weight, 0.0)
        yield "position_bias of the indexer", fill(indexer.position_bias, 0.0)
        yield "norm of the indexer", fill(indexer.kv_norm.weight, 1.0)
        yield "the indexer's block before", lambda: indexer.position_bias.data[:, :6].fill_(-1e9)


@pytest.mark.parametrize("kind", LIBRARY)
def test_every_part_of_theirs_counts(library, kind):
    """Otherwise, to agree with them would prove nothing about that part."""
    x = text(2, T, D)
    expected = Theirs(library, kind, 0)(x)
    with pytest.MonkeyPatch.context() as names:
        parts = [part for part, _ in neutral(Theirs(library, kind, 0), kind, names)]
    for part in parts:
        with pytest.MonkeyPatch.context() as patch:
            theirs = Theirs(library, kind, 0)
            dict(neutral(theirs, kind, patch))[part]()
            moved = np.abs(theirs(x) - expected).max() / np.abs(expected).max()
        assert moved > 1e-3, (part, moved)


def test_what_they_call_is_what_we_call(library):
    names = {THEIR_NAMES[name] for kind in LIBRARY for name in Theirs(library, kind, 0).layer.state_dict()}
    assert names == {*THEIR_NAMES.values()}
    assert set(built(SCRATCH, "chosen").named_parameters()) == names
