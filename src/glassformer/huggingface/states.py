"""Turns state dicts from Hugging Face's names and shapes into ours and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.configs import layout_of
from glassformer.huggingface.families.format import Place, Shape
from glassformer.huggingface.weights import check_sizes, place_of, translated


def state_from_hf(
    config: ModelConfig, state: Mapping[str, Any], *, model_type: str | None = None
) -> dict[str, Any]:
    """Turns weights under Hugging Face's names, arrays or tensors, into our state dict: views, where both store alike.

    A prefix such as "transformer." is optional. Tied weights can occur twice if they are equal. `model_type` is that
    of the file; without it, names are those of the family that `config_to_hf` finds.

    Raises:
        ValueError: weights are missing, unknown, of the wrong shape, or tied but different. The message names
            all of them. Or `model_type` is not known.
        TypeError: `config` is not a ModelConfig.
    """
    checks.instance("config", config, ModelConfig)
    shapes = {name: tuple(values.shape) for name, values in state.items()}
    layout = layout_of(config, model_type)
    check_sizes(config, shapes, layout)
    return dict(translated(_our_shapes(config), state, shapes, layout))


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
    found: dict[str, dict[int, Any]] = {}
    places: dict[str, Place] = {}
    for name, values in state.items():
        place = place_of(layout, name)
        theirs = place.name.removeprefix(layout.prefix) if config.head == "none" else place.name
        found.setdefault(theirs, {})[place.part] = place.give(values)
        places[theirs] = place
    joined = {
        name: _joined([parts[part] for part in sorted(parts)], places[name].chunk)
        for name, parts in found.items()
    }
    return {name: _stored(values, places[name]) for name, values in joined.items()}


def _stored(values: Any, place: Place) -> Any:
    """Returns a weight with its axes as they store them."""
    if place.convolution:
        return values.T[:, None]
    return values.T if place.transposed else values


def _joined(parts: list[Any], chunk: int) -> Any:
    """Returns one weight, or several side by side, or two in turns of so many columns."""
    if len(parts) == 1:
        return parts[0]
    if chunk:
        in_turns = _joined([part.reshape(*part.shape[:-1], -1, chunk) for part in parts], 0)
        return in_turns.reshape(*parts[0].shape[:-1], -1)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=-1)
    import torch

    return torch.cat(parts, dim=-1)


def _our_shapes(config: ModelConfig) -> dict[str, Shape]:
    from glassformer.scratch import Transformer

    # Zeros that are never read or written take no memory.
    weights = Transformer(config, generator=None).named_parameters()
    return {name: weight.shape for name, weight in weights.items()}
