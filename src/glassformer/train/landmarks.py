"""The losses of guessing by counting, to compare a model's loss with."""

import numpy as np

from glassformer.shapes import Int64


def landmarks(ids: Int64[np.ndarray, " T"], vocab_size: int) -> dict[str, float]:
    """Returns the loss of guessing, in nats per character: blindly, from frequencies, and from the previous character.

    The counts come from `ids` themselves, so the loss is lower than with counts from elsewhere: no such guess
    can do better.
    """
    pairs = np.bincount(ids[:-1] * vocab_size + ids[1:])
    # The entropy of a pair is that of its first character plus that of the second given the first.
    return {
        "every character alike": float(np.log(vocab_size)),
        "how frequent each character is": _entropy(np.bincount(ids)),
        "the character before": _entropy(pairs) - _entropy(np.bincount(ids[:-1])),
    }


def _entropy(counts: Int64[np.ndarray, " N"]) -> float:
    """Returns −Σ p ln p, in nats."""
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())
