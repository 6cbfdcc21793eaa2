"""Functions that answer one question from a table that many share, such as the title of one chapter.

Whoever calls such a function depends on its answer and not on the rest of the table. While a notebook is executed,
`tools/recorder/` writes down each question with its answer in place of the files and the code behind it, and
`tools/freshness.py` asks again.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def lookup(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function announce each question that it is asked, and the answer.

    The answer follows from the arguments and the package alone, and it is all that the caller learns. What is cached
    on the way is cached for look-ups only: whoever met it outside one would use a table that was never seen to be
    opened.
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
