"""A shelf of published files."""
import json
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["shelf"]


@cache
def shelf() -> list[dict[str, Any]]:
    """Returns the entries."""
    return json.loads((resources.files("glassformer.anatomy") / "shelf.json").read_text(encoding="utf-8"))
