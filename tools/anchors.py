"""A Sphinx extension: glossary terms and bibliography entries as targets of ordinary Markdown links.

Chapters link with ``[causal mask](../book/glossary.md#causal-mask)`` and
``[Press et al., 2022](../book/bibliography.md#press2022train)``, which any Markdown reader understands, and
not with Sphinx roles, which JupyterLab would show as they are. MyST resolves such links among headings; this
adds the terms and the entries, so that they are found, and a link to one that does not exist fails the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import glossary
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def slug(term: str) -> str:
    """``Causal mask`` → ``causal-mask``: the rule by which MyST names headings."""
    return "-".join(term.lower().split())


def add_targets(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Tell MyST, once all pages are read, where each term and each entry is."""
    for page in sorted(env.found_docs):
        targets = env.metadata[page].setdefault("myst_slugs", {})
        for terms in env.get_doctree(page).findall(glossary):
            for term in terms.findall(nodes.term):
                targets[slug(term.astext())] = (term.line or 0, term["ids"][0], term.astext())
    cite: Any = env.get_domain("cite")  # sphinxcontrib-bibtex's
    for citation in cite.citations:
        targets = env.metadata[citation.bibliography_key.docname].setdefault("myst_slugs", {})
        targets[citation.key] = (0, citation.citation_id, citation.key)
    return []


def setup(app: Sphinx) -> dict:
    app.connect("env-updated", add_targets, priority=900)  # after sphinxcontrib-bibtex has gathered its own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
