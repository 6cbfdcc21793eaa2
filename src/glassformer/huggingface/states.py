"""Turns state dicts from Hugging Face's names and shapes into ours and back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.configs import layout_of
from glassformer.huggingface.families.format import Layout, Place, Shape
from glassformer.huggingface.quantized import Decoded
from glassformer.huggingface.weights import check_sizes, concatenated, place_of, translated


def state_from_hf(
    config: ModelConfig, state: Mapping[str, Any], *, model_type: str | None = None
) -> dict[str, Any]:
    """Turns weights under Hugging Face's names, arrays or tensors, into our state dict: views, where both store alike.

    A prefix such as "transformer." is optional. Weights in MXFP4, or in FP8 with blocks of 128 × 128, are decoded. Tied
    weights can occur twice if they are equal. `model_type` is that of the file; without it, names are those of the
    family that `config_to_hf` finds.

    Raises:
        ValueError: weights are missing, unknown, of the wrong shape, or tied but different. The message names
            all of them. Or `model_type` is not known.
        TypeError: `config` is not a ModelConfig.
    """
    checks.instance("config", config, ModelConfig)
    decoded = Decoded(state)
    layout = layout_of(config, model_type)
    check_sizes(config, decoded.shapes, layout)
    return dict(translated(_our_shapes(config), decoded, decoded.shapes, layout))


def state_to_hf(
    config: ModelConfig, state: Mapping[str, Any], *, model_type: str | None = None
) -> dict[str, Any]:
    """Turns our state dict, arrays or tensors, into one with Hugging Face's names: views where they store them alike.

    Tied weights occur once, as in files. A gain that is stored without its 1 may lose its last bit. `model_type` is as
    in `state_from_hf`.

    Raises:
        ValueError: one of the model's weights is missing or has a different shape, `state` names a weight that
            the model does not have, or `model_type` is not known.
        TypeError: `config` is not a ModelConfig.
    """
    checks.instance("config", config, ModelConfig)
    checks.state_dict(_our_shapes(config), {name: tuple(values.shape) for name, values in state.items()})
    layout = layout_of(config, model_type)
    found: dict[str, dict[int | None, dict[int, Any]]] = {}  # by their name, expert and part
    places: dict[str, Place] = {}
    for name, values in state.items():
        place = _piece_of(layout, place_of(layout, name))
        theirs = place.name.removeprefix(layout.prefix) if config.head == "none" else place.name
        found.setdefault(theirs, {}).setdefault(place.expert, {})[place.part] = place.give(values)
        places[theirs] = place
    stored = {
        name: _packed(
            {
                expert: _stored(
                    _joined([parts[part] for part in sorted(parts)], places[name].widths), places[name]
                )
                for expert, parts in experts.items()
            }
        )
        for name, experts in found.items()
    }
    for end, constants in layout.constants.items():
        for name in [name for name in stored if name.endswith(end)]:
            for other, value in constants.items():
                stored[name.removesuffix(end) + other] = (stored[name] * 0 + value).reshape(())
    return stored


def _packed(experts: Mapping[int | None, Any]) -> Any:
    """Returns what one of their weights holds of all experts, or of none."""
    if None in experts:
        return experts[None]
    return concatenated([experts[number][None] for number in sorted(experts)], axis=0)  # type: ignore[type-var]


def _piece_of(layout: Layout, place: Place) -> Place:
    """Returns the place of a weight in files, if they store in pieces what is one weight in memory."""
    for whole, pieces in layout.pieces.items():
        if f".{whole}." in place.name:
            name = place.name.replace(f".{whole}.", f".{pieces[place.part]}.")
            return replace(place, name=name, part=0)
    return place


def _stored(values: Any, place: Place) -> Any:
    """Returns a weight with its axes as they store them."""
    if place.convolution:
        return values.T[:, None]
    return values.T if place.transposed else values


def _joined(parts: list[Any], widths: Sequence[int]) -> Any:
    """Returns one weight, or several side by side, or several in turns of so many columns each."""
    if len(parts) == 1:
        return parts[0]
    if widths:
        each = zip(parts, widths, strict=True)
        in_turns = [part.reshape(*part.shape[:-1], -1, width) for part, width in each]
        return concatenated(in_turns, axis=-1).reshape(*parts[0].shape[:-1], -1)
    return concatenated(parts, axis=-1)


def _our_shapes(config: ModelConfig) -> dict[str, Shape]:
    from glassformer.scratch import Transformer

    # Zeros that are never read or written take no memory.
    weights = Transformer(config, generator=None).named_parameters()
    return {name: weight.shape for name, weight in weights.items()}
