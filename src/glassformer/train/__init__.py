"""Training: one loop for every family in PyTorch, and a short one in NumPy.

`Trainer` needs a model, one of `glassformer.tasks` and a `TrainingConfig`. Several GPUs, or machines, train
together when the same program is started by torchrun:

    torchrun --nproc-per-node 4 train.py

They share every batch, so that nothing else has to be changed. On a GPU, `dtype="bfloat16"` and `compile=True` of
`TrainingConfig` are usually worth it: the first halves what has to be moved, the second joins small operations.
"""

from importlib import import_module
from typing import Any

from glassformer.train.config import TrainingConfig
from glassformer.train.in_numpy import train_in_numpy
from glassformer.train.log import read_log
from glassformer.train.samples import continuing
from glassformer.train.schedule import ema_share, muon_momentum, rate_share

NEEDS_TORCH = {
    "Muon": "muon",
    "Trainer": "trainer",
    "initialize": "optimizers",
    "validation_loss": "evaluate",
}

__all__ = [
    "Muon",
    "Trainer",
    "TrainingConfig",
    "continuing",
    "ema_share",
    "initialize",
    "muon_momentum",
    "rate_share",
    "read_log",
    "train_in_numpy",
    "validation_loss",
]


def __getattr__(name: str) -> Any:
    """Imports what needs PyTorch when it is first asked for: readers of the NumPy room need not wait for it."""
    if name in NEEDS_TORCH:
        return getattr(import_module(f"{__name__}.{NEEDS_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
