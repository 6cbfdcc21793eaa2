"""Tests ShuffleSentence: Python and JavaScript agree, the sentences are true, and readers can move the cards."""

import itertools
import re

import numpy as np
import pytest

from glassformer.chapters.ch04.shuffle_sentence import ShuffleSentence, embed_word, fnv1a
from glassformer.scratch import MultiHeadAttention, sinusoidal
from glassformer.widgets.engine.mulberry import mulberry32

SETTINGS = list(itertools.product([False, True], [False, True], [1, 2]))  # positions, causal, layers
SENTENCES = [
    "the dog bites the man",
    "a",
    "to be or not to be",
    "Ünïcödé 漢字 🦙 don’t -1e3",
    "a b c d e f g h i j k l",
]


def orders(sentence):
    n = len(sentence.split())
    return [list(range(n)), list(range(n))[::-1], np.random.default_rng(n).permutation(n).tolist()]


def widget(sentence, order, positions, causal, layers):
    return ShuffleSentence(words=sentence, order=order, positions=positions, causal=causal, layers=layers)


# --- the numbers ------------------------------------------------------------------------------------------


def test_the_hash_is_fnv1a(call):
    published = {"": 0x811C9DC5, "a": 0xE40C292C, "foobar": 0xBF9CF968}  # the algorithm's own test vectors
    for text, value in published.items():
        assert fnv1a(text) == value
        assert call("shuffle_sentence", "fnv1a", text) == value


def test_a_word_has_the_same_vector_in_both_languages(call):
    words = {word for sentence in SENTENCES for word in sentence.split()} | {"x" * 120}
    for word in words:
        assert call("shuffle_sentence", "embedWord", word) == embed_word(word).tolist()


def test_word_vectors_have_mean_zero_and_variance_one():
    vectors = np.stack([embed_word(f"word{i}") for i in range(4000)])
    assert np.abs(vectors).max() < np.sqrt(3)
    assert abs(vectors.mean()) < 0.02
    assert abs(vectors.var() - 1) < 0.02


@pytest.mark.parametrize(("positions", "causal", "layers"), SETTINGS)
def test_the_view_computes_what_python_computes(call, positions, causal, layers):
    for sentence in SENTENCES:
        for order in orders(sentence):
            w = widget(sentence, order, positions, causal, layers)
            shown, vectors, change = w.outputs()
            settings = {"positions": positions, "causal": causal, "layers": layers, "weights": w.weights}
            result = call("shuffle_sentence", "compare", sentence.split(), order, settings)
            assert shown == [sentence.split()[card] for card in order]
            np.testing.assert_allclose(result["now"], vectors, rtol=0, atol=1e-12)
            np.testing.assert_allclose(result["change"], change, rtol=0, atol=1e-12)
            difference = np.abs(np.subtract(result["now"], result["before"])).max(axis=1)
            np.testing.assert_array_equal(result["change"], difference)


@pytest.mark.parametrize(
    ("positions", "causal"), [(False, False), (False, True), (True, False), (True, True)]
)
def test_outputs_are_those_of_the_books_attention(positions, causal):
    w = widget("the dog bites the man", [0, 4, 2, 3, 1], positions, causal, 1)
    attention = MultiHeadAttention(8, 1, causal=causal, generator=np.random.default_rng(0), dtype=np.float64)
    for c in "qkv":
        getattr(attention, f"W_{c}").weight = np.array(w.weights[0][f"W_{c}"])
    attention.W_o.weight = np.eye(8)
    x = np.stack([embed_word(word) for word in ["the", "man", "bites", "the", "dog"]])
    expected = attention(x + positions * sinusoidal(np.arange(5), 8))
    np.testing.assert_allclose(w.outputs()[1], expected, rtol=0, atol=1e-14)


def test_the_second_layer_reads_the_stream():
    two, one = (widget("one two three", [0, 1, 2], False, False, layers) for layers in (2, 1))
    x = np.stack([embed_word(word) for word in ["one", "two", "three"]]) + one.outputs()[1]
    q, k, v = (x @ np.array(two.weights[1][name]) for name in ("W_q", "W_k", "W_v"))
    e = np.exp(q @ k.T / np.sqrt(8))
    np.testing.assert_allclose(two.outputs()[1], e / e.sum(1, keepdims=True) @ v, rtol=0, atol=1e-14)


# --- what is seen -----------------------------------------------------------------------------------------


def cards(w):
    """Returns (word, shown change) for every card, from left to right."""
    w.settle()
    texts = w.root.locator(".gf-card").evaluate_all(
        "cards => cards.map(c => [...c.children].map(e => e.textContent))"
    )
    return [(word, float(change.removeprefix("Δ ").replace("−", "-"))) for word, _, change in texts]


def words(w):
    return " ".join(word for word, _ in cards(w))


def fills(w):
    """Returns the colours of both strips of each card: for the typed order and for the current one."""
    w.settle()
    script = "cards => cards.map(c => [...c.querySelectorAll('rect')].map(r => r.getAttribute('fill')))"
    return [(row[:8], row[8:]) for row in w.root.locator(".gf-card").evaluate_all(script)]


# Of each kind of sentence one, as it is read; test_every_sentence_holds says when it may be said.
SAID = [
    (
        (0, 0, 2),
        [0, 4, 2, 3, 1],
        "; the largest change of any word’s vector is {}. Attention cannot see the order, "
        "and stacking layers does not help.",
    ),
    (
        (0, 1, 1),
        [0, 4, 2, 3, 1],
        "; “{most}” changed most, by {}. “the” did not change: up to that point, the set of words is the same. "
        "Each of the others now has different words before it.",
    ),
    (
        (0, 1, 2),
        [1, 0, 3, 2, 4],
        "; “{most}” changed most, by {}. Even “man”, still last, changed by {last}: "
        "in the second layer, the words it reads already carry traces of what came before them.",
    ),
    (
        (1, 0, 1),
        [3, 1, 2, 0, 4],
        ", which reads as before, because equal words have changed places; “{most}” changed most, by {}. "
        "Each word carries its position with it, so attention sees the order.",
    ),
]


def test_the_line_says_what_is_true(mount):
    w = mount(ShuffleSentence())
    for (positions, causal, layers), order, sentence in SAID:
        w.set(positions=bool(positions), causal=bool(causal), layers=layers, order=order)
        shown, _, change = w.widget.outputs()
        setting = (
            f"{'Positions' if positions else 'No positions'}, {'causal mask' if causal else 'no mask'}"
            f"{', two layers' if layers == 2 else ''}: order “{' '.join(shown)}”"
        )
        # What is rounding can differ in its last digits between two machines, and is only held to be tiny.
        pattern = re.escape(setting + sentence)
        for slot, x in {"{}": change.max(), "{last}": change[-1]}.items():
            text = r"(?:\d\.\de−1[5-9]|0)" if x < 1e-9 else re.escape(f"{x:.2f}")
            pattern = pattern.replace(re.escape(slot), text)
        assert re.fullmatch(pattern.replace(re.escape("{most}"), shown[int(change.argmax())]), w.says), w.says


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("positions", "causal", "layers"), SETTINGS)
@pytest.mark.parametrize("typed", ["the dog bites the man", "a b c d e"])
def test_every_sentence_holds(call, typed, positions, causal, layers):
    """For all orders of five words: which word changed most, which did not and why, and which words each word sees."""
    cards = typed.split()
    settings = {"positions": positions, "causal": causal, "layers": layers}
    changes, asked = [], []
    for order in map(list, itertools.permutations(range(5))):
        w = widget(typed, order, positions, causal, layers)
        changes.append((order, w.outputs()[2]))
        asked.append([cards, order, changes[-1][1].tolist(), settings])
    for (order, change), said in zip(changes, call.each("shuffle_sentence", "sentence", asked), strict=True):
        shown = [cards[card] for card in order]
        if order == sorted(order):
            assert "the cards are in their original order" in said
            assert said.endswith("so there is nothing to compare yet. Move a card.")
            continue
        assert (f"“{' '.join(shown)}”, which reads as before" in said) == (shown == cards)
        still = {place for place in range(5) if change[place] < 1e-9}
        assert positions or causal or len(still) == 5
        assert ("the largest change of any word’s vector is" in said) == (len(still) == 5)
        if len(still) == 5:
            # Words that are the same may change places unseen.
            assert "Attention cannot see the order" in said or all(
                sorted(shown[: place + 1]) == sorted(cards[: order[place] + 1]) for place in range(5)
            )
            assert ("cannot see the order" in said) == (not positions and not causal)
            continue
        assert f"“{shown[int(change.argmax())]}” changed most, by {number(change.max(), 2)}." in said
        if listed := re.search(r"\. ([^.;:]*) did not change:", said):
            assert listed[1] == ", ".join(f"“{shown[place]}”" for place in sorted(still))
        before = [shown[: place + 1] for place in range(5)]
        then = [cards[: order[place] + 1] for place in range(5)]
        for place in range(5):
            if "up to that point, the text is as it was" in said:
                assert (before[place] == cards[: place + 1] and order[place] == place) == (place in still)
            if (
                "up to that point, the set of words is the same" in said
            ):  # one twice is to attention the same as once
                same = set(before[place]) == set(then[place])
                assert same if place in still else sorted(before[place]) != sorted(then[place])
            if "those are different now" in said:
                assert sorted(before[place]) != sorted(then[place])
        assert ("carries its position with it" in said) == (positions and not (causal and still))
        assert ("attention sees the order" in said) == (positions and not causal)
        assert ("what came before them" in said) == (causal and not positions and layers == 2)
        assert "nobody" not in said
        assert not re.search(r"sees only (?!itself and the words before it)", said)
        if "still last" in said:
            assert order[-1] == 4
            assert f"changed by {number(change[-1], 2) if change[-1] >= 1e-3 else ''}" in said
            assert ("one layer cannot tell" in said) == (change[-1] < 1e-9)


def number(x, digits):
    return f"{x:.{digits}f}"


def test_it_begins_with_the_cards_as_the_field_reads(mount):
    w = mount(ShuffleSentence())
    typed = "the dog bites the man"
    assert w.control("Your sentence (up to 12 words)").input_value() == words(w) == typed
    assert w.label == f"Words in the order {typed}"
    assert w.says == (
        "No positions, no mask: the cards are in their original order, so there is nothing to compare yet. "
        "Move a card."
    )
    assert [change for _, change in cards(w)] == [0] * 5
    w.root.locator(".gf-card").nth(1).press("End")
    assert w.says.startswith("No positions, no mask: order “the bites the man dog”; the largest change")
    assert w.says.endswith("Attention cannot see the order.")
    assert max(change for _, change in cards(w)) < 1e-14
    assert all(before == now for before, now in fills(w))


def test_cards_strips_and_tables_show_the_computed_numbers(mount, call):
    python = widget("the dog bites the man", [0, 4, 2, 3, 1], True, False, 1)
    shown, now, change = python.outputs()
    typed = widget("the dog bites the man", [0, 1, 2, 3, 4], True, False, 1).outputs()[1][[0, 4, 2, 3, 1]]
    w = mount(python)
    assert cards(w) == [(word, float(f"{c:.2f}")) for word, c in zip(shown, change, strict=True)]
    for vectors, strips in ((typed, [s[0] for s in fills(w)]), (now, [s[1] for s in fills(w)])):
        for vector, strip in zip(vectors, strips, strict=True):
            assert strip == call.each("plot", "diverging", [[x / 1.5] for x in vector.tolist()])

    def text(x):
        return f"{x:.3f}".replace("-", "−")

    tables = w.tables()
    head = ["Word", *map(str, range(8))]
    assert tables[0] == [
        [*head, "Change"],
        *([word, *map(text, v), f"{c:.2f}"] for word, v, c in zip(shown, now, change, strict=True)),
    ]
    assert tables[1] == [head, *([word, *map(text, v)] for word, v in zip(shown, typed, strict=True))]
    label = w.root.locator(".gf-card").nth(4).get_attribute("aria-label")
    assert label == f"dog, place 5 of 5, changed by {change[4]:.2f}"


# --- moving cards -----------------------------------------------------------------------------------------


def focused(w):
    """Returns the label of the card that has the focus."""
    w.settle()
    return w.page.evaluate("document.activeElement.getAttribute('aria-label')")


def test_cards_move_by_keyboard_and_keep_the_focus(mount):
    w = mount(ShuffleSentence(words="a b c d"))
    w.root.locator(".gf-card").nth(1).focus()
    for key, expected in [
        ("ArrowRight", "a c b d"),
        ("ArrowLeft", "a b c d"),
        ("End", "a c d b"),
        ("ArrowRight", "a c d b"),  # there is no further
        ("Home", "b a c d"),
        ("ArrowLeft", "b a c d"),
        ("End", "a c d b"),
        ("ArrowLeft", "a c b d"),
    ]:
        w.page.keyboard.press(key)
        assert words(w) == expected, key
        assert focused(w).startswith("b, place ")
        assert f"“{expected}”" in w.says or expected == "a b c d"
    assert w.saved()["order"] == w.widget.order == [0, 2, 1, 3]


def test_a_card_is_chosen_and_put_somewhere_by_keyboard(mount):
    w = mount(ShuffleSentence(words="a b c d"))
    card = w.root.locator(".gf-card").nth
    card(3).press("Enter")
    w.settle()
    assert card(3).get_attribute("aria-pressed") == "true"
    card(3).press("Escape")
    w.settle()
    assert card(3).get_attribute("aria-pressed") == "false"
    card(3).press(" ")
    card(1).press("Enter")
    w.settle()
    assert words(w) == "a d b c"
    assert focused(w).startswith("d, place 2 of 4")
    assert w.root.locator("[aria-pressed=true]").count() == 0


def centre(w, place):
    w.settle()
    box = w.root.locator(".gf-cards li").nth(place).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize(("width", "start", "end"), [(900, 0, 3), (900, 4, 1), (360, 0, 4), (360, 4, 0)])
def test_cards_can_be_dragged_with_the_mouse(mount, width, start, end):
    w = mount(ShuffleSentence(words="a b c d e"), width=width)
    w.root.locator(".gf-cards").scroll_into_view_if_needed()
    (x, y), (x2, y2) = centre(w, start), centre(w, end)
    w.page.mouse.move(x + 5, y + 5)
    w.page.mouse.down()
    w.page.mouse.move(x2 + 5, y2 + 5, steps=8)
    w.settle()
    held = w.root.locator(".gf-card-held")
    assert held.count() == 1
    box = held.bounding_box()  # the card lies under the hand
    assert abs(box["x"] + box["width"] / 2 - x2) < 1
    assert abs(box["y"] + box["height"] / 2 - y2) < 1
    w.page.mouse.up()
    w.settle()
    expected = list("abcde")
    expected.insert(end, expected.pop(start))
    assert words(w) == " ".join(expected)
    assert held.count() == 0
    assert focused(w).startswith("abcde"[start])
    assert w.root.locator("[aria-pressed=true]").count() == 0
    assert w.saved()["order"] == ["abcde".index(word) for word in expected]


def test_cards_can_be_dragged_with_a_finger(mount):
    w = mount(ShuffleSentence(words="a b c d e"), width=360)
    w.root.locator(".gf-cards").scroll_into_view_if_needed()
    (x, y), (x2, y2) = centre(w, 0), centre(w, 2)
    finger = w.page.context.new_cdp_session(w.page)

    def touch(kind, *point):
        points = [{"x": point[0], "y": point[1]}] if point else []
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x, y)
    for i in range(1, 9):
        touch("touchMove", x + (x2 - x) * i / 8, y + (y2 - y) * i / 8)
    touch("touchEnd")
    assert words(w) == "b c a d e"


def test_cards_can_be_moved_without_dragging(mount):
    w = mount(ShuffleSentence(words="a b c d e"), width=360)
    w.root.locator(".gf-card").nth(0).tap()
    w.settle()
    assert w.root.locator("[aria-pressed=true]").count() == 1
    w.root.locator(".gf-card").nth(3).tap()
    assert words(w) == "b c d a e"
    w.root.locator(".gf-card").nth(2).click()
    w.root.locator(".gf-card").nth(2).click()  # put down again
    w.root.locator(".gf-card").nth(0).click()
    assert words(w) == "b c d a e"


def expected_shuffles(n, count):
    uniform, order, seen = mulberry32(1), list(range(n)), []
    while len(seen) < count:
        candidate = list(range(n))
        for i in range(n - 1, 0, -1):
            j = int(next(uniform) * (i + 1))
            candidate[i], candidate[j] = candidate[j], candidate[i]
        if candidate != order and (n == 2 or candidate != list(range(n))):
            order = candidate
            seen.append(order)
    return seen


@pytest.mark.parametrize(("sentence", "presses"), [("a b", 4), ("a b c", 25), ("a b c d e f g", 6)])
def test_buttons(mount, sentence, presses):
    w = mount(ShuffleSentence(words=sentence))
    n = len(sentence.split())
    for order in expected_shuffles(n, presses):
        w.root.get_by_role("button", name="Shuffle").press("Enter")
        assert w.get("order") == order
        assert words(w) == " ".join(sentence.split()[card] for card in order)
    w.root.get_by_role("button", name="Reverse").press("Enter")
    assert w.get("order") == order[::-1]
    w.root.get_by_role("button", name="Restore").press(" ")
    assert w.get("order") == list(range(n))
    assert w.saved()["order"] == list(range(n))


def test_a_single_word_can_be_shuffled_without_harm(mount):
    w = mount(ShuffleSentence(words="alone"))
    w.root.get_by_role("button", name="Shuffle").press("Enter")
    assert w.get("order") == [0]
    assert "nothing to compare" in w.says


def test_settings_by_keyboard(mount):
    w = mount(ShuffleSentence(order=[0, 4, 2, 3, 1]))
    w.press("Add sinusoidal positions", " ")
    assert w.says.startswith("Positions, no mask: order")
    w.press("Causal mask", " ")
    w.press("two", " ")
    assert w.says.startswith("Positions, causal mask, two layers: order")
    w.press("two", "ArrowLeft")
    assert w.says.startswith("Positions, causal mask: order")
    assert w.saved() == {"positions": True, "causal": True, "layers": 1}


def test_the_readers_own_sentence(mount):
    w = mount(ShuffleSentence())
    field = w.control("Your sentence (up to 12 words)")
    assert field.input_value() == "the dog bites the man"
    field.focus()
    field.press("Control+a")
    w.page.keyboard.type("  mind the  gap")
    assert words(w) == "mind the gap"
    assert w.get("order") == [0, 1, 2]
    assert field.input_value() == "  mind the  gap"  # not rewritten under the reader's hands
    w.saved()
    assert (w.widget.words, w.widget.order) == ("mind the gap", [0, 1, 2])

    field.fill("1 2 3 4 5 6 7 8 9 10 11 12 13")
    assert w.says == "Your sentence has 13 words. Type 1 to 12 words."
    field.fill(" ")
    assert w.says == "Your sentence has no words. Type 1 to 12 words."
    assert words(w) == "mind the gap"
    field.fill("1 2 3 4 5 6 7 8 9 10 11 12")
    assert len(cards(w)) == 12


def test_in_python_too_another_sentence_begins_in_its_own_order():
    w = ShuffleSentence()
    w.words, w.order = "  no  news is good news ", [4, 3, 2, 1, 0]
    assert w.words == "no news is good news"
    w.words = "mind the gap"
    assert w.order == [0, 1, 2]
