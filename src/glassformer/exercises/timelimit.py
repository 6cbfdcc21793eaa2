"""Runs a function with a time limit, on any operating system, from the main thread of a notebook."""

import _thread
import contextlib
import ctypes
import functools
import importlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

# A thread has a stack of fixed size. On macOS it is 0.5 MB, so a deep recursion would kill the process before
# Python's own limit of 1000 calls stops it. This size is many times what that limit needs.
STACK_BYTES = 64 * 2**20

GRACE = 1.0  # seconds that we spend on stopping a function that is out of time
IMPORTS = 120.0  # extra seconds for imports: importing PyTorch for the first time is slow


Keeper = Callable[[float], AbstractContextManager]
_keeper: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


def keeper() -> Keeper | None:
    """Returns who keeps the time of this thread from outside (`time_kept_by`), or None if nobody has to."""
    return _keeper.get()


@contextlib.contextmanager
def time_kept_by(keeper: Keeper) -> Iterator[None]:
    """Let somebody outside keep the time in the `with` block, where Python has no threads and cannot do so itself.

    ``keeper(seconds)`` returns a context manager that is entered when a time limit begins and left when it ends.
    A limit that begins within another replaces it.
    """
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)


class OutOfTime(Exception):  # noqa: N818 - an event, not an error of ours
    """The function did not finish in time. `stopped` says whether it could be stopped."""

    def __init__(self, *, stopped: bool) -> None:
        super().__init__("out of time")
        self.stopped = stopped


class Stop(SystemExit):
    """Raised inside the thread to end it. It is a `SystemExit`, because that ends a thread silently.

    Where there are no threads, `work` may raise it to end itself.
    """


def call_within(seconds: float, work: Callable[[], Any]) -> Any:
    """Return what `work()` returns, or raise `OutOfTime` after `seconds`.

    Signals (`signal.alarm`) do not exist on Windows, and a second process cannot be handed a function that
    was typed into a notebook. So `work` runs in a thread, and when time is up `Stop` is raised inside it.
    `work` must let `Stop` pass, and raise nothing else.

    While a module is being imported, the clock is paused and nothing is raised. If the import of a library such as
    PyTorch is interrupted, a second try does not complete it, and it may crash the kernel.

    Python delivers that exception between two of its own instructions. A long call into compiled code (one huge
    matrix product, a long `sleep`) cannot be stopped without stopping the kernel. In that case the thread keeps
    running, and ``OutOfTime.stopped`` is False; the thread does not keep Python from exiting.

    Raises:
        OutOfTime: `work` was still running when time was up.
        KeyboardInterrupt: the user interrupted while we waited; `work` has been told to stop.
    """
    outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def body() -> None:  # without `try`, which would complicate the way out for `Stop`
        outcome.put(work())

    try:
        thread = _start(body)
    except (
        RuntimeError
    ):  # no threads here (Python compiled for the browser): only from outside can it be stopped
        keep = keeper()
        with keep(float(seconds)) if keep else contextlib.nullcontext():
            try:
                return work()
            except Stop:
                raise OutOfTime(stopped=True) from None
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

    It does not use `threading.Thread`, which runs Python code of its own at the end, where `Stop` might still arrive.
    """
    before = threading.stack_size()
    with contextlib.suppress(ValueError):  # a system that does not let us choose uses its own size
        threading.stack_size(STACK_BYTES)
    try:
        return _thread.start_new_thread(body, ())
    finally:
        threading.stack_size(before)


def _stop(thread: int) -> bool:
    """Raise `Stop` in the thread until it has ended. Returns False if it has not ended after `GRACE` seconds.

    Sending `Stop` once is not enough: ``while True: try: … except: pass`` swallows it, and the next one too, if it
    arrives when the loop is back inside the `try`. So the next one is sent at the moment the previous one is caught:
    Python then creates the exception's instance, whose ``__init__`` sends another. That is a call into C, which
    Python cannot interrupt, so the next `Stop` arrives at the handler's first loop or call, outside the `try`.
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
    """Returns the C function that raises an exception in a thread and can return the number of threads, 0 or 1."""
    prototype = ctypes.PYFUNCTYPE(returns, ctypes.c_ulong, ctypes.py_object)
    return prototype(("PyThreadState_SetAsyncExc", ctypes.pythonapi))


def _settle() -> None:
    """Make Python forget an exception that was sent to a thread which ended before receiving it.

    The last exception often reaches a thread that is already ending. Up to Python 3.12, the interpreter then keeps
    looking for it: every call is slower, and a function that is traced, for example by a debugger, does not even
    start. It stops looking as soon as any thread receives one, so this function starts a thread that does.
    """

    def meet() -> None:
        _sender(None)(_thread.get_ident(), Stop)
        while True:  # until it arrives
            pass

    _start(meet)


def _importing(thread: int) -> bool:
    """Returns whether the thread is running a module for the first time; looking one up does not count.

    The answer comes from the import system's locks. The thread's frames would also tell, but a running thread may free
    them while we read them, and that would crash Python.
    """
    for name, reference in list(importlib._bootstrap._module_locks.items()):  # type: ignore[attr-defined]
        lock = reference()
        if lock is not None and lock.owner == thread:
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if getattr(spec, "_initializing", False):
                return True
    return False
