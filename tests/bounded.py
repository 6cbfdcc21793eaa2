"""Bounds the time and the memory of a block, for tests with input that nobody has foreseen."""

import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

resource = pytest.importorskip("resource", reason="Windows has no such limits")


class TooLong(BaseException):
    """An exception that `except Exception` does not catch."""


@contextmanager
def bounded(seconds, n_bytes, *, of_the_processor=False):
    """Fails if the block takes longer, or needs more addresses beyond those that this process has."""
    timer, number = signal.ITIMER_REAL, signal.SIGALRM
    if of_the_processor:
        timer, number = signal.ITIMER_VIRTUAL, signal.SIGVTALRM

    def stop(*_):
        raise TooLong(f"{seconds} seconds were not enough")

    limits, before = resource.getrlimit(resource.RLIMIT_AS), signal.signal(number, stop)
    status = Path("/proc/self/statm")  # Linux: how much is mapped now
    if status.exists():
        mapped = int(status.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + n_bytes, limits[1]))
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)
