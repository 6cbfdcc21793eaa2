"""Protects the session around a learner's function: whatever the function changes is restored and can be reported.

It protects from what happens by accident. Code that means to can still change the checker, for example by replacing
its functions, Python's import hooks or the clock; a new kernel, or a new page, has the original again.
"""

import contextlib
import gc
import math
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

# The modules whose functions are protected: those that an answer computes with.
MODULES = (
    "builtins", "math", "cmath", "random", "numpy", "numpy.linalg", "numpy.random", "torch", "torch.nn.functional",
)  # fmt: skip


@contextlib.contextmanager
def as_it_was() -> Iterator[list[str]]:
    """Restore the session after the `with` block, whatever the code inside it changes.

    Afterwards the list names what was changed, in a learner's words: "`np.sin`", "the working directory". Settings of
    warnings and of printing are restored without being listed, because changing them is no mistake.
    """
    changed: list[str] = []
    with warnings.catch_warnings(), np.errstate(), np.printoptions(), _in_bounds():
        states = [(state, _seen(state)) for state in STATES]
        functions = functions_now()
        modules = dict(sys.modules)
        try:
            yield changed
        finally:
            changed += put_functions(functions)
            loads = any(name.partition(".")[0] == "torch" for name in sys.modules.keys() - modules)
            sys.modules.update(modules)
            for state, was in states:
                if not _same(was, _seen(state)):
                    # PyTorch sets variables of its own when it is imported.
                    if not (loads and state.name == "`os.environ`"):
                        changed.append(state.name)
                    with contextlib.suppress(Exception):
                        state.put(was)


# The largest recursion limit and switch interval of a learner's code. A deeper recursion without end fills the memory
# before the time is up, and with a longer interval nobody notices that it is.
BOUNDS = {"recursionlimit": 10_000, "switchinterval": 0.005}


@contextlib.contextmanager
def _in_bounds() -> Iterator[None]:
    """Bounds what the time limit rests on, and keeps streams open and the process alive, in the `with` block."""
    with contextlib.ExitStack() as after:
        for name, most in BOUNDS.items():
            put, was = getattr(sys, f"set{name}"), getattr(sys, f"get{name}")()
            setattr(sys, f"set{name}", lambda value, put=put, most=most: put(min(value, most)))
            put(min(was, most))
            after.callback(put, was)
            after.callback(setattr, sys, f"set{name}", put)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, TypeError):  # none, or one that takes no attribute
                if "close" not in vars(stream):
                    setattr(stream, "close", lambda: None)  # noqa: B010 - a type checker knows better
                    after.callback(vars(stream).pop, "close", None)
        for name in ("SIGALRM", "SIGVTALRM", "SIGPROF"):  # of timers, which would end Python
            with contextlib.suppress(
                AttributeError, OSError, ValueError
            ):  # on Windows; outside the main thread
                number = getattr(signal, name)
                if signal.getsignal(number) is signal.SIG_DFL:
                    after.callback(signal.signal, number, signal.signal(number, signal.SIG_IGN))
        yield


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


def _put_environment(was: dict[str, str]) -> None:
    for name in os.environ.keys() - was:
        del os.environ[name]
    os.environ.update(was)


def _put_path(was: list[str]) -> None:
    sys.path[:] = was


def _default_dtype() -> str:
    torch = sys.modules.get("torch")
    return "float32" if torch is None else str(torch.get_default_dtype()).removeprefix("torch.")


def _timers() -> list[int]:
    """Returns the timers of `signal` that are set; one that was set before runs on, so its time does not count."""
    return [which for which in range(3) if hasattr(signal, "getitimer") and signal.getitimer(which)[0]]


def _put_timers(was: list[int]) -> None:
    for which in set(_timers()) - set(was):
        signal.setitimer(which, 0)


def _put_default_dtype(was: str) -> None:
    sys.modules["torch"].set_default_dtype(getattr(sys.modules["torch"], was))


STATES = (
    _State("the working directory", os.getcwd, os.chdir),
    _State("`os.environ`", lambda: dict(os.environ), _put_environment),
    *map(_of_sys, ("stdin", "stdout", "stderr", "argv", "excepthook", "displayhook", "unraisablehook")),
    _State("`sys.path`", lambda: list(sys.path), _put_path),
    _State("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    _State("a timer of `signal`", _timers, _put_timers),
    _State("the garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    _State("the default dtype of torch", _default_dtype, _put_default_dtype),
)


def _functions(outside: ModuleType) -> dict[str, Any]:
    """Returns a module's functions, but not its classes, which PyTorch itself replaces in its own modules."""
    every = outside.__name__ == "builtins"
    return {
        name: value for name, value in vars(outside).items() if name[:1].islower() or (every and name != "_")
    }


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
    where = module.__name__.replace("numpy", "np", 1)
    return f"`{name}`" if where == "builtins" else f"`{where}.{name}`"


@contextlib.contextmanager
def untouched_randomness() -> Iterator[None]:
    """Leave every global random state as it was, so that a learner's `np.random.seed(0)` still holds."""
    python, generator = random.getstate(), np.random.get_bit_generator()
    numpy = generator.state
    torch = sys.modules.get("torch")
    in_torch = torch.random.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_bit_generator(generator)
        generator.state = numpy
        if torch:
            torch.random.set_rng_state(in_torch)
