"""Tests one small case for everything, worked out with pencil and paper."""

import math

import numpy as np
import pytest
from close import DOUBLE, assert_close

from .grid import GPT2
from .rooms import Layer, both_rooms
from .twins import build, run

LN3 = math.log(3)
EXACT = {"rtol": 0, "atol": 1e-15}  # float64 rounding of numbers of size 1


@both_rooms
def test_softmax_of_large_numbers_does_not_overflow(room):
    x = room.array([[1000.0, 1000.0 + LN3], [-1000.0, -1000.0 - LN3]])
    # 1000 + ln 3 is itself rounded, to 1e-13
    np.testing.assert_allclose(
        room.numpy(room.layers.softmax(x)), [[1 / 4, 3 / 4], [3 / 4, 1 / 4]], rtol=0, atol=1e-13
    )


@both_rooms
def test_softmax_of_a_row_of_nothing_is_zeros(room):
    x = room.array([[-np.inf, -np.inf], [-np.inf, 7.0]])
    np.testing.assert_array_equal(room.numpy(room.layers.softmax(x)), [[0, 0], [0, 1]])


@both_rooms
def test_causal_mask(room):
    mask = room.layers.causal_mask
    np.testing.assert_array_equal(room.numpy(mask(3)), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(room.numpy(mask(2, 4)), [[1, 1, 1, 0], [1, 1, 1, 1]])
    assert mask(1).dtype == room.dtype("bool")


@both_rooms
def test_window_mask(room):
    mask = room.layers.window_mask
    np.testing.assert_array_equal(
        room.numpy(mask(4, window=2)), [[1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]]
    )
    np.testing.assert_array_equal(room.numpy(mask(1, 4, window=3)), [[0, 1, 1, 1]])
    np.testing.assert_array_equal(room.numpy(mask(2, 3, window=1)), [[0, 1, 1], [0, 0, 1]])
    assert mask(1, window=1).dtype == room.dtype("bool")


@both_rooms
def test_attention(room):
    q = room.array([[2.0, 0.0, 0.0, 0.0]])  # √K = 2, so the scores are ln 3 and 0
    k = room.array([[LN3, 9.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0]])
    v = room.array([[4.0, 0.0, 1.0, 0.0], [0.0, 8.0, 1.0, 0.0]])
    attend = room.layers.scaled_dot_product_attention

    def results(**given):
        return [room.numpy(a) for a in attend(q, k, v, **{n: room.array(a) for n, a in given.items()})]

    for result, expected in zip(results(), ([[3, 2, 1, 0]], [[3 / 4, 1 / 4]]), strict=True):
        np.testing.assert_allclose(result, expected, **EXACT)
    # a bias of ln 3 for the second key makes the two scores equal
    for result, expected in zip(
        results(score_bias=[[0.0, LN3]]), ([[2, 4, 1, 0]], [[1 / 2, 1 / 2]]), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=0, atol=2e-15)
    for result, expected in zip(results(mask=[[False, True]]), ([[0, 8, 1, 0]], [[0, 1]]), strict=True):
        np.testing.assert_array_equal(result, expected)
    for result, expected in zip(results(mask=[[False, False]]), ([[0, 0, 0, 0]], [[0, 0]]), strict=True):
        np.testing.assert_array_equal(result, expected)


@both_rooms
def test_heads_are_runs_of_neighbouring_dimensions(room):
    x = room.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    heads = room.layers.split_heads(x, 2)
    np.testing.assert_array_equal(room.numpy(heads), [[[1, 2], [5, 6]], [[3, 4], [7, 8]]])
    np.testing.assert_array_equal(room.numpy(room.layers.merge_heads(heads)), room.numpy(x))


@both_rooms
def test_frequencies(room):
    np.testing.assert_allclose(room.numpy(room.layers.frequencies(6, base=1000.0)), [1, 0.1, 0.01], **EXACT)


@both_rooms
def test_sinusoidal(room):
    """base = 100 and D = 4: the angles are p and p/10, and the numbers sin 2, cos 2, sin 0.2, cos 0.2."""
    table = room.numpy(room.layers.sinusoidal(room.array([0, 2]), 4, base=100.0))
    expected = [
        [0, 1, 0, 1],
        [0.9092974268256817, -0.4161468365471424, 0.19866933079506122, 0.9800665778412416],
    ]
    np.testing.assert_allclose(table, expected, **EXACT)
    method = room.layers.SinusoidalPositions(4, base=100.0)
    x = room.array([[[10.0, 20.0, 30.0, 40.0]]])
    np.testing.assert_array_equal(room.numpy(method.embed(x)), [[[10, 21, 30, 41]]])
    np.testing.assert_allclose(
        room.numpy(method.embed(x, room.array([2]))) - room.numpy(x), [expected[1:]], rtol=0, atol=1e-14
    )


@both_rooms
def test_rotation_angles(room):
    angles = room.layers.rotation_angles(room.array([0, 6]), 4, base=100.0, interpolation=2.0)
    np.testing.assert_allclose(room.numpy(angles), [[0, 0], [3, 0.3]], **EXACT)


@both_rooms
def test_stretch(room):
    """Base 16 and 8 dimensions: pairs at 1, 1/2, 1/4, 1/8. In 16π positions they make 8, 4, 2 and 1 rotations."""
    stretch, L = room.layers.stretch, round(16 * math.pi * 1000)
    settings = {"base": 16.0, "interpolation": 4.0, "original_context": L}
    # 1,000 times as many positions make 1,000 times as many rotations
    settings |= {"slow": 2000.0, "fast": 6000.0}
    found = {
        scaling: room.numpy(stretch(8, scaling=scaling, **settings))
        for scaling in ("linear", "llama3", "yarn")
    }
    np.testing.assert_allclose(found["linear"], [0.25] * 4, **EXACT)
    # 4,000 rotations are half-way between the two: (1 + 1/4) / 2
    np.testing.assert_allclose(found["llama3"], [1, 0.625, 0.25, 0.25], rtol=0, atol=1e-5)
    # Pair log2(8/6) = 0.4 makes 6,000 rotations, and pair 2 makes 2,000 (in a context that was rounded down, an earlier
    # one): the ramp goes from pair 0 to pair 2
    ramp = [1, 1 / 2, 0, 0]
    np.testing.assert_allclose(found["yarn"], [kept + (1 - kept) / 4 for kept in ramp], **EXACT)


@both_rooms
def test_the_attention_factor_scales_queries_and_keys_so_scores_by_its_square(room):
    x = room.array([[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, 0.0]])
    plain, scaled = room.layers.RotaryPositions(4), room.layers.RotaryPositions(4, attention_factor=1.5)
    np.testing.assert_allclose(room.numpy(scaled.rotate(x)), 1.5 * room.numpy(plain.rotate(x)), rtol=1e-15)


@both_rooms
@pytest.mark.parametrize(
    ("layout", "expected"), [("half", [-3, -2, 1, -4]), ("interleaved", [-2, 1, -3, -4])]
)
def test_rotate(room, layout, expected):
    """Pair 0 makes a quarter turn, (a, b) -> (−b, a); pair 1 makes a half turn, (a, b) -> (−a, −b)."""
    x = room.array([[1.0, 2.0, 3.0, 4.0]])
    turned = room.layers.rotate(x, room.array([[math.pi / 2, math.pi]]), layout=layout)
    np.testing.assert_allclose(room.numpy(turned), [expected], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(room.numpy(x), [[1, 2, 3, 4]])


@both_rooms
def test_rotary_turns_by_position(room):
    """base = 1 and interpolation = 2/π: a quarter turn per position."""
    method = room.layers.RotaryPositions(2, base=1.0, interpolation=2 / math.pi)
    x = room.array([[1.0, 0.0]] * 3)
    np.testing.assert_allclose(room.numpy(method.rotate(x)), [[1, 0], [0, 1], [-1, 0]], rtol=0, atol=1e-15)
    turned = method.rotate(x, room.array([3, 0, 1]))
    np.testing.assert_allclose(room.numpy(turned), [[0, -1], [1, 0], [0, 1]], rtol=0, atol=1e-15)


@both_rooms
def test_relative_positions(room):
    relative = room.layers.relative_positions(room.array([4, 5]), room.array([3, 4, 5]))
    np.testing.assert_array_equal(room.numpy(relative), [[-1, 0, 1], [-2, -1, 0]])


@both_rooms
def test_alibi(room):
    def slopes(n_heads):
        return room.numpy(room.layers.alibi_slopes(n_heads)).tolist()

    assert slopes(1) == [1 / 256]
    assert slopes(2) == [1 / 16, 1 / 256]
    assert slopes(3) == [1 / 16, 1 / 256, 1 / 4]
    assert slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert slopes(6) == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    bias = room.layers.AlibiPositions(2).score_bias(room.array([2, 3]), room.array([1, 2, 3]))
    steep = np.array([[-1, 0, -1], [-2, -1, 0]]) / 16
    np.testing.assert_array_equal(room.numpy(bias), [steep, steep / 16])
    assert not np.signbit(room.numpy(bias)[0, 0, 1])  # 0, which prints better than −0


@both_rooms
def test_t5_buckets(room):
    def buckets(relative, **settings):
        return room.numpy(room.layers.t5_bucket(room.array(relative), **settings)).tolist()

    # Four buckets a side: distances 0 and 1 have their own; then 2 + ⌊2·log(d/2)/log 8⌋, 3 from 2√8 = 5.7 on.
    both_ways = {"bidirectional": True, "n_buckets": 8, "max_distance": 16}
    assert buckets([0, -1, -2, -3, -4, -5, -6, -15, -16, -99], **both_ways) == [0, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    assert buckets([1, 2, 5, 6, 99], **both_ways) == [5, 6, 6, 7, 7]
    # Four buckets for the past: 2 + ⌊2·log(d/2)/log 4⌋, so 3 from distance 4. The future is bucket 0.
    backwards = {"bidirectional": False, "n_buckets": 4, "max_distance": 8}
    assert buckets([2, 1, 0, -1, -2, -3, -4, -8], **backwards) == [0, 0, 0, 1, 2, 2, 3, 3]


@both_rooms
def test_t5_bias(room):
    method = room.layers.T5Positions(2, bidirectional=False, n_buckets=2, max_distance=2, **room.parameters())
    room.load(method, weight=np.array([[10.0, 20.0], [30.0, 40.0]]))  # bucket 0: here; bucket 1: before
    bias = room.numpy(method.score_bias(room.array([0, 1]), room.array([0, 1])))
    np.testing.assert_array_equal(bias, [[[10, 10], [30, 10]], [[20, 20], [40, 20]]])


@both_rooms
def test_learned(room):
    method = room.layers.LearnedPositions(3, 2, **room.parameters())
    room.load(method, weight=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    x = room.array([[10.0, 20.0], [30.0, 40.0]])
    np.testing.assert_array_equal(room.numpy(method.embed(x)), [[11, 22], [33, 44]])
    np.testing.assert_array_equal(room.numpy(method.embed(x, room.array([2, 0]))), [[15, 26], [31, 42]])


@both_rooms
def test_no_positions(room):
    method = room.layers.NoPositions()
    x = room.array([[1.0, 2.0]])
    assert method.embed(x) is x
    assert method.rotate(x) is x
    assert method.score_bias(room.array([0]), room.array([0])) is None


@both_rooms
def test_rotary_attention(room):
    """Dimensions i and i + K/2 are one complex number, which a position rotates in queries and keys, not in values."""
    layer, x = Layer(room, "rope", D=4, H=1), np.random.default_rng(1).normal(size=(3, 4))
    q, k, v = (x @ room.weight(layer.attention, name) for name in ("W_q", "W_k", "W_v"))
    turned = np.exp(1j * np.outer(range(3), [1, 0.01]))
    q, k = ((each[:, :2] + 1j * each[:, 2:]) * turned for each in (q, k))
    weights = np.exp((q @ k.conj().T).real / 2)
    expected = weights / weights.sum(axis=1, keepdims=True) @ v @ room.weight(layer.attention, "W_o")
    np.testing.assert_allclose(layer(x), expected, rtol=0, atol=1e-14)


@both_rooms
def test_the_post_norm_transformer_is_what_its_formulas_say(room):
    """Written out again, plainly: sinusoids, ReLU, (x − μ)/(σ + ε), the norm after each sum, no norm at the end."""
    config = GPT2.replace(
        positions="sinusoidal",
        norm="layernorm_sigma",
        norm_eps=1e-6,
        norm_placement="post",
        attention_bias="none",
        feedforward="relu",
        head="untied",
    )
    model = build(room, config)
    w = {name: room.numpy(weight) for name, weight in model.state_dict().items()}
    ids = np.array([5, 2, 7, 3, 9])
    T, D, H = len(ids), config.d_model, config.n_heads
    K = D // H

    def norm(x, name):
        standard = (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-6)
        return w[f"{name}.weight"] * standard + w[f"{name}.bias"]

    x = w["token_embedding.weight"][ids]
    for t in range(T):
        for i in range(D):
            angle = t / 10_000 ** (2 * (i // 2) / D)
            x[t, i] += np.cos(angle) if i % 2 else np.sin(angle)
    for n in range(config.n_layers):
        at = f"decoder.blocks.{n}"
        q, k, v = (x @ w[f"{at}.attention.W_{name}.weight"] for name in "qkv")
        heads = []
        for h in range(H):
            part = slice(h * K, (h + 1) * K)
            scores = q[:, part] @ k[:, part].T / np.sqrt(K)
            scores[np.triu_indices(T, 1)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        x = norm(x + np.concatenate(heads, -1) @ w[f"{at}.attention.W_o.weight"], f"{at}.norm_attention")
        feed = f"{at}.feedforward"
        hidden = np.maximum(0, x @ w[f"{feed}.W_up.weight"] + w[f"{feed}.W_up.bias"])
        x = norm(x + hidden @ w[f"{feed}.W_down.weight"] + w[f"{feed}.W_down.bias"], f"{at}.norm_feedforward")
    assert_close(run(room, model, {"ids": ids}), x @ w["unembedding.weight"], DOUBLE)
