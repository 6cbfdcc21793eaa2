"""Tests that each export of widgets/kit/maths.js agrees with the Python function of the same name."""

import itertools

import numpy as np
import pytest

from glassformer import scratch
from glassformer.config import ROPE_BASE
from glassformer.widgets import ClockHands, PositionHeatmap

EXACT = {"rtol": 0, "atol": 1e-12}
SIZES = [(1, 2), (1, 6), (3, 2), (5, 6), (7, 10), (17, 16), (33, 64)]  # (T, D), T odd and even, T = 1
POSITIONS = [0, 1, 2, 7, 31, 100, 600, 1023]


def rng(*key):
    return np.random.default_rng(key)


def test_the_base_is_that_of_the_package(call):
    position = call("maths", "sinusoidal", [3], 8)
    assert position == call("maths", "sinusoidal", [3], 8, ROPE_BASE)
    assert position != call("maths", "sinusoidal", [3], 8, ROPE_BASE + 1)
    assert ClockHands().base == PositionHeatmap().base == ROPE_BASE


def same():
    """Yields (function, arguments, what scratch or a calculation by hand makes of them)."""
    for size in (1, 2, 3, 10, 129):
        row = rng(size).normal(size=size) * 10
        yield "softmax", [row], scratch.softmax(row)
    yield "softmax", [[1e4, 1e4]], [0.5, 0.5]
    yield "softmax", [[-1e4, 0.0]], [0, 1]
    yield "softmax", [[-np.inf] * 3], [0, 0, 0]  # a query that sees nothing
    yield "softmax", [[-np.inf, 2.0]], [0, 1]
    for size, count in ((1, 3), (5, 2), (5, 5), (40, 4)):
        numbers = rng(size).integers(-3, 4, size) / 2  # some of them equal
        yield "largest", [numbers, count], np.argsort(-numbers, kind="stable")[:count]
    A, B = rng(1).normal(size=(3, 4)), rng(2).normal(size=(4, 5))
    yield "matmul", [A, B], A @ B
    yield "transpose", [A], A.T
    yield "dot", [A[0], A[1]], A[0] @ A[1]
    yield "range", [3], [0, 1, 2]
    for T in (1, 2, 5):
        yield "causalMask", [T], scratch.causal_mask(T)
    for d_model, base in itertools.product((2, 4, 6, 10, 64, 128), (10.0, 100.0, 10_000.0, 1e6)):
        expected = scratch.sinusoidal(np.array(POSITIONS), d_model, base=base)
        yield "sinusoidal", [POSITIONS, d_model, base], expected
    broken = [-17.0, -0.5, 0.25]
    yield "sinusoidal", [broken, 6], scratch.sinusoidal(np.array(broken), 6)
    for (T, K), layout in itertools.product(SIZES, ("half", "interleaved")):
        x, angles = rng(T, K).normal(size=(T, K)), scratch.rotation_angles(np.arange(T) * 37, K)
        yield "rotate", [x, angles, layout], scratch.rotate(x, angles, layout=layout)
    yield "rotate", [x, angles], scratch.rotate(x, angles, layout="half")  # that of Llama, unless told
    for n in (*range(1, 21), 32, 48, 64):
        yield "alibiSlopes", [n], scratch.alibi_slopes(n)
    for d_model, base in ((4, 10.0), (6, 100.0), (64, 100.0), (128, 10_000.0)):
        (expected,) = scratch.rotation_angles(np.array([1]), d_model, base=base)
        yield "frequencies", [d_model, base], expected
        yield "wavelengths", [d_model, base], 2 * np.pi / expected


SAME = list(same())
EXACTLY = {"alibiSlopes", "frequencies", "wavelengths"}  # up to the last digit, also of small numbers


@pytest.mark.parametrize("case", SAME, ids=[name for name, *_ in SAME])
def test_what_scratch_computes(call, case):
    name, given, expected = case
    found = call("maths", name, *(one.tolist() if isinstance(one, np.ndarray) else one for one in given))
    np.testing.assert_allclose(found, expected, **({"rtol": 1e-15} if name in EXACTLY else EXACT))


# --- attention ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("T", "S", "K"), [(1, 1, 1), (1, 4, 3), (4, 1, 2), (5, 7, 3), (6, 6, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(call, T, S, K, masked):
    draw = rng(T, S, K)
    q, k, v = draw.normal(size=(T, K)), draw.normal(size=(S, K)), draw.normal(size=(S, K))
    mask = draw.random((T, S)) < 0.6 if masked else None
    output, weights = scratch.scaled_dot_product_attention(q, k, v, mask=mask)
    options = {"mask": None if mask is None else mask.tolist()}
    found = call("maths", "attention", q.tolist(), k.tolist(), v.tolist(), options)
    np.testing.assert_allclose(found["weights"], weights, **EXACT)
    np.testing.assert_allclose(found["output"], output, **EXACT)


def test_attention_needs_no_options(call):
    one = [[1.0, 2.0]]
    assert call("maths", "attention", one, one, one) == {"weights": [[1]], "output": one}


# --- positions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("n_buckets", "max_distance"), [(32, 128), (32, 64), (16, 128), (8, 20), (4, 3), (64, 1000)]
)
def test_t5_bucket(call, bidirectional, n_buckets, max_distance):
    relative = np.arange(-2 * max_distance, 2 * max_distance + 1)
    options = {"bidirectional": bidirectional, "nBuckets": n_buckets, "maxDistance": max_distance}
    found = call.each("maths", "t5Bucket", [[r, options] for r in relative.tolist()])
    expected = scratch.t5_bucket(
        relative, bidirectional=bidirectional, n_buckets=n_buckets, max_distance=max_distance
    )
    assert found == expected.tolist()


def test_t5_bucket_has_the_published_sizes_unless_told(call):
    expected = scratch.t5_bucket(np.array([-90]), bidirectional=False).item()
    assert call("maths", "t5Bucket", -90, {"bidirectional": False}) == expected


# --- how similar the rows of the sinusoidal table are -------------------------------------------------------


@pytest.mark.parametrize(("d_model", "base"), [(4, 10.0), (6, 100.0), (64, 100.0), (128, 10_000.0)])
def test_similarities_are_the_cosines_of_two_rows(call, d_model, base):
    table = scratch.sinusoidal(np.arange(700), d_model, base=base)
    for row, others in ((0, np.arange(700)), (600, np.arange(600, -1, -1)), (600, np.arange(600, 700))):
        cosine = table @ table[row] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[row])
        found = call("maths", "similarities", len(others), d_model, base)
        np.testing.assert_allclose(found, cosine[others], **EXACT)


def deceptions(similar):
    """Returns every (far, near) whose farther row is more similar, by at least 0.001."""
    near, far = np.triu_indices(len(similar), 1)
    true = (near > 0) & (similar[near] <= similar[far] - 0.001)
    return {"far": far[true], "near": near[true]}


@pytest.mark.parametrize(
    ("n", "d_model", "base"),
    [(600, 64, 100.0), (424, 64, 10_000.0), (300, 8, 100.0), (16, 4, 20.0), (104, 64, 1e4), (40, 4, 10.0)],
)
def test_what_a_table_is_worth_as_a_ruler(call, n, d_model, base):
    table = scratch.sinusoidal(np.arange(n), d_model, base=base)
    similar = table @ table[0] / (d_model / 2)
    found = call("maths", "ruler", similar.tolist())
    rising = np.flatnonzero(np.diff(similar) > 0)
    assert (found["falls"], found["rises"]) == (rising[0], len(rising))
    assert found["most"] == 1 + similar[1:].argmax()
    pairs = deceptions(similar)
    factor = pairs["far"] / pairs["near"]
    assert found["deceives"]["far"] / found["deceives"]["near"] == factor.max()
    assert (found["deceives"]["far"], found["deceives"]["near"]) in set(
        zip(pairs["far"].tolist(), pairs["near"].tolist(), strict=True)
    )


def test_a_ruler_that_never_deceives(call):
    found = call("maths", "ruler", [1, 0.9, 0.8, 0.7])
    assert found == {"most": 1, "falls": 3, "rises": 0, "deceives": None}
    found = call("maths", "ruler", [1, 0.9, 0.8, 0.8005])  # a rise that three decimals may not show
    assert found == {"most": 1, "falls": 2, "rises": 1, "deceives": None}
    found = call("maths", "ruler", [1, 0.9, 0.8, 0.802])
    assert found["deceives"] == {"far": 3, "near": 2}
