"""Prints verdicts on all known answers, right and wrong, as JSON: `python -m tests.exercises.judged torch scipy`.

The named libraries cannot be imported. Exercises that need one of them are left out, and so are answers that use one.
If none is named, only every sixth classic mistake is judged, because `test_answers` covers them all.
"""

import json
import sys
import types
import warnings

BLOCKED = sys.argv[1:]
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


def found_once(failure):
    """Works as `attempt._failure`, but runs each classic mistake only once per step instead of once per answer."""
    known = {}

    def find(exercise, step, function):
        if function not in (one.function for one in exercise.mistakes):
            return failure(exercise, step, function)
        if (step, function) not in known:
            known[step, function] = failure(exercise, step, function)
        return known[step, function]

    return find


def verdicts():
    """Returns status, passed checks and messages by exercise and answer, and the exercises that were judged."""
    from glassformer.exercises import attempt as engine
    from glassformer.exercises import exercises

    engine._failure = found_once(engine._failure)
    by_name = {exercise.name: exercise for exercise in exercises() if not set(exercise.needs) & set(BLOCKED)}
    asked = []
    for name, exercise in by_name.items():
        asked.append((f"{name}: reference", name, exercise.reference))
        mistakes = list(enumerate(exercise.mistakes))[:: 1 if BLOCKED else 6]
        asked += [(f"{name}: mistake {n}", name, one.function) for n, one in mistakes]
    for chapter, answers in all_answers().items():
        for number, one in enumerate([*answers.alternatives, *answers.mutants]):
            if one.exercise in by_name:
                asked.append(
                    (f"{chapter}: answer {number} {one.function.__name__}", one.exercise, one.function)
                )
    found = {}
    for label, name, function in asked:
        used_by_an_answer.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = engine.attempt(by_name[name], function, 60.0)
        if not used_by_an_answer:
            found[label] = [
                outcome.status,
                outcome.passed,
                outcome.message,
                list(outcome.aside),
                outcome.under,
            ]
    return {"exercises": list(by_name), "verdicts": found}


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked())
    print(json.dumps(verdicts()))
