"""Translates weights name by name, by the tables in `families` that map our weights to theirs."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import Layout, Place, Shape
from glassformer.layers import CompressedAttention
from glassformer.protocols import is_table

# Where each size shows: in which of our weights (# is the block of a stack) and along which axis
SEEN = {
    "vocab_size": ("token_embedding.weight", 0),
    "d_model": ("token_embedding.weight", 1),
    "context_length": ("#.positions.weight", 0),  # if positions are learned
    "t5_n_buckets": ("#.positions.weight", 0),  # if they are T5's
    "n_segments": ("segment_embedding.weight", 0),
    "d_ff": ("#.blocks.0.feedforward.W_up.weight", 1),
}


def check_sizes(config: ModelConfig, shapes: Mapping[str, Shape], layout: Layout) -> None:
    """Checks that the model is not much larger than its weights, given by their shapes under Hugging Face's names.

    Then it can be built, and the few mismatches can be reported by name.

    Raises:
        ValueError: it is much larger. The message names a size of the model and a weight that is missing or
            has another size.
    """
    wanted, given = config.parameter_count().total, sum(math.prod(shape) for shape in shapes.values())
    stacks = {"decoder" if config.family == "decoder" else "encoder": "n_layers"}
    if config.n_decoder_layers is not None:
        stacks["decoder"] = "n_decoder_layers"
    deep = sum(getattr(config, name) for name in stacks.values()) > len(shapes)
    if wanted <= 2 * given + checks.SLACK and not deep:
        return

    known = {full_name(layout, key): shape for key, shape in shapes.items()}
    for stack, name in stacks.items():
        last = getattr(config, name) - 1
        form = config.layer(last).attention.form
        always = "W_q" if form is None else "W_kv" if isinstance(form, CompressedAttention) else "W_o"
        place = place_of(layout, f"{stack}.blocks.{last}.attention.{always}.weight")
        if place.name not in known:
            raise ValueError(f"{name}={last + 1}, but {place.name} is missing")
        elsewhere = "t5_n_buckets" if config.positions == "learned" else "context_length"
        for size, (row, axis) in SEEN.items():
            ours = row.replace("#", stack)
            named = layout.names.get(ours.removesuffix(".weight").replace(".0.", ".#."))
            if size == elsewhere or named is None or _shares(layout, named):
                continue
            place = place_of(layout, ours)
            shape = known.get(place.name, ())
            if len(shape) == 2 and shape[1 - axis if place.transposed else axis] != getattr(config, size):
                raise ValueError(f"{size}={getattr(config, size)}, but {place.name} has shape {shape}")
    raise ValueError(f"the model has {wanted:,} weights, but its files have {given:,}")


def _shares(layout: Layout, place: Place | str) -> bool:
    """Returns whether one of their weights holds several of ours, so that its size is none of ours."""
    return [getattr(other, "name", other) for other in layout.names.values()].count(
        getattr(place, "name", place)
    ) > 1


def place_of(layout: Layout, ours: str) -> Place:
    """Returns the place of our weight in their files: "….blocks.7.….weight" is in the row "….blocks.#.…".

    An expert's number is @ in its row: "….experts.3.W_up.weight" of ours is in the row "….experts.@.W_up".
    A row can also have the whole name of a weight, if theirs ends otherwise: "….attention.log_rate" is "….A_log".
    """
    number = re.search(r"\.blocks\.(\d+)\.", ours)
    expert = re.search(r"\.experts\.(\d+)\.", ours)
    whole = ours if number is None else ours.replace(number[0], ".blocks.#.", 1)
    whole = whole if expert is None else whole.replace(expert[0], ".experts.@.", 1)
    names = layout.names if number is None or not layout.has_state(int(number[1])) else layout.states
    row, leaf = (whole, "") if whole in names else whole.rsplit(".", 1)
    if row not in names:
        raise ValueError(f"{ours} has no counterpart in Hugging Face's layout of this family")
    place = names[row]
    if isinstance(place, str):
        place = Place(place)
    name = place.name if number is None else place.name.replace("#", number[1])
    packed = expert is not None and "@" not in name
    name = name if expert is None else name.replace("@", expert[1])
    # Only matrices are transposed; a bias has a single axis.
    is_matrix = ours.endswith(".weight")
    return replace(
        place,
        name=f"{name}.{leaf}" if leaf else name,
        expert=int(expert[1]) if packed else None,
        transposed=place.transposed and is_matrix,
        convolution=place.convolution and is_matrix,
    )


def translated(
    wanted: Mapping[str, Shape], state: Mapping[str, Any], shapes: Mapping[str, Shape], layout: Layout
) -> Iterator[tuple[str, Any]]:
    """Yields our names, with shapes `wanted`, and their values from `state`, whose shapes are given, one at a time.

    What holds several of ours is read once.
    """
    layout = as_in_file(layout, state)
    places = {ours: place_of(layout, ours) for ours in wanted}
    state, shapes = _in_one_piece(layout, state, shapes)
    expected: dict[str, Shape] = {}
    columns, ends = {}, {}
    for ours in sorted(places, key=lambda ours: places[ours].part):
        place, shape = places[ours], wanted[ours]
        begin = ends.get((place.name, place.expert), 0) if place.part else 0
        end = ends[place.name, place.expert] = begin + shape[-1]
        columns[ours] = slice(begin, end)
        stored = place.stored((*shape[:-1], end))
        if place.expert is not None:
            n_experts, *_ = expected.get(place.name, (0,))
            stored = (max(n_experts, place.expert + 1), *stored)
        expected[place.name] = stored
    copies = {name: source for name, source in layout.copies.items() if name not in expected}

    faults, keys = [], {}
    drafts = _drafts(layout, state, expected)
    for key in state:
        name = known_name(layout, full_name(layout, key), expected.keys() | copies.keys())
        if re.search(layout.ignored, name) or name.startswith(drafts):
            continue
        if name in keys or not (name in expected or name in copies):
            faults.append(f"{checks.shown(key)} is not a weight of this model")
        keys.setdefault(name, key)
    for copy, source in copies.items():
        if copy in keys and source not in keys:
            keys[source] = keys[copy]  # under its other name
        elif copy in keys and not _equal(state, keys[copy], keys[source]):
            faults.append(f"{keys[copy]} differs from {keys[source]}, to which it is tied")
    faults += [f"{name} is missing" for name in expected if name not in keys]
    faults += [
        f"{keys[name]} has shape {shapes[keys[name]]}, but must have {shape}"
        for name, shape in expected.items()
        if name in keys and shapes[keys[name]] != shape
    ]
    wrapped = "" if any(name in expected for name in keys) else _wrapped(layout, state, expected)
    checks.no_faults(f"the weights do not fit the config{wrapped}", faults)
    inside: dict[str, list[str]] = {}
    for ours, place in places.items():
        inside.setdefault(place.name, []).append(ours)
    # A separate generator, so that mismatches are reported at the call.
    return (
        (ours, places[ours].take(values, columns[ours], wanted[ours]))
        for name, several in inside.items()
        for values in [_of_its_type(keys[name], state[keys[name]], is_table(several[0]))]
        for ours in several
    )


def _of_its_type(name: str, values: Any, whole: bool) -> Any:
    """Returns values, after checking that they are whole numbers if they have to be, and no others."""
    if ("int" in str(values.dtype)) != whole:
        kind = "whole numbers" if whole else "numbers with a fraction"
        raise ValueError(f"{checks.shown(name)} has numbers of type {values.dtype}, but must have {kind}")
    return values


def as_in_file(layout: Layout, state: Collection[str]) -> Layout:
    """Returns a layout with the names of packed experts, if the file has them."""
    packed = [place.name if isinstance(place, Place) else place for place in layout.packed.values()]
    rows = "|".join(re.escape(name).replace(r"\#", r"\d+") for name in packed)
    names = (full_name(layout, key) for key in state)
    each = (name.replace(*other) for name in names for other in (("", ""), *layout.others))
    if not rows or not any(re.fullmatch(rows, name) for name in each):
        return layout
    states = {**layout.states, **layout.packed} if layout.states else {}
    return replace(layout, names={**layout.names, **layout.packed}, states=states)


def known_name(layout: Layout, name: str, expected: Collection[str]) -> str:
    """Returns the name that a weight has in the tables, if its own has no place there but another one has.

    Each of the other pieces is tried alone, and then all are, one after the other.
    """
    if name in expected:
        return name
    others = [name.replace(theirs, ours) for theirs, ours in layout.others]
    at_last = name
    for theirs, ours in layout.others:
        at_last = at_last.replace(theirs, ours)
    return next((other for other in (*others, at_last) if other in expected), name)


def _in_one_piece(
    layout: Layout, state: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> tuple[Mapping[str, Any], Mapping[str, Shape]]:
    """Returns a state, and its shapes, with the pieces of a weight as one, whatever the size of each."""
    found: dict[str, list[str]] = {}
    for key in state:
        for whole, (first, *more) in layout.pieces.items():
            names = [key, *(key.replace(f".{first}.", f".{piece}.") for piece in more)]
            alike = len({shapes.get(name, ())[1:] for name in names}) == 1
            if f".{first}." in key and alike and all(shapes.get(name) for name in names):
                found[key.replace(f".{first}.", f".{whole}.")] = names
    if not found:
        return state, shapes
    sizes = {whole: sum(shapes[name][0] for name in names) for whole, names in found.items()}
    joined = {whole: (sizes[whole], *shapes[names[0]][1:]) for whole, names in found.items()}
    return Joined(state, found), {**shapes, **joined}


class Joined(Mapping):
    """A state in which some weights are joined when they are read, by the names of their pieces."""

    def __init__(self, state: Mapping[str, Any], joined: Mapping[str, list[str]]) -> None:
        self._state, self._joined = state, joined
        pieces = {name for names in joined.values() for name in names}
        self._names = dict.fromkeys([*(key for key in state if key not in pieces), *joined])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:  # that of Mapping would read the weight
        return name in self._names

    def __getitem__(self, name: str) -> Any:
        if name not in self._joined:
            return self._state[name]
        return concatenated([self._state[piece] for piece in self._joined[name]], axis=0)


def concatenated(parts: Sequence[Any], axis: int) -> Any:
    """Returns arrays or tensors as one."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=axis)
    import torch

    return torch.cat(list(parts), dim=axis)


def _drafts(layout: Layout, state: Collection[str], expected: Collection[str]) -> tuple[str, ...]:
    """Returns how the names of weights begin that belong to layers for drafts, beyond those of the model."""
    found = {match[0] for key in state if (match := re.search(layout.drafts, full_name(layout, key)))}
    return tuple(begin for begin in found if not any(name.startswith(begin) for name in expected))


WRAPPERS = {"_orig_mod.": "torch.compile", "module.": "DataParallel", "base_model.": "PEFT"}
"""What begins all names if a model is saved with what is around it, and what that is."""


def _wrapped(layout: Layout, state: Mapping[str, Any], expected: Collection[str]) -> str:
    """Returns the prefix without which the names would fit, for a message, if all of them have one; otherwise ""."""
    parts = next(iter(state), "").split(".")[:-1]
    for prefix in accumulate(f"{part}." for part in parts):
        inside = [full_name(layout, name.removeprefix(prefix)) for name in state if name.startswith(prefix)]
        if len(inside) == len(state) and any(name in expected for name in inside):
            what = next(
                (what for begin, what in WRAPPERS.items() if prefix.startswith(begin)), "another module"
            )
            return (
                f", because all their names begin with {checks.shown(prefix)!r}: {what} is around the model"
            )
    return ""


def full_name(layout: Layout, key: str) -> str:
    """Returns a name as in the tables: with the prefix and, for BERT's oldest files, with today's terms."""
    key = re.sub(r"(LayerNorm)\.gamma$", r"\1.weight", key)
    key = re.sub(r"(LayerNorm)\.beta$", r"\1.bias", key)
    is_head = key.startswith(("lm_head.", "cls."))
    return key if is_head or key.startswith(layout.prefix) else layout.prefix + key


def has_own_head(layout: Layout, state: Mapping[str, Any]) -> bool:
    """Returns whether there are weights for a head that differ from the embedding's, decided as in transformers."""
    if "unembedding" not in layout.names or "lm_head.weight" not in state:
        return False
    source = layout.copies["lm_head.weight"]
    embedding = source if source in state else source.removeprefix(layout.prefix)
    return embedding in state and not _equal(state, "lm_head.weight", embedding)


def _equal(state: Mapping[str, Any], one: str, other: str) -> bool:
    one, other = state[one], state[other]
    return tuple(one.shape) == tuple(other.shape) and bool((one == other).all())
