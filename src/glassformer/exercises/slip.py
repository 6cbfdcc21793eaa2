"""Makes a wrong answer out of the right one, by replacing pieces of its code."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any


class Slip:
    """A function that has the code of a right answer, except for some pieces.

    Attributes:
        code: the code of the wrong answer.
        name: the name of the function in it.
        near: a function of the module in which the code runs, with all names of that module.
        names: values that the code finds under these names, in place of the module's.
    """

    def __init__(
        self,
        code: str,
        name: str,
        near: Callable[..., Any],
        edits: Sequence[str] = (),
        names: Mapping[str, Any] | None = None,
    ) -> None:
        for old, new in zip(edits[::2], edits[1::2], strict=True):
            if old not in code:
                raise ValueError(f"{old!r} is not in the answer:\n{code}")
            code = code.replace(old, new)
        self.code, self.name, self.near, self.names = code, name, near, names or {}

    @property
    def scope(self) -> dict[str, Any]:
        """Returns what the code finds outside itself, by name."""
        return {**inspect.unwrap(self.near).__globals__, **self.names}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """Returns the wrong answer, compiled when it is first needed."""
        scope = self.scope
        exec(compile(self.code, f"<{self.name}, with a slip>", "exec"), scope)
        return scope[self.name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the wrong answer."""
        return self.function(*args, **kwargs)
