"""A Sphinx extension that leaves out the rules of the theme's stylesheets which no page of this book can need.

Three quarters of Bootstrap are about things that are not in the book. A rule stays unless each of its selectors has a
class or an id that is a word neither in a page nor in a script of the site, so scripts may still add what they know of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby, pairwise
from pathlib import Path

import tinycss2
from sphinx.application import Sphinx

from tools.extensions import built_pages

SHEETS = (
    "styles/bootstrap.css",
    "styles/pydata-sphinx-theme.css",
    "styles/sphinx-book-theme.css",
    "mystnb.*.css",
)
WORD = re.compile(r"[A-Za-z][\w-]*")


def lean(sheet: str, words: set[str]) -> str:
    """Returns a stylesheet without the rules that need a class or an id which is not among these words."""
    return "".join(_kept(tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True), words))


def _kept(rules: Iterable, words: set[str]) -> Iterable[str]:
    for rule in rules:
        if rule.type == "qualified-rule":
            needed = [selector for selector, names in selectors_of(rule.prelude) if names <= words]
            if needed:
                yield f"{','.join(needed)}{{{tinycss2.serialize(rule.content)}}}"
        elif (
            rule.type == "at-rule"
            and rule.lower_at_keyword in ("media", "supports")
            and rule.content is not None
        ):
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            if text := "".join(_kept(inner, words)):
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{text}}}"
        else:
            yield rule.serialize()


def selectors_of(prelude: list) -> Iterable[tuple[str, set[str]]]:
    """Yields the selectors of a rule, which commas separate, and the classes and ids that each needs.

    What is within parentheses, as in :not(…) and :is(…), need not exist; tinycss2 has it in a token of its own.
    """
    for is_comma, some in groupby(prelude, lambda token: token == ","):
        if not is_comma:
            tokens = list(some)
            classes = {name.value for dot, name in pairwise(tokens) if dot == "." and name.type == "ident"}
            ids = {token.value for token in tokens if token.type == "hash"}
            yield tinycss2.serialize(tokens).strip(), classes | ids


def words_of(site: Path) -> set[str]:
    """Returns all words of the pages and of the scripts of a site, classes and ids among them."""
    found: set[str] = set()
    scripts = [
        *site.glob("_static/*.js"),
        *site.glob("_static/scripts/*.js"),
        *site.glob("_static/practice/*.*js"),
    ]
    for file in [*built_pages.pages(site), *scripts]:
        found.update(WORD.findall(file.read_text("utf-8")))
    for file in site.glob("_static/code/*.js"):
        if not file.name.endswith(".disk.js"):
            found.update(WORD.findall(file.read_text("utf-8")))
    return found


def write(app: Sphinx, exception: Exception | None) -> None:
    """Rewrites the stylesheets once the pages exist."""
    if exception is None and app.builder.format == "html":
        site = Path(app.outdir)
        words = words_of(site)
        for sheet in (file for name in SHEETS for file in (site / "_static").glob(name)):
            sheet.write_text(lean(sheet.read_text("utf-8"), words), encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", write, priority=900)  # when all pages have their final text
    return {"parallel_read_safe": True, "parallel_write_safe": True}
