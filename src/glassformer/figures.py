"""The book's figures: one style, one colour per role, and a display that follows the reader's theme.

A figure is shown as inline SVG whose ink is `currentColor`, so that the same stored output reads well in
JupyterLab and in the built page, light or dark, at any size, and carries its alternative text with it.
"""

import ast
import html
import inspect
import io
import math
import re
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import HTML, DisplayHandle, Markdown, display
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from glassformer import _checks as checks

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
    with _drawing(rows, columns, **options) as (drawing, axes):
        yield axes
        display(HTML(_as_html(drawing, title, alt)))


@contextmanager
def _drawing(rows: int = 1, columns: int = 1, **options: object) -> Iterator[tuple[Figure, np.ndarray]]:
    """A drawing in the book's style, and its axes; closed afterwards."""
    with plt.rc_context(_STYLE):
        drawing, axes = plt.subplots(rows, columns, **options)
        try:
            yield drawing, axes
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


class LossCurve:
    """A figure of the loss that grows while a model trains, to be called with the record of every step.

        with figures.LossCurve("What it learns in a minute", {"ln V": math.log(65)}) as curve:
            Trainer(model, task, config, callback=curve, progress=False).run()

    A record has "step" and "loss", and "validation_loss" where that was measured, as `Trainer` gives it; any loop can
    make one. The figure is drawn again `every` so many seconds, and once more at the end, also after Ctrl-C.

    Derived in chapter 10.

    Args:
        title: the figure's caption.
        landmarks: losses worth knowing, by name, drawn as lines across.
        every: seconds from one drawing to the next.

    Raises:
        ValueError: `title` is empty, or `every` not above 0.
    """

    def __init__(
        self, title: str, landmarks: Mapping[str, float] | None = None, *, every: float = 1.0
    ) -> None:
        if not title.strip():
            raise ValueError(f"title={title!r} is empty: a figure needs its message in words")
        checks.positive("every", every)
        self.title, self.landmarks, self.every = title, dict(landmarks or {}), every
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.validations: list[tuple[int, float]] = []
        self._handle: DisplayHandle | None = None
        self._drawn_at = -math.inf

    def __enter__(self) -> "LossCurve":
        return self

    def __exit__(self, *_: object) -> None:
        if self.steps:
            self._draw()

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Takes up the record of a step, and draws if it is time."""
        self.steps.append(record["step"])
        self.losses.append(record["loss"])
        if "validation_loss" in record:
            self.validations.append((record["step"], record["validation_loss"]))
        if time.monotonic() - self._drawn_at >= self.every:
            self._draw()
            self._drawn_at = time.monotonic()

    def _draw(self) -> None:
        with _drawing() as (drawing, ax):
            ax.plot(self.steps, self.losses, color=ROLES["residual"], linewidth=0.7, alpha=0.6)
            ax.plot(self.steps, smoothed(self.losses), color=ROLES["query"], label="training, smoothed")
            if self.validations:
                ax.plot(*zip(*self.validations, strict=True), "o--", color=ROLES["key"], label="validation")
            for name, loss in self.landmarks.items():
                ax.axhline(loss, color=_INK, linewidth=0.8, linestyle=":")
                beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 10}
                ax.annotate(name, (1, loss), xycoords=("axes fraction", "data"), **beside)
            ax.set_xlabel("step")
            ax.set_ylabel("loss (nats per token)")
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
            shown = HTML(_as_html(drawing, self.title, self._in_words()))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def _in_words(self) -> str:
        first, last, step = self.losses[0], smoothed(self.losses)[-1], self.steps[-1]
        words = f"The loss in training against the step, from {first:.2f} to {last:.2f} at step {step}"
        return words + (f"; in validation {self.validations[-1][1]:.2f}." if self.validations else ".")


def smoothed(losses: Sequence[float], stays: float = 0.9) -> Float[np.ndarray, " N"]:
    """Each loss as a mean of it and those before, which count less by a factor of `stays` a step.

    Divided by the sum of the weights, so that the first ones are means too.
    """
    mean, found = 0.0, []
    for i, loss in enumerate(losses, start=1):
        mean = stays * mean + (1 - stays) * loss
        found.append(mean / (1 - stays**i))
    return np.array(found)


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
