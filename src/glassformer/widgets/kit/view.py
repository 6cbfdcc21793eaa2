"""The base of all interactive views: traits describe what to show, and a JavaScript module shows it."""

import math
from collections.abc import Callable
from typing import Any

import anywidget
from traitlets import Any as AnyTrait
from traitlets import CFloat, Dict, HasTraits, Instance, Int, List, TraitError, Unicode, default

from glassformer import contents

from .identity import Layout, Stable
from .modules import Module, read


def _references(modules: list[Module], _: object) -> list[str]:
    return [f"anywidget:{module.model_id}" for module in modules]


class View(Stable, anywidget.AnyWidget):
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

    @default("layout")
    def _default_layout(self) -> Layout:
        return Layout()

    def __repr__(self) -> str:  # without an address in memory: a notebook stores it
        return f"{type(self).__name__}()"


class FileView(View):
    """The base of views whose JavaScript asks for files that are too large for a trait, such as a model's weights.

    engine/weights.js asks by a message. In JupyterLab this class answers with what `_file` returns; on a page,
    book/site/widget-host.js does, with the files that tools/extensions/model_weights.py writes.
    """

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self.on_msg(self._answer)

    def _file(self, what: str) -> bytes | None:
        """Returns the file that the view may ask for by this name, or None if there is none."""
        raise NotImplementedError

    def _answer(self, _: Any, message: dict, buffers: Any) -> None:
        """Sends the file that a view asks for, and first its size, because the file may take a while to arrive."""
        what = message.get("ask", "")
        if (file := self._file(what)) is not None:
            self.send({"answer": what, "received": 0, "total": len(file)})
            self.send({"answer": what}, [file])


class Chapters(Dict):
    """The names of all chapters by number, for a view whose words mention chapters: kit/rich.js makes them links."""

    def default(self, obj: HasTraits | None = None) -> dict[str, str]:
        """Returns the names of the notebooks, such as "05-the-stream-and-the-norms" for "05"."""
        return {page.number: page.name for page in contents.chapters()}


class Made(AnyTrait):
    """A value that a view makes when it is first needed: `Made(lambda view: …)`."""

    def __init__(self, make: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.make = make

    def default(self, obj: HasTraits | None = None) -> Any:
        """Makes the value for this view."""
        return self.make(obj)


class UpTo(Int):
    """A whole number from `least` to `most(view)`; at the start it is `first`, or the most if that is less."""

    def __init__(self, most: Callable[[Any], int], *, first: int | None = None, least: int = 0) -> None:
        super().__init__()
        self.most, self.first, self.least = most, first, least

    def default(self, obj: HasTraits | None = None) -> int:
        """Returns the number at the start."""
        most = self.most(obj)
        return most if self.first is None else min(self.first, most)

    def validate(self, obj: HasTraits, value: Any) -> int:
        """`value`, or a TraitError that names the trait, the value and the range."""
        value, most = super().validate(obj, value), self.most(obj)
        if not self.least <= value <= most:
            raise TraitError(f"{self.name}={value} is not one of {self.least} … {most}")
        return value


class Number(CFloat):
    """A float between `min` and `max`; unlike that of traitlets, it does not accept NaN."""

    def validate(self, obj: HasTraits, value: Any) -> float:
        """Returns `value` as a float, or raises a TraitError that names the trait, the value and the range."""
        value = super().validate(obj, value)
        if math.isnan(value):
            raise TraitError(f"{self.name}={value} is not a number from {self.min} to {self.max}")
        return value


class Text(Unicode):
    """A text of `shortest` to `longest` characters; what is longest may be up to the view.

    Declared in the place of a base's trait, it does not have that trait's default.
    """

    def __init__(self, given: str = "", *, shortest: int = 0, longest: int | Callable[[Any], int]) -> None:
        super().__init__(given)
        self.shortest, self.longest = shortest, longest

    def validate(self, obj: HasTraits, value: Any) -> str:
        """`value`, or a TraitError that names the trait and the lengths."""
        value = super().validate(obj, value)
        longest = self.longest(obj) if callable(self.longest) else self.longest
        if not self.shortest <= len(value) <= longest:
            rule = f"{self.shortest} to {longest}" if self.shortest else f"at most {longest}"
            raise TraitError(f"{self.name} has {len(value)} characters, but must have {rule}")
        return value


class EvenInt(Int):
    """An even number of dimensions, for what takes them in pairs of a sine and a cosine."""

    def validate(self, obj: HasTraits, value: Any) -> int:
        """`value`, or a TraitError that names the trait and the value."""
        value = super().validate(obj, value)
        if value % 2:
            raise TraitError(f"{self.name}={value} is odd: sines and cosines come in pairs of dimensions")
        return value
