"""The norm before the sublayer or after the sum: how training goes, and the gradients at the start."""

import math
from statistics import median
from typing import Any

from traitlets import Bool, Dict, Enum, Int, TraitError, Unicode, default, observe, validate

from glassformer.experiments import stored
from glassformer.experiments.experiment import thinned
from glassformer.widgets.kit.view import Number, View

POINTS = 20  # of a run's curve
PLAIN = {"placement", "n_layers", "warmup", "learning_rate", "seed"}  # settings of the runs that are shown


class NormPlacementExplorer(View, module="norm_placement_explorer"):
    """Pre-norm and post-norm in the book's own runs, with exactly what was measured, for every seed.

    The first view shows how the loss falls and where it ends, at several depths and learning rates, with and
    without a warm-up; a line marks the loss from character frequencies alone. The second shows, for untrained
    models and three initializations, the length of each block's gradient over all its matrices, and the ratio of
    the first block's gradient to the last block's.

    Source: the experiments `norm_placement` and `norm_gradients`; Xiong et al. 2020, "On Layer Normalization in the
    Transformer Architecture". Derived in chapter 05.

    Traits:
        view: "training" or "gradients".
        trained_depth: blocks of the trained models, one of those that were measured.
        learning_rate: one of those measured at that depth; another depth takes it to the nearest that is.
        warmup: whether the learning rate grows at first.
        untrained_depth: blocks of the models whose gradients are shown, 2 to 64, a power of two.
        init: what their weights start from, "ours", "gpt2" or "xavier".

    Raises:
        TraitError: a value that was not measured.
    """

    view = Enum(["training", "gradients"], "training").tag(sync=True)
    trained_depth = Int(8).tag(sync=True)
    learning_rate = Number(1e-3, min=0.0, max=1.0).tag(sync=True)
    warmup = Bool(False).tag(sync=True)
    untrained_depth = Int(32).tag(sync=True)
    init = Unicode("ours").tag(sync=True)
    _data = Dict().tag(sync=True)

    @default("_data")
    def _default_data(self) -> dict[str, Any]:
        """Returns only what is drawn: curves in a few points, losses to a hundredth, gradients to three digits."""
        plain = [run for run in stored("norm_placement") if set(run.settings) == PLAIN]
        gradients: dict[str, dict] = {}  # gradients[init][placement][depth][seed][block]
        for run in stored("norm_gradients"):
            one = gradients.setdefault(run.settings["init"], {}).setdefault(run.settings["placement"], {})
            for depth, found in run.found.items():
                one.setdefault(depth, []).append([float(f"{length:.3g}") for length in found["gradient"]])
        return {
            "unigram": median(run.found["unigram"] for run in plain),
            "warmup": max(run.settings["warmup"] for run in plain),
            "runs": [
                {
                    "placement": run.settings["placement"],
                    "depth": run.settings["n_layers"],
                    "rate": run.settings["learning_rate"],
                    "warmup": run.settings["warmup"] > 0,
                    "steps": run.found["steps"],
                    "end": run.found["validation_loss"],
                    "loss": [round(loss, 2) for loss in thinned(run.found["loss"], POINTS)],
                }
                for run in plain
            ],
            "gradients": gradients,
        }

    def _rates(self, depth: int) -> list[float]:
        """The learning rates that were measured at a depth."""
        return sorted({run["rate"] for run in self._data["runs"] if run["depth"] == depth})

    @validate("trained_depth", "learning_rate", "untrained_depth", "init")
    def _validate_measured(self, proposal: dict) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        measured: dict[str, list] = {
            "trained_depth": sorted({run["depth"] for run in self._data["runs"]}),
            "learning_rate": self._rates(self.trained_depth),
            "untrained_depth": [int(depth) for depth in self._data["gradients"]["ours"]["pre"]],
            "init": list(self._data["gradients"]),
        }
        if value not in measured[name]:
            at = f", measured with trained_depth={self.trained_depth}" if name == "learning_rate" else ""
            raise TraitError(f"{name}={value!r} is not one of {', '.join(map(str, measured[name]))}{at}")
        return value

    @observe("trained_depth")
    def _fit(self, change: dict) -> None:
        rates = self._rates(change["new"])
        if self.learning_rate not in rates:
            self.learning_rate = min(rates, key=lambda rate: abs(math.log(rate / self.learning_rate)))
