"""Checks whether an array or model can fit in memory at all, before anything is allocated."""

import os
import sys
from functools import cache
from pathlib import Path

# A model is built only if it has at most twice as many numbers as its files, plus this many. Then a message
# can name each weight that does not fit; larger models are refused before that.
SLACK = 2**20

UNKNOWN = 64 * 2**30  # bytes, for a machine that does not report its memory
# Files with a container's memory limit: Linux control groups, versions 2 and 1
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@cache
def ram() -> int:
    """Returns the memory of this machine in bytes, or the limit of the container that this runs in."""
    limits = [_of_the_machine() or UNKNOWN]
    for path in LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # there is no such file, or it holds "max"
            continue
    return min(limits)


def fits(what: str, n_bytes: int, there: int | None = None) -> None:
    """Checks that `what` needs no more memory than is `there`, in bytes: by default the machine's."""
    there = ram() if there is None else there
    if n_bytes > there:
        raise ValueError(
            f"{what} needs at least {_amount(n_bytes)} of memory, but only {_amount(there)} is available"
        )


def _amount(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB" if n_bytes < 2**60 else "a billion GiB"


def _of_the_machine() -> int | None:
    if sys.platform == "win32":
        return _of_windows()
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _of_windows() -> int | None:
    """Returns the total from GlobalMemoryStatusEx, whose 64 bytes begin with their own size; the total is at byte 8."""
    import ctypes

    status = (ctypes.c_uint64 * 8)(64)
    told = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    return int(status[1]) if told else None
