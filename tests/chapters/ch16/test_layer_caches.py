"""Tests LayerCaches: it keeps as many numbers as the layers of its model, and reads what `scratch` reads."""

import numpy as np
import pytest

from glassformer.chapters.ch16.layer_caches import SIZES, WIDE, LayerCaches
from glassformer.scratch import CompressedAttention, Indexer, causal_mask, window_mask

SETTINGS = [{}, {"window": 2, "compress": 2, "top_k": 1}, {"window": 16, "compress": 7, "top_k": 16}]


def rows_of(call, widget):
    """Returns the kinds at every position."""
    own = widget.get_state()
    settings = {name: own[name] for name in ("window", "compress", "top_k")}
    asked = [[own["_sizes"], settings, list(widget.text), t] for t in range(len(widget.text))]
    return call.each("layer_caches", "kindsOf", asked)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_numbers_are_those_of_the_layers(call, settings):
    widget = LayerCaches(**settings)
    for t, kinds in enumerate(rows_of(call, widget)):
        found = call.each("layer_caches", "numbersOf", [[one] for one in kinds.values()])
        assert dict(zip(kinds, [each["kept"] for each in found], strict=True)) == widget.kept(t)
        after = [each["kept"] + each["adds"] - each["forgets"] for each in found]
        assert after == list(widget.kept(t + 1).values())


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_position_reads_what_the_layers_let_it_read(call, settings):
    widget = LayerCaches(**settings)
    T = len(widget.text)
    rng = np.random.default_rng(0)
    alike = np.array(list(widget.text))[:, None] == np.array(list(widget.text))
    rule = np.where(alike, float(T), 0.0) + np.arange(T)  # the same character first, then the latest
    indexer = Indexer(1, 1, n_heads=1, d_head=2, top_k=widget.top_k, generator=rng)
    compressed = CompressedAttention(
        32, SIZES["H"], d_head=WIDE, d_rotated=4, d_query_latent=16, window=widget.window, n_groups=1, d_group=16,
        compress=widget.compress, generator=rng,
    )  # fmt: skip
    weights = compressed.attention_weights(rng.normal(size=(T, 32)).astype(np.float32))[0]
    past = causal_mask(T)
    near = past & window_mask(T, window=widget.window)
    expected = {"full": past, "borrowed": past, "latent": past, "one_array": past, "window": near}
    expected |= {"indexer": indexer.choose(rule, past), "compressed": weights[:, :T] > 0}
    for t, kinds in enumerate(rows_of(call, widget)):
        for kind, lanes in kinds.items():
            assert lanes[0]["reads"] == np.flatnonzero(expected[kind][t]).tolist(), (t, kind)
        assert kinds["compressed"][2]["reads"] == np.flatnonzero(weights[t, T:] > 0).tolist()


def check(w):
    """Checks what is written beside each row, what is drawn in it, and both tables."""
    widget = w.widget
    t = min(widget.position, len(widget.text) - 1)
    now, every = w.tables()
    rows = w.root.locator(".gf-caches-row:has(svg)").all()
    for row, (kind, n), cells in zip(rows, widget.kept(t).items(), now[1:], strict=True):
        assert row.inner_text().startswith(cells[0])
        assert f"keeps {n:,} numbers" in row.inner_text()
        assert cells[1] == f"{n:,}"
        paths = "paths => paths.map((one) => [one.getAttribute('class'), one.getAttribute('d')])"
        count = {style: d.count("M") for style, d in row.locator("path").evaluate_all(paths)}
        if kind == "window":
            seen = min(t + 1, widget.window)
            assert count["gf-caches-mark"] == count["gf-caches-key gf-caches-read"] == seen
        if kind == "indexer":
            chosen = min(t + 1, widget.top_k)
            assert count["gf-caches-mark"] == count["gf-caches-value gf-caches-read"] == chosen
            assert count["gf-caches-value gf-caches-kept"] == (t + 1 - chosen or 1)  # "M0 0": nothing
    for s, row in enumerate(every[1:]):
        assert row[2:] == [f"{n:,}" for n in widget.kept(s).values()]


def test_by_keyboard_by_buttons_and_by_dragging(mount):
    w = mount(LayerCaches())
    check(w)
    assert w.says == (
        "At position 37, “r”, full attention keeps all 37 positions before it: 2,368 numbers. The window still "
        "holds positions 30 to 36, and now forgets 30. The indexer chooses positions 4, 13, 31 and 37. The first "
        "36 positions have become 9 compressed tokens."
    )
    w.press("Position", "ArrowRight", "ArrowRight")
    assert w.says.endswith("have become 9 compressed tokens; this position completes the next.")
    for name, position in (("Next", 40), ("Next", 40), ("Back", 39)):
        w.root.get_by_role("button", name=name).press("Enter")
        assert w.get("position") == position
    w.press("Window", "Home")
    w.press("Positions in a token", "End")
    w.press("Positions the indexer chooses", "ArrowLeft")
    assert w.saved() == {"position": 39, "window": 2, "compress": 8, "top_k": 3}
    check(w)
    w.root.locator(".gf-caches-picture").last.scroll_into_view_if_needed()
    box = w.root.locator(".gf-caches-picture").last.bounding_box()
    w.page.mouse.move(box["x"] + box["width"] * 5.5 / 41, box["y"] + 5)
    assert w.get("position") == 39  # nothing moves before it is pressed
    w.page.mouse.down()
    assert w.get("position") == 5
    w.page.mouse.move(box["x"] + 1, box["y"] + 9)
    w.page.mouse.up()
    assert w.saved()["position"] == 0
    assert w.says == "At position 0, “A”, nothing has been read before, so every cache is still empty."
    check(w)


def test_the_readers_own_text_and_its_last_position(mount):
    w = mount(LayerCaches())
    field = w.control("Your text (1 to 60 characters)")
    field.fill("日本 😀é")
    w.settle()
    assert w.saved() == {"text": "日本 😀é"}
    check(w)
    assert w.says.startswith("At position 4, “é”, full attention keeps all 4 positions before it: 256")
    field.fill("")
    assert w.get("text") == "日本 😀é"
    w.press("Position", "ArrowLeft")
    assert w.saved()["position"] == 3
    assert "“😀”" in w.says
