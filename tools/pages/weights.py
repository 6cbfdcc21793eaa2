"""A Sphinx extension: the weights of the book's models beside the pages, for book/site/widget-host.js.

A page opened from disk may not fetch a file, but it may add a script. So each model is one, models/NAME.js, which
holds its safetensors file in base64. No page loads it before a reader wants the model to read something.
"""

from __future__ import annotations

import base64
from pathlib import Path

from sphinx.application import Sphinx

from glassformer import shipped
from glassformer.checkpoints import MODEL


def script(name: str) -> str:
    """What the page runs to have the weights of a shipped model."""
    weights = base64.b64encode((shipped.PLACE / name / MODEL).read_bytes()).decode()
    return f'(globalThis.glassformerWeights ??= {{}})["{name}"] = "{weights}";\n'


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write a script for each model, when the pages are there."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "models"
    folder.mkdir(exist_ok=True)
    for name in shipped.NAMES:
        (folder / f"{name}.js").write_text(script(name), encoding="ascii")


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
