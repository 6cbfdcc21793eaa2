"""Shows the progress of a long computation."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

A_MOMENT = 2.0  # seconds before a bar appears where a result often comes sooner


def bar(iterable: Iterable | None = None, **options: Any) -> "tqdm":
    """Iterates over something that takes more than ten seconds, showing a progress bar.

    Use it as `for seed in bar(range(3))`. The bar and its options are tqdm's. In a notebook, the bar appears among the
    printed lines and disappears when the loop ends, so it is not saved; print the results after the loop. With
    TQDM_DISABLE=1 in the environment there is no bar: the book's notebooks are executed that way.
    """
    from IPython import get_ipython
    from tqdm import tqdm

    here: dict[str, Any] = {"file": sys.stdout, "leave": False} if hasattr(get_ipython(), "kernel") else {}
    return tqdm(iterable, **here | options)
