"""Tests figures: they have alt text, and their colours follow the theme."""

import re

import numpy as np
import pytest
from bs4 import BeautifulSoup
from matplotlib import pyplot as plt

from glassformer import figures, role_colours
from glassformer.contents import Chapter, chapter, chapters
from glassformer.figures import loss_curve, machine, source, style
from glassformer.figures.machine import HEIGHT, PARTS, WIDTH


@pytest.fixture
def shown(monkeypatch):
    """Returns the HTML of every figure shown during the test."""
    html = []
    for module in (style, source):
        monkeypatch.setattr(module, "display", lambda item: html.append(item.data))
    return html


def test_the_alternative_text_and_the_message_are_in_the_html(shown):
    with figures.figure("Waves count", 'Two waves, "fast" & slow.') as ax:
        ax.plot([0, 1], [1, 0])
    (html,) = shown
    assert 'role="img"' in html
    assert 'aria-label="Two waves, &quot;fast&quot; &amp; slow."' in html
    assert "<figcaption" in html
    assert ">Waves count</figcaption>" in html


def test_ink_follows_the_theme_and_the_background_is_left_to_the_page(shown):
    with figures.figure("A line", "A line.") as ax:
        ax.plot([0, 1], [1, 0])
        ax.set(xlabel="position", title="one")
        ax.annotate("", (0, 0), (1, 1), arrowprops={"arrowstyle": "->"})
    (html,) = shown
    assert "#000000" not in html
    assert "fill: currentColor" in html  # the labels
    assert "stroke: currentColor" in html  # the axes
    assert "#010203" not in html
    assert "#ffffff" not in html


def test_the_same_figure_is_the_same_text_every_time(shown):
    for _ in range(2):
        with figures.figure("A line", "A line.") as ax:
            ax.plot([0, 1], [1, 0], label="a")
            ax.legend()
    assert shown[0] == shown[1]


def test_the_colour_of_a_role_follows_the_theme(shown):
    with figures.figure("A line", "A line.") as ax:
        ax.plot([0, 1], [1, 0], color=figures.ROLES["norm"])
    (html,) = shown
    assert f"stroke: var(--gf-norm, {role_colours.SHADES['norm']['light']})" in html
    for page in ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]'):
        assert f"{page} .gf-figure" in html
    assert html.count(f"--gf-norm: {role_colours.SHADES['norm']['dark']};") == 1


def test_a_figure_brings_the_roles_that_it_is_drawn_in_and_no_other(shown):
    with figures.figure("Lines", "Two lines, one in a colour of its own.") as ax:
        ax.plot([0, 1], [1, 0])
        ax.plot([0, 1], [0, 1], color=figures.ROLES["norm"])
        ax.plot([0, 1], [0, 0], color="#123456")
    (html,) = shown
    assert set(re.findall(r"var\(--gf-(\w+)", html)) == {
        "query",
        "norm",
    }  # the first in turn is that of queries
    assert set(re.findall(r"--gf-(\w+): #", html)) == {"query", "norm"}
    for role in ("query", "norm"):
        assert f"stroke: var(--gf-{role}, {role_colours.SHADES[role]['light']})" in html
    assert "stroke: #123456" in html
    assert "#0102f" not in html


def test_without_a_colour_lines_take_those_of_the_roles_in_turn(shown):
    with figures.figure("Lines", "Seven lines.") as ax:
        for height in range(7):
            ax.plot([0, 1], [height, height])
    (html,) = shown
    found = re.findall(r"stroke: var\(--gf-(\w+), #\w{6}\); stroke-width: 2", html)
    assert found == ["query", "key", "value", "position", "feedforward", "norm", "query"]


def test_the_machine_has_the_colours_of_the_parts_that_are_built():
    for number in ("00", "02", "05", "11"):
        built = {part.role for part in PARTS if part.chapter <= number}
        assert set(re.findall(r"--part: var\(--gf-(\w+)", str(drawn(number)))) == built
        assert set(re.findall(r"--gf-(\w+): #", str(drawn(number)))) == built | {"residual"}  # the stream


@pytest.mark.parametrize(("title", "alt"), [("", "what it shows"), ("a title", "  ")])
def test_a_figure_without_words_is_refused(title, alt):
    with (
        pytest.raises(ValueError, match="is empty: a figure needs its message in words"),
        figures.figure(title, alt),
    ):
        pass


def test_a_failing_figure_is_closed_and_not_shown(shown):
    with pytest.raises(ZeroDivisionError), figures.figure("A line", "A line."):
        raise ZeroDivisionError
    assert not shown
    assert not plt.get_fignums()


def test_attention_maps_share_a_fixed_range_and_label_the_last_tokens_as_queries():
    fig, ax = plt.subplots()
    image = figures.attention_map(ax, np.array([[0.2, 0.1, 0.7]]), ["a", "b", "c"], "one")
    assert image.get_clim() == (0, 1)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["c"]
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {0}  # letters stand upright
    figures.attention_map(ax, np.ones((1, 3)) / 3, ["kingdom", "for", "a"], "two")
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {90}
    with pytest.raises(ValueError, match="labels has 2 entries for 3 keys"):
        figures.attention_map(ax, np.array([[0.2, 0.1, 0.7]]), ["a", "b"], "one")
    plt.close(fig)


class Screen:
    """Stands in for a notebook's display, and notes what was shown and what was replaced."""

    def __init__(self):
        self.shown = []

    def display(self, item, display_id=False):
        assert display_id, "a figure that grows has to be found again"
        self.shown.append(item.data)
        return self

    def update(self, item):
        self.shown[-1] = item.data
        self.updates = getattr(self, "updates", 0) + 1


@pytest.fixture
def screen(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(loss_curve, "display", screen.display)
    return screen


def test_a_loss_curve_grows_in_one_place_and_ends_with_all_of_the_run(screen):
    with figures.LossCurve("It learns", {"ln V": 4.17}, every=1e-9) as curve:
        for step in range(1, 5):
            curve({"step": step, "loss": 4.0 / step})
    (html,) = screen.shown
    assert screen.updates == 4  # 3 of the steps after the first, and the end
    assert "from 4.00 to" in html
    assert "at step 4" in html
    assert ">ln V</text>" in html
    assert ">It learns</figcaption>" in html
    assert ">validation</text>" not in html  # nothing was validated


def test_a_loss_curve_is_drawn_seldom_but_never_misses_the_end(screen):
    def interrupted():
        with figures.LossCurve("It learns", every=1e6) as curve:
            for step in range(1, 100):
                curve({"step": step, "loss": 1.0} | ({"validation_loss": 2.5} if step == 50 else {}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (html,) = screen.shown
    assert screen.updates == 1
    assert "at step 99; in validation 2.50." in html
    assert not plt.get_fignums()


def test_a_loss_curve_of_nothing_shows_nothing(screen):
    with figures.LossCurve("It learns"):
        pass
    assert not screen.shown


@pytest.mark.parametrize(
    ("title", "every", "message"), [(" ", 1.0, "title=' ' is empty"), ("x", 0.0, "every=0.0")]
)
def test_a_loss_curve_refuses(title, every, message):
    with pytest.raises(ValueError, match=message):
        figures.LossCurve(title, every=every)


def test_smoothing_is_a_mean_from_the_first_loss_on():
    assert figures.smoothed([3.0, 3.0, 3.0]) == pytest.approx([3.0, 3.0, 3.0], rel=1e-15)
    # By hand with 1/2: (1·a + 2·b) / 3, then (1·a + 2·b + 4·c) / 7
    assert figures.smoothed([7.0, 1.0, 2.0], stays=0.5) == pytest.approx([7.0, 3.0, 17 / 7], rel=1e-15)


# --- the machine so far ---


def drawn(number):
    return BeautifulSoup(figures.machine_so_far(number).data, "html.parser")


def filled(document):
    """Returns the names of the parts that are filled in, and of those that are new."""
    states = {group.select_one(".name").text: group["class"] for group in document.select("svg g")}
    return [name for name, state in states.items() if "built" in state], [
        name for name, state in states.items() if "new" in state
    ]


@pytest.mark.parametrize(
    ("number", "built", "new"),
    [
        ("00", [], []),
        ("02", ["tokens", "embedding"], ["tokens", "embedding"]),
        ("04", ["tokens", "embedding", "attention", "positions"], ["positions"]),
        ("15", [part.name for part in PARTS], []),
    ],
)
def test_the_machine_is_filled_as_far_as_the_chapters_go(number, built, new):
    document = drawn(number)
    assert filled(document) == (built, new)
    boxes = document.select("svg rect.box")
    assert len([box for box in boxes if "built" in box["class"]]) == sum(
        len(part.boxes) for part in PARTS if part.name in built
    )
    words = document.svg["aria-label"]
    said, _, left = words.partition("Filled in by")[2].partition("Still to come")
    for part in PARTS:
        assert (f"{part.name} (chapter {part.chapter})" in said) == (part.name in built)
        assert (f"{part.name} (chapter {part.chapter})" in left) == (part.name not in built)
    assert f"{len(built)} of {len(PARTS)}" in document.figcaption.text


def test_parts_of_the_machine_lead_to_chapters_that_are_written(monkeypatch):
    for one in chapters():
        here = drawn(one.number)
        expected = [
            f"{chapter(part.chapter).name}.ipynb"
            for part in PARTS
            for _ in part.boxes
            if chapter(part.chapter).written
        ]
        assert [link["href"] for link in here.select("a")] == expected
    monkeypatch.setattr(machine, "chapter", lambda number: Chapter(number, "A title", "Why?"))
    assert not drawn("04").select("a")
    monkeypatch.setattr(machine, "chapter", lambda number: Chapter(number, "A title", "Why?", minutes=5))
    links = drawn("04").select("a")
    assert len(links) == sum(len(part.boxes) for part in PARTS)
    assert links[0]["aria-label"] == "tokens: chapter 02, A title"
    assert links[0]["href"] == "02-a-title.ipynb"


NOTES = [("attention", "a window"), ("feed-forward", "experts"), ("attention", "compressed")]


def test_notes_of_the_machine_are_numbered_at_their_parts_and_listed():
    document = BeautifulSoup(figures.machine_with_notes(NOTES, "A title").data, "html.parser")
    at = {
        group.select_one(".name").text: group.select_one(".number").text for group in document.select("svg g")
    }
    assert {name: signs for name, signs in at.items() if signs} == {"attention": "①③", "feed-forward": "②"}
    listed = [item.text for item in document.select("li")]
    assert listed == ["① attention: a window", "② feed-forward: experts", "③ attention: compressed"]
    assert all(item in document.svg["aria-label"] for item in listed)
    assert document.figcaption.text == "A title"
    assert [link["href"] for link in document.select("a")] == [
        link["href"] for link in drawn("15").select("a")
    ]


@pytest.mark.parametrize(
    ("notes", "message"),
    [([], "from 1 to 9"), ([NOTES[0]] * 10, "10 entries"), ([("router", "new")], "part='router'")],
)
def test_notes_that_the_machine_cannot_show_are_refused(notes, message):
    with pytest.raises(ValueError, match=message):
        figures.machine_with_notes(notes, "A title")


def test_parts_of_the_machine_are_in_the_order_of_the_chapters_and_do_not_overlap():
    numbers = [part.chapter for part in PARTS]
    assert numbers == sorted(numbers)
    assert all(part.role in role_colours.SHADES for part in PARTS)
    boxes = sorted(box for part in PARTS for box in part.boxes)
    for i, (left, top, width, height) in enumerate(boxes):
        assert 0 <= left < left + width <= WIDTH
        assert 0 <= top < top + height <= HEIGHT
        # what a finger needs, where a phone shows the drawing at its own size
        assert min(width, height) >= 24
        for other_left, other_top, other_width, other_height in boxes[i + 1 :]:
            assert (
                left + width < other_left
                or other_left + other_width < left
                or top + height < other_top
                or other_top + other_height < top
            )


def test_the_machine_of_no_chapter():
    with pytest.raises(ValueError, match="number='4' is not one of"):
        figures.machine_so_far("4")
