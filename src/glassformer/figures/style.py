"""One style for all figures: one colour per role, and a display that follows the reader's theme.

A figure is shown as inline SVG with `currentColor` for text and lines and the page's variables for roles. So
the same stored output is readable in JupyterLab and on the site, in light and dark themes and at any size,
and it includes its alternative text.
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

from glassformer import role_colours

ROLES = {role: shades["light"] for role, shades in role_colours.SHADES.items()}
"""The drawing colour of each role; on a dark page it becomes the role's other shade."""

WEIGHTS = "cividis"
"""The colour map for weights and probabilities, drawn from 0 to 1 unless the axis says otherwise."""

SIGNED = LinearSegmentedColormap.from_list("blue-white-orange", ["#0072B2", "#F7F7F7", "#D55E00"])
"""The colour map for signed values, always drawn on a range symmetric about zero."""

# Drawn in this colour, which becomes `currentColor` on display. No colour map above contains it.
INK = "#010203"

# Matplotlib's cycle of default colours. On display, each one is replaced by the colour of its role.
_IN_TURN = {
    "#0102f0": "query",
    "#0102f1": "key",
    "#0102f2": "value",
    "#0102f3": "position",
    "#0102f4": "feedforward",
    "#0102f5": "norm",
}

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
    "patch.edgecolor": INK,  # also of arrows
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.prop_cycle": plt.cycler(color=list(_IN_TURN)),
}


@contextmanager
def figure(title: str, alt: str, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[Any]:
    """Draw a figure in the book's style and show it when the block ends.

    Args:
        title: the figure's one message, used as its caption.
        alt: a description for readers who cannot see the figure, with the message and the evidence.
        rows: number of rows of axes.
        columns: number of columns of axes.
        **options: passed to `matplotlib.pyplot.subplots`.

    Yields:
        The axes: one `Axes` or an array of them, as from `plt.subplots`.

    Raises:
        ValueError: `title` or `alt` is empty; without words, the figure would not exist for some readers.
    """
    for name, text in {"title": title, "alt": alt}.items():
        if not text.strip():
            raise ValueError(f"{name}={text!r} is empty: a figure needs its message in words")
    with drawing(rows, columns, **options) as (drawn, axes):
        yield axes
        display(HTML(as_html(drawn, title, alt)))


@contextmanager
def drawing(rows: int = 1, columns: int = 1, **options: Any) -> Iterator[tuple[Figure, Any]]:
    """Makes a drawing in the book's style with its axes, and closes it afterwards."""
    with plt.rc_context(_STYLE):
        drawn, axes = plt.subplots(rows, columns, **options)
        try:
            yield drawn, axes
        finally:
            plt.close(drawn)


def as_html(drawn: Figure, title: str, alt: str) -> str:
    """Return the drawing as a `<figure>`: SVG in the page's text colour, title as caption, alt text as label."""
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
    svg = _with_roles(svg)
    # Text uses the page's font instead of naming one that the reader may not have.
    svg = re.sub(r"font-family: [^;\"]*sans-serif", "font-family: system-ui, sans-serif", svg)
    return framed(svg, title)


def _with_roles(svg: str) -> str:
    """Replaces each role's colour in a drawing by the role's variable, which follows the theme."""
    for place, role in _IN_TURN.items():
        if place in svg:
            svg = svg.replace(place, ROLES[role])
    role_of = {colour: role for role, colour in ROLES.items()}
    return re.sub(r"#[0-9a-f]{6}\b", lambda at: variable(role_of[at[0]]) if at[0] in role_of else at[0], svg)


def variable(role: str) -> str:
    """Returns the colour of a role as CSS: its variable, with its colour on a light page as the fallback."""
    return f"var(--gf-{role}, {ROLES[role]})"


def framed(drawing: str, title: str) -> str:
    """Wraps a drawing in HTML in a `<figure>` that defines the colours of its roles, with its title as caption."""
    variables = re.sub(
        r"\s+", " ", role_colours.variables(".gf-figure", role_colours.named_in(drawing))
    ).strip()
    stylesheet = f"<style>{variables}</style>" if variables else ""
    caption = f'<figcaption style="font-weight: 600; margin-bottom: .5em">{html.escape(title)}</figcaption>'
    return f'<figure class="gf-figure" style="margin: 1em 0">{stylesheet}{caption}{drawing}</figure>'


def arrow(*points: tuple[int, int], kind: str = "flow") -> str:
    """Draws a line along the axes as SVG of the class `kind`, with an arrowhead of the class "head" at its end."""
    path = "M" + "L".join(f"{x} {y}" for x, y in points)
    (x0, y0), (x, y) = points[-2:]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    head = f"M{x} {y}l{-6 * dx - 4 * dy} {-6 * dy - 4 * dx}l{8 * dy} {8 * dx}z"
    return f'<path d="{path}" class="{kind}"/><path d="{head}" class="head"/>'
