"""Run a function for so many seconds and no longer, on any system, from the main thread of a notebook."""

import _thread
import contextlib
import ctypes
import functools
import importlib
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
    again: Any = type("Stop", (Stop,), {})
    again.__init__ = staticmethod(functools.partial(_sender(None), thread, again))
    send = _sender(ctypes.c_int)
    deadline = time.monotonic() + GRACE
    try:
        while time.monotonic() < deadline:
            if not _importing(thread) and not send(thread, again):
                return True
            time.sleep(0.01)
        return False
    finally:
        _settle()


def _sender(returns: type[ctypes.c_int] | None) -> Callable[[int, type[Stop]], int | None]:
    """Returns the C function that raises an exception in a thread; it may return the number of threads, 0 or 1."""
    prototype = ctypes.PYFUNCTYPE(returns, ctypes.c_ulong, ctypes.py_object)
    return prototype(("PyThreadState_SetAsyncExc", ctypes.pythonapi))


def _settle() -> None:
    """Let Python forget an exception that was sent to a thread which did not live to meet it.

    The last one often comes to a thread that is ending. Up to Python 3.12 the interpreter then looks for it
    for ever: every call is slower, and a function that is traced, as by a debugger, does not even begin. It
    stops looking when any thread meets one; so one is started to meet its own.
    """

    def meet() -> None:
        _sender(None)(_thread.get_ident(), Stop)
        while True:  # until it comes
            pass

    _start(meet)


def _importing(thread: int) -> bool:
    """Returns whether the thread is running a module for the first time; looking one up does not count.

    Asked of what the import system keeps of its locks. The thread's frames would tell it, too, but while it
    runs they may end under the eyes of who reads them, and Python with them.
    """
    for name, reference in list(importlib._bootstrap._module_locks.items()):  # type: ignore[attr-defined]
        lock = reference()
        if lock is not None and lock.owner == thread:
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if getattr(spec, "_initializing", False):
                return True
    return False
