"""A Sphinx extension that puts the weights of the book's models next to the pages, for book/site/widget-host.js.

A page opened from disk may not fetch a file, but it may add a script. So each model has a script, models/NAME.js, which
contains its safetensors file in base64, and another, models/NAME-neurons.js, with the facts about its neurons. A page
loads them only when the reader gives the model a text or chooses another neuron.
"""

from __future__ import annotations

import base64
from pathlib import Path

from sphinx.application import Sphinx

from glassformer import shipped
from glassformer.chapters.ch06 import neuron_explorer
from glassformer.checkpoints import MODEL


def script(name: str) -> str:
    """Returns the script that gives the page the weights of a shipped model."""
    return _holding(name, (shipped.PLACE / name / MODEL).read_bytes())


def neurons_script(name: str) -> str:
    """Returns the script that brings the stored facts about a model's neurons into the page."""
    return _holding(f"{name}-neurons", neuron_explorer.file(name))


def _holding(name: str, file: bytes) -> str:
    return f'(globalThis.glassformerWeights ??= {{}})["{name}"] = "{base64.b64encode(file).decode()}";\n'


def write(app: Sphinx, exception: Exception | None) -> None:
    """Writes the scripts of each model once the pages exist."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "models"
    folder.mkdir(exist_ok=True)
    for name in shipped.NAMES:
        (folder / f"{name}.js").write_text(script(name), encoding="ascii")
    for name in neuron_explorer.known():
        (folder / f"{name}-neurons.js").write_text(neurons_script(name), encoding="ascii")


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
