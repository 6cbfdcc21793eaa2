"""Tests latent attention: by definition, its two ways of computing, its cache, its gradients, and the library's."""

from importlib import import_module

import numpy as np
import pytest
import torch
import transformers
from close import DOUBLE, assert_close
from huggingface.models import all_in_double
from ledger import TRANSFORMERS, largest_difference, record

from glassformer.trace import trace

from .rooms import NN, SCRATCH, both_rooms
from .test_gradients import check_layer
from .twins import draw

SIZES = {"d_model": 12, "n_heads": 3, "d_head": 10, "d_rotated": 4, "d_value": 5, "d_latent": 7}
VARIANTS = {
    "plain": {},
    "causal": {"causal": True},
    "latent queries": {"causal": True, "d_query_latent": 6, "latent_eps": 1e-2},
    "unrotated": {"causal": True, "rotated": False, "scale": 0.7},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
RIGHT, LEFT = np.array([1, 1, 1, 1, 0, 0], bool), np.array([0, 0, 1, 1, 1, 1], bool)
PADDING = np.stack([RIGHT, LEFT])[:, None, None]
X = np.random.default_rng(3).normal(size=(2, 6, 12))


def build(room, rotated=True, layout="half", seed=0, **options):
    options = SIZES | options
    if rotated:
        options["position_encoding"] = room.layers.RotaryPositions(
            options["d_rotated"], base=50.0, layout=layout
        )
    return drawn(room, room.layers.LatentAttention(**options, **room.parameters()), seed)


def drawn(room, layer, seed=0):
    """Draws all weights of a layer; they depend only on the seed."""
    weights = draw({name: tuple(w.shape) for name, w in dict(layer.state_dict()).items()}, seed)
    layer.load_state_dict({name: room.array(values) for name, values in weights.items()})
    return layer


def run(room, layer, x, cache=None, **given):
    """Returns what a layer computes: NumPy in, NumPy out."""
    given = {n: room.array(v) if isinstance(v, np.ndarray) else v for n, v in given.items()}
    with torch.no_grad():
        return room.numpy(layer(room.array(x), cache=cache, **given))


def by_definition(layer, x, mask, scale):
    """Computes DeepSeek-V2's equations 9 to 19 position by position, with loops over heads."""
    D, H, K, P, U, R = SIZES.values()
    weights = layer.named_parameters()
    W = {name.removesuffix(".weight"): weight for name, weight in weights.items()}

    def normed(z, gain):
        return z / np.sqrt((z * z).mean() + layer.norm_kv.eps) * gain

    def turned(z, position):
        for i in range(P // 2 if layer.position_encoding.acts_on else 0):
            turn = np.exp(1j * position * 50.0 ** (-2 * i / P))
            z = z.copy()
            pair = (z[i] + 1j * z[i + P // 2]) * turn
            z[i], z[i + P // 2] = pair.real, pair.imag
        return z

    y = np.zeros((len(x), D))
    for h in range(H):
        of_head = slice(h * (K - P + U), (h + 1) * (K - P + U))
        q, k, v = [], [], []
        for t, row in enumerate(x):
            query = row @ W["W_q"] if "W_q" in W else normed(row @ W["W_q_down"], W["norm_q"]) @ W["W_q_up"]
            query = query[h * K : (h + 1) * K]
            down = row @ W["W_kv_down"]
            up = (normed(down[:R], W["norm_kv"]) @ W["W_kv_up"])[of_head]
            q.append(np.append(query[: K - P], turned(query[K - P :], t)))
            k.append(np.append(up[: K - P], turned(down[R:], t)))
            v.append(up[K - P :])
        for t in range(len(x)):
            sees = [s for s in range(len(x)) if mask[s] and (s <= t or not layer.causal)]
            if not sees:
                continue
            shares = np.exp([q[t] @ k[s] * scale for s in sees])
            mixed = sum(share * v[s] for share, s in zip(shares, sees, strict=True)) / shares.sum()
            y[t] += mixed @ W["W_o"][h * U : (h + 1) * U]
    return y


@both_rooms
@every_variant
@pytest.mark.parametrize("padded", [False, True])
def test_both_ways_are_the_equations_of_the_paper(room, variant, padded):
    layer = build(room, **VARIANTS[variant])
    mask = PADDING if padded else np.ones_like(PADDING)
    twin = build(SCRATCH, **VARIANTS[variant])
    scale = VARIANTS[variant].get("scale", SIZES["d_head"] ** -0.5)
    expected = [by_definition(twin, x, row[0, 0], scale) for x, row in zip(X, mask, strict=True)]
    expected = np.stack(expected)
    for absorbed in (False, True, None):
        assert_close(run(room, layer, X, mask=mask, absorbed=absorbed), expected, DOUBLE)
    assert_close(run(room, layer, X[0], mask=mask[0, 0]), expected[0], DOUBLE)  # without a batch


@both_rooms
@pytest.mark.parametrize("absorbed", [False, True])
def test_a_trace_sees_the_weights_and_what_they_are_made_of(room, absorbed):
    layer, x = build(room, causal=True), room.array(X)
    with trace() as seen:
        y = layer(x, absorbed=absorbed)
    assert_close(room.numpy(y), run(room, layer, X, absorbed=absorbed), DOUBLE)
    weights = room.numpy(seen.arrays("weights", "attention")[0])
    assert weights.shape == (2, 3, 6, 6)
    assert_close(weights, room.numpy(layer.attention_weights(x)), DOUBLE)
    widths = [seen.arrays(name)[0].shape[-1] for name in "qkv"]
    assert widths == ([11, 11, 7] if absorbed else [10, 10, 5])
    assert len(seen.arrays("write")) == 1


@both_rooms
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("variant", ["causal", "latent queries", "unrotated"])
def test_reading_in_steps_going_back_and_reordering_is_reading_at_once(room, variant, seed):
    layer, rng = build(room, seed=seed, **VARIANTS[variant]), np.random.default_rng(seed)
    cache, x, real = layer.new_cache(3, 12), np.zeros((3, 0, 12)), np.ones((3, 0), bool)
    marked = 0
    for _ in range(9):
        n_new = int(rng.integers(1, 5))
        if x.shape[1] + n_new > 12 or (x.shape[1] > marked and rng.random() < 0.3):
            cache.rewind(marked)
            x, real = x[:, :marked], real[:, :marked]
            n_new = min(n_new, 12 - marked)
        elif rng.random() < 0.3:
            marked = x.shape[1]
        if n_new == 0:
            cache.reset()
            marked, n_new = 0, 3
            x, real = x[:, :0], real[:, :0]
        x = np.concatenate([x, rng.normal(size=(3, n_new, 12))], axis=1)
        real = np.concatenate([real, rng.random((3, n_new)) < 0.8], axis=1)
        real[:, -n_new] = True
        mask, absorbed = real[:, None, None], bool(rng.random() < 0.8)
        got = run(room, layer, x[:, -n_new:], cache, mask=mask, absorbed=absorbed or None)
        assert cache.length == cache.filled == x.shape[1]
        assert_close(got, run(room, layer, x, mask=mask)[:, -n_new:], DOUBLE)
        rows = rng.integers(0, 3, 3)
        cache.reorder(room.array(rows))
        x, real = x[rows], real[rows]


@both_rooms
def test_a_cache_keeps_the_normed_latent_and_the_turned_part_alone(room):
    layer, twin = build(room, causal=True), build(SCRATCH, causal=True)
    cache = layer.new_cache(2, 9)
    run(room, layer, X, cache)
    assert (cache.capacity, cache.nbytes) == (9, 2 * 9 * (7 + 4) * 8)
    down = X @ twin.W_kv_down.weight
    assert_close(room.numpy(cache.keys)[:, 0, :6], twin.norm_kv(down[..., :7]), DOUBLE)
    turned = twin.position_encoding.rotate(down[:, None, :, 7:])
    assert_close(room.numpy(cache.values)[:, :, :6], turned, DOUBLE)
    with pytest.raises(ValueError, match="it already holds 6, so 4 more do not fit"):
        run(room, layer, X[:, :4], cache)
    with pytest.raises(ValueError, match="length=7 must be at most 6"):
        cache.rewind(7)
    assert cache.length == 6


@both_rooms
def test_positions_can_be_given(room):
    layer, positions = build(room, causal=True), np.array([[0, 0, 0, 1, 2, 3], [5, 6, 7, 8, 9, 10]])
    given = run(room, layer, X, position_ids=positions)
    assert_close(given[1], run(room, layer, X)[1], DOUBLE)  # only distances matter
    assert np.abs(given[0] - run(room, layer, X)[0]).max() > 1e-2
    cache = layer.new_cache(2, 6)
    steps = [
        run(room, layer, X[:, a:b], cache, position_ids=positions[:, a:b])
        for a, b in ((0, 2), (2, 3), (3, 6))
    ]
    assert_close(np.concatenate(steps, axis=1), given, DOUBLE)


# Gradients


@every_variant
@pytest.mark.parametrize("padded", [False, True])
def test_gradients(variant, padded):
    layer, x = build(SCRATCH, **VARIANTS[variant]), X.copy()
    mask = PADDING if padded else None
    positions = np.array([3, 0, 7, 8, 8, 20])

    def back(gave):
        assert gave[1:] == (None, None)
        return {"x": gave[0]}

    check_layer(
        layer, lambda saved: layer(x, mask=mask, position_ids=positions, saved=saved), {"x": x}, back=back
    )


@every_variant
@pytest.mark.parametrize("absorbed", [False, True])
def test_gradients_are_those_of_autograd(variant, absorbed):
    ours, theirs = build(SCRATCH, **VARIANTS[variant]), build(NN, **VARIANTS[variant])
    x, grad, saved = torch.from_numpy(X).requires_grad_(), np.random.default_rng(5).normal(size=X.shape), []
    ours(X, mask=PADDING, saved=saved)
    grad_x, _, _ = ours.backward(grad, saved)
    theirs(x, mask=torch.from_numpy(PADDING), absorbed=absorbed).backward(torch.from_numpy(grad))
    assert_close(grad_x, x.grad, DOUBLE)
    gradients = dict(theirs.named_parameters())
    assert set(gradients) == set(ours.gradients())
    for name, gradient in ours.gradients().items():
        assert_close(gradient, gradients[name].grad, DOUBLE, what=name)


# What is refused


@both_rooms
def test_sizes_that_do_not_fit_are_refused(room):
    L = room.layers
    for message, wrong in {
        "d_rotated=10 must be below d_head=10": {"d_rotated": 10},
        "d_rotated=0 must be at least 1": {"d_rotated": 0},
        "d_value=0 must be at least 1": {"d_value": 0},
        "n_heads=0 must be at least 1": {"n_heads": 0},
        "d_latent=0 must be at least 1": {"d_latent": 0},
        "d_query_latent=0 must be at least 1": {"d_query_latent": 0},
        "position_encoding.d_head=6 does not match d_rotated=4": {"position_encoding": L.RotaryPositions(6)},
        "position_encoding, a AlibiPositions, acts on the scores": {"position_encoding": L.AlibiPositions(3)},
    }.items():
        with pytest.raises(ValueError, match=message):
            L.LatentAttention(**SIZES | wrong, **room.parameters())


@both_rooms
@pytest.mark.usefixtures("as_readers_run_it")
def test_inputs_that_do_not_fit_are_refused(room):
    layer, borrower = build(room), build(room, borrows_choice=True)
    for message, wrong in {
        "memory must be None": {"memory": X},
        "score_bias must be None": {"score_bias": np.zeros((6, 6))},
        r"x.shape\[-1\]=11 does not match d_model=12": {"x": X[..., :11]},
        "does not broadcast to the scores": {"mask": np.ones((5, 6), bool)},
        "position_ids has 2 entries": {"position_ids": np.arange(2)},
    }.items():
        with pytest.raises(ValueError, match=message):
            run(room, layer, **{"x": X} | wrong)
    for shared in (None, {}):
        with pytest.raises(ValueError, match=r"borrows_choice needs shared\['chosen'\]"):
            run(room, borrower, X, shared=shared)
    with pytest.raises(TypeError, match="mask must be an array of booleans"):
        run(room, layer, X, mask=np.ones((6, 6)))


def test_no_gradient_leads_through_a_cache_or_the_absorbed_way():
    layer = build(SCRATCH)
    with pytest.raises(ValueError, match="no gradient flows through a cache"):
        layer(X, cache=layer.new_cache(2, 6), saved=[])
    with pytest.raises(ValueError, match="absorbed=True has no backward pass: saved must be None"):
        layer(X, absorbed=True, saved=[])


# The library's

MODULES = {
    family: import_module(f"transformers.models.{family}.modeling_{family}")
    for family in ("deepseek_v3", "deepseek_v32", "glm_moe_dsa")
}
NAMES = {
    "W_q": "q_proj",
    "W_q_down": "q_a_proj",
    "norm_q": "q_a_layernorm",
    "W_q_up": "q_b_proj",
    "W_kv_down": "kv_a_proj_with_mqa",
    "norm_kv": "kv_a_layernorm",
    "W_kv_up": "kv_b_proj",
    "W_o": "o_proj",
}
CONFIG = {
    "hidden_size": 24,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "num_hidden_layers": 2,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 6,
    "v_head_dim": 7,
    "kv_lora_rank": 9,
    "attn_implementation": "eager",
}


def theirs_in_double(family, index=0, seed=0, **settings):
    """Returns a family's attention with random weights, and its rotation."""
    module = MODULES[family]
    prefix = "".join(part.capitalize() for part in family.split("_"))
    config = getattr(transformers, f"{prefix}Config")(**CONFIG | settings)
    attention = getattr(module, f"{prefix}Attention")(config, index).double().eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in attention.named_parameters():
            if weight.ndim == 1:
                weight.normal_(1.0 if name.endswith("weight") else 0.0, 0.3)
            else:
                weight.normal_(0.0, weight.shape[1] ** -0.5)
    return attention, getattr(module, f"{prefix}RotaryEmbedding")(config)


def causal_and(padding):
    """Returns the mask that the library adds to the scores; (B, T) says which positions are real."""
    T = padding.shape[1]
    seen = np.tri(T, dtype=bool) & padding[:, None, None]
    seen |= np.eye(T, dtype=bool)  # a query without keys is a question of taste
    return seen, torch.where(torch.from_numpy(seen), 0.0, -torch.inf).double()


def in_our_room(room, theirs, rotary, layout, names=NAMES, **options):
    """Returns our layer with the library's weights."""
    config, L = theirs.config, room.layers
    yarn = {}
    if config.rope_parameters["rope_type"] == "yarn":
        rope = config.rope_parameters
        yarn = {
            "scaling": "yarn",
            "interpolation": rope["factor"],
            "original_context": rope["original_max_position_embeddings"],
            "slow": rope["beta_slow"],
            "fast": rope["beta_fast"],
            "attention_factor": rotary.attention_scaling,
        }
    rotation = {"base": config.rope_parameters["rope_theta"], "layout": layout, **yarn}
    layer = L.LatentAttention(
        config.hidden_size,
        config.num_attention_heads,
        d_head=theirs.qk_head_dim,
        d_rotated=config.qk_rope_head_dim,
        d_value=config.v_head_dim,
        d_latent=config.kv_lora_rank,
        d_query_latent=config.q_lora_rank,
        position_encoding=L.RotaryPositions(config.qk_rope_head_dim, **rotation),
        causal=True,
        scale=theirs.scaling,
        generator=None,
        dtype=room.dtype("float64"),
        **{name: make(rotation) for name, make in options.items()},
    )
    state, weights = {}, theirs.state_dict()
    for name in dict(layer.state_dict()):
        path, kind = name.rsplit(".", 1)
        values = weights[f"{names[path]}.{kind}"].numpy()
        state[name] = room.array(values.T.copy() if values.ndim == 2 else values)
    layer.load_state_dict(state)
    return layer


LIBRARY = {
    "DeepSeek-V3": {"q_lora_rank": 8},
    "DeepSeek-V3, queries from x, halves": {"q_lora_rank": None, "rope_interleave": False},
    "DeepSeek-V3, YaRN": {
        "q_lora_rank": 8,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 200.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
            "mscale": 1.0,
            "mscale_all_dim": 0.6,
        },
    },
}


@pytest.mark.parametrize("case", LIBRARY)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("padded", [False, True])
def test_deepseek_v3(case, seed, padded):
    T = 33
    real = np.arange(T) >= np.array([[0], [5]]) if padded else np.ones((2, T), bool)
    seen, added = causal_and(real)
    x = np.random.default_rng(seed).normal(size=(2, T, 24))
    with all_in_double(), torch.no_grad():
        theirs, rotary = theirs_in_double("deepseek_v3", seed=seed, **LIBRARY[case])
        x_torch = torch.from_numpy(x)
        turns = rotary(x_torch, torch.arange(T)[None])
        expected = theirs(x_torch, turns, added)[0].numpy()
    layout = "half" if "halves" in case else "interleaved"
    for room, name in ((SCRATCH, "scratch"), (NN, "nn")):
        ours = in_our_room(room, theirs, rotary, layout)
        for absorbed in (False, True):
            got = run(room, ours, x, mask=seen, absorbed=absorbed)
            difference = largest_difference(got, expected) / np.abs(expected).max()
            record(
                f"latent attention, {case}",
                TRANSFORMERS,
                "float64",
                name,
                difference,
                1e-12,
                section="Attention and positions",
            )
