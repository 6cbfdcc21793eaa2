"""Shows the progress of a long computation."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


def bar(iterable: Iterable | None = None, **options: Any) -> "tqdm":
    """Goes through something and shows how far it is, for what takes more than ten seconds.

    `for seed in bar(range(3))`: it is tqdm's bar, and so are the options. In a notebook it stands among the printed
    lines and goes when the loop ends, so that nothing of it is saved; print what was found after the loop. With
    TQDM_DISABLE=1 in the environment there is none, as where the book's notebooks are executed to be stored.
    """
    from IPython import get_ipython
    from tqdm import tqdm

    here: dict[str, Any] = {"file": sys.stdout, "leave": False} if hasattr(get_ipython(), "kernel") else {}
    return tqdm(iterable, **here | options)
