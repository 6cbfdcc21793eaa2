"""Lets readers' files import the book's functions from where they were before version 0.2.

Such a file may begin with ``from glassformer.exercises.chapter05 import layer_norm``. `keep` wrote this line if a
reader's function used one of the book's. These functions are now in the folders of the chapters; the module of that
name is put together from a chapter's judges when somebody imports it.
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from glassformer import contents

_NAME = re.compile(r"glassformer\.exercises\.chapter(\d\d)")


class _Finder(MetaPathFinder, Loader):
    """Finds and fills the modules of the chapters; every other module is left to other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if _judges(fullname) else None

    def exec_module(self, module: ModuleType) -> None:
        for name in _judges(module.__name__):
            judge = import_module(name)
            public = {name: value for name, value in vars(judge).items() if not name.startswith("_")}
            vars(module).update(public)


def _judges(fullname: str) -> list[str]:
    """Returns the names of the modules that now hold the functions of the old module, or none."""
    if not (found := _NAME.fullmatch(fullname)):
        return []
    folder: Path = contents.folder(found[1])
    package = f"glassformer.chapters.{folder.name}.judges"
    return [f"{package}.{file.stem}" for file in sorted((folder / "judges").glob("[!_]*.py"))]


def install() -> None:
    """Make the old names importable, unless they are already."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
