"""Tests, in a browser, that the tables of the pages for looking up are cut off nowhere."""

import pytest

PAGES = ("reference", "notation", "claims", "models", "parity", "again", "pitfalls")

# Of each table: by how much it is wider than its own box, and by how much that box is wider than the text's column.
WIDTHS = """() => [...document.querySelectorAll("article table")].map((table) => {
  const scrolls = (box) => ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
  const column = table.closest("section").getBoundingClientRect().right;
  let box = table.parentElement;
  while (box !== document.body && !scrolls(box)) box = box.parentElement;
  const own = box !== document.body;
  const right = (own ? box : table).getBoundingClientRect().right;
  return { own, hidden: own ? box.scrollWidth - box.clientWidth : 0, outside: right - column };
})"""


@pytest.mark.parametrize("name", PAGES)
def test_a_table_that_is_wider_than_its_page_has_a_box_to_scroll_it_in(visit, name):
    page = visit(f"book/{name}.html").page
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        tables = page.evaluate(WIDTHS)
        assert name == "claims" or tables
        assert [table for table in tables if table["outside"] > 1] == []
        if name == "reference":  # which fits without scrolling
            assert [table for table in tables if table["hidden"] > 1] == []
