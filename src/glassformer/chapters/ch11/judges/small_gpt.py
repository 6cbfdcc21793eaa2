"""Small models that are sure enough of themselves that every mistake shows, for the judges of chapters 11 to 13."""

from functools import cache
from typing import Any

import numpy as np

CONTEXT = 12


@cache
def small_model(**sizes: Any) -> Any:
    """Returns a model of the package like GPT-2, but with these sizes."""
    from glassformer import scratch
    from glassformer.published import published

    config = published("gpt2").config.replace(**sizes)
    model = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64).eval()
    rng = np.random.default_rng(1)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.4
    return model


def small_gpt(n_layers: int = 2) -> Any:
    """Returns a GPT of the book's kind: no biases in attention, and the exact GELU."""
    return small_model(
        vocab_size=9, context_length=CONTEXT, d_model=8, n_layers=n_layers, n_heads=2, d_ff=8,
        attention_bias="none", feedforward="gelu",
    )  # fmt: skip


def small_weights(n_layers: int = 2) -> dict[str, np.ndarray]:
    """Returns the weights of the small GPT under their names."""
    return dict(small_gpt(n_layers).named_parameters())


class CountedTable(np.ndarray):
    """A table that counts how many of its rows are looked up; what is made of it does not count."""

    looked_up, counts = 0, False

    def __array_finalize__(self, made_of: Any) -> None:
        self.counts = False

    def __getitem__(self, place: Any) -> Any:
        found = np.asarray(self)[place]
        if self.counts:
            CountedTable.looked_up += found.size // self.shape[1]
        return found

    def __deepcopy__(self, memo: Any, /) -> "CountedTable":
        return self


def with_counted_table(name: str, n_layers: int) -> dict[str, np.ndarray]:
    """The weights, of which one table counts its look-ups, from 0."""
    weights = small_weights(n_layers)
    weights[name] = table = weights[name].view(CountedTable)
    table.counts, CountedTable.looked_up = True, 0
    return weights
