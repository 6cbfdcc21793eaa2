"""Prints every verdict on what is known to be right or wrong, as JSON: `python -m tests.exercises.judged torch scipy`.

The libraries that are named cannot be imported. An exercise that needs one of them is left out, and so is an answer
that uses one. Where none is named, every sixth classic mistake is judged: `test_answers` has them all.
"""

import json
import sys
import types
import warnings

BLOCKED = sys.argv[1:]
used_by_an_answer = []


def _asks():
    """The module whose code asks for a library."""
    frame = sys._getframe(2)
    while "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_globals["__name__"]


class Blocked:
    """Finds nothing of these libraries, as where they are not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            if _asks().startswith("tests."):
                used_by_an_answer.append(name)
            raise ImportError(f"{name} is blocked", name=name)


class Absent(types.ModuleType):
    """What a file of answers gets for a library that it imports at its head."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        used_by_an_answer.append(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args, **kwargs):
        raise ImportError(f"{self.__name__} is blocked")


def all_answers():
    """Every chapter's answers; the libraries that their files import at their heads are absent."""
    from .answers import all_answers

    absent = {name: Absent(name) for name in ("torch", "torch.nn") if "torch" in BLOCKED}
    sys.modules.update(absent)
    found = all_answers()
    for name in absent:
        del sys.modules[name]
    return found


def found_once(failure):
    """`attempt._failure`, with what it found of classic mistakes: each is put to a step once, not for every answer."""
    known = {}

    def find(exercise, step, function):
        if function not in (one.function for one in exercise.mistakes):
            return failure(exercise, step, function)
        if (step, function) not in known:
            known[step, function] = failure(exercise, step, function)
        return known[step, function]

    return find


def verdicts():
    """By exercise and answer: status, checks passed and everything that is said; and the exercises judged."""
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
