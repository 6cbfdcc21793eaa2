"""Prints verdicts on known answers, right and wrong, as JSON: `python -m tests.exercises.judged 10 torch scipy`.

The number chooses: 1 for all answers and classic mistakes, 10 for every tenth and the book's own answers.

These are a notebook's verdicts, from `check`, if no library is named. Otherwise they are a page's, from a `Desk`. The
named libraries cannot be imported, and there are no threads. Exercises that need one of these libraries are left out,
and so are answers that use one.
"""

import _thread
import json
import os
import sys
import tempfile
import types
import warnings
from pathlib import Path

EVERY, BLOCKED = int(sys.argv[1]), sys.argv[2:]
SECONDS = 60.0  # for each answer, on a machine that is busy with other tests
used_by_an_answer = []


def _asks():
    """Finds the module whose code imports a library."""
    frame = sys._getframe(2)
    while "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_globals["__name__"]


class Blocked:
    """A finder that makes these libraries look as if they were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            if _asks().startswith("tests."):
                used_by_an_answer.append(name)
            raise ImportError(f"{name} is blocked", name=name)


class Absent(types.ModuleType):
    """Stands in for a library that a file of answers imports at its top."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        used_by_an_answer.append(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args, **kwargs):
        raise ImportError(f"{self.__name__} is blocked")


def all_answers():
    """Returns every chapter's answers, with the libraries that their files import at the top made absent."""
    from .answers import all_answers

    absent = {name: Absent(name) for name in ("torch", "torch.nn") if "torch" in BLOCKED}
    sys.modules.update(absent)
    found = all_answers()
    for name in absent:
        del sys.modules[name]
    return found


given = types.ModuleType("given")  # a page's code imports the answers from here


def _by_check(folder):
    """Returns a function that judges an answer as a notebook in this folder does, and returns what it shows."""
    from glassformer.exercises import check
    from glassformer.exercises.output import Shown, shown_by

    folder.mkdir(parents=True)
    os.chdir(folder)

    def judge(exercise, function):
        panels = []
        with shown_by(Shown(panels.append, lambda panel: None)):
            check(exercise.name, function, seconds=SECONDS)
        return [panel.data() for panel in panels]

    return judge


def _by_desk(folder):
    """Returns a function that judges an answer as a page does that works in this folder, and returns what it shows."""
    from glassformer.exercises.desk import Desk

    desks = {}

    def judge(exercise, function):
        chapter, name = exercise.prose.chapter, exercise.reference.__name__
        if chapter not in desks:
            desks[chapter] = Desk(chapter, "import numpy as np", folder, lambda told: None, seconds=SECONDS)
        sys.modules["given"] = given
        given.answer = function
        code = f"from given import answer as {name}"
        asked = {
            "do": "check",
            "exercise": exercise.name,
            "code": code,
            "earlier": {},
            "keep": "no",
            "files": {},
        }
        return json.loads(desks[chapter].ask(json.dumps(asked)))["panels"]

    return judge


def verdicts(judge):
    """Returns the panels by exercise and answer, and the names of the exercises that were judged."""
    from glassformer.exercises import attempt as engine
    from glassformer.exercises import exercises

    from .once import found_once

    engine._failure = found_once(engine._failure)
    by_name = {exercise.name: exercise for exercise in exercises() if not set(exercise.needs) & set(BLOCKED)}
    asked = []
    for name, exercise in by_name.items():
        asked.append((f"{name}: reference", name, exercise.reference))
        mistakes = list(enumerate(exercise.mistakes))[::EVERY]
        asked += [(f"{name}: mistake {n}", name, one.function) for n, one in mistakes]
    for chapter, answers in all_answers().items():
        for number, one in list(enumerate([*answers.alternatives, *answers.mutants]))[::EVERY]:
            if one.exercise in by_name:
                asked.append(
                    (f"{chapter}: answer {number} {one.function.__name__}", one.exercise, one.function)
                )
    found = {}
    for label, name, function in asked:
        used_by_an_answer.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            panels = judge(by_name[name], function)
        if not used_by_an_answer:
            found[label] = panels
    return {"exercises": list(by_name), "verdicts": found}


def no_thread(*_):
    """Python compiled for the browser cannot start a thread."""
    raise RuntimeError("can't start new thread")


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked())
    if BLOCKED:
        _thread.start_new_thread = no_thread
    with tempfile.TemporaryDirectory() as root:
        judge = (_by_desk if BLOCKED else _by_check)(Path(root) / "notebooks" / "exercises")
        print(json.dumps(verdicts(judge)))
        os.chdir("/")  # the folder is about to be removed
