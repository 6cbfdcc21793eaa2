"""The capstone's commands: start, check and hint; `card` and `built` look back at what was made."""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.contents import chapter
from glassformer.exercises import own_file
from glassformer.exercises.commands import record, show
from glassformer.exercises.expect import describe
from glassformer.exercises.output import display_if_late, one_by_one
from glassformer.exercises.panel import Panel, Table
from glassformer.exercises.source import CannotSaveError

from .judge import INTERRUPTED, OPEN, RIGHT, SECONDS, WRONG, Verdict, judge
from .report import NOT_SHOWN, beside, parts
from .stages import STAGES
from .template import adapter_source
from .weights import names, parts_of_kinds
from .words import mistakes, pieces, words_under

STAR = "shipped"
EMPTY = ", so you begin with an empty adapter."
WHOLE = "It reads, it learns, it writes. You can do it alone."
INSIDE = ("embedding", "attention", "block")  # what may lie inside a larger module, with no name of its own

_hints_given: dict[str, int] = {}
_made_before: set[tuple[str, str]] = set()  # (stage, mistake): what to write instead is told the second time


def start() -> None:
    """Put an adapter into the next cell, filled in with the functions of your own file if you have one."""
    panel = filled_adapter()
    if panel.mood == "bad":
        return show(panel)
    lines = [*panel.lines]
    from IPython import get_ipython  # only a notebook needs it

    shell = get_ipython()
    if shell is not None and hasattr(shell, "kernel"):
        shell.set_next_input(panel.code)
        lines.append(("", "You find it in the next cell, and can change it as you like."))
    return show(replace(panel, lines=[*lines, ("", "`capstone.rules()` lists what you may import.")]))


def filled_adapter() -> Panel:
    """Returns a panel with the code of an adapter: empty, or filled in with the functions of the reader's own file.

    Its mood is "bad" if there is a file that cannot be imported.
    """
    try:
        module = own_file.load()
    except CannotSaveError as error:
        said = f"{own_file.MODULE}.py cannot be imported as it is now. {error}"
        return Panel("Your adapter is empty", [("", said)], code=adapter_source([]), mood="bad")
    names = [name for name in vars(module) if callable(getattr(module, name))] if module else []
    filled = [name for name, piece in pieces().items() if set(piece.uses) <= set(names)]
    if filled:
        listed = ", ".join(f"`{name}`" for name in filled)
        said = f"With your own functions from {own_file.MODULE}.py: {listed}."
    elif any(not name.startswith("_") for name in names):
        said = f"The functions in {own_file.MODULE}.py do not make a whole piece yet{EMPTY}"
    else:
        said = f"There is nothing of yours in {own_file.MODULE}.py{EMPTY}"
    left = ", ".join(f"`{name}`" for name in pieces() if name not in filled)
    lines = [("", said)] + ([("", f"Left to you: {left}.")] if filled and left else [])
    return Panel("Your adapter", lines, code=adapter_source(names))


def check(stage: Any = None, adapter: Any = None, *, seconds: float = SECONDS, remember: bool = True) -> None:
    """Judge your GPT by what it does, and show what is right and what is not yet. What is done is remembered.

    `capstone.check("attention", Mine)` looks at one stage, check by check; `capstone.check(Mine)` at all.

    Args:
        stage: "tokenizer", "embedding", "attention", "block", "model", "loss", "training", "generation", "cache",
            "weights" or "shipped".
        adapter: yours. A class is best, because each stage then makes a fresh one.
        seconds: how long a stage may take. A single call of your code may take 20 seconds, or in proportion longer.
        remember: whether stages that are right count as done from now on, and mistakes as made before. Use False
            for what is not yours.
    """
    if isinstance(adapter, str) or (adapter is None and not isinstance(stage, str)):
        stage, adapter = adapter, stage
    if stage is not None and (not isinstance(stage, str) or stage not in STAGES):
        return show(_no_stage(stage))
    if adapter is None or isinstance(adapter, str | bytes | int | float):
        said = f"`capstone.check` expected your adapter, got {describe(adapter)}"
        return show(Panel(said, [("", "Pass the class itself: `capstone.check(Mine)`.")], mood="bad"))
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return show(Panel(f"`seconds` should be a number above 0; yours is {describe(seconds)}", mood="bad"))
    if stage is not None:
        verdict = judge(adapter, stage, seconds, if_late=lambda late: display_if_late(_one(late)))
        return show(_one(_remembered(verdict) if remember else verdict))
    done = _done() if remember else []
    verdicts: list[Verdict] = []
    for name in one_by_one(STAGES):
        hung = [one.hung for one in verdicts if one.hung]
        if_late = lambda late: display_if_late(_all([*verdicts, late], done))  # noqa: E731 - it belongs to the loop
        verdict = judge(adapter, name, seconds, hung, if_late)
        verdicts.append(_remembered(verdict) if remember else verdict)
        if verdict.status == INTERRUPTED:
            break
    panel = _all(verdicts, _done() if remember else [])
    show(panel)
    return built(adapter) if panel.lines and panel.lines[-1][1] == WHOLE else None


def hint(stage: Any = "") -> None:
    """Show the next hint for a stage. There are three, and each gives away more."""
    if not isinstance(stage, str) or stage not in STAGES:
        return show(_no_stage(stage))
    panels = hints(stage)
    given = min(_hints_given.get(stage, 0), len(panels) - 1)
    _hints_given[stage] = given + 1
    return show(panels[given])


def hints(stage: str) -> list[Panel]:
    """Returns the panels of a stage's hints, in order."""
    said = STAGES[stage].words.hints
    return [Panel(f"`{stage}`: hint {i} of {len(said)}", [("", one)]) for i, one in enumerate(said, 1)]


def rules() -> None:
    """Show what you may import, and what has to be your own."""
    return show(rules_panel())


def rules_panel() -> Panel:
    """Returns what `rules` shows."""
    return Panel(words_under("rules")["title"], [("·", line) for line in words_under("rules")["lines"]])


def kinds() -> None:
    """Show the kinds of models that `load` may be given: their parts, and the names and shapes of their weights."""
    heads, rows = parts_of_kinds()
    show(Table("The models that `load` may be given", heads, rows))
    heads, rows = names()
    return show(
        Table("Their weights: names and shapes", heads, rows, "A matrix is used as x @ W: (in, out).")
    )


def card(folder: str | Path) -> None:
    """Show a run of your own next to the book's model: sizes, losses, what guessing costs, and what each writes.

    Args:
        folder: of the run, such as "runs/mine", made with `python -m glassformer train` or a `Trainer`.
    """
    try:
        table, mine, theirs = beside(Path(folder))
    except (ValueError, TypeError, OSError) as error:
        return show(Panel(f"There is no card of {str(folder)!r}", [("", str(error))], mood="bad"))
    show(table)
    show(Panel("What yours writes", code=mine))
    return show(Panel("What the book's model writes", code=theirs))


def built(adapter: Any) -> None:
    """Show what you built, part by part, with how many lines of your own ran, next to GPT-2."""
    display_if_late(NOT_SHOWN)
    return show(parts(adapter, _done()))


def _done() -> list[str]:
    """Returns the stages that have been right at some time."""
    marks = record().load()
    return [name for name in STAGES if marks.get(f"capstone.{name}", {}).get("done")]


def _remembered(verdict: Verdict) -> Verdict:
    """Notes a verdict in the reader's record; returns it with what to write instead if the mistake was made before."""
    if verdict.status in (RIGHT, WRONG):
        record().mark(f"capstone.{verdict.stage}", "done" if verdict.status == RIGHT else "tried")
    known, key = mistakes().get(verdict.mistake), (verdict.stage, verdict.mistake)
    if known is None:
        return verdict
    again = key in _made_before
    _made_before.add(key)
    return replace(verdict, aside=(f"Try this: {known.instead}", *verdict.aside)) if again else verdict


def number(stage: str) -> str:
    """Returns a stage's number as readers see it."""
    return "★" if stage == STAR else f"{list(STAGES).index(stage) + 1}"


def _link(number: str) -> str:
    """Returns a chapter's title as a link from the notebook."""
    here = "../" if Path.cwd().name == "exercises" else ""
    return f"[Chapter {number}, {chapter(number).title}]({here}{chapter(number).name}.ipynb)"


def _failure(verdict: Verdict) -> list[tuple[str, str]]:
    """Returns the lines that tell what failed, and where to read."""
    checks = STAGES[verdict.stage].checks
    title = checks[min(verdict.passed, len(checks) - 1)][0]
    lines = [("✗", verdict.message if verdict.hung else f"{title}: {verdict.message}")]
    lines += [("", sentence) for sentence in verdict.aside]
    if verdict.mistake == "borrowed":
        return lines
    return [*lines, ("", f"{_link(verdict.chapter)} has the idea.")]


def _may_stay_out(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Returns lines about those of these stages that need not be right: such code may lie inside a larger module."""
    lines = []
    for status, said in (
        (OPEN, "({} may stay open: such code often lies inside something larger, where nothing can call it by "
         "itself.)"),
        (WRONG, "(If your code for {} is part of something larger, or does more than is asked for here, you may leave "
         "it out of the adapter.)"),
    ):  # fmt: skip
        listed = " and ".join(f"`{v.stage}`" for v in verdicts if v.stage in INSIDE and v.status == status)
        lines += [("", said.format(listed))] if listed else []
    return lines


def _unseen(verdict: Verdict) -> dict[str, tuple[str, str]]:
    """Returns a line for each check that had nothing to look at, by its title."""
    return {title: ("·", f"{title}: not looked at, because {why}") for title, why in verdict.unseen.items()}


def _one(verdict: Verdict) -> Panel:
    """Returns the panel of one stage, check by check."""
    name, checks, words = verdict.stage, STAGES[verdict.stage].checks, STAGES[verdict.stage].words
    unseen = _unseen(verdict)
    lines = [unseen.get(title, ("✓", title)) for title, _ in checks[: verdict.passed]]
    if verdict.status == RIGHT:
        lines += [("", words.why), *(("→", remark) for remark in verdict.remarks)]
        return Panel(f"`{name}`: {words.title}", lines, mood="good")
    if verdict.status == INTERRUPTED:
        return Panel(f"`{name}`: {verdict.message}", lines)
    title, mood = f"`{name}`: not there yet", "plain"
    if verdict.status == OPEN:
        needs = ", ".join(f"`{pieces()[piece].call.replace('self, ', '')}`" for piece in words.needs)
        lines += [("·", verdict.message), ("", f"This stage looks at {needs}.")]
    else:
        title, mood = f"`{name}`: {verdict.passed} of {len(checks)} checks pass", "bad"
        lines += _failure(verdict)
        left = len(checks) - verdict.passed - 1
        if left:
            lines.append(("·", "1 more check follows" if left == 1 else f"{left} more checks follow"))
    lines += [*_may_stay_out([verdict]), ("", f'Stuck? `capstone.hint("{name}")`')]
    return Panel(title, lines, mood=mood)


def _all(verdicts: Sequence[Verdict], done: list[str]) -> Panel:
    """Returns the panel of all stages, with the reason for each failure. `done`: those that have been right before."""
    lines: list[tuple[str, str]] = []
    for one in verdicts:
        said = f"{number(one.stage)} · `{one.stage}`: {STAGES[one.stage].words.title}"
        if one.status == RIGHT:
            lines += [("✓", said), *_unseen(one).values(), *[("→", remark) for remark in one.remarks]]
        elif one.status == WRONG:
            again = " (It was right before.)" if one.stage in done else ""
            lines += [("✗", f"{said}{again}"), *[("↳", line) for _, line in _failure(one)]]
        elif one.status == INTERRUPTED:
            lines.append(("·", f"{said}: {one.message}"))
        else:
            lacks = one.message.removeprefix("your adapter has ")
            before = ("✓", f"{said} (done before; not looked at now: {lacks})")
            lines.append(before if one.stage in done else ("·", f"{said}: {lacks}"))
    stages = [one for one in verdicts if one.stage != STAR]
    right = [one for one in stages if one.status == RIGHT or (one.status == OPEN and one.stage in done)]
    star = " and the star" if any(one.stage == STAR and one.status == RIGHT for one in verdicts) else ""
    left = [one for one in stages if one not in right]
    whole = bool(right) and all(one.status == OPEN and one.stage in INSIDE for one in left)
    mood = "bad" if any(one.status == WRONG for one in verdicts) else "good" if whole else "plain"
    if any(one.stage == "model" for one in right):
        lines += _may_stay_out(left)
    if whole and len(verdicts) == len(STAGES):
        lines.append(("", WHOLE))
    return Panel(f"Your GPT: {len(right)} of {len(STAGES) - 1} stages{star}", lines, mood=mood)


def _no_stage(name: Any) -> Panel:
    close = difflib.get_close_matches(name, STAGES, n=2, cutoff=0.4) if isinstance(name, str) else []
    listed = ", ".join(f'`"{one}"`' for one in close or STAGES)
    if name == "":
        return Panel("`capstone.hint` needs the name of a stage, in quotes", [("", f"Stages: {listed}.")])
    said = f'"{name[:40]}"' if isinstance(name, str) else describe(name)
    return Panel(f"There is no stage called {said}", [("", f"Stages: {listed}.")], mood="bad")
