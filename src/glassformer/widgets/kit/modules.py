"""Stores the views' JavaScript in a notebook: each module once, however many views use it.

A view consists of a few small ES modules, each with a stylesheet of the same name if it needs one. A stored
notebook has no folder to import from, so it contains the modules as widget models next to those of the views,
and each view lists its modules. loader.js puts them together again, in JupyterLab and on the page.
"""

import re
from functools import cache
from pathlib import Path
from typing import ClassVar

from traitlets import Unicode

from glassformer import role_colours

from . import places
from .identity import Stable, model_id
from .places import PACKAGE

_IMPORT = re.compile(r'\b(?:from |import\()"(.*?)"(?:;|\))')  # at once, or once it is needed


def _script(name: str, package: Path) -> Path:
    path = places.find(f"{name}.js", package)
    if path is None:
        raise ImportError(f"no folder of views has a module {name}.js")
    return path


def read(name: str, package: Path = PACKAGE) -> str:
    """Returns the source of the module `name`, wherever it is.

    Raises:
        ImportError: there is no such module.
    """
    return _script(name, package).read_text("utf-8")


@cache
def needed(name: str, package: Path = PACKAGE) -> tuple[str, ...]:
    """Returns the modules that `name` needs, each after those that it imports, with itself last.

    A module is identified by its file name, so no two may share one, even in different folders.

    Raises:
        ImportError: a module imports something that is not a module of the package, two modules have the same
            name, or modules import each other in a circle.
    """

    def add(module: str, importers: tuple[str, ...]) -> None:
        if module in importers:
            raise ImportError(f"{' -> '.join((*importers, module))}: modules import each other in a circle")
        script = _script(module, package)
        for address in _IMPORT.findall(script.read_text("utf-8")):
            imported = (script.parent / address).resolve()
            known = (
                places.find(imported.name, package) if re.fullmatch(r"\.\.?/[\w./-]+\.js", address) else None
            )
            if known is None or not imported.is_file():
                raise ImportError(f"{module}.js imports from {address!r}, which is no module of the package")
            if known.resolve() != imported:
                raise ImportError(f"{module}.js imports from {address!r}, and {known} has the same name")
            add(known.stem, (*importers, module))
        if module not in found:
            found.append(module)

    found: list[str] = []
    add(name, ())
    return tuple(found)


def stylesheet(name: str, package: Path = PACKAGE) -> str:
    """Returns the styles that the module `name` adds to a view, including the colours of the roles that it names."""
    file = _script(name, package).with_suffix(".css")
    own = file.read_text("utf-8") if file.is_file() else ""
    return role_colours.variables(".gf-widget", role_colours.named_in(read(name, package) + own)) + own


class Module(Stable):
    """One module with its stylesheet, as stored in a notebook. It is never shown; views refer to it.

    Its id follows from both, so that views of two versions of the book do not share a module.
    """

    name = Unicode().tag(sync=True)
    source = Unicode().tag(sync=True)
    style = Unicode().tag(sync=True)

    _known: ClassVar[dict[str, "Module"]] = {}

    def _identity(self) -> str:
        return model_id(self.name, self.source, self.style)

    @classmethod
    def of(cls, view: str) -> list["Module"]:
        """Returns the models of all modules of a view, in the order in which they must be put together.

        A kernel has one model per module; closed models, for example after `Widget.close_all()`, are opened
        again.
        """
        for name in needed(view):
            if name not in cls._known:
                cls._known[name] = cls(name=name, source=read(name), style=stylesheet(name))
            cls._known[name].open()
        return [cls._known[name] for name in needed(view)]
