"""Finds the files of views and their modules: in the folders of widgets, or in the folder of a chapter.

A notebook is stale when what it opened or listed has changed. To find a view by its name, no folder is listed and no
file is opened, so another view beside it makes no notebook stale.
"""

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
_SHARED = ("widgets", "widgets/kit", "widgets/engine")
_FOLDERS = (*_SHARED, *(f"chapters/ch{number:02d}" for number in range(100)))


@cache
def find(name: str, package: Path = PACKAGE) -> Path | None:
    """Returns the path of the file `name`, such as "kit.js", or None where no folder of views has one.

    The folders of widgets come first, then those of the chapters.
    """
    return next((path for folder in _FOLDERS if (path := package / folder / name).is_file()), None)


def scripts(package: Path = PACKAGE) -> list[Path]:
    """Returns the paths of all JavaScript modules of the package. This lists folders."""
    return sorted(path for folder in _FOLDERS for path in (package / folder).glob("*.js"))


def module_of(path: Path, package: Path = PACKAGE) -> str:
    """Returns the name by which the Python module at `path` is imported."""
    return ".".join((package.name, *path.relative_to(package).with_suffix("").parts))
