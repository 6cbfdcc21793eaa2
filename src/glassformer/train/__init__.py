"""Training: one loop for all families in PyTorch, and a short one in NumPy.

`Trainer` needs a model, one of `glassformer.tasks` and a `TrainingConfig`. To train on several GPUs or
machines, start the same program with torchrun:

    torchrun --nproc-per-node 4 train.py

The processes share every batch, so nothing else has to be changed. On a GPU, `dtype="bfloat16"` and
`compile=True` of `TrainingConfig` are usually worth it: the first halves the memory traffic, the second fuses
small operations.
"""

from importlib import import_module
from typing import Any

from glassformer._checks import extras
from glassformer.train.config import TrainingConfig
from glassformer.train.in_numpy import train_in_numpy
from glassformer.train.log import read_log
from glassformer.train.samples import continuing
from glassformer.train.schedule import ema_share, muon_momentum, rate_share

ON_FIRST_USE = {
    "Muon": "muon",
    "Recipe": "recipe",
    "Trainer": "trainer",
    "cross_entropy_loss": "evaluate",
    "initialize": "optimizers",
    "validation_loss": "evaluate",
}

__all__ = [
    "Muon",
    "Recipe",
    "Trainer",
    "TrainingConfig",
    "continuing",
    "cross_entropy_loss",
    "ema_share",
    "initialize",
    "muon_momentum",
    "rate_share",
    "read_log",
    "train_in_numpy",
    "validation_loss",
]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Imports some names only on first use, so that users of the NumPy room need not wait for PyTorch."""
    if name in ON_FIRST_USE:
        if name != "Recipe":
            extras.torch  # noqa: B018 - or say how to install it
        return getattr(import_module(f"{__name__}.{ON_FIRST_USE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
