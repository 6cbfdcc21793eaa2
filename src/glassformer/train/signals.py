"""Ctrl-C while training: the step in progress is finished first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Records whether someone asked to stop."""

    def __init__(self) -> None:
        self.made = False


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Records a first Ctrl-C inside a `with` block instead of raising it; a second one is raised.

    The same holds for SIGTERM, which comes from torchrun, or from a system that shuts down.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # where signals cannot be caught
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
