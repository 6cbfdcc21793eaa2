"""A Sphinx extension: what ordinary Markdown links may point to, the same on the site as in JupyterLab.

Chapters link with ``[causal mask](../book/glossary.md#causal-mask)`` and
``[Press et al. 2022](../book/bibliography.md#press2022train)``, and not with Sphinx roles, which JupyterLab would
show as they are. JupyterLab finds a heading by its words, and an ``id`` that is written in HTML. MyST names headings
by another rule unless it is told this one, and knows nothing of such ids unless it is told them. A link to what does
not exist fails the build.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ID = re.compile(r'\bid="([^"]+)"')


def slug(heading: str) -> str:
    """``causal mask`` → ``causal-mask``: JupyterLab's rule, which leaves everything but blanks as it is."""
    return heading.replace(" ", "-")


def add_ids(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Tell MyST, once all pages are read, which ids are written in HTML."""
    for page in sorted(env.found_docs):
        targets = env.metadata[page].setdefault("myst_slugs", {})
        for raw in env.get_doctree(page).findall(nodes.raw):
            for name in ID.findall(raw.astext()):
                targets.setdefault(name, (raw.line or 0, name, name))
    return []


def setup(app: Sphinx) -> dict:
    app.connect("env-updated", add_ids)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
