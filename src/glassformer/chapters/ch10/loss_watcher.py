"""A loss curve that grows while a model trains, and can be replayed afterwards at the reader's pace."""

import json
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, SupportsFloat

from traitlets import Bool, Dict, Enum, Int, List, TraitError, validate

from glassformer.widgets.kit.view import View

EVERY = 0.25  # seconds between two messages to the page, so that drawing does not slow down training
SINGLE = 96  # steps stored one by one; a later point stands for step / SINGLE of them
DIGITS = 4  # of a loss, after the point
LONGEST = 400  # characters of a sample
SAMPLES = 24_000  # bytes that all samples may take together
SMOOTH = (1, 5, 10, 20, 50, 100, 200)
PACES = (60, 30, 15, 10, 5)
AXES = ("linear", "log")

Point = list[int | float | None]
"""A step with the mean, lowest and highest loss of the steps that it stands for; None: not a number."""


class LossWatcher(View, module="loss_watcher"):
    """Watch a model learn: its loss compared with landmarks, and samples of its text.

        watcher = LossWatcher(landmarks={"ln V": 4.17, "unigram": 3.31, "bigram": 2.46}, steps=300, per_step=512)
        display(watcher)
        for step, loss in enumerate(losses):
            watcher.add(step, loss)

    The first 96 steps are stored one by one, and a later point stands for about a hundredth of the steps
    before it, so a long run stays small. The page is updated a few times per second, however fast training
    is.

    Traits:
        steps: how many steps are planned; 0: not known.
        landmarks: losses to compare with, by name. Of "ln V", "unigram", "bigram" and "trigram" the view knows what
            it means to be below them.
        per_step: how many characters a step learns from; 0: not told.
        points, samples: what was added, as the page keeps it: [step, mean, lowest, highest] and [step, text].
        at: the point that is shown; −1: the newest, whichever that is. 0 begins a finished run at its first step.
        axis: "linear" or "log", of the steps.
        smooth: over how many steps the line is an average, always of the last ones; one of SMOOTH.
        raw: whether the losses themselves are drawn as well.
        pace: in how many seconds the whole run plays, one of PACES.

    Raises:
        TraitError: a landmark is no positive number, or a value outside its range.
    """

    steps = Int(0, min=0).tag(sync=True)
    landmarks = Dict().tag(sync=True)
    per_step = Int(0, min=0).tag(sync=True)
    points = List().tag(sync=True)
    samples = List().tag(sync=True)
    at = Int(-1, min=-1).tag(sync=True)
    axis = Enum(AXES, "linear").tag(sync=True)
    smooth = Enum(SMOOTH, 10).tag(sync=True)
    raw = Bool(True).tag(sync=True)
    pace = Enum(PACES, 15).tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self._kept: list[Point] = [list(point) for point in self.points]
        self._said: list[list] = [list(sample) for sample in self.samples]
        self._open: list[tuple[int, float]] = []  # losses that belong to no point yet
        self._last: int | None = self.points[-1][0] if self.points else None  # the step that was added last
        self._sent = -math.inf  # when the page was last updated

    @classmethod
    def recorded(
        cls,
        losses: Iterable[tuple[int, float]],
        samples: Iterable[tuple[int, str]] = (),
        **traits: Any,
    ) -> "LossWatcher":
        """Makes a watcher of a finished run from its losses and samples, each with its step."""
        watcher = cls(**traits)
        for step, sample in samples:
            watcher._write(step, sample)
        for step, loss in losses:
            watcher._keep(step, loss)
        watcher.finish()
        return watcher

    def add(self, step: int, loss: float) -> None:
        """Adds the loss after `step` training steps; the first is that of step 0. Step 0 again starts another run.

        Raises:
            ValueError: steps do not increase.
        """
        self._keep(step, loss)
        self._tell(done=self._is_over())

    def say(self, step: int, sample: str) -> None:
        """Shows what the model writes after `step` steps, cut to 400 characters; may precede that step's loss."""
        self._write(step, sample)
        self._tell(done=self._is_over())

    def finish(self) -> None:
        """Ends the run and sends the remaining points to the page. A run of `steps` steps does this by itself."""
        self._tell(done=True)

    def _is_over(self) -> bool:
        """Returns whether the last of the planned steps was added."""
        return self._last is not None and 0 < self.steps <= self._last + 1

    def _keep(self, step: int, loss: float) -> None:
        if step == 0 and self._last is not None:
            self._begin_anew()
        last = -1 if self._last is None else self._last
        if step <= last:
            raise ValueError(f"step={step} must come after step {last}")
        self._open.append((int(step), float(loss)))
        self._last = int(step)
        if step - self._open[0][0] + 1 >= step / SINGLE:
            self._kept.append(_point(self._open))
            self._open = []

    def _begin_anew(self) -> None:
        self._kept, self._said, self._open, self._last = [], [], [], None

    def _write(self, step: int, sample: str) -> None:
        if step == 0 and self._last:  # before the first loss of another run
            self._begin_anew()
        self._said.append([int(step), str(sample)[:LONGEST]])
        while len(json.dumps(self._said)) > SAMPLES:  # drop every other one, keep the first and last
            self._said = [*self._said[:-1:2], self._said[-1]]

    def _tell(self, *, done: bool) -> None:
        now = time.monotonic()
        if not done and now - self._sent < EVERY:
            return
        with self.hold_sync():
            self.points = [*self._kept, _point(self._open)] if self._open else list(self._kept)
            self.samples = list(self._said)
            self.at = self.at  # which may be beyond the last point now
        self._sent = time.monotonic()

    @validate("at")
    def _validate_at(self, proposal: dict) -> int:
        at = proposal["value"]
        return -1 if self.points and at >= len(self.points) - 1 else at

    @validate("landmarks")
    def _validate_landmarks(self, proposal: dict) -> Mapping[str, float]:
        given = proposal["value"]
        for name, value in given.items():
            if not isinstance(value, SupportsFloat) or not 0 < float(value) < math.inf:
                raise TraitError(f"landmarks[{name!r}]={value!r} must be a positive number")
        return {str(name): float(value) for name, value in given.items()}


def _point(losses: list[tuple[int, float]]) -> Point:
    """Summarizes several neighbouring losses in one point."""
    step, values = losses[-1][0], [loss for _, loss in losses]
    if not all(map(math.isfinite, values)):
        return [step, None, None, None]
    mean = math.fsum(values) / len(values)
    return [step, *(round(each, DIGITS) for each in (mean, min(values), max(values)))]
