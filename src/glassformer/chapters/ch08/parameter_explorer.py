"""Counts a model's parameters exactly, part by part, for any configuration."""

from functools import cache
from typing import Any

from traitlets import Dict, Enum, TraitError, Unicode, default, observe, validate

from glassformer import _checks as checks
from glassformer import shipped
from glassformer.config import ModelConfig
from glassformer.parameters import LETTERS, ParameterCount
from glassformer.published import PUBLISHED, TEACHING
from glassformer.widgets.engine.counting import DEPENDS, FIELDS, FOLLOWS, LIMITS, OPTIONS, formulas
from glassformer.widgets.kit.view import Made, View


def fields_of(config: ModelConfig) -> dict[str, Any]:
    """The fields that affect the count; None for a size that follows from others."""
    fields = {name: getattr(config, name) for name in FIELDS}
    for name in FOLLOWS:
        free = config.replace(**{name: None})
        if getattr(free, name) == fields[name]:
            fields[name] = None
    return fields


@cache
def presets() -> dict[str, tuple[str, dict[str, Any], str]]:
    """Returns the presets by name: the kind, the fields, and what is worth knowing."""
    found = {
        name: ("Published", fields_of(one.config), one.note)
        for name, one in PUBLISHED.items()
        if one.config.kinds is None  # a drawing of one block for all
    }
    found["shakespeare"] = (
        "Of this book",
        fields_of(shipped.configuration()),
        "The model that runs in these pages.",
    )
    return found | {name: ("Of this book", fields_of(one.config), one.note) for name, one in TEACHING.items()}


def _check(fields: dict[str, Any]) -> None:
    """Checks that the fields have values that the view offers and that form a valid model."""
    for name, options in OPTIONS.items():
        if isinstance(options[0], bool):
            checks.flag(name, fields[name])
        elif fields[name] not in options:
            raise ValueError(f"{name}={fields[name]!r} is not one of {', '.join(map(repr, options))}")
    for name, limit in LIMITS.items():
        if fields[name] is not None or name not in FOLLOWS:
            checks.whole(name, fields[name])
            if fields[name] > limit:
                raise ValueError(f"{name}={fields[name]} must be at most {limit}")
    ModelConfig(**fields)


class ParameterExplorer(View, module="parameter_explorer"):
    """Counts every number that a model learns, part by part, for any configuration and every published model.

    The counts and the formulas are those of `ModelConfig.parameter_count`.

    Derived in chapters 07 and 08.

    Traits:
        preset: a model of `published.py`, or "shakespeare". Changes are counted relative to its fields.
        fields: the fields of `ModelConfig` that a count depends on; missing ones are taken from the preset. None is
            a size that is computed from others, as `d_ff` is from `d_model`.
        part: the selected part, such as "feed-forward".

    Raises:
        TraitError: there is no such preset, field or part, or the fields break a rule of `ModelConfig`.
    """

    preset = Unicode("gpt2").tag(sync=True)
    fields = Dict().tag(sync=True)
    part = Enum(tuple(DEPENDS), "feed-forward").tag(sync=True)
    _presets = Made(lambda _: [(name, *preset) for name, preset in presets().items()]).tag(sync=True)
    _formulas = Made(lambda _: formulas()).tag(sync=True)
    _options = Dict({name: list(values) for name, values in OPTIONS.items()}).tag(sync=True)
    _limits = Dict(LIMITS).tag(sync=True)
    _letters = Dict(LETTERS).tag(sync=True)

    _begun = False

    def __init__(self, preset: str = "gpt2", **traits: Any) -> None:
        super().__init__(preset=preset, **traits)
        self._begun = True

    @property
    def config(self) -> ModelConfig:
        """Returns the configuration that is counted."""
        return ModelConfig(**self.fields)

    def count(self) -> ParameterCount:
        """Counts its parameters, part by part."""
        return self.config.parameter_count()

    @default("fields")
    def _default_fields(self) -> dict[str, Any]:
        return dict(presets()[self.preset][1])

    @validate("preset")
    def _validate_preset(self, proposal: dict) -> str:
        if proposal["value"] not in presets():
            raise TraitError(f"preset={proposal['value']!r} is not one of {', '.join(presets())}")
        return proposal["value"]

    @validate("fields")
    def _validate_fields(self, proposal: dict) -> dict[str, Any]:
        given = proposal["value"]
        if unknown := [name for name in given if name not in FIELDS]:
            raise TraitError(
                f"fields contains {unknown[0]!r}, but only these are allowed: {', '.join(FIELDS)}"
            )
        fields = presets()[self.preset][1] | given
        try:
            _check(fields)
        except (TypeError, ValueError) as error:
            raise TraitError(str(error)) from None
        return fields

    @observe("preset")
    def _begin_anew(self, change: dict) -> None:
        if self._begun:
            self.fields = dict(presets()[change["new"]][1])
