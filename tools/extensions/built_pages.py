"""The pages of a finished site, for the extensions that change their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sphinx.application import Sphinx


def pages(site: Path) -> Iterator[Path]:
    """Yields the files of all pages of a site."""
    return (page for page in site.rglob("*.html") if "_static" not in page.parts)


def rewrite(site: Path, change: Callable[[str], str]) -> None:
    """Replaces the text of every page by what `change` makes of it."""
    for page in pages(site):
        page.write_text(change(page.read_text("utf-8")), encoding="utf-8", newline="\n")


def rewriting(change: Callable[[str], str]) -> Callable[[Sphinx, Exception | None], None]:
    """Returns what Sphinx is to do when a site is finished: `rewrite` it."""

    def when_finished(app: Sphinx, exception: Exception | None) -> None:
        if exception is None and app.builder.format == "html":
            rewrite(Path(app.outdir), change)

    return when_finished
