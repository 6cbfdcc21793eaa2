"""Glassformer: a Transformer you can see through. The package that the book's chapters build."""


def __getattr__(name: str) -> str:
    """Returns `__version__`, that of the installed package; CHANGELOG.md lists the versions."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("glassformer")
