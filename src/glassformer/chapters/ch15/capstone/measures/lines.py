"""Which lines of the reader's own run, and which arrays they hold meanwhile."""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Line = tuple[str, int]
Look = Callable[[Any], None]


def settle() -> None:
    """Takes back an exception that a thread which was stopped may have left behind in the interpreter.

    In Python 3.11 a line that is traced begins anew for as long as that exception waits, which is for ever if no
    thread is left to raise it. Raised here, it is gone.
    """

    class Waits(Exception):  # noqa: N818 - no fault
        pass

    with contextlib.suppress(Waits):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Waits)
        )
        for _ in range(1000):
            pass


def lines_of(run: Callable[[], Any], look: Look | None = None) -> set[Line]:
    """Runs something and returns the lines of the reader's own that ran; `look` is shown each frame at each of them."""
    seen: set[Line] = set()

    def follow(frame: Any, event: str, _: Any) -> Any:
        if not _of_the_reader(frame.f_code.co_filename):
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        if look is not None and event in ("line", "return"):
            look(frame)
        return follow

    settle()
    before = sys.gettrace()
    sys.settrace(follow)
    try:
        run()
    finally:
        sys.settrace(before)
    return seen


_LIBRARIES = tuple(
    str(Path(getattr(sys.modules[name], "__file__", "")).resolve().parent)
    for name in ("glassformer", "numpy", "os")
)
_CELLS = ("<ipython", "<capstone>")  # cells in a terminal, and the field on a practice page


def _of_the_reader(file: str) -> bool:
    """Returns whether a file is a cell or a file of the reader's, not a library's."""
    if "site-packages" in file or file.startswith(_LIBRARIES):
        return False
    return not file.startswith("<") or file.startswith(_CELLS)
