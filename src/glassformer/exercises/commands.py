"""The commands of a practice notebook: check, hint, reveal, progress, keep and mine. `messages` has their words."""

from numbers import Real
from typing import Any

from glassformer import contents

from . import messages, own_file
from .attempt import INTERRUPTED, RIGHT, STUB, WRONG, Outcome, attempt
from .catalogue import catalogue, find, of_chapter
from .catalogue import prose as prose_of
from .exercise import Exercise, Prose
from .output import display, display_if_late
from .panel import Panel, Table
from .record import Record
from .source import CannotSaveError

SECONDS = 5.0

_record = Record()
_hints_given: dict[str, int] = {}
_accepted: dict[str, tuple[Any, float]] = {}  # the last right answer to each exercise here, and its seconds


def exercises() -> list[Exercise]:
    """Returns every exercise of the book, in order. Imports the checks of all chapters."""
    return [find(name) for name in catalogue()]


def check(name: Any = "", function: Any = None, *, seconds: float = SECONDS) -> Any:
    """Check your function for the exercise `name`, show the verdict, and return a function that works.

    The checks run in teaching order and stop at the first one that fails. Your function may raise, exit, loop forever,
    change its arguments or return nonsense: this call still returns. It returns your function if it is right, and
    otherwise the book's own, so the cells below run either way.

    Args:
        name: the exercise, for example ``"positions.sinusoidal"``.
        function: yours, without parentheses: ``check("positions.sinusoidal", sinusoidal)``.
        seconds: the time limit for all checks together.
    """
    prose = _prose(name)
    if prose is None:
        show(messages.unknown(name, "check"))
        return function
    exercise = find(prose.name)
    limit = float(seconds) if isinstance(seconds, Real) and not isinstance(seconds, bool) else 0.0
    if not limit > 0:
        show(messages.no_limit(exercise, seconds))
        return exercise.reference
    if not callable(function):
        show(messages.not_a_function(exercise, function))
        return exercise.reference
    try:
        outcome = attempt(
            exercise, function, limit, lambda late: display_if_late(messages.verdict(exercise, late))
        )
        if outcome.status not in (STUB, INTERRUPTED):
            _record.mark(exercise.name, "done" if outcome.status == RIGHT else "tried")
        wrong = _wrong_foundations(exercise.prose) if outcome.status == WRONG else []
        panel = messages.verdict(exercise, outcome, wrong)
    except KeyboardInterrupt:
        outcome = Outcome(INTERRUPTED, 0)
        panel = messages.verdict(exercise, outcome)
    except Exception as error:  # a mistake of ours must not stop the learner's notebook
        show(messages.checker_failed(exercise, error))
        return exercise.reference
    show(panel)
    if outcome.status != RIGHT:
        return exercise.reference
    _accepted[exercise.name] = function, limit
    return function


def hint(name: Any = "") -> None:
    """Show the next hint for an exercise. There are three, and each gives away more than the one before."""
    prose = _prose(name)
    if prose is None:
        return show(messages.unknown(name, "hint"))
    number = min(_hints_given.get(prose.name, 0), len(prose.hints) - 1)
    _hints_given[prose.name] = number + 1
    return show(messages.hints(prose)[number])


def reveal(name: Any = "") -> None:
    """Show an answer, one line on why it works, and the library's own version. `progress` will list it as revealed."""
    prose = _prose(name)
    if prose is None:
        return show(messages.unknown(name, "reveal"))
    _record.mark(prose.name, "revealed")
    return show(messages.answer(find(prose.name)))


def progress(chapter: Any = None) -> None:
    """Show which exercises are done, tried, revealed or left, and about how many minutes the rest will take.

    Args:
        chapter: the number of one chapter, as in ``progress("05")``; by default, every chapter with exercises.
    """
    marks = _record.load()
    if chapter is None:
        here = messages.chapter_here()
        show(messages.summary(marks))
        shown = sorted(contents.chapters(), key=lambda page: page.number != here)  # this notebook's first
    else:
        shown = [page for page in contents.chapters() if page.number == chapter]
        if not any(of_chapter(page.number) for page in shown):
            return show(messages.no_exercises(chapter))
    for page in shown:
        if of_chapter(page.number):
            show(messages.table(page, marks))
    return None


def keep(function: Any = None, *, replace: bool = False) -> None:
    """Save a function that `check` accepted in your own file, ``my_transformer.py``, next to the notebooks.

    The imports, helpers and constants that it uses are saved with it. Everything else in the file stays as you wrote
    it. If the file already has a different function of that name, `keep` shows the differences and writes nothing.

    Args:
        function: yours, without parentheses: ``keep(sinusoidal)``.
        replace: replace a different function of that name; a copy of the old file goes to ``my_transformer_old``.
    """
    show(kept(function, replace=replace)[1])


def kept(function: Any, *, replace: bool) -> tuple[str, Panel]:
    """Saves a function as `keep` does; returns what happened, as in `own_file` or empty, and the panel that says so."""
    name = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        return "", messages.nothing_to_keep(function)
    if not any(function is one for one, _ in _accepted.values()):
        return "", messages.not_accepted(function)
    try:
        saved = own_file.save(function, replace=replace)
        wrong = [] if saved.status == own_file.DIFFERENT else _wrong_in_file(function)
        return saved.status, messages.saved(name, saved, wrong)
    except CannotSaveError as error:
        return "", messages.not_saved(name, str(error))
    except OSError as error:
        why = f"The file could not be written: {error.strerror or type(error).__name__}."
        return "", messages.not_saved(name, why)


def mine(name: Any = "") -> Any:
    """Returns your own function for the exercise `name` from ``my_transformer.py``, or the book's if you have none."""
    prose = _prose(name)
    if prose is None:
        return show(messages.unknown(name, "mine"))
    exercise = find(prose.name)
    function, whose = own_or_the_books(exercise)
    show(Panel(f"`{exercise.reference.__name__}`: {whose}"))
    return function


def own_or_the_books(exercise: Exercise) -> tuple[Any, str]:
    """Returns the reader's function for an exercise, or else the book's, and says in words which one it is and why."""
    try:
        function = own_file.function_in(own_file.load(), exercise.reference.__name__)
    except CannotSaveError as error:
        return exercise.reference, f"the book's, because {messages.FILE} cannot be imported. {error}"
    if function is not None:
        return function, f"yours, from {messages.FILE}"
    return exercise.reference, f"the book's, until you `keep` yours in {messages.FILE}"


def _wrong_foundations(prose: Prose) -> list[tuple[Exercise, str]]:
    """Lists the exercises that one builds on to which the reader's own function is wrong: it may be the cause."""
    found = []
    for exercise in map(find, prose.builds_on):
        function, whose = own_or_the_books(exercise)
        if function is not exercise.reference and attempt(exercise, function, SECONDS).status != RIGHT:
            found.append((exercise, whose))
    return found


def _wrong_in_file(function: Any) -> list[tuple[str, str]]:
    """Describes what is wrong with the reader's file, or with an accepted function in it."""
    if trouble := own_file.trouble():
        return [("✗", trouble)]
    there: Any = getattr(own_file.load(), function.__name__, None)
    for exercise, (accepted, seconds) in _accepted.items():
        outcome = attempt(find(exercise), there, seconds) if accepted is function else None
        if outcome and outcome.status not in (RIGHT, INTERRUPTED):
            return messages.wrong_in_file(function.__name__, outcome.message)
    return []


def _prose(name: Any) -> Prose | None:
    """Returns the prose of the exercise with that name, or None."""
    return prose_of(name) if isinstance(name, str) else None


def record() -> Record:
    """Returns this kernel's record of progress, which includes the reader's file."""
    return _record


def show(panel: Panel | Table) -> None:
    """Display a panel, and any notices about the record."""
    display(panel)
    for notice in _record.take_notices():
        display(Panel(notice))
