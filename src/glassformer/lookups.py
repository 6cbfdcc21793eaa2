"""Marks functions that answer one question from a shared table, such as the title of one chapter.

A caller of such a function depends on the answer, not on the rest of the table. When a notebook is executed,
`tools/recorder/` records each question and its answer instead of the files and code behind it, and
`tools/freshness.py` asks the question again.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def lookup(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function report each call and its answer to the recorder.

    The answer depends only on the arguments and the package, and it is all that the caller learns. Tables
    cached on the way are used by look-ups only: code outside a look-up would otherwise use a table whose
    opening was never recorded.
    """
    name = f"{function.__module__}:{function.__qualname__}"

    @wraps(function)
    def asked(*args: P.args, **named: P.kwargs) -> T:
        answer: T | BaseException | None = None
        sys.audit("glassformer.lookup", name, args, named)
        try:
            answer = function(*args, **named)
            return answer
        except BaseException as error:
            answer = error
            raise
        finally:
            sys.audit("glassformer.answer", answer)

    return asked
