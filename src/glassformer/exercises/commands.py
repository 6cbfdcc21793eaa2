"""The commands of a practice notebook: check, hint, reveal, progress, keep and mine."""

import difflib
import inspect
from numbers import Real
from typing import Any

from glassformer import contents

from . import own_file
from .attempt import INTERRUPTED, RIGHT, STUB, Outcome, attempt
from .catalogue import catalogue, find, of_chapter
from .catalogue import prose as prose_of
from .exercise import Exercise, Prose
from .expect import describe
from .record import Record
from .source import CannotKeepError
from .verdict import Panel, Table

SECONDS = 5.0

_record = Record()
_hints_given: dict[str, int] = {}
_accepted: dict[str, tuple[Any, float]] = {}  # the last right answer to each exercise here, and its seconds


def exercises() -> list[Exercise]:
    """Every exercise of the book, in order; imports all chapters' checks."""
    return [find(name) for name in catalogue()]


def check(name: Any, function: Any, *, seconds: Any = SECONDS) -> Any:
    """Check your function for the exercise `name`, show the verdict, and hand back a function that works.

    The checks run in teaching order and stop at the first that fails. Whatever your function does (raise,
    exit, loop for ever, change its arguments, return nonsense), this returns: your function if it is right,
    and the book's own if it is not yet, so that the cells below run either way.

    Args:
        name: the exercise, for example ``"positions.sinusoidal"``.
        function: yours, without parentheses: ``check("positions.sinusoidal", sinusoidal)``.
        seconds: how long all checks together may take.
    """
    prose = _prose(name)
    if prose is None:
        show(_unknown(name))
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
        outcome = attempt(exercise, function, limit)
        if outcome.status not in (STUB, INTERRUPTED):
            _record.mark(name, "done" if outcome.status == RIGHT else "tried")
        if outcome.status == RIGHT:
            _accepted[name] = function, limit
        show(_verdict(exercise, outcome))
        return function if outcome.status == RIGHT else exercise.reference
    except KeyboardInterrupt:
        show(
            _verdict(exercise, Outcome(INTERRUPTED, 0, "you interrupted the check, so there is no verdict."))
        )
    except Exception as error:  # a fault of ours must not stop the learner's notebook
        show(Panel(f"`{name}`: the checker itself failed ({type(error).__name__}). That is our mistake."))
    return exercise.reference


def hint(name: Any) -> None:
    """Show the next hint for an exercise; there are three, each giving away more."""
    prose = _prose(name)
    if prose is None:
        return show(_unknown(name))
    name, total = prose.name, len(prose.hints)
    number = min(_hints_given.get(name, 0), total - 1)
    _hints_given[name] = number + 1
    after = f'That was the last one. `reveal("{name}")` shows the answer.' if number + 1 == total else ""
    lines = [("", prose.hints[number]), *([("", after)] if after else [])]
    return show(Panel(f"`{name}`: hint {number + 1} of {total}", lines))


def reveal(name: Any) -> None:
    """Show the book's own answer: its source, and one line on why it works. `progress` remembers."""
    prose = _prose(name)
    if prose is None:
        return show(_unknown(name))
    name, exercise = prose.name, find(prose.name)
    sources = [inspect.getsource(part) for part in (exercise.reference, *exercise.built_on)]
    _record.mark(name, "revealed")
    return show(Panel(f"`{name}`: the book's answer", [("", exercise.prose.why)], code="\n\n".join(sources)))


def progress(chapter: Any = None) -> None:
    """Show what is done, tried, revealed and left, and how many minutes that is.

    Args:
        chapter: the number of one chapter, ``progress("05")``; without it, every chapter that has exercises.
    """
    if chapter is None:
        shown = contents.chapters()
    else:
        asked = str.__str__(chapter) if isinstance(chapter, str) else ""
        try:
            shown = (contents.chapter(asked),)
        except ValueError:
            shown = ()
        if not any(of_chapter(one.number) for one in shown):
            which = f'"{asked[:60]}"' if asked else describe(chapter)
            advice = "`progress()` lists them all."
            return show(Panel(f"There are no exercises for chapter {which}", [("", advice)], mood="bad"))
    marks = _record.load()
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


def keep(function: Any, *, replace: bool = False) -> None:
    """Write a function that `check` accepted into your own file, ``my_transformer.py`` beside the notebooks.

    Imports, helpers and constants that it uses go with it. Everything else in the file stays as you wrote it. If
    there is another function of that name, you are shown what would change, and nothing is written.

    Args:
        function: yours, without parentheses: ``keep(sinusoidal)``.
        replace: write it all the same; the file as it was is kept in ``my_transformer_old``.
    """
    name = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        return show(Panel(f"`keep` expected your function, got {describe(function)}", mood="bad"))
    if not any(function is one for one, _ in _accepted.values()):
        books = str(getattr(function, "__module__", "")).startswith("glassformer.")
        why = (
            "It is the book's own" if books else "`check` has not accepted it since this notebook was started"
        )
        return show(
            Panel(f"`{name}` was not saved", [("", f"{why}. Keep your own function, once it is right.")])
        )
    try:
        return show(_kept(function, own_file.keep(function, replace=replace)))
    except CannotKeepError as error:
        why = str(error)
    except OSError as error:
        why = f"The file could not be written: {error.strerror or type(error).__name__}."
    return show(Panel(f"`{name}` was not saved", [("", why)], mood="bad"))


def mine(name: Any) -> Any:
    """Your own function for the exercise `name`, from ``my_transformer.py``; the book's where you have none."""
    prose = _prose(name)
    if prose is None:
        return show(_unknown(name))
    exercise = find(prose.name)
    function, whose = _own(exercise)
    show(Panel(f"`{exercise.reference.__name__}`: {whose}"))
    return function


def _own(exercise: Exercise) -> tuple[Any, str]:
    """The reader's function for an exercise, or else the book's; and in words which, and why."""
    name, file = exercise.reference.__name__, f"{own_file.MODULE}.py"
    try:
        function = getattr(own_file.load(), name, None)
    except CannotKeepError as error:
        return exercise.reference, f"the book's, because {file} cannot be imported. {error}"
    imported = (getattr(function, "__module__", None) or "").startswith("glassformer.")  # by what was kept
    if callable(function) and not imported:
        return function, f"yours, from {file}"
    return exercise.reference, f"the book's, until you `keep` yours in {file}"


def _foundations(prose: Prose) -> list[tuple[str, str]]:
    """Lists the reader's own functions that this exercise builds on and that are wrong: the cause may be there."""
    lines = []
    for name in prose.builds_on:
        exercise = find(name)
        function, whose = _own(exercise)
        if function is not exercise.reference and attempt(exercise, function, SECONDS).status != RIGHT:
            called = exercise.reference.__name__
            lines.append(
                ("", f'It builds on `{called}` ({whose}), which is not right: `check("{name}", {called})`')
            )
    return lines


def _kept(function: Any, kept: own_file.Kept) -> Panel:
    name, file = function.__name__, f"{own_file.MODULE}.py"
    if kept.status == own_file.DIFFERENT:
        advice = f"− is in your file, + is in this notebook. To replace yours: `keep({name}, replace=True)`"
        lines = [("", advice)]
        return Panel(f"{file} already has a different `{name}`; nothing was written", lines, code=kept.diff)
    trouble = own_file.trouble()
    wrong = [("✗", trouble)] if trouble else _wrong_in_file(function)
    if kept.status == own_file.SAME:
        return Panel(f"{file} already has this `{name}`", wrong, mood="bad" if wrong else "plain")
    lines = [("", f"Use it anywhere beside that file: `from {own_file.MODULE} import {name}`"), *wrong]
    if kept.instead:
        lines.insert(0, ("", f"It replaces {', '.join(f'`{one}`' for one in kept.instead)}"))
    if kept.besides:
        lines.insert(0, ("", "It was saved together with " + ", ".join(f"`{one}`" for one in kept.besides)))
    if kept.copy is not None:
        lines.insert(0, ("", f"The file's previous version is in `{kept.copy.parent.name}/{kept.copy.name}`"))
    said = "was replaced" if kept.status == own_file.REPLACED else "is now"
    return Panel(f"`{name}` {said} in {file}", lines, code=kept.diff, mood="bad" if wrong else "good")


def _wrong_in_file(function: Any) -> list[tuple[str, str]]:
    """Describes how an accepted function is wrong as the file has it: there, a name may mean something else."""
    name = function.__name__
    there: Any = getattr(own_file.load(), name, None)
    for exercise, (accepted, seconds) in _accepted.items():
        outcome = attempt(find(exercise), there, seconds) if accepted is function else None
        if outcome and outcome.status not in (RIGHT, INTERRUPTED):
            now = f"In the file it is no longer right: {outcome.message}"
            why = (
                "Something that it uses in the file differs from what it used when `check` accepted it. "
                "Fix that in the file;"
            )
            mend = f"or fix it here, run the cell of `{name}` again, `check` it, and `keep({name}, replace=True)`."
            return [("✗", now), ("", f"{why} {mend}")]
    return []


def _prose(name: Any) -> Prose | None:
    """What the exercise of that name says, if there is one."""
    return prose_of(str.__str__(name)) if isinstance(name, str) else None


def _state(flags: dict[str, bool]) -> str:
    """One or two words for an exercise's marks."""
    state = "done" if flags.get("done") else "tried" if flags.get("tried") else "left"
    return f"{state}, revealed" if flags.get("revealed") else state


def _verdict(exercise: Exercise, outcome: Outcome) -> Panel:
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
    lines += _foundations(prose)
    lines.append(("", f"Until it is right, this notebook uses the book's version. Stuck? {_ask(name)}"))
    return Panel(f"`{name}`: not yet, {outcome.passed} of {total} checks pass", lines, mood="bad")


def _ask(name: str) -> str:
    return f'`hint("{name}")`'


def _unknown(name: Any) -> Panel:
    name = str.__str__(name) if isinstance(name, str) else name
    close = difflib.get_close_matches(name, catalogue(), n=3, cutoff=0.4) if isinstance(name, str) else []
    listed = ", ".join(f'`"{other}"`' for other in close)
    advice = f"Did you mean {listed}?" if close else "`progress()` lists them all."
    said = describe(name) if not isinstance(name, str) else f'"{name[:60]}"'
    return Panel(f"There is no exercise called {said}", [("", advice)], mood="bad")


def _not_a_function(exercise: Exercise, value: Any) -> Panel:
    return Panel(
        f"`{exercise.name}`: expected your function, got {describe(value)}",
        [("", "Pass the function itself, by its name, without parentheses after it.")],
        mood="bad",
    )


def _limit(seconds: Any) -> float | None:
    """So many seconds, if that is a number above 0."""
    if not isinstance(seconds, Real) or isinstance(seconds, bool):
        return None
    limit = float(seconds)
    return limit if limit > 0 else None


def _no_limit(exercise: Exercise, seconds: Any) -> Panel:
    return Panel(
        f"`{exercise.name}`: `seconds` should be a number above 0, got {describe(seconds)}",
        [("", "It limits how long all checks together may take; leave it out for the usual limit.")],
        mood="bad",
    )


def record() -> Record:
    """Returns this kernel's record, with the reader's file, of what is done."""
    return _record


def display(panel: Panel | Table) -> None:
    """Show a panel below the cell. Judging needs no IPython; showing does."""
    from IPython import display as notebook

    notebook.display(panel)


def show(panel: Panel | Table) -> None:
    """Display it, and whatever there is to say of the record."""
    display(panel)
    for notice in _record.take_notices():
        display(Panel(notice))
