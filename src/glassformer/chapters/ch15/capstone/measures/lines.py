"""Which lines of the reader's own run, and which arrays they hold meanwhile."""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

from glassformer.exercises.attempt import of_the_reader

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
        if not of_the_reader(frame.f_code.co_filename):
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
