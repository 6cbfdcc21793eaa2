"""Handles Ctrl-C during training: the current step is finished first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Records whether training was asked to stop."""

    def __init__(self) -> None:
        self.made = False


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Inside a `with` block, records the first Ctrl-C instead of raising it; a second one is raised.

    The same holds for SIGTERM, which is sent by torchrun or by a system that shuts down.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # signals cannot be caught here
        yield request
        return

    def note(number: int, frame: FrameType | None) -> None:
        if request.made:
            raise KeyboardInterrupt
        request.made = True

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
