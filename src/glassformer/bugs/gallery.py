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
    """One change to one function, such as `nn.attention.softmax`: where its source has `right`, `wrong`.

    `right` is an expression or a statement in the sense of `pattern.rewrite`; where `wrong` is empty, it is left out.
    """

    function: str
    right: str
    wrong: str

    @property
    def room(self) -> str | None:
        """The room that is changed; None for a function that serves both."""
        first = self.function.split(".")[0]
        return first if first in ROOMS else None


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A classic mistake: what a learner would call it, and what it does.

    The first of the `edits` is the mistake; the others make it wherever else it would have been made. `symptom`
    says what the loss and the text show, `chapter` which chapter builds what it breaks.
    """

    name: str
    title: str
    symptom: str
    edits: tuple[Edit, ...]
    chapter: str = ""

    @property
    def what(self) -> tuple[str, str]:
        """The wrong line, and beside it the right one."""
        return self.edits[0].wrong, self.edits[0].right

    @property
    def rooms(self) -> tuple[str, ...]:
        """The rooms in which it can be made: PyTorch's autograd and optimizers make some impossible there."""
        changed = {edit.room for edit in self.edits}
        return tuple(room for room in ROOMS if room in changed or None in changed)


def read(text: str) -> dict[str, Bug]:
    """The bugs of a gallery, by name; `gallery.toml` says how one is written.

    Raises:
        ValueError: a line of a change is neither one to take out nor one to put in.
        KeyError: a bug lacks its title, its symptom or its change.
    """
    return {
        name: Bug(
            name=name,
            title=entry["title"],
            symptom=" ".join(entry["symptom"].split()),
            chapter=entry.get("chapter", ""),
            edits=tuple(
                edit for function, diff in entry["change"].items() for edit in _edits(function, diff)
            ),
        )
        for name, entry in tomllib.loads(text).items()
    }


def _edits(function: str, diff: str) -> Iterator[Edit]:
    """The changes to a function, in both rooms where it begins with "*", which a blank line divides."""
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


def bug(name: str) -> Bug:
    """The bug of that name.

    Raises:
        ValueError: there is none; the message says which is meant, and lists all there are.
        TypeError: `name` is not a string.
    """
    checks.instance("name", name, str)
    if name not in BUGS:
        near = difflib.get_close_matches(name, BUGS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"name={name!r} is not a known bug.{hint} Known are {', '.join(BUGS)}.")
    return BUGS[name]


BUGS = read(resources.files("glassformer.bugs").joinpath("gallery.toml").read_text(encoding="utf-8"))
