"""Put an exercise's checks to the learner's function, whatever that function does."""

import contextlib
import copy
import inspect
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .exercise import Exercise, Step
from .expect import Wrong, as_numbers, is_tensor
from .timelimit import OutOfTime, Stop, call_within

RIGHT, WRONG, STUB, INTERRUPTED = "right", "wrong", "not attempted", "interrupted"


@dataclass(frozen=True)
class Outcome:
    """How an attempt went: one of the four words above, how many checks passed, what to tell the learner."""

    status: str
    passed: int
    message: str = ""


def attempt(exercise: Exercise, function: Callable, seconds: float) -> Outcome:
    """Run the checks in order until one fails. Raises nothing that `function` could cause."""
    learner = _Learner(function)
    passed: list[str] = []
    failed: list[tuple[Step, Wrong]] = []

    def run() -> Outcome:
        for check in exercise.checks:
            for step in check.steps:
                try:
                    step(learner)
                except Stop:
                    raise
                except _NotAttempted as stub:
                    return Outcome(STUB, 0, str(stub))
                except Wrong as wrong:
                    failed.append((step, wrong))
                    return Outcome(WRONG, len(passed), str(wrong))
                except BaseException as error:  # sys.exit() and KeyboardInterrupt too: the notebook runs on
                    return Outcome(WRONG, len(passed), _raised(error))
            passed.append(check.title)
        return Outcome(RIGHT, len(passed))

    with _untouched_randomness():
        try:
            outcome = call_within(seconds, run)
            named = failed and call_within(seconds, lambda: recognised(exercise, *failed[0]))
            return replace(outcome, message=f"{failed[0][1].message} {named}") if named else outcome
        except OutOfTime as late:
            if failed:  # the verdict stands; only a name for the mistake was not found in time
                return Outcome(WRONG, len(passed), str(failed[0][1]))
            what = (
                "and was stopped. Is there a loop whose condition never becomes false?"
                if late.stopped
                else "and could not be stopped, so it runs on. Restart the kernel if that slows it down."
            )
            return Outcome(WRONG, len(passed), f"your function was still running after {seconds:g} s {what}")
        except KeyboardInterrupt:
            return Outcome(INTERRUPTED, len(passed), "you interrupted it; nothing was decided.")


def recognised(exercise: Exercise, step: Step, wrong: Wrong) -> str:
    """What is to be said of the first classic mistake that fails this step in the same way, or nothing.

    A mistake is put to the very step that the learner failed. One that passes it, since on these arguments
    it gives what is right, can never be named.
    """
    for mistake in exercise.mistakes:
        try:
            step(_Learner(mistake.function))
        except Wrong as same:
            if wrong.like(same):
                return mistake.says
        except Exception:  # it cannot be put to this step: it is not the one
            continue
    return ""


class _NotAttempted(Exception):  # noqa: N818 - the learner has made no error
    """The function is still the stub that the notebook came with."""


class _Learner:
    """The learner's function as the checks call it: fresh copies in, nothing changed in place."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.called = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first, self.called = not self.called, True
        given_args, given_kwargs = copy.deepcopy((args, kwargs))
        try:
            result = self.function(*given_args, **given_kwargs)
        except NotImplementedError:
            if first:
                raise _NotAttempted("Your function raises NotImplementedError.") from None
            raise
        if result is None or result is Ellipsis or result is NotImplemented:
            if first:
                raise _NotAttempted(
                    f"Your function returns {result}. (Already written? Then its `return` is missing.)"
                )
            raise Wrong(f"your function returned {result} for some inputs: does every path end in `return`?")
        before, after = self._by_name(args, kwargs), self._by_name(given_args, given_kwargs)
        for name, value in before.items():
            if not _same(value, after[name]):
                raise Wrong(f"your function changed its argument `{name}` in place. Work on a copy.")
        return _in_numpy(result)

    def _by_name(self, args: tuple, kwargs: dict) -> dict[str, Any]:
        try:
            return dict(inspect.signature(self.function).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):  # a callable without a signature
            return {**{f"number {i + 1}": value for i, value in enumerate(args)}, **kwargs}


def _in_numpy(result: Any) -> Any:
    """Torch tensors as NumPy arrays, so that a check need not know which of the two the learner used."""
    if isinstance(result, tuple):
        return tuple(_in_numpy(part) for part in result)
    return as_numbers(result, "what you returned") if is_tensor(result) else result


def _same(before: Any, after: Any) -> bool:
    """Nothing was written into `after`, a copy of `before`. Looks into arrays and lists."""
    if isinstance(before, np.ndarray):
        return np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(_same, before, after))
    return True


def _raised(error: BaseException) -> str:
    """The last line of the error's traceback, and the learner's line that it came from."""
    said = traceback.format_exception_only(error)[-1].strip()
    said = said if len(said) <= 300 else said[:300] + " …"
    # The learner's frames follow our call of their function; their line is the last one in their own file,
    # since below it may lie NumPy's. No such call means that a check stumbled over what they returned.
    frames = traceback.extract_tb(error.__traceback__)
    calls = [i for i, frame in enumerate(frames) if frame.filename == __file__ and frame.name == "__call__"]
    if not calls:
        return f"what your function returned could not be checked: {said}"
    below = frames[calls[-1] + 1 :]
    own = [frame for frame in below if frame.filename == below[0].filename]
    if not own:
        return f"your function raised {said}"
    line = (own[-1].line or "").strip()
    quoted = f": `{line[:80]}`" if line else ""
    return f"your function raised {said} (line {own[-1].lineno}{quoted})"


@contextlib.contextmanager
def _untouched_randomness() -> Iterator[None]:
    """Leave every global random state as it was, so that a learner's `np.random.seed(0)` stays theirs."""
    torch = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()
    torch_state = torch.random.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch:
            torch.random.set_rng_state(torch_state)
