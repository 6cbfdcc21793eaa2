"""Small sites for tests: a book of one page, and a page of views, both made as the real ones are."""

import json
import shutil

import pytest
from ipywidgets import embed

from tools import book
from tools.extensions.model_weights import write_models

FRAME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Views</title>
<link rel="icon" href="data:,">
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
<script src="_static/widget-host.js"></script>{views}</html>"""
PLACE = '<div{}><script type="application/vnd.jupyter.widget-view+json">{}</script></div>'  # attributes, and the view


def build(root, write, page="page"):
    """Builds a book of one page with the book's own settings, style and scripts; returns the folder of its site.

    Args:
        root: an empty folder.
        write: writes that page, `page.md` or `page.ipynb`, into the folder.
        page: the name of the page, with folders and without what its file's name ends with.
    """
    for name in ("book", "tools", "_config.yml"):
        (root / name).symlink_to(book.ROOT / name)
    (root / "_toc.yml").write_text(f"format: jb-book\nroot: {page}\n", encoding="utf-8")
    write(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(book, "ROOT", root)
        return book.build(root, quiet=True)


def write_views(path, views, *, attributes=""):
    """Writes a page of views, and beside it what the built book has for them: their host and all models' weights."""
    (path.parent / "_static").mkdir()
    shutil.copy(book.ROOT / "book" / "site" / "widget-host.js", path.parent / "_static")
    write_models(path.parent / "_static" / "models")
    data = embed.embed_data(views=views, state=embed.dependency_state(views, drop_defaults=False))
    page = FRAME.format(
        state=json.dumps(data["manager_state"]).replace("</", "<\\/"),
        views="".join(PLACE.format(attributes, json.dumps(spec)) for spec in data["view_specs"]),
    )
    path.write_text(page, encoding="utf-8")
