"""Arrays that report every operation on them, and on whatever is computed from them."""

from collections.abc import Callable
from typing import Any

import numpy as np

Report = Callable[[np.ufunc, str, tuple[Any, ...], Any], None]
"""Is told the operation, its method, such as "reduce", its inputs and its result."""


class Reporting(np.ndarray):
    """An array that computes as any other does, and reports it."""

    report: Report | None = None

    def __array_finalize__(self, of: Any) -> None:
        self.report = getattr(of, "report", None)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any
    ) -> Any:
        """Applies the ufunc to plain arrays; its result reports again."""
        report = next(x.report for x in (*inputs, *out) if isinstance(x, Reporting) and x.report)
        inputs = tuple(map(_plain, inputs))
        if out:
            options["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*inputs, **options)
        report(ufunc, method, inputs, result)
        if out:
            return out[0]
        return reporting(result, report) if isinstance(result, np.ndarray) else result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Lets what is joined or chosen from arrays, which is no ufunc, report as well."""
        result = super().__array_function__(func, types, args, kwargs)
        if isinstance(result, np.ndarray) and self.report is not None:
            return reporting(result, self.report)
        return result


def reporting(x: np.ndarray, report: Report) -> Reporting:
    """Returns a view of an array that reports."""
    view = np.asarray(x).view(Reporting)
    view.report = report
    return view


def _plain(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, Reporting) else x
