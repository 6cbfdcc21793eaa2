"""The base of all interactive views: traits describe what to show, and a JavaScript module shows it."""

import math
from typing import Any

import anywidget
from traitlets import CFloat, HasTraits, Instance, Int, List, TraitError, default

from .modules import Module, read


def _references(modules: list[Module], _: object) -> list[str]:
    return [f"anywidget:{module.model_id}" for module in modules]


class View(anywidget.AnyWidget):
    """The base of the book's views. A subclass names its JavaScript module and declares its traits.

        class PositionHeatmap(View, module="position_heatmap"):
            base = Number(10_000.0, min=10.0, max=1e6).tag(sync=True)

    The whole state is in the traits: the browser draws from them and writes to them, Python can set and read
    them, and a stored notebook keeps them, so the view also works without Python.
    """

    _esm = read("loader")
    _module: str
    _modules = List(Instance(Module)).tag(sync=True, to_json=_references)

    def __init_subclass__(cls, *, module: str | None = None, **kwargs: Any) -> None:
        if module is not None:  # traitlets subclasses each instance once more, to add traits to it
            cls._module = module
        super().__init_subclass__(**kwargs)

    @default("_modules")
    def _default_modules(self) -> list[Module]:
        return Module.of(self._module)


class Number(CFloat):
    """A float between `min` and `max`; unlike that of traitlets, it does not accept NaN."""

    def validate(self, obj: HasTraits, value: Any) -> float:
        """Returns `value` as a float, or raises a TraitError that names the trait, the value and the range."""
        value = super().validate(obj, value)
        if math.isnan(value):
            raise TraitError(f"{self.name}={value} is not a number from {self.min} to {self.max}")
        return value


class EvenInt(Int):
    """An even number of dimensions, for what takes them in pairs of a sine and a cosine."""

    def validate(self, obj: HasTraits, value: Any) -> int:
        """`value`, or a TraitError that names the trait and the value."""
        value = super().validate(obj, value)
        if value % 2:
            raise TraitError(f"{self.name}={value} is odd: sines and cosines come in pairs of dimensions")
        return value
