"""Gives a view the same model id whenever its cell is run, so that stored outputs and stored states fit together.

An output of a notebook only names a model, and JupyterLab, unless it is told to, stores no states when it saves. With
random ids, the outputs of cells that were run would name models of which the notebook knows nothing.
"""

import hashlib
import re
import sys
from collections import Counter
from weakref import WeakValueDictionary

import ipywidgets
from IPython.core.getipython import get_ipython

_CELL_ID = re.compile(r"[\w-]{1,64}", re.ASCII)  # a notebook's; some editors send an address of their own
_made: Counter[tuple[str, ...]] = Counter()
_holders: WeakValueDictionary[str, "Stable"] = WeakValueDictionary()


def model_id(*parts: str) -> str:
    """Returns 32 hexadecimal digits that follow from `parts`."""
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


def of_cell(kind: str) -> str | None:
    """Returns the id of the next model of a kind that the running cell makes, or None if no cell is running.

    It follows from the cell's id, the kind, and how many of this kind the cell has made in this run. If an editor does
    not say which cell it is, that is the cell to which tools/notebooks.py would give this code. Colab shows each run
    in a page of its own, which knows no earlier models, and gets random ids.
    """
    if "google.colab" in sys.modules:
        return None
    parent = getattr(getattr(get_ipython(), "kernel", None), "get_parent", dict)() or {}
    code = parent.get("content", {}).get("code")
    if not isinstance(code, str):
        return None
    cell = parent.get("metadata", {}).get("cellId")
    if not (isinstance(cell, str) and _CELL_ID.fullmatch(cell)):
        cell = model_id("code", code)[:8]
    run = (parent["header"]["msg_id"], kind)
    _made[run] += 1
    return model_id(cell, kind, str(_made[run]))


class Stable(ipywidgets.Widget):
    """A widget whose model id follows from its cell. If the cell is run again, the new widget takes over its views."""

    def _identity(self) -> str | None:
        """Returns the model's id, or None for a random one."""
        return of_cell(type(self).__name__)

    def open(self) -> None:
        """Connects the widget to its views, which may so far have been those of another with the same id."""
        if self.comm is not None:
            return
        self._model_id = self._model_id or self._identity()
        before = _holders.get(self._model_id or "")
        if before is None or before.comm is None:
            super().open()
        else:  # closing it would empty the outputs of other cells that show it
            comm, before.comm, before._model_id = before.comm, None, None
            self.comm = comm
            self.send_state()
        _holders[self.model_id] = self

    @property
    def model_id(self) -> str:
        """The model's id. One whose views another widget has taken over gets a new one when it is shown again."""
        self.open()
        return self.comm.comm_id


class Layout(Stable, ipywidgets.Layout):
    """The layout of a view."""
