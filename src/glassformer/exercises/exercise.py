"""What an exercise is: a task, three hints, the book's own answer, and the checks that teach it."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Check:
    """One mechanism of an exercise, and the function that raises `Wrong` when it is not there.

    Attributes:
        title: what must hold, in a few words; the learner reads it beside a ✓ or a ✗.
        function: takes the learner's function and calls it; says nothing when all is well.
    """

    title: str
    function: Callable[..., None]


@dataclass(frozen=True)
class Exercise:
    """One exercise. Its prompt is in the chapter's practice notebook; everything that judges it is here.

    Attributes:
        name: what the learner passes to `check`, for example ``positions.sinusoidal``.
        chapter: number of the chapter that it belongs to.
        title: its heading in the practice notebook.
        source: where the idea comes from.
        difficulty: 1 (a line or two), 2 (needs the chapter) or 3 (needs paper).
        minutes: how long a first-time reader takes.
        hints: three, each giving away more than the one before.
        reference: the book's answer; `check` hands it over until the learner's own is right.
        why: one line that says why the reference works.
        built_on: functions of the package that the reference calls and `reveal` shows with it.
        checks: in teaching order; add to them with `check`.
    """

    name: str
    chapter: int
    title: str
    source: str
    difficulty: int
    minutes: int
    hints: tuple[str, str, str]
    reference: Callable
    why: str
    built_on: tuple[Callable, ...] = ()
    checks: list[Check] = field(default_factory=list)

    def check(self, title: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Decorate a function that takes the learner's function, to make it this exercise's next check."""

        def add(function: Callable[..., None]) -> Callable[..., None]:
            self.checks.append(Check(title, function))
            return function

        return add

    @property
    def stars(self) -> str:
        """The difficulty as one, two or three stars."""
        return "★" * self.difficulty
