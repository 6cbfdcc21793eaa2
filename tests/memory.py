"""Measures what work takes in memory."""

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak(work: Callable[[], Any], at_most: float | None = None) -> int:
    """Returns the most bytes that Python and NumPy hold at once for `work`, beyond what they held before.

    What other threads of the process need at the time counts, too. So work that takes more than `at_most` is tried
    again, and the smallest of three peaks counts.
    """
    found = []
    while len(found) < 3 and not (found and (at_most is None or min(found) <= at_most)):
        tracemalloc.start()
        work()
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return min(found)
