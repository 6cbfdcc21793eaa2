"""Judges "The last patient" (chapter 14): a test that recognises three mistakes of a model.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer

from .models import NEAR, TEXT, Model, causal_model, differ
from .order_matters import IN_ORDER, PALINDROME, TWINS, order_matters
from .says_the_same import says_the_same
from .ward import Bed, put_to_ward


def diagnose(model: Model, ids: Integer[np.ndarray, " T"]) -> str:
    """Returns which of three mistakes a model has, or that it has none."""
    logits = model(ids)
    if not says_the_same(model, ids):
        return "dropout"
    other = ids.copy()
    other[-1] = (ids[-1] + 1) % logits.shape[-1]
    if np.abs(logits[:-1] - model(other)[:-1]).max() > 1e-4:
        return "future"
    return "fine" if order_matters(model, ids) else "order"


last = exercise("clinic.diagnose", diagnose)

put_to_ward(last, {
    "nothing is wrong": [
        Bed("a correct model", (causal_model(), TEXT), "fine"),
        Bed("a correct model for which positions matter little", (causal_model(places=0.01), TEXT), "fine"),
        Bed("a correct model and a past that reads the same backwards", (causal_model(), PALINDROME), "fine"),
        Bed("a correct model and a text that begins with two equal characters", (causal_model(), TWINS), "fine"),
    ],
    "dropout in evaluation": [
        Bed("noise", (causal_model(noise=0.3), TEXT), "dropout"),
        Bed("noise only in row 0", (causal_model(noise=0.3, rows=[0]), TEXT), "dropout"),
        Bed("noise only in the last row", (causal_model(noise=0.3, rows=[7]), TEXT), "dropout"),
    ],
    "a mask that sees ahead": [
        Bed("one ahead", (causal_model(ahead=1), TEXT), "future"),
        Bed("all ahead", (causal_model(ahead=50), TEXT), "future"),
        Bed("one ahead, a text that ends in 4", (causal_model(ahead=1), PALINDROME), "future"),
        Bed("one ahead, a text that ends in 0", (causal_model(ahead=1), IN_ORDER[::-1].copy()), "future"),
        Bed("only row 3 sees everything", (causal_model(ahead=50, seers=[3]), TEXT), "future"),
        Bed("only row 6 sees the last character", (causal_model(ahead=1, seers=[6]), TEXT), "future"),
    ],
    "positions that were never used": [
        Bed("the past is a bag", (causal_model(places=0.0), TEXT), "order"),
        Bed(
            "a model to which the past is a bag, and which ignores the last character",
            (causal_model(places=0.0, own=0.0), TEXT), "order",
        ),
    ],
})  # fmt: skip


def _moved(shuffled, by=NEAR):
    """A test whether the order matters, with the past put in another order."""

    def order_matters(model, ids):
        return differ(model(ids)[-1], model(np.append(shuffled(ids[:-1]), ids[-1]))[-1], by)

    return order_matters


_DROPOUT = '    if not says_the_same(model, ids):\n        return "dropout"\n'
last.slip("future first", _DROPOUT, "", '        return "future"\n', f'        return "future"\n{_DROPOUT}')
last.slip("the first two", order_matters=_moved(lambda past: past[[1, 0, *range(2, len(past))]]))
last.slip("too loose", order_matters=_moved(lambda past: np.roll(past, 1), by=0.02))
last.slip("too loose", order_matters=_moved(lambda past: np.roll(past, 1), by=0.01))
last.slip("noise in one row", says_the_same=lambda model, ids: not differ(model(ids)[-1], model(ids)[-1]))
last.slip("noise in one row", says_the_same=lambda model, ids: not differ(model(ids)[0], model(ids)[0]))
last.slip("reversed", order_matters=_moved(lambda past: past[::-1]))
