"""Says how a reader gets to run the code: the words about JupyterLab, Binder, the repository and Python in the page.

A text names a placeholder (tools/shared/chapter_facts.py). Notebooks are made before anybody knows where the project is
published. So what they contain is true in every copy of the project, and is marked by HTML that nobody sees. When the
site is built, tools/extensions/source_read.py replaces what is marked: by links if tools/book.py knows the repository,
otherwise by words that promise nothing. Readers of a site that has Python for its practice pages are told so; others
are not.

Binder starts a copy of the repository, with the package and everything that it needs. Colab has neither the package nor
the other pages of the book. Only a published site on GitHub leads there, to copies of the notebooks that install the
package first (tools/colab.py).
"""

from __future__ import annotations

import re
from urllib.parse import quote

from glassformer import contents
from tools import colab

BINDER = "https://mybinder.org"
BRANCH = "main"

NOTEBOOKS = (
    "**In JupyterLab**, every chapter is a notebook. You can run the code, change it and break it, and the exercises"
    " tell you whether your answers are right."
)
IN_A_COPY = (
    "To open the notebooks on your own computer, type `make lab` in a copy of the project, or `python tools/lab.py`"
    " where there is no make. If you are using Binder, it forgets your work when the session ends, so download what you"
    " want to keep."
)
ON_A_SITE_BUILT_FROM_A_COPY = (
    "The notebooks belong to the copy of the project from which these pages were built. If you have that copy, type"
    " `make lab` in its folder, or `python tools/lab.py` where there is no make. If you are only visiting these pages,"
    " you can simply read on."
)
ON_A_PUBLISHED_SITE = (
    "[Open this page on Binder]({binder}) to use JupyterLab in your browser without installing anything; the rocket at"
    " the top of every chapter does the same for that chapter. Binder takes a few minutes to start the first time, and"
    " it forgets your work when the session ends, so download what you want to keep. To use your own computer instead,"
    " get a copy of [the repository]({repository}) and type `make lab` in its folder, or"
    " `python tools/lab.py` where there is no make, as on Windows."
)
ON_COLAB = (
    " With a Google account, you can also [open it on Colab]({colab}), which starts faster. Its first cell installs the"
    " book's package; links to other pages do not work there."
)

BY_HAND = "open the notebook in JupyterLab, which `make lab` starts in a copy of the project"
PRACTISE = (
    "**Practise here, now:** [the practice page]({practice}) runs Python in your browser, so there is nothing to "
    "install."
)
PRACTISE_ELSEWHERE = (
    "This copy of the book has no Python for [its practice page]({practice}), which has hints and answers. To have your"
    " code checked, {how}."
)
PRACTICES = "The practice pages, in the last column below, run Python in your browser, so there is nothing to install."

HERE = "<!-- practise here -->"
BLOCK = "<!-- where to run -->\n\n{}\n\n<!-- / -->"
NAME = '<span class="to-jupyterlab">{}</span>'
MARKED = re.compile(
    rf"{BLOCK.replace('{}', '(?P<block>.+?)')}|{NAME.replace('{}', '(?P<name>.+?)')}|(?P<here>{HERE})",
    re.DOTALL,
)


def in_notebook() -> str:
    """Returns the marked paragraph of ``{{ where to run }}`` as notebooks contain it."""
    return BLOCK.format(f"{NOTEBOOKS} {IN_A_COPY}")


def name_in_notebook() -> str:
    """Returns the marked word of ``{{ JupyterLab }}`` as notebooks contain it."""
    return NAME.format("JupyterLab")


def on_page(markdown: str, repository: str | None, page: str, *, has_python: bool) -> str:
    """Returns the Markdown of a page of the site, with everything that is marked replaced.

    Args:
        markdown: the text of the page, or of one of its cells.
        repository: the address of the repository, without a final slash, or None if the project is not published.
        page: the page's notebook, such as ``notebooks/04-putting-order-in.ipynb``.
        has_python: whether the site has Python for its practice pages.
    """

    def words(found: re.Match[str]) -> str:
        address = binder(repository, page) if repository else None
        if found["here"]:
            return _practise(page, repository, has_python=has_python)
        if found["name"]:
            return f"[{found['name']}]({address})" if address else found["name"]
        if address is None:
            return f"{NOTEBOOKS} {ON_A_SITE_BUILT_FROM_A_COPY}"
        said = f"{NOTEBOOKS} {ON_A_PUBLISHED_SITE.format(binder=address, repository=repository)}"
        on_github = repository is not None and repository.startswith(colab.HOST)
        return said + ON_COLAB.format(colab=colab.address(repository, page)) if on_github else said

    return MARKED.sub(words, markdown)


def _practise(page: str, repository: str | None, *, has_python: bool) -> str:
    folder, _, notebook = page.rpartition("/")
    if notebook == "index.ipynb":
        return PRACTICES if has_python else ""
    practice = f"{contents.chapter(notebook[:2]).practice_name}.ipynb"
    if has_python:
        return PRACTISE.format(practice=practice)
    on_binder = (
        f"[open it on Binder]({binder(repository, f'{folder}/{practice}')}), or " if repository else ""
    )
    return PRACTISE_ELSEWHERE.format(practice=practice, how=on_binder + BY_HAND)


def binder(repository: str, page: str) -> str:
    """Returns the address that opens a notebook of the repository in JupyterLab on Binder.

    The theme's button has the same address.
    """
    host, _, name = repository.removeprefix("https://").partition("/")
    place = {"github.com": f"gh/{name}", "gitlab.com": f"gl/{name.replace('/', '%2F')}"}.get(
        host, f"git/{quote(repository, safe='')}"
    )
    return f"{BINDER}/v2/{place}/{BRANCH}?urlpath=lab/tree/{page}"
