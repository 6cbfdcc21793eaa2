"""The base of all interactive views: traits describe what to show, and a JavaScript module shows it."""

import math
from typing import Any

import anywidget
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


class Number(CFloat):
    """A float between `min` and `max`; unlike that of traitlets, it does not accept NaN."""

    def validate(self, obj: HasTraits, value: Any) -> float:
        """Returns `value` as a float, or raises a TraitError that names the trait, the value and the range."""
        value = super().validate(obj, value)
        if math.isnan(value):
            raise TraitError(f"{self.name}={value} is not a number from {self.min} to {self.max}")
        return value


class Text(Unicode):
    """A text of at most `longest` characters."""

    def __init__(self, given: str = "", *, longest: int) -> None:
        super().__init__(given)
        self.longest = longest

    def validate(self, obj: HasTraits, value: Any) -> str:
        """`value`, or a TraitError that names the trait and the two lengths."""
        value = super().validate(obj, value)
        if len(value) > self.longest:
            raise TraitError(
                f"{self.name} has {len(value)} characters, but at most {self.longest} are allowed"
            )
        return value


class EvenInt(Int):
    """An even number of dimensions, for what takes them in pairs of a sine and a cosine."""

    def validate(self, obj: HasTraits, value: Any) -> int:
        """`value`, or a TraitError that names the trait and the value."""
        value = super().validate(obj, value)
        if value % 2:
            raise TraitError(f"{self.name}={value} is odd: sines and cosines come in pairs of dimensions")
        return value
