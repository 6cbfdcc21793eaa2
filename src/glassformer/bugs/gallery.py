"""The gallery's mistakes, with their titles, their symptoms and the lines that make them."""

import difflib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from glassformer import _checks as checks

ROOMS = ("scratch", "nn")


@dataclass(frozen=True)
class Edit:
    """One change to one function, such as `nn.attention.softmax`: replaces `right` in its source by `wrong`.

    `right` is an expression or a statement in the sense of `pattern.rewrite`; if `wrong` is empty, it is
    removed.
    """

    function: str
    right: str
    wrong: str

    @property
    def room(self) -> str | None:
        """Returns the room that is changed, or None for a function that serves both."""
        first = self.function.split(".")[0]
        return first if first in ROOMS else None


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A classic mistake: its name in a learner's words, and its effects.

    The first of the `edits` is the mistake; the others make the same mistake everywhere else it would occur.
    `symptom` describes what the loss and the text show, and `chapter` is the chapter that builds the broken
    part. `caught_by` names the cheapest of chapter 14's tests, where the models that it tests lack that part.
    """

    name: str
    title: str
    symptom: str
    edits: tuple[Edit, ...]
    chapter: str = ""
    caught_by: str = ""

    @property
    def what(self) -> tuple[str, str]:
        """Returns the wrong line next to the correct one."""
        return self.edits[0].wrong, self.edits[0].right

    @property
    def rooms(self) -> tuple[str, ...]:
        """Returns the rooms where it can occur; PyTorch's autograd and optimizers rule some mistakes out."""
        changed = {edit.room for edit in self.edits}
        return tuple(room for room in ROOMS if room in changed or None in changed)


def read(text: str) -> dict[str, Bug]:
    """Returns the bugs of a gallery by name; `gallery.toml` explains the format.

    Raises:
        ValueError: a line of a change is neither removed nor added.
        KeyError: a bug lacks its title, its symptom or its change.
    """
    return {
        name: Bug(
            name=name,
            title=entry["title"],
            symptom=" ".join(entry["symptom"].split()),
            chapter=entry.get("chapter", ""),
            caught_by=entry.get("caught_by", ""),
            edits=tuple(
                edit for function, diff in entry["change"].items() for edit in _edits(function, diff)
            ),
        )
        for name, entry in tomllib.loads(text).items()
    }


def _edits(function: str, diff: str) -> Iterator[Edit]:
    """Yields a function's changes, separated by blank lines; a name that begins with "*" stands for both rooms."""
    for change in diff.strip().split("\n\n"):
        lines: dict[str, list[str]] = {"- ": [], "+ ": []}
        for line in change.splitlines():
            if line[:2] not in lines:
                raise ValueError(
                    f"the change of {function} has {line!r}, which begins with neither '- ' nor '+ '"
                )
            lines[line[:2]].append(line[2:])
        right, wrong = map("\n".join, lines.values())
        for room in ROOMS if function.startswith("*") else ("",):
            yield Edit(function.replace("*", room), right, wrong)


def before(chapter: str) -> dict[str, Bug]:
    """Returns the bugs in what the chapters before that one build, such as "14", by name."""
    return {name: it for name, it in BUGS.items() if it.chapter < chapter}


def bug(name: str) -> Bug:
    """Returns the bug of that name.

    Raises:
        ValueError: there is no such bug; the message suggests a name and lists all.
        TypeError: `name` is not a string.
    """
    checks.instance("name", name, str)
    if name not in BUGS:
        near = difflib.get_close_matches(name, BUGS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"name={name!r} is not a known bug.{hint} Known are {', '.join(BUGS)}.")
    return BUGS[name]


BUGS = read(resources.files("glassformer.bugs").joinpath("gallery.toml").read_text(encoding="utf-8"))
