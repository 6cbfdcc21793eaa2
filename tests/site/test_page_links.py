"""Tests that the links in a figure lead to pages of the site."""

import pytest
from docutils import nodes
from docutils.utils import new_document

from tools.extensions import figure_links


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('<a href="04-putting-order-in.ipynb">', '<a href="04-putting-order-in.html">'),
        ('<a class="x" href="../a.ipynb#rope" title="t">', '<a class="x" href="../a.html#rope" title="t">'),
        ('<a href="https://example.org/a.ipynb">', '<a href="https://example.org/a.ipynb">'),
        ('<p>Open a.ipynb</p><a href="a.md">', '<p>Open a.ipynb</p><a href="a.md">'),
        ('<a href="a.ipynb.zip">', '<a href="a.ipynb.zip">'),
    ],
)
def test_a_link_to_a_notebook_leads_to_its_page(written, read):
    assert figure_links.to_pages(written) == read
    document = new_document("page")
    document += [nodes.raw("", written, format="html"), nodes.raw("", written, format="latex")]
    figure_links.lead_to_pages(None, document)
    assert [raw.astext() for raw in document.findall(nodes.raw)] == [read, written]
