"""Defines an exercise: the question in words, the book's own answer, the checks, and the classic mistakes."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .expect import expect, expect_error, expect_parts, expect_row, expect_shape, show

Step = Callable[[Callable[..., Any]], None]


@dataclass(frozen=True)
class Prose:
    """The text of an exercise, as in ``chapters/chNN/exercises.toml``.

    Attributes:
        name: what the learner passes to `check`, for example ``positions.sinusoidal``.
        chapter: number of the chapter that it belongs to, "04".
        title: its heading in the practice notebook.
        source: where the idea comes from; Markdown, as the practice notebook has it.
        difficulty: 1 (a line or two), 2 (needs the chapter) or 3 (needs paper).
        minutes: how long a first-time reader takes.
        why: one line that says why the reference works.
        hints: three, each giving away more than the one before.
        mistakes: a sentence for each classic mistake, by the mistake's name.
        builds_on: exercises whose functions this one uses; the practice notebook gets them with `mine`.
    """

    name: str
    chapter: str
    title: str
    source: str
    difficulty: int
    minutes: int
    why: str
    hints: Sequence[str]
    mistakes: Mapping[str, str]
    builds_on: Sequence[str] = ()

    @property
    def stars(self) -> str:
        """The difficulty as one, two or three stars."""
        return "★" * self.difficulty


@dataclass(frozen=True)
class Check:
    """One mechanism of an exercise: each step calls the learner's function, and raises `Wrong` or says nothing.

    `title` is what must hold, in a few words; the learner reads it beside a ✓ or a ✗.
    """

    title: str
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Mistake:
    """A classic wrong answer: its name, what a learner reads who made it, and a function that makes it."""

    name: str
    says: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """One exercise: its prose, and everything that judges an answer.

    A chapter says what is right, mostly a line a check, with `case`, `also`, `refuses` and `shape`, and with
    `check` where one call and one value are not enough. What is right must not come from the reference. And
    it says what goes wrong, once, with `mistake`: when an answer fails a check, the mistakes are put to that
    check too, and the first that fails over the same value is named. List the likelier of two mistakes first.

    Attributes:
        prose: what it says and asks.
        reference: the book's answer; `check` hands it over until the learner's own is right.
        built_on: functions of the package that the reference calls and `reveal` shows with it.
        parts: names of what the answer returns, where that is several things.
        axes: letters of what it returns, "T D"; for each of the parts, where there are several.
        needs: libraries other than NumPy that the exercise is about: ("torch",).
        checks: in teaching order.
        mistakes: in the order in which they are recognised.
    """

    prose: Prose
    reference: Callable[..., Any]
    built_on: tuple[Callable[..., Any], ...] = ()
    parts: tuple[str, ...] = ()
    axes: str | tuple[str, ...] = ""
    needs: tuple[str, ...] = ()
    checks: list[Check] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name that the learner passes to `check`."""
        return self.prose.name

    @property
    def letters(self) -> str:
        """Those of the axes of an answer that is one thing."""
        return self.axes if isinstance(self.axes, str) else ""

    def check(self, title: str) -> Callable[[Step], Step]:
        """Decorate a function that takes the learner's function, to make it this exercise's next check."""

        def add(step: Step) -> Step:
            self.checks.append(Check(title, [step]))
            return step

        return add

    def case(self, title: str, *args: Any, **case: Any) -> None:
        """The next check: the learner's function of these arguments gives what is wanted.

        Args:
            title: the check's.
            *args: the arguments.
            **case: keyword arguments, and what `also` takes.
        """
        self.checks.append(Check(title))
        self.also(*args, **case)

    def also(
        self,
        *args: Any,
        want: Any,
        row: int | None = None,
        part: str = "",
        what: str = "",
        being: str = "",
        advice: str = "",
        axes: str | None = None,
        **kwargs: Any,
    ) -> None:
        """One more call in the check before: the learner's function of these arguments gives `want`.

        Args:
            *args: the arguments; each answer gets fresh copies.
            want: what must come back. Several things, where the exercise has parts and none is chosen.
            row: compare this row alone.
            part: compare this part alone.
            what: names the value, where the call itself does not say it well.
            being: what the right value is, in words: "cos 2".
            advice: a sentence for an answer whose mistake is not recognised.
            axes: letters of the value's axes, where they are not the exercise's own.
            **kwargs: keyword arguments for the learner's function.
        """
        call = what or self._call(args, kwargs)

        def step(learner: Callable[..., Any]) -> None:
            got = learner(*args, **kwargs)
            said = {"being": being, "advice": advice}
            if self.parts:
                letters = (self.axes if axes is None else axes) or [""] * len(self.parts)
                wants = want if not part else [want if name == part else None for name in self.parts]
                for name, value, right, letter in zip(
                    self.parts, expect_parts(got, self.parts), wants, letters, strict=True
                ):
                    if right is not None:
                        expect(value, right, f"{name} of {call}", axes=letter, **said)
            elif row is not None:
                expect_row(got, row, want, call, axes=self.letters if axes is None else axes, **said)
            else:
                expect(got, want, call, axes=self.letters if axes is None else axes, **said)

        self.checks[-1].steps.append(step)

    def shape(self, title: str, *args: Any, want: tuple[int, ...], **kwargs: Any) -> None:
        """The next check: what comes back has this shape."""
        call = self._call(args, kwargs)
        self.check(title)(
            lambda learner: expect_shape(learner(*args, **kwargs), want, call, axes=self.letters)
        )

    def refuses(
        self,
        title: str,
        *args: Any,
        what: str = "",
        names: Sequence[int] = (),
        advice: str = "",
        **kwargs: Any,
    ) -> None:
        """The next check: these arguments raise ValueError, whose message has the numbers in `names`; else `advice`."""
        self.checks.append(Check(title))
        self.also_refuses(*args, what=what, names=names, advice=advice, **kwargs)

    def also_refuses(
        self, *args: Any, what: str = "", names: Sequence[int] = (), advice: str = "", **kwargs: Any
    ) -> None:
        """In the check before: these arguments raise ValueError too."""
        call = what or self._call(args, kwargs)

        def step(learner: Callable[..., Any]) -> None:
            expect_error(lambda: learner(*args, **kwargs), call, names=names, advice=advice)

        self.checks[-1].steps.append(step)

    def mistake(self, name: str, function: Callable[..., Any] | None = None, **letters: str) -> Any:
        """A classic wrong answer. Its sentence is in the prose; `letters` fill its braces. Also decorates."""
        if function is None:
            return lambda function: self.mistake(name, function, **letters)
        says = self.prose.mistakes[name]
        self.mistakes.append(Mistake(name, says.format(**letters) if letters else says, function))
        return function

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The call in words: small whole arrays and numbers as they are, other things by their parameter's name."""
        bound = inspect.signature(self.reference).bind(*args, **kwargs)
        names = [name for name, _ in zip(bound.arguments, args, strict=False)]
        said = [_said(name, value) for name, value in zip(names, args, strict=True)]
        said += [f"{name}={_said(name, value)}" for name, value in kwargs.items()]
        return f"{self.reference.__name__}({', '.join(said)})"


def _said(name: str, value: Any) -> str:
    if isinstance(value, bool | int | float):
        return show(value)
    if isinstance(value, str) and len(value) <= 40:
        return repr(value)
    small = isinstance(value, np.ndarray) and value.size <= 8 and np.array_equal(value, np.round(value))
    return "[" + ", ".join(map(show, value)) + "]" if small and value.ndim == 1 else name
