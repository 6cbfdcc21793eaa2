"""Imports what not every installation has, or says which extra of the package has it.

`from glassformer._checks.extras import torch` is `import torch` with such a message.
"""

from importlib import import_module
from typing import Any

EXTRAS = {
    "torch": "torch",
    **dict.fromkeys(
        ("IPython", "anywidget", "ipywidgets", "matplotlib", "platformdirs", "traitlets"), "views"
    ),
    **dict.fromkeys(("huggingface_hub", "tokenizers"), "bytepairs"),
    "scipy": "scipy",
}
"""The extra of each library, as in pyproject.toml."""


def __getattr__(name: str) -> Any:
    """Imports a library of `EXTRAS`.

    Raises:
        ModuleNotFoundError: it is not installed. The message says how to install it.
    """
    if name not in EXTRAS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(missing(name), name=name) from None


def missing(library: str) -> str:
    """Returns what to say if a library of `EXTRAS` is not installed."""
    known = {"torch": "PyTorch"}.get(library, library)
    return f"this needs {known}, which is not installed: pip install 'glassformer[{EXTRAS[library]}]'"
