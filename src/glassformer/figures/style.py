"""One style, one colour a role, and a display that follows the reader's theme.

A figure is shown as inline SVG whose ink is `currentColor` and whose roles are variables of the page, so that the
same stored output reads well in JupyterLab and in the built page, light or dark, at any size, and carries its
alternative text with it.
"""

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
from IPython.display import HTML, display
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from glassformer import roles

ROLES = {role: shades["light"] for role, shades in roles.SHADES.items()}
"""One colour for each role, to draw with; in a dark page it becomes the role's other shade."""

WEIGHTS = "cividis"
"""Colour map of weights and probabilities, drawn from 0 to 1 unless the axis says otherwise."""

SIGNED = LinearSegmentedColormap.from_list("blue-white-orange", ["#0072B2", "#F7F7F7", "#D55E00"])
"""Colour map of signed values, always drawn on a range symmetric about zero."""

# Drawn with this colour, replaced by `currentColor` on display. No colour map above contains it.
INK = "#010203"

_STYLE = {
    "font.size": 12,
    "font.family": "sans-serif",
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "figure.figsize": (6.4, 3.2),
    "figure.constrained_layout.use": True,
    "image.interpolation": "nearest",
    "svg.fonttype": "none",
    "svg.hashsalt": "glassformer",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.prop_cycle": plt.cycler(
        color=[ROLES[role] for role in ("query", "key", "value", "position", "feedforward", "norm")]
    ),
}

_STYLESHEET = "<style>" + re.sub(r"\s+", " ", roles.variables(".gf-figure")).strip() + "</style>"


@contextmanager
def figure(title: str, alt: str, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[Any]:
    """Draw a figure in the book's style and show it when the block ends.

    Args:
        title: the figure's one message, set as its caption.
        alt: what someone who cannot see the figure should know; states the message and the evidence.
        rows: number of rows of axes.
        columns: number of columns of axes.
        **options: passed to `matplotlib.pyplot.subplots`.

    Yields:
        The axes, one `Axes` or an array of them as `plt.subplots` gives.

    Raises:
        ValueError: `title` or `alt` is empty; a figure without words is one that some readers do not have.
    """
    for name, text in {"title": title, "alt": alt}.items():
        if not text.strip():
            raise ValueError(f"{name}={text!r} is empty: a figure needs its message in words")
    with drawing(rows, columns, **options) as (drawn, axes):
        yield axes
        display(HTML(as_html(drawn, title, alt)))


@contextmanager
def drawing(rows: int = 1, columns: int = 1, **options: Any) -> Iterator[tuple[Figure, Any]]:
    """A drawing in the book's style, and its axes; closed afterwards."""
    with plt.rc_context(_STYLE):
        drawn, axes = plt.subplots(rows, columns, **options)
        try:
            yield drawn, axes
        finally:
            plt.close(drawn)


def as_html(drawn: Figure, title: str, alt: str) -> str:
    """Return the drawing as a `<figure>`: SVG in the page's ink, title as caption, alt text as label."""
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r"<svg ",
        f'<svg role="img" aria-label="{html.escape(alt)}" style="max-width: 100%; height: auto" ',
        svg,
        count=1,
    )
    for role, colour in ROLES.items():
        svg = svg.replace(colour, f"var(--gf-{role}, {colour})")
    # Text keeps the page's font instead of naming one that the reader may not have.
    svg = re.sub(r"font-family: [^;\"]*sans-serif", "font-family: system-ui, sans-serif", svg)
    return framed(svg, title)


def framed(drawing: str, title: str) -> str:
    """A drawing in HTML as a `<figure>` that knows the roles' colours, with its title as caption."""
    caption = f'<figcaption style="font-weight: 600; margin-bottom: .5em">{html.escape(title)}</figcaption>'
    return f'<figure class="gf-figure" style="margin: 1em 0">{_STYLESHEET}{caption}{drawing}</figure>'
