"""Finds out in which part of a loaded model a mistake is, by switching parts off.

A sublayer whose matrices are 0 adds nothing. So a model without any sublayer, then with a single one, and then with
more of what a sublayer does, shows the first part with which the logits are wrong, whatever the mistake is.
"""

from collections.abc import Callable, Mapping

import numpy as np

from glassformer import scratch
from glassformer.exercises.expect import Wrong

from ..measures.comparing import close
from .engine import with_weights

Load = Callable[[Mapping[str, np.ndarray]], Callable[[np.ndarray], np.ndarray] | None]

# What is 0 where a sublayer adds nothing: more than its last matrix, in case just that is not used.
ATTENTION = "attention.W_v.weight", "attention.W_o.weight"
NETWORK = tuple(
    f"feedforward.W_{one}" for one in ("up.weight", "up.bias", "gate.weight", "down.weight", "down.bias")
)
# (the mistake if the logits are wrong, what of one block is on, whether its scores are, whether for a single id): each
# row adds one part
PARTS = (
    ("part-feedforward", NETWORK, True, False),
    ("part-values", ATTENTION, True, True),
    ("part-averages", ATTENTION, False, False),
    ("part-scores", ATTENTION, True, False),
    ("part-sublayers", ATTENTION + NETWORK, True, False),
)


def wrong_part(load: Load, model: scratch.Transformer, ids: np.ndarray) -> tuple[str, str]:
    """Returns the mistake that names the first wrong part, and the block in which it is; two empty texts if none is.

    Args:
        load: the reader's, from weights to a function from ids to logits.
        model: the right model.
        ids: (T,) on which the whole model is wrong.
    """
    weights, last = model.named_parameters(), model.config.n_layers - 1

    def only(block: int, parts: tuple[str, ...], scores: bool = True) -> dict[str, np.ndarray]:
        def kept(name: str) -> bool:
            if name.endswith(("W_q.weight", "W_k.weight")):
                return scores
            return not name.endswith(ATTENTION + NETWORK) or (
                f"blocks.{block}." in name and name.endswith(parts)
            )

        return {name: w if kept(name) else 0 * w for name, w in weights.items()}

    variants = [("part-outside", "", only(-1, ()), False)]
    for block in sorted({0, last}):
        where = f"This was measured with block {block} only: the matrices of all other blocks were set to 0."
        variants += [
            (name, where, only(block, parts, scores), single) for name, parts, scores, single in PARTS
        ]
    for mistake, where, some, single in [*variants, ("part-blocks", "", weights, False)]:
        its = ids[:1] if single else ids
        want = with_weights(some, model.config.replace(dropout=0.0))(its)
        try:
            run = load(some)
            logits = want if run is None else run(its)
        except Wrong:
            return "", ""
        if not close(logits, want):
            # Rows that are all alike have lost the stream: something takes its place, instead of adding to it.
            if mistake == "part-outside" and close(logits, logits[:1] + 0 * logits):
                return "residual-dropped", "If no sublayer adds anything, all rows of your logits are equal."
            return mistake, where
    return "", ""
