"""Experiments: the book's claims about training, measured with several seeds.

Each file has one `Experiment`: a question, the runs that answer it, and the function that performs a run. The
long runs are performed once, by `make experiments`, and their results are stored in the package. Chapters
plot these results, and any reader can repeat any run:

    from glassformer.experiments import experiment
    experiment("positions").measure(positions="rope", length=64, seed=0, steps=50)

Unless a file says otherwise, the validation loss here is that of the whole last tenth of the text, which the
recipes have since divided into a validation part and a test part.
"""

from importlib import import_module

from glassformer import _checks as checks
from glassformer.experiments.experiment import Experiment, Run, spread, stored

NAMES = (
    "depth",
    "tokens",
    "induction",
    "scale",
    "leak",
    "drowned",
    "positions",
    "recall",
    "norm_gradients",
    "norm_placement",
    "stuck",
    "activations",
    "inside",
    "residual",
    "worth",
    "tying",
    "schedules",
    "longer",
    "recipes",
    "pitfalls",
    "late_mask",
    "sampling",
    "clinic",
    "families",
    "own_text",
    "long_texts",
    "state_costs",
    "states",
    "mixtures",
)
"""All experiments, in the order of the chapters that show them."""

__all__ = ["NAMES", "Experiment", "Run", "experiment", "spread", "stored"]
__dir__ = __all__.copy


def experiment(name: str) -> Experiment:
    """Returns the experiment of that name, imported on first use because most need PyTorch.

    Raises:
        ValueError: there is no experiment of that name.
    """
    checks.one_of("name", name, NAMES)
    return import_module(f"{__name__}.{name}").EXPERIMENT
