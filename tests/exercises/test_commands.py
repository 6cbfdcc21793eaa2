"""Tests hints, the book's answer, the table of progress, and the look of a verdict."""

import inspect
import re
from html.parser import HTMLParser

import pytest
from IPython.display import display

from glassformer.exercises import catalogue as catalogue_module
from glassformer.exercises import check, commands, exercises, hint, mine, progress, reveal
from glassformer.exercises.catalogue import catalogue, find
from glassformer.exercises.panel import BAR, Panel, Table


def test_hints_come_one_by_one_and_the_last_one_stays(shown):
    name = "positions.rotary"
    hints = list(catalogue()[name].hints)
    for _ in range(4):
        hint(name)
    assert [panel.headline for panel in shown] == [f"`{name}`: hint {n} of 3" for n in (1, 2, 3, 3)]
    assert [panel.lines[0][1] for panel in shown] == [*hints, hints[2]]
    assert "reveal" in shown[2].lines[1][1]
    assert len(shown[0].lines) == 1
    hint("positions.layout")
    assert "hint 1 of 3" in shown[-1].headline


def test_the_answer_is_short_and_coloured_with_the_librarys_own_source_below_it(shown):
    exercise = find("attention.softmax")
    reveal(exercise.name)
    (panel,) = shown
    assert panel.code == exercise.answer
    assert panel.lines == [("", exercise.prose.why)]
    assert panel.more[1] == inspect.getsource(exercise.reference)
    assert len(panel.code) < len(panel.more[1]) / 4
    outline = Outline(panel._repr_html_())
    assert outline.tags.count("details") == outline.tags.count("summary") == 1
    assert outline.text.count(panel.code) == outline.text.count(panel.more[1].rstrip()) == 1
    assert (
        'style="color: var(--jp-mirror-editor-keyword-color, inherit)">return</span>' in panel._repr_html_()
    )
    assert repr(panel).endswith(panel.more[1].rstrip())
    data = panel.data()
    assert data["code"][0] == ("keyword", "def")
    for pieces, code in ((data["code"], panel.code), (data["more"]["code"], panel.more[1].rstrip())):
        assert "".join(text for _, text in pieces) == code
    reveal("attention.scores")  # the judge's own, of which the library has no version
    assert shown[-1].more[1] == ""
    assert "more" not in shown[-1].data()


@pytest.mark.parametrize("command", [check, hint, reveal, mine])
@pytest.mark.parametrize(
    "path", ["", "a/exercises/04-putting-order-in.ipynb", "practice-04.ipynb", "Untitled.ipynb"]
)
def test_without_a_name_it_says_what_can_be_asked_in_this_notebook_if_it_is_known(
    command, path, shown, monkeypatch
):
    monkeypatch.setenv("JPY_SESSION_NAME", path)
    command()
    (panel,) = shown
    assert panel.headline == f"`{command.__name__}` needs the name of an exercise, in quotes"
    said = [line for _, line in panel.lines]
    if "04" in path:
        its = catalogue_module.of_chapter("04")
        assert said == [f'`"{name}"`: {prose.title}' for name, prose in its.items()]
    else:
        assert [line[:11] for line in said] == [
            f"Chapter {number:02}:" for number in range(19) if number != 15
        ]
        assert "".join(said).count('"`') == len(catalogue())


@pytest.mark.parametrize("command", [check, hint, reveal, mine])
def test_an_unknown_name_is_met_with_close_ones(command, shown):
    for name in ("positions.rotery", None, 3, ["positions.rotary"], b"x", "?", "?" * 10_000):
        function = [name, len] if command is check else [name]
        assert command(*function) is (len if command is check else None)
    assert all("There is no exercise called" in panel.headline for panel in shown)
    assert '"positions.rotary"' in shown[0].lines[0][1]
    assert all(len(repr(panel)) < 1000 for panel in shown)


def test_progress_counts_what_is_done_tried_revealed_and_left(shown):
    its = [prose for prose in catalogue().values() if prose.chapter == "04"]
    n, everything = len(its), sum(prose.minutes for prose in its)

    def table():
        """Returns chapter 04's table as it was last shown."""
        return [panel for panel in shown if getattr(panel, "caption", "").startswith("Chapter 04")][-1]

    progress()
    assert table().closing == f"0 of {n} done; about {everything} minutes left."
    check("positions.wavelengths", find("positions.wavelengths").reference)
    check("positions.rotary", lambda x, base=1e4: x)
    reveal("positions.layout")
    reveal("positions.rotary")
    progress()
    states = {row[0]: row[-1] for row in table().rows}
    assert states.pop("positions.wavelengths") == "done"
    assert states.pop("positions.rotary") == "tried, revealed"
    assert states.pop("positions.layout") == "left, revealed"
    assert set(states.values()) == {"left"}
    assert table().closing == f"1 of {n} done; about {everything - 5} minutes left."
    for exercise in exercises():
        if exercise.prose.chapter == "04":
            check(exercise.name, exercise.reference)
    progress()
    assert table().closing == f"{n} of {n} done. You have finished the chapter."


def test_progress_of_one_chapter_shows_that_chapter(shown):
    progress("05")
    assert [panel.caption.split(",")[0] for panel in shown] == ["Chapter 05"]


def test_progress_begins_with_a_summary_and_this_notebooks_chapter(shown, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/05-the-stream-and-the-norms.ipynb")
    every = catalogue()
    check("positions.wavelengths", find("positions.wavelengths").reference)
    progress()
    hours = (sum(prose.minutes for prose in every.values()) - every["positions.wavelengths"].minutes) / 60
    summary = f"1 of {len(every)} exercises done; about {hours:.0f} hours left"
    assert [getattr(panel, "headline", None) for panel in shown[1:3]] == [summary, None]
    assert [panel.caption[:10] for panel in shown[2:5]] == ["Chapter 05", "Chapter 00", "Chapter 01"]
    monkeypatch.setattr(commands._record, "load", lambda: {name: {"done": True} for name in every})
    progress()
    assert f"{len(every)} of {len(every)} exercises done. You have" in "".join(map(repr, shown[-20:]))


@pytest.mark.parametrize(
    ("chapter", "said"), [("99", '"99"'), ("15", '"15"'), (5, "5"), ("", ""), (["05"], "list")]
)
def test_progress_of_a_chapter_without_exercises(chapter, said, shown):
    progress(chapter)
    (panel,) = shown
    assert panel.headline.startswith("There are no exercises for chapter ")
    assert said in panel.headline


# How it looks


class Outline(HTMLParser):
    """Extracts the text of a piece of HTML, and notes whether its elements are closed in the right order."""

    def __init__(self, html):
        super().__init__()
        self.text, self.open, self.tags = "", [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_verdict_is_text_and_html_with_the_same_words(shown):
    check("positions.sinusoidal", lambda positions, d_model, base=1e4: positions[:, None] * [1.0] * d_model)
    (panel,) = shown
    outline = Outline(panel._repr_html_())

    def words(text):
        return re.sub(r"[`\s]+", "", text)

    assert words(outline.text) == words(repr(panel))
    assert {"✓", "✗", "·"} > {mark for mark, _ in panel.lines if mark} or "✗" in repr(panel)
    assert "not yet" in panel.headline


def test_what_a_learner_writes_cannot_become_html(shown):
    def mine(x, base=1e4):
        raise ValueError("<script>alert('`')</script> & `<b>` more")

    check("positions.rotary", mine)
    html = shown[0]._repr_html_()
    outline = Outline(html)
    assert set(outline.tags) == {"div", "strong", "code"}
    assert "<script>" in outline.text


def test_nothing_shown_is_taken_for_html():
    for text in ("<b>", "`<b>`", "` <b>", "&lt;"):
        panel = Panel(text, [("✓", text)], code=text)
        table = Table(text, (text, "two"), [("1", text)], text)
        for thing in (panel, table):
            outline = Outline(thing._repr_html_())
            assert "b" not in outline.tags
            assert text.replace("`", "") in outline.text.replace("`", "")


def test_a_backtick_without_its_partner_is_a_backtick():
    assert Outline(Panel("a ` b")._repr_html_()).text == "a ` b"


@pytest.mark.parametrize(("folder", "up"), [("notebooks", ""), ("exercises", "../")])
def test_a_chapter_that_a_sentence_mentions_is_a_link_in_the_books_notebooks(
    tmp_path, monkeypatch, folder, up
):
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    sentence = "chapter 04's `chapter 05`, [see chapter 03](03-attention.ipynb) and chapter 99"
    html = Panel("Chapter 04 has it", [("✓", sentence)])._repr_html_()
    links = re.findall(r'<a href="([^"]+)">([^<]+)</a>', html)
    order = f"{up}04-putting-order-in.ipynb"
    assert links == [(order, "Chapter 04"), (order, "chapter 04"), ("03-attention.ipynb", "see chapter 03")]
    assert "chapter 04's `chapter 05`" in repr(Panel("", [("", sentence)]))
    monkeypatch.chdir(tmp_path)  # where no chapter lies
    assert "04-putting" not in Panel("Chapter 04 has it")._repr_html_()


def test_colours_are_the_pages_own_but_for_the_bar():
    panel = Panel("a `b`", [("✓", "c")], code="d <i>", mood="bad")
    table = Table("caption", ("one", "two"), [("1", "2")], "closing")
    for thing in (panel, table):
        html = thing._repr_html_()
        assert set(re.findall(r"#[0-9A-Fa-f]{6}", html)) <= set(BAR.values())
        assert set(re.findall(r"(?<![-\w])color: (\w+)", html)) <= {"inherit"}
        assert set(re.findall(r"background: (\w+)", html)) <= {"none"}
    assert Outline(panel._repr_html_()).text == "a b✓\xa0cd <i>"


@pytest.mark.parametrize("colour", BAR.values())
def test_the_bar_stands_out_in_every_theme(colour):
    # JupyterLab light and dark, the book's light and dark
    for ground in ("#ffffff", "#111111", "#121212", "#14181e"):
        assert contrast(colour, ground) >= 3


def contrast(a, b):
    """Returns the contrast ratio as WCAG 2.2 defines it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(a), luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_outside_a_notebook_the_text_is_printed(capsys):
    display(Panel("`a`: fine", [("✓", "b")], code="x = 1"))
    assert capsys.readouterr().out == "a: fine\n  ✓ b\n\nx = 1\n"
    display(Table("caption", ("one", "two"), [("1", "2"), ("longer", "3")], "closing"))
    assert capsys.readouterr().out == "caption\none     two\n1       2\nlonger  3\nclosing\n"
