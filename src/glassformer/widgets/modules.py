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

HERE = Path(__file__).parent
_IMPORT = re.compile(r'\bfrom "(.*?)";')


def read(name: str, folder: Path = HERE) -> str:
    """The source of the module `name`."""
    return (folder / f"{name}.js").read_text("utf-8")


@cache
def needed(name: str, folder: Path = HERE) -> tuple[str, ...]:
    """The modules that `name` is made of, each after those that it imports, itself last.

    Raises:
        ImportError: a module imports from elsewhere than `folder`, or modules import each other in a circle.
    """

    def add(module: str, importers: tuple[str, ...]) -> None:
        if module in importers:
            raise ImportError(f"{' -> '.join((*importers, module))}: modules import each other in a circle")
        for address in _IMPORT.findall(read(module, folder)):
            beside = re.fullmatch(r"\./([\w-]+)\.js", address)
            if not beside or not (folder / address).is_file():
                raise ImportError(f"{module}.js imports from {address!r}, which is no module beside it")
            add(beside[1], (*importers, module))
        if module not in found:
            found.append(module)

    found: list[str] = []
    add(name, ())
    return tuple(found)


def stylesheet(name: str, folder: Path = HERE) -> str:
    """Returns the CSS that the module `name` adds to a view; the kit also brings the colours of the roles."""
    try:
        own = (folder / f"{name}.css").read_text("utf-8")
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
