"""Checks the choices and inputs of attention to compressed tokens."""

from typing import Any

from glassformer._checks.arrays import dtype_of, kind_of
from glassformer._checks.numbers import door, equal, flag, whole


def compression(
    compress: Any, overlapping: Any, top_k: Any, index_heads: Any, d_index: Any, causal: Any
) -> None:
    """Checks that overlapping and choosing go with blocks, and that what chooses has its sizes."""
    whole("compress", compress)
    flag("overlapping", overlapping)
    if causal is not True:
        raise ValueError(f"causal={causal!r} must be True: a query sees the blocks that are complete")
    for name, value, without in (("overlapping", overlapping, False), ("top_k", top_k, None)):
        if compress == 1 and value is not without:
            raise ValueError(f"{name}={value} needs compress above 1: there are no compressed tokens")
    for name, value in (("index_heads", index_heads), ("d_index", d_index)):
        if top_k is None and value is not None:
            raise ValueError(f"{name}={value} needs top_k: without it, every compressed token is seen")
        if top_k is not None:
            whole(name, value)


def rotated(name: str, size: Any, d_rotated: Any) -> None:
    """Checks that a head has as many features as rotate."""
    whole(name, size)
    whole("d_rotated", d_rotated)
    if d_rotated > size:
        raise ValueError(f"d_rotated={d_rotated} must be at most {name}={size}")


def left_out(**given: Any) -> None:
    """Checks that none of these is given."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None: this attention reads its own text alone, and adds no bias"
            )


def padded_after(mask: Any, n_rows: int) -> None:
    """Checks that a mask hides, for all queries alike, nothing but what follows a text."""
    if mask is None or door.closed:
        return
    if kind_of(mask) != "b":
        raise TypeError(f"mask must be an array of booleans (True = may attend), not {dtype_of(mask)}")
    equal("mask.shape[-1]", mask.shape[-1], "positions so far", n_rows)
    if mask.ndim > 1 and mask.shape[-2] > 1:
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} differs from query to query: a compressed token is seen whole, "
            "so mask must be (..., 1, S)"
        )
    if (mask[..., 1:] & ~mask[..., :-1]).any():
        raise ValueError(
            "mask hides positions before others that it shows, but blocks to compress are counted from the first "
            "position: pad texts on the right, or read them one by one"
        )
