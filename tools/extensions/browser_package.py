"""A Sphinx extension that packs what judges an exercise, for Python in the reader's browser, and places Python itself.

`practice/glassformer.tgz` holds the modules that the judges import, with what these import in turn, and the chapters'
texts. Data that a judge needs, a model or the corpus, is in an archive of its own. They are the same, byte for byte,
wherever they are made from the same sources. Python, NumPy and their list are copied from the folder that
`make python-for-the-page` fills, or the environment's GLASSFORMER_PYTHON names, if it exists. The largest file is
compressed, because not every server compresses it.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import grimp
from sphinx.application import Sphinx

from glassformer.exercises import exercises
from tools.assets import pyodide

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"

DESK = "glassformer.exercises.desk"
WITHOUT = "glassformer.nn"  # it needs PyTorch, which no browser has
CORPUS = "corpus"
CAPSTONE_LOADS = (CORPUS, "shakespeare")  # a model
# Names that end so. Modules are imported by their addresses, so they stay as they are.
PACKED = (".wasm", "lock.json")
UNREAD = {"quiz.toml", "predictions.toml", "ruff.toml"}  # the page itself has these, or nobody reads them


def modules() -> set[str]:
    """Returns the names of all modules in the archive, packages included."""
    graph = grimp.build_graph("glassformer", cache_dir=None)
    found: set[str] = set()
    new = {DESK} | {name for name in graph.modules if ".judges" in name or ".capstone" in name}
    while new:  # to import a module is to import its package, too
        name = new.pop()
        if f"{name}.".startswith(f"{WITHOUT}."):
            continue
        found.add(name)
        imported = graph.find_modules_directly_imported_by(name)
        new |= (imported | {name.rpartition(".")[0]} - {""}) - found
    return found


def files() -> list[Path]:
    """Returns the files in the archive, in order: the modules, and the texts beside them."""
    places = [SOURCES / name.replace(".", "/") for name in modules()]
    folders = {place for place in places if place.is_dir()}
    code = {place / "__init__.py" if place in folders else place.with_suffix(".py") for place in places}
    texts = {text for folder in folders for text in folder.glob("*.toml") if text.name not in UNREAD}
    return sorted(code | texts)


def loads() -> set[str]:
    """Returns the names of the data that judges load: shipped models, and the corpus."""
    return {name for exercise in exercises() for name in exercise.loads} | {*CAPSTONE_LOADS}


def package() -> bytes:
    """Returns the archive of what every judge needs."""
    return _archive(files())


def data(name: str) -> bytes:
    """Returns the archive of such data, which unpacks into the same folder."""
    assets = SOURCES / "glassformer" / "assets"
    if name == CORPUS:
        return _archive([assets / "tinyshakespeare.txt"])
    return _archive(sorted((assets / "models" / name).iterdir()))


def python() -> Path | None:
    """Returns the folder with Python for the practice pages, or None if there is none."""
    folder = Path(os.environ.get("GLASSFORMER_PYTHON") or pyodide.FOLDER)
    return folder if (folder / pyodide.NAME).is_file() else None


def _archive(packed: list[Path]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in packed:
            entry = tarfile.TarInfo(file.relative_to(SOURCES).as_posix())
            text = file.read_bytes()
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return gzip.compress(whole.getvalue(), mtime=0)


def place(app: Sphinx, error: Exception | None) -> None:
    """Puts the archive beside the pages of a site that was built."""
    if error is None:
        folder = Path(app.outdir) / "_static" / "practice"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "glassformer.tgz").write_bytes(package())
        for name in loads():
            (folder / f"{name}.tgz").write_bytes(data(name))
        if (placed := python()) is not None:
            place_python(placed, Path(app.outdir) / "_static" / "python")


def place_python(source: Path, site: Path) -> None:
    """Copies the files of Python's list, those of `PACKED` compressed, and a list that says so."""
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    listed = json.loads((source / pyodide.NAME).read_text(encoding="utf-8"))
    for file in listed["files"]:
        content = (source / file["name"]).read_bytes()
        if file["name"].endswith(PACKED):
            content = gzip.compress(content, mtime=0)
            file["packed"] = {"name": f"{file['name']}.gz", "bytes": len(content)}
        (site / file.get("packed", file)["name"]).write_bytes(content)
    (site / pyodide.NAME).write_text(json.dumps(listed), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the extension."""
    app.connect("build-finished", place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
