"""Protects the session around a learner's function: what the function changes by accident is restored and reported.

Accidents are `np.random.seed = 0`, another default dtype of PyTorch, or another working directory. Code that means to
can still change Python's builtins and hooks, or the checker itself; a new kernel, or a new page, has the original.
"""

import contextlib
import math
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

# The modules whose functions are protected: those that an answer computes with.
MODULES = "math", "random", "numpy", "numpy.linalg", "numpy.random", "torch", "torch.nn.functional"


@contextlib.contextmanager
def as_it_was() -> Iterator[list[str]]:
    """Restore the session after the `with` block, whatever the code inside it changes.

    Afterwards the list names what was changed, in a learner's words: "`np.sin`", "the working directory". Settings of
    warnings and of printing are restored without being listed, because changing them is no mistake.
    """
    changed: list[str] = []
    with warnings.catch_warnings(), np.errstate(), np.printoptions():
        states = [(state, _seen(state)) for state in STATES]
        functions = functions_now()
        modules = set(sys.modules)
        try:
            yield changed
        finally:
            changed += put_functions(functions)
            loads = any(name.partition(".")[0] == "torch" for name in sys.modules.keys() - modules)
            for state, was in states:
                if not _same(was, _seen(state)):
                    # PyTorch sets variables of its own when it is imported.
                    if not (loads and state.name == "`os.environ`"):
                        changed.append(state.name)
                    with contextlib.suppress(Exception):
                        state.put(was)


def functions_now() -> dict[str, dict[str, Any]]:
    """Returns the current functions of the protected modules."""
    return {name: _functions(sys.modules[name]) for name in MODULES if name in sys.modules}


def put_functions(was: dict[str, dict[str, Any]]) -> list[str]:
    """Restores all of these functions, and returns the names of those that had changed.

    It leaves out what PyTorch itself replaces when parts of it are imported.
    """
    kept = [(sys.modules[name], functions) for name, functions in was.items() if name in sys.modules]
    return [one for module, functions in kept for one in _put_functions(module, functions)]


def replaced() -> list[str]:
    """Lists the functions of NumPy and math that have been replaced since this module was imported."""
    return [_called(module, name) for module, was in _OWN for name in _changed(module, was)]


class _State(NamedTuple):
    """One global setting of a session: what a learner calls it, how to read it and how to set it."""

    name: str
    see: Callable[[], Any]
    put: Callable[[Any], Any]


def _of_sys(name: str) -> _State:
    return _State(f"`sys.{name}`", lambda: getattr(sys, name), lambda was: setattr(sys, name, was))


def _default_dtype() -> str:
    torch = sys.modules.get("torch")
    return "float32" if torch is None else str(torch.get_default_dtype()).removeprefix("torch.")


def _put_default_dtype(was: str) -> None:
    sys.modules["torch"].set_default_dtype(getattr(sys.modules["torch"], was))


STATES = (
    _State("the working directory", os.getcwd, os.chdir),
    _State(
        "`os.environ`", lambda: dict(os.environ), lambda was: (os.environ.clear(), os.environ.update(was))
    ),
    *map(_of_sys, ("stdin", "stdout", "stderr")),
    _State("`sys.path`", lambda: list(sys.path), lambda was: sys.path.__setitem__(slice(None), was)),
    _State("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    _State("the default dtype of torch", _default_dtype, _put_default_dtype),
)


def _functions(outside: ModuleType) -> dict[str, Any]:
    """Returns a module's functions, but not its classes, which PyTorch itself replaces in its own modules."""
    return {name: value for name, value in vars(outside).items() if name[:1].islower()}


_OWN = [(module, _functions(module)) for module in (np, math)]


def _seen(state: _State) -> Any:
    try:
        return state.see()
    except Exception:  # a working directory that was deleted
        return None


def _same(was: Any, now: Any) -> bool:
    return was is now or (type(was) is type(now) and isinstance(was, str | int | list | dict) and was == now)


def _put_functions(outside: ModuleType, was: dict[str, Any]) -> list[str]:
    """Restores everything that was in a module before; new names may stay. Returns the names that had changed."""
    changed = _changed(outside, was)
    others = [name for name in changed if not _by_torch(name, vars(outside).get(name))]
    vars(outside).update({name: was[name] for name in changed})
    return [_called(outside, name) for name in others]


def _by_torch(name: str, function: Any) -> bool:
    """Returns whether this is PyTorch's own function of that name: its compiler wraps some."""
    where = getattr(function, "__module__", None) or ""
    return where.partition(".")[0] == "torch" and getattr(function, "__name__", "") == name


def _changed(outside: ModuleType, was: dict[str, Any]) -> list[str]:
    missing, names = object(), vars(outside)
    return [name for name, value in was.items() if names.get(name, missing) is not value]


def _called(module: ModuleType, name: str) -> str:
    return f"`{module.__name__.replace('numpy', 'np', 1)}.{name}`"


@contextlib.contextmanager
def untouched_randomness() -> Iterator[None]:
    """Leave every global random state as it was, so that a learner's `np.random.seed(0)` still holds."""
    python, numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    in_torch = torch.random.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch:
            torch.random.set_rng_state(in_torch)
