"""Judges "What can be cached?" (chapter 11): which keys and values change when one token changes.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Bool


def changes(mask: Bool[np.ndarray, "T T"], position: int, n_layers: int) -> Bool[np.ndarray, "L T"]:
    """Returns which positions' keys and values change, block by block, when the token at one position is replaced."""
    changed = np.arange(len(mask)) == position
    rows = []
    for _ in range(n_layers):
        rows.append(changed)
        changed = changed | (mask & changed).any(axis=-1)
    return np.array(rows)


theory = exercise("generating.changes", changes, axes="L T")

_T, _F = True, False
_causal, _all = np.tri(4, dtype=bool), np.ones((4, 4), bool)
_title = "block 0: only the keys of that position change, whatever the mask is"
theory.case(_title, _all[:3, :3], 1, 1, want=[[_F, _T, _F]])
_title = "a causal mask, the last position: nothing earlier changes, in any block"
theory.case(_title, _causal, 3, 3, want=[[_F, _F, _F, _T]] * 3)
_title = "an encoder: everything changes from block 1 on"
theory.case(_title, _all, 3, 3, want=[[_F, _F, _F, _T], [_T] * 4, [_T] * 4])
_title = "a causal mask, a position in the middle: from block 1 on, everything after it changes as well"
theory.case(_title, _causal, 1, 2, want=[[_F, _T, _F, _F], [_F, _T, _T, _T]])
_band = np.tri(6, dtype=bool) & ~np.tri(6, k=-2, dtype=bool)  # itself and the one before
_title = "a window of two: the change moves one position further in each block"
theory.case(_title, _band, 1, 4, want=[[1 <= t < 2 + block for t in range(6)] for block in range(4)])
_prefix = np.tri(5, dtype=bool)
_prefix[:3, :3] = True  # the prompt sees itself whole
_title = "a prompt that sees all of itself: what is written after it does not change it"
theory.case(_title, _prefix, 4, 3, want=[[_F] * 4 + [_T]] * 3)
theory.also(_prefix, 2, 2, want=[[_F, _F, _T, _F, _F], [_T] * 5])
_title = "a position that does not see itself still keeps its change, because of the stream"
theory.case(_title, np.tri(3, k=-1, dtype=bool), 2, 2, want=[[_F, _F, _T]] * 2)
