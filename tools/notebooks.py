"""Execute each chapter's text into the notebook that readers open, if a change may affect its outputs.

    python tools/notebooks.py               execute what a change may affect
    python tools/notebooks.py --check       execute nothing; say what is out of date, and fail if anything is
    python tools/notebooks.py --force 04    execute every chapter with "04" in its path, changed or not

Each ``book/chapters/**/*.md`` (text in MyST notebook format) has a ``notebooks/**/*.ipynb`` with the same cells and
their outputs. ``book/freshness.txt`` lists what each was made from: its cells, and the files of the package that
they imported, opened and showed (``freshness.py`` has the rules). A notebook is executed again if any of that has
changed, and stored if its outputs differ. It is never executed if a reader has changed its cells, which are the
reader's work; ``metadata.glassformer`` says what they were.

Whatever a page of the site folds is folded in JupyterLab, too: the cells after a heading of the fourth level, up to the
next heading, and the code of cells tagged ``hide-input`` or ``hide-cell``. JupyterLab shows the first line of folded
code, so such code begins with one that says what a click does. The site leaves it out
(tools/extensions/source_read.py).

Outputs follow from the code. So if only the words of a text have changed, or somebody unfolds a notebook and saves it,
the notebook gets the words and folds of its text without being executed.

Executing the same text twice gives the same bytes: there are no timings and no versions, cell ids follow from the
source, and widget model ids follow from the cells' ids (widgets/kit/identity.py). It is stored as JupyterLab would
write it, so that opening and saving it changes nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import jupytext
import nbformat
from markdown_it import MarkdownIt
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for `python tools/notebooks.py`, which has only its own folder on its path

from glassformer.atomic_files import write_whole  # noqa: E402
from tools import freshness  # noqa: E402
from tools.book_pages import bibliography, claims, did_not_help, words  # noqa: E402
from tools.shared import chapter_facts, chapter_links  # noqa: E402

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
FOLD_LEVEL = 4  # of the headings that fold what follows them
# JupyterLab's own names in a cell's metadata: folded is what lies below its heading, or its code, or its outputs.
FOLDS = {"jp-MarkdownHeadingCollapsed", "jupyter"}
FOLDED_BY_TAG: dict[str, dict] = {
    "hide-input": {"jupyter": {"source_hidden": True}},
    "hide-cell": {"jupyter": {"source_hidden": True, "outputs_hidden": True}, "collapsed": True},
}
SHOW = "# Show the code\n"
# What JupyterLab writes into a cell's metadata when it is run, scrolled or folded: nobody's text.
PASSING_METADATA = {"execution", "scrolled", "collapsed", "trusted"} | FOLDS
CELL_TIME_LIMIT = 300  # seconds


def pairs(root: Path = ROOT) -> list[tuple[Path, Path]]:
    """Yields every text and its notebook, whether or not that notebook exists yet."""
    texts = root / "book" / "chapters"
    notebooks = root / "notebooks"
    return [
        (text, (notebooks / text.relative_to(texts)).with_suffix(".ipynb"))
        for text in sorted(texts.rglob("*.md"))
    ]


def read_text(text: Path) -> NotebookNode:
    """Returns the notebook of a text, with its facts and links to chapters, without outputs.

    A cell's id follows from its source.

    Raises:
        UnknownFactError: the text names a fact that is not known.
    """
    notebook = jupytext.reads(chapter_facts.text(text), fmt="md:myst")
    address = chapter_links.from_notebook(place(text))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = chapter_links.linked(cell.source, address)
    notebook.cells = list(folded(notebook.cells))
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        seen[digest] += 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        if "jupyter" in cell.metadata:
            cell.source = SHOW + cell.source
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {
                "file_extension": ".py",
                "mimetype": "text/x-python",
                "name": "python",
                "pygments_lexer": "ipython3",
            },
        }
    )
    return notebook


def place(text: Path) -> PurePosixPath:
    """Returns the path of a text in its folder ``chapters``, which is that of its notebook in ``notebooks``."""
    folder = next((above for above in text.parents if above.name == "chapters"), text.parent)
    return PurePosixPath(text.relative_to(folder).as_posix())


def folded(cells: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Returns the cells with JupyterLab's marks for folding, split where a fold begins or ends.

    JupyterLab folds whole cells: all those below one that begins with a heading, up to the next that does. So the
    heading gets a cell of its own, and what is inside never shares a cell with what comes after.
    """
    inside = False  # a fold
    for cell in cells:
        for tag in FOLDED_BY_TAG.keys() & set(cell.metadata.get("tags", [])):
            cell.metadata |= FOLDED_BY_TAG[tag]
        if cell.cell_type != "markdown":
            yield cell
            continue
        lines, cuts, heads = cell.source.split("\n"), {0}, set()
        for token in MarkdownIt().parse(cell.source):
            if token.type != "heading_open" or token.level > 0 or not token.map:
                continue
            first, end = token.map
            level = int(token.tag[1:])
            if level == FOLD_LEVEL:
                heads.add(first)
                cuts |= {first, end}
            elif inside and level < FOLD_LEVEL:
                cuts.add(first)
            inside = level == FOLD_LEVEL or (inside and level > FOLD_LEVEL)
        for first, end in pairwise([*sorted(cuts), len(lines)]):
            if source := "\n".join(lines[first:end]).strip("\n"):
                mark = {"jp-MarkdownHeadingCollapsed": True} if first in heads else {}
                yield nbformat.v4.new_markdown_cell(source, metadata=cell.metadata | mark)


def folds(notebook: NotebookNode) -> list[dict]:
    """Returns what is folded, cell by cell."""
    return [{key: cell.metadata[key] for key in FOLDS & cell.metadata.keys()} for cell in notebook.cells]


def reword(text: Path, notebook: Path) -> None:
    """Gives a stored notebook the words and folds of its text, and keeps its outputs. Both have the same code."""
    fresh, stored = read_text(text), nbformat.read(notebook, as_version=4)
    for cell, ran in zip(code_cells(fresh), code_cells(stored), strict=True):
        cell.execution_count, cell.outputs = ran.execution_count, ran.outputs
    fresh.metadata = stored.metadata
    fresh.metadata["glassformer"] = {"cells": cells_fingerprint(fresh)}
    write_atomically(fresh, notebook)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Returns the cells that have outputs."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def bare_cells(notebook: NotebookNode, *, code: bool = False) -> list[dict]:
    """Returns what an author wrote: the kind, source and metadata of each cell, without outputs, counts and ids.

    With `code`, it returns this for the cells that have outputs only.
    """
    return [
        {
            "cell_type": cell.cell_type,
            "source": cell.source,
            "metadata": {key: cell.metadata[key] for key in cell.metadata if key not in PASSING_METADATA},
        }
        for cell in (code_cells(notebook) if code else notebook.cells)
    ]


def cells_fingerprint(notebook: NotebookNode) -> str:
    """Returns a hash that changes if, and only if, somebody changes a cell."""
    return hashlib.sha256(json.dumps(bare_cells(notebook), sort_keys=True).encode()).hexdigest()


def package_of(root: Path) -> Path:
    """Returns the folder of the package that the notebooks of a project use."""
    return root / "src" / "glassformer"


def code_in(notebook: NotebookNode) -> str:
    """Returns the code of all cells."""
    return "\n".join(cell.source for cell in code_cells(notebook))


def condition(text: Path, notebook: Path, root: Path = ROOT) -> str:
    """Returns a notebook's state: fresh, missing, edited, text changed, or what else has changed.

    "words changed" and "folded differently" mean that all its outputs are still right: no code has changed.
    """
    written = read_text(text)
    if not notebook.exists():
        return "missing"
    stored = nbformat.read(notebook, as_version=4)
    made_from = stored.metadata.get("glassformer", {})
    now = cells_fingerprint(written)
    if cells_fingerprint(stored) not in (made_from.get("cells"), now):
        return "edited"
    reworded = made_from.get("cells") != now
    if reworded and bare_cells(stored, code=True) != bare_cells(written, code=True):
        return "text changed"
    uses = freshness.recorded(root).get(notebook.relative_to(root).as_posix(), [])
    if len(uses) != 1:
        return "executed in two branches, and not since they met" if uses else "not executed yet"
    gave = freshness.outputs(stored)
    if changed := freshness.changed(package_of(root), uses[0], code_in(written), gave):
        return ", ".join(changed[:3] + ["…"] * (len(changed) > 3)) + " changed"
    if reworded:
        return "words changed"
    return "fresh" if folds(stored) == folds(written) else "folded differently"


def execute(text: Path, notebook: Path, root: Path = ROOT) -> None:
    """Runs a text in its notebook's folder and stores the result, if its outputs or its cells differ.

    If it fails, the stored notebook stays as it was.
    """
    fresh = read_text(text)
    notebook.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        uses = Path(scratch) / "uses.txt"
        environment = (
            os.environ
            | {
                # What the author has solved and set must not show in the outputs that readers start from.
                "GLASSFORMER_PROGRESS": str(Path(scratch) / "progress.json"),
                "GLASSFORMER_MINE": str(Path(scratch) / "my_transformer.py"),
                "IPYTHONDIR": str(Path(scratch) / "ipython"),
                "TQDM_DISABLE": "1",  # a bar is for whoever waits
            }
            | freshness.listening(package_of(root), uses)
        )
        client = NotebookClient(
            fresh,
            timeout=CELL_TIME_LIMIT,
            resources={"metadata": {"path": str(notebook.parent)}},
            # Without what error_hints.py adds to errors, and what it is made from.
            extra_arguments=["--log-level=ERROR", "--IPKernelApp.extra_extensions=[]"],
            store_widget_state=True,
            coalesce_streams=True,
            record_timing=False,
        )

        def name(cell: NotebookNode, **_: object) -> None:
            """Tells the kernel which cell it is, as JupyterLab does."""
            assert client.kc is not None
            client.kc.session.metadata.update(cellId=cell.id)

        client.on_cell_start = name
        began = time.time()
        client.execute(env=environment)
        used = freshness.heard(package_of(root), uses, code_in(fresh), began)
    fresh.metadata.language_info.pop("version", None)
    fresh.metadata["glassformer"] = {"cells": cells_fingerprint(fresh)}
    nbformat.validate(fresh)
    used["outputs"] = freshness.outputs(nbformat.reads(as_stored(fresh), as_version=4))
    if notebook.exists() and freshness.outputs(nbformat.read(notebook, as_version=4)) == used["outputs"]:
        reword(text, notebook)
    else:
        write_atomically(fresh, notebook)
    freshness.record(root, notebook.relative_to(root).as_posix(), used)


def as_javascript(value: Any) -> Any:
    """Returns what JSON becomes when JupyterLab has read it and its server has written it: 1.0 is 1, -0.0 is 0."""
    if isinstance(value, dict):
        return {key: as_javascript(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_javascript(one) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    number = float(value)
    # JavaScript writes integers up to 21 digits without an exponent, with as many digits as it takes and then zeros.
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number


def as_stored(notebook: NotebookNode) -> str:
    """Returns the content of a notebook's file."""
    return nbformat.writes(nbformat.from_dict(as_javascript(notebook))).rstrip("\n") + "\n"


def write_atomically(notebook: NotebookNode, path: Path) -> None:
    """Writes a notebook's file if it differs; a crash leaves either the old one or the new one."""
    content = as_stored(notebook).encode()
    if not (path.exists() and path.read_bytes() == content):
        write_whole(path, content)


def shows_only_pictures(cell: NotebookNode) -> bool:
    """Returns whether a cell's outputs are only pictures and widgets."""

    def picture(output: NotebookNode) -> bool:
        data = output.get("data", {})
        html = "".join(data.get("text/html", ""))
        return WIDGET_VIEW in data or "<svg" in html or any(kind.startswith("image/") for kind in data)

    return all(picture(output) for output in cell.outputs)


def exactness(folder: Path) -> tuple[int, int]:
    """Counts the code cells that show more than pictures and widgets: those nbval compares, and all of them."""
    cells = [
        cell
        for path in sorted(folder.rglob("*.ipynb"))
        if ".ipynb_checkpoints" not in path.parts
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and not shows_only_pictures(cell)
    ]
    compared = [cell for cell in cells if "nbval-ignore-output" not in cell.metadata.get("tags", [])]
    return len(compared), len(cells)


MADE = {  # pages that are made, each of what
    "bibliography.md": ("references.bib", lambda file, root: bibliography.page(file)),
    "claims.md": (
        "claims.toml",
        lambda file, root: claims.page(file, root / "notebooks", file.parent / "references.bib"),
    ),
    "did-not-help.md": ("did-not-help.toml", lambda file, root: did_not_help.page(file, root / "notebooks")),
    "words.md": ("words.toml", lambda file, root: words.page(file, root / "notebooks")),
    # Their imports take seconds, so they are done only here.
    "pitfalls.md": (
        "../src/glassformer/bugs/gallery.toml",
        lambda file, root: import_module("tools.book_pages.pitfalls").page(file),
    ),
    "opening.md": (
        "opening.toml",
        lambda file, root: import_module("tools.book_pages.opening").page(file),
    ),
    "again.md": ("again.json", lambda file, root: import_module("tools.again").page_of(file)),
}


def renew(name: str, root: Path, *, check: bool) -> bool:
    """Writes one of the pages in `MADE` if it is stale, and returns whether it still is."""
    source, make = MADE[name]
    page = root / "book" / name
    try:
        written = make(page.parent / source, root)
    except ValueError as error:
        print(f"book/{name}: {error}", file=sys.stderr)
        return True
    fresh = page.exists() and page.read_text(encoding="utf-8") == written
    if not (fresh or check):
        page.write_text(written, encoding="utf-8", newline="\n")
    print(
        f"book/{name}: {'fresh' if fresh else f'{Path(source).name} or something it depends on has changed'}"
    )
    return check and not fresh


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters that a change may affect.")
    parser.add_argument(
        "only", nargs="*", help="only chapters whose path contains one of these (default: all)"
    )
    parser.add_argument("--check", action="store_true", help="execute nothing; fail if anything is stale")
    parser.add_argument("--force", action="store_true", help="execute everything, stale or not")
    options = parser.parse_args(arguments)

    failed = False
    for text, notebook in pairs(root):
        name = notebook.relative_to(root).as_posix()
        if options.only and not any(part in name for part in options.only):
            continue
        try:
            found = condition(text, notebook, root)
        except chapter_facts.UnknownFactError as error:
            failed = True
            print(f"{name}: not executed. {error}", file=sys.stderr)
            continue
        if found == "edited":
            failed = True
            print(
                f"{name}: left unchanged, because somebody has edited it. Its cells are neither those of"
                f" {text.relative_to(root).as_posix()} nor those that it was made from. Move the changes into the"
                " text, or delete the notebook; then run this again.",
                file=sys.stderr,
            )
        elif options.check:
            failed |= found != "fresh"
            print(f"{name}: {found}")
        elif found == "fresh" and not options.force:
            print(f"{name}: fresh")
        elif found in ("words changed", "folded differently") and not options.force:
            print(f"{name}: {found}, storing them with the same outputs …")
            reword(text, notebook)
        else:
            print(f"{name}: {found}, executing …", flush=True)
            try:
                execute(text, notebook, root)
            except CellExecutionError as error:
                failed = True
                print(f"{name}: not stored, because a cell failed.\n{error}", file=sys.stderr)
    if not options.only:
        for name, (source, _) in MADE.items():
            if (root / "book" / source).exists():
                failed |= renew(name, root, check=options.check)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
