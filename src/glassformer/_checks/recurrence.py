"""Checks the inputs of layers with a state."""

from typing import Any

from glassformer._checks.arrays import axes, broadcasts, dtype_of, floats, kind_of
from glassformer._checks.numbers import Shape, divisible, door, equal, whole


def recurrence(q: Any, k: Any, v: Any, log_decay: Any, strength: Any, state: Any) -> None:
    """Checks that queries, keys and values, decays and strengths belong to the same positions."""
    if door.closed:
        return
    given = {"q": q, "k": k, "v": v, "log_decay": log_decay, "strength": strength}
    for name, array in given.items():
        floats(name, array)
    axes("q", q, "T, K")
    equal("k.shape", tuple(k.shape), "q.shape", tuple(q.shape))
    whole("q.shape[-2]", q.shape[-2])
    for name in ("v", "log_decay", "strength"):
        equal(f"{name}.shape[:-1]", tuple(given[name].shape[:-1]), "q.shape[:-1]", tuple(q.shape[:-1]))
    if strength.shape[-1] != 1:
        raise ValueError(
            f"strength.shape[-1]={strength.shape[-1]} must be 1: it has one number for each position"
        )
    if log_decay.shape[-1] not in (1, q.shape[-1]):
        raise ValueError(
            f"log_decay.shape[-1]={log_decay.shape[-1]} must be 1 or {q.shape[-1]}: one number for each position, or "
            "for each feature of its key"
        )
    if state is not None:
        floats("state", state)
        wanted = (*q.shape[:-2], q.shape[-1], v.shape[-1])
        equal("state.shape", tuple(state.shape), "(..., K, U)", wanted)


def state_sizes(state: Shape, inputs: Shape) -> None:
    """Checks the sizes (H, K, U) of a state and (N, E) of the inputs to convolve, of which there may be none."""
    for name, sizes, letters in (("state", state, "HKU"), ("inputs", inputs, "NE")):
        if len(sizes) != len(letters):
            raise ValueError(f"{name}={sizes} must be ({', '.join(letters)})")
        for i, size in enumerate(sizes):
            whole(f"{name}[{i}]", size, at_least=0 if (name, i) == ("inputs", 0) else 1)


def neighbours(past: Any, real: Any, shape: Shape, taps: int) -> None:
    """Checks that a convolution's earlier values, and what says which positions are real, belong to x."""
    if past is not None:
        floats("past", past)
        wanted = (*shape[:-2], taps - 1, shape[-1])
        equal("past.shape", tuple(past.shape), "(..., taps - 1, E)", wanted)
    if real is not None and not door.closed:
        if kind_of(real) != "b":
            raise TypeError(f"real must be an array of booleans, not {dtype_of(real)}")
        equal("real.shape", tuple(real.shape), "x.shape[:-1]", shape[:-1])


def fits_state(cache: Any, kept: tuple[Shape, Shape]) -> None:
    """Checks that a cache keeps what this layer keeps of each text: its state, and what it convolves next."""
    held = tuple(cache.keys.shape[1:]), tuple(cache.values.shape[1:])
    if held != kept:
        raise ValueError(
            f"the cache keeps {held[0]} and {held[1]} of each text, but this layer {kept[0]} and {kept[1]}: its own "
            "new_cache makes the one it needs"
        )


def padding_alone(mask: Any, wanted: Shape) -> None:
    """Checks that a mask (..., 1, 1, S) hides the same positions, as padding does, from all heads and queries."""
    if mask is None or door.closed:
        return
    if kind_of(mask) != "b":
        raise TypeError(f"mask must be an array of booleans (True = real), not {dtype_of(mask)}")
    axes("mask", mask, "S")
    equal("mask.shape[-1]", mask.shape[-1], "the positions so far", wanted[-1])
    if any(size > 1 for size in mask.shape[-3:-1]):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} differs from query to query or head to head: what is in a state is "
            "read as a whole, so mask must be (..., 1, 1, S), for padding"
        )
    broadcasts("mask", mask, (*wanted[:-1], 1, 1, wanted[-1]))


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
