"""A run of a real model of given sizes, for the judges of chapter 01 that count its numbers."""

import numpy as np

from glassformer.config import ModelConfig
from glassformer.scratch import Transformer
from glassformer.trace import Trace, trace


def traced(T: int, D: int, H: int, F: int, V: int, n_layers: int = 1) -> Trace:
    """Returns what a real model of these sizes computes."""
    sizes = {"vocab_size": V, "d_model": D, "n_heads": H, "d_ff": F}
    config = ModelConfig(**sizes, context_length=T, n_layers=n_layers, positions="none")
    with trace() as seen:
        Transformer(config, generator=None)(np.zeros(T, dtype=int))
    return seen
