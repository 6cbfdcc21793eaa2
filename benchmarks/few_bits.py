"""Measure how small the weights of a page can be, and what fewer bits a number would change for a reader.

    python benchmarks/few_bits.py              every shipped model; a few minutes
    python benchmarks/few_bits.py shakespeare

A page may use weights with fewer bits only if the loss on held-out text stays within 0.005, and if the view shows what
the text prints, to the digits shown. tools/extensions/model_weights.py says what was decided.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for tools

from glassformer import shipped
from glassformer.checkpoints import MODEL, model_of
from glassformer.widgets.engine.model import LINE
from tools.extensions.model_weights import weights
from tools.models.make import Made, made
from tools.models.measure import held_out, losses

BATCHES = 8  # of the held-out text, whose probabilities are compared
TRIALS = [(8, 16), (8, 32), (8, 64), (6, 32)]  # bits, weights in a group


def sizes(name: str) -> dict[str, int]:
    """Returns the bytes that a reader's browser receives, for each way to send the same numbers."""
    file = (shipped.PLACE / name / MODEL).read_bytes()
    return {
        "safetensors": len(file),
        "packed": len(gzip.compress(file)),
        "in base64, packed": len(gzip.compress(base64.b64encode(file))),
        "first and second bytes packed apart": len(weights(name)),
    }


def rounded(array: np.ndarray, bits: int, group: int) -> tuple[np.ndarray, bytes]:
    """Returns an array whose groups share a float16 scale, and the bytes that describe it."""
    most = 2 ** (bits - 1) - 1
    groups = np.pad(array.astype(np.float32).ravel(), (0, -array.size % group)).reshape(-1, group)
    scales = (np.abs(groups).max(axis=1, keepdims=True) / most).astype(np.float16)
    steps = scales.astype(np.float32)
    steps[steps == 0] = 1
    whole = np.round(groups / steps).clip(-most, most)
    return (whole * steps).ravel()[: array.size].reshape(array.shape), whole.astype(
        np.int8
    ).tobytes() + scales.tobytes()


@torch.no_grad()
def probabilities(model: Any, batches: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Returns the probabilities at all positions of the batches: (positions, V)."""
    found = []
    for inputs in batches:
        arrays = {name: torch.from_numpy(np.asarray(array)) for name, array in inputs.items()}
        logits = model(**arrays) if len(arrays) > 1 else model(*arrays.values())
        found.append(torch.softmax(logits.double(), dim=-1).flatten(0, -2).numpy())
    return np.concatenate(found)


def compared(right: np.ndarray, other: np.ndarray) -> str:
    """Describes the differences that a reader would see."""
    best = right.argmax(axis=1)[:, None]
    shown = [np.round(100 * np.take_along_axis(p, best, axis=1)) for p in (right, other)]
    return (
        f"a probability differs by up to {np.abs(right - other).max():.4f}; "
        f"the first guess has another percentage at {(shown[0] != shown[1]).mean():.1%} of positions"
    )


def measure(one: Made) -> None:
    """Prints everything about one model."""
    for way, size in sizes(one.name).items():
        print(f"{one.name}: {way}: {size / 1000:.0f} kB")
    batches = [inputs for inputs, _ in islice(held_out(one.task)["validation"][1](), BATCHES)]
    texts = {"held-out text": batches}
    if one.name == "shakespeare":
        texts["the book's line"] = [{"ids": one.tokenizer.encode(LINE)[None].astype(np.int64)}]
    exact = model_of(one.config, {k: v.astype(np.float32) for k, v in one.weights.items()}, room="nn").eval()
    before = losses(exact, one.task)
    right = {what: probabilities(exact, inputs) for what, inputs in texts.items()}
    for bits, group in TRIALS:
        arrays, described = {}, b""
        for name, array in one.weights.items():
            if array.ndim < 2:
                arrays[name], described = array.astype(np.float32), described + array.tobytes()
            else:
                arrays[name], more = rounded(array, bits, group)
                described += more
        model = model_of(one.config, arrays, room="nn").eval()
        after = losses(model, one.task)
        size = len(gzip.compress(described)) / 1000
        change = ", ".join(f"{part} {after[part] - before[part]:+.4f}" for part in before)
        print(f"{one.name}, {bits} bits, a scale for {group}: {size:.0f} kB; loss {change}")
        for what, inputs in texts.items():
            print(f"    {what}: {compared(right[what], probabilities(model, inputs))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=shipped.NAMES)
    torch.set_num_threads(1)
    for chosen in parser.parse_args().names:
        measure(made(chosen, [], Path(str(shipped.PLACE))))
