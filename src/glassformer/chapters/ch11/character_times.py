"""Measures where the time for one character goes: into the products, or into the calls of functions around them."""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import scratch, shipped
from glassformer.generate import generate

TIMES = Path(__file__).with_name("character_times.json")  # written by tools/assets/cache_times.py
BEGINNING, N_NEW = "A horse! a horse! my kingdom", 94
CHARACTERS = 100  # that are read one by one, with a cache
REPEATS = 7  # of which the fastest counts


def stored() -> dict[str, Any]:
    """Returns what `measure` found on a quiet computer, which "on" describes in a few words."""
    return json.loads(TIMES.read_text("utf-8"))


def measure(repeats: int = REPEATS) -> dict[str, Any]:
    """Measures the times on this computer, with NumPy.

    Returns:
        Milliseconds. "model", "tiny" and "products" are those for one character with a cache: of the book's
        model, of a model with as many blocks that is 8 numbers wide, and of the products of a row with all
        weight matrices of the book's model and nothing else. "without" and "with" are those for writing 94
        characters without a cache and with one. "on" says what they were measured on.

    Derived in chapter 11.
    """
    model, tokenizer = shipped.load("shakespeare")
    ids = tokenizer.encode(BEGINNING)
    tiny = scratch.Transformer(
        model.config.replace(d_model=8, d_head=2, d_ff=16, dropout=0.0),
        generator=np.random.default_rng(0),
    )
    matrices = [
        weight
        for name, weight in model.named_parameters().items()
        if weight.ndim == 2 and name != "token_embedding.weight"
    ]
    row = {len(w): np.ones((1, len(w)), np.float32) for w in matrices}

    def read(one: scratch.Transformer) -> None:
        cache = one.new_cache(1, CHARACTERS)
        for _ in range(CHARACTERS):
            one.head(one.hidden(ids[None, :1], cache=cache))

    def multiply() -> None:
        for weight in matrices * CHARACTERS:
            row[len(weight)] @ weight

    def write(cached: bool) -> None:
        generate(model, ids, N_NEW, temperature=0, cache=cached)

    works: dict[str, tuple[Callable[[], object], int]] = {
        "model": (lambda: read(model), CHARACTERS),
        "tiny": (lambda: read(tiny), CHARACTERS),
        "products": (multiply, CHARACTERS),
        "without": (lambda: write(cached=False), 1),
        "with": (lambda: write(cached=True), 1),
    }
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, (work, times) in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], (time.perf_counter() - start) / times)
    return {name: round(1000 * one, 3) for name, one in best.items()} | {
        "on": f"this computer ({platform.machine()})"
    }
