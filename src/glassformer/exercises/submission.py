"""Judges one student's file in a process of its own, which `classroom` starts with this module.

A request in JSON comes on stdin. Every finding is a line on what was stdout at first: the request's secret word, then
JSON. The student's code does not find these by chance, but it runs in this process, and nothing here is a sandbox.
"""

import contextlib
import importlib.util
import inspect
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import own_file
from .attempt import INTERRUPTED, RIGHT, STUB, _failure, attempt, too_long
from .catalogue import add_exercises, catalogue, find
from .commands import SECONDS
from .exercise import Exercise
from .session import functions_now, put_functions
from .source import CannotSaveError

NOT_THERE, NOT_REACHED = "not there", "not reached"
MEMORY, FILE = 2 * 1024**3, 16 * 1024**2  # bytes that the code may use, and write to a file

Found = dict[
    str, str
]  # a verdict: its status, what is said of the answer, and the classic mistake's sentence


def judge(asked: dict[str, Any], tell: Callable[..., Any]) -> None:
    """Tells the verdict on each exercise, beginning with those that the file has no function for, and then a note."""
    for folder in asked["exercises"]:
        add_exercises(folder)
    by_function: dict[str, list[Exercise]] = {}
    for one in map(find, catalogue()):
        by_function.setdefault(one.reference.__name__, []).append(one)
    functions = functions_now()
    _limit(asked["seconds"])
    try:
        module = own_file.load()
    except CannotSaveError as error:
        return tell(note=f"The file cannot be imported. {error}")
    put_functions(functions)  # the checks need these as they were
    there = {name: own_file.function_in(module, name) for name in by_function}
    for name in sorted(by_function, key=lambda name: there[name] is not None):
        for exercise, verdict in verdicts(by_function[name], there[name]).items():
            tell(exercise=exercise, **verdict)
    return tell(note="")


def verdicts(those: Sequence[Exercise], function: Any) -> dict[str, Found]:
    """Returns the verdict of each of these exercises, which ask for a function of the same name.

    A function that is wrong counts for the one that it fits best: for the others, none is there.
    """
    nothing = {one.name: _found(NOT_THERE) for one in those}
    if function is None:
        return nothing
    try:
        found = {one.name: verdict(one, function) for one in those}
        given = len(those) > 1 and inspect.signature(function).parameters.keys()
        alike = {one.name: inspect.signature(one.reference).parameters.keys() == given for one in those}
    except Exception as error:  # a mistake of ours, or the file has changed what judges it
        return {name: _found(NOT_REACHED, f"The checker failed: {type(error).__name__}.") for name in nothing}
    best = max(found, key=lambda name: (bool(found[name]["mistake"]), alike[name]))
    right = {name: verdict for name, verdict in found.items() if verdict["status"] == RIGHT}
    return nothing | (right or {best: found[best]})


def verdict(exercise: Exercise, function: Callable[..., Any]) -> Found:
    """Returns the verdict of one exercise. An answer that ran out of time or memory is not called wrong."""
    for name in exercise.needs:
        if importlib.util.find_spec(name) is None:
            return _found(NOT_REACHED, f"This exercise needs {name}, which is not installed here.")
    outcome = attempt(exercise, function, SECONDS)
    said, steps = outcome.message, [step for check in exercise.checks for step in check.steps]
    if outcome.status == INTERRUPTED or said in (too_long(SECONDS, True), too_long(SECONDS, False)):
        return _found(NOT_REACHED, f"It was interrupted, or still running after {SECONDS:g} s.")
    if said.startswith("your function raised MemoryError"):
        return _found(NOT_REACHED, f"It needs more than {MEMORY / 1024**3:g} GiB of memory.")
    if outcome.status == RIGHT and exercise.mistakes:
        wrong = exercise.mistakes[0].function
        if all(_failure(exercise, step, wrong) is None for step in steps):
            return _found(NOT_REACHED, "A known mistake passes, too: the file has changed the checks.")
    return _found(NOT_THERE if outcome.status == STUB else outcome.status, said, outcome.mistake)


def _found(status: str, message: str = "", mistake: str = "") -> Found:
    return {"status": status, "message": message[:500], "mistake": mistake}


def _limit(seconds: int) -> None:
    """Limits what this process may use from now on; on Windows, `classroom` only looks at the clock."""
    with contextlib.suppress(ImportError):
        import resource

        limits = {"CPU": seconds + math.ceil(time.process_time()), "DATA": MEMORY, "FSIZE": FILE, "CORE": 0}
        for name, most in limits.items():
            with contextlib.suppress(ValueError, OSError):  # there is a lower limit already
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


if __name__ == "__main__":
    asked, told = json.loads(sys.stdin.buffer.read()), os.dup(1)
    for stream in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    word = asked.pop("word")
    judge(asked, lambda **found: os.write(told, f"\n{word}{json.dumps(found)}\n".encode()) and None)
    os._exit(0)  # without what the file left to do
