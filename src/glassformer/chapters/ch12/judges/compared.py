"""Judges "Three families compared" (chapter 12): the parameters and cells of the three families."""

from glassformer.exercises.catalogue import exercise


def compared(
    d_model: int, d_ff: int, n_blocks: int, T: int, S: int
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Returns the parameters of all blocks, and the cells of a head in all blocks, for the three families."""
    D, half = d_model, n_blocks // 2
    block = 4 * D * D + 2 * D * d_ff + 2 * D
    crossing = 4 * D * D + D  # four matrices, and the norm before them
    whole, own = S + T, T * (T + 1) // 2
    cells = n_blocks * whole * (whole + 1) // 2, n_blocks * S * S, half * (S * S + own + T * S)
    return (n_blocks * block, n_blocks * block, n_blocks * block + half * crossing), cells


three = exercise("families.compared", compared, parts=("parameters", "cells"))


def _summed(D: int, F: int, n_blocks: int, T: int, S: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Counts matrix by matrix, and cell by cell."""
    own = sum([*[D * D] * 4, D * F, F * D, D, D])
    across = sum([*[D * D] * 4, D])
    half = n_blocks // 2
    one_text = sum(1 for t in range(S + T) for s in range(S + T) if s <= t)
    causal = sum(1 for t in range(T) for s in range(T) if s <= t)
    parameters = sum([own] * n_blocks), sum([own] * n_blocks), sum([own] * n_blocks + [across] * half)
    cells = sum([one_text] * n_blocks), n_blocks * len(range(S)) ** 2, sum([S * S, causal, T * S] * half)
    return parameters, cells


three.case("two blocks of width 2", 2, 4, 2, 3, 5, want=_summed(2, 4, 2, 3, 5))
three.case("a source of one, a target of one", 3, 5, 2, 1, 1, want=_summed(3, 5, 2, 1, 1))
three.case("six blocks", 6, 10, 6, 7, 4, want=_summed(6, 10, 6, 7, 4))
three.case(
    "T5-base: 198,226,944 in its 12 + 12 blocks", 768, 3072, 24, 11, 29, want=_summed(768, 3072, 24, 11, 29)
)


def _compared(block=None, crossing=None, cells=None):
    def wrong(D, F, n_blocks, T, S):
        half = n_blocks // 2
        own = block(D, F) if block else 4 * D * D + 2 * D * F + 2 * D
        more = crossing(D, half, n_blocks) if crossing else half * (4 * D * D + D)
        right = compared(D, F, n_blocks, T, S)[1]
        return (n_blocks * own, n_blocks * own, n_blocks * own + more), (
            cells(n_blocks, T, S, right) if cells else right
        )

    return wrong


three.mistake("norm of the crossing", _compared(crossing=lambda D, half, n: half * 4 * D * D))
three.mistake("crossing everywhere", _compared(crossing=lambda D, half, n: n * (4 * D * D + D)))
three.mistake("no crossing", _compared(crossing=lambda D, half, n: 0))
three.mistake("one norm", _compared(block=lambda D, F: 4 * D * D + 2 * D * F + D))
three.mistake("norms with bias", _compared(block=lambda D, F: 4 * D * D + 2 * D * F + 4 * D))
three.mistake("biases", _compared(block=lambda D, F: 4 * D * D + 2 * D * F + F + 3 * D))
three.mistake(
    "two whole stacks",
    lambda D, F, n, T, S: (
        (*compared(D, F, n, T, S)[0][:2], compared(D, F, 2 * n, T, S)[0][2]), compared(D, F, n, T, S)[1],
    ),
)  # fmt: skip
three.mistake(
    "prefix", _compared(cells=lambda n, T, S, right: (right[0] + n * (S * (S - 1) // 2), *right[1:]))
)
three.mistake("decoder both ways", _compared(cells=lambda n, T, S, right: (n * (S + T) ** 2, *right[1:])))
three.mistake(
    "encoder reads both", _compared(cells=lambda n, T, S, right: (right[0], n * (S + T) ** 2, right[2]))
)
three.mistake(
    "writes both ways", _compared(cells=lambda n, T, S, right: (*right[:2], n // 2 * (S * S + T * T + T * S)))
)
three.mistake("one block", _compared(cells=lambda n, T, S, right: tuple(one // n for one in right)))
three.mistake("norms left out", _compared(block=lambda D, F: 4 * D * D + 2 * D * F))
three.mistake(
    "target alone", _compared(cells=lambda n, T, S, right: (n * T * (T + 1) // 2, right[1], right[2]))
)
three.mistake(
    "two texts apart",
    _compared(cells=lambda n, T, S, right: (n * (T * (T + 1) + S * (S + 1)) // 2, right[1], right[2])),
)
three.mistake(
    "encoder causal", _compared(cells=lambda n, T, S, right: (right[0], n * S * (S + 1) // 2, right[2]))
)
three.mistake(
    "both in all blocks",
    _compared(cells=lambda n, T, S, right: (right[0], right[1], n * (S * S + T * (T + 1) // 2 + T * S))),
)
three.mistake(
    "nothing across",
    _compared(cells=lambda n, T, S, right: (right[0], right[1], n // 2 * (S * S + T * (T + 1) // 2))),
)
