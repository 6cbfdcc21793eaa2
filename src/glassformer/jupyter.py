"""Additions of the book's environment to Jupyter's kernel and server: reading a notebook loses and changes nothing.

tools/jupyter/ has the settings that load this module in both.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer import error_hints

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_REFERENCE = re.compile(r"\b(?:IPY_MODEL_|anywidget:)(\w+)")  # of a model to another


# --- the kernel ---


def load_ipython_extension(shell: Any) -> None:
    """Prepares a kernel, also to say first words where it goes wrong. IPython calls this before any cell is run.

    A frontend writes what the kernel says of its language into every notebook that is opened. Without the version of
    Python, that is what the book's notebooks already have, on every machine.
    """
    if (kernel := getattr(shell, "kernel", None)) is not None:  # none in a terminal
        kernel.language_info = {name: it for name, it in kernel.language_info.items() if name != "version"}
        error_hints.load(shell)


# --- the server ---


def keep_states(model: dict[str, Any], path: str, contents_manager: Any, **_: Any) -> None:
    """Keeps the states of views whose cells have not been run in a notebook that is being saved.

    With its setting *Save Widget State Automatically*, JupyterLab stores only the models that a kernel has, and drops
    those of views that are still shown. The file, which is about to be replaced, has them. Jupyter's server calls this.
    """
    file = Path(contents_manager.root_dir, path.strip("/"))
    if model["type"] != "notebook" or not file.is_file():
        return
    metadata = model["content"]["metadata"]
    live = _states(metadata)
    missing = set(_shown(model["content"])) - live.keys()
    if live and not missing:
        return
    before = json.loads(file.read_text(encoding="utf-8"))["metadata"]
    stored = _states(before)
    if live:
        while missing & stored.keys():  # with what they refer to
            name = (missing & stored.keys()).pop()
            live[name] = stored.pop(name)
            missing |= set(_REFERENCE.findall(json.dumps(live[name]))) - live.keys()
    elif "widgets" in before:
        metadata["widgets"] = before["widgets"]
    else:
        metadata.pop("widgets", None)


def _states(metadata: dict[str, Any]) -> dict[str, Any]:
    """Returns the states in a notebook's metadata, by model id."""
    return metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})


def _shown(notebook: dict[str, Any]) -> Iterator[str]:
    """Yields the model id of each view in a notebook's outputs."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if WIDGET_VIEW in output.get("data", {}):
                yield output["data"][WIDGET_VIEW]["model_id"]
