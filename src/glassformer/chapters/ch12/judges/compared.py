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


three.case("two blocks of width 2", 2, 4, 2, 3, 5, want=_summed)
three.case("a source of one, a target of one", 3, 5, 2, 1, 1, want=_summed)
three.case("six blocks", 6, 10, 6, 7, 4, want=_summed)
three.case("T5-base: 198,226,944 in its 12 + 12 blocks", 768, 3072, 24, 11, 29, want=_summed)
