"""What a reader meets who passes something wrong: an error naming the argument, its value and the rule."""

import jaxtyping
import numpy as np
import pytest

from .rooms import METHODS, Layer, both_rooms


def attention(room, **changed):
    return room.layers.MultiHeadAttention(**{"d_model": 12, "n_heads": 3, **room.parameters(), **changed})


def t5(room, n_heads=2, **changed):
    return room.layers.T5Positions(n_heads, **{"bidirectional": True, **room.parameters(), **changed})


def attend(room, q=(5, 4), k=(6, 4), v=(6, 4), **given):
    q, k, v = (room.array(np.ones(shape)) for shape in (q, k, v))
    return room.layers.scaled_dot_product_attention(q, k, v, **given)


def ones(room, *shape, dtype="float64"):
    return room.array(np.ones(shape), dtype)


# name: (what to call, the error, its message from beginning to end)
CASES = {
    # token embedding
    "vocab_size": (
        lambda r: r.layers.TokenEmbedding(0, 4, **r.parameters()),
        ValueError,
        "vocab_size=0 must be at least 1",
    ),
    "vocab_size kind": (
        lambda r: r.layers.TokenEmbedding(3.0, 4, **r.parameters()),
        TypeError,
        "vocab_size=3.0 must be a whole number",
    ),
    "embedding d_model": (
        lambda r: r.layers.TokenEmbedding(3, -4, **r.parameters()),
        ValueError,
        "d_model=-4 must be at least 1",
    ),
    "id too large": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([[0, 2, 1], [2, 3, 7]])),
        ValueError,
        "ids[1, 1]=3 is outside 0..2 (vocab_size=3)",
    ),
    "id negative": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([0, -1])),
        ValueError,
        "ids[1]=-1 is outside 0..2 (vocab_size=3)",
    ),
    "ids float": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([0.0, 1.0])),
        TypeError,
        "ids must be an array of integers, not float64",
    ),
    "ids bool": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())(r.array([True, False])),
        TypeError,
        "ids must be an array of integers, not bool",
    ),
    "ids list": (
        lambda r: r.layers.TokenEmbedding(3, 4, **r.parameters())([0, 1]),
        TypeError,
        "ids must be an array of integers, not list",
    ),
    # frequencies and the sinusoidal table
    "frequencies odd": (
        lambda r: r.layers.frequencies(7),
        ValueError,
        "d=7 is odd: sines and cosines come in pairs of dimensions",
    ),
    "frequencies base": (
        lambda r: r.layers.frequencies(8, base=-2.0),
        ValueError,
        "base=-2.0 must be positive and finite",
    ),
    "sinusoidal odd": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 7),
        ValueError,
        "d_model=7 is odd: sines and cosines come in pairs of dimensions",
    ),
    "sinusoidal zero": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 0),
        ValueError,
        "d_model=0 must be at least 1",
    ),
    "sinusoidal base": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 8, base=float("inf")),
        ValueError,
        "base=inf must be positive and finite",
    ),
    "sinusoidal base NaN": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 8, base=float("nan")),
        ValueError,
        "base=nan must be positive and finite",
    ),
    "sinusoidal base kind": (
        lambda r: r.layers.sinusoidal(r.array([0, 1]), 8, base="10000"),
        TypeError,
        "base='10000' must be a number",
    ),
    "sinusoidal positions": (
        lambda r: r.layers.sinusoidal(r.array([[0, 1]]), 8),
        ValueError,
        "positions has shape (1, 2), but needs exactly one axis",
    ),
    "sinusoidal list": (
        lambda r: r.layers.sinusoidal([0, 1], 8),
        TypeError,
        "positions must be an array, not list",
    ),
    "SinusoidalPositions odd": (
        lambda r: r.layers.SinusoidalPositions(7),
        ValueError,
        "d_model=7 is odd: sines and cosines come in pairs of dimensions",
    ),
    "SinusoidalPositions base": (
        lambda r: r.layers.SinusoidalPositions(8, base=0.0),
        ValueError,
        "base=0.0 must be positive and finite",
    ),
    "SinusoidalPositions width": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 5, 6)),
        ValueError,
        "x.shape[-1]=6 does not match d_model=8",
    ),
    "SinusoidalPositions ints": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 5, 8, dtype="int64")),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "SinusoidalPositions one axis": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 8)),
        ValueError,
        "x has shape (8,), but needs the axes (..., T, D)",
    ),
    "SinusoidalPositions positions": (
        lambda r: r.layers.SinusoidalPositions(8).embed(ones(r, 5, 8), r.array([0, 1])),
        ValueError,
        "positions has 2 entries, but there are 5 rows to place",
    ),
    # learned
    "context_length": (
        lambda r: r.layers.LearnedPositions(0, 8, **r.parameters()),
        ValueError,
        "context_length=0 must be at least 1",
    ),
    "learned d_model": (
        lambda r: r.layers.LearnedPositions(4, 0, **r.parameters()),
        ValueError,
        "d_model=0 must be at least 1",
    ),
    "beyond the context": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 5, 8)),
        ValueError,
        "positions[4]=4 is outside 0..3 (context_length=4)",
    ),
    "learned negative": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 8), r.array([0, -1])),
        ValueError,
        "positions[1]=-1 is outside 0..3 (context_length=4)",
    ),
    "learned float": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 8), r.array([0.0, 1.0])),
        TypeError,
        "positions must be an array of integers, not float64",
    ),
    "learned width": (
        lambda r: r.layers.LearnedPositions(4, 8, **r.parameters()).embed(ones(r, 2, 6)),
        ValueError,
        "x.shape[-1]=6 does not match d_model=8",
    ),
    # rotary
    "angles odd": (
        lambda r: r.layers.rotation_angles(r.array([0, 1]), 5),
        ValueError,
        "d_head=5 is odd: sines and cosines come in pairs of dimensions",
    ),
    "angles interpolation": (
        lambda r: r.layers.rotation_angles(r.array([0, 1]), 4, interpolation=0.0),
        ValueError,
        "interpolation=0.0 must be positive and finite",
    ),
    "angles base": (
        lambda r: r.layers.rotation_angles(r.array([0, 1]), 4, base=0.0),
        ValueError,
        "base=0.0 must be positive and finite",
    ),
    "angles positions": (
        lambda r: r.layers.rotation_angles(r.array(3), 4),
        ValueError,
        "positions has shape (), but needs exactly one axis",
    ),
    "rotate layout": (
        lambda r: r.layers.rotate(ones(r, 2, 4), ones(r, 2, 2), layout="halves"),
        ValueError,
        "layout='halves' is not one of 'half', 'interleaved'",
    ),
    "rotate angles": (
        lambda r: r.layers.rotate(ones(r, 3, 4), ones(r, 1, 2)),
        ValueError,
        "angles.shape=(1, 2) does not match (T, d_head/2)=(3, 2)",
    ),
    "rotate odd": (
        lambda r: r.layers.rotate(ones(r, 3, 5), ones(r, 3, 2)),
        ValueError,
        "d_head=5 is odd: sines and cosines come in pairs of dimensions",
    ),
    "rotate ints": (
        lambda r: r.layers.rotate(ones(r, 3, 4, dtype="int64"), ones(r, 3, 2)),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "rotate one axis": (
        lambda r: r.layers.rotate(ones(r, 4), ones(r, 2)),
        ValueError,
        "x has shape (4,), but needs the axes (..., T, K)",
    ),
    "RotaryPositions odd": (
        lambda r: r.layers.RotaryPositions(5),
        ValueError,
        "d_head=5 is odd: sines and cosines come in pairs of dimensions",
    ),
    "RotaryPositions layout": (
        lambda r: r.layers.RotaryPositions(4, layout="rotary"),
        ValueError,
        "layout='rotary' is not one of 'half', 'interleaved'",
    ),
    "RotaryPositions base": (
        lambda r: r.layers.RotaryPositions(4, base=-1.0),
        ValueError,
        "base=-1.0 must be positive and finite",
    ),
    "RotaryPositions interpolation": (
        lambda r: r.layers.RotaryPositions(4, interpolation=-1.0),
        ValueError,
        "interpolation=-1.0 must be positive and finite",
    ),
    "RotaryPositions width": (
        lambda r: r.layers.RotaryPositions(4).rotate(ones(r, 2, 5, 6)),
        ValueError,
        "x.shape[-1]=6 does not match d_head=4",
    ),
    "RotaryPositions positions": (
        lambda r: r.layers.RotaryPositions(4).rotate(ones(r, 5, 4), r.array([[0, 1, 2, 3, 4]])),
        ValueError,
        "positions has shape (1, 5), but needs exactly one axis",
    ),
    "RotaryPositions floats": (
        lambda r: r.layers.RotaryPositions(4).rotate(ones(r, 2, 4), r.array([0.0, 1.0])),
        TypeError,
        "positions must be an array of integers, not float64",
    ),
    # relative
    "relative floats": (
        lambda r: r.layers.relative_positions(r.array([0.5]), r.array([1])),
        TypeError,
        "query_positions must be an array of integers, not float64",
    ),
    "relative axes": (
        lambda r: r.layers.relative_positions(r.array([0]), r.array([[1]])),
        ValueError,
        "key_positions has shape (1, 1), but needs exactly one axis",
    ),
    "slopes": (
        lambda r: r.layers.alibi_slopes(0),
        ValueError,
        "n_heads=0 must be at least 1",
    ),
    "slopes kind": (
        lambda r: r.layers.alibi_slopes(2.0),
        TypeError,
        "n_heads=2.0 must be a whole number",
    ),
    "AlibiPositions": (
        lambda r: r.layers.AlibiPositions(-1),
        ValueError,
        "n_heads=-1 must be at least 1",
    ),
    "buckets float": (
        lambda r: r.layers.t5_bucket(r.array([0.5]), bidirectional=True),
        TypeError,
        "relative_positions must be an array of integers, not float64",
    ),
    "buckets odd": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=True, n_buckets=31),
        ValueError,
        "n_buckets=31 is odd: with bidirectional=True, past and future have half the buckets each",
    ),
    "buckets few": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=True, n_buckets=2),
        ValueError,
        "n_buckets=2 must be at least 4",
    ),
    "buckets one": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=False, n_buckets=1),
        ValueError,
        "n_buckets=1 must be at least 2",
    ),
    "max_distance": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=False, max_distance=16),
        ValueError,
        "max_distance=16 must exceed the 16 distances that have their own bucket "
        "(n_buckets=32, bidirectional=False)",
    ),
    "max_distance both ways": (
        lambda r: r.layers.t5_bucket(r.array([1]), bidirectional=True, max_distance=8),
        ValueError,
        "max_distance=8 must exceed the 8 distances that have their own bucket "
        "(n_buckets=32, bidirectional=True)",
    ),
    "T5Positions heads": (lambda r: t5(r, 0), ValueError, "n_heads=0 must be at least 1"),
    "T5Positions buckets": (
        lambda r: t5(r, n_buckets=9),
        ValueError,
        "n_buckets=9 is odd: with bidirectional=True, past and future have half the buckets each",
    ),
    "T5Positions distance": (
        lambda r: t5(r, max_distance=2.5),
        TypeError,
        "max_distance=2.5 must be a whole number",
    ),
    # attention
    "softmax ints": (
        lambda r: r.layers.softmax(r.array([1, 2])),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "softmax empty": (
        lambda r: r.layers.softmax(ones(r, 3, 0)),
        ValueError,
        "x.shape[-1]=0 must be at least 1",
    ),
    "mask queries": (lambda r: r.layers.causal_mask(0), ValueError, "n_queries=0 must be at least 1"),
    "mask keys": (lambda r: r.layers.causal_mask(3, 2), ValueError, "n_keys=2 must be at least 3"),
    "no key": (
        lambda r: attend(r, k=(0, 4), v=(0, 4)),
        ValueError,
        "q (5, 4), k (0, 4), v (0, 4): there is no key to attend to",
    ),
    "q and k": (
        lambda r: attend(r, q=(5, 8)),
        ValueError,
        "q (5, 8), k (6, 4), v (6, 4): q and k must agree on the last axis, d_head",
    ),
    "q and k leading": (
        lambda r: attend(r, q=(2, 5, 4)),
        ValueError,
        "q (2, 5, 4), k (6, 4), v (6, 4): q and k must agree on every axis but the one of positions, T or S",
    ),
    "k and v": (
        lambda r: attend(r, v=(1, 4)),
        ValueError,
        "q (5, 4), k (6, 4), v (1, 4): every key needs one value, so k and v must have the same shape",
    ),
    "q flat": (
        lambda r: attend(r, q=(4,)),
        ValueError,
        "q (4,), k (6, 4), v (6, 4): each needs two axes or more, (..., T, K)",
    ),
    "q ints": (
        lambda r: r.layers.scaled_dot_product_attention(*[ones(r, 2, 4, dtype="int64")] * 3),
        TypeError,
        "q must be an array of floating-point numbers, not int64",
    ),
    "mask of numbers": (
        lambda r: attend(r, mask=ones(r, 5, 6)),
        TypeError,
        "mask must be an array of booleans (True = may attend), not float64",
    ),
    "mask of ints": (
        lambda r: attend(r, mask=ones(r, 5, 6, dtype="int64")),
        TypeError,
        "mask must be an array of booleans (True = may attend), not int64",
    ),
    "mask shape": (
        lambda r: attend(r, mask=ones(r, 6, 5, dtype="bool")),
        ValueError,
        "mask of shape (6, 5) does not broadcast to the scores' (5, 6)",
    ),
    "mask too many axes": (
        lambda r: attend(r, mask=ones(r, 1, 5, 6, dtype="bool")),
        ValueError,
        "mask of shape (1, 5, 6) does not broadcast to the scores' (5, 6)",
    ),
    "bias shape": (
        lambda r: attend(r, bias=ones(r, 3, 5, 6)),
        ValueError,
        "bias of shape (3, 5, 6) does not broadcast to the scores' (5, 6)",
    ),
    "bias ints": (
        lambda r: attend(r, bias=ones(r, 5, 6, dtype="int64")),
        TypeError,
        "bias must be an array of floating-point numbers, not int64",
    ),
    "split": (
        lambda r: r.layers.split_heads(ones(r, 5, 8), 3),
        ValueError,
        "d_model=8 is not divisible by n_heads=3",
    ),
    "split one axis": (
        lambda r: r.layers.split_heads(ones(r, 8), 2),
        ValueError,
        "x has shape (8,), but needs the axes (..., T, D)",
    ),
    "merge two axes": (
        lambda r: r.layers.merge_heads(ones(r, 5, 4)),
        ValueError,
        "x has shape (5, 4), but needs the axes (..., H, T, K)",
    ),
    "n_heads does not divide": (
        lambda r: attention(r, d_model=50, n_heads=4),
        ValueError,
        "d_model=50 is not divisible by n_heads=4",
    ),
    "n_heads zero": (lambda r: attention(r, n_heads=0), ValueError, "n_heads=0 must be at least 1"),
    "another n_heads": (
        lambda r: attention(r, positions=r.layers.AlibiPositions(1)),
        ValueError,
        "positions.n_heads=1 does not match n_heads=3",
    ),
    "another d_head": (
        lambda r: attention(r, positions=r.layers.RotaryPositions(6)),
        ValueError,
        "positions.d_head=6 does not match d_head=4",
    ),
    "attention width": (
        lambda r: attention(r)(ones(r, 5, 10)),
        ValueError,
        "x.shape[-1]=10 does not match d_model=12",
    ),
    "attention one axis": (
        lambda r: attention(r)(ones(r, 12)),
        ValueError,
        "x has shape (12,), but needs the axes (..., T, D)",
    ),
    "attention ints": (
        lambda r: attention(r)(ones(r, 5, 12, dtype="int64")),
        TypeError,
        "x must be an array of floating-point numbers, not int64",
    ),
    "attention empty": (
        lambda r: attention(r)(ones(r, 0, 12)),
        ValueError,
        "q (3, 0, 4), k (3, 0, 4), v (3, 0, 4): there is no key to attend to",
    ),
    "attention positions": (
        lambda r: attention(r)(ones(r, 5, 12), positions=r.array([0, 1, 2])),
        ValueError,
        "positions has 3 entries, but there are 5 rows to place",
    ),
    "attention positions kind": (
        lambda r: attention(r).weights(ones(r, 2, 12), positions=r.array([0.0, 1.0])),
        TypeError,
        "positions must be an array of integers, not float64",
    ),
    "attention mask": (
        lambda r: attention(r, causal=True)(ones(r, 2, 5, 12), mask=ones(r, 4, 4, dtype="bool")),
        ValueError,
        "mask of shape (4, 4) does not broadcast to the scores' (2, 3, 5, 5)",
    ),
    "attention mask kind": (
        lambda r: attention(r, causal=True)(ones(r, 2, 5, 12), mask=ones(r, 5, 5)),
        TypeError,
        "mask must be an array of booleans (True = may attend), not float64",
    ),
}


@both_rooms
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("as_readers_run_it")
def test_the_message_names_argument_value_and_rule(room, case):
    call, error, message = CASES[case]
    with pytest.raises(error) as caught:
        call(room)
    assert str(caught.value) == message


@both_rooms
def test_while_the_tests_run_annotations_are_enforced(room, request):
    """What the fixture switches off is there: without it a call meets jaxtyping, with it our own check."""

    def call():
        return room.layers.SinusoidalPositions(8).embed(ones(room, 8))

    with pytest.raises(jaxtyping.TypeCheckError):
        call()
    request.getfixturevalue("as_readers_run_it")
    with pytest.raises(ValueError, match="needs the axes"):
        call()


@both_rooms
@pytest.mark.parametrize("method", METHODS)
def test_an_input_is_never_changed(room, method):
    x = room.array(np.random.default_rng(0).normal(size=(2, 5, 24)))
    kept = room.numpy(x).copy()
    layer = Layer(room, method)
    weight = room.numpy(layer.method.weight).copy() if hasattr(layer.method, "weight") else None
    positions, mask = room.array(np.arange(5)), room.array(np.tri(5, dtype=bool))
    layer.attention(layer.method.embed(x, positions), positions=positions, mask=mask)
    np.testing.assert_array_equal(room.numpy(x), kept)
    np.testing.assert_array_equal(room.numpy(positions), np.arange(5))
    np.testing.assert_array_equal(room.numpy(mask), np.tri(5, dtype=bool))
    if weight is not None:
        np.testing.assert_array_equal(room.numpy(layer.method.weight), weight)


# NaN goes where the docstrings say that it goes


@both_rooms
def test_softmax_of_a_row_with_nan_or_infinity_is_nan(room):
    x = room.array([[1.0, np.nan], [1.0, 2.0], [-np.inf, np.nan]])
    bad = np.isnan(room.numpy(room.layers.softmax(x)))
    np.testing.assert_array_equal(bad, [[1, 1], [0, 0], [1, 1]])
    with np.errstate(invalid="ignore"):
        assert np.isnan(room.numpy(room.layers.softmax(room.array([1.0, np.inf])))).all()


@both_rooms
@pytest.mark.parametrize(
    ("where", "rows"),
    [("q", [0, 0, 1, 0]), ("k", [0, 0, 1, 1]), ("v", [1, 1, 1, 1])],
)
def test_a_mask_is_no_wall_against_nan(room, where, rows):
    """At position 2 of 4, causal: a query keeps it, a key gives it to those who look, a value to all."""
    arrays = dict(zip("qkv", np.random.default_rng(0).normal(size=(3, 4, 6)), strict=True))
    arrays[where][2] = np.nan
    output, _ = room.layers.scaled_dot_product_attention(
        *(room.array(arrays[name]) for name in "qkv"), mask=room.layers.causal_mask(4)
    )
    output = np.isnan(room.numpy(output))
    np.testing.assert_array_equal(output, np.array(rows, bool)[:, None] & np.ones(6, bool))


@both_rooms
def test_a_nan_in_one_row_of_the_input_reaches_every_row(room):
    x = np.random.default_rng(0).normal(size=(4, 24))
    x[3, 0] = np.nan
    assert np.isnan(Layer(room, "rope", causal=True)(x)).all()
