"""Checks the inputs of attention, of a model and of its cache."""

from collections.abc import Iterable
from typing import Any

from glassformer._checks.arrays import (
    axes,
    broadcasts,
    dtype_of,
    floats,
    indices,
    integers,
    kind_of,
    places,
)
from glassformer._checks.compressed import padded_after
from glassformer._checks.numbers import Shape, door, equal, flag, positive, shown, whole

FAULTS = 8  # how many a message lists at most


def t5_buckets(bidirectional: bool, n_buckets: Any, max_distance: Any, *, prefix: str = "") -> None:
    """Checks that each direction has buckets for single distances and for ranges, with `max_distance` in a range.

    If their number is odd, one bucket belongs to neither direction. Messages put `prefix` before both names.
    """
    n_name, max_name = f"{prefix}n_buckets", f"{prefix}max_distance"
    whole(n_name, n_buckets, at_least=4 if bidirectional else 2)
    whole(max_name, max_distance)
    n_exact = n_buckets // 4 if bidirectional else n_buckets // 2
    if max_distance <= n_exact:
        raise ValueError(
            f"{max_name}={max_distance} must exceed the {n_exact} distances that have their own bucket "
            f"({n_name}={n_buckets}, bidirectional={bidirectional})"
        )


def rope_scaling(scaling: str, base: float, slow: float, fast: float, *, prefix: str = "") -> None:
    """Checks that the ramp between stretched and untouched pairs runs from fewer rotations to more."""
    if scaling == "linear":
        return
    if slow > fast or (slow == fast and scaling == "llama3"):  # with "yarn", the ramp ends at whole pairs
        raise ValueError(
            f"{prefix}slow={slow} must be below {prefix}fast={fast}: slow pairs are stretched, and fast ones are not"
        )
    if scaling == "yarn" and base <= 1:
        raise ValueError(
            f'{prefix}base={base} must exceed 1 with {prefix}scaling="yarn": later pairs have to be slower'
        )


def rotated_share(name: str, share: Any, d_head: int) -> None:
    """Checks that a share of a head's features is more than none, at most all, and consists of pairs."""
    positive(name, share)
    n = share * d_head
    if share > 1 or abs(n - round(n)) > 1e-6 or round(n) % 2:
        raise ValueError(
            f"{name}={share} of d_head={d_head} is {n:g} features: it must be an even number, at most d_head"
        )


def has_part(name: str, part: Any) -> None:
    """Checks that the model has that part."""
    if part is None:
        raise ValueError(f"this model has no {name}: its configuration leaves it out")


def acts_on(name: str, encoding: Any, here: str, plain: type) -> None:
    """Checks that a position encoding acts `here` or on the scores; `plain` is the class of one that does nothing."""
    said, methods = encoding.acts_on, ("embed", "rotate", "score_bias")
    if type(encoding) is plain or said in (here, "scores"):
        return
    if said == "input" and type(encoding).__module__.startswith("glassformer."):
        return  # one of the book's, which its parts show in both places
    if said is None and all(getattr(type(encoding), m, None) is getattr(plain, m) for m in methods):
        return
    raise ValueError(
        f"{name}, a {type(encoding).__name__}, has acts_on={said!r}, but must act on {here!r} or 'scores': an encoding "
        "of 'input' is positions of a stack, and one of 'queries and keys' attention.position_encoding of every block"
    )


def rotates(name: str, encoding: Any, size_name: str, size: int) -> None:
    """Checks that a position encoding rotates vectors of that size or does nothing, and adds nothing to the scores."""
    if encoding.acts_on == "scores":
        raise ValueError(
            f"{name}, a {type(encoding).__name__}, acts on the scores, but must rotate queries and keys"
        )
    equal(f"{name}.d_head", getattr(encoding, "d_head", size), size_name, size)


def indexer(value: Any, d_model: int, d_query_latent: int | None, borrows_choice: bool) -> None:
    """Checks that an indexer fits latent attention, which either has one or borrows what another has chosen."""
    if d_query_latent is None:
        raise ValueError("an indexer needs d_query_latent: it reads the latent of the queries")
    if borrows_choice:
        raise ValueError("a layer either has an indexer or borrows_choice, not both")
    equal("indexer.d_query", value.d_query, "d_query_latent", d_query_latent)
    equal("indexer.d_model", value.d_model, "d_model", d_model)


def latent(d_latent: Any, d_rotated: Any, d_value: Any, d_query_latent: Any) -> None:
    """Checks the sizes of latent attention, of which the last may be None."""
    sizes = {
        "d_latent": d_latent,
        "d_rotated": d_rotated,
        "d_value": d_value,
        "d_query_latent": d_query_latent,
    }
    for name, size in sizes.items():
        if name != "d_query_latent" or size is not None:
            whole(name, size)


def below(name: str, value: Any, limit_name: str, limit: Any) -> None:
    """Checks that a size is smaller than another."""
    if value >= limit:
        raise ValueError(f"{name}={value} must be below {limit_name}={limit}")


def choice_to_borrow(shared: Any, borrows_choice: bool) -> None:
    """Checks that latent attention finds the choice that it borrows."""
    if borrows_choice and "chosen" not in (shared or {}):
        raise ValueError(
            "borrows_choice needs shared['chosen'], which an earlier layer with an indexer leaves there"
        )


def own_parts(names: Iterable[str]) -> str:
    """Says what a model has whose weights, of these names, are not those that its configuration makes."""
    if any(name.endswith(".A") for name in names):
        return "the model has adapters, which merge_adapters(model) of nn.adapters adds to its weights"
    return "the model has parts that its configuration does not make"


def state_dict(wanted: dict[str, Shape], given: dict[str, Shape]) -> None:
    """Checks that a state dict has the names and shapes of the layer that loads it."""
    faults = [f"{name} is missing" for name in wanted if name not in given]
    faults += [f"{shown(name)} is not a weight of this layer" for name in sorted(given) if name not in wanted]
    faults += [
        f"{name} has shape {given[name]}, but must have {shape}"
        for name, shape in wanted.items()
        if name in given and given[name] != shape
    ]
    no_faults("the state does not fit", faults)


def no_faults(what: str, faults: list[str]) -> None:
    """Checks that there are no faults; if there are many, the message names the first few."""
    if faults:
        more = f"; and {len(faults) - FAULTS:,} more" if len(faults) > FAULTS else ""
        raise ValueError(f"{what}: {'; '.join(faults[:FAULTS])}{more}")


def no_gradient_through_cache(saved: Any, cache: Any) -> None:
    """Checks that nothing is saved for the backward pass when a cache is used: a cache is for generating."""
    if saved is not None and cache is not None:
        raise ValueError("no gradient flows through a cache: saved must be None when a cache is given")


def qk_norm(value: Any) -> None:
    """Checks that a norm of queries and keys is switched on or off, or is of one of three other kinds."""
    if not isinstance(value, str) or value not in ("width", "after", "plain"):
        flag("qk_norm", value)


def fits_cache(new: Shape, cache: Shape, filled: int, capacity: int) -> None:
    """Checks that keys (B, G, T, K) fit a cache with arrays (B, G, …, K) after its `filled` positions."""
    new, (B, G, _, K) = tuple(new), cache
    if len(new) != 4 or (new[0], new[1], new[3]) != (B, G, K):
        raise ValueError(f"the keys have shape {new}, but the cache takes (B, G, T, K) = ({B}, {G}, T, {K})")
    room_in_cache(new[2], filled, capacity)


def room_in_cache(n_new: int, filled: int, capacity: int) -> None:
    """Checks that a cache has room for as many new positions."""
    if filled + n_new > capacity:
        raise ValueError(
            f"the cache has room for capacity={capacity} positions: it already holds {filled}, "
            f"so {n_new} more do not fit"
        )


def going_back(length: int, filled: int, spare: int | None = None) -> None:
    """Checks that a cache of `filled` positions can go back to `length`: by at most `spare`, if that is not None."""
    whole("length", length, at_least=0)
    if length > filled:
        raise ValueError(f"length={length} must be at most {filled}, the positions that the cache holds")
    if spare is not None and filled - length > spare:
        raise ValueError(
            f"length={length} is too far back: the cache has read {filled} positions, and a layer with a window "
            f"keeps what it needs to go back by {spare}; new_cache(…, rewindable={filled - length}) keeps more"
        )


def attention_shapes(q: Shape, k: Shape, v: Shape) -> None:
    """Checks that queries (..., T, K) can attend to keys (..., S, K) and values (..., S, U), at least one of each."""
    if len(q) > 1 and k[:-1] == v[:-1] and q[:-2] == k[:-2] and q[-1] == k[-1] and k[-2] > 0:
        return
    shapes = f"q {tuple(q)}, k {tuple(k)}, v {tuple(v)}"
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"{shapes}: each needs at least two axes, (..., T, K)")
    if q[:-2] != k[:-2]:
        raise ValueError(f"{shapes}: q and k must agree on every axis except that of the positions, T or S")
    if q[-1] != k[-1]:
        raise ValueError(f"{shapes}: q and k must agree on the last axis, d_head")
    if k[:-1] != v[:-1]:
        raise ValueError(f"{shapes}: every key needs one value, so k and v may differ only in the last axis")
    raise ValueError(f"{shapes}: there is no key to attend to")


def attention(q: Any, k: Any, v: Any, mask: Any, score_bias: Any, *, sharing: int = 1) -> None:
    """Checks that queries can attend to these keys and values, with the mask and score bias if given.

    Each head of keys and values serves as many heads of queries as `sharing` says.
    """
    if door.closed:
        return
    for name, array in (("q", q), ("k", k), ("v", v)):
        floats(name, array)
    if sharing == 1:
        attention_shapes(q.shape, k.shape, v.shape)
    else:
        shapes = [(*one.shape[:-3], one.shape[-3] * sharing, *one.shape[-2:]) for one in (k, v)]
        attention_shapes(q.shape, *shapes)
    scores = (*q.shape[:-1], k.shape[-2])
    score_bias_fits(score_bias, scores)
    if mask is not None:
        if kind_of(mask) != "b":
            raise TypeError(f"mask must be an array of booleans (True = may attend), not {dtype_of(mask)}")
        broadcasts("mask", mask, scores)


def score_bias_fits(array: Any, scores: Shape) -> None:
    """Checks that `array`, if there is one, can be added to the scores (..., T, S)."""
    if door.closed:
        return
    if array is not None:
        floats("score_bias", array)
        broadcasts("score_bias", array, scores)


def loss(logits: Any, targets: Any, ignore_index: int) -> None:
    """Checks that there is a target for every row of logits, and that at least one of them counts."""
    floats("logits", logits)
    integers("targets", targets)
    equal("targets.shape", tuple(targets.shape), "logits.shape[:-1]", tuple(logits.shape[:-1]))
    counted = targets != ignore_index
    if not counted.any():
        raise ValueError(
            f"targets has no entry other than ignore_index={ignore_index}: there is nothing to average"
        )
    indices("targets", targets, "vocab_size", logits.shape[-1], among=counted)


def model_inputs(
    config: Any,
    ids: Any,
    *,
    mask: Any,
    position_ids: Any,
    segments: Any,
    source: Any,
    memory: Any,
    source_mask: Any,
    cache: Any,
) -> None:
    """Checks that the inputs suit the model's family and agree in shape."""
    integers("ids", ids)
    axes("ids", ids, "T")
    whole("ids.shape[-1]", ids.shape[-1])
    *B, T = ids.shape
    _fit_the_family(config, source, memory, source_mask, cache)
    if cache is not None:  # checked first, so that a text that is too long leaves the cache unchanged
        _fit_the_cache(config, ids, cache)
    if position_ids is not None:
        places("position_ids", position_ids, tuple(B), T)
    if segments is not None:
        if not config.n_segments:
            raise ValueError("segments were given, but n_segments=0")
        indices("segments", segments, "n_segments", config.n_segments)
        equal("segments.shape", tuple(segments.shape), "ids.shape", tuple(ids.shape))
    if mask is not None:
        past = 0 if cache is None else cache.length
        padding("mask", mask, (*B, past + T))
        if config.compresses:
            padded_after(mask[..., None, :], past + T)
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


def _fit_the_family(config: Any, source: Any, memory: Any, source_mask: Any, cache: Any) -> None:
    """Checks that an encoder–decoder, and no other family, gets a source, and that an encoder gets no cache."""
    crossing = config.family == "encoder-decoder"
    if crossing and (source is None) == (memory is None):
        raise ValueError(
            "an encoder-decoder needs either source (the ids to read) or memory (the output of encode)"
        )
    for name, given in (("source", source), ("memory", memory), ("source_mask", source_mask)):
        if given is not None and not crossing:
            raise ValueError(f"{name} is for an encoder-decoder, but family={config.family!r}")
    if cache is not None and config.family == "encoder":
        raise ValueError("cache is for a decoder, but family='encoder': every position sees the whole text")


def _fit_the_cache(config: Any, ids: Any, cache: Any) -> None:
    """Checks that the cache was made for as many texts and has room for the new ids."""
    *B, T = ids.shape
    if [cache.batch_size] != B:
        raise ValueError(
            f"ids of shape {tuple(ids.shape)} do not fit the cache: it takes (B, T) with B={cache.batch_size}"
        )
    room_in_cache(T, cache.length, cache.capacity)


def text_to_read(config: Any, source: Any, mask: Any, mask_name: str) -> None:
    """Checks that `source` holds ids of the vocabulary, (..., S), and that its mask, if any, has an entry for each."""
    indices("source", source, "vocab_size", config.vocab_size)
    axes("source", source, "S")
    whole("source.shape[-1]", source.shape[-1])
    if mask is not None:
        padding(mask_name, mask, tuple(source.shape))


def padding(name: str, array: Any, wanted: Shape) -> None:
    """Checks that `array` is a boolean mask with one entry for each token."""
    if kind_of(array) != "b":
        raise TypeError(f"{name} must be an array of booleans (True = a real token), not {dtype_of(array)}")
    equal(f"{name}.shape", tuple(array.shape), "(..., S)", wanted)


def model(value: Any) -> None:
    """Checks that `value` is a model, and not the name of one or what `pretrained.load` returns."""
    if isinstance(value, tuple) or not hasattr(value, "config"):
        hint = "pass its .model" if hasattr(value, "model") else "pretrained.load(…).model is one"
        raise TypeError(f"model must be a model, not {shown(repr(value), 60)}: {hint}")


def in_torch(value: Any) -> None:
    """Checks that a model is in PyTorch."""
    if not hasattr(value, "named_modules"):
        model(value)
        raise TypeError(
            "model must be in PyTorch, not a NumPy Transformer: pretrained.load(…, room='nn') opens one there"
        )
