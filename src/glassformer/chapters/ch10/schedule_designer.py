"""Learning-rate schedules to design, next to the results of such schedules in the book's own runs."""

from typing import Any

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Dict, Enum, Int, default

from glassformer.experiments import stored
from glassformer.widgets.kit.view import Number, View

DECAYS = ("none", "linear", "cosine")
MOST = 100_000  # steps


class ScheduleDesigner(View, module="schedule_designer"):
    """Design a learning-rate schedule (peak, warm-up, decay) and compare it with the nearest one that was measured.

    The nearest schedule has the nearest peak, by ratio, and then the nearest shape, by the area between the
    two curves, each over its own steps. Every loss comes from a run of the book; nothing is interpolated.

    Source: the experiment `schedules`; `glassformer.train.schedule.rate_share`. Derived in chapter 10.

    Traits:
        peak: the highest learning rate, 0.00001 to 1.
        warmup: steps of rising, from 0.
        decay: what follows: "none", "linear" or "cosine".
        final_share: what would be left of the rate at the end, 0 to 1.
        steps: how many steps there are, 1 to 100,000.
        table: whether the table of all results is shown; until then, the view compares nothing with it.

    Raises:
        TraitError: a value outside these ranges.
    """

    peak = Number(3e-3, min=1e-5, max=1.0).tag(sync=True)
    warmup = Int(30, min=0, max=MOST).tag(sync=True)
    decay = Enum(DECAYS, "cosine").tag(sync=True)
    final_share = Number(0.0, min=0.0, max=1.0).tag(sync=True)
    steps = Int(300, min=1, max=MOST).tag(sync=True)
    table = Bool(False).tag(sync=True)
    _data = Dict().tag(sync=True)

    def rates(self) -> Float[np.ndarray, " N"]:
        """Computes the rate of each of N steps, as the view draws it, with `glassformer.train`."""
        from glassformer.train.config import TrainingConfig
        from glassformer.train.schedule import rate_share

        config = TrainingConfig(
            steps=self.steps,
            batch_size=1,
            learning_rate=self.peak,
            warmup=self.warmup,
            decay=self.decay,
            final_share=self.final_share,
        )
        return np.array([self.peak * rate_share(config, step) for step in range(self.steps)])

    @default("_data")
    def _default_data(self) -> dict[str, Any]:
        """Returns the stored runs by their settings, with losses to a hundredth; `end` is None if a run broke off."""
        choices: dict[tuple, list] = {}
        for run in stored("schedules"):
            chosen = tuple(run.settings[name] for name in ("peak", "warmup", "decay"))
            choices.setdefault(chosen, []).append(
                {
                    "seed": run.settings["seed"],
                    "steps": run.found["steps"],
                    "end": run.found.get("validation_loss"),
                    "loss": [round(loss, 2) for loss in run.found["loss"] if loss is not None],
                }
            )
        planned = max(run["steps"] for runs in choices.values() for run in runs)
        return {
            "steps": planned,
            "choices": [
                {"peak": peak, "warmup": warmup, "decay": decay, "runs": runs}
                for (peak, warmup, decay), runs in sorted(
                    choices.items(), key=lambda item: (DECAYS.index(item[0][2]), item[0][1], item[0][0])
                )
            ],
        }
