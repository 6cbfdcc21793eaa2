"""A Sphinx extension that completes the Markdown of a page before it is read.

In a notebook, it fills in what the page says about JupyterLab, Binder, the repository and Python in the page.
tools/shared/where_to_run.py has the words, and tools/book.py gives the theme the repository's address, if there is one.
What only JupyterLab says of folded code is left out. On the pages in ``book/``, "chapter 11" becomes a link, as it is
in notebooks already: tools/notebooks.py makes it there, so that JupyterLab has it as well.
"""

from __future__ import annotations

import json

from sphinx.application import Sphinx

from tools.extensions import browser_package
from tools.notebooks import SHOW
from tools.shared import where_to_run
from tools.shared.chapter_links import linked


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Replaces what is marked in a notebook, and words of JupyterLab in its code; on other pages, adds links."""
    if page.startswith("book/"):
        source[0] = linked(source[0], lambda chapter: f"../notebooks/{chapter.name}.ipynb")
    if not app.env.doc2path(page).endswith(".ipynb"):
        return
    repository = app.config.html_theme_options.get("repository_url")
    has_python = browser_package.python() is not None
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source_of_cell = "".join(cell["source"])
            cell["source"] = where_to_run.on_page(
                source_of_cell, repository, f"{page}.ipynb", has_python=has_python
            )
        else:
            cell["source"] = "".join(cell["source"]).removeprefix(SHOW)
    source[0] = json.dumps(notebook)


def setup(app: Sphinx) -> dict:
    app.connect("source-read", complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
