"""The small GPT that the judges of chapter 10 train, restore and compare."""

from functools import cache

import numpy as np

from glassformer.chapters.ch08.judges.gpt import gpt_weights

Weights = dict[str, np.ndarray]
"""Weights that are trained: each name gets a new array in every step."""

VOCABULARY, WIDTH, LENGTH = 7, 8, 5


@cache
def start_weights(n_layers: int) -> Weights:
    """Returns the weights with which training begins."""
    return gpt_weights(VOCABULARY, WIDTH, n_layers, seed=n_layers)
