"""The book's figures: one style, one colour per role, and a display that follows the reader's theme.

A figure is shown as inline SVG whose ink is `currentColor`, so that the same stored output reads well in
JupyterLab and in the built page, light or dark, at any size, and carries its alternative text with it.
"""

import ast
import html
import inspect
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import HTML, Markdown, display
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

ROLES = {
    "query": "#0072B2",
    "key": "#D55E00",
    "value": "#009E73",
    "position": "#CC79A7",
    "residual": "#7F7F7F",
    "feedforward": "#E69F00",
    "norm": "#56B4E9",
    "prediction": "#F0E442",
}
"""One colour per role, from the set of Okabe and Ito (2008), the same in formulas, figures and widgets."""

WEIGHTS = "cividis"
"""Colour map of weights and probabilities, drawn from 0 to 1 unless the axis says otherwise."""

SIGNED = LinearSegmentedColormap.from_list("blue-white-orange", ["#0072B2", "#F7F7F7", "#D55E00"])
"""Colour map of signed values, always drawn on a range symmetric about zero."""

# Drawn with this colour, replaced by `currentColor` on display. No colour map above contains it.
_INK = "#010203"

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
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.prop_cycle": plt.cycler(
        color=[ROLES[role] for role in ("query", "key", "value", "position", "feedforward", "norm")]
    ),
}


@contextmanager
def figure(title: str, alt: str, rows: int = 1, columns: int = 1, **options: object) -> Iterator[np.ndarray]:
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
    with plt.rc_context(_STYLE):
        drawing, axes = plt.subplots(rows, columns, **options)
        try:
            yield axes
            display(HTML(_as_html(drawing, title, alt)))
        finally:
            plt.close(drawing)


def _as_html(drawing: Figure, title: str, alt: str) -> str:
    """Return the drawing as a `<figure>`: SVG in the page's ink, title as caption, alt text as label."""
    buffer = io.StringIO()
    drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r"<svg ",
        f'<svg role="img" aria-label="{html.escape(alt)}" style="max-width: 100%; height: auto" ',
        svg,
        count=1,
    )
    # Text keeps the page's font instead of naming one that the reader may not have.
    svg = re.sub(r"font-family: [^;\"]*sans-serif", "font-family: system-ui, sans-serif", svg)
    caption = f'<figcaption style="font-weight: 600; margin-bottom: .5em">{html.escape(title)}</figcaption>'
    return f'<figure class="gf-figure" style="margin: 1em 0">{caption}{svg}</figure>'


def attention_map(
    ax: Axes,
    weights: Float[np.ndarray, "T S"],
    labels: Sequence[str],
    title: str,
    *,
    highest: float = 1.0,
) -> AxesImage:
    """Draw attention weights, queries down and keys across.

    Args:
        ax: where to draw.
        weights: attention weights (T, S).
        labels: the tokens, one for each key; the last T of them are the queries.
        title: what distinguishes this map from its neighbours.
        highest: the weight that gets the brightest colour; the same for maps that are compared.

    Returns:
        The image, for a colour bar shared among maps.
    """
    n_queries, n_keys = weights.shape
    if len(labels) != n_keys:
        raise ValueError(f"labels has {len(labels)} entries for {n_keys} keys; there must be one for each")
    image = ax.imshow(weights, cmap=WEIGHTS, vmin=0, vmax=highest)
    ax.set_xticks(range(n_keys), labels, rotation=90)
    ax.set_yticks(range(n_queries), labels[n_keys - n_queries :])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title)
    return image


def show_source(*objects: object, backward: bool = False) -> None:
    """Show the package's own source of functions or classes, highlighted as code in notebook and page.

    Of each docstring only the summary is shown; `help` has the rest. Methods that lead gradients back, whose
    names end in `_backward`, are shown only with `backward`.
    """
    source = "\n\n".join(_shortened(inspect.getsource(item), backward) for item in objects)
    display(Markdown(f"```python\n{source}\n```"))


def _shortened(source: str, backward: bool) -> str:
    """Return the source with each docstring cut after its first paragraph, and with or without the way back."""
    source = textwrap.dedent(source).rstrip()
    lines: list[str | None] = list(source.splitlines())
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            docstring = node.body[0]
            summary = docstring.lineno - 1
            rest = range(summary + 1, docstring.end_lineno)
            blank = next((number for number in rest if not lines[number].strip()), None)
            if blank is not None:
                lines[blank - 1] += '"""'
                lines[blank : docstring.end_lineno] = [None] * (docstring.end_lineno - blank)
        if isinstance(node, ast.ClassDef) and not backward:
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name.endswith("_backward"):
                    begin = method.lineno - 2  # with the empty line before it
                    lines[begin : method.end_lineno] = [None] * (method.end_lineno - begin)
    return "\n".join(line for line in lines if line is not None)
