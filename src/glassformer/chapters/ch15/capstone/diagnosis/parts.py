"""Finds out in which part of a loaded model a mistake is, by switching parts off.

A sublayer whose matrices are 0 adds nothing. So a model without any sublayer, then with a single one, and then with
more of what a sublayer does, shows the first part with which the logits are wrong, whatever the mistake is.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from glassformer import scratch
from glassformer.exercises.expect import Wrong

from ..measures.comparing import close
from .engine import with_weights

Weights = Mapping[str, np.ndarray]
Load = Callable[[Weights], Callable[[np.ndarray], np.ndarray] | None]

# What is 0 where a sublayer adds nothing: more than its last matrix, in case just that is not used.
ATTENTION = ("attention.W_v.weight", "attention.W_o.weight")
NETWORK = tuple(
    f"feedforward.W_{one}" for one in ("up.weight", "up.bias", "gate.weight", "down.weight", "down.bias")
)


def wrong_part(load: Load, model: scratch.Transformer, ids: np.ndarray) -> tuple[str, str]:
    """Returns the mistake that names the first wrong part, and the block in which it is; two empty texts if none is.

    Args:
        load: the reader's, from weights to a function from ids to logits.
        model: the right model.
        ids: (T,) on which the whole model is wrong.
    """
    for mistake, where, weights, few in _variants(dict(model.named_parameters()), model.config.n_layers):
        its = ids[:1] if few else ids
        want = with_weights(weights, model.config.replace(dropout=0.0))(its)
        try:
            run = load(weights)
            found = None if run is None else run(its)
        except Wrong:
            return "", ""
        if found is None or not close(found, want):
            # Rows that are all alike have lost the stream: something takes its place, instead of adding to it.
            if mistake == "part-outside" and found is not None and close(found, found[:1] + 0 * found):
                return "residual-dropped", "If no sublayer adds anything, all rows of your logits are equal."
            return mistake, where
    return "", ""


def _variants(own: dict[str, np.ndarray], n: int) -> Iterator[tuple[str, str, dict[str, np.ndarray], bool]]:
    """Yields (the mistake if it is wrong, the block, its weights, whether for a single id): each adds one part."""

    def only(block: int, parts: tuple[str, ...], scores: bool = True) -> dict[str, np.ndarray]:
        def kept(name: str) -> bool:
            if name.endswith(("W_q.weight", "W_k.weight")):
                return scores
            return not name.endswith(ATTENTION + NETWORK) or (
                f"blocks.{block}." in name and name.endswith(parts)
            )

        return {name: one if kept(name) else 0 * one for name, one in own.items()}

    yield "part-outside", "", only(-1, ()), False
    for block in sorted({0, n - 1}):
        where = f"This was measured with block {block} only: the matrices of all other blocks were set to 0."
        yield "part-feedforward", where, only(block, NETWORK), False
        yield "part-values", where, only(block, ATTENTION), True
        yield "part-averages", where, only(block, ATTENTION, scores=False), False
        yield "part-scores", where, only(block, ATTENTION), False
        yield "part-sublayers", where, only(block, ATTENTION + NETWORK), False
    yield "part-blocks", "", own, False
