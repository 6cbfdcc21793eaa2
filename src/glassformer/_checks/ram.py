"""Checks whether what is asked for can fit in memory at all, before anything is allocated."""

import os
import sys
from functools import cache
from pathlib import Path

# A model with at most this many numbers more than twice those of its files is built, so that what does not fit can be
# said name by name; a larger one is not.
SLACK = 2**20

UNKNOWN = 64 * 2**30  # bytes, of a machine that does not say
# What a container may have, where the system keeps it: Linux's control groups, version 2 and 1
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@cache
def ram() -> int:
    """The memory of this machine in bytes, or as much of it as the container that this runs in may have."""
    limits = [_of_the_machine() or UNKNOWN]
    for path in LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(limits)


def fits(what: str, n_bytes: int, there: int | None = None) -> None:
    """Checks that `what` needs no more than the memory that is `there`, in bytes: by default that of the machine."""
    there = ram() if there is None else there
    if n_bytes > there:
        raise ValueError(
            f"{what} needs at least {_amount(n_bytes)} of memory, but there are only {_amount(there)}"
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
    """Returns the total from GlobalMemoryStatusEx: 64 bytes that begin with that size; the total is after eight."""
    import ctypes

    status = (ctypes.c_uint64 * 8)(64)
    told = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    return int(status[1]) if told else None
