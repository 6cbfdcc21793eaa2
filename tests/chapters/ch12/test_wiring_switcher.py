"""Tests WiringSwitcher: its masks and targets are those of real models and tasks, by keyboard and by pointer."""

import itertools

import numpy as np
import pytest

from glassformer.chapters.ch12.wiring_switcher import configs, lines
from glassformer.config import ModelConfig
from glassformer.scratch import Transformer, causal_mask
from glassformer.tasks import NO_TARGET, NextToken, Pairs
from glassformer.trace import trace
from glassformer.widgets import WiringSwitcher

FAMILIES = ["decoder", "encoder", "encoder-decoder"]
STATES = [
    {"family": family, "text": text, "source": source, "prefix": prefix, "padding": padding}
    for family, (text, source), prefix, padding in itertools.product(
        FAMILIES, [("A horse!", "Ein Pferd!"), ("b", "ccc")], [0, 3], [0, 2]
    )
]

# --- the numbers ------------------------------------------------------------------------------------------


def test_both_languages_have_the_same_masks(call):
    for state, found in zip(
        STATES, call.each("wiring_switcher", "masks", [[s] for s in STATES]), strict=True
    ):
        masks = WiringSwitcher(**state).masks()
        assert set(found) == set(masks)
        for name, mask in masks.items():
            np.testing.assert_array_equal(found[name], mask)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_real_model_has_these_masks(family):
    widget = WiringSwitcher(family=family, padding=2)
    config = ModelConfig(
        family=family, vocab_size=9, context_length=16, d_model=8, n_layers=1, n_heads=2, positions="none"
    )
    model = Transformer(config, generator=np.random.default_rng(0))
    ids = lambda n: np.arange(n)[None] % 9  # noqa: E731
    masks = widget.masks()
    real = np.arange(12 if family == "encoder-decoder" else 10) < (10 if family == "encoder-decoder" else 8)
    inputs = {
        "decoder": {"ids": ids(10)},
        "encoder": {"ids": ids(10), "mask": real[None]},
        "encoder-decoder": {"ids": ids(11), "source": ids(12), "source_mask": real[None]},
    }[family]
    with trace() as seen:
        model(**inputs)
    weights = seen.arrays("weights")
    assert len(weights) == len(masks)
    for one, name in zip(weights, masks, strict=True):  # in the order in which they are computed
        np.testing.assert_array_equal(one[0, 0] > 0, masks[name])


def test_all_see_a_prefix():
    mask = WiringSwitcher(prefix=3).masks()["decoder"]
    assert mask[:, :3].all()
    assert mask.sum() == causal_mask(8).sum() + 3  # 3·2/2 more
    np.testing.assert_array_equal(WiringSwitcher(prefix=1).masks()["decoder"], causal_mask(8))


def test_targets_are_those_of_the_tasks(call):
    state = {"family": "decoder", "text": "012345", "source": "12", "prefix": 0, "padding": 0}
    inputs, targets = NextToken(np.arange(60) % 6, length=6, batch_size=1, seed=0).batch(0)
    at = int(inputs["ids"][0, 0])
    text = "".join(str((at + i) % 6) for i in range(6))
    decoder = call("wiring_switcher", "texts", state | {"text": text})["decoder"]
    assert decoder["reads"] == [str(i) for i in inputs["ids"][0]]
    assert decoder["says"][:-1] == [str(i) for i in targets[0, :-1]]
    with_prefix = call("wiring_switcher", "texts", state | {"prefix": 4})["decoder"]["says"]
    assert with_prefix == [None, None, None, "4", "5", "?"]

    pairs = Pairs(
        [np.array([1, 2]), np.array([1, 2])], [np.array([3, 4, 5])] * 2, 1, 0, start_id=7, stop_id=8, pad_id=0,
        validation=0.5,
    )  # fmt: skip
    inputs, targets = pairs.batch(0)
    signs = {7: "▷", 8: "■"}
    both = call("wiring_switcher", "texts", state | {"family": "encoder-decoder", "text": "345"})
    assert both["decoder"]["reads"] == [signs.get(i, str(i)) for i in inputs["ids"][0]]
    assert both["decoder"]["says"] == [signs.get(i, str(i)) for i in targets[0]]
    assert both["encoder"]["reads"] == [str(i) for i in inputs["source"][0]]

    covered = call("wiring_switcher", "texts", state | {"family": "encoder", "padding": 1})["encoder"]
    assert covered["reads"] == ["0", "1", "▁", "3", "4", "5", "∅"]
    assert covered["says"] == [None, None, "2", None, None, None, None]
    assert NO_TARGET == -100  # what None is in a batch


def test_the_lines_make_the_configurations():
    made = configs()
    for family, written in lines().items():
        fields = dict(line.split("=") for line in written)
        assert fields.pop("family") == f'"{family}"'
        changes = {name: int(value) for name, value in fields.items()}
        assert made["decoder"].replace(family=family, **changes) == made[family]
    stored = WiringSwitcher()._configs
    assert stored["decoder"]["parameters"] == stored["encoder"]["parameters"] == 808_704
    model = Transformer(made["encoder-decoder"], generator=np.random.default_rng(0))
    assert stored["encoder-decoder"]["parameters"] == sum(
        array.size for array in model.named_parameters().values()
    )


def test_positions_in_words(call):
    said = call.each("wiring_switcher", "runs", [[[0, 1, 2]], [[0, 1, 4]], [[3]], [[]]])
    assert said == ["0…2", "0…1 and 4", "3", ""]


# --- what is seen -----------------------------------------------------------------------------------------


def check(w):
    """Checks the counts in the titles and in the table, and what every position reads."""
    w.saved()
    masks = w.widget.masks()
    names = {"cross": "cross-attention"} | {one: f"{one}’s self-attention" for one in ("encoder", "decoder")}
    counts, *sides = w.tables()
    assert counts[1:] == [
        [names[name], *map(str, mask.shape), str(mask.sum()), str(mask.size)] for name, mask in masks.items()
    ]
    titles = dict(
        text.split("\n")[:2] for text in w.root.locator(".gf-wire-masks .gf-panel-title").all_inner_texts()
    )
    for name, title in {
        "encoder": "Encoder’s mask",
        "decoder": "Decoder’s mask",
        "cross": "Cross mask",
    }.items():
        said = f"{masks[name].sum()} of {masks[name].size} open" if name in masks else "not used"
        assert titles[title] == said
    assert len(sides) == len({"encoder", "decoder"} & set(masks))
    # Lit are the letters that the position reads, and no other.
    chosen = w.get("mask") if w.get("mask") in masks else next(iter(masks))
    reads = ["encoder"] if chosen == "encoder" else ["decoder", "cross"]
    row = min(w.get("query"), len(masks[chosen]) - 1)
    lit = sum(masks[name][row].sum() for name in reads if name in masks)
    assert w.root.locator(".gf-wire-seen").count() == lit
    # As many squares are drawn as there are cells.
    drawn = w.root.locator(".gf-wire-mask").evaluate_all(
        "all => all.map(area => ['hidden', 'allowed', 'row'].map(kind =>"
        " area.querySelector(`.gf-wire-${kind}`).getAttribute('d').split('z').length - 1))"
    )
    for name, (hidden, allowed, row) in zip(("encoder", "decoder", "cross"), drawn, strict=True):
        mask = masks.get(name, np.zeros((0, 0), bool))
        assert (hidden, allowed + row) == ((~mask).sum(), mask.sum())


def test_families_masks_and_positions_by_keyboard(mount, shoot):
    w = mount(WiringSwitcher())
    assert w.says == (
        "Position 3 of the text, “o”, reads text 0…3. It may not read text 5, “s”: it comes later. "
        "It is trained to predict “r”."
    )
    check(w)
    faded = lambda: w.root.locator(".gf-wire-picture g.gf-wire-off").count()  # noqa: E731
    assert faded() == 4  # encoder, cross-attention, its arrows, the encoder's way to the head
    area = w.root.get_by_role("group", name="Decoder’s mask")
    area.focus()
    for key in ("ArrowDown", "ArrowLeft", "ArrowLeft"):
        area.press(key)
    assert "Position 4 of the text, “r”, reads text 0…4. It may read text 3, “o”." in w.says
    assert w.saved() == {"query": 4, "key": 3}
    w.press("Prefix, visible to all", *["ArrowRight"] * 6)
    assert w.says.startswith("Position 4 of the text, “r”, reads text 0…5.")
    assert "It has no target." in w.says
    area.press("ArrowRight")
    area.press("ArrowRight")
    assert "It may read text 5, “s”: it belongs to the prefix." in w.says
    check(w)
    assert w.root.locator(".gf-wire-picture text", has_text="self-attention, prefix").count() == 1

    w.press("Padding", "ArrowRight", "ArrowRight")
    w.control("Encoder–decoder").check()
    w.settle()
    w.control("Source").fill("Pferd")
    assert faded() == 1
    area = w.root.get_by_role("group", name="Cross mask")
    area.focus()
    area.press("ArrowRight")
    assert w.says == (
        "Position 4 of the target, “o”, reads target 0…4 and all 5 of the source. It may not read source 6, padding: "
        "it is padding. It is trained to predict “r”."
    )
    check(w)
    ground = w.root.get_by_role("group", name="The diagram")
    ground.focus()
    ground.press("ArrowUp")
    assert w.says.startswith("Position 4 of the source, “d”, reads all 5 of the source.")
    check(w)
    ground.press("End")
    assert w.says.startswith("Position 6 of the source, padding, reads all 5 of the source.")
    assert w.says.endswith("The loss ignores it.")
    ground.press("ArrowDown")
    ground.press("Home")
    assert w.says.startswith("Position 0 of the target, the start, reads target 0 and all 5 of the source.")
    assert w.saved()["mask"] == "decoder"
    shoot("wiring-pair")
    assert "n_decoder_layers=4" in w.root.locator(".gf-wire-came").all_inner_texts()

    w.control("Encoder").check()
    w.settle()
    assert faded() == 3  # decoder, cross-attention, its arrows
    assert w.says.startswith("Position 0 of the text, “A”, reads all 8 of the text.")
    check(w)
    w.control("Text, or target").fill("")
    assert w.get("text") == "A horse!"
    w.control("Text, or target").fill("to be")
    w.settle()
    check(w)
    assert w.widget.text == "to be"

    # By hand: a letter of the diagram, a cell of a mask.
    box = w.root.locator(".gf-wire-letter").nth(2).bounding_box()
    w.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert w.says.startswith("Position 2 of the text, covered, reads all 5 of the text.")
    assert w.says.endswith("It is trained to predict a space.")
    area = w.root.get_by_role("group", name="Encoder’s mask").bounding_box()
    w.page.mouse.move(area["x"] + 0.25 * area["width"], area["y"] + 0.2 * area["height"])
    assert "Position 0 of the text, “t”" in w.says
    assert w.get("query") == 2
    w.page.mouse.move(2, 2)
    assert "Position 2 of the text" in w.says
