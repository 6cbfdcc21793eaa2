"""Checks the inputs of layers with a state."""

from typing import Any

from glassformer._checks.arrays import dtype_of, floats, kind_of
from glassformer._checks.numbers import divisible, door, equal, whole


def recurrence(q: Any, k: Any, v: Any, log_decay: Any, strength: Any, state: Any) -> None:
    """Checks that queries, keys and values, decays and strengths belong to the same positions."""
    if door.closed:
        return
    given = {"q": q, "k": k, "v": v, "log_decay": log_decay, "strength": strength}
    for name, array in given.items():
        floats(name, array)
    equal("k.shape", tuple(k.shape), "q.shape", tuple(q.shape))
    whole("q.shape[-2]", q.shape[-2])
    for name in ("v", "log_decay", "strength"):
        equal(f"{name}.shape[:-1]", tuple(given[name].shape[:-1]), "q.shape[:-1]", tuple(q.shape[:-1]))
    equal("strength.shape[-1]", strength.shape[-1], "its only number", 1)
    if log_decay.shape[-1] != 1:
        equal("log_decay.shape[-1]", log_decay.shape[-1], "1, or q.shape[-1]", q.shape[-1])
    if state is not None:
        floats("state", state)
        wanted = (*q.shape[:-2], q.shape[-1], v.shape[-1])
        equal("state.shape", tuple(state.shape), "(..., K, U)", wanted)


def padding_alone(mask: Any, n_rows: int) -> None:
    """Checks that a mask (..., 1, 1, S) hides the same positions, as padding does, from all heads and queries."""
    if mask is None or door.closed:
        return
    if kind_of(mask) != "b":
        raise TypeError(f"mask must be an array of booleans (True = real), not {dtype_of(mask)}")
    equal("mask.shape[-1]", mask.shape[-1], "positions so far", n_rows)
    if any(size > 1 for size in mask.shape[-3:-1]):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} differs from query to query or head to head: what is in a state is "
            "read as a whole, so mask must be (..., 1, 1, S), for padding"
        )


def markable(copies: Any) -> None:
    """Checks that a state has room for a copy of itself."""
    if not copies:
        raise ValueError(
            "a state can be marked only with room for a copy: new_cache(…, rewindable=1) makes it"
        )


def going_back_to_a_mark(length: Any, filled: int, marked: int | None) -> None:
    """Checks that a state goes back to nothing, or to where it was marked."""
    whole("length", length, at_least=0)
    if length > filled:
        raise ValueError(f"length={length} must be at most {filled}, the positions that the cache holds")
    if length not in (0, filled, marked):
        where = "it was never marked" if marked is None else f"it was marked at {marked}"
        raise ValueError(
            f"length={length} cannot be gone back to: a state keeps no position of its own, only a copy of where it "
            f"was marked, and {where}; mark() before you read on"
        )


def layer_with_a_state(n_heads: Any, n_key_heads: Any, taps: Any, max_strength: Any, **sizes: Any) -> None:
    """Checks the sizes of a layer with a state."""
    for name, size in {"n_heads": n_heads, "n_key_heads": n_key_heads, "taps": taps, **sizes}.items():
        if size is not None:
            whole(name, size)
    divisible("n_heads", n_heads, "n_key_heads", n_key_heads)
    if max_strength not in (1, 2):
        raise ValueError(f"max_strength={max_strength!r} must be 1, or 2 to let an old entry change its sign")
