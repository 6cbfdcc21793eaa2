"""Judges one student's file in a process of its own, which `classroom` starts: ``python -m`` with this module's name.

A request in JSON comes on stdin. Every finding is a line on what was stdout when the process began: a secret word of
the request's, then JSON. The student's code finds neither in the usual places, but it runs in this process, and nothing
here is a sandbox.
"""

import contextlib
import importlib.util
import inspect
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import own_file
from .attempt import INTERRUPTED, RIGHT, STUB, WRONG, Learner, attempt, too_long
from .catalogue import add, catalogue, find
from .commands import SECONDS
from .exercise import Exercise
from .session import functions_now, put_functions
from .source import CannotSaveError

NOT_THERE, NOT_REACHED = "not there", "not reached"
MEMORY = 2 * 1024**3  # bytes that the student's code may use, where the system can limit that
FILE = 16 * 1024**2  # bytes of a file that it may write

Found = dict[
    str, str
]  # a verdict: its status, what is said of the answer, and the classic mistake's sentence


def main() -> None:
    """Reads the request, judges the file that the environment names, and ends without what the file left to do."""
    asked = json.loads(sys.stdin.buffer.read())
    told, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    secret = asked["secret"]
    judge(asked, lambda **found: os.write(told, f"\n{secret}{json.dumps(found)}\n".encode()))
    os._exit(0)


def judge(asked: dict[str, Any], tell: Callable[..., Any]) -> None:
    """Tells which exercises the file has a function for, then a verdict on each of them, and then that this is all."""
    for folder in asked["exercises"]:
        add(folder)
    by_function: dict[str, list[Exercise]] = {}
    for one in map(find, catalogue()):
        by_function.setdefault(one.reference.__name__, []).append(one)
    _limit(asked["seconds"])
    functions = functions_now()
    try:
        module = own_file.load()
    except CannotSaveError as error:
        tell(trouble=f"The file cannot be imported. {error}")
        return
    put_functions(functions)  # the checks need these as they were
    there = {name: own_file.function_in(module, name) for name in by_function}
    there = {name: function for name, function in there.items() if function is not None}
    tell(there=[one.name for name in there for one in by_function[name]])
    for name, function in there.items():
        try:
            found = verdicts(by_function[name], function)
        except Exception as error:  # a mistake of ours, or the file has changed what judges it
            said = f"The checker failed ({type(error).__name__})."
            found = {one.name: _found(NOT_REACHED, said) for one in by_function[name]}
        for exercise, verdict in found.items():
            tell(exercise=exercise, **verdict)
    tell(done=True)


def verdicts(those: Sequence[Exercise], function: Callable[..., Any]) -> dict[str, Found]:
    """Returns the verdict of each of these exercises, which ask for a function of the same name.

    A function that is wrong counts for the one that it fits best: for the others, none is there.
    """
    found = {one.name: verdict(one, function) for one in those}

    def fit(one: Exercise) -> tuple[Any, ...]:
        verdict = found[one.name]
        return (
            verdict["status"] == RIGHT,
            bool(verdict["mistake"]),
            _parameters(function) == _parameters(one.reference),
        )

    right = any(verdict["status"] == RIGHT for verdict in found.values())
    best = max(those, key=fit).name
    return {
        name: _found(NOT_THERE) if name != best and (right or verdict["status"] == WRONG) and verdict["status"] != RIGHT
        else verdict
        for name, verdict in found.items()
    }  # fmt: skip


def verdict(exercise: Exercise, function: Callable[..., Any]) -> Found:
    """Returns the verdict of one exercise. An answer that ran out of time or memory is not called wrong."""
    missing = [name for name in exercise.needs if importlib.util.find_spec(name) is None]
    if missing:
        return _found(NOT_REACHED, f"This exercise needs {missing[0]}, which is not installed here.")
    outcome = attempt(exercise, function, SECONDS)
    if outcome.status == RIGHT and not _refuses_a_mistake(exercise):
        return _found(
            NOT_REACHED, "The checks accept a known mistake, so the file has changed what judges it."
        )
    if outcome.status == INTERRUPTED or outcome.message in (
        too_long(SECONDS, True),
        too_long(SECONDS, False),
    ):
        return _found(NOT_REACHED, f"It was interrupted, or still running after {SECONDS:g} s.")
    if outcome.message.startswith("your function raised MemoryError"):
        return _found(NOT_REACHED, f"It needs more than {MEMORY / 1024**3:g} GiB of memory.")
    if outcome.status == STUB:
        return _found(NOT_THERE)
    return _found(outcome.status, outcome.message, outcome.mistake)


def _found(status: str, message: str = "", mistake: str = "") -> Found:
    return {"status": status, "message": message[:500], "mistake": mistake}


def _refuses_a_mistake(exercise: Exercise) -> bool:
    """Returns whether the checks, having accepted an answer, still refuse the exercise's first classic mistake."""
    for check in exercise.checks if exercise.mistakes else ():
        for step in check.steps:
            try:
                step(Learner(exercise.mistakes[0].function, exercise.parts))
            except Exception:
                return True
    return not exercise.mistakes


def _parameters(function: Callable[..., Any]) -> list[str]:
    with contextlib.suppress(TypeError, ValueError):
        return list(inspect.signature(function).parameters)
    return []


def _limit(seconds: int) -> None:
    """Limits what this process may use from now on: processor time, memory, and the size of a file."""
    seconds += math.ceil(time.process_time())
    try:
        import resource
    except ImportError:  # Windows, where `classroom` also stops what a thread cannot
        threading.Thread(target=_watch, args=[seconds], daemon=True).start()
        return
    for what, least, most in (
        (resource.RLIMIT_CPU, seconds, seconds + 1),  # a signal that can be ignored, and one that cannot
        (resource.RLIMIT_DATA, MEMORY, MEMORY),
        (resource.RLIMIT_FSIZE, FILE, FILE),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # there is a lower limit already
            resource.setrlimit(what, (least, most))


def _watch(seconds: int) -> None:
    while time.process_time() < seconds:
        time.sleep(0.1)
    os._exit(1)


if __name__ == "__main__":
    main()
