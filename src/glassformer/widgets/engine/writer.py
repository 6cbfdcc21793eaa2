"""Writes a text as writer.js does: character by character, each drawn with the next number of mulberry32."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from glassformer.generate import distribution, draw
from glassformer.generate.reader import Reader
from glassformer.widgets.engine.model import Source
from glassformer.widgets.engine.mulberry import uniform

DECIMALS = 3  # of a stored logit: enough for every digit that a view shows


def written(
    source: Source,
    prompt: str,
    seed: int,
    most: int,
    *,
    strategy: Mapping[str, Any],
    picked: Mapping[int, str] | None = None,
    is_done: Callable[[str], bool] = lambda text: False,
) -> tuple[str, Float[np.ndarray, "N V"]]:
    """Computes a text and what each of its characters is drawn from, with `glassformer.generate`.

    Args:
        source: the model and its tokenizer.
        prompt: the text to go on from, at least one character, all of them known.
        seed: of mulberry32. Character `i` is drawn with its number `i`.
        most: how many characters are written, unless `is_done` ends the text before.
        strategy: keywords for `glassformer.generate.distribution`.
        picked: characters that are chosen instead of drawn, by their place.
        is_done: told the text beyond the prompt after every character; returns whether it ends there.

    Returns:
        the characters beyond the prompt; and the logits (N, V) that each was drawn from, with those of the next
        character, so that N is one more than the number of characters.
    """
    tokenizer, picked = source.tokenizer, picked or {}
    numbers = uniform(seed, most)
    reader = Reader(source.model, [tokenizer.encode(prompt)], most + 1, past_context="half")
    text, seen = "", []
    while True:
        # A few decimals are enough, but the stored logits must lead to the same draws.
        seen.append(reader.next_logits()[0].astype(np.float64).round(DECIMALS))
        i = len(text)
        if i == most or is_done(text):
            return text, np.stack(seen)
        if i in picked:
            id_ = int(tokenizer.encode(picked[i])[0])
        else:
            p = distribution(seen[i][None], **strategy)
            id_ = int(draw(p, numbers[i : i + 1])[0])
        text += tokenizer.decode([id_])
        reader.append(np.array([id_]))


def packed_logits(logits: Float[np.ndarray, "N V"]) -> dict[str, Any]:
    """Packs logits, two bytes per number, into text that `unpackedLogits` of writer.js decodes.

    Two bytes hold ±32.767. Larger logits are moved down together, and what is then below −32.767 is raised to it:
    such a character is practically never drawn, and the probabilities of the others stay the same.
    """
    most = np.iinfo(np.int16).max
    thousandths = np.round(logits * 10**DECIMALS)
    thousandths -= np.maximum(thousandths.max(axis=-1, keepdims=True) - most, 0)
    thousandths = np.maximum(thousandths, -most)
    numbers = base64.b64encode(thousandths.astype("<i2").tobytes()).decode()
    return {"columns": logits.shape[1], "numbers": numbers}
