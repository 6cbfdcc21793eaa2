"""Tests layers with a state: the recurrence by hand, in chunks and backwards; the layers by definition; their cache."""

from importlib import import_module

import numpy as np
import pytest
import torch
from close import DOUBLE, SINGLE, assert_close

from glassformer import scratch
from glassformer.nn.recurrence import recurrent_steps as steps_in_torch

from .rooms import NN, SCRATCH, both_rooms
from .test_gradients import check, check_layer
from .test_latent import drawn, run

# The recurrence

FUNCTIONS = ("recurrent_steps", "recurrent_chunks")
NAMES = ("q", "k", "v", "log_decay", "strength", "state")
every_form = pytest.mark.parametrize(
    ("delta", "per"), [(d, per) for d in (False, True) for per in ("none", "head", "channel")]
)


def inputs(per, seed=0, T=7, K=4, U=3, batch=(2,)):
    """Returns what a recurrence reads: keys of length 1, strengths up to 2, decays of all sizes."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(*batch, T, n)) for n in (K, K, U))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    log_decay = -rng.exponential(size=(*batch, T, K if per == "channel" else 1)) * (per != "none")
    strength, state = 2 * rng.random((*batch, T, 1)), rng.normal(size=(*batch, K, U))
    return dict(zip(NAMES, (q, k, v, log_decay, strength, state), strict=True))


def apply(room, name, given, dtype=None, **options):
    """Returns what is read and the last state: NumPy in, NumPy out."""
    arrays = {n: None if a is None else room.array(a, dtype) for n, a in given.items()}
    with torch.no_grad():
        got = getattr(room.layers, name)(
            arrays.pop("q"), arrays.pop("k"), arrays.pop("v"), **arrays, **options
        )
    return [room.numpy(array) for array in got]


@both_rooms
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("delta", "read", "state"),
    [
        (False, [15, 11.25], [5, 6.25]),  # (4, 4) + 1/2 · 2; (5, 5/4) + (0, 5)
        (True, [3, 6], [1, 5]),  # (4, 4) + 1/2 · (2 − 8); (1, 1/4) + (0, 5 − 1/4)
    ],
)
def test_two_positions_worked_by_hand_with_a_decay_for_each_feature(room, name, delta, read, state):
    given = {"q": [[1, 2], [1, 1]], "k": [[1, 1], [0, 1]], "v": [[2], [5]], "strength": [[0.5], [1]]}
    given |= {"state": [[8], [4]], "log_decay": np.log([[1 / 2, 1], [1, 1 / 4]])}
    got = apply(room, name, {n: np.array(values, float) for n, values in given.items()}, delta=delta)
    np.testing.assert_allclose(got[0][:, 0], read, rtol=1e-14)
    np.testing.assert_allclose(got[1][:, 0], state, rtol=1e-14)


@both_rooms
@every_form
@pytest.mark.parametrize("with_state", [False, True])
def test_chunks_are_steps_also_when_a_text_comes_in_two_parts(room, delta, per, with_state):
    given = inputs(per)
    if not with_state:
        given["state"] = None
    expected = apply(SCRATCH, "recurrent_steps", given, delta=delta)
    found = [apply(room, "recurrent_steps", given, delta=delta)]
    found += [apply(room, "recurrent_chunks", given, delta=delta, chunk=n) for n in (1, 3, 7, 20, None)]
    begin, end = (
        {n: a[..., rows, :] for n, a in given.items() if n != "state"} for rows in (slice(4), slice(4, 7))
    )
    one, between = apply(room, "recurrent_chunks", begin | {"state": given["state"]}, delta=delta, chunk=3)
    other, last = apply(room, "recurrent_steps", end | {"state": between}, delta=delta)
    for read, state in [*found, (np.concatenate([one, other], axis=-2), last)]:
        assert_close(read, expected[0], DOUBLE)
        assert_close(state, expected[1], DOUBLE)


@every_form
@pytest.mark.parametrize("chunk", [1, 3, 20])
def test_the_gradient_is_that_of_differences_and_of_autograd_through_the_steps(delta, per, chunk):
    given, rng = inputs(per), np.random.default_rng(9)
    to_read, to_state = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 4, 3))
    saved = []
    scratch.recurrent_chunks(**given, delta=delta, chunk=chunk, saved=saved)
    grads = scratch.recurrent_chunks_backward(to_read, saved, grad_state=to_state)
    assert saved == []
    grads = dict(zip(NAMES, grads, strict=True))

    def loss():
        read, state = scratch.recurrent_chunks(**given, delta=delta, chunk=chunk)
        return np.vdot(to_read, read) + np.vdot(to_state, state)

    check(loss, given, grads, rng)
    tensors = {n: torch.from_numpy(a).requires_grad_() for n, a in given.items()}
    read, state = steps_in_torch(**tensors, delta=delta)
    ((read * torch.from_numpy(to_read)).sum() + (state * torch.from_numpy(to_state)).sum()).backward()
    for name, gradient in grads.items():
        assert_close(gradient, tensors[name].grad, DOUBLE, what=name)


@both_rooms
@pytest.mark.parametrize("per", ["head", "channel"])
@pytest.mark.parametrize("log_decay", [-80, -1e-3])
def test_a_strong_decay_and_strengths_of_two_stay_finite_in_float32(room, per, log_decay):
    """Over 70 positions, a decay of exp(−80) each is exp(−5600), and its inverse is not a number of float32."""
    given = inputs(per, T=70, K=8)
    given["log_decay"] = np.full_like(given["log_decay"], log_decay)
    given["strength"] = np.full_like(given["strength"], 2)
    expected = apply(SCRATCH, "recurrent_steps", given)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        got = apply(room, "recurrent_chunks", given, "float32")
        for ours, theirs in zip(got, expected, strict=True):
            assert_close(ours, theirs, SINGLE)
        if room is SCRATCH:
            single, saved = {n: a.astype("float32") for n, a in given.items()}, []
            read, _ = scratch.recurrent_chunks(**single, saved=saved)
            assert all(np.isfinite(g).all() for g in scratch.recurrent_chunks_backward(read, saved))


@both_rooms
@every_form
def test_after_4096_positions_in_float32_it_is_as_in_float64(room, delta, per):
    given = inputs(per, T=4096, K=8, U=8, batch=())
    given["log_decay"] *= 0.01
    given["strength"] = given["strength"] / 2
    (read, state), exact = (
        apply(room, "recurrent_chunks", given, dtype, delta=delta) for dtype in ("float32", "float64")
    )
    assert read.dtype == state.dtype == np.float32
    assert_close(read, exact[0], SINGLE)
    assert_close(state, exact[1], SINGLE)


REFERENCES = {  # the functions of transformers compute in float32, whatever they are given
    "head": ("qwen3_next", "torch_chunk_gated_delta_rule"),
    "channel": ("kimi_linear", "chunk_kimi_delta_attention"),
}


@both_rooms
@pytest.mark.parametrize("per", REFERENCES)
def test_the_functions_of_transformers(room, per):
    family, function = REFERENCES[per]
    given = inputs(per, T=150, K=8, U=5, batch=(2, 3))
    theirs = getattr(import_module(f"transformers.models.{family}.modeling_{family}"), function)
    q, k, v, g, beta, state = (torch.from_numpy(given[n]).float() for n in NAMES)
    q, k, v, g, beta = (array.transpose(1, 2) for array in (q * q.shape[-1] ** 0.5, k, v, g, beta))
    g = g if per == "channel" else g[..., 0]
    read, last = theirs(q, k, v, g, beta[..., 0], initial_state=state, output_final_state=True)
    got = apply(room, "recurrent_chunks", given)
    assert_close(got[0], read.transpose(1, 2), SINGLE)
    assert_close(got[1], last, SINGLE)


# The layers

SIZES = {"d_model": 6, "n_heads": 4, "n_key_heads": 2, "d_key": 3, "d_value": 2}
VARIANTS = {
    "gated delta": {},
    "channel": {"decay": "channel", "n_key_heads": 4, "gate": "sigmoid", "taps": 1},
    "channel through R": {"decay": "channel", "rank": 2, "max_strength": 2.0},
    "undecayed": {"decay": "none", "n_key_heads": 1, "output_eps": 0.1},
    "added": {"delta": False, "rank": 2},
    "linear": {"delta": False, "decay": "none", "taps": 2, "output_eps": 0.1},
    "Mamba-2": {"output_eps": 0.1},
    "Mamba-2, one tap": {"n_key_heads": 1, "taps": 1, "convolution_bias": False},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
T = 6
REAL = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1]], bool)  # right, left and inside
X = np.random.default_rng(3).normal(size=(3, T, 6))


def make(room, variant, seed=0, **changed):
    kind = room.layers.Mamba2 if variant.startswith("Mamba") else room.layers.LinearAttention
    return drawn(room, kind(**SIZES | VARIANTS[variant] | changed, **room.parameters()), seed)


def by_definition(layer, x):
    """Computes a text position by position and head by head, as the papers write it."""
    W = {name.removesuffix(".weight"): weight for name, weight in layer.named_parameters().items()}
    is_mamba, H, K, U = isinstance(layer, scratch.Mamba2), layer.n_heads, layer.d_key, layer.d_value

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    def mapped(name, z):
        return z @ W[f"{name}_down"] @ W[name] if f"{name}_down" in W else z @ W[name]

    def convolved(letter, t):
        taps, row = W[f"convolution_{letter}"], W.get(f"convolution_{letter}.bias", 0)
        for back in range(min(len(taps), t + 1)):
            row = row + taps[-1 - back] * (x[t - back] @ W[f"W_{letter}"])
        return row * sigmoid(row)

    S, y = np.zeros((H, K, U)), []
    for t in range(len(x)):
        wide = np.zeros(H * U)
        for h in range(H):
            key, of_head = slice(h // layer_shares(layer) * K, None), slice(h * U, (h + 1) * U)
            q, k = (convolved(letter, t)[key][:K] for letter in "qk")
            v, strength = convolved("v", t)[of_head], 1.0
            if not is_mamba:
                q, k = (z / np.sqrt(z @ z + 1e-6) for z in (q, k))
                q = q / K**0.5
            if layer.decay != "none":
                a = mapped("W_decay", x[t]) + W["decay_bias"]
                step = np.log1p(np.exp(a[h] if layer.decay == "head" else a[h * K : (h + 1) * K]))
                S[h] = np.exp(-np.exp(W["log_rate"][h]) * np.reshape(step, (-1, 1))) * S[h]
                strength = step if is_mamba else strength
            if layer.delta:
                strength = layer.max_strength * sigmoid(x[t] @ W["W_write"])[h]
                v_new = v - S[h].T @ k
            else:
                v_new = v
            S[h] = S[h] + strength * np.outer(k, v_new)
            wide[of_head] = S[h].T @ q + (W["skip"][h] * v if is_mamba else 0)
        z = mapped("W_gate", x[t])
        gate = z * sigmoid(z) if is_mamba or layer.gate == "silu" else sigmoid(z)
        wide = wide * gate if is_mamba else wide
        groups = wide.reshape(layer.n_key_heads if is_mamba else H, -1)
        normed = groups / np.sqrt((groups**2).mean(axis=1, keepdims=True) + layer.norm_heads.eps)
        if is_mamba:
            y.append((normed.reshape(-1) * W["gain"]) @ W["W_o"])
        else:
            y.append(((normed * W["norm_heads"]).reshape(-1) * gate) @ W["W_o"])
    return np.array(y)


def layer_shares(layer):
    return layer.n_heads // layer.n_key_heads


@both_rooms
@every_variant
def test_a_layer_is_what_the_papers_write_and_padding_is_as_if_it_were_not_there(room, variant):
    layer, twin = make(room, variant), make(SCRATCH, variant)
    whole, padded = run(room, layer, X), run(room, layer, X, mask=REAL[:, None, None])
    np.testing.assert_array_equal(padded[~REAL], 0)
    for x, real, one, other in zip(X, REAL, whole, padded, strict=True):
        assert_close(one, by_definition(twin, x), DOUBLE)
        assert_close(other[real], by_definition(twin, x[real]), DOUBLE)
    assert_close(run(room, layer, X[1], mask=REAL[1]), padded[1], DOUBLE)  # without a batch


@every_variant
@pytest.mark.parametrize("mask", [None, REAL[:, None, None]], ids=["whole", "padded"])
def test_gradients_are_those_of_differences_and_of_autograd(variant, mask):
    layer, theirs, x = make(SCRATCH, variant), make(NN, variant), X.copy()
    check_layer(
        layer, lambda saved: layer(x, mask=mask, saved=saved), {"x": x}, back=lambda gave: {"x": gave[0]}
    )
    layer, saved, grad = make(SCRATCH, variant), [], np.random.default_rng(5).normal(size=X.shape)
    layer(X, mask=mask, saved=saved)
    grad_x, *rest = layer.backward(grad, saved)
    assert rest == [None, None]
    x = torch.from_numpy(X).requires_grad_()
    theirs(x, mask=None if mask is None else torch.from_numpy(mask)).backward(torch.from_numpy(grad))
    assert_close(grad_x, x.grad, DOUBLE)
    found = dict(theirs.named_parameters())
    assert set(found) == set(layer.gradients())
    for name, gradient in layer.gradients().items():
        assert_close(gradient, found[name].grad, DOUBLE, what=name)


@both_rooms
@every_variant
def test_reading_in_steps_marking_going_back_and_reordering_is_reading_at_once(room, variant):
    layer, rng = make(room, variant), np.random.default_rng(len(variant))
    cache, x, real = layer.new_cache(3, 15, rewindable=1), np.zeros((3, 0, 6)), np.ones((3, 0), bool)
    marked = 0
    for _ in range(12):
        event = rng.random()
        if event < 0.25 and x.shape[1]:
            cache.mark()
            marked = x.shape[1]
        elif event < 0.5:
            cache.rewind(marked)
            x, real = x[:, :marked], real[:, :marked]
        n_new = int(rng.integers(1, 5))
        if x.shape[1] + n_new > 15:
            cache.reset()
            marked, x, real = 0, x[:, :0], real[:, :0]
        x = np.concatenate([x, rng.normal(size=(3, n_new, 6))], axis=1)
        real = np.concatenate([real, rng.random((3, n_new)) < 0.7], axis=1)
        got = run(room, layer, x[:, -n_new:], cache, mask=real[:, None, None])
        assert cache.length == x.shape[1]
        new = real[:, -n_new:]
        if new.any():
            assert_close(got[new], run(room, layer, x, mask=real[:, None, None])[:, -n_new:][new], DOUBLE)
        rows = rng.integers(0, 3, 3)
        cache.reorder(room.array(rows))
        x, real = x[rows], real[rows]


@both_rooms
def test_a_cache_goes_back_only_to_nothing_or_to_where_it_was_marked(room):
    layer = make(room, "gated delta")
    cache, plain = layer.new_cache(3, 20, rewindable=1), layer.new_cache(3, 2000)
    assert cache.nbytes == 2 * plain.nbytes
    assert plain.nbytes == 3 * 8 * (4 * 3 * 2 + 3 * (2 * 2 * 3 + 4 * 2))
    with pytest.raises(ValueError, match=r"only with room for a copy: new_cache\(…, rewindable=1\) makes it"):
        plain.mark()
    run(room, layer, X, cache)
    with pytest.raises(
        ValueError, match=r"length=2 cannot be gone back to: .* it was never marked; mark\(\) before"
    ):
        cache.rewind(2)
    with pytest.raises(ValueError, match="length=7 must be at most 6"):
        cache.rewind(7)
    cache.mark()
    run(room, layer, X, cache)
    with pytest.raises(ValueError, match="and it was marked at 6"):
        cache.rewind(5)
    cache.rewind(12)
    assert cache.length == 12
    cache.rewind(6)
    cache.rewind(0)
    with pytest.raises(ValueError, match="room for capacity=20 positions: it already holds 0, so 24 more"):
        run(room, layer, np.concatenate([X] * 4, axis=1), cache)
    assert_close(run(room, layer, X, cache), run(room, layer, X), DOUBLE)  # nothing was left
    with pytest.raises(ValueError, match="never marked"):
        cache.rewind(5)
