"""The commands of a practice notebook: check, hint, reveal, progress, keep and mine."""

import difflib
import inspect
import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace as changed
from numbers import Real
from pathlib import Path
from typing import Any

from glassformer import contents
from glassformer.first_words import notebook

from . import own_file
from .attempt import INTERRUPTED, RIGHT, STUB, WRONG, Outcome, attempt
from .catalogue import catalogue, find, of_chapter
from .catalogue import prose as prose_of
from .exercise import Exercise, Prose
from .expect import describe
from .record import Record
from .showing import display, display_if_late
from .source import CannotSaveError
from .verdict import Panel, Table

SECONDS = 5.0

_record = Record()
_hints_given: dict[str, int] = {}
_accepted: dict[str, tuple[Any, float]] = {}  # the last right answer to each exercise here, and its seconds


def exercises() -> list[Exercise]:
    """Returns every exercise of the book, in order. Imports the checks of all chapters."""
    return [find(name) for name in catalogue()]


def check(name: Any = "", function: Any = None, *, seconds: Any = SECONDS) -> Any:
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
        show(_unknown(name, "check"))
        return function
    name = prose.name
    exercise = find(name)
    try:
        limit = _limit(seconds)
        if limit is None:
            show(_no_limit(exercise, seconds))
            return exercise.reference
        if not callable(function):
            show(_not_a_function(exercise, function))
            return exercise.reference
        outcome = attempt(
            exercise, function, limit, lambda late: display_if_late(_verdict(exercise, late, ()))
        )
        if outcome.status not in (STUB, INTERRUPTED):
            _record.mark(name, "done" if outcome.status == RIGHT else "tried")
        if outcome.status == RIGHT:
            _accepted[name] = function, limit
        show(_verdict(exercise, outcome, _foundations(exercise.prose) if outcome.status == WRONG else ()))
        return function if outcome.status == RIGHT else exercise.reference
    except KeyboardInterrupt:
        show(
            _verdict(
                exercise, Outcome(INTERRUPTED, 0, "the check was interrupted, so there is no verdict."), ()
            )
        )
    except Exception as error:  # a mistake of ours must not stop the learner's notebook
        show(Panel(f"`{name}`: the checker itself failed ({type(error).__name__}). That is our mistake."))
    return exercise.reference


def hint(name: Any = "") -> None:
    """Show the next hint for an exercise. There are three, and each gives away more than the one before."""
    prose = _prose(name)
    if prose is None:
        return show(_unknown(name, "hint"))
    number = min(_hints_given.get(prose.name, 0), len(prose.hints) - 1)
    _hints_given[prose.name] = number + 1
    return show(hints(prose)[number])


def reveal(name: Any = "") -> None:
    """Show an answer, one line on why it works, and the library's own version. `progress` will list it as revealed."""
    prose = _prose(name)
    if prose is None:
        return show(_unknown(name, "reveal"))
    _record.mark(prose.name, "revealed")
    return show(answer(find(prose.name)))


def hints(prose: Prose) -> list[Panel]:
    """Returns the panels of an exercise's hints, in order."""
    total = len(prose.hints)
    panels = [
        Panel(f"`{prose.name}`: hint {i + 1} of {total}", [("", said)]) for i, said in enumerate(prose.hints)
    ]
    after = f'That was the last one. `reveal("{prose.name}")` shows the answer.'
    return [*panels[:-1], changed(panels[-1], lines=[*panels[-1].lines, ("", after)])]


def answer(exercise: Exercise) -> Panel:
    """Returns the panel of the book's answer."""
    sources = "\n\n".join(textwrap.dedent(inspect.getsource(part)) for part in exercise.library)
    title = f"`{exercise.name}`: the book's answer"
    more = "How the library does it, with all that it covers", sources
    return Panel(title, [("", exercise.prose.why)], code=exercise.answer, python=True, more=more)


def progress(chapter: Any = None) -> None:
    """Show which exercises are done, tried, revealed or left, and about how many minutes the rest will take.

    Args:
        chapter: the number of one chapter, as in ``progress("05")``; by default, every chapter with exercises.
    """
    if chapter is None:
        here = _here()
        shown = tuple(sorted(contents.pages(), key=lambda page: page.number != here))  # this notebook's first
    else:
        asked = chapter if isinstance(chapter, str) else ""
        try:
            shown = (contents.page(asked),)
        except ValueError:
            shown = ()
        if not any(of_chapter(one.number) for one in shown):
            which = f'"{asked[:60]}"' if asked else describe(chapter)
            advice = "`progress()` lists all exercises."
            return show(Panel(f"There are no exercises for chapter {which}", [("", advice)], mood="bad"))
    marks = _record.load()
    if chapter is None:
        every = catalogue()
        left = [prose.minutes for name, prose in every.items() if not marks.get(name, {}).get("done")]
        said = f"{len(every) - len(left)} of {len(every)} exercises done"
        show(
            Panel(
                f"{said}; about {sum(left) / 60:.0f} hours left"
                if left
                else f"{said}. You have finished the book."
            )
        )
    for one in shown:
        listed = list(of_chapter(one.number).values())
        if not listed:
            continue
        rows = [
            (prose.name, prose.title, prose.stars, f"{prose.minutes} min", _state(marks.get(prose.name, {})))
            for prose in listed
        ]
        left = [prose.minutes for prose in listed if not marks.get(prose.name, {}).get("done")]
        closing = f"{len(listed) - len(left)} of {len(listed)} done"
        closing += f"; about {sum(left)} minutes left." if left else ". You have finished the chapter."
        heads = ("exercise", "what it asks", "difficulty", "time", "state")
        show(Table(f"Chapter {one.number}, {one.title}", heads, rows, closing))
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
        return "", Panel(f"`keep` expected your function, got {describe(function)}", mood="bad")
    if not any(function is one for one, _ in _accepted.values()):
        books = str(getattr(function, "__module__", "")).startswith("glassformer.")
        why = (
            "This is the book's own function"
            if books
            else "`check` has not accepted it since this notebook was started"
        )
        advice = f"{why}. Save your own function with `keep` once it is right."
        return "", Panel(f"`{name}` was not saved", [("", advice)])
    try:
        saved = own_file.save(function, replace=replace)
        return saved.status, _saved(function, saved)
    except CannotSaveError as error:
        why = str(error)
    except OSError as error:
        why = f"The file could not be written: {error.strerror or type(error).__name__}."
    return "", Panel(f"`{name}` was not saved", [("", why)], mood="bad")


def mine(name: Any = "") -> Any:
    """Returns your own function for the exercise `name` from ``my_transformer.py``, or the book's if you have none."""
    prose = _prose(name)
    if prose is None:
        return show(_unknown(name, "mine"))
    exercise = find(prose.name)
    function, whose = own_or_the_books(exercise)
    show(Panel(f"`{exercise.reference.__name__}`: {whose}"))
    return function


def own_or_the_books(exercise: Exercise) -> tuple[Any, str]:
    """Returns the reader's function for an exercise, or else the book's, and says in words which one it is and why."""
    name, file = exercise.reference.__name__, f"{own_file.MODULE}.py"
    try:
        function = getattr(own_file.load(), name, None)
    except CannotSaveError as error:
        return exercise.reference, f"the book's, because {file} cannot be imported. {error}"
    imported = (getattr(function, "__module__", None) or "").startswith(
        "glassformer."
    )  # by code that was saved
    if callable(function) and not imported:
        return function, f"yours, from {file}"
    return exercise.reference, f"the book's, until you `keep` yours in {file}"


def _foundations(prose: Prose) -> list[tuple[str, str]]:
    """Lists the reader's own functions that this exercise builds on and that are wrong: they may be the cause."""
    lines = []
    for name in prose.builds_on:
        exercise = find(name)
        function, whose = own_or_the_books(exercise)
        if function is not exercise.reference and attempt(exercise, function, SECONDS).status != RIGHT:
            called = exercise.reference.__name__
            lines.append(
                (
                    "",
                    f'It builds on `{called}` ({whose}), which is not right. Try `check("{name}", {called})`.',
                )
            )
    return lines


def _saved(function: Any, saved: own_file.Saved) -> Panel:
    name, file = function.__name__, f"{own_file.MODULE}.py"
    if saved.status == own_file.DIFFERENT:
        advice = (
            "Lines marked − are in your file, lines marked + in this notebook. "
            f"To replace the one in the file, run `keep({name}, replace=True)`."
        )
        lines = [("", advice)]
        return Panel(f"{file} already has a different `{name}`; nothing was written", lines, code=saved.diff)
    trouble = own_file.trouble()
    wrong = [("✗", trouble)] if trouble else _wrong_in_file(function)
    if saved.status == own_file.SAME:
        return Panel(f"{file} already has this `{name}`", wrong, mood="bad" if wrong else "plain")
    places = "any notebook of the book, or a script in that folder"
    lines = [("", f"To use it in {places}: `from {own_file.MODULE} import {name}`"), *wrong]
    if saved.instead:
        lines.insert(0, ("", f"It replaces {', '.join(f'`{one}`' for one in saved.instead)}"))
    if saved.besides:
        lines.insert(0, ("", "It was saved together with " + ", ".join(f"`{one}`" for one in saved.besides)))
    if saved.copy is not None:
        lines.insert(
            0, ("", f"The file's previous version is in `{saved.copy.parent.name}/{saved.copy.name}`")
        )
    said = "was replaced" if saved.status == own_file.REPLACED else "is now"
    return Panel(f"`{name}` {said} in {_own_file()}", lines, code=saved.diff, mood="bad" if wrong else "good")


def _own_file() -> str:
    """Returns the path of the reader's file from here, as a link, or its whole path if it is elsewhere."""
    path, here = own_file.own_path(), Path.cwd()
    if path.parent not in (here, *here.parents):
        return f"`{path}`"
    near = Path(os.path.relpath(path)).as_posix()
    return f"[{near}]({near})"


def _wrong_in_file(function: Any) -> list[tuple[str, str]]:
    """Describes what is wrong with an accepted function in the file, where a name may mean something else."""
    name = function.__name__
    there: Any = getattr(own_file.load(), name, None)
    for exercise, (accepted, seconds) in _accepted.items():
        outcome = attempt(find(exercise), there, seconds) if accepted is function else None
        if outcome and outcome.status not in (RIGHT, INTERRUPTED):
            now = f"In the file, it is no longer right: {outcome.message}"
            why = (
                "Something that it uses in the file differs from what it used when `check` accepted it. "
                "Fix that in the file,"
            )
            mend = f"or fix it here: run the cell of `{name}` again, `check` it, and `keep({name}, replace=True)`."
            return [("✗", now), ("", f"{why} {mend}")]
    return []


def _prose(name: Any) -> Prose | None:
    """Returns the prose of the exercise with that name, or None."""
    return prose_of(name) if isinstance(name, str) else None


def _state(flags: dict[str, bool]) -> str:
    """Returns one or two words that describe an exercise's marks."""
    state = "done" if flags.get("done") else "tried" if flags.get("tried") else "left"
    return f"{state}, revealed" if flags.get("revealed") else state


def _verdict(exercise: Exercise, outcome: Outcome, foundations: Sequence[tuple[str, str]]) -> Panel:
    name, total, prose = exercise.name, len(exercise.checks), exercise.prose
    if outcome.status == STUB:
        lines = [
            ("", outcome.message),
            ("", f"Until it is right, this notebook uses the book's version. Stuck? {_ask(name)}"),
        ]
        return Panel(f"`{name}`: not attempted yet ({prose.stars}, about {prose.minutes} min)", lines)
    if outcome.status == INTERRUPTED:
        return Panel(f"`{name}`: {outcome.message}")
    titles = [check.title for check in exercise.checks]
    lines = [("✓", title) for title in titles[: outcome.passed]]
    if outcome.status == RIGHT:
        lines += [("", sentence) for sentence in (prose.why, *outcome.aside)]
        return Panel(f"`{name}`: right, all {total} checks pass", lines, mood="good")
    lines.append(("✗", f"{outcome.under or titles[outcome.passed]}: {outcome.message}"))
    lines += [("", sentence) for sentence in outcome.aside]
    left = total - outcome.passed - (not outcome.under)
    if left:
        lines.append(("·", "1 more check follows" if left == 1 else f"{left} more checks follow"))
    lines += foundations
    lines.append(("", f"Until it is right, this notebook uses the book's version. Stuck? {_ask(name)}"))
    return Panel(f"`{name}`: not yet, {outcome.passed} of {total} checks pass", lines, mood="bad")


def _ask(name: str) -> str:
    return f'`hint("{name}")`'


def _here() -> str:
    """Returns the number of the chapter whose notebook this is, or "" if that is not known or has no exercises."""
    found = re.search(r"(?<!\d)\d\d(?!\d)", Path(notebook()).stem)
    return found[0] if found and found[0] in contents.numbers() and of_chapter(found[0]) else ""


def _unknown(name: Any, command: str) -> Panel:
    """Says what exercises can be asked for: all of this notebook's if no name was given, or else close ones."""
    if isinstance(name, str) and not name:
        here = _here()
        if here:
            lines = [("", f'`"{one.name}"`: {one.title}') for one in of_chapter(here).values()]
        else:
            known = {number: of_chapter(number) for number in contents.numbers()}
            lines = [
                ("", f"Chapter {number}: " + ", ".join(f'`"{one}"`' for one in those))
                for number, those in known.items()
                if those
            ]
        return Panel(f"`{command}` needs the name of an exercise, in quotes", lines)
    close = difflib.get_close_matches(name, catalogue(), n=3, cutoff=0.4) if isinstance(name, str) else []
    listed = ", ".join(f'`"{other}"`' for other in close)
    advice = f"Did you mean {listed}?" if close else "`progress()` lists all exercises."
    said = describe(name) if not isinstance(name, str) else f'"{name[:60]}"'
    return Panel(f"There is no exercise called {said}", [("", advice)], mood="bad")


def _not_a_function(exercise: Exercise, value: Any) -> Panel:
    return Panel(
        f"`{exercise.name}`: expected your function, got {describe(value)}",
        [("", "Pass the function itself: its name, without parentheses.")],
        mood="bad",
    )


def _limit(seconds: Any) -> float | None:
    """Returns the number of seconds as a float, or None if it is not a number above 0."""
    if not isinstance(seconds, Real) or isinstance(seconds, bool):
        return None
    limit = float(seconds)
    return limit if limit > 0 else None


def _no_limit(exercise: Exercise, seconds: Any) -> Panel:
    return Panel(
        f"`{exercise.name}`: `seconds` should be a number above 0, got {describe(seconds)}",
        [("", "It limits the time for all checks together; leave it out to get the usual limit.")],
        mood="bad",
    )


def record() -> Record:
    """Returns this kernel's record of progress, which includes the reader's file."""
    return _record


def show(panel: Panel | Table) -> None:
    """Display a panel, and any notices about the record."""
    display(panel)
    for notice in _record.take_notices():
        display(Panel(notice))
