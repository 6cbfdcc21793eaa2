"""What one more token costs a model of states, one of attention, and a hybrid, by how long the text already is."""

import time
from typing import Any

import numpy as np
import torch

from glassformer import _checks as checks
from glassformer import scratch
from glassformer.config import ModelConfig
from glassformer.experiments import training
from glassformer.experiments.experiment import Experiment, Found, grid
from glassformer.layers import LinearAttention

LENGTHS = (1000, 10_000, 100_000)  # positions before the token
ROUNDS = 100  # in which the lengths take turns; the fastest counts

FORM = LinearAttention(n_heads=4, n_key_heads=4, d_key=32, d_value=32)
STATE, FULL = {"state": {"form": FORM}}, {"full": {}}
MODELS: dict[str, dict[str, Any]] = {
    "states": {"kinds": STATE},
    "hybrid": {"kinds": STATE | FULL, "order": "state*3 full"},
    "attention": {"kinds": FULL},
}
ROOMS = ("scratch", "nn")


def measure(room: str, model: str, seed: int = 0, rounds: int = ROUNDS) -> Found:
    """Measures what a token costs after texts of `LENGTHS` positions.

    The model, of 4 × 128 with initial weights in float32, has only "states", only "attention", or is a "hybrid" with
    three states to one attention. `room` is "scratch" or "nn". Returns, for each length, the "milliseconds" of the
    processor on one thread, and the "bytes" of the cache.

    Derived in chapter 17.

    Raises:
        ValueError: there is no such room or model, or `rounds` is below 1.
    """
    checks.one_of("room", room, ROOMS)
    checks.one_of("model", model, MODELS)
    checks.whole("rounds", rounds)
    one, of_numpy = drawn(room, model, seed)
    ids = of_numpy(np.zeros((1, 1), int))
    caches = [one.new_cache(1, length + rounds + 1) for length in LENGTHS]
    best = [float("inf")] * len(LENGTHS)
    for cache, length in zip(caches, LENGTHS, strict=True):
        pretend_to_have_read(cache, length, of_numpy, seed)
        one(ids, cache=cache)
    for _ in range(rounds):
        for i, cache in enumerate(caches):
            began = time.process_time()
            one(ids, cache=cache)
            best[i] = min(best[i], time.process_time() - began)
    return {
        "milliseconds": [1000 * seconds for seconds in best],
        "bytes": [one.new_cache(1, length).nbytes for length in LENGTHS],
    }


def drawn(room: str, model: str, seed: int = 0) -> tuple[Any, Any]:
    """Returns a model with initial weights, without gradients, and what makes its arrays of NumPy's."""
    config = ModelConfig(
        vocab_size=65,
        context_length=LENGTHS[-1] + 1000,
        d_model=128,
        n_layers=4,
        n_heads=4,
        positions="none",
        norm="rmsnorm",
        feedforward="swiglu",
        attention_bias="none",
        **MODELS[model],
    )
    if room == "scratch":
        return scratch.Transformer(config, generator=np.random.default_rng(seed)).eval(), np.asarray
    return training.drawn(config, seed).eval().requires_grad_(False), torch.from_numpy


def pretend_to_have_read(cache: Any, length: int, of_numpy: Any, seed: int) -> None:
    """Fills a cache with random numbers, as if so many positions had been read: what they are changes no time."""
    rng = np.random.default_rng(seed)
    for block in cache.blocks:
        for array in (block.keys, block.values):
            array[:] = of_numpy(rng.standard_normal(tuple(array.shape), np.float32))
        block.length = block.filled = length
    cache.place(of_numpy(np.arange(length)))


EXPERIMENT = Experiment(
    name="state_costs",
    question="What does one more token cost when a text is long, with states, with attention, and with both?",
    measure=measure,
    runs=grid(room=ROOMS, model=MODELS),
    short={"rounds": 5},
)
