"""Interactive views: each works in JupyterLab and on a page that has no Python behind it.

`kit` has what every view is made of, `engine` what runs, counts and shows a model. Beside them lie the views that
several chapters show. A view that only one chapter shows lies in the folder of that chapter. All have their place here
by name: `from glassformer.widgets import NormComparer` finds the class in `chapters/ch05/norm_comparer.py`. A view is
imported when it is asked for, and only then.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

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
            return getattr(import_module(places.module_of(place)), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Returns the names of all views: a view is a class with a JavaScript module beside it."""
    stems = [path.stem for path in places.scripts() if _is_view(path)]
    return sorted("".join(word.capitalize() for word in stem.split("_")) for stem in stems)
