"""Runs an exercise's checks on the learner's function, whatever that function does."""

import contextlib
import copy
import inspect
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .exercise import Exercise, Step
from .expect import Wrong, gather_remarks, in_numpy, is_tensor
from .session import as_it_was, functions_now, put_functions, replaced, untouched_randomness
from .timelimit import OutOfTime, Stop, call_within

# Types whose values equal their copies: they have no parts, or only parts of such types
VALUES = (bool, int, float, complex, str, bytes, np.generic, set, frozenset)

RIGHT, WRONG, STUB, INTERRUPTED = "right", "wrong", "not attempted", "interrupted"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attempt: one of the four words above, how many checks passed, and a message for the learner.

    `aside` holds remarks that do not affect the verdict. `under` is the title of a general rule, if the answer broke
    that rule rather than the next check's own. `mistake` is the sentence of the classic mistake, if one was recognised.
    """

    status: str
    passed: int
    message: str = ""
    aside: Sequence[str] = ()
    under: str = ""
    mistake: str = ""


@untouched_randomness()
def attempt(
    exercise: Exercise,
    function: Callable,
    seconds: float,
    if_late: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Run the checks in order until one fails. Raises nothing that `function` could cause.

    On the way, `if_late` gets the outcome if time should run out next: a page must stop `function` from outside.
    """
    learner = Learner(function, exercise.parts)
    passed: list[str] = []
    failed: list[tuple[Step, Wrong]] = []

    def run() -> Outcome:
        said = gather_remarks()
        for check in exercise.checks:
            if_late(Outcome(WRONG, len(passed), too_long(seconds, stopped=True)))
            for step in check.steps:
                try:
                    step(learner)
                except Stop:
                    raise
                except NotAttempted as stub:
                    return Outcome(STUB, 0, str(stub))
                except Wrong as wrong:
                    failed.append((step, wrong))
                    return Outcome(WRONG, len(passed), str(wrong), under=wrong.under)
                except BaseException as error:  # sys.exit() and KeyboardInterrupt too: the notebook runs on
                    failed.append((step, _error(error)))
                    return Outcome(WRONG, len(passed), str(failed[0][1]))
            passed.append(check.title)
        return Outcome(RIGHT, len(passed), aside=said)

    before, changed = replaced(), []
    try:
        with as_it_was() as changed:
            outcome = call_within(seconds, run)
        if failed:
            if_late(outcome)
            with as_it_was():
                named = call_within(seconds, lambda: recognised(exercise, *failed[0], learner))
            if named:
                differs = failed[0][1].message
                stop = "" if differs.endswith(".") else "."
                outcome = replace(outcome, message=f"{differs}{stop} {named}", mistake=named)
    except OutOfTime as late:
        # If there is a verdict already, it stands: only the search for a classic mistake ran out of time.
        message = str(failed[0][1]) if failed else too_long(seconds, late.stopped)
        outcome = Outcome(WRONG, len(passed), message)
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED, len(passed))
    if outcome.status == WRONG:
        outcome = replace(outcome, aside=altered(before, list(dict.fromkeys([*learner.changed, *changed]))))
    return outcome


def recognised(exercise: Exercise, step: Step, wrong: Wrong, learner: "Learner") -> str:
    """Returns the message for the classic mistake that fails this step in the same way, or an empty string.

    Each mistake runs the same step that the learner failed. A mistake that passes this step is never named, because
    it happens to be right for these arguments. If several fail alike, other steps decide between them, and if that
    is not enough, the order of the mistakes does. An answer of all zeros can come from many mistakes, so one is named
    only if every step agrees.
    """
    failures = [(one, _failure(exercise, step, one.function)) for one in exercise.mistakes]
    alike = [one for one, failure in failures if failure and wrong.like(failure)]
    blank = bool(alike) and isinstance(wrong.got, np.ndarray) and not wrong.got.any()
    for other in (other for check in exercise.checks for other in check.steps if other is not step):
        if len({one.says for one in alike}) < (1 if blank else 2):
            break
        theirs = _failure(exercise, other, learner)
        agree = [one for one in alike if _fail_alike(theirs, _failure(exercise, other, one.function))]
        alike = agree if blank else agree or alike
    return alike[0].says if alike else ""


def _failure(exercise: Exercise, step: Step, function: Callable) -> Wrong | None:
    """Returns how a function fails a step; None if it passes."""
    try:
        step(function if isinstance(function, Learner) else Learner(function, exercise.parts))
    except Wrong as wrong:
        return wrong
    except Stop:
        raise
    except BaseException as error:
        return _error(error)
    return None


def _error(error: BaseException) -> Wrong:
    """Returns an error as a failure. Two functions that raise the same error, word for word, fail alike."""
    shorten(error)
    return Wrong(raised(error), what=_last_line(error), got=0)


def _fail_alike(one: Wrong | None, other: Wrong | None) -> bool:
    return one.like(other) if one and other else one is other


def too_long(seconds: float, stopped: bool) -> str:
    """Returns the message for a function that ran out of time, and says whether it could be stopped."""
    what = (
        "and was stopped. Is there a loop whose condition never becomes false?"
        if stopped
        else "and could not be stopped, so it is still running. If it slows down the notebook, restart the kernel: "
        "your progress is saved."
    )
    return f"your function was still running after {seconds:g} s {what}"


def altered(before: Sequence[str], changed: Sequence[str]) -> list[str]:
    """Lists the changes to the session before or during a wrong answer: they may be why it is wrong."""
    said = []
    if before:
        have, s = ("has", "") if len(before) == 1 else ("have", "s")
        restart = f"Restart the kernel to get the original{s} back."
        said.append(f"In this notebook, {listed(before)} {have} been replaced. {restart}")
    if changed:
        said.append(restored(changed))
    return said


def restored(changed: Sequence[str], by: str = "function") -> str:
    """Returns the sentence on what the learner's function, or other code, changed in the session."""
    now = "it has" if len(changed) == 1 else "they have"
    return f"Your {by} changed {listed(changed)}; {now} been restored."


def listed(names: Sequence[str]) -> str:
    """Returns up to four names, separated by commas."""
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


class NotAttempted(Exception):  # noqa: N818 - the learner has made no error
    """The function is still the stub from the notebook."""


class Learner:
    """The learner's function as the checks call it: with fresh copies, which it must not change in place."""

    def __init__(self, function: Callable, parts: Sequence[str] = ()) -> None:
        self.function = function
        self.parts = parts
        self.called = False
        self._functions, self.changed = functions_now(), []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with copies of the arguments. Raises what it raises, and `Wrong` if it changed them."""
        first, self.called = not self.called, True
        given_args, given_kwargs = copy.deepcopy((args, kwargs))
        try:
            result = _call(self.function, given_args, given_kwargs)
            self.changed += put_functions(self._functions)  # the checks also use these functions
        except NotImplementedError as error:
            if first and _is_stub(error):
                raise NotAttempted("Your function raises NotImplementedError.") from None
            raise
        if result is None or result is Ellipsis or result is NotImplemented:
            if first:
                raise NotAttempted(
                    f"Your function returns {result}. (If you have already written it, its `return` is missing.)"
                )
            raise Wrong(f"your function returned {result} for some inputs: does every path end in `return`?")
        before, after = self._by_name(args, kwargs), self._by_name(given_args, given_kwargs)
        for name, value in before.items():
            if not _same(value, after[name]):
                said = f"your function changed its argument `{name}` in place. Work on a copy."
                raise Wrong(said, under="the arguments stay unchanged")
        if inspect.isgenerator(result):
            return _running(result)  # pyrefly: ignore[bad-argument-type] (inspect knows no send type)
        return in_numpy(result, self.parts)

    def _by_name(self, args: tuple, kwargs: dict) -> dict[str, Any]:
        try:
            return dict(inspect.signature(self.function).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):  # a callable without a signature
            return {**{f"number {i + 1}": value for i, value in enumerate(args)}, **kwargs}


def _call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Calls the function; the learner's frames are those below this one."""
    return function(*args, **kwargs)


def _running(generator: Generator) -> Generator:
    """Yields what a learner's generator yields; an error inside it is raised below `_call`, with the learner's line."""
    with contextlib.closing(generator):
        while True:
            try:
                value = _call(next, (generator,), {})
            except StopIteration:
                return
            yield value


def _same(before: Any, after: Any) -> bool:
    """Returns whether `after`, a copy of `before`, was left unchanged.

    It compares arrays, tensors, numbers and strings, also inside lists, tuples, sets and dictionaries. Other objects
    are not compared, because a copy of one need not equal it.
    """
    if is_tensor(before):
        if not is_tensor(after) or before.dtype != after.dtype or before.shape != after.shape:
            return False
        return bool(((before == after) | ((before != before) & (after != after))).all())
    if isinstance(before, np.ndarray):
        if not isinstance(after, np.ndarray) or before.dtype != after.dtype or before.shape != after.shape:
            return False
        if before.dtype.kind == "O":
            return all(map(_same, before.ravel().tolist(), after.ravel().tolist()))
        return np.array_equal(before, after, equal_nan=before.dtype.kind in "fc")
    if isinstance(before, list | tuple):
        return (
            isinstance(after, type(before)) and len(before) == len(after) and all(map(_same, before, after))
        )
    if isinstance(before, dict):
        return (
            isinstance(after, dict)
            and list(before) == list(after)
            and all(_same(before[name], after[name]) for name in before)
        )
    if before is None or isinstance(before, VALUES):
        both_nan = before != before and after != after
        return type(before) is type(after) and bool(both_nan or before == after)
    return True


def shorten(error: BaseException, links: int = 0) -> None:
    """Removes all errors from which an error comes but the last ones: thousands of them take too long to print."""
    for _ in range(links):
        error = error.__cause__ or error.__context__ or error
    error.__cause__ = error.__context__ = None


def raised(error: BaseException) -> str:
    """Describes the error with its notes, and quotes the line of the learner's code that raised it."""
    said = [_last_line(error), *getattr(error, "__notes__", ())][:4]
    words = " · ".join(text if len(text) <= 300 else text[:300] + " …" for text in said)
    below = _below(error)
    if below is None:
        return f"what your function returned could not be checked: {words}"
    own = [frame for frame in below if of_the_reader(frame.filename)]
    own = own or [frame for frame in below if frame.filename == below[0].filename]
    if not own:
        return f"your function raised {words}"
    line, file = (own[-1].line or "").strip(), own[-1].filename
    quoted = f": `{line[:80]}`" if line else ""
    place = (
        "" if file == own[0].filename else " of another cell" if _is_cell(file) else f" of {Path(file).name}"
    )
    return f"your function raised {words} (line {own[-1].lineno}{place}{quoted})"


_LIBRARIES = tuple(
    str(Path(getattr(sys.modules[name], "__file__", "")).resolve().parent)
    for name in ("glassformer", "numpy", "os")
)
_CELLS = ("<ipython", "<capstone>")  # cells in a terminal, and the field on a practice page


def of_the_reader(file: str) -> bool:
    """Returns whether a file is a cell or a file of the reader's, not a library's."""
    if "site-packages" in file or file.startswith(_LIBRARIES):
        return False
    return not file.startswith("<") or file.startswith(_CELLS)


def _is_cell(file: str) -> bool:
    return file.startswith(_CELLS) or "ipykernel_" in file


def _last_line(error: BaseException) -> str:
    """Returns the error's class and message, without its notes."""
    told = traceback.TracebackException.from_exception(error)
    told.__notes__ = None
    return list(told.format_exception_only())[-1].strip()


def _below(error: BaseException) -> list[traceback.FrameSummary] | None:
    """Returns the frames from the learner's function onwards: theirs, then NumPy's. None if it was not running.

    The learner's line is the last one in a file of their own. If their function was not running, a check failed on the
    value that it had returned.
    """
    frames = traceback.extract_tb(error.__traceback__)
    calls = [
        i for i, frame in enumerate(frames) if (frame.filename, frame.name) == (__file__, _call.__name__)
    ]
    return list(frames[calls[-1] + 1 :]) if calls else None


def _is_stub(error: NotImplementedError) -> bool:
    """Returns whether the function itself raises it, rather than a library or a notebook without `input`."""
    below = _below(error)
    return type(error) is NotImplementedError and bool(below) and below[-1].filename == below[0].filename
