"""Tests DistanceBias: it shows the slopes and buckets of `scratch` in every cell and in every row of the tables."""

import itertools
import math
import re
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from glassformer.chapters.ch04.distance_bias import DistanceBias
from glassformer.scratch import AlibiPositions, alibi_slopes, relative_positions, softmax, t5_bucket

T5_SETTINGS = list(itertools.product([False, True], [8, 16, 32], [32, 64, 128]))


def bucket(relative, settings):
    bidirectional, n_buckets, max_distance = settings
    return t5_bucket(
        np.asarray(relative), bidirectional=bidirectional, n_buckets=n_buckets, max_distance=max_distance
    )


def t5(settings, **traits):
    bidirectional, n_buckets, max_distance = settings
    return DistanceBias(
        method="t5", bidirectional=bidirectional, n_buckets=n_buckets, max_distance=max_distance, **traits
    )


# --- the numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", range(1, 17))
def test_alibi_is_pythons(call, n_heads):
    length = 8 + 3 * n_heads
    positions = np.arange(length)
    bias = AlibiPositions(n_heads).score_bias(positions, positions)
    slopes, back = alibi_slopes(n_heads).tolist(), (positions[-1] - positions).tolist()
    got = call.each("distance_bias", "alibiBias", [[slope, b] for slope in slopes for b in back])
    np.testing.assert_allclose(np.reshape(got, (n_heads, length)), bias[:, -1], rtol=0, atol=1e-12)
    got = call.each("distance_bias", "lastQueryWeights", [[slope, length] for slope in slopes])
    np.testing.assert_allclose(got, softmax(bias[:, -1]), rtol=0, atol=1e-12)


def test_the_window_is_the_fewest_nearest_keys_that_hold_the_share(call):
    asked, fewest = [], []
    for n_heads, length, share in itertools.product([1, 8, 12], [8, 33, 64], [0.5, 0.9]):
        for slope in alibi_slopes(n_heads).tolist():
            weights = softmax(-slope * np.arange(length)[::-1])
            asked.append([weights.tolist(), share])
            fewest.append(1 + int(np.searchsorted(np.cumsum(weights[::-1]), share)))
    assert call.each("distance_bias", "windowSize", asked) == fewest
    assert call("distance_bias", "windowSize", [0.5, 0.5], 1.1) == 2


@pytest.mark.parametrize("settings", T5_SETTINGS)
def test_the_staircase_is_pythons(call, settings):
    bidirectional, n_buckets, max_distance = settings
    names = {"bidirectional": bidirectional, "nBuckets": n_buckets, "maxDistance": max_distance}
    steps = call("distance_bias", "staircase", -150, 150, names)
    flat = [step["bucket"] for step in steps for _ in range(step["from"], step["to"] + 1)]
    assert flat == bucket(np.arange(-150, 151), settings).tolist()
    assert all(a["bucket"] != b["bucket"] for a, b in itertools.pairwise(steps))


# --- ALiBi ------------------------------------------------------------------------------------------------


def number(x, digits):
    """Returns a number as the browser writes it: halves are rounded up, and zero has no minus sign."""
    text = str(Decimal(float(x)).quantize(Decimal(10) ** -digits, ROUND_HALF_UP))
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def small(x):
    return f"{x:.2f}" if x >= 0.01 or x == 0 else f"{x:.1e}".replace("e-0", "e-").replace("-", "−")


def slope_text(slope):
    return (
        f"1/{round(1 / slope)}"
        if math.isclose(1 / slope, round(1 / slope), rel_tol=1e-12)
        else f"{slope:#.3g}"
    )


def test_default_state_makes_the_point(mount):
    w = mount(DistanceBias())
    assert w.says == (
        "Head 2 (of heads 0 to 7), slope 1/8: key 18 is 6 positions before query 24. "
        "The bias of −0.75 multiplies e^score by 0.47, before softmax divides by the sum."
    )
    assert w.label == (
        "ALiBi, head 2 of 0 to 7: the penalty grows by 1/8 per position. "
        "From this bias alone, the last of 32 queries gives 90 percent of its attention to the nearest 18 keys."
    )


CELLS = [
    (5, 5, "key 5 is at the query’s own position. The bias is 0."),
    (5, 9, "key 9 is 4 positions after query 5, so the causal mask hides it."),
    (5, 6, "key 6 is 1 position after query 5, so the causal mask hides it."),
    (
        5,
        4,
        "key 4 is 1 position before query 5. The bias of −0.25 multiplies e^score by 0.78, "
        "before softmax divides by the sum.",
    ),
    (
        31,
        0,
        "key 0 is 31 positions before query 31. The bias of −7.75 multiplies e^score by 4.3e−4, "
        "before softmax divides by the sum.",
    ),
]


def test_what_alibi_says_of_a_cell(mount):
    w = mount(DistanceBias(head=1))
    for query, key, line in CELLS:
        w.set(query=query, key=key)
        assert w.says == f"Head 1 (of heads 0 to 7), slope 1/4: {line}"


@pytest.mark.parametrize(
    ("n_heads", "head", "length"), [(1, 0, 8), (8, 7, 64), (12, 8, 33), (16, 0, 20), (6, 4, 32)]
)
def test_alibis_drawing_and_tables_show_the_computed_numbers(mount, n_heads, head, length):
    w = mount(DistanceBias(n_heads=n_heads, head=head, length=length, query=7, key=3))
    slopes = alibi_slopes(n_heads)
    slope = slopes[head]
    positions = np.arange(length)
    bias = AlibiPositions(n_heads).score_bias(positions, positions)[head]

    # Every cell that a query may see: blue, the more opaque the larger the penalty, up to 8.
    np.testing.assert_allclose(bias[:, 0], -slope * positions, rtol=0, atol=1e-12)
    shares = np.minimum(slope * positions / 8, 1)
    opacity = np.maximum(1, np.floor(255 * shares + 0.5)).astype(int).tolist()
    seen = pixels(w, length)
    assert np.argwhere(seen[..., 3]).tolist() == np.argwhere(np.tri(length)).tolist()
    for query, key in np.argwhere(seen[..., 3]).tolist():
        assert seen[query, key, 3] == opacity[query - key]
        if seen[query, key, 3] == 255:
            assert seen[query, key, :3].tolist() == [0, 114, 178]

    weights = softmax(bias[-1])
    bars = w.root.locator("rect.gf-share, rect.gf-share-chosen").evaluate_all(
        "bars => bars.map(b => [+b.getAttribute('height'), b.getAttribute('class')])"
    )
    np.testing.assert_allclose([height / 100 * 0.6 for height, _ in bars], weights, rtol=0, atol=1e-12)
    window = 1 + int(np.searchsorted(np.cumsum(weights[::-1]), 0.9))
    assert [kind == "gf-share-chosen" for _, kind in bars] == [
        key >= length - window for key in range(length)
    ]

    dots = w.root.locator("circle").evaluate_all(
        "dots => dots.map(d => [+d.getAttribute('cx'), d.classList[0]])"
    )
    np.testing.assert_allclose([2 ** ((x - 46) / 244 * 8 - 8) for x, _ in dots], slopes, rtol=1e-12)
    assert [kind for _, kind in dots].index("gf-share-chosen") == head

    slope_table, bias_table = w.tables()
    assert slope_table[1:] == [
        [str(i), slope_text(s), number(s, 6), number(math.log(2) / s, 1)] for i, s in enumerate(slopes)
    ]
    assert bias_table[1:] == [
        [
            str(back),
            number(-slope * back, 4),
            small(math.exp(-slope * back)),
            str(length - 1 - back),
            small(weights[length - 1 - back]),
        ]
        for back in range(length)
    ]


def pixels(w, length):
    """Returns red, green, blue and opacity of the cells of the matrix: (T, T, 4)."""
    w.settle()
    read = """(canvas) => {
      const { width, height } = canvas;
      const copy = new OffscreenCanvas(width, height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      return [width, height, ...copy.getImageData(0, 0, width, height).data];
    }"""
    width, height, *data = w.root.locator("canvas").evaluate(read)
    assert width == height == length
    return np.reshape(data, (length, length, 4))


def cells(w, length):
    """Returns {(query, key): colour} of all cells that are painted."""
    colours = pixels(w, length)
    return {
        (query, key): "rgb({}, {}, {})".format(*colours[query, key, :3])
        for query, key in np.argwhere(colours[..., 3]).tolist()
    }


def test_the_pixels_lie_where_the_axes_say(mount):
    w = mount(DistanceBias())
    pixels, over = (w.root.locator(part).bounding_box() for part in (".gf-pixels", ".gf-matrix"))
    unit = over["width"] / 340
    placed = [(pixels[side] - over[side]) / unit for side in "xy"]
    assert [*placed, pixels["width"] / unit, pixels["height"] / unit] == pytest.approx(
        [40, 6, 290, 290], abs=0.1
    )


# --- T5 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", T5_SETTINGS)
def test_every_sentence_of_t5_holds_of_the_buckets(call, settings):
    """For every setting and distance: where the key is, which distances share its bucket, and which have their own."""
    bidirectional, n_buckets, max_distance = settings
    names = {"bidirectional": bidirectional, "nBuckets": n_buckets, "maxDistance": max_distance}
    steps = call("distance_bias", "staircase", -150, 150 if bidirectional else 0, names)
    chosen = [(63, key) for key in range(64)] + [(0, key) for key in range(64)]
    asked = [[{"query": q, "key": k, "steps": steps, "bidirectional": bidirectional}] for q, k in chosen]
    reach = np.arange(1000)
    for (query, key), said in zip(chosen, call.each("distance_bias", "t5Sentence", asked), strict=True):
        sign = 1 if key > query else -1
        away = abs(key - query)
        side = f"{away} position{'s' * (away > 1)} {'after' if key > query else 'before'} query {query}"
        assert said.startswith(f"Key {key} is {side if away else 'at the query’s own position'}")
        if key > query and not bidirectional:
            assert said.endswith("A decoder masks it, so it needs no bucket.")
            continue
        buckets = bucket(sign * reach, settings)
        given, shared, rest = re.search(r", in bucket (\d+), which holds (.*?)\. (.*)$", said).groups()
        assert int(given) == buckets[away]
        mates = np.flatnonzero(buckets == buckets[away])
        assert shared == (
            f"only distance {mates[0]}"
            if len(mates) == 1
            else f"all distances from {mates[0]} on"
            if mates[-1] == 999
            else f"distances {mates[0]} to {mates[-1]}"
        )
        alone, beyond = re.fullmatch(
            r"Up to (\d+), every distance has its own bucket; beyond that, (|most )distances share buckets\.",
            rest,
        ).groups()
        single = np.bincount(bucket(-reach, settings), minlength=n_buckets)[bucket(-reach, settings)] == 1
        assert single[: int(alone) + 1].all()
        assert not single[int(alone) + 1]
        assert (beyond == "") == (not single[int(alone) + 1 :].any())


@pytest.mark.parametrize("settings", [(False, 32, 128), (True, 32, 128), (True, 8, 32), (False, 32, 32)])
def test_t5s_drawing_and_table_show_the_computed_numbers(mount, call, settings):
    bidirectional, n_buckets, _ = settings
    length = 24
    w = mount(t5(settings, length=length, query=20, key=3))
    positions = np.arange(length)
    buckets = bucket(relative_positions(positions, positions), settings)
    seen = np.unique(buckets).tolist()
    found = call.each("plot", "cividis", [[bucket / (n_buckets - 1)] for bucket in seen])
    colours = dict(zip(seen, found, strict=True))
    painted = cells(w, length)
    expected = {
        (query, key): colours[int(buckets[query, key])]
        for query in range(length)
        for key in range(length if bidirectional else query + 1)
    }
    assert painted == expected

    mark = w.root.locator(".gf-spot")
    x, y = float(mark.get_attribute("cx")), float(mark.get_attribute("cy"))
    assert (x - 40) / 290 * 301 - 150.5 == pytest.approx(-17, abs=1e-9)
    assert (250 - y) / 242 * (n_buckets - 1) == pytest.approx(int(bucket([-17], settings)[0]), abs=1e-9)

    header, *rows = w.table()
    assert header == ["From", "To", "Bucket"]
    assert (rows[0][0], rows[-1][1]) == ("further back", "further ahead" if bidirectional else "0")
    ends = {"further back": -150, "further ahead": 150}
    read = {}
    for start, stop, b in rows:
        first, last = (ends.get(v) or int(v.replace("−", "-")) for v in (start, stop))
        read |= {r: int(b) for r in range(first, last + 1)}
    seen = range(-150, 151 if bidirectional else 1)
    assert read == dict(zip(seen, bucket(np.array(seen), settings).tolist(), strict=True))

    direction = "both directions" if bidirectional else "past only"
    assert w.label.startswith(f"T5, {n_buckets} buckets, {direction}: ")
    assert w.label.endswith("Chosen: query 20, key 3.")


# --- what can be done -------------------------------------------------------------------------------------


def test_every_control_by_keyboard(mount):
    w = mount(DistanceBias())
    w.press("Query", "ArrowRight")
    w.press("Key", "Home")
    assert w.says.startswith("Head 2 (of heads 0 to 7), slope 1/8: key 0 is 25 positions before query 25")
    w.press("Head", "End")
    assert w.says.startswith("Head 7 (of heads 0 to 7), slope 1/256")
    w.press("Number of heads", "ArrowLeft")
    assert w.says.startswith("Head 6 (of heads 0 to 6), slope 1/32")
    assert w.control("Head").get_attribute("max") == "6"
    w.press("Positions", "Home")
    assert "query 7" in w.says
    assert w.control("Query").get_attribute("max") == "7"
    w.press("T5", " ")
    w.press("Bidirectional", " ")
    w.press("16", " ")
    w.press("64", " ")
    assert w.says.startswith("Key 0 is 7 positions before query 7, in bucket 4")
    assert w.saved() == {
        "query": 7,
        "key": 0,
        "head": 6,
        "n_heads": 7,
        "length": 8,
        "method": "t5",
        "bidirectional": True,
        "n_buckets": 16,
        "max_distance": 64,
    }


def test_only_the_methods_own_controls_are_there(mount):
    w = mount(DistanceBias())
    assert w.control("Head").is_visible()
    assert not w.control("Bidirectional").is_visible()
    w.set(method="t5")
    assert not w.control("Number of heads").is_visible()
    assert w.root.get_by_role("group", name="Maximum distance").is_visible()


def spot(w, query, key):
    """Returns the position of the centre of a cell in the window."""
    w.settle()
    w.root.locator(".gf-matrix").scroll_into_view_if_needed()
    box = w.root.locator(".gf-matrix").bounding_box()
    pixel, size = box["width"] / 340, 290 / w.get("length")
    return box["x"] + (40 + (key + 0.5) * size) * pixel, box["y"] + (6 + (query + 0.5) * size) * pixel


@pytest.mark.parametrize("method", ["alibi", "t5"])
def test_pointing_at_a_cell_chooses_it(mount, method):
    w = mount(DistanceBias(method=method, length=40))
    for query, key in [(0, 0), (39, 0), (39, 39), (17, 5), (0, 39)]:
        w.page.mouse.move(*spot(w, query, key))
        w.settle()
        assert (w.get("query"), w.get("key")) == (query, key)
    x, y = spot(w, 3, 0)
    w.page.mouse.move(x - 20, y)  # beside the matrix, nothing is chosen
    assert (w.get("query"), w.get("key")) == (0, 39)
    assert w.saved() == {"query": 0, "key": 39}


def test_a_tap_chooses_a_cell(mount):
    w = mount(DistanceBias(), width=360)
    w.page.touchscreen.tap(*spot(w, 20, 4))
    assert "key 4 is 16 positions before query 20" in w.says


def test_in_python_too_what_is_chosen_stays_within_the_matrix():
    w = DistanceBias()
    w.n_heads = 2
    w.length = 10
    assert (w.head, w.query, w.key) == (1, 9, 9)
