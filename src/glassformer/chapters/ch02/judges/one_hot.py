"""Judges "One-hot rows" (chapter 02): every id becomes a row with a single 1.

Axes: T tokens, V vocabulary, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.shapes import Float, Integer


def one_hot(ids: Integer[np.ndarray, " T"], vocab_size: int) -> Float[np.ndarray, "T V"]:
    """Returns a row for each id, with a 1 in the column of that number and 0 elsewhere."""
    rows = np.zeros((len(ids), vocab_size))
    rows[np.arange(len(ids)), ids] = 1
    return rows


hot = exercise("tokens.one_hot", one_hot, axes="T V")

_ids = np.array([2, 0, 2])
hot.shape("a row for each token, a column for each entry of the vocabulary", _ids, 5, want=(3, 5))
hot.case("a 1 in the id's own column", _ids, 4, want=[[0.0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0]])
hot.case("vocab_size columns, whether they are used or not", np.array([1]), 6, want=[[0.0, 1, 0, 0, 0, 0]])


@hot.check("multiplied by a table, it looks up rows")
def _(one_hot):
    ids, table = np.array([7, 0, 3, 3, 10, 1]), numbers(11, 4)
    rows = one_hot(ids, 11)
    expect_shape(rows, (6, 11), "one_hot(ids, 11)", axes="T V")
    expect(np.asarray(rows) @ table, table[ids], "one_hot(ids, 11) @ table", axes="T D")


hot.mistake("first rows", lambda ids, vocab_size: np.eye(vocab_size)[: len(ids)])
hot.mistake("from 1", lambda ids, vocab_size: np.eye(vocab_size + 1)[ids + 1, :vocab_size])
