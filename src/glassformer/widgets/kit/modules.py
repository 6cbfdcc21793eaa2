"""The views' JavaScript, and how a notebook stores it: each module once, however many views run it.

A view is written as a few small ES modules, each with a stylesheet of its name where it needs one. A stored notebook
has no folder to import from, so it holds them as models beside the views', and each view names those that it is made
of. loader.js puts them together again, in JupyterLab and in the page.
"""

import re
from functools import cache
from pathlib import Path
from typing import ClassVar

import ipywidgets
from traitlets import Unicode

from glassformer import roles

from . import places
from .places import PACKAGE

_IMPORT = re.compile(r'\bfrom "(.*?)";')


def _script(name: str, package: Path) -> Path:
    path = places.find(f"{name}.js", package)
    if path is None:
        raise ImportError(f"no folder of views has a module {name}.js")
    return path


def read(name: str, package: Path = PACKAGE) -> str:
    """Returns the source of the module `name`, wherever it lies.

    Raises:
        ImportError: there is no such module.
    """
    return _script(name, package).read_text("utf-8")


@cache
def needed(name: str, package: Path = PACKAGE) -> tuple[str, ...]:
    """Returns the modules that `name` is made of, each after those that it imports, itself last.

    A module goes by the name of its file: no two have the same, in whichever folders they lie.

    Raises:
        ImportError: a module imports what is no module of the package, two modules have the same name, or modules
            import each other in a circle.
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
    """Returns what the module `name` adds to the look of a view; the kit also brings the colours of the roles."""
    try:
        own = _script(name, package).with_suffix(".css").read_text("utf-8")
    except FileNotFoundError:  # is_file() would not be heard: a first stylesheet must make a notebook stale
        own = ""
    return roles.variables(".gf-widget") + own if name == "kit" else own


class Module(ipywidgets.Widget):
    """One module and its stylesheet, as a notebook stores them. It is never shown; views refer to it."""

    name = Unicode().tag(sync=True)
    source = Unicode().tag(sync=True)
    style = Unicode().tag(sync=True)

    _open: ClassVar[dict[str, "Module"]] = {}

    @classmethod
    def of(cls, view: str) -> list["Module"]:
        """The models of all modules that a view is made of, in the order in which they must be put together.

        There is one for each module in a kernel; closed ones, as by `Widget.close_all()`, are made again.
        """
        for name in needed(view):
            if name not in cls._open or cls._open[name].comm is None:
                cls._open[name] = cls(name=name, source=read(name), style=stylesheet(name))
        return [cls._open[name] for name in needed(view)]
