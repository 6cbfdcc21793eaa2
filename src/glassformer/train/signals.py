"""Handles Ctrl-C, and whatever else asks training to stop: the current step is finished first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Records whether training was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def made(self) -> bool:
        """Returns whether a signal has come."""
        return self.signal is not None


class Stopped(KeyboardInterrupt):
    """Ends a notebook's cell whose training was interrupted. IPython shows its sentences without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Inside a `with` block, records the first Ctrl-C instead of raising it; a second one is raised.

    The same holds for SIGTERM, which is sent by torchrun or by a system that shuts down, and for SIGHUP, which is sent
    when the terminal is closed or a connection is lost; nohup ignores it, and then so do we. Windows has no SIGHUP.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # signals cannot be caught here
        yield request
        return

    def note(number: int, frame: FrameType | None) -> None:
        if request.made:
            raise KeyboardInterrupt
        request.signal = number

    numbers = [signal.SIGINT, signal.SIGTERM]
    hangs_up = getattr(signal, "SIGHUP", None)
    if hangs_up is not None and signal.getsignal(hangs_up) is not signal.SIG_IGN:
        numbers.append(hangs_up)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
