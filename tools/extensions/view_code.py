"""A Sphinx extension that puts the code of views into files, which a browser keeps, instead of into every page.

A stored notebook holds the modules of its views, each with its stylesheet (src/glassformer/widgets/kit/modules.py). On
the site they are in _static/code, once for all pages, under names that contain a checksum, such as plot-1f0c9a7e52:

- NAME.js, the module itself, which imports others by these names, and NAME.css, its stylesheet, both without comments:
  what a server sends;
- NAME.disk.js, a script that holds both as text, because a page opened from disk cannot import files.

What remains in a page is the state of its views. There, `_modules` is a list of names, `_styles` are those that have a
stylesheet, `_later` are those that the view imports only once it needs them, and `_loader` is the name of the module
that puts the others together.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from tools.extensions import built_pages
from tools.freshness import without_comments
from tools.notebooks import WIDGET_STATE, WIDGET_VIEW

STATE = re.compile(rf'(<script type="{re.escape(WIDGET_STATE)}">)(.*?)(</script>)', re.DOTALL)
VIEW = re.compile(rf'<script type="{re.escape(WIDGET_VIEW)}">\s*\{{"model_id": "(\w+)"')
IMPORT = re.compile(r'(from |import\()"\.{1,2}/(?:[\w.-]+/)*([\w-]+)\.js"')  # as in kit/loader.js
REFERENCE = "anywidget:"


class Files:
    """The files with the code of all views.

    Args:
        folder: where they are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, source: str, style: str = "", imports: dict[str, str] | None = None) -> str:
        """Writes one module, and returns its name with the checksum; `imports` has those of others."""
        linked = source
        if imports is not None:
            linked = IMPORT.sub(lambda found: f'{found[1]}"./{imports[found[2]]}.js"', source)
        key = f"{name}-{hashlib.sha256(f'{linked}{style}'.encode()).hexdigest()[:10]}"
        if key not in self.written:
            self.written.add(key)
            value = json.dumps({"name": name, "source": source, "style": style}, ensure_ascii=False)
            self._write(f"{key}.js", without_comments(linked, "js"))
            if style:
                self._write(f"{key}.css", without_comments(style, "css"))
            self._write(f"{key}.disk.js", f'(globalThis.glassformerCode ??= {{}})["{key}"] = {value};\n')
        return key

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8", newline="\n")

    def take(self, models: dict[str, Any]) -> dict[str, Any]:
        """Returns the stored models of a page without their code, which becomes files."""
        kept = {}
        for name, model in models.items():
            state = model["state"]
            if "_esm" not in state:  # a module, or a layout of ipywidgets, which nothing on a page reads
                continue
            if "_modules" in state:
                modules = [
                    models[reference.removeprefix(REFERENCE)]["state"] for reference in state["_modules"]
                ]
                imports: dict[str, str] = {}
                for module in modules:  # each after those that it imports
                    imports[module["name"]] = self.add(
                        module["name"], module["source"], module["style"], imports
                    )
                first = at_once({module["name"]: module["source"] for module in modules})
                loader = self.add("loader", state["_esm"])
                state = {key: value for key, value in state.items() if key != "_esm"}
                styles = [key for key in imports.values() if (self.folder / f"{key}.css").exists()]
                state |= {"_modules": list(imports.values()), "_styles": styles, "_loader": loader}
                state["_later"] = [key for name, key in imports.items() if name not in first]
            kept[name] = {"state": state}
        return kept

    def thin(self, page: str) -> str:
        """Returns the text of a page without the code of its views; their states are in the order of the page."""
        shown = {model: i for i, model in reversed(list(enumerate(VIEW.findall(page))))}

        def replace(found: re.Match[str]) -> str:
            stored = json.loads(found[2])["state"]
            views = {name for name, model in stored.items() if "_modules" in model["state"]}
            for name in views - set(shown):  # a cell that was executed again has left it behind
                del stored[name]
            ordered = dict(sorted(stored.items(), key=lambda one: shown.get(one[0], len(shown))))
            text = json.dumps({"state": self.take(ordered)}, ensure_ascii=False, separators=(",", ":"))
            return found[1] + text.replace("</", "<\\/") + found[3]

        return STATE.sub(replace, page)


def at_once(sources: dict[str, str]) -> set[str]:
    """Returns the names of the modules that the last of these needs before it can begin."""
    found: set[str] = set()
    waiting = [list(sources)[-1]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [imported for how, imported in IMPORT.findall(sources[name]) if how == "from "]
    return found


def write(app: Sphinx, exception: Exception | None) -> None:
    """Writes the files, once the pages exist."""
    if exception is None and app.builder.format == "html":
        site = Path(app.outdir)
        built_pages.rewrite(site, Files(site / "_static" / "code").thin)


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
