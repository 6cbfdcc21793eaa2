"""What arguments must satisfy, said once for both rooms; NumPy and torch arrays alike, neither imported.

Every function returns nothing and raises on bad input: `TypeError` for the wrong kind of thing,
`ValueError` for the wrong value, in a message that names the argument, its value and the rule.
"""

import difflib
import math
from collections.abc import Callable, Collection, Iterable
from numbers import Integral, Real
from typing import Any

Shape = tuple[int, ...]


# Numbers and names


def whole(name: str, value: Any, *, at_least: int = 1) -> None:
    """`value` is a whole number, no smaller than `at_least`."""
    if type(value) is not int and (not isinstance(value, Integral) or isinstance(value, bool)):
        raise TypeError(f"{name}={value!r} must be a whole number")
    if value < at_least:
        raise ValueError(f"{name}={value} must be at least {at_least}")


def even(name: str, value: Any, why: str) -> None:
    """`value` is a positive whole number divisible by two; `why` ends the message."""
    whole(name, value)
    if value % 2:
        raise ValueError(f"{name}={value} is odd: {why}")


def divisible(name: str, value: Any, by_name: str, by: Any) -> None:
    """Both are positive whole numbers, and `by` divides `value`."""
    whole(name, value)
    whole(by_name, by)
    if value % by:
        raise ValueError(f"{name}={value} is not divisible by {by_name}={by}")


def flag(name: str, value: Any) -> None:
    """`value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be True or False")


def number(name: str, value: Any, holds: Callable[[Any], bool], rule: str) -> None:
    """`value` is a number for which `holds` is true; `rule` says so in words."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number")
    if not holds(value):
        raise ValueError(f"{name}={value} must be {rule}")


def positive(name: str, value: Any) -> None:
    """`value` is a finite number above zero."""
    number(name, value, lambda x: math.isfinite(x) and x > 0, "positive and finite")


def not_negative(name: str, value: Any) -> None:
    """`value` is a finite number, zero or above."""
    number(name, value, lambda x: math.isfinite(x) and x >= 0, "zero or more, and finite")


def rate(name: str, value: Any) -> None:
    """`value` is a share that leaves something: at least 0 and below 1."""
    number(name, value, lambda x: 0 <= x < 1, "at least 0 and below 1")


def t5_buckets(bidirectional: bool, n_buckets: Any, max_distance: Any, *, prefix: str = "") -> None:
    """Each direction has buckets for single distances and for ranges, and `max_distance` is in the latter.

    `prefix` goes before both names in a message.
    """
    n_name, max_name = f"{prefix}n_buckets", f"{prefix}max_distance"
    whole(n_name, n_buckets, at_least=4 if bidirectional else 2)
    whole(max_name, max_distance)
    if bidirectional:
        even(n_name, n_buckets, "with bidirectional=True, past and future have half the buckets each")
    n_exact = n_buckets // 4 if bidirectional else n_buckets // 2
    if max_distance <= n_exact:
        raise ValueError(
            f"{max_name}={max_distance} must exceed the {n_exact} distances that have their own bucket "
            f"({n_name}={n_buckets}, bidirectional={bidirectional})"
        )


def one_of(name: str, value: Any, choices: Collection[str]) -> None:
    """`value` is among `choices`."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")


def instance(name: str, value: Any, kind: type) -> None:
    """`value` is a `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} must be a {kind.__name__}")


def has_part(name: str, part: Any) -> None:
    """The model has that part."""
    if part is None:
        raise ValueError(f"this model has no {name}: its configuration leaves it out")


def fields(owner: str, given: Iterable[str], known: Collection[str], required: Collection[str] = ()) -> None:
    """All names that are `given` are `known` fields of `owner`, and those that are `required` are there."""
    given = list(given)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the fields are {', '.join(known)}"
            raise ValueError(f"{owner} has no field {name!r}{hint}")
    missing = [name for name in required if name not in given]
    if missing:
        raise ValueError(f"{owner} needs the field {', '.join(map(repr, missing))}")


def equal(name: str, value: int | Shape, other_name: str, other: int | Shape) -> None:
    """Two sizes, or shapes, that must agree do."""
    if value != other:
        raise ValueError(f"{name}={value} does not match {other_name}={other}")


# What arrays hold


def _dtype(array: Any) -> str:
    """`"int64"` for NumPy's int64 and for torch's; for what is not an array, the name of its type."""
    return str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")


_KINDS: dict[Any, str] = {}  # what was found before: every layer asks, and a model for one token waits for it


def _kind(array: Any) -> str:
    """What an array holds: floating-point numbers ("f"), integers ("i"), booleans ("b"), or anything else ("")."""
    dtype = getattr(array, "dtype", None)
    if dtype not in _KINDS:
        starts = {"float": "f", "bfloat": "f", "int": "i", "uint": "i", "bool": "b"}
        found = (kind for start, kind in starts.items() if _dtype(array).startswith(start))
        _KINDS[dtype] = "" if dtype is None else next(found, "")
    return _KINDS[dtype]


def integers(name: str, array: Any) -> None:
    """`array` holds integers."""
    if _kind(array) != "i":
        raise TypeError(f"{name} must be an array of integers, not {_dtype(array)}")


def floats(name: str, array: Any) -> None:
    """`array` holds floating-point numbers."""
    if _kind(array) != "f":
        raise TypeError(f"{name} must be an array of floating-point numbers, not {_dtype(array)}")


def indices(name: str, array: Any, size_name: str, size: int, *, among: Any = None) -> None:
    """`array` holds integers that index a table of `size` rows; negative ones do not count from the end.

    `among`, if given, says for each entry whether it must.
    """
    integers(name, array)
    outside = (array < 0) | (array >= size)
    if among is not None:
        outside &= among
    if outside.any():
        flat = outside.reshape(-1).tolist().index(True)
        place = ", ".join(map(str, _unravel(flat, tuple(array.shape))))
        value = array.reshape(-1)[flat].item()
        raise ValueError(f"{name}[{place}]={value} is outside 0..{size - 1} ({size_name}={size})")


def some(name: str, counted: Any, what: str) -> None:
    """Of the entries of `name`, at least one is counted; `what` says which are."""
    if not counted.any():
        raise ValueError(f"{name} has no entry {what}: there is nothing to average")


def state_dict(wanted: dict[str, Shape], given: dict[str, Shape]) -> None:
    """The names and shapes of the weights in a state dict are those of the layer that takes it."""
    faults = [f"{name} is missing" for name in wanted if name not in given]
    faults += [f"{name} is not a weight of this layer" for name in given if name not in wanted]
    faults += [
        f"{name} has shape {given[name]}, but must have {shape}"
        for name, shape in wanted.items()
        if name in given and given[name] != shape
    ]
    if faults:
        more = f"; and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise ValueError("the state does not fit: " + "; ".join(faults[:8]) + more)


def _unravel(flat: int, shape: Shape) -> Shape:
    """The index along every axis of the entry that is number `flat` in reading order."""
    index = []
    for size in reversed(shape):
        flat, along = divmod(flat, size)
        index.append(along)
    return tuple(reversed(index))


# Shapes


def axes(name: str, array: Any, last: str) -> None:
    """`array` has at least the axes that `last` lists, such as "T, D"."""
    if array.ndim < 1 + last.count(","):
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs the axes (..., {last})")


def one_axis(name: str, array: Any, length: int | None = None) -> None:
    """`array` is a list of numbers, of the given length if there is one."""
    if not hasattr(array, "ndim"):
        raise TypeError(f"{name} must be an array, not {_dtype(array)}")
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs exactly one axis")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} entries, but there are {length} rows to place")


def one_axis_or_two(name: str, array: Any) -> None:
    """`array` is (T,) or, with a row for each text of a batch, (B, T)."""
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs the axes (T,) or (B, T)")


def places(name: str, array: Any, batch: Shape, length: int) -> None:
    """`array` says where each of `length` rows stands: (T,) for all the batch alike, or (B, T)."""
    integers(name, array)
    if array.ndim == 2 and tuple(array.shape[:-1]) == tuple(batch):
        array = array[0]
    one_axis(name, array, length=length)


def no_way_back(kept: Any, cache: Any) -> None:
    """Nothing is to be kept for gradients beside a cache, which is for generating."""
    if kept is not None and cache is not None:
        raise ValueError("no gradient leads through a cache: kept must be None with one")


def room_in_cache(new: Shape, cache: Shape, filled: int) -> None:
    """Keys of shape `new` (B, G, T, K) fit a cache of shape (B, G, capacity, K) after its `filled` positions."""
    new, (B, G, capacity, K) = tuple(new), cache
    if len(new) != 4 or (new[0], new[1], new[3]) != (B, G, K):
        raise ValueError(f"the keys have shape {new}, but the cache takes (B, G, T, K) = ({B}, {G}, T, {K})")
    if filled + new[2] > capacity:
        raise ValueError(
            f"the cache has room for capacity={capacity} positions: {filled} are there, and {new[2]} more do not fit"
        )


def attention_shapes(q: Shape, k: Shape, v: Shape) -> None:
    """Queries (..., T, K) can attend to keys and values (..., S, K), of which there is at least one."""
    if len(q) > 1 and k == v and q[:-2] == k[:-2] and q[-1] == k[-1] and k[-2] > 0:
        return
    shapes = f"q {tuple(q)}, k {tuple(k)}, v {tuple(v)}"
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"{shapes}: each needs two axes or more, (..., T, K)")
    if q[:-2] != k[:-2]:
        raise ValueError(f"{shapes}: q and k must agree on every axis but the one of positions, T or S")
    if q[-1] != k[-1]:
        raise ValueError(f"{shapes}: q and k must agree on the last axis, d_head")
    if k != v:
        raise ValueError(f"{shapes}: every key needs one value, so k and v must have the same shape")
    raise ValueError(f"{shapes}: there is no key to attend to")


def attention(q: Any, k: Any, v: Any, mask: Any, bias: Any) -> None:
    """Queries can attend to these keys and values, with that mask and bias, if there are any."""
    for name, array in (("q", q), ("k", k), ("v", v)):
        floats(name, array)
    attention_shapes(q.shape, k.shape, v.shape)
    scores = (*q.shape[:-1], k.shape[-2])
    scores_bias(bias, scores)
    if mask is not None:
        may_attend(mask, scores)


def scores_bias(array: Any, scores: Shape) -> None:
    """`array`, if there is one, holds what can be added to the scores, (..., T, S)."""
    if array is not None:
        floats("bias", array)
        broadcasts("bias", array, scores)


def may_attend(array: Any, scores: Shape) -> None:
    """`array` is a boolean mask that broadcasts to the scores, (..., T, S)."""
    if _kind(array) != "b":
        raise TypeError(f"mask must be an array of booleans (True = may attend), not {_dtype(array)}")
    broadcasts("mask", array, scores)


def broadcasts(name: str, array: Any, scores: Shape) -> None:
    """`array` broadcasts to the shape of the scores without enlarging it."""
    trailing = scores[len(scores) - array.ndim :] if array.ndim <= len(scores) else ()
    fits = array.ndim == len(trailing) and all(
        size in (1, wanted) for size, wanted in zip(array.shape, trailing, strict=True)
    )
    if not fits:
        raise ValueError(
            f"{name} of shape {tuple(array.shape)} does not broadcast to the scores' {tuple(scores)}"
        )


# What goes into a model


def model_inputs(
    config: Any,
    ids: Any,
    *,
    mask: Any,
    positions: Any,
    segments: Any,
    source: Any,
    memory: Any,
    source_mask: Any,
    cache: Any,
) -> None:
    """The inputs are those that the model's family takes, and agree in shape."""
    integers("ids", ids)
    axes("ids", ids, "T")
    whole("ids.shape[-1]", ids.shape[-1])
    *B, T = ids.shape
    crossing = config.family == "encoder-decoder"
    if crossing and (source is None) == (memory is None):
        raise ValueError(
            "an encoder-decoder needs either source, the ids to read, or memory, what encode gave"
        )
    for name, given in (("source", source), ("memory", memory), ("source_mask", source_mask)):
        if given is not None and not crossing:
            raise ValueError(f"{name} is for an encoder-decoder, but family={config.family!r}")
    if cache is not None and config.family == "encoder":
        raise ValueError("cache is for a decoder, but family='encoder': every position sees the whole text")
    if cache is not None and (len(B) != 1 or len(cache.blocks[0].keys) != B[0]):
        raise ValueError(
            f"ids of shape {tuple(ids.shape)} do not fit the cache: it takes (B, T) with "
            f"B={len(cache.blocks[0].keys)}"
        )
    if cache is not None:  # before anything is put there, so that a text too long changes nothing
        new = (B[0], config.n_kv_heads, T, config.d_head)
        room_in_cache(new, tuple(cache.blocks[0].keys.shape), cache.length)
    if positions is not None:
        places("positions", positions, tuple(B), T)
    if segments is not None:
        if not config.n_segments:
            raise ValueError("segments were given, but n_segments=0")
        indices("segments", segments, "n_segments", config.n_segments)
        equal("segments.shape", tuple(segments.shape), "ids.shape", tuple(ids.shape))
    past = 0 if cache is None else cache.length
    if mask is not None:
        padding("mask", mask, (*B, past + T))
    if source is not None:
        text_to_read(config, source, source_mask, "source_mask")
        equal("source.shape[:-1]", tuple(source.shape[:-1]), "ids.shape[:-1]", tuple(B))
    if memory is not None:
        floats("memory", memory)
        axes("memory", memory, "S, D")
        equal("memory.shape[:-2]", tuple(memory.shape[:-2]), "ids.shape[:-1]", tuple(B))
        equal("memory.shape[-1]", memory.shape[-1], "d_model", config.d_model)
        if source_mask is not None:
            padding("source_mask", source_mask, tuple(memory.shape[:-1]))


def text_to_read(config: Any, source: Any, mask: Any, mask_name: str) -> None:
    """`source` holds ids of the vocabulary, (..., S), and its mask, if there is one, an entry for each."""
    indices("source", source, "vocab_size", config.vocab_size)
    axes("source", source, "S")
    whole("source.shape[-1]", source.shape[-1])
    if mask is not None:
        padding(mask_name, mask, tuple(source.shape))


def padding(name: str, array: Any, wanted: Shape) -> None:
    """`array` is a boolean mask with one entry for each token."""
    if _kind(array) != "b":
        raise TypeError(f"{name} must be an array of booleans (True = a real token), not {_dtype(array)}")
    equal(f"{name}.shape", tuple(array.shape), "(..., S)", wanted)
