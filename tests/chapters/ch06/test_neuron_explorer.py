"""Tests NeuronExplorer: its stored facts are true, it reads a new text live, and it reveals nothing too early."""

import json
import re
from functools import cache

import numpy as np
import pytest
from close import ENGINE, SINGLE, assert_close
from playwright.sync_api import expect
from safetensors.numpy import load as arrays_from

from glassformer import shipped
from glassformer.chapters.ch06 import neuron_explorer
from glassformer.chapters.ch06.neuron_explorer import BEFORE, N_CONTEXTS, N_READ, NeuronExplorer
from glassformer.experiments import stored
from glassformer.inside import Memory, memories, promoted_logits
from glassformer.text import corpus, split
from glassformer.trace import trace
from tools.assets.neurons import found

DECIMALS = 5.1e-4  # three of them are shown
ANOTHER, AT_RANDOM = "Another clear neuron", "A random neuron"
OPEN, COVER = "Which characters does it favour?", "Hide the answer"


@cache
def model():
    return shipped.load()


@cache
def training():
    return split(model()[1].encode(corpus()))[0]


@cache
def kept():
    return arrays_from((neuron_explorer.PLACE / "shakespeare.safetensors").read_bytes())


def hidden(ids):
    """Returns the neurons of every block at each position (L, B, T, F)."""
    with trace() as seen:
        model()[0](ids)
    return np.array(seen.arrays("neurons", "feed-forward"))


def number(text):
    return float(text.replace("−", "-").replace("+", ""))


# --- what is kept -----------------------------------------------------------------------------------------


def test_the_places_excite_as_much_as_is_said_and_nothing_that_was_looked_at_does_more():
    """Checks every neuron of every block, in the windows of a few stored positions and in others."""
    places, values = kept()["places"], kept()["values"]
    assert places.shape == values.shape == (4, 2, 344, N_CONTEXTS)
    some = places[:, :, ::43].reshape(-1)
    windows = np.unique(np.concatenate([some[some >= 0][::8] // 128, np.arange(0, N_READ // 128 - 1, 400)]))
    now = hidden(training()[windows[:, None] * 128 + np.arange(128)])
    checked = 0
    for i, window in enumerate(windows):
        found_here = block, _, neuron, _ = np.nonzero((places >= 0) & (places // 128 == window))
        there = now[block, i, places[found_here] % 128, neuron]
        assert_close(values[found_here], there, SINGLE)
        checked += len(block)
    assert checked > 100
    highest, lowest = now.max(axis=(1, 2)), now.min(axis=(1, 2))
    rounding = SINGLE * np.abs(values).max()
    assert (highest <= values[:, 0, :, 0] + rounding).all()
    assert (lowest >= values[:, 1, :, 0] - rounding).all()


def test_contexts_are_the_strongest_first_and_differ_in_what_is_shown():
    there = kept()["places"][..., 1:] >= 0
    signs = np.array([1, -1])[:, None, None]
    assert (np.diff(signs * kept()["values"])[there] <= 0).all()
    assert there.mean() > 0.98
    for block in neuron_explorer.table("shakespeare"):
        for neuron in block:
            for texts, values, promoted, adds in neuron:
                shown = [text[:-1] for text in texts]
                assert len(set(shown)) == len(shown) == len(values) >= 1
                assert max(map(len, shown)) <= BEFORE
                assert len(promoted) == len(adds) == 5


def test_they_are_those_of_the_experiment():
    """The experiment `inside` stored some memories, which were found by another run over the same text."""
    [run] = stored("inside", part="memories")
    for i, block in enumerate(run.found["blocks"]):
        for memory in block["missed most"]:
            texts, _, promoted, _ = neuron_explorer.table("shakespeare")[i][memory["neuron"]][
                int(memory["sign"] < 0)
            ]
            assert promoted == memory["promoted"]
            assert texts[0][:-1].endswith(memory["contexts"][0][-1])
            assert any(memory["contexts"][0].endswith(text[-9:-1]) for text in texts)


def test_what_is_promoted_is_what_the_row_of_w_down_says():
    table = neuron_explorer.table("shakespeare")
    for i in (0, 3):
        adds = promoted_logits(model()[0], i)
        for f in (0, 88, 343):
            for sign, (_, _, promoted, shown) in zip((1, -1), table[i][f], strict=True):
                ids = model()[1].encode(promoted)
                np.testing.assert_allclose(shown, sign * adds[f, ids], rtol=0.006)
                assert (sign * adds[f] >= sign * adds[f, ids[-1]]).sum() == 5


def test_the_tool_keeps_what_memories_finds():
    """Compares with a search of a whole short text at once; equal contexts count once, and −1 fills what is missing."""
    ids = training()[5000:6000]
    now = hidden(ids[: 7 * 128].reshape(7, 128)).reshape(4, -1, 344)
    arrays = found(memories(model()[0], ids, n_contexts=8), ids, 128)
    for (i, f), sign in zip([(0, 3), (1, 98), (3, 88)], (1, -1, 1), strict=True):
        order = np.argsort(-sign * now[i, :, f])[:8].tolist()
        seen = {}
        for place in order:
            seen.setdefault(tuple(ids[neuron_explorer.beginning(place, 128) : place + 1]), place)
        wanted = list(seen.values())[:N_CONTEXTS]
        assert arrays["places"][i, int(sign < 0), f].tolist() == wanted
        assert_close(arrays["values"][i, int(sign < 0), f], now[i, wanted, f], SINGLE)
    same = Memory(0, 0, 1, np.array([3.0, 2.0, 1.0]), np.array([128, 256, 300]), np.zeros(5, int), 0.0, 0.0)
    repeated = found([same], np.zeros(400, np.int64), 128)
    assert repeated["places"][0, 0, 0].tolist() == [128, 300, -1, -1]
    assert repeated["values"][0, 0, 0].tolist() == [3, 1, 0, 0]


def test_the_facts_about_each_neuron_are_a_file_that_is_asked_for(monkeypatch):
    view, sent = NeuronExplorer(), []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: sent.append((content, buffers)))
    view._handle_custom_msg({"ask": "something else"}, [])
    assert sent == []
    view._handle_custom_msg({"ask": "neurons"}, [])
    view._handle_custom_msg({"ask": "weights"}, [])
    sent = [(content, buffers) for content, buffers in sent if buffers]  # the others announce a size
    assert [content for content, _ in sent] == [{"answer": "neurons"}, {"answer": "weights"}]
    assert json.loads(sent[0][1][0]) == neuron_explorer.table("shakespeare")
    assert sent[1][1] == [view._source.weights]


# --- what is seen -----------------------------------------------------------------------------------------


def assert_shown(w, *, opened):
    """Asserts that the tables show what Python knows about the neuron, and its values on the text."""
    widget = w.widget
    tables = w.tables()
    assert len(tables) == 2 + opened
    memory = neuron_explorer.table("shakespeare")[widget.block][widget.neuron]
    contexts, promoted, values = tables[0][1:], tables[1][1:] if opened else None, tables[-1][1:]
    wanted = [
        (text, value) for texts, values, _, _ in memory for text, value in zip(texts, values, strict=True)
    ]
    for (_, context, value, following), (text, kept_value) in zip(contexts, wanted, strict=True):
        assert context == text[:-1].replace("\n", "⏎")
        assert number(value) == pytest.approx(kept_value, abs=DECIMALS)
        assert following == (text[-1].replace("\n", "⏎").replace(" ", "␣") if opened else "covered")
    if opened:
        assert [row[1] for row in promoted] == [
            c.replace("\n", "⏎").replace(" ", "␣") for _, _, likelier, _ in memory for c in likelier
        ]
        np.testing.assert_allclose(
            [number(row[2]) for row in promoted], memory[0][3] + memory[1][3], atol=DECIMALS
        )
    return np.array([number(row[2]) for row in values])


def test_the_first_picture_asks_for_nothing_and_tells_nothing(mount):
    w = mount(NeuronExplorer())
    right = w.widget.values()
    shown = assert_shown(w, opened=False)
    assert_close(shown, right, 1 / 254, beside=DECIMALS)  # a byte for a number
    assert w.root.locator(".gf-promoted-is").all_inner_texts() == ["?"] * 10
    assert set(w.root.locator(".gf-next").all_inner_texts()) == {"?"}
    assert w.says.startswith(
        "Block 3, neuron 88: in a million characters, it is most positive after “…Englan” (+59.6)"
    )
    assert "Guess, then look." in w.says
    assert "“d”" not in w.says
    assert f"its value at position 24 (“g”) is +{right[24]:.1f};" in w.says
    w.root.get_by_role("button", name=OPEN).press("Enter")
    w.settle()
    assert w.saved() == {"opened": True}
    assert_shown(w, opened=True)
    assert w.root.locator(".gf-promoted-is").all_inner_texts()[0] == "d"
    assert w.root.locator(".gf-as-promoted").first.inner_text() == "d"
    assert "When positive, it favours “d”, “P” and “'”;" in w.says
    w.root.get_by_role("button", name=COVER).press("Enter")
    w.settle()
    assert w.root.locator(".gf-promoted-is").first.inner_text() == "?"
    assert w.page.evaluate("window.asked") is None


def test_the_arrow_keys_lead_from_line_to_line(mount):
    w = mount(NeuronExplorer(guess=False, opened=True, text="My lord, the king of England. " * 3))
    w.root.locator(".gf-asks").focus()
    w.settle()
    places = w.root.locator(".gf-character").evaluate_all(
        "all => all.map((one) => [one.offsetTop, one.offsetLeft])"
    )
    lines = sorted({top for top, _ in places})
    assert len(lines) > 2

    def at(line, i):
        return [t for t, (top, _) in enumerate(places) if top == lines[line]][i]

    for key, position in (
        ("Home", 0),
        ("ArrowUp", 0),  # there is nothing above
        ("ArrowRight", 1),
        ("ArrowDown", at(1, 1)),
        ("ArrowDown", at(2, 1)),
        ("ArrowUp", at(1, 1)),
        ("End", len(places) - 1),
        ("ArrowDown", len(places) - 1),
    ):
        w.page.keyboard.press(key)
        expect(w.root.locator(".gf-character").nth(position)).to_be_focused()
        w.settle()
        assert w.get("position") == position, key


def test_every_neuron_by_keyboard_on_any_text(mount):
    """The table and the weights are loaded once, when the reader chooses another neuron."""
    w = mount(NeuronExplorer(opened=True))
    w.press("Neuron (0 to 343)", "ArrowUp", "ArrowUp")
    w.rest()
    assert w.saved() == {"neuron": 90, "opened": False}
    assert w.page.evaluate("window.asked") == 2
    assert_close(assert_shown(w, opened=False), w.widget.values(), ENGINE, beside=DECIMALS)

    w.press("3", "ArrowLeft")
    w.press("Guess first", " ")
    w.control("Your text").fill("My lord,\nthe king of England")
    w.settle()
    w.rest()
    assert w.saved().items() >= {"block": 2, "guess": False, "text": "My lord,\nthe king of England"}.items()
    assert_close(assert_shown(w, opened=True), w.widget.values(), ENGINE, beside=DECIMALS)
    assert w.root.get_by_role("button", name=OPEN).is_hidden()

    w.root.locator(".gf-asks").focus()
    for key in ("Home", "ArrowLeft", "ArrowRight", "End", "ArrowLeft", "ArrowLeft"):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved()["position"] == 25
    right = w.widget.values()[25]
    place, value = re.search(r"its value at position (\d+) \(“a”\) is (\S+);", w.says).groups()
    assert (number(value), int(place)) == (pytest.approx(right, abs=0.0051), 25)
    assert re.fullmatch(r"“a” at 25, [+−]?[\d.]+", w.root.locator(".gf-asks").get_attribute("aria-label"))

    visited = set()
    for _ in range(16):
        w.root.get_by_role("button", name=ANOTHER).press("Enter")
        visited.add((w.get("block"), w.get("neuron")))
    assert visited == {tuple(pair) for pair in w.widget._missed}
    assert len(visited) == 16
    w.root.get_by_role("button", name=AT_RANDOM).press("Enter")
    first = w.get("block"), w.get("neuron")
    w.root.get_by_role("button", name=AT_RANDOM).press("Enter")
    w.settle()
    assert first != (w.get("block"), w.get("neuron"))
    assert w.saved()["drawn"] == 2
    assert_close(assert_shown(w, opened=True), w.widget.values(), ENGINE, beside=DECIMALS)
    assert w.page.evaluate("window.asked") == 2

    number_field = w.control("Neuron (0 to 343)")
    before = w.get("neuron")
    number_field.fill("344")
    w.settle()
    assert w.get("neuron") == before


PIXELS = """all => all.map((one) => {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = getComputedStyle(one).backgroundColor;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
})"""


def test_the_text_is_coloured_by_how_far_it_is_from_zero(mount):
    w = mount(NeuronExplorer(block=3, neuron=101, text="DUKE OF YORK"))
    colours = np.array(w.root.locator(".gf-character").evaluate_all(PIXELS), dtype=float)
    red = colours[:, 0] - colours[:, 2]
    values = w.widget.values()
    furthest = neuron_explorer.table("shakespeare")[3][101][0][1][0]
    np.testing.assert_allclose(red, np.where(values > 0, 213, 178) * 0.6 * values / furthest, atol=6)
    assert red.argmax() == values.argmax() == 5


def test_nothing_glares_on_a_dark_page(mount):
    """Compares with the page: where the neuron is near zero, a character has nearly the colour of the surface."""
    w = mount(NeuronExplorer(block=3, neuron=101, text="DUKE OF YORK"))
    w.page.evaluate("document.documentElement.dataset.theme = 'dark'")
    light = np.array(w.root.locator(".gf-character").evaluate_all(PIXELS)).max(axis=1)
    assert light.max() < 200
    assert light[np.abs(w.widget.values()).argmin()] < 80


def test_what_does_not_come_is_told(mount):
    w = mount(NeuronExplorer())
    w.page.evaluate("() => { window.mounted[0].model.send = () => { throw new Error('nobody is there'); }; }")
    w.press("Neuron (0 to 343)", "ArrowUp")
    assert w.says.startswith("No kernel responds. Run this cell in JupyterLab to load the ")
    assert w.root.locator(".gf-way.gf-late").count() == 2
