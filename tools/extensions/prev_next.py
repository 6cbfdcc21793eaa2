"""A Sphinx extension that makes *next* lead from chapter to chapter, past the practice of each.

In the table of contents, a practice is below its chapter, and Sphinx would go through both. A chapter leads to its
practice at its end. From there, *previous* leads back to the chapter, and *next* on to the chapter after it.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

PRACTICE = "notebooks/exercises/"


def neighbours(page: str, following: list[str]) -> tuple[str | None, str | None]:
    """Returns the pages before and after a page.

    Args:
        page: the page.
        following: all pages in the order of the table of contents, where a practice comes right after its chapter.
    """
    place = following.index(page)
    before, after = following[:place][::-1], following[place + 1 :]
    if page.startswith(PRACTICE):  # back to its chapter, which is the page before it
        return next(iter(before), None), _first_without(after)
    return _first_without(before), _first_without(after)


def _first_without(pages: list[str]) -> str | None:
    """Returns the first page that is no practice."""
    return next((page for page in pages if not page.startswith(PRACTICE)), None)


def set_neighbours(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Sets what the page's template shows, and its ``<link>`` elements name, as previous and next."""
    builder, relations = app.builder, app.env.collect_relations()
    if page not in relations or not isinstance(builder, StandaloneHTMLBuilder):
        return
    # The order of the contents: from the first page, each leads to the next.
    following, at = [app.config.root_doc], relations[app.config.root_doc][2]
    while at:
        following.append(at)
        at = relations[at][2]
    for name, other in zip(("prev", "next"), neighbours(page, following), strict=True):
        context[name] = other and {
            "link": builder.get_relative_uri(page, other),
            "title": builder.render_partial(app.env.titles[other])["title"],
        }


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", set_neighbours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
