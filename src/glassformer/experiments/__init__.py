"""Experiments: what the book claims of training, measured at several seeds.

Each is a file with one `Experiment`: a question, the runs that answer it, and the function that makes one of
them. The long runs are made once, by `make experiments`, and what they found is kept in the package. Chapters draw
that, and any reader can make any run again:

    from glassformer.experiments import experiment
    experiment("positions").measure(positions="rope", length=64, seed=0, steps=50)

What they call the validation loss is, unless one says otherwise, over the whole last tenth of the text: what is for
validation since, and what is for the test.
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
    "recipes",
    "pitfalls",
    "sampling",
    "clinic",
    "families",
    "own_text",
)
"""All experiments, in the order of the chapters that show them."""

__all__ = ["NAMES", "Experiment", "Run", "experiment", "spread", "stored"]


def experiment(name: str) -> Experiment:
    """The experiment of that name, imported when it is first asked for: most need PyTorch.

    Raises:
        ValueError: there is no experiment of that name.
    """
    checks.one_of("name", name, NAMES)
    return import_module(f"{__name__}.{name}").EXPERIMENT
