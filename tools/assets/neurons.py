"""Finds what excites the neurons of the book's decoder most in the training text, for the view NeuronExplorer.

    python tools/assets/neurons.py

writes src/glassformer/chapters/ch06/neurons/shakespeare.safetensors. For each neuron and both signs of its value, the
file lists the positions whose contexts excite the neuron most, and its values there. This takes a few minutes. Run it
again whenever the model has been trained again: tests/chapters/ch06/test_neuron_explorer.py fails until then.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int32, Int64
from safetensors.numpy import save

from glassformer import shipped
from glassformer.chapters.ch06.neuron_explorer import N_CONTEXTS, N_READ, PLACE, beginning
from glassformer.inside import Memory, memories
from glassformer.text import corpus, split

NAME = "shakespeare"
N_CANDIDATES = 20  # the strongest of a neuron, of which those are kept that look different


def found(
    memories: list[Memory], ids: Int64[np.ndarray, " N"], context_length: int
) -> dict[str, Int32[np.ndarray, "L S F n"] | Float32[np.ndarray, "L S F n"]]:
    """Returns positions and values of the strongest distinct contexts, for each block, sign and neuron.

    If there are fewer of these than `N_CONTEXTS`, the last positions are −1. At the start of a window, where the model
    has seen a single character, many contexts are the same.
    """
    L, F = (1 + max(getattr(memory, axis) for memory in memories) for axis in ("block", "neuron"))
    shape = L, 2, F, N_CONTEXTS
    places, values = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
    for memory in memories:
        kept: dict[tuple[int, ...], int] = {}
        for rank, place in enumerate(memory.places):
            kept.setdefault(tuple(ids[beginning(int(place), context_length) : place + 1]), rank)
        ranks = list(kept.values())[:N_CONTEXTS]
        where = memory.block, int(memory.sign < 0), memory.neuron, slice(len(ranks))
        places[where], values[where] = memory.places[ranks], memory.excitement[ranks]
    return {"places": places, "values": values}


def excited(name: str = NAME) -> dict[str, np.ndarray]:
    """Runs `found` on a shipped decoder, which reads the training text's first `N_READ` characters."""
    model, tokenizer = shipped.load(name)
    ids = split(tokenizer.encode(corpus()))[0][:N_READ]
    return found(memories(model, ids, n_contexts=N_CANDIDATES), ids, model.config.context_length)


def main() -> int:
    folder = Path(str(PLACE))
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}.safetensors").write_bytes(save(excited()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
