"""Run a function for so many seconds and no longer, on any system, from the main thread of a notebook."""

import _thread
import contextlib
import ctypes
import functools
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Calls in a thread use the stack that the thread was given: 0.5 MB on macOS, where a deep recursion would end
# the process before Python's own limit stops it. This holds that limit, 1000 calls, many times over.
STACK_BYTES = 64 * 2**20

GRACE = 1.0  # seconds in which a function that is out of time may be stopped
IMPORTS = 120.0  # seconds that imports may take besides: importing PyTorch for the first time takes many


class OutOfTime(Exception):  # noqa: N818 - an event, not a fault of ours
    """The function did not finish in time. `stopped` says whether it could be ended."""

    def __init__(self, *, stopped: bool) -> None:
        super().__init__("out of time")
        self.stopped = stopped


class Stop(SystemExit):
    """Raised inside the thread to end it; a `SystemExit`, which a thread may die of in silence."""


def call_within(seconds: float, work: Callable[[], Any]) -> Any:
    """Return what `work()` returns, or raise `OutOfTime` after `seconds`.

    Signals (`signal.alarm`) do not exist on Windows, and a second process cannot be handed a function that
    was typed into a notebook. So `work` runs in a thread, and when time is up `Stop` is raised inside it.
    `work` must let `Stop` pass, and raise nothing else.

    While a module is being imported, the clock stands still and nothing is raised: a library that was stopped
    half-way, such as PyTorch, is not imported again by a second try, and may take the kernel down with it.

    Python delivers that exception between two of its own instructions. A call into compiled code that does
    not come back (one huge matrix product, a long `sleep`) cannot be ended from outside without ending the
    kernel. Then the thread is left to itself, and ``OutOfTime.stopped`` is False; it does not keep Python
    from leaving.

    Raises:
        OutOfTime: `work` was still running when time was up.
        KeyboardInterrupt: the user interrupted while we waited; `work` has been told to stop.
    """
    outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def body() -> None:  # without a `try`, which `Stop` would have to get out of again
        outcome.put(work())

    try:
        thread = _start(body)
    except RuntimeError:  # no threads here (Python compiled for the browser): run without a limit
        return work()
    left, imports, then = seconds, IMPORTS, time.monotonic()
    try:
        while left > 0:
            # Short waits: on Windows one long wait could not be interrupted by the user.
            with contextlib.suppress(queue.Empty):
                return outcome.get(timeout=0.05)
            now = time.monotonic()
            if imports > 0 and _importing(thread):
                imports -= now - then
            else:
                left -= now - then
            then = now
    except KeyboardInterrupt:
        _stop(thread)
        raise
    raise OutOfTime(stopped=_stop(thread))


def _start(body: Callable[[], None]) -> int:
    """Start a thread and return its number.

    Not a `threading.Thread`: that runs Python code of its own at the end, where `Stop` might still arrive.
    """
    before = threading.stack_size()
    with contextlib.suppress(ValueError):  # a system that does not let us choose keeps its own size
        threading.stack_size(STACK_BYTES)
    try:
        return _thread.start_new_thread(body, ())
    finally:
        threading.stack_size(before)


def _stop(thread: int) -> bool:
    """Raise `Stop` in the thread until it has ended; False if it has not after `GRACE` seconds.

    Once is not enough: in ``while True: try: … except: pass`` it is swallowed, and the next one too, if it
    comes when the loop is back inside the `try`. So it is sent again at the very moment it is caught: Python
    then makes the exception's instance, and this one's ``__init__`` sends the next. That is a call into C,
    which Python cannot interrupt half-way, and the handler's first loop or call meets the next `Stop`,
    outside the `try`.
    """
    prototype = ctypes.PYFUNCTYPE(None, ctypes.c_ulong, ctypes.py_object)
    send = prototype(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
    again: Any = type("Stop", (Stop,), {})
    again.__init__ = staticmethod(functools.partial(send, thread, again))
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        if not _importing(thread):
            send(thread, again)
        if thread not in sys._current_frames():
            return True
        time.sleep(0.01)
    return False


def _importing(thread: int) -> bool:
    """Whether the thread is running a module for the first time; not whether it looks one up."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_load_unlocked" and code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
