"""Fills facts about the chapters into the book's texts: titles, minutes, counts, lists.

A text in ``book/chapters/`` names a fact in double braces, ``{{ minutes }}``, and the notebook that is made from it
contains the fact itself. Facts come from the chapter's folder in the package (``chapter.toml``, ``exercises.toml``,
``quiz.toml``) and from the list of existing texts, so each is written down only once. A capital letter, as in
``{{ Title }}``, makes a fact begin a sentence. `FACTS` lists the facts for a chapter and its practice.

For the writers of texts, these are more than words:

``# {{ heading }}``
    The first line of a chapter: "04 · Putting order in". A practice has ``# {{ practice heading }}``.
``{{ chapters }}``
    On the first page, rows of a table with four columns (chapter, question, reading time, and the time that its
    practice takes, which is the link to it), grouped by part. The text has the table's head, ``| Chapter | What it
    answers | Reading | Practice |`` and ``| --- | --- | --- | --- |``, on the two lines above it. On a phone, the site
    sets each row as a block of its own; the last row has the totals. In ``_toc.yml``, ``{{ parts }}`` lists the parts
    for the sidebar.
``{{ routes }}``
    On the first page, the ways through the book (book/routes.toml), as a list.
``{{ map }}``
    In any chapter, all chapters as links, each with its question, in a list for each part. A paragraph of its own.
``{{ where to run }}``
    On the first page and in any chapter, a paragraph of its own that begins "**In JupyterLab**, every chapter is a
    notebook." and tells how to open it. tools/shared/where_to_run.py has the words. On the published site it links to
    this very notebook on Binder and to the repository; on a site that was built in a copy of the project, and in
    JupyterLab, it explains ``make lab``. So a text never names Binder, Colab, ``make lab`` or the repository itself.
``{{ practise here }}``
    In any chapter, a sentence of the site that leads to the practice page, or to JupyterLab if the site has no Python
    for that page. On the first page, a sentence if it has. Elsewhere it is nothing.
``{{ JupyterLab }}``
    The word "JupyterLab" inside a sentence. On the published site it is a link to this very notebook on Binder;
    elsewhere it is only the word.

Nobody needs to write links to chapters: "chapter 11" and "chapters 03 and 05" become links
(tools/shared/chapter_links.py).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from glassformer import contents
from glassformer.bugs import before
from glassformer.contents import Chapter, Part
from glassformer.exercises.catalogue import of_chapter
from glassformer.exercises.exercise import Prose
from tools.shared import where_to_run
from tools.shared.routes import routes

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "book" / "chapters"
PLACEHOLDER = re.compile(r"\{\{ +(.+?) +\}\}")
OPEN_END = "Your own GPT, at the end, takes as long as you like and is not counted."
AFTER_ANOTHER = re.compile(r"\banother\s+\Z")
WORDS = [
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip


class UnknownFactError(ValueError):
    """A text uses a fact that is not known there."""


def text(path: Path) -> str:
    """Returns a text of the book with its facts filled in.

    Raises:
        UnknownFactError: it names something that is not known there; the message has file, line, and what is known.
    """
    return fill(path.read_text(encoding="utf-8"), _known_to(path), path.name)


def fill(template: str, known: Mapping[str, Callable[[], str]], where: str) -> str:
    """Returns a template with each placeholder replaced by its fact.

    Args:
        template: the text, with placeholders such as ``{{ minutes }}``.
        known: a function for each name that returns the fact. It is called only if the template uses it.
        where: the name of the text in an error message.

    Raises:
        UnknownFactError: a placeholder names something that is not in `known`.
    """

    def fact(found: re.Match[str]) -> str:
        name = found[1]
        if name in known:
            words = known[name]()
            # "another {{ practice time }}" is "another hour and a half", without the "an" of "an hour and a half".
            return words.removeprefix("an ") if AFTER_ANOTHER.search(template, 0, found.start()) else words
        if name[:1].lower() + name[1:] in known:
            return _begin(known[name[:1].lower() + name[1:]]())
        line = template.count("\n", 0, found.start()) + 1
        raise UnknownFactError(f"{where}, line {line}: {found[0]} is not one of {', '.join(known) or 'none'}")

    return PLACEHOLDER.sub(fact, template)


def counted(number: int, noun: str) -> str:
    """Returns "nine exercises", "one exercise"; digits above twenty."""
    return f"{WORDS[number] if number < len(WORDS) else number} {noun}{'' if number == 1 else 's'}"


def in_words(minutes: int) -> str:
    """Returns a time as a text says it, to the nearest half hour: "two and a half hours"."""
    hours, half = divmod(_half_hours(minutes), 2)
    if minutes < 45:
        return counted(minutes, "minute")
    if hours == 1:
        return "an hour and a half" if half else "an hour"
    return f"{WORDS[hours]} and a half hours" if half else counted(hours, "hour")


def in_figures(minutes: int) -> str:
    """Returns a time as a table says it, to the nearest half hour: "40 min", "2½ hours"."""
    hours, half = divmod(_half_hours(minutes), 2)
    if minutes < 45:
        return f"{minutes} min"
    return "1 hour" if (hours, half) == (1, 0) else f"{hours}{'½' * half} hours"


def written() -> list[Chapter]:
    """Returns the chapters that readers can open, in order."""
    return [one for one in contents.chapters() if one.written]


def text_of(chapter: Chapter) -> Path:
    """Returns the path of a chapter's text."""
    return TEXTS / f"{chapter.name}.md"


def practice_of(chapter: Chapter) -> Path | None:
    """Returns the path of a chapter's practice, or None if it has no practice."""
    path = TEXTS / f"{chapter.practice_name}.md"
    return path if path.exists() else None


def table_of_contents(root: Path | None = None) -> dict:
    """Returns the contents of the site in `root`, or of the project: ``_toc.yml`` with its chapters listed by part."""
    template = ((root or ROOT) / "_toc.yml").read_text(encoding="utf-8")
    return yaml.safe_load(fill(template, {"parts": _contents}, "_toc.yml"))


def _contents() -> str:
    """Returns the site's parts, with their chapters and each practice below its chapter, as items of a YAML list."""
    return "\n".join(
        f"  - {yaml.safe_dump(listed, default_flow_style=True, width=float('inf')).strip()}"
        for part, inside in _parts()
        if (listed := {"caption": part.heading, "chapters": [_entry(one) for one in inside]})
    )


def _entry(chapter: Chapter) -> dict:
    """Returns a chapter's entry in the site's contents."""
    entry: dict = {"file": f"notebooks/{chapter.name}"}
    if practice_of(chapter):
        below = {"file": f"notebooks/{chapter.practice_name}", "title": _practice_link(chapter)}
        entry["sections"] = [below]
    return entry


def _parts() -> Iterator[tuple[Part, list[Chapter]]]:
    """Yields each part with those of its chapters that readers can open, if there are any."""
    for part in contents.parts():
        if inside := [one for one in part.chapters if one.written]:
            yield part, inside


def _practice_link(chapter: Chapter) -> str:
    """Returns what a list below the chapter's title calls its practice: "04 · Practice"."""
    return f"{chapter.number} · Practice"


def _rows() -> str:
    """Returns the first page's rows, by part: each chapter with its question, its time and that of its practice."""
    rows = []
    for part, inside in _parts():
        rows.append(f"| **{part.heading}** | | | |")
        for one in inside:
            time = one.practice_time or in_figures(_practice_minutes(one))
            practice = f"[{time}]({one.practice_name}.ipynb)" if practice_of(one) else ""
            link = f"[{one.heading}]({one.name}.ipynb)"
            rows.append(f"| {link} | {one.question} | {one.minutes} min | {practice} |")
    reading = in_figures(sum(one.minutes or 0 for one in written()))
    practice = in_figures(sum(_practice_minutes(one) for one in written() if practice_of(one)))
    return "\n".join([*rows, f"| **All chapters** | {OPEN_END} | {reading} | {practice} |"])


def _routes() -> str:
    """Returns the ways through the book: what each answers, how long it takes, and its pages.

    The comments, which nobody sees, tell tools/extensions/routes.py which links begin a route.
    """
    text = ""
    for one in routes():
        links = [
            f"[{stop.title}]({_from_index(stop.page)})<!-- route {one.name} --> ({stop.minutes} min)"
            for stop in one.stops
        ]
        first = next(stop for stop in one.stops if stop.page != "notebooks/index")
        link = f"[{one.title}]({_from_index(first.page)})<!-- route {one.name} -->"
        text += f"- **{link}** · {in_figures(one.minutes)}\n\n"
        text += f"  *{one.question}* {one.text}\n\n"
        if 1 < len(links) < len(written()):
            text += f"  The path: {' → '.join(links)}.\n\n"
    return text.strip()


def _from_index(page: str) -> str:
    """Returns the link from the first page to another."""
    return f"{page.removeprefix('notebooks/')}.ipynb" if page.startswith("notebooks/") else f"../{page}.md"


def _map(here: Chapter) -> str:
    """Returns all chapters as links with their questions, a list for each part. The chapter `here` is not a link."""
    lines = []
    for part, inside in _parts():
        lines += ["", f"**{part.heading}**", ""]
        for one in inside:
            name = one.heading if one == here else f"[{one.heading}]({one.name}.ipynb)"
            lines.append(f"- {name}: {one.question}")
    return "\n".join(lines).strip()


# The facts that a chapter's text and its practice can name, and how each is found.
FACTS: dict[str, Callable[[Chapter], str]] = {
    "heading": lambda one: one.heading,
    "practice heading": lambda one: one.practice_heading,
    "title": lambda one: one.title[0].lower() + one.title[1:],
    "question": lambda one: one.question,
    "minutes": lambda one: f"{one.minutes} minutes",
    "exercises": lambda one: counted(len(of_chapter(one.number)), "exercise"),
    "practice": lambda one: _practice(one),
    "practice time": lambda one: one.practice_time or in_words(_practice_minutes(one)),
    "questions": lambda one: counted(len(_quiz(one)["question"]), "question"),
    "mistakes": lambda one: str(len(before(one.number))),
    "map": lambda one: _map(one),
}
# What every text can name.
ANYWHERE: dict[str, Callable[[], str]] = {
    "where to run": where_to_run.in_notebook,
    "JupyterLab": where_to_run.name_in_notebook,
    "practise here": lambda: where_to_run.HERE,
}


def _known_to(path: Path) -> dict[str, Callable[[], str]]:
    """Returns what a text can name: on the first page the chapters, and in a chapter's texts the facts about it."""
    if path.stem == "index":
        return {"chapters": _rows, "routes": _routes} | ANYWHERE
    names = {one: (f"/{one.name}.md", f"/{one.practice_name}.md") for one in contents.chapters()}
    chapter = next((one for one, own in names.items() if path.as_posix().endswith(own)), None)
    if chapter is None:
        return {}
    known: dict[str, Callable[[], str]] = {
        name: lambda find=find: find(chapter) for name, find in FACTS.items()
    } | ANYWHERE
    for place, exercise in enumerate(of_chapter(chapter.number).values(), 1):
        known[f"heading {exercise.name}"] = lambda place=place, exercise=exercise: (
            f"{place} · {exercise.title}"
        )
        known[f"number {exercise.name}"] = lambda place=place: str(place)
        known[f"exercise {exercise.name}"] = lambda exercise=exercise: _prompt(exercise)
    return known


def _prompt(exercise: Prose) -> str:
    """Returns the line below an exercise's heading: its difficulty, time and source, and how to get help."""
    facts = (
        exercise.stars,
        f"{exercise.minutes} minutes",
        exercise.source,
        f'stuck? `hint("{exercise.name}")`',  # tools/extensions/practice.py knows it
    )
    return f"*{' · '.join(facts)}*"


def _practice(chapter: Chapter) -> str:
    """Returns a few words that describe a chapter's practice."""
    count = FACTS["exercises"](chapter)
    return fill(
        chapter.practice or "{{ exercises }}", {"exercises": lambda: count}, f"chapter {chapter.number}"
    )


def _practice_minutes(chapter: Chapter) -> int:
    return sum(exercise.minutes for exercise in of_chapter(chapter.number).values())


def _quiz(chapter: Chapter) -> dict:
    return tomllib.loads((contents.folder(chapter.number) / "quiz.toml").read_text(encoding="utf-8"))


def _half_hours(minutes: int) -> int:
    return (minutes + 15) // 30


def _begin(words: str) -> str:
    return words[:1].upper() + words[1:]
