"""Generates text with a model of either room, from the next id to whole texts.

`strategies` turns logits into the distribution that the next id is drawn from, `loop` reads, draws and
appends, and `beams` follows several texts at once. Models are either room's `Transformer`, in evaluation
(`model.eval()`). Strategies and draws use NumPy for both rooms, so the same seed gives the same text.
"""

from glassformer.generate.beams import beam_search
from glassformer.generate.loop import generate, stream
from glassformer.generate.strategies import (
    apply_temperature,
    distribution,
    draw,
    forbid_repeated_ngrams,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalize_repetition,
)

__all__ = [
    "apply_temperature",
    "beam_search",
    "distribution",
    "draw",
    "forbid_repeated_ngrams",
    "generate",
    "keep_min_p",
    "keep_top_k",
    "keep_top_p",
    "penalize_repetition",
    "stream",
]
