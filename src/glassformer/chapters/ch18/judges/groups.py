"""Judges "First the groups, then the experts" (chapter 18): a choice that is limited to a few groups.

Axes: N tokens, X experts, A chosen ones.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.experts import Router
from glassformer.shapes import Float, Integer


def choose_in_groups(
    s: Float[np.ndarray, "N X"], n_groups: int, top_groups: int, top_k: int
) -> Integer[np.ndarray, "N A"]:
    """Returns the `top_k` best experts, the best first, of the groups whose two best have the largest sums."""
    N, X = s.shape
    grouped = s.reshape(N, n_groups, -1)
    best = np.sort(grouped, axis=-1)[..., -2:].sum(axis=-1)
    groups = np.argsort(-best, axis=-1, kind="stable")[:, :top_groups]
    kept = np.full(grouped.shape, -np.inf)
    rows = np.arange(N)[:, None]
    kept[rows, groups] = grouped[rows, groups]
    return np.argsort(-kept.reshape(N, X), axis=-1, kind="stable")[:, :top_k]


limited = exercise("experts.groups", choose_in_groups, built_on=(Router._choose,), axes="N A")


def _by_hand(s, n_groups, top_groups, top_k):
    """Sorts lists of numbers of groups and experts, one token at a time."""
    size, found = s.shape[1] // n_groups, []
    for row in s.tolist():
        sums = [sum(sorted(row[g * size : (g + 1) * size])[-2:]) for g in range(n_groups)]
        kept = sorted(range(n_groups), key=lambda g, sums=sums: -sums[g])[:top_groups]
        experts = [i for i in range(len(row)) if i // size in kept]
        found.append(sorted(experts, key=lambda i, row=row: -row[i])[:top_k])
    return np.array(found)


_one = np.array([[0.9, 0.1, 0.6, 0.5, 0.3, 0.4]])
_said = "chosen for the scores 0.9, 0.1 | 0.6, 0.5 | 0.3, 0.4,"
limited.case(
    "one group of three: 0.6 + 0.5 is more than 0.9 + 0.1",
    _one, 3, 1, 2, want=[[2, 3]], what=f"{_said} one group and two experts",
)  # fmt: skip
limited.case(
    "two groups of three: the best expert can be chosen again",
    _one, 3, 2, 3, want=[[0, 2, 3]], what=f"{_said} two groups and three experts",
)  # fmt: skip
limited.case(
    "only the two best of a group count",
    np.array([[0.4, 0.4, 0.4, 0.4, 0.1, 0.5, 0.1, 0.6]]), 2, 1, 2, want=[[7, 5]],
    what="chosen for the scores 0.4, 0.4, 0.4, 0.4 | 0.1, 0.5, 0.1, 0.6, one group and two experts",
)  # fmt: skip
limited.case(
    "with a bias, scores may be below 0: the other groups are out even then",
    np.array([[-0.9, -0.8, -0.2, -0.3, -0.7, -0.6]]), 3, 2, 3, want=[[2, 3, 5]],
    what="chosen for the scores −0.9, −0.8 | −0.2, −0.3 | −0.7, −0.6, two groups and three experts",
)  # fmt: skip
limited.case(
    "of equal groups and equal experts, the first counts as the best",
    np.array([[0.25, 0.5, 0.5, 0.25, 0.5, 0.25]]), 3, 2, 3, want=[[1, 2, 0]],
    what="chosen for the scores 0.25, 0.5 | 0.5, 0.25 | 0.5, 0.25, two groups and three experts",
)  # fmt: skip
limited.also(
    np.array([[0.5, 0.25, 0.5, 1.0]]), 2, 2, 3, want=[[3, 0, 2]],
    what="chosen for the scores 0.5, 0.25 | 0.5, 1, both groups and three experts",
)  # fmt: skip
for _title, _N, _X, *_sizes in (
    ("each token has its own groups", 7, 12, 4, 2, 3),
    ("", 9, 15, 3, 2, 5),
    ("a single token", 1, 20, 5, 3, 4),
    ("one group, and all of its experts", 4, 12, 3, 1, 4),
    ("all groups: no limit", 5, 10, 2, 2, 4),
):
    limited.case(
        _title, numbers(_N, _X, seed=18), *_sizes, want=_by_hand,
        what="chosen for N = {}, X = {}, {} groups, the best {} and {} experts".format(_N, _X, *_sizes),
    )  # fmt: skip
limited.case(
    "many equal scores: the first group and the first expert still count as the best",
    np.round(numbers(8, 40, seed=18)), 20, 6, 8, want=_by_hand, what="chosen for scores like 0, 1 and −1",
    advice='Use np.argsort with kind="stable". Other sorts and np.argpartition do not keep equal scores in order.',
)  # fmt: skip


@limited.mistake("a share from each")
def _(s, n_groups, top_groups, top_k):
    grouped = s.reshape(len(s), n_groups, -1)
    best = np.sort(grouped, axis=-1)[..., -2:].sum(axis=-1)
    share, found = -(-top_k // top_groups), []
    for row, own in zip(s, np.argsort(-best, axis=-1, kind="stable")[:, :top_groups], strict=True):
        size = len(row) // n_groups
        experts = [g * size + i for g in own for i in np.argsort(-row[g * size : (g + 1) * size])[:share]]
        found.append(sorted(experts, key=lambda i, row=row: -row[i])[:top_k])
    return np.array(found)
