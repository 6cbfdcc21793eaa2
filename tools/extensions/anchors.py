"""A Sphinx extension that makes ordinary Markdown links work on the site as they do in JupyterLab.

Chapters use links such as ``[causal mask](../book/glossary.md#causal-mask)`` and
``[Press et al. 2022](../book/bibliography.md#press2022train)`` instead of Sphinx roles, which JupyterLab would show as
plain text. JupyterLab finds a heading by its words, and an ``id`` that is written in HTML. By default, MyST names
headings by a different rule and ignores such ids; this extension changes both. A link may also lead to an entry of the
package's page, as ``[load](api.md#glassformer.pretrained.load)``. A link to a missing target fails the build.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.addnodes import desc_signature
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ID = re.compile(r'\bid="([^"]+)"')


def slug(heading: str) -> str:
    """Turns ``causal mask`` into ``causal-mask`` by JupyterLab's rule, which only replaces spaces."""
    return heading.replace(" ", "-")


def add_ids(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Tells MyST, once all pages are read, which ids are written in HTML, and which the package's names have."""
    for page in sorted(env.found_docs):
        targets = env.metadata[page].setdefault("myst_slugs", {})
        document = env.get_doctree(page)
        found = [(name, raw) for raw in document.findall(nodes.raw) for name in ID.findall(raw.astext())]
        found += [(name, entry) for entry in document.findall(desc_signature) for name in entry["ids"]]
        for name, node in found:
            targets.setdefault(name, (node.line or 0, name, name))
    return []


def setup(app: Sphinx) -> dict:
    app.connect("env-updated", add_ids)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
