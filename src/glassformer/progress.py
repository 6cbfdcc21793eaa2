"""Shows the progress of a long computation."""

import io
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["A_MOMENT", "bar", "in_notebook", "on_terminal"]
__dir__ = __all__.copy

A_MOMENT = 2.0  # seconds before a bar appears where a result often comes sooner


NOT_SHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_terminal(text: str) -> str:
    r"""Returns a text that a terminal can show: control characters become visible, such as \x1b for an escape.

    A terminal obeys escape sequences, so a text that contains them could clear the screen or write to the clipboard.
    Line breaks and tabs remain; marks that reverse the direction of what follows do not.
    """
    return NOT_SHOWN.sub(lambda found: ascii(found[0])[1:-1], text)


def in_notebook() -> bool:
    """Returns whether this runs in a notebook's kernel, which has imported IPython."""
    imported = sys.modules.get("IPython")
    return imported is not None and hasattr(imported.get_ipython(), "kernel")


class _Nowhere(io.TextIOBase):
    """A file that forgets what is written. A bar that is disabled would also hide the lines printed above it."""

    def write(self, text: str) -> int:
        return len(text)


def bar(iterable: Iterable | None = None, **options: Any) -> "tqdm":
    """Iterates over something that takes more than ten seconds, showing a progress bar.

    Use it as `for seed in bar(range(3))`. The bar and its options are tqdm's. In a notebook, the bar appears among the
    printed lines and disappears when the loop ends, so it is not saved; print the results after the loop. Elsewhere it
    is on stderr, and only if that is a terminal: in the file of a log, it would be a line for every moment. With
    TQDM_DISABLE=1 in the environment there is no bar: the book's notebooks are executed that way.
    """
    from tqdm import tqdm

    here: dict[str, Any] = {}
    if in_notebook():
        here = {"file": sys.stdout, "leave": False}
    elif not sys.stderr.isatty():
        here = {"file": _Nowhere()}
    return tqdm(iterable, **here | options)
