"""Tests AttentionCalculator: Python and JavaScript agree, the sums are right, and readers can change the numbers."""

import itertools
import math
import re

import numpy as np
import pytest

from glassformer.chapters.ch03.attention_calculator import KINDS, MASKS, WORDS, AttentionCalculator

SETTINGS = list(itertools.product([True, False], MASKS))
EXACT = {"rtol": 0, "atol": 1e-12}


def tables(seed):
    return dict(
        zip("qkv", np.random.default_rng(seed).uniform(-9, 9, (3, 5, 2)).round(2).tolist(), strict=True)
    )


def shown(text):
    return -math.inf if text == "−∞" else float(text.replace("−", "-"))


def by_hand(widget):
    """Returns the same as `computed`, one number at a time, without any function of the package."""
    q, k, v = widget.q, widget.k, widget.v
    scores, weights, outputs = [], [], []
    for t in range(5):
        row = [sum(a * b for a, b in zip(q[t], k[s], strict=True)) for s in range(5)]
        row = [x / math.sqrt(2) if widget.scaled else x for x in row]
        if widget.mask == "before":
            row = [x if s <= t else -math.inf for s, x in enumerate(row)]
        total = sum(map(math.exp, row))
        shares = [math.exp(x) / total for x in row]
        if widget.mask == "after":
            shares = [w if s <= t else 0.0 for s, w in enumerate(shares)]
        scores.append(row)
        weights.append(shares)
        outputs.append([sum(shares[s] * v[s][i] for s in range(5)) for i in range(2)])
    return scores, weights, outputs


# --- the numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scaled", "mask"), SETTINGS)
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_both_languages_compute_what_is_computed_by_hand(call, scaled, mask, seed):
    widget = AttentionCalculator(scaled=scaled, mask=mask, **({} if seed is None else tables(seed)))
    state = {name: getattr(widget, name) for name in ("q", "k", "v", "scaled", "mask")}
    drawn = call("attention_calculator", "compute", state)
    for name, python, hand in zip(
        ("scores", "weights", "outputs"), widget.computed(), by_hand(widget), strict=True
    ):
        np.testing.assert_allclose(python, hand, **EXACT)
        np.testing.assert_allclose(np.array(drawn[name], dtype=float), hand, **EXACT)


def test_a_mask_after_softmax_leaves_rows_short_and_one_before_does_not():
    sums = {mask: AttentionCalculator(mask=mask).computed().weights.sum(axis=1) for mask in MASKS}
    np.testing.assert_allclose(sums["none"], 1, **EXACT)
    np.testing.assert_allclose(sums["before"], 1, **EXACT)
    assert (sums["after"][:4] < 0.95).all()
    assert sums["after"][4] == pytest.approx(1)


def test_defaults_show_that_the_horse_finds_its_kingdom():
    weights = AttentionCalculator().computed().weights
    assert WORDS[weights[WORDS.index("horse")].argmax()] == "kingdom"
    assert 0.6 < weights[4].max() < 0.8


# --- what is seen -----------------------------------------------------------------------------------------


def grids(w):
    w.settle()
    read = """root => Object.fromEntries(["scores", "weights", "outputs"].map((kind) =>
        [kind, [...root.querySelectorAll(`.gf-block-${kind} .gf-result`)].map((cell) => cell.textContent)]))"""
    return {kind: [shown(x) for x in texts] for kind, texts in w.root.evaluate(read).items()}


def cell(w, kind, row, column):
    return w.root.locator(f".gf-block-{kind} .gf-result, .gf-block-{kind} .gf-number").nth(
        row * KINDS[kind] + column
    )


def check(w):
    for (kind, seen), right in zip(grids(w).items(), w.widget.computed(), strict=True):
        np.testing.assert_allclose(seen, right.ravel(), atol=0.00501, err_msg=kind)


def test_numbers_by_keyboard(mount):
    w = mount(AttentionCalculator())
    check(w)
    w.press("query of horse, first number", "ArrowUp", "ArrowUp", "ArrowDown")
    assert w.saved()["q"][4] == [2.1, 0.5]
    check(w)
    field = w.control("value of kingdom, second number")
    field.fill("-3.25")
    assert w.saved()["v"][1] == [5.0, -3.25]
    check(w)
    field.fill("100")
    assert w.saved()["v"][1] == [5.0, 9.0]
    field.fill("")
    assert w.get("v")[1] == [5.0, 9.0]
    field.blur()
    assert field.input_value() == "9"
    w.root.get_by_role("button", name="Restore the numbers").press("Enter")
    assert [w.saved()[name] for name in "qkv"] == [getattr(AttentionCalculator(), name) for name in "qkv"]
    check(w)


def test_a_number_is_dragged(mount):
    w = mount(AttentionCalculator())
    box = w.control("key of horse, first number").bounding_box()
    x, y = box["x"] + 10, box["y"] + 10
    w.page.mouse.move(x, y)
    w.page.mouse.down()
    w.page.mouse.move(x - 26, y, steps=4)
    w.page.mouse.up()
    assert w.saved()["k"][4] == [0.5, 0.0]
    w.page.mouse.move(x + 60, y)
    assert w.get("k")[4] == [0.5, 0.0]
    check(w)


def test_scale_and_mask_by_keyboard(mount):
    w = mount(AttentionCalculator())
    w.press("Divide the scores by √d_head", " ")
    check_after = []
    for label, mask in (("−∞ before softmax", "before"), ("0 after softmax", "after"), ("none", "none")):
        w.press(label, " ")
        assert w.saved()["mask"] == mask
        check(w)
        check_after.append([shown(x) for x in w.root.locator(".gf-sum").all_inner_texts()])
    assert w.get("scaled") is False
    widget = AttentionCalculator(scaled=False, mask="after")
    np.testing.assert_allclose(check_after[1], widget.computed().weights.sum(axis=1), atol=0.00501)
    assert check_after[0] == check_after[2] == [1] * 5


SAID = [
    (
        "none",
        ["scores", 4, 1],
        "Score of “horse” with “kingdom”: 2.0·2.0 + 0.5·(−0.5) = 3.75; divided by √2, this is 2.65.",
    ),
    (
        "before",
        ["scores", 0, 2],
        "Score of “my” with “for”: 2.0·(−1.0) + 0.0·1.0 = −2.00; divided by √2, this is −1.41. "
        "But “for” comes later, so the mask sets the score to −∞.",
    ),
    (
        "none",
        ["weights", 4, 1],
        "Weight that “horse” gives to “kingdom”: e^2.6517 = 14.18 out of 20.18 in its row, which is 0.70.",
    ),
    (
        "before",
        ["weights", 1, 3],
        "Weight that “kingdom” gives to “a”: 0, because its score is −∞ and e^−∞ is 0. "
        "The rest of the row still sums to 1.00.",
    ),
    (
        "after",
        ["outputs", 0, 0],
        "Output of “my”, first number: 0.0221·0.0 + 0.0000·5.0 + 0.0000·0.0 + 0.0000·0.0 + 0.0000·1.0 = 0.00. "
        "The weights of “my” sum to 0.02, not to 1, because the hidden words have kept their share.",
    ),
    (
        "none",
        ["q", 4, 0],
        "The query of “horse” is (2.0, 0.5). "
        "Its dot products with the five keys give a row of scores.",
    ),
    (
        "none",
        ["v", 1, 0],
        "The value of “kingdom” is (5.0, 0.0). “my” gives it a larger weight than the other words do, 0.76.",
    ),
]  # fmt: skip


def test_the_line_below_says_the_sum(mount):
    w = mount(AttentionCalculator())
    for mask, at, says in SAID:
        w.set(mask=mask)
        cell(w, *at).hover()
        assert w.says == says
        assert w.get("cell") == at


def test_every_sum_that_is_said_is_true(mount):
    w = mount(AttentionCalculator(**tables(3)))
    scores, _, outputs = w.widget.computed()
    for row, column in itertools.product(range(5), range(5)):
        w.set(cell=["scores", row, column])
        left, right = w.says.split(": ", 1)[1].split(" = ")
        sides = [float(x) for x in re.findall(r"-?\d+\.\d+", left.replace("−", "-"))]
        assert sides == [w.widget.q[row][0], w.widget.k[column][0], w.widget.q[row][1], w.widget.k[column][1]]
        assert shown(right.rsplit(" ", 1)[1].rstrip(".")) == pytest.approx(scores[row, column], abs=0.00501)
    for row, column in itertools.product(range(5), range(2)):
        w.set(cell=["outputs", row, column])
        assert shown(w.says.rsplit(" = ", 1)[1].rstrip(".")) == pytest.approx(
            outputs[row, column], abs=0.00501
        )


def test_readers_who_calculate_with_the_numbers_that_are_said_get_the_result_that_is_said(mount):
    w = mount(AttentionCalculator())
    numbers = lambda: [float(x) for x in re.findall(r"-?\d+\.\d+", w.says.replace("−", "-"))]  # noqa: E731
    for row, column in itertools.product(range(5), range(5)):
        w.set(cell=["weights", row, column])
        score, power, total, weight = numbers()
        assert f"{math.exp(score):.2f}" == f"{power:.2f}"
        assert f"{power / total:.2f}" == f"{weight:.2f}"
    for row, column in itertools.product(range(5), range(2)):
        w.set(cell=["outputs", row, column])
        *parts, output = numbers()
        assert abs(np.dot(parts[::2], parts[1::2]) - output) < 0.0055
    assert w.root.get_by_role("group", name="Scores, query · key / √2").is_visible()
    w.set(scaled=False)
    assert w.root.get_by_role("group", name="Scores, query · key", exact=True).is_visible()


def test_on_a_phone_the_sum_is_in_view_wherever_the_reader_points(mount):
    w = mount(AttentionCalculator(), width=390)
    w.page.set_viewport_size({"width": 390, "height": 700})
    for kind in ("q", "scores", "outputs"):
        w.page.evaluate("() => scrollTo(0, 0)")
        cell(w, kind, 0, 0).focus()
        w.settle()
        box = w.root.locator(".gf-says").bounding_box()
        assert 0 <= box["y"] <= 700 - box["height"], kind


LIT = [
    (["outputs", 2, 1], {"weights": [(2, s) for s in range(5)], "v": [(s, 1) for s in range(5)]}),
    (["weights", 2, 1], {"scores": [(2, s) for s in range(5)]}),
    (["scores", 2, 1], {"q": [(2, 0), (2, 1)], "k": [(1, 0), (1, 1)]}),
    (["k", 2, 1], {"k": [(2, 0)], "scores": [(t, 2) for t in range(5)]}),
    (["v", 2, 1], {"weights": [(t, 2) for t in range(5)], "outputs": [(t, 1) for t in range(5)]}),
]


def test_what_a_number_is_made_of_lights_up(mount):
    w = mount(AttentionCalculator())
    for at, lit in LIT:
        cell(w, *at).focus()
        w.settle()
        for kind, width in KINDS.items():
            cells = w.root.locator(f".gf-block-{kind} .gf-result, .gf-block-{kind} .gf-number")
            bright = cells.evaluate_all("cells => cells.map((cell) => cell.classList.contains('gf-lit'))")
            assert [divmod(i, width) for i, is_lit in enumerate(bright) if is_lit] == lit.get(kind, []), kind
        assert w.root.locator(".gf-here").count() == 1


def test_results_are_one_stop_each_and_arrows_go_between_them(mount):
    w = mount(AttentionCalculator())
    assert w.root.locator(".gf-result[tabindex='0']").count() == 3
    cell(w, "weights", 0, 0).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        w.page.keyboard.press(key)
    w.settle()
    assert w.saved()["cell"] == ["weights", 2, 0]
    assert w.root.locator(":focus").get_attribute("aria-label").startswith("weight of for with my: 0.0")
    assert w.root.locator(".gf-result[tabindex='0']").count() == 3


def test_the_numbers_are_there_as_tables(mount):
    w = mount(AttentionCalculator(mask="before"))
    for table, right in zip(w.tables(), w.widget.computed(), strict=True):
        rows = [[shown(x) for x in row[1 : 1 + right.shape[1]]] for row in table[1:]]
        np.testing.assert_allclose(rows, right, atol=5.1e-5)


def test_numbers_of_neighbouring_cells_do_not_touch(mount):
    w = mount(AttentionCalculator())
    for width in (360, 640, 700, 760, 900):
        w.page.set_viewport_size({"width": width, "height": 900})
        w.settle()
        gaps = w.root.evaluate(
            """root => [...root.querySelectorAll(".gf-result")].map((cell) => {
                const text = document.createRange();
                text.selectNodeContents(cell);
                return cell.getBoundingClientRect().width - text.getBoundingClientRect().width;
            })"""
        )
        assert len(gaps) == 60
        assert min(gaps) >= 6, width
