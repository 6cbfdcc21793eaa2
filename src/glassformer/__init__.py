"""Glassformer: a Transformer you can see through. The package that the book's chapters build.

The website's page *The package* lists every function and class by task. `help(glassformer.text)` explains one module.
"""

from importlib import import_module
from typing import Any

# Listed by `dir`, and imported on first use
_MODULES = [
    "anatomy",
    "bugs",
    "checkpoints",
    "config",
    "dates",
    "decoding",
    "evaluation",
    "exercises",
    "experiments",
    "figures",
    "generate",
    "huggingface",
    "inside",
    "layers",
    "model_files",
    "nn",
    "onepage",
    "parameters",
    "pretrained",
    "progress",
    "protocols",
    "published",
    "scratch",
    "shipped",
    "tasks",
    "text",
    "trace",
    "train",
    "widgets",
]


def __getattr__(name: str) -> Any:
    """Imports a module on first use, or returns the installed `__version__`; CHANGELOG.md lists the versions."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("glassformer")


def __dir__() -> list[str]:
    return [*_MODULES, "__version__"]
