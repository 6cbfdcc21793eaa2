"""Judges "Mask some tokens" (chapter 12): BERT's covered tokens: masked, replaced or left as they are.

Axes: B batch, T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Bool, Float, Integer


def cover(
    ids: Integer[np.ndarray, "*B T"],
    chosen: Bool[np.ndarray, "*B T"],
    fate: Float[np.ndarray, "*B T"],
    other: Integer[np.ndarray, "*B T"],
    mask_id: int,
) -> tuple[Integer[np.ndarray, "*B T"], Integer[np.ndarray, "*B T"]]:
    """Covers chosen ids with a fate below 0.8, replaces those below 0.9 by another; every chosen id is a target."""
    changed = np.where(fate < 0.8, mask_id, np.where(fate < 0.9, other, ids))
    return np.where(chosen, changed, ids), np.where(chosen, ids, -100)


covering = exercise("families.cover", cover, parts=("inputs", "targets"), axes=("T", "T"))

_ids, _other = np.array([5, 3, 8, 1, 6]), np.array([2, 7, 4, 9, 0])
_none, _all = np.zeros(5, bool), np.ones(5, bool)
_fate = np.array([0.10, 0.85, 0.95, 0.79, 0.50])
_left, _right = np.array([True, False, False, True, False]), np.array([False, True, False, False, True])
_ends = np.array([0.8, 0.9, 0.1, 0.9, 0.8])
for _title, _chosen, _fates, _mask, _inputs, _targets in (
    ("no position is chosen: nothing changes, and there are no targets", _none, _fate, 10, _ids, np.full(5, -100)),
    ("a fate below 0.8: covered, and the original id is the target", _left, _fate, 10,
     [10, 3, 8, 10, 6], [5, -100, -100, 1, -100]),
    ("a fate from 0.8 to below 0.9: another id, and the original one is the target", _right, _fate, 10,
     [5, 7, 8, 1, 10], [-100, 3, -100, -100, 6]),
    ("a fate from 0.9 on: unchanged, but still a target", _all, _fate, 12, [12, 7, 8, 12, 12], _ids),
    ("a fate of exactly 0.8 means another id, and exactly 0.9 means unchanged", _all, _ends, 10,
     [2, 3, 10, 1, 0], _ids),
):  # fmt: skip
    covering.case(_title, _ids, _chosen, _fates, _other, _mask, want=(_inputs, _targets))
covering.case(
    "a batch", np.stack([_ids, _other]), np.stack([_all, ~_all]), np.stack([_fate[::-1], _fate]),
    np.stack([_other, _ids]), 11,
    want=([[11, 11, 8, 9, 11], _other.tolist()], [_ids.tolist(), [-100] * 5]),
)  # fmt: skip
