"""Samples during training, which show what the model writes so far."""

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.generate import generate
from glassformer.protocols import AnyTransformer


def continuing(
    tokenizer: Any, prompt: str = "\n", n_new: int = 200, *, temperature: float = 0.8, seed: int = 0
) -> Callable[[AnyTransformer], str]:
    """Makes a sampler for `Trainer`: the model continues `prompt`, with the same random numbers every time.

    The model must be a decoder.
    """
    ids = tokenizer.encode(prompt)

    def sampler(model: AnyTransformer) -> str:
        generator = np.random.default_rng(seed)
        [text] = generate(
            model, ids, n_new, generator=generator, temperature=temperature, past_context="slide"
        )
        return tokenizer.decode(text)

    return sampler
