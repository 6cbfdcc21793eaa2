"""Shows panels: below a notebook's cell, or wherever a page without a kernel puts them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import NamedTuple

from .panel import Panel, Table


class Shown(NamedTuple):
    """The two functions of a page that shows panels itself.

    `now` gets each panel. `late` gets the panel to show if the function that is being judged must be stopped from
    outside, because Python in a browser has no threads and cannot stop it itself.
    """

    now: Callable[[Panel | Table], None]
    late: Callable[[Panel], None]


_shown: ContextVar[Shown | None] = ContextVar("shown", default=None)


@contextlib.contextmanager
def shown_by(page: Shown) -> Iterator[None]:
    """Let a page show the panels of the `with` block."""
    token = _shown.set(page)
    try:
        yield
    finally:
        _shown.reset(token)


def display(panel: Panel | Table) -> None:
    """Show a panel below the cell. Only this needs IPython; judging does not."""
    page = _shown.get()
    if page is not None:
        page.now(panel)
        return
    from glassformer._checks.extras import IPython

    IPython.display.display(panel)


def one_by_one(names: Iterable[str]) -> Iterable[str]:
    """Returns names to iterate over, when each takes long: with a progress bar in a notebook, without one on a page."""
    if _shown.get() is not None:
        return names
    from glassformer.progress import bar

    return bar(names)


def display_if_late(panel: Panel) -> None:
    """Tell a page what to show if time runs out from now on; a notebook can tell by itself."""
    page = _shown.get()
    if page is not None:
        page.late(panel)
