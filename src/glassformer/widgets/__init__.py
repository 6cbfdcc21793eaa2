"""Interactive views that work in JupyterLab and on pages without Python.

`kit` has the components of every view, and `engine` runs, counts and shows a model. Views that several
chapters use are next to them; a view that only one chapter uses is in that chapter's folder. All can be
imported from here by name: `from glassformer.widgets import NormComparer` finds the class in
`chapters/ch05/norm_comparer.py`. A view is imported only on demand.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer._checks import extras

from .kit import places


def _is_view(path: Path) -> bool:
    parts = [path.with_suffix(suffix).is_file() for suffix in (".py", ".js")]
    return all(parts) and path.parent.name != "engine"  # engine/model.py is the base of views


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name[0].isupper():
        stem = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        place = places.find(f"{stem}.py")
        if place is not None and _is_view(place):
            extras.anywidget  # noqa: B018 - or say how to install it
            return getattr(import_module(places.module_of(place)), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Returns the names of all views: a view is a class with a JavaScript module beside it."""
    stems = [path.stem for path in places.scripts() if _is_view(path)]
    return sorted("".join(word.capitalize() for word in stem.split("_")) for stem in stems)
