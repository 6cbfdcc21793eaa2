"""Draws the loss while a model trains."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import HTML, DisplayHandle, display
from jaxtyping import Float

from glassformer import _checks as checks
from glassformer.figures.style import INK, ROLES, as_html, drawing


class LossCurve:
    """A figure of the loss that grows while a model trains. Call it with the record of every step.

        with figures.LossCurve("What it learns in a minute", {"ln V": math.log(65)}) as curve:
            Trainer(model, task, config, callback=curve, progress=False).run()

    A record has "step" and "loss", and "validation_loss" if that was measured, as those of `Trainer` do; any
    loop can make one. The figure is redrawn after `every` seconds, and once more at the end, also after
    Ctrl-C.

    Derived in chapter 10.

    Args:
        title: the figure's caption.
        landmarks: losses worth knowing, by name, drawn as lines across.
        every: seconds from one drawing to the next.

    Raises:
        ValueError: `title` is empty, or `every` is not above 0.
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
        """Adds the record of a step, and redraws the figure if it is due."""
        self.steps.append(record["step"])
        self.losses.append(record["loss"])
        if "validation_loss" in record:
            self.validations.append((record["step"], record["validation_loss"]))
        if time.monotonic() - self._drawn_at >= self.every:
            self._draw()
            self._drawn_at = time.monotonic()

    def _draw(self) -> None:
        with drawing() as (drawn, ax):
            ax.plot(self.steps, self.losses, color=ROLES["residual"], linewidth=0.7, alpha=0.6)
            ax.plot(self.steps, smoothed(self.losses), color=ROLES["query"], label="training, smoothed")
            if self.validations:
                ax.plot(*zip(*self.validations, strict=True), "o--", color=ROLES["key"], label="validation")
            for name, loss in self.landmarks.items():
                ax.axhline(loss, color=INK, linewidth=0.8, linestyle=":")
                beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 10}
                ax.annotate(name, (1, loss), xycoords=("axes fraction", "data"), **beside)
            ax.set_xlabel("step")
            ax.set_ylabel("loss (nats per token)")
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
            shown = HTML(as_html(drawn, self.title, self._in_words()))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def _in_words(self) -> str:
        first, last, step = self.losses[0], smoothed(self.losses)[-1], self.steps[-1]
        words = f"The loss in training against the step, from {first:.2f} to {last:.2f} at step {step}"
        return words + (f"; in validation {self.validations[-1][1]:.2f}." if self.validations else ".")


def smoothed(losses: Sequence[float], stays: float = 0.9) -> Float[np.ndarray, " N"]:
    """Returns a running mean: each loss averaged with those before it, whose weight is multiplied by `stays` per step.

    The sum is divided by the sum of the weights, so that the first entries are means too.
    """
    mean, found = 0.0, []
    for i, loss in enumerate(losses, start=1):
        mean = stays * mean + (1 - stays) * loss
        found.append(mean / (1 - stays**i))
    return np.array(found)
