"""A small GPT that is sure enough of itself that every mistake shows, for the judges of chapter 11."""

from functools import cache
from typing import Any

import numpy as np

CONTEXT = 12


@cache
def small_gpt(n_layers: int = 2) -> Any:
    """A GPT of the package, small and sure enough of itself that every mistake shows."""
    from glassformer import scratch
    from glassformer.published import published

    config = published("gpt2").config.replace(
        vocab_size=9, context_length=CONTEXT, d_model=8, n_layers=n_layers, n_heads=2, d_ff=8,
        attention_bias="none", feedforward="gelu",
    )  # fmt: skip
    model = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64)
    rng = np.random.default_rng(1)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.4
    return model


def small_weights(n_layers: int = 2) -> dict[str, np.ndarray]:
    """Returns the weights of the small GPT under their names."""
    return dict(small_gpt(n_layers).named_parameters())
