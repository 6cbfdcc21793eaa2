"""Finds the files of views and their modules: in the folders of widgets, or in the folder of a chapter.

A notebook is stale if a file that it opened or a folder that it listed has changed. Finding a view by its
name lists no folder and opens no file, so adding another view does not make any notebook stale.
"""

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
_SHARED = ("widgets", "widgets/kit", "widgets/engine")
_FOLDERS = (*_SHARED, *(f"chapters/ch{number:02d}" for number in range(100)))


@cache
def find(name: str, package: Path = PACKAGE) -> Path | None:
    """Returns the path of the file `name`, such as "kit.js", or None if no folder of views has it.

    The folders of widgets are searched first, then those of the chapters.
    """
    return next((path for folder in _FOLDERS if (path := package / folder / name).is_file()), None)


def scripts(package: Path = PACKAGE) -> list[Path]:
    """Returns the paths of all JavaScript modules of the package. This lists folders."""
    return sorted(path for folder in _FOLDERS for path in (package / folder).glob("*.js"))


def module_of(path: Path, package: Path = PACKAGE) -> str:
    """Returns the name by which the Python module at `path` is imported."""
    return ".".join((package.name, *path.relative_to(package).with_suffix("").parts))
