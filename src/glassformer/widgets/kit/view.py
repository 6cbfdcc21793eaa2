"""The base of every interactive view: traits say what to show, and a JavaScript module shows it."""

import math
from typing import Any, ClassVar

import anywidget
from traitlets import CFloat, HasTraits, Instance, List, TraitError, default

from .modules import Module, read


def _references(modules: list[Module], _: object) -> list[str]:
    return [f"anywidget:{module.model_id}" for module in modules]


class View(anywidget.AnyWidget):
    """Base of the book's views. A subclass names its JavaScript module and declares its traits.

        class PositionHeatmap(View, module="position_heatmap"):
            base = Number(10_000.0, min=10.0, max=1e6).tag(sync=True)

    The state is in the traits and nowhere else: the browser draws from them and writes to them, Python can
    set and read them, and a stored notebook keeps them, so the view also works where there is no Python.

    `room` says how high the view is, in pixels, at some widths. The page keeps so much room for it until it is
    drawn, so that the text below stays where it is.
    """

    _esm = read("loader")
    _module: str
    _heights: ClassVar[dict[int, int]] = {}
    _room = List().tag(sync=True)
    _modules = List(Instance(Module)).tag(sync=True, to_json=_references)

    def __init_subclass__(
        cls, *, module: str | None = None, room: dict[int, int] | None = None, **kwargs: Any
    ) -> None:
        if module is not None:  # traitlets subclasses each instance once more, to add traits to it
            cls._module = module
        if room is not None:
            cls._heights = room
        super().__init_subclass__(**kwargs)

    @default("_room")
    def _default_room(self) -> list[tuple[int, int]]:
        return sorted(self._heights.items())

    @default("_modules")
    def _default_modules(self) -> list[Module]:
        return Module.of(self._module)


class Number(CFloat):
    """A float between `min` and `max`; unlike traitlets' own, it does not let NaN through."""

    def validate(self, obj: HasTraits, value: Any) -> float:
        """`value` as a float, or a TraitError that names the trait, the value and the range."""
        value = super().validate(obj, value)
        if math.isnan(value):
            raise TraitError(f"{self.name}={value} is not a number from {self.min} to {self.max}")
        return value
