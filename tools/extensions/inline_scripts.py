"""A Sphinx extension that leaves no script in a page's text, only in files.

A server may then forbid scripts of any other kind: `Content-Security-Policy: script-src 'self' 'wasm-unsafe-eval'`.
Sphinx and the theme write a few. Buttons that they add by script, so that nobody sees them without, become part of the
page, and a rule hides them where there is no JavaScript.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

from tools.extensions.built_pages import rewriting

WRITTEN = re.compile(r"<script>\s*document\.write\(`(.*?)`\);\s*</script>", re.DOTALL)
COLOURS = re.compile(r'<script data-cfasync="false">.*?</script>', re.DOTALL)  # now in book/site/colours.js
PAGE_NAME = re.compile(
    r"<script>DOCUMENTATION_OPTIONS\.pagename = '[^']*';</script>"
)  # nothing here reads it
FOCUS = re.compile(
    r"<script>\s*// Activate the search field on page load.*?</script>", re.DOTALL
)  # in search.js
PRINT = 'onclick="window.print()"'  # now in book/site/page.js

DATA = r'type="application/[^"]*json"'
INLINE = re.compile(rf"<script(?![^>]*(?:\bsrc=|{DATA}))|<[a-z][^>]*\son[a-z]+=\"", re.IGNORECASE)
HIDDEN = (
    "<noscript><style>.search-button, .search-button-field, .theme-switch-button"
    " { display: none !important; }</style></noscript>"
)


def strict(page: str) -> str:
    """Returns the text of a page without scripts in it.

    Raises:
        ValueError: there is one that this extension does not know.
    """
    page = WRITTEN.sub(r"\1", page)
    for known in (COLOURS, PAGE_NAME, FOCUS):
        page = known.sub("", page)
    page = page.replace(PRINT, "").replace("</head>", f"{HIDDEN}\n</head>", 1)
    if left := INLINE.search(page):
        raise ValueError(f"there is a script within a page: {page[left.start() : left.start() + 200]}")
    return page


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", rewriting(strict))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
