"""What a figure owes its readers: words for those who cannot see it, and ink that follows the theme."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from glassformer import figures


@pytest.fixture
def shown(monkeypatch):
    """The HTML of every figure shown during the test."""
    html = []
    monkeypatch.setattr(figures, "display", lambda item: html.append(item.data))
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
    (html,) = shown
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
    with pytest.raises(ValueError, match="labels has 2 entries for 3 keys"):
        figures.attention_map(ax, np.array([[0.2, 0.1, 0.7]]), ["a", "b"], "one")
    plt.close(fig)


def test_source_is_shown_as_code_with_the_summary_of_its_docstring(shown):
    def double(x):
        """Twice x,
        in two lines.

        Raises:
            Nothing.
        """
        return 2 * x

    class Halves:
        """One line."""

        def half(self, x):
            # A comment, and a string that is no docstring.
            """Half of x."""
            return f"{x / 2}"

    figures.show_source(double, Halves)
    (markdown,) = shown
    assert (
        markdown
        == '''```python
def double(x):
    """Twice x,
    in two lines."""
    return 2 * x

class Halves:
    """One line."""

    def half(self, x):
        # A comment, and a string that is no docstring.
        """Half of x."""
        return f"{x / 2}"
```'''
    )


class Doubles:
    """Doubles."""

    def forward(self, x):
        """Forwards."""
        return 2 * x

    def forward_backward(self, grad):
        """Backwards."""
        return 2 * grad

    def last(self):
        """Says something."""


def test_the_way_back_is_shown_on_request(shown):
    figures.show_source(Doubles)
    figures.show_source(Doubles, backward=True)
    without, whole = shown
    assert "forward_backward" in whole
    assert "backward" not in without
    assert "return 2 * x\n\n    def last(self):" in without
