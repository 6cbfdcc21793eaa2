"""Says in panels what the commands of a practice notebook have found: verdicts, hints, answers, progress.

Nothing here judges, reads or writes anything of the reader's.
"""

import difflib
import inspect
import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer import contents
from glassformer.contents import Chapter
from glassformer.error_hints import notebook

from . import own_file
from .attempt import INTERRUPTED, RIGHT, STUB, Outcome
from .catalogue import catalogue, of_chapter
from .exercise import Exercise, Prose
from .expect import describe
from .panel import Panel, Table
from .record import Marks

FILE = f"{own_file.MODULE}.py"


def verdict(
    exercise: Exercise, outcome: Outcome, wrong_foundations: Sequence[tuple[Exercise, str]] = ()
) -> Panel:
    """Returns the verdict on an answer.

    `wrong_foundations` are the exercises to which the reader's function is wrong, and where it is from: it may be the
    cause.
    """
    name, total, prose = exercise.name, len(exercise.checks), exercise.prose
    until = f'Until it is right, this notebook uses the book\'s version. Stuck? `hint("{name}")`'
    if outcome.status == STUB:
        lines = [("", outcome.message), ("", until)]
        return Panel(f"`{name}`: not attempted yet ({prose.stars}, about {prose.minutes} min)", lines)
    if outcome.status == INTERRUPTED:
        return Panel(f"`{name}`: the check was interrupted, so there is no verdict.")
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
    for other, whose in wrong_foundations:
        called = other.reference.__name__
        advice = f'Try `check("{other.name}", {called})`.'
        lines.append(("", f"It builds on `{called}` ({whose}), which is not right. {advice}"))
    lines.append(("", until))
    return Panel(f"`{name}`: not yet, {outcome.passed} of {total} checks pass", lines, mood="bad")


def unknown(name: Any, command: str) -> Panel:
    """Says what exercises can be asked for: all of this notebook's if no name was given, or else close ones."""
    if isinstance(name, str) and not name:
        if here := chapter_here():
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


def chapter_here() -> str:
    """Returns the number of the chapter whose notebook this is, or "" if that is not known or has no exercises."""
    found = re.search(r"(?<!\d)\d\d(?!\d)", Path(notebook()).stem)
    return found[0] if found and found[0] in contents.numbers() and of_chapter(found[0]) else ""


def not_a_function(exercise: Exercise, value: Any) -> Panel:
    """Says that `check` was given something else than a function."""
    advice = "Pass the function itself: its name, without parentheses."
    said = f"`{exercise.name}`: expected your function, got {describe(value)}"
    return Panel(said, [("", advice)], mood="bad")


def no_limit(exercise: Exercise, seconds: Any) -> Panel:
    """Says that the time limit is none."""
    advice = "It limits the time for all checks together; leave it out to get the usual limit."
    said = f"`{exercise.name}`: `seconds` should be a number above 0, got {describe(seconds)}"
    return Panel(said, [("", advice)], mood="bad")


def checker_failed(exercise: Exercise, error: Exception) -> Panel:
    """Says that a mistake of ours stopped the check."""
    kind = type(error).__name__
    return Panel(f"`{exercise.name}`: the checker itself failed ({kind}). That is our mistake.")


def hints(prose: Prose) -> list[Panel]:
    """Returns the panels of an exercise's hints, in order."""
    total = len(prose.hints)
    panels = [
        Panel(f"`{prose.name}`: hint {i + 1} of {total}", [("", said)]) for i, said in enumerate(prose.hints)
    ]
    after = f'That was the last one. `reveal("{prose.name}")` shows the answer.'
    return [*panels[:-1], replace(panels[-1], lines=[*panels[-1].lines, ("", after)])]


def answer(exercise: Exercise) -> Panel:
    """Returns the panel of the book's answer."""
    sources = "\n\n".join(textwrap.dedent(inspect.getsource(part)) for part in exercise.library)
    title = f"`{exercise.name}`: the book's answer"
    more = "How the library does it, with all that it covers", sources
    return Panel(title, [("", exercise.prose.why)], code=exercise.answer, python=True, more=more)


def summary(marks: Marks) -> Panel:
    """Says how much of the book is done, and how long the rest will take."""
    every = catalogue()
    left = [prose.minutes for name, prose in every.items() if not marks.get(name, {}).get("done")]
    said = f"{len(every) - len(left)} of {len(every)} exercises done"
    hours = f"; about {sum(left) / 60:.0f} hours left" if left else ". You have finished the book."
    return Panel(f"{said}{hours}")


def table(chapter: Chapter, marks: Marks) -> Table:
    """Returns the table of a chapter's exercises."""
    listed = list(of_chapter(chapter.number).values())
    rows = [
        (prose.name, prose.title, prose.stars, f"{prose.minutes} min", _state(marks.get(prose.name, {})))
        for prose in listed
    ]
    left = [prose.minutes for prose in listed if not marks.get(prose.name, {}).get("done")]
    closing = f"{len(listed) - len(left)} of {len(listed)} done"
    closing += f"; about {sum(left)} minutes left." if left else ". You have finished the chapter."
    heads = ("exercise", "what it asks", "difficulty", "time", "state")
    return Table(f"Chapter {chapter.number}, {chapter.title}", heads, rows, closing)


def _state(flags: dict[str, bool]) -> str:
    """Returns one or two words that describe an exercise's marks."""
    state = "done" if flags.get("done") else "tried" if flags.get("tried") else "left"
    return f"{state}, revealed" if flags.get("revealed") else state


def no_exercises(chapter: Any) -> Panel:
    """Says that there are no exercises for what `progress` was asked for."""
    which = f'"{chapter[:60]}"' if isinstance(chapter, str) else describe(chapter)
    advice = "`progress()` lists all exercises."
    return Panel(f"There are no exercises for chapter {which}", [("", advice)], mood="bad")


def nothing_to_keep(value: Any) -> Panel:
    """Says that `keep` was given something else than a function."""
    return Panel(f"`keep` expected your function, got {describe(value)}", mood="bad")


def not_accepted(function: Any) -> Panel:
    """Says that `keep` was given a function that `check` has not accepted."""
    why = "`check` has not accepted it since this notebook was started"
    if str(getattr(function, "__module__", "")).startswith("glassformer."):
        why = "This is the book's own function"
    advice = f"{why}. Save your own function with `keep` once it is right."
    return Panel(f"`{function.__name__}` was not saved", [("", advice)])


def not_saved(name: str, why: str) -> Panel:
    """Says why a function could not be saved."""
    return Panel(f"`{name}` was not saved", [("", why)], mood="bad")


def saved(name: str, outcome: own_file.Saved, wrong: Sequence[tuple[str, str]]) -> Panel:
    """Says what became of a function that was to be saved. `wrong` says what is now wrong with it in the file."""
    if outcome.status == own_file.DIFFERENT:
        advice = (
            "Lines marked − are in your file, lines marked + in this notebook. "
            f"To replace the one in the file, run `keep({name}, replace=True)`."
        )
        said = f"{FILE} already has a different `{name}`; nothing was written"
        return Panel(said, [("", advice)], code=outcome.diff)
    if outcome.status == own_file.SAME:
        return Panel(f"{FILE} already has this `{name}`", wrong, mood="bad" if wrong else "plain")
    lines = []
    if outcome.copy is not None:
        copy = f"{outcome.copy.parent.name}/{outcome.copy.name}"
        lines.append(("", f"The file's previous version is in `{copy}`"))
    if outcome.besides:
        lines.append(("", "It was saved together with " + ", ".join(f"`{one}`" for one in outcome.besides)))
    if outcome.instead:
        lines.append(("", f"It replaces {', '.join(f'`{one}`' for one in outcome.instead)}"))
    places = "any notebook of the book, or a script in that folder"
    lines += [("", f"To use it in {places}: `from {own_file.MODULE} import {name}`"), *wrong]
    said = "was replaced" if outcome.status == own_file.REPLACED else "is now"
    mood = "bad" if wrong else "good"
    return Panel(f"`{name}` {said} in {_own_file()}", lines, code=outcome.diff, mood=mood)


def _own_file() -> str:
    """Returns the path of the reader's file from here, as a link, or its whole path if it is elsewhere."""
    path, here = own_file.own_path(), Path.cwd()
    if path.parent not in (here, *here.parents):
        return f"`{path}`"
    near = Path(os.path.relpath(path)).as_posix()
    return f"[{near}]({near})"


def wrong_in_file(name: str, message: str) -> list[tuple[str, str]]:
    """Says that a function is wrong in the file, where a name may mean something else."""
    why = (
        "Something that it uses in the file differs from what it used when `check` accepted it. "
        "Fix that in the file,"
    )
    mend = f"or fix it here: run the cell of `{name}` again, `check` it, and `keep({name}, replace=True)`."
    return [("✗", f"In the file, it is no longer right: {message}"), ("", f"{why} {mend}")]
